"""Command options the way getopt_long takes them, for the programs a recorded host answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


class UsageMistake(Exception):
    """What the program prints on standard error about its own arguments."""


@dataclass(frozen=True, slots=True)
class Options:
    """Names (long or of one letter) -> key. `optional` take a value only when it is joined to the name."""

    values: Mapping[str, str] = field(default_factory=dict)
    switches: Mapping[str, str] = field(default_factory=dict)
    optional: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Parsed:
    found: list[tuple[str, str]] = field(default_factory=list)
    operands: list[str] = field(default_factory=list)

    def has(self, key: str) -> bool:
        return any(name == key for name, _ in self.found)

    def last(self, key: str) -> str | None:
        values = self.all(key)
        return values[-1] if values else None

    def all(self, key: str) -> list[str]:
        return [value for name, value in self.found if name == key]


def parse(options: Options, words: list[str]) -> Parsed:
    """Options and operands. Raises UsageMistake on an option the program does not have."""
    parsed = Parsed()
    rest = iter(words)
    for word in rest:
        if word == "--":
            parsed.operands += list(rest)
        elif word.startswith("--"):
            _long(options, parsed, word[2:], rest)
        elif word.startswith("-") and len(word) > 1:
            _short(options, parsed, word[1:], rest)
        else:
            parsed.operands.append(word)
    return parsed


def _long(options: Options, parsed: Parsed, word: str, rest: Iterator[str]) -> None:
    name, equals, value = word.partition("=")
    if name in options.values:
        parsed.found.append((options.values[name], value if equals else _next(name, rest)))
    elif name in options.switches:
        parsed.found.append((options.switches[name], ""))
    elif name in options.optional:
        parsed.found.append((options.optional[name], value))
    else:
        raise UsageMistake(f"unrecognized option '--{name}'")


def _short(options: Options, parsed: Parsed, letters: str, rest: Iterator[str]) -> None:
    for place, letter in enumerate(letters):
        joined = letters[place + 1 :]
        if letter in options.values:
            parsed.found.append((options.values[letter], joined or _next(letter, rest)))
            return
        if letter in options.optional:
            parsed.found.append((options.optional[letter], joined))
            return
        if letter not in options.switches:
            raise UsageMistake(f"invalid option -- '{letter}'")
        parsed.found.append((options.switches[letter], ""))


def _next(name: str, rest: Iterator[str]) -> str:
    word = next(rest, None)
    if word is None:
        raise UsageMistake(f"option requires an argument -- '{name}'")
    return str(word)


def count(text: str) -> int:
    """A number given to an option, with a sign or none. Raises UsageMistake."""
    try:
        return int(text)
    except ValueError:
        raise UsageMistake(f"invalid number '{text}'") from None
