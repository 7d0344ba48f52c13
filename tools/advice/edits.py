"""One change of one option as edits of the file: the operator's spelling stays, everything else keeps its bytes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tools.advice.command import Flag
from tools.advice.launch import Launch
from tools.advice.mapped import Edit, Mapped, Word

# What may be written without quotes in every form at once: unit file, shell, YAML, JSON.
SAFE = re.compile(r"[A-Za-z0-9_.+\-][A-Za-z0-9_.,:+\-/=]*")
_BLANKS = re.compile(r"(?:[ \t]|\\?\r?\n)+")
# Blanks and continued lines, and in unit files the comment lines between these.
_SEPARATOR = re.compile(r"(?:[ \t]|\\?\r?\n|(?<=\n)[ \t]*[#;][^\n]*\n)+")
_NOT_TEXT = re.compile(r"[-+]?[\d.]+(?:e[-+]?\d+)?|true|false|yes|no|on|off|null|~", re.I)


def set_flag(launch: Launch, name: str, values: Sequence[str], spellings: Sequence[str] = ()) -> list[Edit]:
    """Give an option these values (none: a switch). Raises ValueError for a value that is no plain word."""
    for value in values:
        if not SAFE.fullmatch(value):
            raise ValueError(f"{value!r} is not a plain value")
    typed = launch.flag(name, *spellings)
    if typed is None:
        return _add(launch, name, values)
    if not values or list(values) == list(typed.values):
        return []
    return _replace(launch, typed, values)


def remove_flag(launch: Launch, name: str, spellings: Sequence[str] = (), *, switch: bool = False) -> list[Edit]:
    """Take an option out everywhere it is typed; variables after a switch stay."""
    edits = []
    for flag in launch.flags:
        if flag.name in (name, *spellings):
            words = _removable(launch, flag, switch)
            whole_line = launch.form == "config"
            edits += [_cut_lines(launch.text, words[0], words[-1])] if whole_line else _cut(launch, words)
    return edits


def _removable(launch: Launch, flag: Flag, switch: bool) -> list[Word]:
    """The words of an option; of a value that a variable holds, the variable's word in the command."""
    words = [word for word in flag.words if not (switch and word.text.startswith("$"))]
    if words[0] in launch.own and any(word not in launch.own for word in words):
        place = launch.own.index(words[0])
        return list(launch.own[place : place + 2])
    return words


def _replace(launch: Launch, flag: Flag, values: Sequence[str]) -> list[Edit]:
    if flag.joined:
        word = flag.words[0]
        return [_within(word, word.value.part(len(flag.name) + 1, len(word.value)), " ".join(values))]
    places = flag.words[1:]
    if not places:
        return [_after(launch, flag.words[0], value) for value in values]
    edits = [_rewrite(launch, word, value) for word, value in zip(places, values, strict=False)]
    if len(values) > len(places):
        edits.append(_after(launch, places[-1], *values[len(places) :]))
    if len(places) > len(values):
        edits += _cut(launch, places[len(values) :])
    return edits


def _rewrite(launch: Launch, word: Word, value: str) -> Edit:
    if not len(word.value):
        return Edit(word.start, word.end, value)
    return _within(word, word.value, value)


def _within(word: Word, part: Mapped, value: str) -> Edit:
    """Replace a decoded part of a word, inside the quotes it has; an alias gives way to the word written out."""
    if word.item is not None and word.item.alias:
        kept = word.text[: len(word.text) - len(part)]
        return Edit(word.start, word.end, _item_text(kept + value, "", word.item.block))
    if not len(part):
        return Edit(word.end, word.end, value)
    return Edit(part.spans[0][0], part.spans[-1][1], value)


def _add(launch: Launch, name: str, values: Sequence[str]) -> list[Edit]:
    if launch.form == "config":
        return [_add_key(launch, name, values)]
    last = launch.own[-1]
    valued = [flag for flag in launch.flags if flag.values]
    joined = bool(values) and len(values) == 1 and sum(flag.joined for flag in valued) * 2 > len(valued)
    words = [f"{name}={values[0]}"] if joined else [name, *values]
    if last.item is not None:
        return [_after(launch, last, *words)]
    return [Edit(last.end, last.end, _gap_before_flags(launch) + " ".join(words))]


