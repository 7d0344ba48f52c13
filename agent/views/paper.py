"""The write-up on a terminal: the same sections, folded at the width there is; references stand as ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agent.views import writeup
from agent.views.layout import Line, Page, columned, commands, item, paragraph
from agent.views.sections.blocks import Anchor, Block, Code, Items, Paragraph, Picture, Quotes, Table, quoted

Json = dict[str, Any]


def page(document: Json) -> Page:
    """The whole write-up."""

    def make(width: int) -> Iterator[Line]:
        yield from paragraph(writeup.title(document), width, style="bold")
        for section in writeup.sections(document):
            yield from (Line(""), Line(section.title, "bold"))
            for block in section.blocks:
                yield from _block(block, width)

    return Page(make)


def _block(block: Block, width: int) -> list[Line]:
    match block:
        case Paragraph():
            return paragraph(_said(block), width, 2)
        case Items():
            marks = [f"{number}." if block.ordered else "-" for number in range(1, len(block.items) + 1)]
            return [
                line
                for mark, each in zip(marks, block.items, strict=True)
                for line in item(_said(each), width, 2, mark)
            ]
        case Table():
            rows = [[_said(cell) if isinstance(cell, Paragraph) else str(cell) for cell in row] for row in block.rows]
            title = paragraph(f"{block.label}:", width, 2, style="dim")
            return [*title, *columned(block.columns, rows, width, indent=2)]
        case Code():
            return commands([block.text])
        case Quotes():
            return commands([quoted(block)])
        case Anchor():
            return paragraph(f"{block.id}: {block.text}", width, 2, style="dim")
        case Picture():
            return []


def _said(said: Paragraph) -> str:
    return f"{said.text} [{', '.join(said.references)}]".strip() if said.references else said.text
