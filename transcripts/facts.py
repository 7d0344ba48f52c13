"""Evidence and facts: the only currency between parsers, sums, weighing and views.

A fact is a typed value with its unit, how it is known and where it stands. Names and units are listed in
`transcripts/vocabulary.py`; a parser that yields a name which is not listed there fails its test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Grade = Literal["observed", "derived", "estimated", "claimed"]
Value = bool | int | float | str


@dataclass(frozen=True)
class Evidence:
    """What one command, file or pasted text said, after redaction.

    `probe` names what was asked (see `tools/host/probes.py`; "pasted" for text handed over by the operator), `exit` is
    None when the command never ran, and `problem` says why in a word (`missing`, `denied`, `timeout`, `refused`).
    """

    id: str
    probe: str
    command: str
    host: str
    at: str
    exit: int | None
    text: str
    truncated: bool = False
    seconds: float = 0.0
    problem: str = ""

    @cached_property
    def lines(self) -> int:
        """Counted once: every reference to a line asks for it, and a log may hold hundreds of thousands."""
        return len(self.text.splitlines())


@dataclass(frozen=True, slots=True)
class Fact:
    """One value read, summed or claimed.

    `source` is where it stands: `E5:88` (evidence and line), `E5` (the whole), `S1` (a citation) or `operator`.
    `scope` tells apart values of one name: a rank (`TP3`), a pool (`draft`, `swa`), a device (`gpu0`), an option name.
    `at` is the time of the log line it came from, as printed there, empty when there is none.
    """

    name: str
    value: Value
    unit: str
    grade: Grade
    source: str
    scope: str = ""
    at: str = ""


class Facts:
    """An immutable collection of facts in the order they were read.

    Later ones of the same name and scope win, but what somebody claims never stands over what was seen.
    """

    __slots__ = ("_by_name", "_facts", "_last")

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self._facts = tuple(facts)
        by_name: dict[str, list[Fact]] = {}
        for fact in self._facts:
            by_name.setdefault(fact.name, []).append(fact)
        self._by_name = by_name
        self._last = {(fact.name, fact.scope): fact for fact in self._facts if fact.grade == "claimed"}
        self._last |= {(fact.name, fact.scope): fact for fact in self._facts if fact.grade != "claimed"}

    def __iter__(self) -> Iterator[Fact]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __add__(self, other: Iterable[Fact]) -> Facts:
        return Facts((*self._facts, *other))

    def all(self, name: str, scope: str | None = None) -> tuple[Fact, ...]:
        """Every fact of that name, oldest first; of one scope if given."""
        found = self._by_name.get(name, ())
        return tuple(fact for fact in found if scope is None or fact.scope == scope)

    def get(self, name: str, scope: str | None = None) -> Fact | None:
        """The last fact of that name; without `scope` one with an empty scope is preferred."""
        found = self._last.get((name, scope or ""))
        if found is None and scope is None and name in self._by_name:
            return self._by_name[name][-1]
        return found

    def number(self, name: str, scope: str | None = None) -> float | None:
        """The value as a number, None when there is none or it is text."""
        fact = self.get(name, scope)
        if fact is None or isinstance(fact.value, str):
            return None
        return float(fact.value)

    def text(self, name: str, scope: str | None = None) -> str:
        """The value as text, empty when there is none."""
        fact = self.get(name, scope)
        return "" if fact is None else str(fact.value)
