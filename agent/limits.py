"""Turns, time, tokens and money: what one run may still spend. Waiting for a person costs no time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from transcripts.errors import LimitReached
from transcripts.parts import Limits, Usage


@dataclass(slots=True)
class Meter:
    """Counts one run against its limits; `spent` is what earlier runs of the same record have used."""

    limits: Limits
    spent: Usage = field(default_factory=Usage)
    started: float = field(default_factory=time.monotonic)
    waited_s: float = 0.0
    tasks_cost: Callable[[], float] = field(default=lambda: 0.0)

    def add(self, usage: Usage) -> None:
        self.spent += usage

    def check(self) -> None:
        """Raises LimitReached, naming the limit, when nothing is left to spend."""
        limits, spent = self.limits, self.spent
        if limits.turns is not None and spent.turns >= limits.turns:
            raise LimitReached(f"the limit of {limits.turns} turns is reached.")
        if limits.tokens is not None and spent.tokens_in + spent.tokens_out >= limits.tokens:
            raise LimitReached(f"the limit of {limits.tokens:,} tokens is reached.")
        if limits.cost is not None and limits.price(spent) + self.tasks_cost() >= limits.cost:
            raise LimitReached(f"the limit of {limits.cost:g} in money is reached, research tasks included.")
        if self.seconds_left() == 0:
            raise LimitReached(f"the limit of {limits.seconds:.0f} s is reached.")

    def seconds_left(self) -> float | None:
        """Time left in this run, None without a limit."""
        if self.limits.seconds is None:
            return None
        return max(0.0, self.limits.seconds + self.waited_s - (time.monotonic() - self.started))

    @asynccontextmanager
    async def clock(self) -> AsyncIterator[None]:
        """Raises TimeoutError inside when the time of this run is over; `waiting` stops the clock."""
        async with asyncio.timeout(self.seconds_left()) as timeout:
            token = _RUNNING.set((self, timeout))
            try:
                yield
            finally:
                _RUNNING.reset(token)


_RUNNING: ContextVar[tuple[Meter, asyncio.Timeout] | None] = ContextVar("running", default=None)


@asynccontextmanager
async def waiting() -> AsyncIterator[None]:
    """While a person is asked, the clock of the run that asks stands still."""
    running = _RUNNING.get()
    if running is None or running[0].limits.seconds is None:
        yield
        return
    meter, timeout = running
    began = time.monotonic()
    timeout.reschedule(None)
    try:
        yield
    finally:
        meter.waited_s += time.monotonic() - began
        timeout.reschedule(asyncio.get_running_loop().time() + (meter.seconds_left() or 0.0))
