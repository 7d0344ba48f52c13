"""Statistics over Prefill and Decode lines, and the series itself.

Fields are read by name, since their order and number differ between versions (sglang 0.4.6
srt/managers/scheduler.py:993 and :1044, 0.5.9 srt/managers/scheduler_metrics_mixin.py:213 and :366, 0.5.23
srt/managers/scheduler_components/metrics_reporter.py:753 and :963). Columns are arrays, so that an hour of a busy
server or a week of a quiet one costs tens of megabytes, not hundreds.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from tools.host.parsers.lines import Clock, Line
from tools.host.parsers.page import Page
from transcripts.facts import Grade

_NUMBER: Final = re.compile(r"-?\d{1,18}(?:\.\d{1,9})?")
_NUMERALS: Final = frozenset("-0123456789")
_NONE: Final = math.nan
_RETRACTED: Final = re.compile(r"#retracted_reqs: (\d+)")
_ABORTED: Final = re.compile(r"#aborted_retracted_reqs: (\d+)")
_GAINED: Final = re.compile(r"#new_tokens_gained: (-?\d+)")
_RATIO: Final = re.compile(r"#new_token_ratio: (\d+\.\d+) -> (\d+\.\d+)")
_FEW: Final = 5
_ENOUGH_FOR_THIRDS: Final = 9
_SOME: Final = 0.02

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
    """One Prefill or Decode line; `seconds` counts from the first of them, None where a line has no such field."""

    kind: str
    at: str
    seconds: float | None
    ranks: str
    line: int
    running: int | None
    queue: int | None
    usage: float | None
    tokens: int | None = None
    new: int | None = None
    cached: int | None = None
    accept_len: float | None = None
    throughput: float | None = None


class _Columns:
    """Columns of doubles, one row a line; NaN where a line had no such field."""

    def __init__(self, names: Sequence[str]) -> None:
        self._columns = {name: array("d") for name in ("line", "seconds", *dict.fromkeys(names))}
        self.graph = array("b")
        self.ranks: list[str] = []

    def __len__(self) -> int:
        return len(self._columns["line"])

    def __getitem__(self, name: str) -> array[float]:
        return self._columns[name]

    def append(self, row: dict[str, float], ranks: str, graph: int) -> None:
        for name, column in self._columns.items():
            column.append(row.get(name, _NONE))
        self.ranks.append(ranks)
        self.graph.append(graph)


@dataclass
class Load:
    """What was under way between two starts."""

    clock: Clock = field(default_factory=Clock)
    decode_rows: _Columns = field(default_factory=lambda: _Columns(tuple(_DECODE.values())))
    prefill_rows: _Columns = field(default_factory=lambda: _Columns(tuple(_PREFILL.values())))
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
        if count is None and gained is None:
            return
        self.aborted += int(aborted[1]) if aborted else 0
        self.retractions.append(
            (
                line.number,
                line.at,
                int(count[1]) if count else 1,
                int(gained[1]) if gained else None,
                float(ratio[2]) if ratio else None,
            )
        )

    def _append(self, rows: _Columns, line: Line, row: dict[str, float], graph: int) -> None:
        seconds = self.clock.seconds(line.at) if line.at else None
        row["line"] = line.number
        row["seconds"] = _NONE if seconds is None else seconds
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
        return tuple(sorted(found, key=lambda point: point.line))

    # -- writing out ----------------------------------------------------------------------------------------------

    def write(self, page: Page, limit: float | None) -> None:
        """All statistics; `limit` is the running limit of this start, None where the log does not show it."""
        if len(self.decode_rows):
            _DecodeStatistics(self.decode_rows, page).write(limit)
        if len(self.prefill_rows):
            _write_prefill(self.prefill_rows, page)
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
        page.add("retracted_requests", sum(one[2] for one in self.retractions), number, at=at, grade="derived")
        gains = [(one[3] / max(one[2], 1), one[0]) for one in self.retractions if one[3] is not None]
        if gains:
            gain, where = _rank_value(sorted(gains), 0.5)
            page.add("retraction_gain_p50", _plain(gain), where, grade="derived")
        ratios = [(one[4], one[0]) for one in self.retractions if one[4] is not None]
        if ratios:
            ratio, where = max(ratios)
            page.add("new_token_ratio_max", ratio, where)
        if self.aborted:
            page.add("retraction_aborts", self.aborted, number, at=at)


class _DecodeStatistics:
    """Percentiles over the loaded part of the decode lines, extremes over all of them.

    The loaded part is where requests waited; where hardly any ever waited, where at least half the peak was running. A
    series that idles, ramps and then stands at its limit is thus described by where it stands.
    """

    def __init__(self, rows: _Columns, page: Page) -> None:
        self.rows, self.page = rows, page
        self.lines = rows["line"]
        self.loaded = _loaded(rows)

    def write(self, limit: float | None) -> None:
        last = int(self.lines[-1])
        self.page.add("decode_lines", len(self.rows), last)
        self.page.add("loaded_lines", len(self.loaded), int(self.lines[self.loaded[-1]]), grade="derived")
        seconds = [self.rows["seconds"][row] for row in self.loaded]
        seconds = [one for one in seconds if one == one]
        if len(seconds) > 1:
            self.page.add("loaded_window_s", round(max(seconds) - min(seconds), 3), last, grade="derived")
        for column, name, scope in (
            ("running", "running", ""),
            ("queue", "queue", ""),
            ("usage", "usage", ""),
            ("full", "usage", "full"),
            ("swa", "usage", "swa"),
            ("state", "usage", "state"),
        ):
            self._spread(column, name, scope)
        self._middle("accept", "accept_len_p50")
        self._middle("throughput", "gen_throughput_p50")
        self._tokens_per_request()
        self._pinned(limit)
        self._graphs()

    def _values(self, column: str, rows: Sequence[int]) -> list[tuple[float, int]]:
        values = self.rows[column]
        return sorted((values[row], int(self.lines[row])) for row in rows if values[row] == values[row])

    def _spread(self, column: str, name: str, scope: str) -> None:
        loaded = self._values(column, self.loaded)
        everything = self._values(column, range(len(self.rows)))
        if not everything:
            return
        for suffix, share in (("p50", 0.5), ("p95", 0.95)):
            if loaded:
                self._add(f"{name}_{suffix}", _rank_value(loaded, share), scope)
        self._add(f"{name}_max", everything[-1], scope)
        if name == "usage" and loaded:
            self._add("usage_min", loaded[0], scope)
        if not scope and len(self.loaded) < len(self.rows):
            self._add(f"{name}_p50", _rank_value(everything, 0.5), "all")

    def _middle(self, column: str, name: str) -> None:
        values = self._values(column, self.loaded)
        if values:
            self._add(name, _rank_value(values, 0.5), "")

    def _add(self, name: str, found: tuple[float, int], scope: str, grade: Grade = "observed") -> None:
        value, line = found
        self.page.add(name, _plain(value), line, scope=scope, grade=grade)

    def _tokens_per_request(self) -> None:
        running, tokens = self.rows["running"], self.rows["tokens"]
        values = sorted(
            (round(tokens[row] / running[row], 1), int(self.lines[row]))
            for row in self.loaded
            if running[row] > 0 and tokens[row] == tokens[row]
        )
        if values:
            self._add("tokens_per_request", _rank_value(values, 0.5), "", "derived")
            self._add("tokens_per_request_p95", _rank_value(values, 0.95), "", "derived")

    def _pinned(self, limit: float | None) -> None:
        """Share of loaded lines at the limit with a queue; without a known limit, at the highest count seen."""
        running, queue = self.rows["running"], self.rows["queue"]
        known = [row for row in self.loaded if running[row] == running[row] and queue[row] == queue[row]]
        if not known:
            return
        top = limit if limit is not None else max(running[row] for row in known)
        at_top = [row for row in known if running[row] >= top and queue[row] > 0]
        where = int(self.lines[at_top[-1] if at_top else known[-1]])
        self.page.add("pinned_share", round(len(at_top) / len(known), 4), where, grade="derived")
        waiting = sum(queue[row] > 0 for row in known)
        self.page.add("queued_share", round(waiting / len(known), 4), where, grade="derived")

    def _graphs(self) -> None:
        known = [row for row in self.loaded if self.rows.graph[row] >= 0]
        without = [row for row in known if self.rows.graph[row] == 0]
        if known:
            where = int(self.lines[without[-1] if without else known[-1]])
            self.page.add("graph_false_share", round(len(without) / len(known), 4), where, grade="derived")


def _loaded(rows: _Columns) -> Sequence[int]:
    everything = range(len(rows))
    waiting = [row for row in everything if rows["queue"][row] > 0]
    if len(waiting) >= max(_FEW, _SOME * len(rows)):
        return waiting
    running = rows["running"]
    top = max((one for one in running if one == one), default=0.0)
    busy = [row for row in everything if running[row] >= top / 2]
    return busy if top > 0 and busy else everything


def _write_prefill(rows: _Columns, page: Page) -> None:
    lines, new, cached = rows["line"], rows["new"], rows["cached"]
    last = int(lines[-1])
    page.add("prefill_lines", len(rows), last)
    known = [row for row in range(len(rows)) if new[row] == new[row] and cached[row] == cached[row]]
    if not known:
        return
    page.add("new_tokens", int(sum(new[row] for row in known)), last, grade="derived")
    page.add("cached_tokens", int(sum(cached[row] for row in known)), last, grade="derived")
    value, where = _rank_value(sorted((new[row], int(lines[row])) for row in known), 0.5)
    page.add("new_tokens_p50", _plain(value), where)
    value, where = max((new[row], int(lines[row])) for row in known)
    page.add("new_tokens_max", _plain(value), where)
    _write_cached(page, "", known, rows)
    if len(known) >= _ENOUGH_FOR_THIRDS:
        for name, part in zip(("first", "middle", "last"), _thirds(known, rows["seconds"]), strict=True):
            _write_cached(page, name, part, rows)
    for column, name in (("queue", "prefill_queue_p50"), ("pending", "pending_tokens_p50")):
        values = sorted((rows[column][row], int(lines[row])) for row in known if rows[column][row] == rows[column][row])
        if values:
            value, where = _rank_value(values, 0.5)
            page.add(name, _plain(value), where)


def _write_cached(page: Page, scope: str, part: Sequence[int], rows: _Columns) -> None:
    hit = sum(rows["cached"][row] for row in part)
    total = hit + sum(rows["new"][row] for row in part)
    if total > 0:
        page.add("cached_share", round(hit / total, 4), int(rows["line"][part[-1]]), scope=scope, grade="derived")


def _thirds(known: list[int], seconds: array[float]) -> tuple[list[int], list[int], list[int]]:
    """Thirds of the window by time; by number of lines where times are missing or leave a third empty."""
    times = [seconds[row] for row in known]
    if all(one == one for one in times) and max(times) > min(times):
        start, third = min(times), (max(times) - min(times)) / 3
        parts: tuple[list[int], list[int], list[int]] = ([], [], [])
        for row in known:
            parts[min(2, int((seconds[row] - start) // third))].append(row)
        if all(parts):
            return parts
    size = len(known) / 3
    first, second = round(size), round(2 * size)
    return known[:first], known[first:second], known[second:]


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
        if number is not None:
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


def _point(kind: str, rows: _Columns, row: int, first: float) -> Point:
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
        at="" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S"),
        seconds=None if seconds is None else seconds - first,
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


def _rank_value(ordered: Sequence[tuple[float, int]], share: float) -> tuple[float, int]:
    """Nearest-rank percentile: a value that was really printed, with its line."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _plain(value: float) -> float | int:
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else round(value, 4)