def _after(launch: Launch, word: Word, *values: str) -> Edit:
    """New words after one: items of its sequence, or words of its line."""
    if word.item is None:
        return Edit(word.end, word.end, "".join(f" {value}" for value in values))
    item = word.item
    options = [one.item.quote for one in launch.own if one.item is not None and one.text.startswith("--")]
    quotes = [options[-1] if options and value.startswith("--") else item.quote for value in values]
    written = [_item_text(value, quote, item.block) for value, quote in zip(values, quotes, strict=True)]
    if item.block:
        lead = launch.text[item.line_start : word.start]
        indent = " " * (len(lead) - len(lead.lstrip(" "))) if lead.strip() == "-" else " " * (len(lead) - 2)
        newline = "\r\n" if "\r\n" in launch.text else "\n"
        return Edit(word.end, word.end, "".join(f"{newline}{indent}- {value}" for value in written))
    before = launch.text[item.before : word.start]
    separator = before[before.find(",") :] if "," in before else ", "
    return Edit(word.end, word.end, "".join(separator + value for value in written))


def _item_text(value: str, quote: str, block: bool) -> str:
    """A word as an item that YAML reads as text, quoted like its neighbour."""
    if quote in ("'", '"'):
        return f"{quote}{value}{quote}"
    plain = not _NOT_TEXT.fullmatch(value) and not value.startswith(("- ", ":")) and (block or "," not in value)
    return value if plain else f'"{value}"'


def _gap_before(launch: Launch, word: Word) -> tuple[int, str]:
    """Where the blanks before a word begin, and they: up to the word before it where nothing else is between."""
    ends = [one.end for one in (*launch.own, *launch.words) if one.end <= word.start]
    start = max(ends, default=word.start)
    gap = launch.text[start : word.start]
    if _SEPARATOR.fullmatch(gap):
        return start, gap
    blank = len(gap) - len(gap.rstrip(" \t"))
    return word.start - blank, gap[len(gap) - blank :]


def _gap_before_flags(launch: Launch) -> str:
    """What stands before the last option of the command line: a blank, or a continued line with its indentation."""
    for word in launch.own[-2:]:
        if word.text.startswith("--"):
            _, gap = _gap_before(launch, word)
            return gap if gap and _BLANKS.fullmatch(gap) and not _comment(gap) else " "
    return " "


def _comment(gap: str) -> bool:
    return "#" in gap or ";" in gap


def _cut(launch: Launch, words: Sequence[Word]) -> list[Edit]:
    """Remove words with the blanks, line or comma before them."""
    edits: list[Edit] = []
    flow = [word for word in words if word.item is not None and not word.item.block]
    if flow:
        edits.append(_cut_flow(launch.text, flow[0], flow[-1]))
    for word in words:
        if word.item is None:
            edits.append(Edit(_gap_before(launch, word)[0], word.end, ""))
        elif word.item.block:
            edits.append(_cut_lines(launch.text, word, word))
    return edits


def _cut_lines(text: str, first: Word, last: Word) -> Edit:
    end = text.find("\n", last.end)
    return Edit(text.rfind("\n", 0, first.start) + 1, len(text) if end < 0 else end + 1, "")


def _cut_flow(text: str, first: Word, last: Word) -> Edit:
    """Neighbouring items of a flow sequence with the comma before them, or after them at its beginning."""
    comma = text.rfind(",", first.item.before if first.item else 0, first.start)
    if comma >= 0:
        return Edit(comma, last.end, "")
    after = re.compile(r"\s*,\s*").match(text, last.end)
    return Edit(first.start, after.end() if after else last.end, "")


def _add_key(launch: Launch, name: str, values: Sequence[str]) -> Edit:
    """A new `key: value` line of a --config file, spelled like its other keys."""
    key = name.removeprefix("--")
    if any("_" in flag.words[0].text for flag in launch.flags) and not any(
        "-" in f.words[0].text for f in launch.flags
    ):
        key = key.replace("-", "_")
    value = "true" if not values else values[0] if len(values) == 1 else "[" + ", ".join(values) + "]"
    last = launch.words[-1]
    first = launch.flags[0].words[0]
    indent = launch.text[launch.text.rfind("\n", 0, first.start) + 1 : first.start]
    end = launch.text.find("\n", last.end)
    if end < 0:
        return Edit(len(launch.text), len(launch.text), f"\n{indent}{key}: {value}")
    return Edit(end + 1, end + 1, f"{indent}{key}: {value}\n")
