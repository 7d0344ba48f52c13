"""Lines of text laid out for a width: paragraphs, lists, tables, commands. Words are never cut, nor commands folded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

from agent.views.words import visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

Json = dict[str, Any]
NARROWEST: Final = 40
WIDEST: Final = 120
GAP: Final = 2
_MARKED: Final = re.compile(r"`[^`]+`")
_KEPT: Final = "\xa0"  # stands for a blank at which no line ends


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    style: str = ""


Make = Callable[[int], Iterable[Line]]


class Page:
    """What a console prints: lines made for its width, with nothing in them that a terminal would act on."""

    def __init__(self, make: Make) -> None:
        self._make = make

    def lines(self, width: int) -> list[Line]:
        return [Line(visible(line.text).rstrip(), line.style) for line in self._make(width)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        for line in self.lines(min(max(options.max_width, NARROWEST), WIDEST)):
            yield Text(line.text, style=line.style, no_wrap=True, overflow="ignore")


def told(text: str) -> Make:
    """Text with its own line breaks, each of its lines folded between words."""

    def make(width: int) -> Iterable[Line]:
        for line in text.split("\n"):
            indent = len(line) - len(line.lstrip(" "))
            yield from paragraph(line, width, indent) if line.strip() else [Line("")]

    return make


def paragraph(
    text: str, width: int, indent: int = 0, hanging: int = 0, style: str = "", *, cut_words: bool = False
) -> list[Line]:
    """Folded between words; later lines stand `hanging` further in. A word longer than the line is left whole, so that
    it can be taken over, unless `cut_words`; so is what stands between backticks, where a line has room for it."""
    room = width - indent - hanging
    return [
        Line(line.replace(_KEPT, " "), style)
        for line in wrap(
            _MARKED.sub(lambda found: _whole(found[0], room), " ".join(text.split())),
            width,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + hanging),
            break_long_words=cut_words,
            break_on_hyphens=False,
        )
    ]


def _whole(command: str, room: int) -> str:
    return command.replace(" ", _KEPT) if len(command) < room else command


def item(text: str, width: int, indent: int = 2, mark: str = "-", style: str = "") -> list[Line]:
    """An entry of a list, later lines under the first."""
    return paragraph(f"{mark} {text}", width, indent, len(mark) + 1, style)


def commands(lines: Iterable[str]) -> list[Line]:
    """Commands at the first column and unfolded, so that they can be taken over as they are."""
    return [Line(line) for each in lines for line in each.splitlines()]


def table(columns: Sequence[tuple[str, Json]], rows: Iterable[Sequence[Any]]) -> Page:
    """Columns side by side, none narrower than its longest word; `justify: right` for figures."""
    cells = [[" ".join(str(cell).split()) for cell in row] for row in rows]
    names = [name for name, _ in columns]
    right = [options.get("justify") == "right" for _, options in columns]
    whole = [bool(options.get("no_wrap")) for _, options in columns]
    return Page(lambda width: columned(names, cells, width, right=right, whole=whole))


def columned(
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    indent: int = 0,
    right: Sequence[bool] = (),
    whole: Sequence[bool] = (),
) -> list[Line]:
    """The lines of a table; where the columns do not fit even so, each row is told cell by cell."""
    right = right or [False] * len(names)
    whole = whole or [False] * len(names)
    columns = [[name, *(row[number] for row in rows)] for number, name in enumerate(names)]
    widest = [max(len(cell) for cell in column) for column in columns]
    least = [
        most if kept else max((len(word) for cell in column for word in cell.split()), default=0)
        for column, most, kept in zip(columns, widest, whole, strict=True)
    ]
    room = width - indent - GAP * (len(names) - 1)
    if sum(least) > room:
        return _by_cell(names, rows, width, indent)
    given = _shared_out(widest, least, room)
    lines = _row(names, given, right, indent, "dim") if any(names) else []
    lines += [Line(" " * indent + "-" * (sum(given) + GAP * (len(names) - 1)), "dim")] if any(names) else []
    for row in rows:
        lines += _row(row, given, right, indent, "")
    return lines


def _shared_out(widest: list[int], least: list[int], room: int) -> list[int]:
    """A width for each column: what it wants if there is room, else the widest give way first."""
    given = list(widest)
    while sum(given) > room:
        spare = [have - need for have, need in zip(given, least, strict=True)]
        giving = max((number for number, free in enumerate(spare) if free), key=lambda number: given[number])
        given[giving] -= 1
    return given


def _row(row: Sequence[str], given: list[int], right: Sequence[bool], indent: int, style: str) -> list[Line]:
    cells = [
        wrap(cell, max(space, 1), break_long_words=False, break_on_hyphens=False) or [""]
        for cell, space in zip(row, given, strict=True)
    ]
    lines = []
    for number in range(max(len(cell) for cell in cells)):
        parts = [
            (part.rjust(space) if aligned else part.ljust(space))
            for cell, space, aligned in zip(cells, given, right, strict=True)
            for part in [cell[number] if number < len(cell) else ""]
        ]
        lines.append(Line(" " * indent + (" " * GAP).join(parts), style))
    return lines


def _by_cell(names: Sequence[str], rows: Sequence[Sequence[str]], width: int, indent: int) -> list[Line]:
    lines = []
    for row in rows:
        told = [f"{name} {cell}".strip() for name, cell in zip(names, row, strict=True) if cell]
        lines += item("; ".join(told), width, indent)
    return lines
