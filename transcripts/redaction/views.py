"""Text as it reads once its wrapping is off: characters that nobody sees, percent and backslash escapes.

A secret is looked for in that plain reading too, and masked where it stands in the text. Only lines that hold such a
wrapping are read again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from transcripts.redaction import rules
from transcripts.redaction.found import Found
from transcripts.redaction.known import Known

_ROUNDS: Final = 3  # escapes may be escaped again
_LONGEST: Final = 1 << 20
_WRAPPED: Final = re.compile(
    "[\xad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
    r"|%[0-9A-Fa-f]{2}|(?<!\\)\\{1,8}(?:u00|x)[0-7][0-9A-Fa-f]"
)


@dataclass(frozen=True, slots=True)
class View:
    """A plain reading; character `i` of it is `starts[i]` to `ends[i]` of the text."""

    plain: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def span(self, start: int, end: int) -> tuple[int, int]:
        return self.starts[start], self.ends[end - 1]


def found(views: Iterable[View]) -> Iterator[Found]:
    """Secrets that show in the plain readings."""
    for view in views:
        lower = view.plain.lower() if view.plain.isascii() else view.plain
        for each in (*rules.secrets(view.plain, lower, 0, len(view.plain)), *rules.vendors(view.plain)):
            yield Found(*view.span(each.start, each.end), each.kind, False)


def known(views: Iterable[View], values: Known) -> Iterator[tuple[int, int, str, str]]:
    """Known values that show in the plain readings."""
    for view in views:
        for start, end, value, kind in values.find(view.plain):
            yield *view.span(start, end), value, kind


def views_of(text: str) -> list[View]:
    """A plain reading of each line that holds a wrapping."""
    if text.isascii() and "%" not in text and "\\" not in text:
        return []
    return list(_lines(text))


def _lines(text: str) -> Iterator[View]:
    done = 0
    for wrapped in _WRAPPED.finditer(text):
        if wrapped.start() < done:
            continue
        start = text.rfind("\n", done, wrapped.start()) + 1 or done
        done = text.find("\n", wrapped.end())
        done = len(text) if done < 0 else done
        if done - start <= _LONGEST:
            yield _view(text, start, done)


def _view(text: str, start: int, end: int) -> View:
    plain, starts, ends = text[start:end], tuple(range(start, end)), tuple(range(start + 1, end + 1))
    for _ in range(_ROUNDS):
        letters: list[str] = []
        low: list[int] = []
        high: list[int] = []
        at = 0
        for wrapped in _WRAPPED.finditer(plain):
            begin, finish = wrapped.span()
            letter = _letter(wrapped[0])
            if letter is None:
                continue
            letters.append(plain[at:begin] + letter)
            low += starts[at:begin]
            high += ends[at:begin]
            if letter:
                low.append(starts[begin])
                high.append(ends[finish - 1])
            at = finish
        if not at:
            break
        plain, starts, ends = "".join(letters) + plain[at:], (*low, *starts[at:]), (*high, *ends[at:])
    return View(plain, starts, ends)


def _letter(wrapped: str) -> str | None:
    """What it stands for: nothing for what nobody sees, None where it is to stay."""
    if wrapped[0] not in "%\\":
        return ""
    letter = chr(int(wrapped[-2:], 16))
    return letter if " " <= letter <= "~" else None
