"""Text that remembers where each of its characters stands in the file it was decoded from.

A flag inside `bash -lc "…"` inside a YAML scalar is decoded twice and still has a span in the file, so that a change
touches its own bytes and no others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Mapped:
    """`text`, and for each character the span of the source that stands for it."""

    text: str
    spans: tuple[Span, ...]

    @classmethod
    def of(cls, source: str, start: int = 0, end: int | None = None) -> Mapped:
        """A part of the source as it is."""
        stop = len(source) if end is None else end
        return cls(source[start:stop], tuple((index, index + 1) for index in range(start, stop)))

    @classmethod
    def join(cls, parts: Iterable[Mapped]) -> Mapped:
        kept = tuple(parts)
        return cls("".join(part.text for part in kept), tuple(span for part in kept for span in part.spans))

    def __len__(self) -> int:
        return len(self.text)

    def part(self, start: int, end: int) -> Mapped:
        return Mapped(self.text[start:end], self.spans[start:end])

    def as_char(self, start: int, end: int, char: str) -> Mapped:
        """One character that the characters from start to end stand for."""
        return Mapped(char, ((self.spans[start][0], self.spans[end - 1][1]),))


@dataclass(frozen=True, slots=True)
class Item:
    """A word that is a whole item of a YAML sequence: its style, and the end of the item before it.

    An `alias` stands for a word that is written elsewhere.
    """

    block: bool
    quote: str
    before: int
    line_start: int
    alias: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command: decoded, with the span of its raw text (quotes included) in the source."""

    value: Mapped
    start: int
    end: int
    item: Item | None = None
    bare: bool = True  # no character of it was quoted

    @property
    def text(self) -> str:
        return self.value.text


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the source from start to end."""

    start: int
    end: int
    text: str


def apply(source: str, edits: Iterable[Edit]) -> str:
    """The source with edits made, from the last to the first; edits must not overlap."""
    done = source
    limit = len(source) + 1
    for edit in sorted(edits, key=lambda one: (one.start, one.end), reverse=True):
        if edit.end > limit:
            raise ValueError("edits overlap")
        done = done[: edit.start] + edit.text + done[edit.end :]
        limit = edit.start
    return done
