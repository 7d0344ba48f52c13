"""A launch command read as the parser of a version would read it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tools.source.begun import begun_in
from tools.source.catalogue import Dynamic, Flag, FlagCatalogue
from tools.source.values import FILLED_LATER, read_value

NUMBER: Final = re.compile(r"-\d+(?:\.\d*)?|-\.\d+")


@dataclass(frozen=True, slots=True)
class Given:
    """One option as typed: its flag, the values after it, and where it stands among the arguments."""

    flag: Flag
    typed: str
    values: tuple[str, ...]
    place: int


@dataclass(frozen=True, slots=True)
class Launch:
    """The arguments of a server in a launch command. `rest` are words that belong to no option.

    `serve` tells that `sglang serve` starts it, `positional` the model that it is given by its place, `router` that
    `sglang_router.launch_server` starts it with a router before it, `lost` options that a comment keeps from it,
    `environment` the variables that are set with it.
    """

    arguments: tuple[str, ...]
    given: tuple[Given, ...]
    unknown: tuple[tuple[str, int], ...]
    ambiguous: tuple[tuple[str, int, tuple[str, ...]], ...]
    rest: tuple[str, ...]
    serve: bool = False
    positional: str = ""
    router: bool = False
    lost: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    def after(self, place: int) -> tuple[str, ...]:
        """The values that an option which is not known stands before, or has attached."""
        _, equals, attached = self.arguments[place].partition("=")
        if equals:
            return (attached,)
        rest = self.arguments[place + 1 :]
        end = next((at for at, word in enumerate(rest) if _is_option(word)), len(rest))
        return rest[:end]

    def value(self, dest: str) -> str | None:
        """The last value given for a destination; None if it is not given."""
        found = [each for each in self.given if each.flag.dest == dest]
        return None if not found else " ".join(found[-1].values)


def parse_launch(command: str | Sequence[str], catalogue: FlagCatalogue) -> Launch:
    """Read a command as argparse would, abbreviations included. Raises UsageError for text that cannot be split."""
    begun = begun_in(command)
    words = list(begun.arguments)
    given: list[Given] = []
    unknown: list[tuple[str, int]] = []
    ambiguous: list[tuple[str, int, tuple[str, ...]]] = []
    rest: list[str] = []
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        if not word.startswith("-") or word == "-" or NUMBER.fullmatch(word):
            rest.append(word)
            continue
        name, equals, attached = word.partition("=")
        found = _named(name, catalogue)
        if isinstance(found, tuple):
            ambiguous.append((name, place - 1, found))
        if not isinstance(found, Flag):
            if not isinstance(found, tuple):
                unknown.append((name, place - 1))
            while not equals and place < len(words) and not _is_option(words[place]):
                place += 1
            continue
        start = place - 1
        values, place = ((attached,), place) if equals else _values(words, place, found.nargs)
        given.append(Given(found, name, values, start))
    found_words = tuple(words), tuple(given), tuple(unknown), tuple(ambiguous), tuple(rest)
    return Launch(*found_words, begun.serve, begun.positional, begun.router, begun.lost, begun.environment)


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not NUMBER.fullmatch(word) and " " not in word


def _named(name: str, catalogue: FlagCatalogue) -> Flag | tuple[str, ...] | None:
    """The flag of an option string or of its only possible completion; all completions if there are several."""
    exact = next((flag for flag in catalogue.flags if name in flag.names), None)
    if exact is not None:
        return exact
    completions = catalogue.by_prefix(name) if len(name) > 2 else []
    flags = {id(flag): flag for each in completions if (flag := catalogue.find(each)) is not None}
    if len(flags) == 1 and len(completions) == 1:
        return next(iter(flags.values()))
    return tuple(completions) or None


def _values(words: list[str], place: int, nargs: str | int | None) -> tuple[tuple[str, ...], int]:
    most = {None: 1, "?": 1, 0: 0}.get(nargs, nargs if isinstance(nargs, int) else len(words))
    end = place
    while end < len(words) and end - place < most and not _is_option(words[end]):
        end += 1
    return tuple(words[place:end]), end


def values_of(launch: Launch, catalogue: FlagCatalogue) -> tuple[dict[str, Any], set[str]]:
    """Value by the code's name for it, defaults included where they are known; and the names that are given."""
    values: dict[str, Any] = {}
    for flag in catalogue.flags:
        if not isinstance(flag.default, Dynamic) and flag.default != "==SUPPRESS==":
            default = list(flag.default) if isinstance(flag.default, tuple) else flag.default
            values.setdefault(catalogue.field(flag), default)
    given: set[str] = set()
    for each in launch.given:
        dest = catalogue.field(each.flag)
        given.add(dest)
        if each.flag.nargs == 0:
            values[dest] = not (each.typed.startswith("--no-") or each.flag.default is True)
            continue
        try:
            typed = [read_value(each.flag, value) for value in each.values]
        except ValueError:
            values.pop(dest, None)
            continue
        if any(FILLED_LATER.search(value) for value in each.values):
            values.pop(dest, None)
        else:
            values[dest] = typed if each.flag.nargs in ("+", "*") else (typed[0] if typed else None)
    return values, given
