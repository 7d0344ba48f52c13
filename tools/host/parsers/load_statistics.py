"""Percentiles and shares over the columns of a load: what was under way while there was work.

Columns are arrays, so that an hour of a busy server or a week of a quiet one costs tens of megabytes, not hundreds.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from tools.host.parsers.page import Page
from transcripts.facts import Grade

_TWO: Final = 2
_FEW: Final = 5
_SOME: Final = 0.02
_ENOUGH_FOR_THIRDS: Final = 9
_NONE: Final = math.nan
_HOUR_S: Final = 3600.0
_USUAL_CHUNK: Final = 8192  # tokens of prefill between two decode lines
_LEAST_RUNNING: Final = 4


class Columns:
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


def write_decode(rows: Columns, page: Page, limit: float | None) -> None:
    """Statistics of decode lines; `limit` is the running limit of this start, None where the log does not show it."""
    _DecodeStatistics(rows, page).write(limit)


def write_occupancy(rows: Columns, page: Page, limit: float | None) -> None:
    """Running, queue and usage alone, from prefill lines: for a server that got to no decode line."""
    statistics = _DecodeStatistics(rows, page)
    statistics.write_occupancy()
    statistics.write_pinned(limit)


class _DecodeStatistics:
    """Percentiles over the loaded part of the decode lines, extremes over all of them.

    The loaded part is where requests waited; where hardly any ever waited, where at least half the peak was running. A
    series that idles, ramps and then stands at its limit is thus described by where it stands.
    """

    def __init__(self, rows: Columns, page: Page) -> None:
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
        self.write_occupancy()
        self._middle("accept", "accept_len_p50")
        self._ends("accept", "accept_len")
        self._middle("throughput", "gen_throughput_p50")
        self._tokens_per_request()
        self.write_pinned(limit)
        self._graphs()

    def write_occupancy(self) -> None:
        for column, name, scope in (
            ("running", "running", ""),
            ("queue", "queue", ""),
            ("usage", "usage", ""),
            ("full", "usage", "full"),
            ("swa", "usage", "swa"),
            ("state", "usage", "state"),
        ):
            self._spread(column, name, scope)

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
                self._add(f"{name}_{suffix}", rank_value(loaded, share), scope)
        self._add(f"{name}_max", everything[-1], scope)
        if name == "usage" and loaded:
            self._add("usage_min", loaded[0], scope)
        if not scope and len(self.loaded) < len(self.rows):
            self._add(f"{name}_p50", rank_value(everything, 0.5), "all")

    def _middle(self, column: str, name: str) -> None:
        values = self._values(column, self.loaded)
        if values:
            self._add(name, rank_value(values, 0.5), "")

    def _ends(self, column: str, name: str) -> None:
        """Medians of the first and of the last third of the loaded lines, as the ends of a series."""
        values = self.rows[column]
        known = [row for row in self.loaded if values[row] == values[row]]
        if len(known) < _TWO:
            return
        third = max(1, len(known) // 3)
        for side, part in (("series_first", known[:third]), ("series_last", known[-third:])):
            self._add(side, rank_value(self._values(column, part), 0.5), name)

    def _add(self, name: str, found: tuple[float, int], scope: str, grade: Grade = "observed") -> None:
        value, line = found
        self.page.add(name, plain(value), line, scope=scope, grade=grade)

    def _tokens_per_request(self) -> None:
        running, tokens = self.rows["running"], self.rows["tokens"]
        values = sorted(
            (round(tokens[row] / running[row], 1), int(self.lines[row]))
            for row in self.loaded
            if running[row] > 0 and tokens[row] == tokens[row]
        )
        if values:
            self._add("tokens_per_request", rank_value(values, 0.5), "", "derived")
            self._add("tokens_per_request_p95", rank_value(values, 0.95), "", "derived")

    def write_pinned(self, limit: float | None) -> None:
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


def _loaded(rows: Columns) -> Sequence[int]:
    everything = range(len(rows))
    waiting = [row for row in everything if rows["queue"][row] > 0]
    if len(waiting) >= max(_FEW, _SOME * len(rows)):
        return waiting
    running = rows["running"]
    top = max((one for one in running if one == one), default=0.0)
    busy = [row for row in everything if running[row] >= top / 2]
    return busy if top > 0 and busy else everything


def write_prefill(rows: Columns, page: Page) -> None:
    """Statistics of prefill lines: what was computed, what the cache gave, over the window and its thirds."""
    lines, new, cached = rows["line"], rows["new"], rows["cached"]
    last = int(lines[-1])
    page.add("prefill_lines", len(rows), last)
    known = [row for row in range(len(rows)) if new[row] == new[row] and cached[row] == cached[row]]
    if not known:
        return
    page.add("new_tokens", int(sum(new[row] for row in known)), last, grade="derived")
    page.add("cached_tokens", int(sum(cached[row] for row in known)), last, grade="derived")
    value, where = rank_value(sorted((new[row], int(lines[row])) for row in known), 0.5)
    page.add("new_tokens_p50", plain(value), where)
    value, where = max((new[row], int(lines[row])) for row in known)
    page.add("new_tokens_max", plain(value), where)
    _write_cached(page, "", known, rows)
    if len(known) >= _ENOUGH_FOR_THIRDS:
        for name, part in zip(("first", "middle", "last"), _thirds(known, rows["seconds"]), strict=True):
            _write_cached(page, name, part, rows)
    for column, name in (("queue", "prefill_queue_p50"), ("pending", "pending_tokens_p50")):
        values = sorted((rows[column][row], int(lines[row])) for row in known if rows[column][row] == rows[column][row])
        if values:
            value, where = rank_value(values, 0.5)
            page.add(name, plain(value), where)


def write_interrupted(decode: Columns, prefill: Columns, page: Page) -> None:
    """What is left of a rank's decode rate where prefill ran between two of its decode lines: the median of such gaps.

    A line's rate is what was generated since the line before over all that time (sglang 0.5.9
    srt/observability/scheduler_metrics_mixin.py), so prefill in between lowers it. Counted are gaps with at least a
    usual chunk of new tokens, and about as many requests running after it as before.
    """
    shares: list[tuple[float, int]] = []
    for rank in sorted(set(decode.ranks)):
        lines = [(decode["line"][row], row) for row in range(len(decode)) if decode.ranks[row] == rank]
        read = [
            (prefill["line"][row], prefill["new"][row]) for row in range(len(prefill)) if prefill.ranks[row] == rank
        ]
        ends, place = [line for line, _ in read], 0
        sums = [0.0]
        for _, new in read:
            sums.append(sums[-1] + (new if new == new else 0.0))
        for (before, first), (after, second) in pairwise(sorted(lines)):
            start = bisect_left(ends, before, place)
            place = bisect_left(ends, after, start)
            same = decode["running"][first] >= _LEAST_RUNNING and (
                decode["running"][second] >= 0.8 * decode["running"][first]
            )
            if same and sums[place] - sums[start] >= _USUAL_CHUNK and decode["throughput"][first] > 0:
                shares.append((decode["throughput"][second] / decode["throughput"][first], int(after)))
    shares = sorted(one for one in shares if one[0] == one[0])
    if shares:
        value, where = rank_value(shares, 0.5)
        page.add("decode_rate_across_prefill", round(value, 4), where, grade="derived")


def _write_cached(page: Page, scope: str, part: Sequence[int], rows: Columns) -> None:
    hit = sum(rows["cached"][row] for row in part)
    total = hit + sum(rows["new"][row] for row in part)
    if total > 0:
        where = int(rows["line"][part[-1]])
        page.add("cached_share", round(hit / total, 4), where, scope=scope, grade="derived")
        span = rows["seconds"][part[-1]] - rows["seconds"][part[0]]
        if span > 0:  # also false where times are missing
            per_hour = round((total - hit) / span * _HOUR_S)
            page.add("new_tokens_per_hour", per_hour, where, scope=scope, grade="derived")


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


def rank_value(ordered: Sequence[tuple[float, int]], share: float) -> tuple[float, int]:
    """Nearest-rank percentile: a value that was really printed, with its line."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def plain(value: float) -> float | int:
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else round(value, 4)
