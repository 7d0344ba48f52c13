"""The strict grammar: a command line into words, or a refusal with its position. Never a guess.

Printable ASCII, at most 2,000 bytes and 8 stages; plain words, single quotes, double quotes without anything that a
shell expands; `|`, `&&`, `||`, `;` between stages; `2>/dev/null` and `2>&1` are the only redirections. A word may hold
`*` and `?` only if it begins with `/`, so that no file name can turn into an option.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

LIMIT_BYTES: Final = 2_000
LIMIT_STAGES: Final = 8

_PLAIN: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+:,./^=-")
_GLOB: Final = frozenset("*?")
_EXPANDED: Final = frozenset("$`\\!")
_JOINTS: Final = re.compile(r"\|\||&&|\||;")
_STDERR: Final = re.compile(r"2>(/dev/null|&1)(?=[ |;&]|$)")


class Refused(Exception):
    """The text is not in the grammar. `tag` is its class, `position` the byte at which that shows."""

    def __init__(self, tag: str, why: str, position: int) -> None:
        super().__init__(why)
        self.tag = tag
        self.why = why
        self.position = position


@dataclass(frozen=True, slots=True)
class Word:
    """One word after quote removal. `glob`: holds an unquoted `*` or `?`. `plain`: no quotes at all."""

    text: str
    position: int
    glob: bool
    plain: bool


@dataclass(frozen=True, slots=True)
class Call:
    """One stage: its words, what joins it to the stage before, and its stderr ("", "2>/dev/null" or "2>&1")."""

    words: tuple[Word, ...]
    joined: str
    stderr: str
    position: int


def parse(command: str) -> tuple[Call, ...]:
    """The stages of a command line. Raises Refused for everything outside the grammar."""
    _check_characters(command)
    calls: list[Call] = []
    words: list[Word] = []
    joined, stderr, start, at = "", "", 0, 0
    while True:
        while at < len(command) and command[at] == " ":
            at += 1
        joint = _JOINTS.match(command, at)
        if at >= len(command) or joint:
            calls.append(_call(words, joined, stderr, start))
            if joint is None:
                break
            joined, words, stderr, at = joint.group(), [], "", joint.end()
            start = at
        elif redirection := _STDERR.match(command, at):
            if stderr or not words:
                raise Refused("shape", "a redirection stands where none is expected", at)
            stderr, at = redirection.group(), redirection.end()
        else:
            word, at = _word(command, at)
            words.append(word)
    if len(calls) > LIMIT_STAGES:
        raise Refused("limit", f"{len(calls)} stages; the limit is {LIMIT_STAGES}", calls[LIMIT_STAGES].position)
    return tuple(calls)


def _check_characters(command: str) -> None:
    for position, character in enumerate(command):
        if not " " <= character <= "~":
            name = f"U+{ord(character):04X}"
            raise Refused("chars", f"the character {name} is not printable ASCII", position)
    if len(command) > LIMIT_BYTES:
        raise Refused("limit", f"{len(command)} bytes; the limit is {LIMIT_BYTES}", LIMIT_BYTES)


def _call(words: list[Word], joined: str, stderr: str, start: int) -> Call:
    if not words:
        raise Refused("parse", "a stage without a command", start)
    program = words[0]
    if not program.plain or program.glob:
        raise Refused("shape", "the command word must stand without quotes and patterns", program.position)
    if "=" in program.text:
        raise Refused("shape", "an assignment stands where the command should", program.position)
    if program.text.startswith("-"):
        raise Refused("parse", "the command word begins with '-'", program.position)
    return Call(tuple(words), joined, stderr, program.position)


def _word(command: str, start: int) -> tuple[Word, int]:
    text: list[str] = []
    at, glob, plain = start, False, True
    while at < len(command) and command[at] not in " |;":
        character = command[at]
        if character in _PLAIN:
            text.append(character)
            at += 1
        elif character in "'\"":
            end = command.find(character, at + 1)
            if end < 0:
                raise Refused("parse", "a quote is not closed", at)
            inner = command[at + 1 : end]
            if character == '"' and (bad := next((mark for mark in inner if mark in _EXPANDED), "")):
                raise Refused(
                    "shape", f"{bad!r} inside double quotes is expanded by a shell", at + 1 + inner.index(bad)
                )
            text.append(inner)
            at, plain = end + 1, False
        elif character in _GLOB:
            if command[start] != "/":
                raise Refused("glob", "a pattern is accepted only in a word that begins with '/'", at)
            text.append(character)
            at, glob = at + 1, True
        elif command.startswith("&&", at):
            break
        else:
            raise Refused("shape", f"{character!r} has a meaning to a shell", at)
    return Word("".join(text), start, glob, plain), at
