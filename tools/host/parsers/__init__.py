"""Text of probes, logs and pasted material to facts with unit and source line.

No command is run here and nothing is judged: what a value means for the server stands in tools/diagnosis. `parse` takes
any text (bad bytes, cut lines, ten megabytes) and raises nothing; lines it does not know are left alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from tools.host.parsers import journal, table
from tools.host.parsers.lines import plain, without_usage
from tools.host.parsers.load import Point
from tools.host.parsers.page import Page
from transcripts.facts import Evidence, Fact

__all__ = ["Point", "parse", "parse_stream", "series"]

_LOG = logging.getLogger(__name__)


def parse(evidence: Evidence) -> tuple[Fact, ...]:
    """All facts of one evidence, each with `E5:88` as its source; the same value of the same line comes once."""
    found: list[Fact] = []
    if evidence.problem:
        page = Page(evidence.id)
        page.add("probe_problem", evidence.problem, 0, scope=evidence.probe)
        found += page.facts
    text = without_usage(evidence.text)
    if text:
        found += _read(replace(evidence, text=plain(text) if table.kind_of(evidence) in table.PASTED else text))
    return tuple(dict.fromkeys(found))


def parse_stream(lines: Iterable[str], evidence_id: str = "E1") -> tuple[Fact, ...]:
    """Facts of a log that is too large to hold: only figures are kept, never lines."""
    return journal.read(lines).facts(evidence_id)


def series(evidence: Evidence) -> tuple[Point, ...]:
    """Prefill, Decode and retraction lines of a log as points in time, for pictures; empty for other evidence."""
    if table.kind_of(evidence) not in table.JOURNALS | table.PASTED:
        return ()
    return _journal_of(evidence.text).points()


def _read(evidence: Evidence) -> list[Fact]:
    found: list[Fact] = []
    kind = table.kind_of(evidence)
    log, pasted = kind in table.JOURNALS, kind in table.PASTED
    parsers = list(table.recognised(evidence.text) if pasted else table.PARSERS.get(kind, ()))
    if log:
        parsers.append(_journal)
    if pasted:
        parsers += [_journal_of_now, _counted, _incident_without_commands]
    elif log or kind in table.PROSE or kind == "kernel_log":
        parsers.append(_incident)
    for parser in parsers:
        page = Page(evidence.id)
        try:
            parser(page, evidence)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError):
            _LOG.warning("%s: %s could not be read whole", evidence.id, evidence.probe)
            _LOG.debug("what stopped it", exc_info=True)
        found += page.facts
    return found


def _journal(page: Page, evidence: Evidence) -> None:
    page.extend(_journal_of(evidence.text).facts(evidence.id))


def _journal_of_now(page: Page, evidence: Evidence) -> None:
    from tools.host.parsers.incident.former import without_former

    _journal(page, replace(evidence, text=without_former(evidence.text)))


@lru_cache(maxsize=4)
def _journal_of(text: str) -> journal.Journal:
    """Read once for the facts and once more for the pictures, a long log costs twice its seconds."""
    return journal.read(text.splitlines())


def _counted(page: Page, evidence: Evidence) -> None:
    from tools.host.parsers.incident.shell import read_counts

    read_counts(page, evidence.text)


def _incident_without_commands(page: Page, evidence: Evidence) -> None:
    from tools.host.parsers.incident.shell import without_commands

    _incident(page, replace(evidence, text=without_commands(evidence.text)))


def _incident(page: Page, evidence: Evidence) -> None:
    from tools.host.parsers.incident import parse_text  # here, since it needs this package's pages

    page.extend(parse_text(evidence))
