"""The facts of one evidence in the making: units come from the vocabulary, sources from the line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

from transcripts.facts import Fact, Grade, Value
from transcripts.vocabulary import VOCABULARY

_LONGEST_TEXT: Final = 20_000
_LONGEST_LINE: Final = 8_192


def short_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines numbered from 1, without those that are longer than anything a system program prints."""
    for number, raw in enumerate(text.splitlines(), start=1):
        if len(raw) <= _LONGEST_LINE:
            yield number, raw


class Page:
    """Collects facts of one evidence; `line` is counted from 1, 0 stands for the whole evidence."""

    def __init__(self, evidence_id: str) -> None:
        self._evidence_id = evidence_id
        self._facts: list[Fact] = []

    @property
    def facts(self) -> tuple[Fact, ...]:
        return tuple(self._facts)

    def extend(self, facts: Iterable[Fact]) -> None:
        """Take over facts that are whole already."""
        self._facts.extend(facts)

    def add(
        self,
        name: str,
        value: Value,
        line: int,
        *,
        scope: str = "",
        at: str = "",
        grade: Grade = "observed",
    ) -> None:
        """Note one value. Raises KeyError for a name that the vocabulary does not list; drops NaN and infinity."""
        unit, _ = VOCABULARY[name]
        if isinstance(value, float) and not math.isfinite(value):
            return
        if isinstance(value, str) and len(value) > _LONGEST_TEXT:
            return
        source = f"{self._evidence_id}:{line}" if line else self._evidence_id
        self._facts.append(Fact(name, value, unit, grade, source, scope, at))
