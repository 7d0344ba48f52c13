"""A figure that can be explained: formula, inputs, sources, limit, and the line of SGLang that does the same sum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from types import MappingProxyType
from typing import Final

from transcripts.facts import Fact, Grade

GIB: Final = 1 << 30
MIB: Final = 1 << 20
GB: Final = 10**9

_RANK: Final[Mapping[str, int]] = MappingProxyType({"observed": 0, "derived": 1, "claimed": 2, "estimated": 3})


@dataclass(frozen=True, slots=True)
class Sum:
    """One figure with everything needed to redo it by hand.

    `low` and `high` are given where only a range is known; `value` is then the middle that the other figures use.
    `margin` is (limit - value) / limit. `source_line` names the tree it was read in when that is not the deployed one.
    """

    name: str
    expression: str
    inputs: Mapping[str, float]
    value: float
    unit: str
    grade: Grade
    sources: tuple[str, ...] = ()
    limit: float | None = None
    limit_from: str = ""
    source_line: str = ""
    low: float | None = None
    high: float | None = None

    @property
    def margin(self) -> float | None:
        if not self.limit:
            return None
        return (self.limit - self.value) / self.limit

    @property
    def fits(self) -> bool:
        return self.limit is None or self.value <= self.limit

    def line(self) -> str:
        """The sum in one line, as `plan --explain` prints it."""
        inputs = ", ".join(f"{name}={_short(value)}" for name, value in self.inputs.items())
        text = f"{self.name} = {self.expression} = {_short(self.value)} {self.unit} ({self.grade}; {inputs}"
        if self.low is not None and self.high is not None:
            text += f"; {_short(self.low)} to {_short(self.high)}"
        if self.limit is not None:
            text += f"; limit {_short(self.limit)} from {self.limit_from}"
        if self.sources:
            text += f"; from {', '.join(self.sources)}"
        return text + (f"; {self.source_line})" if self.source_line else ")")

    def as_json(self) -> dict[str, object]:
        """The entry of the document's `arithmetic`."""
        found: dict[str, object] = {
            "name": self.name,
            "expression": self.expression,
            "inputs": dict(self.inputs),
            "value": self.value,
            "unit": self.unit,
            "grade": self.grade,
            "sources": list(self.sources),
            "source_line": self.source_line,
        }
        if self.limit is not None:
            found |= {"limit": self.limit, "limit_from": self.limit_from, "margin": self.margin}
        if self.low is not None:
            found |= {"low": self.low, "high": self.high}
        return found


@dataclass(frozen=True, slots=True)
class Missing:
    """What a figure lacks and how to get it. `facts` are names of `transcripts/vocabulary.py`."""

    what: str
    facts: tuple[str, ...]
    how: str


@dataclass(frozen=True, slots=True)
class Known:
    """A number with its grade and where it stands; what the sums carry instead of bare numbers."""

    value: float
    grade: Grade
    source: str

    @staticmethod
    def of(fact: Fact | None) -> Known | None:
        """The fact as a number; numeric text (a typed flag) counts, other text does not."""
        if fact is None:
            return None
        try:
            value = float(fact.value)
        except ValueError:
            return None
        if not isfinite(value):
            return None
        return Known(value, fact.grade, fact.source)


@dataclass(frozen=True, slots=True)
class Provenance:
    """Grades and sources of several inputs, folded into what a sum over them may claim."""

    items: tuple[Known, ...] = field(default=())

    @property
    def grade(self) -> Grade:
        """A sum over observed inputs is derived; one weaker input makes the whole as weak as itself."""
        return weakest(item.grade for item in self.items)

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(item.source for item in self.items if item.source))


def provenance(*items: Known | None) -> Provenance:
    return Provenance(tuple(item for item in items if item is not None))


def weakest(grades: Iterable[Grade]) -> Grade:
    """The weakest of several grades, at best derived."""
    worst: Grade = "derived"
    for grade in grades:
        if _RANK[grade] > _RANK[worst]:
            worst = grade
    return worst


def _short(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.4g}" if abs(value) < 1 else f"{value:,.2f}"
