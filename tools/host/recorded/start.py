"""One start of a recorded server: everything it prints from, and the clock that its lines are printed by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from tools.host.recorded.figures import Boot, Figures, Server
from tools.host.recorded.host_pool import host_pool_fits
from tools.host.recorded.launch import Argument, at_least
from tools.host.recorded.ledger import Ledger

STAMP = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True, slots=True)
class Line:
    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Start:
    """Everything a start prints from."""

    figures: Figures
    server: Server
    boot: Boot
    arguments: Mapping[str, Argument]
    ledger: Ledger
    limit_typed: bool

    @property
    def ranks(self) -> int:
        return int(str(self.arguments.get("tp_size") or 1))

    @property
    def modern(self) -> bool:
        return at_least(self.server.version, "0.5.16")

    @property
    def succeeds(self) -> bool:
        """Whether a start reaches `ready to roll`."""
        fits = self.ledger.fits and host_pool_fits(self.figures, self.arguments, self.ledger)
        return fits and not self.server.failure

    def spread(self, rank: int) -> float:
        spread = self.boot.rank_spread_gib
        return spread[rank % len(spread)] if spread else 0.0

    def tag(self, rank: int) -> str:
        if self.ranks == 1:
            return ""
        dp = int(str(self.arguments.get("dp_size") or 1)) if self.arguments.get("enable_dp_attention") else 1
        return (f" DP{rank * dp // self.ranks}" if dp > 1 else "") + f" TP{rank}"


class Clock:
    """Collects lines; moves forward between steps."""

    def __init__(self, began: datetime, start: Start) -> None:
        self.at = began
        self.start = start
        self.lines: list[Line] = []

    def wait(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)

    def raw(self, text: str) -> None:
        self.lines.append(Line(self.at, text))

    def main(self, text: str) -> None:
        self.raw(f"[{self.at.strftime(STAMP)}] {text}")

    def first(self, text: str) -> None:
        self.raw(f"[{self.at.strftime(STAMP)}{self.start.tag(0)}] {text}")

    def every(self, texts: Iterator[str]) -> None:
        """One line a rank, a few hundredths of a second apart."""
        for rank, text in enumerate(texts):
            at = self.at + timedelta(milliseconds=37 * ((rank * 5) % max(1, self.start.ranks)))
            self.lines.append(Line(at, f"[{at.strftime(STAMP)}{self.start.tag(rank)}] {text}"))
        self.wait(0.4)


def by_rank(start: Start, gib: float) -> Iterator[float]:
    return (gib + start.spread(rank) for rank in range(start.ranks))
