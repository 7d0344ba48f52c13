"""A server's log, line by line: which start a line belongs to, and what it says there.

A start begins with `server_args=`; warnings about arguments are printed before that line and belong to the start that
follows (sglang 0.5.9 srt/entrypoints/engine.py:1031, srt/server_args.py:2363). Where a log was cut so that the line is
missing, weights being loaded again on the first rank after the server was ready mark a new start.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from tools.host.parsers import server_args
from tools.host.parsers.boot import Boot
from tools.host.parsers.lines import Clock, Line, is_search, unwrap
from tools.host.parsers.load import Load, Point
from tools.host.parsers.page import Page
from transcripts.facts import Fact

_MARK: Final = re.compile(
    r"(?P<server_args>server_args=(?:ServerArgs\(|\{))"
    r"|(?P<weight_begin>Load weight begin)|(?P<weight_end>Load weight end)"
    r"|(?P<kv_pool>KV Cache (?:is allocated|VA upper)|KV sizing: (?:draft )?KV cache allocated)"
    r"|(?P<reduced>max_running_requests was reduced|KV sizing: max_running_requests)"
    r"|(?P<pool_end>Memory pool end)|(?P<sliding>full_layer_tokens=)|(?P<sliding_alone>DSV4 pool sizes:|\(all SWA\))"
    r"|(?P<dist_init>Init torch distributed ends)|(?P<profiled>larger than the profiled value)"
    r"|(?P<host_ratio>HiCache (?:auto-sizing|memory headroom):)"
    r"|(?P<state>Mamba Cache is allocated)|(?P<state_cap>by the mamba state cache)"
    r"|(?P<graph>Capture [\w -]{0,60}[gG]raph (?:begin|end)|Capture \w+ graph bs)"
    r"|(?P<host_pool>Allocating .{0,120}GB host memory)|(?P<kv_dtype>Using KV cache dtype:)"
    r"|(?P<spec_reset>Max running requests is reset to)|(?P<dp_chunk>chunked prefill size is adjusted)"
    r"|(?P<bytes_per_token>bytes_per_full_token=)"
    r"|(?P<retract>Retract requests|#retracted_reqs:)"
    r"|(?P<ready>fired up and ready to roll)"
    r"|(?P<restart>Scheduled restart job, restart counter is at (?P<restart_count>\d+))"
    r"|(?P<prefill>Prefill batch)|(?P<decode>#running-req: |#(?:full |swa )?token: |token usage: )"
    r"|(?P<summary>max_total_num_tokens=|max_running_requests=)"
)
_POOL: Final = re.compile(r"max_total_num_tokens=(\d+)")
_ACCESS: Final = ' HTTP/1.1" '
_LONGEST: Final = 65_536
_LONGEST_LINE: Final = 4_096


class Journal:
    """Fed with lines in order; keeps figures, never text, so that any length of log fits."""

    def __init__(self) -> None:
        self._clock = Clock()
        self._boot, self._prelude = Boot(), Boot()
        self._load, self._past_load = Load(clock=self._clock), Load(clock=self._clock)
        self._past_limit: float | None = None
        self._args: tuple[Line, dict[str, server_args.Scalar]] | None = None
        self._starts = 0
        self._starts_line = 0
        self._load_seconds: list[tuple[float, int]] = []
        self._restarts: tuple[int, Line] | None = None
        self._pools: dict[str, list[tuple[int, int]]] = {}
        self._handlers: dict[str, Callable[[Line], None]] = {
            "server_args": self._begin,
            "ready": self._ready,
            "retract": lambda line: self._load.retract(line),
            "decode": lambda line: self._load.decode(line),
            "prefill": lambda line: self._load.prefill(line),
            "weight_begin": self._weight_begin,
            "summary": self._summary,
            "spec_reset": lambda line: self._prelude.spec_reset(line),
            "dp_chunk": lambda line: self._prelude.dp_chunk(line),
        }

    def feed(self, number: int, raw: str) -> None:
        """One line as it stands in the log, with or without its newline."""
        line = unwrap(number, raw.rstrip("\r\n"))
        text = line.text
        if text.startswith("Decode batch"):
            self._load.decode(line)
            return
        if text.startswith("Prefill batch"):
            self._load.prefill(line)
            return
        if _ACCESS in text or is_search(text):
            return
        mark = _MARK.search(text, 0, _LONGEST)
        if mark is None:
            return
        kind = mark.lastgroup or ""
        if kind == "restart_count" or mark["restart"]:
            self._restarts = (int(mark["restart_count"]), line)
            return
        if kind != "server_args" and len(text) > _LONGEST_LINE:
            line = Line(line.number, line.at, line.ranks, text[:_LONGEST_LINE], line.program)
        handler = self._handlers.get(kind)
        if handler is not None:
            handler(line)
        else:
            getattr(self._boot, kind)(line)

    def points(self) -> tuple[Point, ...]:
        """The series of the current start, of the last one that served where the current has not."""
        return self._served().points()

    def facts(self, evidence_id: str) -> tuple[Fact, ...]:
        """Everything read, of the current start; earlier ones leave their number and how long they took to load."""
        page = Page(evidence_id)
        boot = self._boot
        if not self._prelude.empty:
            boot.absorb(self._prelude)
            self._prelude = Boot()
        if self._starts:
            page.add("starts", self._starts, self._starts_line)
        for seconds, number in self._load_seconds:
            page.add("load_seconds", seconds, number, grade="derived")
        if self._restarts is not None:
            count, line = self._restarts
            page.add("restarts", count, line.number, at=line.at)
        if self._args is not None:
            line, values = self._args
            for name, value in values.items():
                page.add("server_arg", value, line.number, scope=name, at=line.at)
        for sizes in self._pools.values():
            if min(sizes)[0] < max(sizes)[0]:
                for scope, (tokens, number) in (("least", min(sizes)), ("most", max(sizes))):
                    page.add("kv_pool_of_starts", tokens, number, scope=scope)
        boot.write(page, served=len(self._load.decode_rows) > 0)
        served = self._served()
        past = served is self._past_load
        # How a start ran that had another limit says nothing of how the present one runs.
        limits = {self._past_limit, boot.limit()} - {None}
        if not served.empty and not (past and len(limits) > 1):
            served.write(page, boot.limit())
        if past and not served.empty:
            page.add("load_of_past_start", True, self._starts_line)
        return page.facts

    def _served(self) -> Load:
        return self._past_load if self._load.empty else self._load

    def _begin(self, line: Line) -> None:
        self._next_start(line)
        self._boot.whole = True
        self._args = (line, server_args.from_log(line.text))

    def _weight_begin(self, line: Line) -> None:
        again = self._boot.ready_line and line.ranks in ("", "TP0", "DP0 TP0", "DP0 TP0 EP0", "TP0 EP0", "PP0 TP0")
        if again:
            self._next_start(line)
        elif not self._starts:
            self._starts, self._starts_line = 1, line.number
            self._boot.began_line, self._boot.began_at = line.number, line.at
        self._boot.weight_begin(line)

    def _summary(self, line: Line) -> None:
        self._boot.summary(line)
        if found := _POOL.search(line.text):
            self._pools.setdefault(line.ranks, []).append((int(found[1]), line.number))

    def _next_start(self, line: Line) -> None:
        self._starts, self._starts_line = self._starts + 1, line.number
        if not self._load.empty:
            self._past_load, self._load = self._load, Load(clock=self._clock)
            self._past_limit = self._boot.limit()
        self._boot, self._prelude = self._prelude, Boot()
        self._boot.began_line, self._boot.began_at = line.number, line.at
        self._args = None

    def _ready(self, line: Line) -> None:
        if not self._starts:
            self._starts, self._starts_line = 1, line.number
        self._boot.ready(line)
        began, ready = (self._clock.seconds(at) if at else None for at in (self._boot.began_at, line.at))
        if began is not None and ready is not None and ready >= began:
            self._load_seconds.append((round(ready - began, 3), line.number))


def read(lines: Iterable[str]) -> Journal:
    """A journal read from its lines, numbered from 1."""
    journal = Journal()
    for number, raw in enumerate(lines, start=1):
        journal.feed(number, raw)
    return journal
