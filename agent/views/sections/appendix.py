"""What everything rests on: the commands that were run, the lines that are leaned on, the citations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from agent.views.sections.blocks import Anchor, Block, Code, Paragraph
from agent.views.words import amount, plural

Json = dict[str, Any]
READ_SHOWN: Final = 8
VALUE_CHARACTERS: Final = 60
_MANY: Final = ("server_arg", "metric", "flag", "env")


def commands(document: Json) -> Iterator[Block]:
    own, tasks = document["usage"]["own"], document["usage"]["tasks"]
    yield Paragraph(
        f"Decided by {document['model']} in {plural(own['turns'], 'turn')}, and {tasks['turns']} of research tasks; "
        f"{own['tokens_in'] + tasks['tokens_in']:,} tokens in, {own['tokens_out'] + tasks['tokens_out']:,} out. "
        "Output was redacted before it was kept; times are UTC."
    )
    if document["worded"]:
        yield Paragraph(
            f"A model worded {plural(len(document['worded']), 'paragraph')} of prose; references, figures and names in "
            "them are those of the text they stand for, which `sglscout show` has beside the model's."
        )
    for item in document["evidence"]:
        ended = "" if item["exit"] is None else f"exit {item['exit']}"
        came = [item["problem"]] if item["problem"] else [ended, plural(item["lines"], "line")]
        cut = ", cut at the limit" if item["truncated"] else ""
        told = ", ".join(text for text in (f"{item['probe']} on {item['host']}", item["at"], *came) if text)
        yield Anchor(item["id"], f"{item['id']}: {told}{cut}")
        yield Code(item["command"])


def lines(document: Json) -> Iterator[Block]:
    """Each line that something refers to, with the values read from it."""
    read: dict[str, list[Json]] = {}
    for fact in document["facts"]:
        if fact["name"] not in _MANY:
            read.setdefault(fact["from"], []).append(fact)
    for reference, text in document["quoted"].items():
        name, _, line = reference.partition(":")
        yield Anchor(reference, f"{name}, line {line}")
        yield Code(text)
        told = dict.fromkeys(
            f"{fact['name']} {_short(fact['value'])} {fact['unit']}".rstrip()
            for fact in read.get(reference, ())
            if not _repeats(fact["value"], text)
        )
        if told:
            yield Paragraph(f"Read from it: {'; '.join(list(told)[:READ_SHOWN])}.")


def _repeats(value: object, line: str) -> bool:
    """Whether a value is the line over again, or so much of it that its beginning would be all that is shown."""
    text = str(value)
    return len(text) > VALUE_CHARACTERS and text[:VALUE_CHARACTERS] in line


def _short(value: object) -> str:
    """A value as a figure or as the beginning of a text; the whole of it stands in the evidence."""
    text = amount(value)
    return text if len(text) <= VALUE_CHARACTERS else f"{text[:VALUE_CHARACTERS]} …"


def citations(document: Json) -> Iterator[Block]:
    for each in document["citations"]:
        state = "found there when checked" if each["checked"] else "NOT found there"
        yield Anchor(each["id"], f"{each['id']}: {each['path']}:{each['line']} of SGLang {each['version']}, {state}")
        yield Code(each["quote"])
