"""Statistics over Prefill and Decode lines, and the series itself.

Fields are read by name, since their order and number differ between versions (sglang 0.4.6
srt/managers/scheduler.py:993 and :1044, 0.5.9 srt/managers/scheduler_metrics_mixin.py:213 and :366, 0.5.23
srt/managers/scheduler_components/metrics_reporter.py:753 and :963).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from tools.host.parsers.lines import Clock, Line
from tools.host.parsers.load_statistics import (
    Columns,
    plain,
    rank_value,
    write_decode,
    write_interrupted,
    write_occupancy,
    write_prefill,
)
from tools.host.parsers.page import Page

_NUMBER: Final = re.compile(r"-?\d{1,18}(?:\.\d{1,9})?")
_NUMERALS: Final = frozenset("-0123456789")
_RETRACTED: Final = re.compile(r"#retracted_reqs: (\d+)")
_ABORTED: Final = re.compile(r"#aborted_retracted_reqs: (\d+)")
_GAINED: Final = re.compile(r"#new_tokens_gained: (-?\d+)")
_RATIO: Final = re.compile(r"#new_token_ratio: (\d+\.\d+) -> (\d+\.\d+)")

_SHARES: Final = frozenset(("usage", "full", "swa", "state"))
_FULLEST: Final = 1.5  # a pool is never fuller; what claims more is no line of a server
_MOST: Final = 1e12  # tokens, requests or tokens per second

# field of the line -> column
_DECODE: Final = {
    "#running-req": "running",
    "#queue-req": "queue",
    "#token": "tokens",
    "#full token": "tokens",
    "token usage": "usage",
    "full token usage": "full",
    "swa token usage": "swa",
    "mamba usage": "state",
    "accept len": "accept",
    "gen throughput (token/s)": "throughput",
}
_PREFILL: Final = {
    "#new-seq": "sequences",
    "#new-token": "new",
    "#cached-token": "cached",
    "#running-req": "running",
    "#queue-req": "queue",
    "#pending-token": "pending",
    "token usage": "usage",
    "full token usage": "full",
    "swa token usage": "swa",
    "mamba usage": "state",
    "input throughput (token/s)": "throughput",
}


@dataclass(frozen=True, slots=True)
class Point:
    """One Prefill, Decode or retraction line; `seconds` counts from the first, None where a line has no such field."""

    kind: str
    at: str
    seconds: float | None
    ranks: str
    line: int
    running: int | None = None
    queue: int | None = None
    usage: float | None = None
    tokens: int | None = None
    new: int | None = None
    cached: int | None = None
    accept_len: float | None = None
    throughput: float | None = None


@dataclass
class Load:
    """What was under way between two starts."""

    clock: Clock = field(default_factory=Clock)
    decode_rows: Columns = field(default_factory=lambda: Columns(tuple(_DECODE.values())))
    prefill_rows: Columns = field(default_factory=lambda: Columns(tuple(_PREFILL.values())))
    retractions: list[tuple[int, str, int, int | None, float | None]] = field(default_factory=list)
    aborted: int = 0
    _rank_names: dict[str, str] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not (len(self.decode_rows) or len(self.prefill_rows) or self.retractions)

    # -- lines ----------------------------------------------------------------------------------------------------

    def decode(self, line: Line) -> None:
        row, graph = _fields(line.text, _DECODE)
        if row:
            self._append(self.decode_rows, line, row, graph)

    def prefill(self, line: Line) -> None:
        row, graph = _fields(line.text, _PREFILL)
        if row:
            self._append(self.prefill_rows, line, row, graph)

    def retract(self, line: Line) -> None:
        """A retraction and what it gave back (sglang 0.5.9 srt/managers/scheduler.py:2242)."""
        count, gained, ratio = _RETRACTED.search(line.text), _GAINED.search(line.text), _RATIO.search(line.text)
        aborted = _ABORTED.search(line.text)
        if count is None and gained is None and "Retract requests" not in line.text:
            return
        self.aborted += int(aborted[1]) if aborted else 0
        self.retractions.append(
            (
                line.number,
                line.at,
                int(count[1]) if count else 0,
                int(gained[1]) if gained else None,
                float(ratio[2]) if ratio else None,
            )
        )

    def _append(self, rows: Columns, line: Line, row: dict[str, float], graph: int) -> None:
        seconds = self.clock.seconds(line.at) if line.at else None
        row["line"] = line.number
        row["seconds"] = math.nan if seconds is None else seconds
        if "usage" not in row and "full" in row:
            row["usage"] = max(row["full"], row.get("swa", 0.0))
        rows.append(row, self._rank_names.setdefault(line.ranks, line.ranks), graph)

    # -- series ---------------------------------------------------------------------------------------------------

    def points(self) -> tuple[Point, ...]:
        """Every line in the order it was printed."""
        first = min(
            (s for rows in (self.decode_rows, self.prefill_rows) for s in rows["seconds"] if s == s), default=0.0
        )
        found = [_point("decode", self.decode_rows, row, first) for row in range(len(self.decode_rows))]
        found += [_point("prefill", self.prefill_rows, row, first) for row in range(len(self.prefill_rows))]
        for number, at, *_ in self.retractions:
            seconds = self.clock.seconds(at) if at else None
            found.append(Point("retraction", _printed(seconds), _since(seconds, first), "", number))
        return tuple(sorted(found, key=lambda point: point.line))

    # -- writing out ----------------------------------------------------------------------------------------------

    def write(self, page: Page, limit: float | None) -> None:
        """All statistics; `limit` is the running limit of this start, None where the log does not show it."""
        if len(self.decode_rows):
            write_decode(self.decode_rows, page, limit)
        elif len(self.prefill_rows):
            write_occupancy(self.prefill_rows, page, limit)
        if len(self.prefill_rows):
            write_prefill(self.prefill_rows, page)
        if len(self.decode_rows) > 1 and len(self.prefill_rows):
            write_interrupted(self.decode_rows, self.prefill_rows, page)
        if self.retractions:
            self._write_retractions(page)
        self._write_window(page)

    def _write_window(self, page: Page) -> None:
        both = [
            (s, n)
            for rows in (self.decode_rows, self.prefill_rows)
            for s, n in zip(rows["seconds"], rows["line"], strict=True)
            if s == s
        ]
        if len(both) > 1:
            page.add("load_window_s", round(max(both)[0] - min(both)[0], 3), int(max(both)[1]), grade="derived")

    def _write_retractions(self, page: Page) -> None:
        number, at, *_ = self.retractions[-1]
        page.add("retractions", len(self.retractions), number, at=at)
        requests = sum(one[2] for one in self.retractions)
        if requests:
            page.add("retracted_requests", requests, number, at=at, grade="derived")
        gains = [(one[3] / max(one[2], 1), one[0]) for one in self.retractions if one[3] is not None]
        if gains:
            gain, where = rank_value(sorted(gains), 0.5)
            page.add("retraction_gain_p50", plain(gain), where, grade="derived")
        ratios = [(one[4], one[0]) for one in self.retractions if one[4] is not None]
        if ratios:
            ratio, where = max(ratios)
            page.add("new_token_ratio_max", ratio, where)
        if self.aborted:
            page.add("retraction_aborts", self.aborted, number, at=at)


def _fields(text: str, names: dict[str, str]) -> tuple[dict[str, float], int]:
    """Values by column, and whether a graph ran (-1 unknown). A last number that may be cut is left out."""
    start = text.find("#")
    usage = text.find("token usage")
    start = min((one for one in (start, usage) if one >= 0), default=0)
    parts = text[start:].split(", ")
    row: dict[str, float] = {}
    graph = -1
    for position, part in enumerate(parts):
        key, colon, value = part.partition(": ")
        if not colon:
            continue
        if key.endswith(" graph"):
            graph = {"True": 1, "False": 0}.get(value.split()[0] if value.strip() else "", graph)
            continue
        column = names.get(key.removeprefix("waiting "))
        if column is None:
            continue
        number = _value(value, last=position == len(parts) - 1, key=key)
        if number is not None and 0 <= number <= (_FULLEST if column in _SHARES else _MOST):
            row.setdefault(column, number)
    return row, graph


def _value(value: str, *, last: bool, key: str) -> float | None:
    if last and key != "#queue-req" and value[-3:-2] != ".":  # two decimals are a whole number, others may be cut
        return _leading(value) if " " in value else None
    try:
        return float(value) if value[:1] in _NUMERALS else None
    except ValueError:
        return _leading(value)


def _leading(value: str) -> float | None:
    """The number that a text begins with, as in `67 (median; p95 96`."""
    match = _NUMBER.match(value)
    return None if match is None else float(match[0])


def _point(kind: str, rows: Columns, row: int, first: float) -> Point:
    def whole(name: str) -> int | None:
        value = number(name)
        return None if value is None else int(value)

    def number(name: str) -> float | None:
        value = rows[name][row]
        return value if value == value else None

    seconds = number("seconds")
    decode = kind == "decode"
    return Point(
        kind=kind,
        at=_printed(seconds),
        seconds=_since(seconds, first),
        ranks=rows.ranks[row],
        line=int(rows["line"][row]),
        running=whole("running"),
        queue=whole("queue"),
        usage=number("usage"),
        tokens=whole("tokens") if decode else None,
        new=None if decode else whole("new"),
        cached=None if decode else whole("cached"),
        accept_len=number("accept") if decode else None,
        throughput=number("throughput"),
    )


def _printed(seconds: float | None) -> str:
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _since(seconds: float | None, first: float) -> float | None:
    return None if seconds is None else seconds - first
