"""The levers of a server and their combinations, each evaluated whole, with what it costs and why it may be no good."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tools.capacity import versions
from tools.capacity.budget import HEADROOM_FLOOR_GIB, headroom_gib
from tools.capacity.deployment import Deployment
from tools.capacity.host import hicache_refused
from tools.capacity.lever import AS_SET, Change, Lever, Move, marked
from tools.capacity.moves import Moves
from tools.capacity.scenario import Outcome, Scenarios
from tools.capacity.sums import Missing
from transcripts.facts import Facts

_WORTHWHILE_RATIO = 1.2
_RAM_UNKNOWN = "whether the host's memory takes it is not known: MemAvailable of /proc/meminfo tells"


def levers(facts: Facts, catalogue_has: Callable[[str], bool] | None = None) -> tuple[Lever, ...] | tuple[Missing, ...]:
    """Every lever that the version's flags and rules allow, now first; or what is missing to compute any.

    `catalogue_has` says whether the deployed version has a flag; without it this package's own knowledge decides.
    """
    server = Deployment(facts)
    scenarios = Scenarios(server)
    if scenarios.missing:
        return scenarios.missing
    has = catalogue_has or (lambda flag: flag != "--dcp-size" or versions.has_dcp(server.version))
    return marked(Catalogue(scenarios, has).all())


def _fits(outcome: Outcome, moves: tuple[Move, ...]) -> bool | None:
    if not moves and outcome.host_fits is None:  # what runs has its host memory
        return outcome.gpu_fits
    if not outcome.gpu_fits or outcome.host_fits is False or any(move.unsupported for move in moves):
        return False
    return None if outcome.host_fits is None or any(move.uncertain for move in moves) else True


class Catalogue:
    """Makes the levers of one server; `lever` evaluates any set of moves together."""

    def __init__(self, scenarios: Scenarios, has: Callable[[str], bool]) -> None:
        self._scenarios = scenarios
        self._server = scenarios.server
        self._has = has
        self._now = scenarios.present
        self._moves = Moves(scenarios, has)

    def all(self) -> list[Lever]:
        found = [self.lever("now", ())]
        make = self._moves
        element, fraction, uncapped = make.element(), make.fraction(), make.uncapped()
        dps, dcps = list(make.dp()), list(make.dcp())
        singles = [*make.slots(), *uncapped, *fraction, *element, *dps, *dcps, *make.less_reserve()]
        found += [self.lever(move.name, (move,)) for move in singles]
        supported = [move for move in fraction if not move.why_not]
        for moves in self._combinations(element, [*uncapped, *supported], dps, dcps):
            found += self._combined(moves)
        found += self._hicache(element)
        return found

    # combinations ----------------------------------------------------------------------------------------------------

    def _combinations(
        self, element: list[Move], fraction: list[Move], dps: list[Move], dcps: list[Move]
    ) -> Iterator[tuple[Move, ...]]:
        for first in element:
            for second in (*fraction, *dps, *dcps):
                yield first, second
        for first in (*dps, *dcps):
            for second in fraction:
                yield first, second

    def _combined(self, moves: tuple[Move, ...]) -> list[Lever]:
        """The combination, and the same with as many slots as its pool holds where the limit binds."""
        plain = self.lever(" + ".join(move.name for move in moves), moves)
        if plain.binds != "slots" or plain.running is None:
            return [plain]
        outcome = self._outcome(moves)
        wanted = self._scenarios.limit_that_fits(outcome.settings, self._moves.limit_for(outcome))
        if wanted <= self._scenarios.limit_per_pool(outcome.settings, outcome.tokens_per_pool):
            return [plain]
        more = self._moves.limit(wanted, outcome.settings.dp)
        return [plain, self.lever(f"{plain.name} + {more.name}", (*moves, more))]

    def _hicache(self, element: list[Move]) -> list[Lever]:
        server = self._server
        if not self._has("--enable-hierarchical-cache") or server.switch("disable_radix_cache"):
            return []
        if hicache_refused(server):
            return []
        found = []
        for moves in ((), *((move,) for move in element)):
            outcome = self._outcome(moves)
            ratio = outcome.largest_ratio
            move = self._moves.hicache(min(ratio, 8.0) if ratio >= 1 else 2.0)
            lever = self.lever(" + ".join([*(one.name for one in moves), move.name]), (*moves, move))
            if server.fact("mem_available_bytes") and lever.tokens and ratio < _WORTHWHILE_RATIO:
                text = f"the host's memory allows a ratio of {ratio:g} at most: not worth it"
                lever = replace(lever, why_not=text)
            found.append(lever)
        return found

    # evaluation ------------------------------------------------------------------------------------------------------

    def _outcome(self, moves: tuple[Move, ...]) -> Outcome:
        settings = self._scenarios.now
        for move in moves:
            settings = move.apply(settings)
        return self._scenarios.evaluate(settings)

    def lever(self, name: str, moves: tuple[Move, ...]) -> Lever:
        outcome = self._outcome(moves)
        now = self._now
        reasons = [move.why_not for move in moves if move.why_not]
        risks = [move.risk for move in moves]
        free, least, keep = outcome.gpu_free_gib, outcome.gpu_free_least_gib, headroom_gib(self._server)
        if outcome.gpu_fits and moves and free is not None and least is not None and least < keep - 0.05:
            stays = f"{least:.1f}" if free - least < 0.05 else f"{least:.1f} to {free:.1f}"
            risks.append(f"tight: {stays} GiB stay free where {keep:g} should")
        if not outcome.gpu_fits:
            reasons.append(self._gpu_reason(outcome, whole=not moves or name == AS_SET))
        if outcome.tokens and (outcome.host_fits is False or (outcome.host_fits is None and moves)):
            most = outcome.host_limit_gb
            short = f"{outcome.host_gb:.1f} GB do not fit in the {most:.1f} GB that the host can give"
            reasons.append(_RAM_UNKNOWN if outcome.host_fits is None else short)
        if self._runs_into_slots(outcome, moves):
            per_pool = self._scenarios.limit_per_pool(outcome.settings, outcome.tokens_per_pool)
            total = outcome.running or 0
            reasons.append(f"runs into the limit again: {per_pool} in each pool, {total} in all")
        changed: dict[str, Change] = {}
        for move in moves:
            for flag, before, after in move.changes:
                changed[flag] = (flag, changed[flag][1] if flag in changed else before, after)
        return Lever(
            name=name,
            changes=tuple(changed.values()),
            tokens=outcome.tokens,
            longest_request=outcome.tokens_per_pool,
            running=outcome.running,
            prefix_tokens=outcome.prefix_tokens,
            host_gb=outcome.host_gb,
            factor=outcome.tokens / now.tokens if now.tokens else 0.0,
            running_factor=outcome.running / now.running if outcome.running is not None and now.running else None,
            prefix_factor=outcome.prefix_tokens / now.prefix_tokens if now.prefix_tokens else 0.0,
            restart=bool(moves),
            risk="; ".join(dict.fromkeys(risk for risk in risks if risk)),
            fits=_fits(outcome, moves),
            binds=outcome.binds,
            gpu_free_gib=outcome.gpu_free_gib,
            gpu_free_least_gib=outcome.gpu_free_least_gib,
            pool_gib=outcome.pool_gib,
            sums=outcome.sums,
            why_not="; ".join(dict.fromkeys(reasons)),
        )

    def _runs_into_slots(self, outcome: Outcome, moves: tuple[Move, ...]) -> bool:
        """A larger pool that the limit keeps from being used."""
        return (
            bool(moves)
            and outcome.binds == "slots"
            and outcome.tokens > self._now.tokens
            and (outcome.settings.limit == self._now.settings.limit)
        )

    def _gpu_reason(self, outcome: Outcome, whole: bool) -> str:
        if outcome.tokens <= 0:
            return "no memory is left for a pool" + self._scenarios.why_no_pool(outcome.settings, whole=whole)
        lacking = self._scenarios.table_lacks_gib(outcome.settings, outcome.tokens_per_pool)
        if lacking > 0:
            rows = self._scenarios.limit_per_pool(outcome.settings, outcome.tokens_per_pool)
            return (
                f"the request table, {rows:,} requests x {self._server.context_len:,} tokens of context, takes "
                f"{lacking:.1f} GiB more than the fraction leaves beside the pool: --max-running-requests or "
                "--context-length must be lower"
            )
        return f"{outcome.gpu_free_gib:.1f} GiB would stay free, {HEADROOM_FLOOR_GIB:g} at least are needed"
