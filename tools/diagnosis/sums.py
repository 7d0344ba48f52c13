"""Values for proposals that are sums over facts: slots that the pool carries, host memory that a ratio takes."""

from __future__ import annotations

from dataclasses import dataclass

from tools.diagnosis.view import View

SHARE = 0.9  # of the pool that running requests may fill on average
_LEAST_USAGE = 0.05  # below it the quotient says nothing
_GB = 10**9
_GIB = 1 << 30
_MOST_RATIO = 4.0
_WORTHLESS_RATIO = 1.1


@dataclass(frozen=True, slots=True)
class Fit:
    """Requests that nine tenths of the pool carry, as --max-running-requests counts them: over all DP ranks.

    `limit` is the one in force, counted likewise, None where it is not known; `why` is the sum in words.
    """

    requests: int
    limit: float | None
    why: str

    @property
    def raises_limit(self) -> bool:
        return self.limit is None or self.requests > self.limit


def slots_that_fit(view: View) -> Fit | None:
    """From the tokens that a request holds; from token usage where they are not known; None where neither is."""
    from tools.capacity import Slots, slots_for

    found = slots_for(view.facts, SHARE)
    if isinstance(found, Slots):
        pool, each = found.sums[0].inputs["pool_tokens"], found.sums[0].inputs["tokens_per_request"]
        ranks = f" are {found.per_rank} on each of {found.groups} ranks" if found.groups > 1 else ""
        end = f"{found.wall} on each" if found.groups > 1 else f"{found.wall}"
        why = f"{SHARE:g} of {pool:,.0f} tokens at {each:,.0f} each{ranks}; the pool itself ends at about {end}"
        return Fit(found.value, found.limit, why)
    running, usage = view.number("running_p95") or view.number("running_p50"), view.number("usage_p50")
    if not running or not usage or usage < _LEAST_USAGE:
        return None
    each = int(running * SHARE / usage)
    ranks = f" on each of {view.schedulers} ranks" if view.schedulers > 1 else ""
    why = f"{running:g} run{ranks} at token usage {usage:.2f}; {SHARE:g} of the pool carries {each}{ranks}"
    return Fit(each * view.schedulers, view.running_limit, why)


def host_room_gb(view: View) -> float | None:
    """What the host can give: MemAvailable (or the container's rest) less the reserve of 10 GiB or 5 % of MemTotal."""
    available, total = view.number("mem_available_bytes"), view.number("mem_total_bytes")
    limit, used = view.number("cgroup_limit_bytes"), view.number("cgroup_used_bytes")
    rooms = [] if available is None else [available - max(10 * _GIB, 0.05 * (total or 0.0))]
    if limit is not None and limit > 0:
        rooms.append(limit - (used or 0.0) - max(10 * _GIB, 0.05 * (total or limit)))
    return max(min(rooms), 0.0) / _GB if rooms else None


def hicache_ratio_that_fits(view: View) -> tuple[float | None, str]:
    """The largest --hicache-ratio, rounded down to 0.1, for ranks x pool x ratio in the host's room."""
    from tools.capacity import HostBudget, host_budget

    budget = host_budget(view.facts, ratio=_MOST_RATIO)
    if not isinstance(budget, HostBudget):
        return None, "the ratio must fit ranks x pool x ratio into the free host memory; start at the default of 2"
    largest = budget.largest_ratio
    if largest is None:
        return None, "the host's free memory is not known; start at the default of 2 and watch it"
    ratio = min(largest, _MOST_RATIO)
    if ratio <= _WORTHLESS_RATIO:
        return ratio, f"the free host memory allows a ratio of {ratio:g} at most: not worth it"
    return ratio, f"the free host memory allows a ratio of {largest:g}; every rank holds its own share"


def host_pool_printed(view: View, ratio: float) -> str:
    """What each rank prints of HiCache's host memory at that ratio: with its size where the sum is there."""
    from tools.capacity import HostBudget, host_budget

    budget = host_budget(view.facts, ratio=ratio)
    if not isinstance(budget, HostBudget):
        return "one line `Allocating ... GB host memory` per rank"
    first, *more = (f"{pool.bytes / _GB:.2f} GB" for pool in budget.pools)
    others = f" (and {' and '.join(more)} for pools beside it)" if more else ""
    return f"host memory about {first} in the `Allocating` line of each of {budget.ranks} ranks{others}"
