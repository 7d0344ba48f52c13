"""A host pool that fits: the size, or the ratio, that all ranks together can have, or none at all where none fits."""

from __future__ import annotations

import math

from tools.diagnosis.changes import step
from tools.diagnosis.host_memory import ranks_with_pools
from tools.diagnosis.model import Proposal
from tools.diagnosis.sums import host_room_gb
from tools.diagnosis.view import View

_RESERVE_GB = 10.74  # 10 GiB, which the server's own check keeps back
_LEAST = 0.2  # of the GPU pool; a smaller host pool holds next to nothing
_ABOVE_POOL = 1.1  # versions before 0.5.15 refuse a host pool that is not larger than the GPU pool
_ENABLE = "--enable-hierarchical-cache"


def less_host(view: View, why: str) -> Proposal:
    """A smaller size where a size is in effect, else a smaller ratio; HiCache off where no room is left for either."""
    size = view.value("--hicache-size")
    return _smaller_size(view, size, why) if size else _smaller_ratio(view, why)


def pool_that_fits(view: View) -> int | None:
    """Tokens of a GPU pool whose copy by the smallest ratio fits the host; None where that sum is not to be had."""
    room, each, tokens = _room_gb(view), _each_at_one_gb(view), view.number("kv_pool")
    if room is None or each is None or not tokens:
        return None
    fit = int(tokens * room / (ranks_with_pools(view) * each * _least(view)) / 1000) * 1000
    return fit if 0 < fit < tokens else None


def pools_within(view: View) -> tuple[tuple[str, str], ...]:
    """What the next start may print of all ranks' pools together; nothing where the host's room is not known."""
    room = _room_gb(view)
    return () if room is None else ((f"host memory in all at most {room:.0f} GB", "`Allocating` lines of the ranks"),)


def _smaller_size(view: View, size: float, why: str) -> Proposal:
    ranks, room = ranks_with_pools(view), _room_gb(view)
    why = f"{why}; the size is per rank, decimal GB"
    if room is None:
        return step(view, "lower", "--hicache-size", max(1, int(size * 0.5)), why, unit="GB")
    asked = view.number("host_requested_gb") or view.number("host_pool_gb") or size
    fit = room / ranks * min(1.0, size / asked)  # side pools come on top of the size that was asked for
    pool_gb = (view.number("kv_pool_gib", "") or 0.0) * 1.073741824
    if fit < max(1.0, pool_gb * (_least(view) if pool_gb else 0)):
        needs = f"each must be above the GPU pool of {pool_gb:.1f} GB" if pool_gb else f"{ranks:g} ranks share them"
        return step(view, "remove", _ENABLE, None, f"no size fits: {room:.0f} GB are free, {needs}")
    to = int(min(size - 1, math.ceil(fit) - 1)) if size > 1 else fit  # below it: the server fills up the last page
    sums = f"{ranks:g} x {to:g} GB = {ranks * to:.0f} GB of {room:.0f} GB" if ranks > 1 else f"{room:.0f} GB are free"
    if room == _granted_gb(view):
        sums += ", which were free when another rank was let have its pool"
    return step(view, "lower", "--hicache-size", max(1, to), f"{why}; {sums}", unit="GB")


def _smaller_ratio(view: View, why: str) -> Proposal:
    ratio, ranks = view.value("--hicache-ratio") or 2.0, ranks_with_pools(view)
    room, each = _room_gb(view), _each_at_one_gb(view)
    why = f"{why}; every rank takes its own share"
    if each is None or room is None:
        lower = max(_ABOVE_POOL, round(ratio / 2 if ratio > 2.5 else ratio * 0.75, 1))
        return step(view, "lower", "--hicache-ratio", lower, why, unit="x GPU pool")
    fit = min(round(ratio - 0.1, 1), int(room / (each * ranks) * 10) / 10)
    if fit < _least(view):
        sums = f"{ranks:g} x {each:.1f} GB = {ranks * each:.0f} GB at ratio 1, and {room:.0f} GB are free"
        return step(view, "remove", _ENABLE, None, f"no ratio fits: {sums}")
    sums = f"{ranks:g} x {each * fit:.1f} GB = {ranks * each * fit:.0f} GB of {room:.0f} GB"
    return step(view, "lower", "--hicache-ratio", fit, f"{why}: {sums}", unit="x GPU pool")


def _room_gb(view: View) -> float | None:
    """GB for all ranks together: by what the host or container has free, and by what the refusal itself says is."""
    offered, asked = view.number("host_offered_gb"), view.number("host_requested_gb")
    if offered is not None:
        if view.before(0, 5) or (asked is not None and asked <= offered):
            offered = max(0.0, offered - _RESERVE_GB)  # these versions print the free memory with the reserve in it
        offered = max(offered, _granted_gb(view))
    rooms = [one for one in (host_room_gb(view), offered) if one is not None]
    return min(rooms, default=None)


def _granted_gb(view: View) -> float:
    """What a rank was let have before another was refused: its own check saw at least as much free, less the reserve.

    The refusal prints what other ranks' pools had left of it (sglang 0.5.9 srt/mem_cache/memory_pool_host.py:175).
    """
    return max((float(fact.value) for fact in view.facts.all("host_pool_gb")), default=0.0)


def _each_at_one_gb(view: View) -> float | None:
    """GB that one rank's host pool takes at ratio 1, from what was asked for or allocated at the ratio in effect."""
    taken = view.number("host_requested_gb") or view.number("host_pool_gb")
    return None if taken is None else taken / (view.value("--hicache-ratio") or 2.0)


def _least(view: View) -> float:
    """The smallest ratio that is worth a start (sglang 0.5.9 srt/mem_cache/memory_pool_host.py:168)."""
    return _LEAST if view.at_least(0, 5, 15) else _ABOVE_POOL
