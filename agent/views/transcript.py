"""The conversation of a session or task, record by record: what was said, called, found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from agent.views.layout import Line, Page, paragraph
from agent.views.words import plural, wording
from transcripts.records import (
    Advised,
    Claimed,
    Compared,
    Concluded,
    Damaged,
    Ended,
    EvidenceTaken,
    Forked,
    Located,
    Note,
    Opened,
    Record,
    Repaired,
    Replied,
    Reported,
    Resumed,
    Reworded,
    Said,
    Shortened,
    TaskChanged,
    Weighed,
)

Kind = Literal["said", "step", "look"]
BODY_LINES: Final = 12


@dataclass(frozen=True, slots=True)
class Entry:
    """One step: who or what, a heading, and the text that a viewer may fold away; what was `said` stays open.

    `inside`: of a task, its own conversation.
    """

    at: str
    who: str
    heading: str
    body: str = ""
    kind: Kind = "step"
    inside: tuple[Entry, ...] = ()


def entries(records: Iterable[Record], tasks: Mapping[str, Iterable[Record]] | None = None) -> Iterator[Entry]:
    """Every record a reader would miss if it were left out, in order; `tasks` stand inside their last one."""
    called: dict[str, str] = {}
    records = list(records)
    last = {record.id: place for place, record in enumerate(records) if isinstance(record, TaskChanged)}
    for place, record in enumerate(records):
        if isinstance(record, Replied):
            called.update({call.id: call.name for call in record.calls})
        found = _entry(record, called)
        if found is not None and isinstance(record, TaskChanged) and last[record.id] == place:
            found = replace(found, inside=tuple(entries((tasks or {}).get(record.id, ()))))
        if found is not None:
            yield found


def _entry(record: Record, called: dict[str, str]) -> Entry | None:
    at = record.at
    match record:
        case Opened():
            return Entry(at, "operator" if record.role == "session" else "task", record.text, kind="said")
        case Said():
            return Entry(at, "operator", record.text, kind="said")
        case Concluded():
            return Entry(at, "answer", record.reason or f"exit {record.exit}", record.text, "said")
        case Replied():
            counted = Counter(call.name for call in record.calls)
            names = ", ".join(name if times == 1 else f"{name} ({times} times)" for name, times in counted.items())
            arguments = "\n".join(f"{call.name} {call.arguments}" for call in record.calls)
            heading = f"calls {names}" if names else "answers"
            return Entry(at, record.model or "model", heading, "\n".join(filter(None, (record.text, arguments))))
        case Ended():
            return Entry(at, called.get(record.call, "tool"), record.status, record.text)
        case EvidenceTaken():
            heading = f"{record.id} {record.probe} {record.problem}".rstrip()
            return Entry(at, record.host, heading, f"{record.command}\n{record.text}", "look")
        case Reported():
            findings = "\n".join(f"{finding.subject}: {finding.text}" for finding in record.findings)
            return Entry(at, record.task, plural(len(record.findings), "finding"), findings)
        case TaskChanged():
            return Entry(at, "task", f"{record.id} {record.status} {record.description}".rstrip())
        case _:
            return _state(record)


def _state(record: Record) -> Entry | None:
    at = record.at
    match record:
        case Weighed():
            rows = "\n".join(f"{row.label}: {row.status} {row.weight:+.1f}" for row in record.hypotheses)
            return Entry(at, "weighed", f"{record.kind} {record.label}".rstrip(), rows)
        case Claimed():
            rows = "\n".join(f"{claim.text}: {claim.verdict}: {claim.why}" for claim in record.claims)
            return Entry(at, "claims", f"{plural(len(record.claims), 'claim')} judged", rows)
        case Located():
            return Entry(at, "source", f"{record.origin} {record.version} sha256:{record.digest[:16]}")
        case Compared():
            return Entry(
                at, "compared", plural(len(record.options), "option"), "\n".join(o["name"] for o in record.options)
            )
        case Advised():
            rows = "\n".join(f"{each['flag']}: {each['to']}" for each in record.changes)
            return Entry(at, "advised", f"{plural(len(record.changes), 'change')}, {len(record.refused)} refused", rows)
        case Reworded():
            rows = "\n".join(f"{row.refused or 'taken'}: {row.text}\nin the place of: {row.was}" for row in record.rows)
            return Entry(at, "write-up", wording(record), rows)
        case Repaired():
            return Entry(at, "repaired", f"{record.torn_bytes} bytes of a record that was never finished were cut off")
        case Damaged() | Note():
            return Entry(at, record.type, record.text)
        case Resumed():
            return Entry(at, "operator", f"goes on with: {record.text}")
        case Forked():
            return Entry(at, "forked", f"from {record.session} up to its record {record.upto}")
        case Shortened():
            return Entry(at, "shortened", "the conversation goes on from this text", record.text)
        case _:
            return None


def terminal(records: Iterable[Record], body_lines: int = BODY_LINES) -> Page:
    """For a terminal: headings, and the first lines of each body; of an answer all of it."""
    told = list(entries(records))

    def make(width: int) -> Iterator[Line]:
        for entry in told:
            style = "bold" if entry.kind == "said" else ""
            yield from paragraph(f"{entry.at[11:19]} {entry.who}: {entry.heading}", width, 0, 2, style, cut_words=True)
            lines = entry.body.splitlines()
            shown = lines if entry.kind == "said" else lines[:body_lines]
            for line in shown:
                yield from paragraph(line, width, 4, 2, cut_words=True)
            if len(lines) > len(shown):
                yield Line(f"    … {len(lines) - len(shown)} more lines", "dim")

    return Page(make)
