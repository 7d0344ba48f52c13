"""The write-up as Markdown. Text from hosts, sources and people is escaped: no link, image or markup comes of it."""

from __future__ import annotations

import re
from typing import Any, Final

from agent.views import writeup
from agent.views.words import visible as visible
from agent.views.writeup import Anchor, Block, Code, Paragraph, Picture, Table

REFERENCES: Final = re.compile(r"[ES]\d+(:\d+)?(, [ES]\d+(:\d+)?)*")
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>()#|!~])")
_URL: Final = re.compile(r"\b(https?|ftp|file)://", re.IGNORECASE)


def markdown(document: dict[str, Any]) -> str:
    """The whole write-up; the same document gives the same bytes."""
    lines = [f"# {plain(writeup.title(document))}", ""]
    for section in writeup.sections(document):
        drawn = [text for block in section.blocks if (text := _block(block))]
        if drawn:
            lines += [f"## {section.title}", "", *(f"{text}\n" for text in drawn)]
    return "\n".join(lines).rstrip() + "\n"


def plain(text: str) -> str:
    """Text with nothing in it that Markdown, a terminal or a browser would act on."""
    defanged = _URL.sub(lambda found: f"{found[1]}[:]//", visible(text))
    return _SPECIAL.sub(r"\\\1", " ".join(defanged.split()))


def _cell(text: str) -> str:
    """A cell; one that holds nothing but references links them."""
    if REFERENCES.fullmatch(text):
        return ", ".join(_link(reference) for reference in text.split(", "))
    return plain(text)


def _link(reference: str) -> str:
    return f"[{reference}](#{reference.partition(':')[0].lower()})"


def _block(block: Block) -> str:
    match block:
        case Paragraph():
            links = ", ".join(_link(reference) for reference in block.references)
            return plain(block.text) + (f" ({links})" if links else "")
        case Table():
            head = "| " + " | ".join(plain(column) for column in block.columns) + " |"
            rule = "|" + "---|" * len(block.columns)
            return "\n".join(
                [head, rule, *("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in block.rows)]
            )
        case Code():
            return "\n".join("    " + visible(line) for line in block.text.splitlines())
        case Anchor():
            return f"#### {block.id}\n\n{plain(block.text)}"
        case Picture():
            return ""
