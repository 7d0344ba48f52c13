"""The blocks a write-up is made of, and what sections share when they make them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from agent.views.words import references, without_references

Json = dict[str, Any]
HAPPENED: Final = ("time", "what", "evidence")


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A sentence or more; `references` are ids of evidence or citations that the view links."""

    text: str
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Items:
    """A list; `ordered` where the order counts."""

    items: tuple[Paragraph, ...]
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A cell that is a Paragraph has references of its own; `label` names the table for those who cannot see it."""

    label: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | Paragraph, ...], ...]


@dataclass(frozen=True, slots=True)
class Code:
    """Commands or lines of a file, as they are."""

    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture to be drawn by views that can: `memory`, `load` or `host`."""

    kind: str


@dataclass(frozen=True, slots=True)
class Anchor:
    """A small heading that references to `id` link to; `text` says more of it."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Quote:
    """A line that references to `id` link to: the id as it stands in the margin, and what the line says."""

    id: str
    margin: str
    text: str


@dataclass(frozen=True, slots=True)
class Quotes:
    """Lines of output, of source, of commands, as they are."""

    rows: tuple[Quote, ...]


Block = Paragraph | Items | Table | Code | Picture | Anchor | Quotes


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    blocks: list[Block] = field(default_factory=list)


def quoted(block: Quotes) -> str:
    """Quotes as lines of text: the margin is as wide for all of them, and empty beside all lines but the first."""
    width = max(len(row.margin) for row in block.rows)
    return "\n".join(
        f"{row.margin if number == 0 else '':<{width}}  {line}"
        for row in block.rows
        for number, line in enumerate(row.text.split("\n"))
    )


def cited(text: str, sources: Iterable[str] = ()) -> Paragraph:
    """A paragraph whose references are those given and those that stand in brackets in its text, each once."""
    found = dict.fromkeys([*(source for source in sources if source), *references(text)])
    return Paragraph(without_references(text), tuple(found))


def refs(sources: Iterable[str]) -> Paragraph:
    """A cell of nothing but references."""
    return Paragraph("", tuple(dict.fromkeys(source for source in sources if source)))


def moment(at: str) -> str:
    """`2026-02-11 14:28:37` of a time as records and logs have it."""
    return at.replace("T", " ").rstrip("Z")[:19]


def happened(event: Json) -> tuple[str | Paragraph, ...]:
    """One row of a timeline, under `HAPPENED`; a run of looks by its first and its last."""
    found = event["references"]
    many = len(found) > 3
    named = Paragraph(f"{len(found)} looks, first and last:", (found[0], found[-1])) if many else refs(found)
    return (moment(event["at"]), event["text"], named)


def options_matter(document: Json) -> bool:
    """Whether options and their sums belong into the write-up: where nothing hurts, only those that were asked for."""
    asked = any(option.get("answers") for option in document["options"])
    return asked or document["diagnosis"]["kind"] != "healthy"
