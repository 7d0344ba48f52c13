"""What everything rests on: the commands that were run, the lines that are leaned on, the citations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from agent.views.sections.blocks import Anchor, Block, Code, Paragraph, Quote, Quotes
from agent.views.words import amount, listed, plural

Json = dict[str, Any]
READ_SHOWN: Final = 8
VALUE_CHARACTERS: Final = 60
_MANY: Final = ("server_arg", "metric", "flag", "env")


def commands(document: Json) -> Iterator[Block]:
    """Each look that something rests on, with its command and those lines; then the others, a line each."""
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
    quoted: dict[str, list[Quote]] = {}
    read = _read(document["facts"])
    for reference, text in document["quoted"].items():
        name, _, line = reference.partition(":")
        quoted.setdefault(name, []).append(Quote(reference, line, _with_values(text, read.get(reference, ()))))
    for item in document["evidence"]:
        if item["id"] in quoted:
            when = [item["at"]] if item["at"] else []
            yield Anchor(item["id"], f"{item['probe']} on {item['host']}, {', '.join((*when, *_came(item)))}")
            yield Code(item["command"])
            yield Quotes(tuple(quoted[item["id"]]))


def others(document: Json) -> Iterator[Block]:
    """Commands of which no line is quoted: what came of each, in a line."""
    leaned = {reference.partition(":")[0] for reference in document["quoted"]}
    rows = tuple(
        Quote(item["id"], item["id"], f"{', '.join((item['probe'], *_came(item)))}: {item['command']}")
        for item in document["evidence"]
        if item["id"] not in leaned
    )
    if rows:
        yield Quotes(rows)


def _came(item: Json) -> Iterator[str]:
    """What came of a command: its problem, or its exit and how much it printed."""
    if item["problem"]:
        yield item["problem"]
    else:
        yield from [f"exit {item['exit']}"] if item["exit"] else []
        yield plural(item["lines"], "line")
    if item["truncated"]:
        yield "cut at the limit"


def _read(facts: Iterable[Json]) -> dict[str, list[Json]]:
    """The values that were read from each line."""
    found: dict[str, list[Json]] = {}
    for fact in facts:
        if fact["name"] not in _MANY:
            found.setdefault(fact["from"], []).append(fact)
    return found


def _with_values(line: str, facts: Iterable[Json]) -> str:
    """The line, and under it the values read from it that do not stand there to be seen."""
    told = dict.fromkeys(
        f"{fact['name']} {_short(fact['value'])} {fact['unit']}".rstrip()
        for fact in facts
        if not isinstance(fact["value"], bool) and not _stands(fact["value"], line)
    )
    return f"{line}\n(read: {'; '.join(list(told)[:READ_SHOWN])})" if told else line


def _stands(value: object, line: str) -> bool:
    """Whether a value, or the beginning of a long one, can be seen in the line as it is."""
    forms = (str(value)[:VALUE_CHARACTERS], amount(value), amount(value).replace(",", ""))
    return any(form in line for form in forms)


def _short(value: object) -> str:
    """A value as a figure or as the beginning of a text; the whole of it stands in the evidence."""
    text = amount(value)
    return text if len(text) <= VALUE_CHARACTERS else f"{text[:VALUE_CHARACTERS]} …"


def citations(document: Json) -> Iterator[Block]:
    """Each line of source that is cited, with its place; each was looked up there."""
    if not document["citations"]:
        return
    versions = sorted({each["version"] for each in document["citations"]})
    yield Paragraph(f"Lines of the source of SGLang {listed(versions)}, each looked up at its place when it was cited.")
    rows = tuple(
        Quote(
            each["id"],
            each["id"],
            f"{each['path']}:{each['line']}{'' if each['checked'] else ' (NOT found there)'}  {each['quote']}",
        )
        for each in document["citations"]
    )
    yield Quotes(rows)
