"""The write-up as sections of plain blocks, in the order a team reads them on Monday.

Built from the document alone, without clock, locale or terminal: same document, same sections. Markdown and HTML
(`markdown.py`, `html.py`) only dress the blocks. What each section says stands in `sections/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from agent.views.first import headline
from agent.views.sections import after, appendix, before, middle
from agent.views.sections.blocks import Block, Section

Json = dict[str, Any]
_SECTIONS: tuple[tuple[str, Callable[[Json], Iterator[Block]]], ...] = (
    ("Summary", before.summary),
    ("Impact", before.impact),
    ("Timeline", before.timeline),
    ("What one must know to follow this", before.background),
    ("What was asked, what was believed, what was the question", before.framing),
    ("Evidence", middle.evidence),
    ("Hypotheses: kept or dropped, and why", middle.hypotheses),
    ("Assumptions, and whether they were verified", middle.assumptions),
    ("What was wrong or is left open", middle.left_open),
    ("Options", middle.options),
    ("Decision", after.decision),
    ("What is known now that was not before", after.known),
    ("The change", after.change),
    ("Verification and rollback", after.verification),
    ("Follow-ups", after.follow_ups),
    ("Appendix: commands run", appendix.commands),
    ("Appendix: lines of evidence", appendix.lines),
    ("Appendix: citations", appendix.citations),
)


def title(document: Json) -> str:
    """`gpu1: the pool has room; ...`: the host and the verdict."""
    return f"{document['target']['host'] or 'SGLang server'}: {headline(document).rstrip('.')}"


def sections(document: Json) -> list[Section]:
    """Every section that has something to say."""
    made = [Section(name, list(told(document))) for name, told in _SECTIONS]
    return [section for section in made if section.blocks]


def targets(document: Json) -> frozenset[str]:
    """Ids that a reference can lead to: evidence, single lines of it that are quoted, citations."""
    ids = [item["id"] for item in (*document["evidence"], *document["citations"])]
    return frozenset([*ids, *document["quoted"]])


def target(reference: str, known: frozenset[str]) -> str:
    """The anchor of a reference, `e5-88` or `e5`; empty where this document has none."""
    name = reference.partition(":")[0]
    found = reference if reference in known else name if name in known else ""
    return anchor(found)


def anchor(identity: str) -> str:
    """The id of a heading that `E5:88` or `S1` leads to."""
    return identity.lower().replace(":", "-")
