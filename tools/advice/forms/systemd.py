"""systemd units and drop-ins, as `systemctl cat` prints them, and the files that `EnvironmentFile=` names.

Quoting after systemd.service(5), systemd 252: quotes of both kinds take C escapes, `%%` and `$$` stand for `%` and `$`,
a line that ends in a backslash goes on and comment lines between are dropped, an empty `ExecStart=` resets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tools.advice.mapped import Mapped, Word

_HEADER = re.compile(r"# (/\S+\.(?:service|conf|container)|/\S+\.d/\S+)\s*$")
_PREFIX = re.compile(r"[-@:+!|]*")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " "}


@dataclass(frozen=True, slots=True)
class Setting:
    """`Key=value` of a section: the value as typed, continuations as one blank, and where the file says it."""

    section: str
    key: str
    value: Mapped
    start: int
    end: int
    path: str


@dataclass(slots=True)
class Unit:
    """The settings in force of what `systemctl cat` printed."""

    paths: list[str] = field(default_factory=list)
    exec_start: list[Setting] = field(default_factory=list)
    environment: list[Setting] = field(default_factory=list)
    environment_files: list[str] = field(default_factory=list)


def read(text: str) -> Unit:
    """Later settings win and an empty one resets, as systemd merges drop-ins in the order they are printed."""
    unit = Unit()
    for setting in settings(text, unit.paths):
        value = setting.value.text.strip()
        if setting.section not in ("Service", ""):
            continue
        if setting.key == "ExecStart":
            unit.exec_start = [*unit.exec_start, setting] if value else []
        elif setting.key == "Environment":
            unit.environment = [*unit.environment, setting] if value else []
        elif setting.key == "EnvironmentFile":
            unit.environment_files = [*unit.environment_files, value.lstrip("-")] if value else []
    return unit


def settings(text: str, paths: list[str] | None = None) -> list[Setting]:
    """Every `Key=value` with its section and file, in order."""
    found: list[Setting] = []
    section = path = ""
    at = 0
    while at < len(text):
        end = _line_end(text, at)
        line = text[at:end]
        header = _HEADER.match(line)
        if header:
            path, section = header[1], ""
            if paths is not None:
                paths.append(path)
        elif line.lstrip().startswith(("#", ";")) or not line.strip():
            pass
        elif line.lstrip().startswith("[") and "]" in line:
            section = line.strip()[1:].partition("]")[0]
        else:
            end, setting = _setting(text, at, section, path)
            if setting:
                found.append(setting)
        at = end + 1
    return found


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _setting(text: str, start: int, section: str, path: str) -> tuple[int, Setting | None]:
    parts: list[Mapped] = []
    at = start
    while True:
        end = _line_end(text, at)
        line = text[at:end].rstrip("\r")
        comment = at > start and line.lstrip().startswith(("#", ";"))
        more = line.endswith("\\") and not comment
        if not comment:
            body = Mapped.of(text, at, at + len(line) - more)
            parts.append(body)
            if more:
                parts.append(Mapped(" ", ((at + len(line) - 1, min(end + 1, len(text))),)))
        if not (more or comment) or end >= len(text):
            break
        at = end + 1
    whole = Mapped.join(parts)
    sign = whole.text.find("=")
    if sign < 0:
        return end, None
    first = sign + 1
    while first < len(whole) and whole.text[first] in " \t":
        first += 1
    last = len(whole)
    while last > first and whole.text[last - 1] in " \t\r":
        last -= 1
    value = whole.part(first, last)
    begin, stop = (value.spans[0][0], value.spans[-1][1]) if len(value) else (whole.spans[sign][1],) * 2
    return end, Setting(section, whole.text[:sign].strip(), value, begin, stop, path)


def command_words(setting: Setting) -> list[list[Word]]:
    """Commands of one `ExecStart=`: words after the special prefixes, `;` between commands."""
    prefix = _PREFIX.match(setting.value.text)
    first = prefix.end() if prefix else 0
    commands: list[list[Word]] = [[]]
    for word in words(setting.value.part(first, len(setting.value))):
        if word.text == ";" and word.bare:
            commands.append([])
        else:
            commands[-1].append(word)
    if "@" in setting.value.text[:first] and len(commands[0]) > 1:
        commands[0].pop(1)  # what the process is to be called
    return [command for command in commands if command]


def words(text: Mapped, *, specifiers: bool = True) -> list[Word]:
    """Split as systemd does; `$` and `%` are doubled where they are meant as they are."""
    found: list[Word] = []
    at = 0
    while at < len(text):
        if text.text[at].isspace():
            at += 1
            continue
        at, word = _word(text, at, specifiers)
        found.append(word)
    return found


def _word(text: Mapped, start: int, specifiers: bool) -> tuple[int, Word]:
    parts: list[Mapped] = []
    quote, at, bare = "", start, True
    while at < len(text):
        char = text.text[at]
        if not quote and char.isspace():
            break
        if char == quote:
            quote = ""
            at += 1
        elif not quote and char in "'\"":
            quote, bare = char, False
            at += 1
        elif char == "\\" and at + 1 < len(text):
            bare = False
            taken, part = _escape(text, at)
            parts.append(part)
            at += taken
        elif specifiers and char in "%$" and text.text[at + 1 : at + 2] == char:
            parts.append(text.as_char(at, at + 2, char))
            at += 2
        else:
            parts.append(text.part(at, at + 1))
            at += 1
    return at, Word(Mapped.join(parts), text.spans[start][0], text.spans[at - 1][1], None, bare)


def _escape(text: Mapped, at: int) -> tuple[int, Mapped]:
    char = text.text[at + 1]
    number = re.match(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|([0-7]{3})", text.text[at + 1 : at + 6])
    if number:
        code = int(number[1] or number[2] or "0", 16) if not number[3] else int(number[3], 8)
        return 1 + number.end(), text.as_char(at, at + 1 + number.end(), chr(code))
    if char in _ESCAPES or char in "\\\"';":
        return 2, text.as_char(at, at + 2, _ESCAPES.get(char, char))
    return 2, text.part(at, at + 2)


def quote(word: str) -> str:
    """A word for `ExecStart=` that systemd reads back as it is. Raises ValueError for control characters."""
    if any(ord(char) < 32 or ord(char) == 127 for char in word):
        raise ValueError("control characters do not go into a unit file")
    escaped = word.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$")
    if not word or re.search(r"[\s'\"\\;]", word):
        return '"' + escaped.replace('"', '\\"') + '"'
    return escaped
