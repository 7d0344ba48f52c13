"""The write-up as sections of plain blocks, in the order a team reads them on Monday.

Built from the document alone, without clock, locale or terminal: same document, same sections. Markdown and HTML
(`markdown.py`, `html.py`) only dress the blocks. What each section says stands in `sections/`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from agent.views.first import headline
from agent.views.sections import after, appendix, before, middle
from agent.views.sections.blocks import Anchor, Block, Paragraph, Quotes, Section
from agent.views.words import REFERENCE

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
    ("Appendix: commands run, and lines of their output", appendix.commands),
    ("Appendix: other commands run", appendix.others),
    ("Appendix: citations", appendix.citations),
)

_MARKS: Final = re.compile(r"[^\w\s-]")

# What a model may word anew: paragraphs of these, from `PROSE_LEAST` characters on.
_PROSE: Final = (before.summary, before.background, before.framing)
PROSE_LEAST: Final = 60


def prose(document: Json) -> list[Paragraph]:
    """The paragraphs whose words are this program's own, as they are without a model."""
    blocks = (block for told in _PROSE for block in told(document))
    return [block for block in blocks if isinstance(block, Paragraph) and len(block.text) >= PROSE_LEAST]


def title(document: Json) -> str:
    """`gpu1: the pool has room; ...`: the host and the verdict."""
    return f"{document['target']['host'] or 'SGLang server'}: {headline(document).rstrip('.')}"


def sections(document: Json) -> list[Section]:
    """Every section that has something to say."""
    worded = {each["was"]: each["text"] for each in document["worded"]}
    made = [Section(name, [_worded(block, worded) for block in told(document)]) for name, told in _SECTIONS]
    return [section for section in made if section.blocks]


def _worded(block: Block, worded: Mapping[str, str]) -> Block:
    """A paragraph in the words that a model found for it, with the references it has; any other block as it is."""
    if isinstance(block, Paragraph) and block.text in worded:
        return replace(block, text=worded[block.text])
    return block


def places(told: Iterable[Section]) -> dict[str, str]:
    """What references lead to, evidence, its lines, citations: each with the id of the heading it stands under."""
    found: dict[str, str] = {}
    for section in told:
        heading = anchor(section.title)
        for block in section.blocks:
            if isinstance(block, Anchor):
                heading = found[block.id] = anchor(block.id)
            elif isinstance(block, Quotes):
                found |= dict.fromkeys((row.id for row in block.rows), heading)
    return found


def target(reference: str, known: Mapping[str, str]) -> str:
    """What a reference leads to: the line, else the evidence it is of; empty where this document has neither."""
    name = reference.partition(":")[0]
    return reference if reference in known else name if name in known else ""


def anchor(title: str) -> str:
    """The id of a heading, as Markdown makes it of its text: `e5-88` of `E5-88`."""
    return _MARKS.sub("", title.replace(":", "-") if REFERENCE.fullmatch(title) else title).lower().replace(" ", "-")
