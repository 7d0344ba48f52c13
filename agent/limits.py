"""Turns, time and tokens: what one run may still spend."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from transcripts.errors import LimitReached
from transcripts.records import Limits, Usage


@dataclass(slots=True)
class Meter:
    """Counts one run against its limits; `spent` is what earlier runs of the same record have used."""

    limits: Limits
    spent: Usage = field(default_factory=Usage)
    started: float = field(default_factory=time.monotonic)

    def add(self, usage: Usage) -> None:
        self.spent += usage

    def check(self) -> None:
        """Raises LimitReached, naming the limit, when nothing is left to spend."""
        limits, spent = self.limits, self.spent
        if limits.turns is not None and spent.turns >= limits.turns:
            raise LimitReached(f"the limit of {limits.turns} turns is reached.")
        if limits.tokens is not None and spent.tokens_in + spent.tokens_out >= limits.tokens:
            raise LimitReached(f"the limit of {limits.tokens} tokens is reached.")
        if self.seconds_left() == 0:
            raise LimitReached(f"the limit of {limits.seconds:.0f} s is reached.")

    def seconds_left(self) -> float | None:
        """Time left in this run, None without a limit."""
        if self.limits.seconds is None:
            return None
        return max(0.0, self.limits.seconds - (time.monotonic() - self.started))
