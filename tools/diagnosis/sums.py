"""Values for proposals that are sums over facts: slots that the pool carries, host memory that a ratio takes."""

from __future__ import annotations

import math

from tools.diagnosis.view import View

_SHARE = 0.9  # of the pool that running requests may fill on average
_GB = 10**9
_GIB = 1 << 30


def slots_that_fit(view: View) -> tuple[int, str] | None:
    """--max-running-requests from the observed tokens per request at nine tenths of the pool, over all DP ranks."""
    each = view.number("tokens_per_request")
    pool = view.number("kv_pool", "")
    if not each or not pool:
        running, usage = view.number("running_p95") or view.number("running_p50"), view.number("usage_p50")
        if not running or not usage or usage < 0.05:
            return None
        slots = int(running * _SHARE / usage)
        return slots, f"{running:g} run at token usage {usage:.2f}; {_SHARE:g} of the pool carries {slots}"
    dp = int(view.value("--dp-size") or 1) if view.on("--enable-dp-attention") else 1
    slots = int(_SHARE * pool / each) * dp
    wall = int(pool / each) * dp
    return (
        slots,
        f"{_SHARE:g} of {pool:,.0f} tokens at {each:,.0f} tokens per request; the pool itself ends at about {wall}",
    )


def host_room_gb(view: View) -> float | None:
    """What the host can give: MemAvailable (or the container's rest) less the reserve of 10 GiB or 5 % of MemTotal."""
    available, total = view.number("mem_available_bytes"), view.number("mem_total_bytes")
    if available is None:
        return None
    reserve = max(10 * _GIB, 0.05 * (total or 0.0))
    room = available - reserve
    limit, used = view.number("cgroup_limit_bytes"), view.number("cgroup_used_bytes")
    if limit is not None and limit > 0:
        room = min(room, limit - (used or 0.0) - reserve)
    return max(room, 0.0) / _GB


def hicache_ratio_that_fits(view: View) -> tuple[float | None, str]:
    """The largest --hicache-ratio, rounded down to 0.1, for ranks x pool x ratio in the host's room."""
    room, pool_gib = host_room_gb(view), view.number("kv_pool_gib", "")
    ranks = view.value("--tp-size") or view.number("host_pool_ranks") or view.number("gpu_count")
    if room is None or pool_gib is None or not ranks:
        return None, "the ratio must fit ranks x pool x ratio into the free host memory; start at the default of 2"
    one = ranks * pool_gib * _GIB / _GB
    ratio = math.floor(min(room / one, 4.0) * 10) / 10
    if ratio <= 1.1:
        return (
            ratio,
            f"{room:.0f} GB of host memory allow a ratio of {ratio:g} at most over {ranks:g} ranks: not worth it",
        )
    return ratio, f"{ranks:g} ranks x {pool_gib:g} GiB x {ratio:g} = {one * ratio:.0f} GB, within {room:.0f} GB"
