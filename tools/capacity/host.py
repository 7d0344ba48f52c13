"""Host memory of HiCache: each rank keeps a pool of its own, and all of them stand in the RAM of one machine."""

from __future__ import annotations

from dataclasses import dataclass

from tools.capacity import versions
from tools.capacity.deployment import Deployment
from tools.capacity.host_pools import HostPool, Kept, kept_now
from tools.capacity.missing import missing_layout, missing_pool, missing_shape
from tools.capacity.sums import GB, GIB, Known, Missing, Sum, provenance
from transcripts.facts import Facts

_RESERVE_BYTES = 10 * GIB
_RESERVE_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class HostBudget:
    """HiCache at one ratio (or size). Bytes are exact; `per_rank_gb` and `total_gb` are decimal, as the server prints.

    `largest_ratio` keeps the design's reserve, `largest_ratio_bare` only the 10 GiB that every version keeps; both are
    rounded down to 0.1 and below 1 where nothing fits. `own_check_passes` is what the version itself would let start.
    `pools` are those of one rank: KV and, where the model has them, window, recurrent state and draft. `prefix_tokens`
    are distinct tokens over all data-parallel ranks. `running_factor` is 1: no running request is
    served from host memory.
    """

    ratio: float
    ranks: int
    per_rank_bytes: int
    total_bytes: int
    distinct_bytes: int
    limit_bytes: int
    limit_from: str
    fits: bool
    largest_ratio: float
    largest_ratio_bare: float
    own_check_passes: bool | None
    own_check_largest_ratio: float
    own_check: str
    prefix_tokens: int
    device_tokens: int
    numa: str
    pools: tuple[HostPool, ...]
    sums: tuple[Sum, ...]
    warnings: tuple[str, ...]
    missing: tuple[Missing, ...] = ()
    running_factor: float = 1.0

    @property
    def per_rank_gb(self) -> float:
        return self.per_rank_bytes / GB

    @property
    def total_gb(self) -> float:
        return self.total_bytes / GB

    @property
    def total_gib(self) -> float:
        return self.total_bytes / GIB


