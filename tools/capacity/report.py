"""The plan of one deployment as a document and as text for a terminal; pure, made from facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from textwrap import wrap
from typing import Any

from tools.capacity.concurrency import Concurrency, Mix, Slots, concurrency, slots_for
from tools.capacity.gpu import gpu_budget
from tools.capacity.host import HostBudget, host_budget
from tools.capacity.lever import AS_SET, Lever
from tools.capacity.levers import levers
from tools.capacity.picture import bars, terminal, too_much_gib
from tools.capacity.sums import GB, Missing, Sum
from tools.capacity.whatif import what_if
from transcripts.facts import Fact, Facts

_LEAST_GIB = 0.005  # smaller steps are none to the two places that are shown
_STARTED_SO = "started so"  # what stands first in a plan for a server that does not run
_NAME = 22  # columns of a lever's name; a longer one has a line of its own


class Report:
    """What `plan` prints, computed once: the GPU step by step, the levers, host memory, walls, and their sums.

    `ends` are the same deployment with the worst and the best of what is only estimated; they make the ranges.
    `assumptions` say in words what was taken for granted where nothing was seen.
    """

    def __init__(
        self,
        facts: Facts,
        settings: Mapping[str, str] | None = None,
        mix: Mix | None = None,
        ends: tuple[Facts, ...] = (),
        catalogue_has: Callable[[str], bool] | None = None,
        assumptions: tuple[str, ...] = (),
    ) -> None:
        self.assumptions = assumptions
        if mix is not None:
            held = mix.prompt_tokens + mix.output_tokens / 2
            facts = Facts([*facts, Fact("tokens_per_request", held, "tokens", "claimed", "operator")])
        self.budget = gpu_budget(facts)
        found = levers(facts, catalogue_has)
        self.levers: list[Lever] = [lever for lever in found if isinstance(lever, Lever)]
        self.missing = [*self.budget.missing, *(one for one in found if not isinstance(one, Lever))]
        if settings:
            chosen = what_if(facts, settings, catalogue_has)
            if isinstance(chosen, Lever):
                self.levers.insert(1, chosen)
        self.walls = concurrency(facts, mix)
        self.slots = slots_for(facts)
        self.host = host_budget(facts)
        self._ranges = [_levers_at(end, settings or {}) for end in ends]
        shown = [lever for lever in self.levers[1:] if lever.frontier or lever.name == AS_SET]
        first = _STARTED_SO if ends else "now"
        self.bars = bars(self.budget, self.levers[0], shown[:6], first) if self.levers else ()
        too_much = too_much_gib(self.budget)
        self.no_picture = (
            f"no picture: the parts take {too_much:.2f} GiB, the card has {self.budget.steps[0].gib:.2f}"
            if too_much
            else ""
        )

    def as_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "v": 1,
            "steps": [
                {
                    "name": step.name,
                    "gib": step.gib,
                    "left_gib": step.left_gib,
                    "grade": step.grade,
                    "from": step.source,
                    "why_not_spare": step.why_not_spare,
                }
                for step in self.budget.steps
            ],
            "largest_fraction": self.budget.largest_fraction,
            "headroom_gib": self.budget.headroom_gib,
            "levers": [self._lever(lever) for lever in self.levers],
            "arithmetic": [entry.as_json() for entry in self.sums()],
            "assumptions": list(self.assumptions),
            "missing": [{"what": one.what, "facts": list(one.facts), "how": one.how} for one in self._lacking()],
        }
        if isinstance(self.slots, Slots):
            document["slots"] = {"value": self.slots.value, "per_pool": self.slots.per_rank, "wall": self.slots.wall}
        if isinstance(self.walls, Concurrency):
            document["concurrency"] = {
                "binds": self.walls.binds,
                "running": self.walls.running,
                "limits": {limit.name: limit.requests for limit in self.walls.limits},
            }
        if isinstance(self.host, HostBudget):
            document["host"] = _host_json(self.host)
        return document

    def _lever(self, lever: Lever) -> dict[str, Any]:
        found: dict[str, Any] = {
            "name": lever.name,
            "changes": [{"flag": flag, "from": before, "to": after} for flag, before, after in lever.changes],
            "tokens": lever.tokens,
            "longest_request": lever.longest_request,
            "running": lever.running,
            "binds": lever.binds,
            "prefix_tokens": lever.prefix_tokens,
            "host_gb": lever.host_gb,
            "factor": lever.factor,
            "running_factor": lever.running_factor,
            "prefix_factor": lever.prefix_factor,
            "restart": lever.restart,
            "risk": lever.risk,
            "fits": lever.fits,
            "frontier": lever.frontier,
            "gpu_free_gib": lever.gpu_free_gib,
            "gpu_free_least_gib": lever.gpu_free_least_gib,
            "why_not": lever.why_not,
        }
        if self._ranges:
            found["tokens_range"] = self._range(lever)
        return found

    def _range(self, lever: Lever) -> tuple[int, int]:
        """Fewest and most tokens over the ends of what is estimated; 0 where an end leaves no pool.

        A lever that has its value from the memory (`HiCache, ratio 2.7`) has another at an end, and its flags there.
        """
        ends = []
        for end in self._ranges:
            alike = [one for one in end if one.name == lever.name] or [one for one in end if one.flags == lever.flags]
            ends.append(alike[0].tokens if alike else 0)
        return min(ends), max(ends)

    def sums(self) -> Iterator[Sum]:
        yield from self._sums_now()
        for lever in self.levers[1:]:
            if _worth_a_look(lever):
                yield from _own_sums(lever)

    def _sums_now(self) -> Iterator[Sum]:
        yield from self.budget.sums
        if isinstance(self.host, HostBudget):
            yield from self.host.sums
        if isinstance(self.slots, Slots):
            yield from self.slots.sums
            yield self.slots.reserve
        if isinstance(self.walls, Concurrency):
            yield from (limit.sum for limit in self.walls.limits)

    def _lacking(self) -> list[Missing]:
        found = list(self.missing)
        for one in (self.walls, self.slots, self.host):
            if isinstance(one, tuple):
                found += [entry for entry in one if isinstance(entry, Missing)]
        return list({entry.what: entry for entry in found}.values())

    def text(self, everything: bool, explain: bool, width: int = 80) -> Iterator[str]:
        """The plan for a terminal, folded at its width."""
        for note in self.assumptions:
            yield from wrap(note, width)
        for step in self.budget.steps:
            if step.gib < _LEAST_GIB and step is not self.budget.steps[-1]:
                continue
            yield f"{step.gib:9.2f} GiB  {step.name:<34} {step.grade}"
            yield from wrap(step.why_not_spare, width, initial_indent=" " * 15, subsequent_indent=" " * 15)
        if self.levers:
            yield from ("", "GPU memory in GiB (2^30), host memory in GB (10^9), as the server prints them.", "")
            heads = f"{'':2}{'lever':<{_NAME}}{'tokens':>11}{'x':>7}{'running':>9}{'prefixes':>12}{'host GB':>9}"
            yield heads if self._ranges else f"{heads} restart"
            for lever in self.levers:
                if everything or _worth_a_look(lever):
                    yield from self._row(lever, width)
            if self._ranges:
                yield from wrap("weights and free memory of a start close the ranges", width)
            yield from wrap("* the sensible frontier: nothing that fits beats it at everything", width)
        yield from terminal(self.bars, width)
        if self.no_picture:
            yield from wrap(self.no_picture, width)
        for one in self._lacking():
            yield from wrap(f"not known: {one.what}; to get it: {one.how}", width, subsequent_indent="  ")
        if explain:
            yield ""
            for line in dict.fromkeys(self._explained(everything)):
                yield from wrap(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)

    def _explained(self, everything: bool) -> Iterator[str]:
        """Each figure above with what it comes from: steps as differences, sums with formula and inputs, levers."""
        left = None
        for step in self.budget.steps:
            inputs = f"{left:.2f} before - {step.left_gib:.2f} left" if left is not None else "as the driver says"
            yield f"{step.name} = {inputs} = {step.gib:.2f} GiB ({step.grade}; from {step.source})"
            left = step.left_gib
        named = set()
        for entry in self._sums_now():
            named.add(entry.line())
            yield entry.line()
        for lever in self.levers[1:]:
            lines = [line for entry in _own_sums(lever) if (line := entry.line()) not in named]
            if lines and (everything or _worth_a_look(lever)):
                yield f"with {lever.name}: {'; '.join(lines)}"

    def _row(self, lever: Lever, width: int) -> Iterator[str]:
        mark = "*" if lever.frontier else " "
        running = "-" if lever.running is None else str(lever.running)
        name = _STARTED_SO if self._ranges and lever.name == "now" else lever.name
        if len(name) > _NAME:
            yield f"{mark:2}{name}"
            mark = name = ""
        figures = (
            f"{mark:2}{name:<{_NAME}}{lever.tokens:>11,}{lever.factor:>6.2f}x{running:>9}{lever.prefix_tokens:>12,}"
            f"{lever.host_gb:>9.1f}"
        )
        yield figures if self._ranges else f"{figures} {'yes' if lever.restart else 'no'}"
        if lever.fits is False:
            yield "    does not fit"
        said = []
        if self._ranges:
            low, high = self._range(lever)
            said.append(f"estimated: {low:,} to {high:,} tokens")
        said += [f"but: {lever.why_not}"] if lever.why_not else []
        said += [f"risk: {lever.risk}"] if lever.risk else []
        for text in said:
            yield from wrap(text, width, initial_indent="    ", subsequent_indent="      ")


def _worth_a_look(lever: Lever) -> bool:
    """What now stands, what was asked for, single levers, and of combinations the frontier."""
    return lever.frontier or lever.name in ("now", AS_SET) or " + " not in lever.name


def _own_sums(lever: Lever) -> Iterator[Sum]:
    return (entry for entry in lever.sums if entry.name != "pool_budget")


def _levers_at(facts: Facts, settings: Mapping[str, str]) -> list[Lever]:
    chosen = [what_if(facts, settings)] if settings else []
    return [lever for lever in (*chosen, *levers(facts)) if isinstance(lever, Lever)]


def _host_json(host: HostBudget) -> dict[str, Any]:
    return {
        "ratio": host.ratio,
        "ranks": host.ranks,
        "per_rank_gb": host.per_rank_gb,
        "total_gb": host.total_gb,
        "total_gib": host.total_gib,
        "distinct_gb": host.distinct_bytes / GB,
        "limit_gb": host.limit_bytes / GB,
        "limit_from": host.limit_from,
        "fits": host.fits,
        "largest_ratio": host.largest_ratio,
        "largest_ratio_bare": host.largest_ratio_bare,
        "own_check": host.own_check,
        "own_check_passes": host.own_check_passes,
        "own_check_largest_ratio": host.own_check_largest_ratio,
        "prefix_tokens": host.prefix_tokens,
        "running_factor": host.running_factor,
        "numa": host.numa,
        "pools": [{"name": pool.name, "rows": pool.rows, "gb": pool.bytes / GB} for pool in host.pools],
        "warnings": list(host.warnings),
    }
