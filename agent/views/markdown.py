"""The write-up as Markdown. Text from hosts, sources and people is escaped: no link, image or markup comes of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from agent.views import writeup
from agent.views.sections.blocks import Anchor, Block, Code, Items, Paragraph, Picture, Quotes, Table, quoted
from agent.views.words import defanged

_SPECIAL: Final = re.compile(r"([\\`*{}\[\]<>#|~&$]|(?<!\w)_|_(?!\w)|!(?=\[))")
_LINE_START: Final = re.compile(r"^(?:([-+](?=\s|$)|[-=]+(?=\s*$))|(\d{1,9})(?=[.)](?:\s|$)))")


def markdown(document: dict[str, Any]) -> str:
    """The whole write-up; the same document gives the same bytes."""
    told = writeup.sections(document)
    known = writeup.places(told)
    lines = [f"# {plain(writeup.title(document))}", ""]
    for section in told:
        drawn = [text for block in section.blocks if (text := _block(block, known))]
        if drawn:
            lines += [f"## {section.title}", "", *(f"{text}\n" for text in drawn)]
    return "\n".join(lines).rstrip() + "\n"


def plain(text: str) -> str:
    """Text with nothing in it that Markdown, a terminal or a browser would act on."""
    escaped = _SPECIAL.sub(r"\\\1", defanged(" ".join(text.split())))
    return _LINE_START.sub(lambda found: f"{found[2]}\\" if found[2] else f"\\{found[1]}", escaped)


def _said(paragraph: Paragraph, known: Mapping[str, str]) -> str:
    """The text and its references behind it, each a link where this document has what it names."""
    links = ", ".join(_link(reference, known) for reference in paragraph.references)
    text = plain(paragraph.text)
    return f"{text} ({links})" if text and links else text or links


def _link(reference: str, known: Mapping[str, str]) -> str:
    found = writeup.target(reference, known)
    return f"[{reference}](#{known[found]})" if found else plain(reference)


def _cell(cell: str | Paragraph, known: Mapping[str, str]) -> str:
    return _said(cell, known) if isinstance(cell, Paragraph) else plain(cell)


def _block(block: Block, known: Mapping[str, str]) -> str:
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
            return _code(block.text)
        case Quotes():
            return _code(quoted(block))
        case Anchor():
            return f"#### {block.id}\n\n{plain(block.text)}"
        case Picture():
            return ""


def _code(text: str) -> str:
    return "\n".join(f"    {defanged(line)}".rstrip() for line in text.strip("\n").split("\n"))
