"""The write-up as Markdown. Text from hosts, sources and people is escaped: no link, image or markup comes of it."""

from __future__ import annotations

import re
from typing import Any, Final

from agent.views import writeup
from agent.views.sections.blocks import Anchor, Block, Code, Items, Paragraph, Picture, Table
from agent.views.words import defanged

_SPECIAL: Final = re.compile(r"([\\`*{}\[\]<>#|~&$]|(?<!\w)_|_(?!\w)|!(?=\[))")
_LINE_START: Final = re.compile(r"^(?:([-+](?=\s|$)|[-=]+(?=\s*$))|(\d{1,9})(?=[.)](?:\s|$)))")


def markdown(document: dict[str, Any]) -> str:
    """The whole write-up; the same document gives the same bytes."""
    known = writeup.targets(document)
    lines = [f"# {plain(writeup.title(document))}", ""]
    for section in writeup.sections(document):
        drawn = [text for block in section.blocks if (text := _block(block, known))]
        if drawn:
            lines += [f"## {section.title}", "", *(f"{text}\n" for text in drawn)]
    return "\n".join(lines).rstrip() + "\n"


def plain(text: str) -> str:
    """Text with nothing in it that Markdown, a terminal or a browser would act on."""
    escaped = _SPECIAL.sub(r"\\\1", defanged(" ".join(text.split())))
    return _LINE_START.sub(lambda found: f"{found[2]}\\" if found[2] else f"\\{found[1]}", escaped)


def _said(paragraph: Paragraph, known: frozenset[str]) -> str:
    """The text and its references behind it, each a link where this document has what it names."""
    links = ", ".join(_link(reference, known) for reference in paragraph.references)
    text = plain(paragraph.text)
    return f"{text} ({links})" if text and links else text or links


def _link(reference: str, known: frozenset[str]) -> str:
    anchor = writeup.target(reference, known)
    return f"[{reference}](#{anchor})" if anchor else plain(reference)


def _cell(cell: str | Paragraph, known: frozenset[str]) -> str:
    return _said(cell, known) if isinstance(cell, Paragraph) else plain(cell)


def _block(block: Block, known: frozenset[str]) -> str:
    match block:
        case Paragraph():
            return _said(block, known)
        case Items():
            marks = [f"{number}." if block.ordered else "-" for number in range(1, len(block.items) + 1)]
            return "\n".join(f"{mark} {_said(each, known)}" for mark, each in zip(marks, block.items, strict=True))
        case Table():
            head = "| " + " | ".join(plain(column) for column in block.columns) + " |"
            rule = "|" + " --- |" * len(block.columns)
            rows = ["| " + " | ".join(_cell(cell, known) for cell in row) + " |" for row in block.rows]
            return "\n".join([f"{plain(block.label)}:", "", head, rule, *rows])
        case Code():
            return "\n".join(f"    {defanged(line)}".rstrip() for line in block.text.strip("\n").split("\n"))
        case Anchor():
            return f"#### {block.id.replace(':', '-')}\n\n{plain(block.text)}"
        case Picture():
            return ""