def host_budget(
    facts: Facts, ratio: float | None = None, size_gb: int | None = None
) -> HostBudget | tuple[Missing, ...]:
    """HiCache at `ratio` of the device pool, or at `size_gb` decimal GB per rank; by default as set, else ratio 2.

    Returns what is missing where the pool, its bytes or the machine's memory are not known.
    """
    server = Deployment(facts)
    lacking = _missing(server)
    tokens, cell = server.pool_tokens, server.bytes_per_token
    if lacking or tokens is None or cell is None:
        return lacking
    if ratio is None and size_gb is None:
        size_gb = server.whole("hicache_size", 0)
        set_ratio = server.number("hicache_ratio", 2.0)
        ratio = set_ratio.value if set_ratio else 2.0
    here = kept_now(server)
    assert here is not None  # the pool is known, see above
    hosted = here.on_host(ratio or 0.0, size_gb or 0)
    ranks, rows = server.ranks_here, hosted[0].rows
    per_rank = sum(pool.bytes for pool in hosted)
    total = per_rank * ranks
    limit, limit_from, _ = memory_limit(server)
    bare = _available(server)[0] - _RESERVE_BYTES
    own_limit, own_text = _own_check(server)
    return HostBudget(
        ratio=rows / tokens.value if size_gb else float(ratio or 0.0),
        ranks=ranks,
        per_rank_bytes=per_rank,
        total_bytes=total,
        distinct_bytes=sum(pool.bytes * ranks // pool.copies for pool in hosted),
        limit_bytes=limit,
        limit_from=limit_from,
        fits=total <= limit,
        largest_ratio=here.largest_ratio(limit / ranks),
        largest_ratio_bare=here.largest_ratio(bare / ranks),
        own_check_passes=per_rank <= own_limit,
        own_check_largest_ratio=here.largest_ratio(own_limit),
        own_check=own_text,
        prefix_tokens=rows * server.groups,
        device_tokens=int(tokens.value),
        numa=_numa(server, per_rank),
        pools=hosted,
        sums=host_sums(server, here, hosted, size_gb or 0),
        warnings=_warnings(server, here, rows, bool(size_gb)),
    )


def largest_ratio_within(facts: Facts, room_bytes: float) -> float | tuple[Missing, ...]:
    """The largest `--hicache-ratio` whose host pools, over all ranks, take no more bytes than that.

    Rounded down to 0.1, below 1 where none does. Returns what is missing where the pool or its bytes are not known.
    """
    server = Deployment(facts)
    here = kept_now(server)
    return _missing(server) if here is None else here.largest_ratio(room_bytes / server.ranks_here)


def host_sums(server: Deployment, here: Kept, hosted: tuple[HostPool, ...], size_gb: float) -> tuple[Sum, Sum]:
    """The sum over all ranks against what may be taken, and one rank's against what the version checks.

    No limit stands in either where the host's memory is not known.
    """
    limit, limit_from, limit_sources = memory_limit(server)
    seen = server.fact("mem_available_bytes") is not None
    own_limit, own_text = _own_check(server)
    known = provenance(server.pool_tokens, server.bytes_per_token)
    topic = "host_size" if len(here.sized) == 1 else "host_size_hybrid"
    inputs: dict[str, float] = {"ranks": server.ranks_here}
    each: dict[str, float] = {pool.name.replace(" ", "_") + "_gb": pool.bytes / GB for pool in hosted}
    one = " + ".join(each)
    if len(hosted) == 1:
        only, tokens = hosted[0], here.device[0].rows
        each, one = {"bytes_per_token": only.row_bytes, "host_tokens": only.rows}, "bytes_per_token * host_tokens / 1e9"
        inputs |= {"bytes_per_token": only.row_bytes, "pool_tokens": tokens, "ratio": only.rows / tokens}
        expression = "ranks * bytes_per_token * (pool_tokens * ratio, up to the next page) / 1e9"
    else:
        inputs |= each | ({"hicache_size": size_gb} if size_gb else {})
        expression = f"ranks * ({one})"
    per_rank = sum(pool.bytes for pool in hosted)
    total_sum = Sum(
        "host_total",
        expression,
        inputs,
        per_rank * server.ranks_here / GB,
        "GB",
        known.grade,
        (*known.sources, *limit_sources),
        limit=limit / GB if seen else None,
        limit_from=limit_from if seen else "",
        source_line=versions.source_line(server.version, topic),
    )
    per_rank_sum = Sum(
        "host_per_rank",
        one,
        each,
        per_rank / GB,
        "GB",
        known.grade,
        known.sources,
        limit=own_limit / GB if seen else None,
        limit_from=own_text if seen else "",
        source_line=versions.source_line(server.version, "host_check"),
    )
    return total_sum, per_rank_sum


def memory_limit(server: Deployment) -> tuple[int, str, tuple[str, ...]]:
    """Bytes HiCache may take: available memory less the reserve, or the cgroup's; whichever is smaller.

    What a running server already pins for HiCache is free again after a restart and counts as available; what a server
    that is gone would pin is free already. No more than the machine has.
    """
    available, sources = _available(server)
    total = server.fact("mem_total_bytes")
    reserve = max(_RESERVE_BYTES, int(_RESERVE_SHARE * (total.value if total else 0)))
    limit, limit_from = available - reserve, "MemAvailable - max(10 GiB, 5 % of MemTotal)"
    cgroup = _cgroup(server)
    if cgroup is not None:
        room = cgroup - max(_RESERVE_BYTES, int(_RESERVE_SHARE * cgroup))
        if room < limit:
            limit, limit_from = room, "cgroup limit - its use - max(10 GiB, 5 %)"
    return limit, limit_from, sources


def _available(server: Deployment) -> tuple[int, tuple[str, ...]]:
    available = server.fact("mem_available_bytes")
    if available is None:
        return 0, ()
    total = server.fact("mem_total_bytes")
    room = int(available.value) + (_pinned(server) if server.process_seen else 0)
    return min(room, int(total.value)) if total and total.value > 0 else room, (available.source,)


def _pinned(server: Deployment) -> int:
    """Bytes that the start of the server pinned on this host, over its ranks."""
    pinned = server.lowest("host_pool_gb")
    return int(pinned.value * GB) * server.ranks_here if pinned else 0


def _cgroup(server: Deployment) -> int | None:
    """Bytes left under the cgroup's limit, what HiCache already holds given back."""
    limit, used = server.fact("cgroup_limit_bytes"), server.fact("cgroup_used_bytes")
    if limit is None or limit.value <= 0:
        return None
    if used is None or server.process_seen is False:
        return int(limit.value - (used.value if used else 0))
    return int(limit.value - used.value) + min(_pinned(server), int(used.value))


def _own_check(server: Deployment) -> tuple[int, str]:
    """What the version compares one rank's pool with, in bytes, and in words."""
    available, _ = _available(server)
    if versions.host_check_is_per_rank(server.version):
        return available - _RESERVE_BYTES, "available memory - 10 GiB, asked by each rank for itself, blind to cgroups"
    cgroup = _cgroup(server)
    room = available if cgroup is None else min(available, cgroup)
    return (room - _RESERVE_BYTES) // server.ranks_here, "(available memory or cgroup room - 10 GiB) / ranks"


def _numa(server: Deployment, per_rank: int) -> str:
    """Whether the ranks of a node fit in the node, ranks and available memory spread as the nodes are sized.

    A node's own MemFree leaves out the page cache, which gives way; so the machine's available memory is shared out.
    Empty where nodes are not known.
    """
    read = ((fact.scope, Known.of(fact)) for fact in server.facts.all("numa_total_bytes"))
    totals = {node: known.value for node, known in read if known is not None and known.value > 0}
    if len(totals) < 2:
        return ""
    share = -(-server.ranks_here // len(totals)) * per_rank
    available = _available(server)[0]
    rooms = {node: available * total / sum(totals.values()) for node, total in totals.items()}
    tight = [f"{node} has about {room / GB:.0f} GB" for node, room in rooms.items() if room < share]
    if not tight:
        return f"each of {len(totals)} NUMA nodes has room for its ranks ({share / GB:.1f} GB)"
    return f"the ranks of one NUMA node need {share / GB:.1f} GB: {', '.join(tight)}; the rest becomes remote memory"


def _warnings(server: Deployment, here: Kept, rows: int, by_size: bool) -> tuple[str, ...]:
    found = [refused] if (refused := hicache_refused(server, by_size)) else []
    if rows <= here.device[0].rows:
        failing = versions.host_pool_must_exceed_device(server.version)
        found.append("not larger than the device pool: " + ("the start fails" if failing else "of little use"))
    if server.has_draft and not versions.draft_on_host(server.version):
        found.append("the draft's KV is not kept in host memory: accept length can fall after load-backs")
    if here.draft_bytes is None:
        found.append("the draft's KV is kept in host memory too; its shape is not known and it is not in this sum")
    on_top = " and ".join(pool.name for pool in here.device if not pool.in_size)
    if by_size and on_top:
        found.append(f"the {on_top}'s keys have a host pool of their own, on top of --hicache-size")
    if by_size and len(here.sized) > 1:
        shared = versions.host_size_is_shared(server.version)
        names = " and ".join(pool.name for pool in here.sized)
        found.append(
            f"--hicache-size is one total, shared between {names} by their device bytes"
            if shared
            else f"each of {names} takes the whole of --hicache-size"
        )
    return tuple(found)


def hicache_refused(server: Deployment, by_size: bool = False) -> str:
    """Why the version does not start with HiCache for such a model; empty where it does."""
    shape = server.shape
    if shape is None:
        return ""
    if shape.state and not versions.hicache_takes_state(server.version):
        return "this version takes no HiCache for a model with recurrent state: the start fails"
    if shape.sliding and not versions.hicache_takes_windows(server.version):
        return "this version takes no HiCache for a model with a sliding-window pool: the start fails"
    if shape.compressed and by_size:
        return "for this model HiCache takes --hicache-ratio, not --hicache-size: the start fails"
    return ""


def _missing(server: Deployment) -> tuple[Missing, ...]:
    lacking = []
    if server.pool_tokens is None:
        lacking.append(missing_pool())
    if server.bytes_per_token is None and server.shape is not None and server.shape.unsummed:
        lacking.append(missing_layout(server.shape))
    elif server.bytes_per_token is None:
        lacking.append(missing_shape())
    if server.fact("mem_available_bytes") is None:
        lacking.append(Missing("free host memory", ("mem_available_bytes",), "/proc/meminfo of the host"))
    return tuple(lacking)
