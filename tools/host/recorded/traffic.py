"""The load of a recording as events: what the scheduler would have logged, computed from the figures of each phase.

Clients keep `in_flight` requests open. As many run as the running limit, the pool and the phase let in; the rest wait.
Running requests grow by the accepted tokens of each step, finish after `output_tokens`, and are thrown back one by one
(the last admitted first, sglang 0.5.9 srt/managers/schedule_batch.py:1855) when the pool has no room for the next step.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from tools.host.recorded.figures import Load, Phase

SLOTS_PER_STEP = 8  # draft tokens of the story's launch, twice under spec v2 (schedule_batch.py:1817)
ROOM = 0.993  # share of the pool up to which new requests are let in while nothing was thrown back
HOLD_TICKS = 1  # intervals without admission after a retraction: the new-token ratio has to decay first
MIN_RATIO, INIT_RATIO, DECAY_STEPS = 0.098, 0.7, 600


@dataclass(frozen=True, slots=True)
class Event:
    """One scheduler line (`prefill`, `decode`, `retract`) or finished request (`done`)."""

    kind: Literal["prefill", "decode", "retract", "done"]
    at: datetime
    running: int = 0
    queue: int = 0
    used_tokens: int = 0
    sequences: int = 0
    new_tokens: int = 0
    cached_tokens: int = 0
    rate: float = 0.0
    accept_len: float = 0.0
    retracted: int = 0
    ratio_before: float = 0.0
    ratio_after: float = 0.0


@dataclass(slots=True)
class Totals:
    """Counters since the start of the server."""

    requests: int = 0
    new_tokens: int = 0
    cached_tokens: int = 0
    host_tokens: int = 0
    generated_tokens: int = 0
    retractions: int = 0
    evicted_tokens: int = 0
    ratio: float = MIN_RATIO


@dataclass(slots=True)
class Traffic:
    events: list[Event] = field(default_factory=list)
    totals: Totals = field(default_factory=Totals)

    @property
    def last_decode(self) -> Event | None:
        return next((event for event in reversed(self.events) if event.kind == "decode"), None)

    @property
    def last_prefill(self) -> Event | None:
        return next((event for event in reversed(self.events) if event.kind == "prefill"), None)


@dataclass(frozen=True, slots=True)
class Limits:
    """What the server lets in: requests, pool tokens, tokens of one prefill batch; decode steps between two lines.

    `host_tokens` are what a host copy of the pool holds, 0 without one.
    """

    running: int
    pool_tokens: int
    chunk_tokens: int
    interval_steps: int
    speculative: bool
    host_tokens: int = 0


def play(load: Load | None, limits: Limits, *, now: datetime, ready: datetime) -> Traffic:
    """Every event of the load up to `now`; none before `ready`."""
    traffic = Traffic()
    if load is None or limits.pool_tokens <= 0:
        return traffic
    begin = now - timedelta(minutes=sum(phase.minutes for phase in load.phases))
    scheduler = _Scheduler(begin, load, limits, traffic)
    previous = 0
    for phase in load.phases:
        end = scheduler.at + timedelta(minutes=phase.minutes)
        scheduler.run(phase, previous, min(end, now))
        previous = phase.in_flight
    traffic.events = [event for event in traffic.events if event.at > ready]
    return traffic


class _Scheduler:
    def __init__(self, began: datetime, load: Load, limits: Limits, traffic: Traffic) -> None:
        self.at = began
        self.random = random.Random(load.seed)  # noqa: S311 - a recording must play the same way each time
        self.returning = load.returning
        self.limits = limits
        self.events, self.totals = traffic.events, traffic.totals
        self.running = 0
        self.used = 0.0
        self.finishing = 0.0
        self.hold = 0
        self.last_prefill: tuple[datetime, int] | None = None
        self.kept = 0.0
        self.wanted = 0

    def run(self, phase: Phase, in_flight_before: int, end: datetime) -> None:
        began = self.at
        while True:
            accept = phase.accept_len * self.random.uniform(0.97, 1.03) if self.limits.speculative else 1.0
            tick = timedelta(milliseconds=phase.step_ms * self.limits.interval_steps * self.random.uniform(0.98, 1.04))
            if self.at + tick > end:
                self.at = end
                return
            wanted = self._in_flight(phase, in_flight_before, began)
            self.wanted = wanted
            self._admit(phase, wanted, tick)
            self.at += tick
            if self.running:
                self._decode(phase, wanted, accept, tick)

    def _in_flight(self, phase: Phase, before: int, began: datetime) -> int:
        ramp = timedelta(minutes=phase.ramp_minutes)
        if (self.at - began).total_seconds() % 60 >= 60 * phase.busy:
            return 0
        share = 1.0 if not ramp else min(1.0, (self.at - began) / ramp)
        return round(before + (phase.in_flight - before) * share)

    def _admit(self, phase: Phase, wanted: int, tick: timedelta, len_after: int = 0) -> None:
        """Let in what fits. `len_after` is the number that will run once the slots just freed are filled."""
        cap = self.limits.running if phase.running == "limit" else min(phase.running, self.limits.running)
        if self.hold:
            self.hold -= 1
            return
        batch: list[float] = []
        while self.running + len(batch) < min(cap, wanted):
            aim = len_after if len_after else self.running + len(batch) + 1
            prompt = self._prompt(phase, self.running + len(batch), self.used + sum(batch), aim)
            if self.used + sum(batch) + prompt > ROOM * self.limits.pool_tokens:
                break
            batch.append(prompt)
        while batch:
            fresh, taken = 0.0, 0
            while taken < len(batch) and (
                not taken or fresh + batch[taken] * (1 - phase.hit_rate) <= self.limits.chunk_tokens
            ):
                fresh += batch[taken] * (1 - phase.hit_rate)
                taken += 1
            self._prefill(phase, batch[:taken], tick)
            batch = batch[taken:]

    def _prompt(self, phase: Phase, running: int, used: float, aim: int) -> float:
        """Context of the next request, steered so that running requests average `tokens_per_request`."""
        mean = phase.tokens_per_request - phase.output_tokens / 2
        missing = aim * phase.tokens_per_request - used - (aim - running) * mean
        steered = mean * self.random.uniform(0.8, 1.2) + (0.25 * missing if aim > 2 else 0.0)
        return min(max(steered, 0.3 * mean, 16.0), 2.5 * mean + 16)

    def _prefill(self, phase: Phase, prompts: list[float], tick: timedelta) -> None:
        total = sum(prompts)
        hit = min(0.99, phase.hit_rate * self.random.uniform(0.93, 1.07))
        back = round(total * self._lost(hit) * self._reached())
        cached = round(total * hit) + back
        new = max(1, round(total) - cached)
        before = self.running
        self.running += len(prompts)
        self.used += total
        self.at += tick * 0.02
        gap = (self.at - self.last_prefill[0]).total_seconds() if self.last_prefill else 0.0
        rate = self.last_prefill[1] / gap if self.last_prefill and gap else 0.0
        self.last_prefill = (self.at, new)
        self.totals.new_tokens += new
        self.totals.cached_tokens += cached
        self.totals.host_tokens += back
        self._keep(new + back)
        self.events.append(
            Event(
                "prefill",
                self.at,
                running=before,
                queue=max(0, self.wanted - self.running),
                used_tokens=round(self.used),
                sequences=len(prompts),
                new_tokens=new,
                cached_tokens=cached,
                rate=rate,
            )
        )

    def _lost(self, hit: float) -> float:
        """The share of a prompt that was computed before and that the pool no longer has."""
        return max(0.0, self.returning - hit)

    def _reached(self) -> float:
        """The share of what was evicted that the host copy still has: its newest tokens, as many as it holds."""
        evicted = self.totals.evicted_tokens
        return min(1.0, self.limits.host_tokens / evicted) if evicted else 0.0

    def _decode(self, phase: Phase, wanted: int, accept: float, tick: timedelta) -> None:
        grown = self.running * self.limits.interval_steps * accept
        self.used += grown
        self.totals.generated_tokens += round(grown)
        self._keep(grown)
        while self.used > self.limits.pool_tokens - SLOTS_PER_STEP * self.running and self.running > 1:
            self._retract(phase)
        self._finish(phase, grown)
        self.totals.ratio = max(
            MIN_RATIO, self.totals.ratio - (INIT_RATIO - MIN_RATIO) / DECAY_STEPS * self.limits.interval_steps
        )
        self.events.append(
            Event(
                "decode",
                self.at,
                running=self.running,
                queue=max(0, wanted - self.running),
                used_tokens=round(self.used),
                rate=grown / tick.total_seconds(),
                accept_len=accept,
            )
        )

    def _finish(self, phase: Phase, grown: float) -> None:
        self.finishing += grown / phase.output_tokens
        wholes = min(int(self.finishing), self.running)
        self.finishing -= wholes
        for _ in range(wholes):
            size = (phase.tokens_per_request + phase.output_tokens / 2) * self.random.uniform(0.94, 1.06)
            self.used = max(self.used - size, 16.0 * (self.running - 1))
            self.running -= 1
            self.totals.requests += 1
            self.events.append(Event("done", self.at))
        if wholes:
            # The freed slots are filled before the line is printed, by clients that are still there.
            again = min(self.running + wholes, self.wanted)
            self._admit(phase, again, timedelta(0), again)

    def _retract(self, phase: Phase) -> None:
        gained = min(self.used, phase.tokens_per_request * self.random.uniform(0.975, 1.025))
        decoded = self.running * phase.output_tokens / 2
        ratio = min(1.0, (decoded + 20 * self.running) / (self.running * phase.max_new_tokens + 1))
        self.running -= 1
        self.used -= gained
        self.hold = HOLD_TICKS
        self.totals.retractions += 1
        self.events.append(
            Event(
                "retract",
                self.at,
                retracted=1,
                new_tokens=round(gained),
                ratio_before=self.totals.ratio,
                ratio_after=ratio,
            )
        )
        self.totals.ratio = ratio

    def _keep(self, tokens: float) -> None:
        """What was computed stays in the prefix cache until the pool is full; the surplus evicts older tokens."""
        self.kept += tokens
        self.totals.evicted_tokens = max(self.totals.evicted_tokens, round(self.kept - self.limits.pool_tokens))
