"""Host memory of HiCache: each rank keeps a pool of its own, and all of them stand in the RAM of one machine."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

from tools.capacity import pools, versions
from tools.capacity.deployment import Deployment, missing_pool, missing_shape
from tools.capacity.sums import GB, GIB, Known, Missing, Sum, provenance
from transcripts.facts import Facts

_RESERVE_BYTES = 10 * GIB
_RESERVE_SHARE = 0.05
_RATIO_STEP = 0.1


@dataclass(frozen=True, slots=True)
class HostBudget:
    """HiCache at one ratio (or size). Bytes are exact; `per_rank_gb` and `total_gb` are decimal, as the server prints.

    `largest_ratio` keeps the design's reserve, `largest_ratio_bare` only the 10 GiB that every version keeps; both are
    rounded down to 0.1 and below 1 where nothing fits. `own_check_passes` is what the version itself would let start.
    `prefix_tokens` are distinct tokens over all data-parallel ranks. `running_factor` is 1: no running request is
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
    per_rank, kept = _pool(server, ratio or 0.0, size_gb or 0)
    ranks = server.ranks_here
    total = per_rank * ranks
    limit, limit_from, limit_sources = memory_limit(server)
    one = cell.value * tokens.value
    bare = _available(server)[0] - _RESERVE_BYTES
    own_limit, own_text = _own_check(server)
    known = provenance(tokens, cell)
    total_sum = Sum(
        "host_total",
        "ranks * bytes_per_token * (pool_tokens * ratio, up to the next page) / 1e9",
        {"ranks": ranks, "bytes_per_token": cell.value, "pool_tokens": tokens.value, "ratio": kept / tokens.value},
        total / GB,
        "GB",
        known.grade,
        (*known.sources, *limit_sources),
        limit=limit / GB,
        limit_from=limit_from,
        source_line=versions.source_line(server.version, "host_size"),
    )
    per_rank_sum = Sum(
        "host_per_rank",
        "bytes_per_token * host_tokens / 1e9",
        {"bytes_per_token": cell.value, "host_tokens": kept},
        per_rank / GB,
        "GB",
        known.grade,
        known.sources,
        limit=own_limit / GB,
        limit_from=own_text,
        source_line=versions.source_line(server.version, "host_check"),
    )
    distinct = total // _copies(server)
    return HostBudget(
        ratio=kept / tokens.value if size_gb else float(ratio or 0.0),
        ranks=ranks,
        per_rank_bytes=per_rank,
        total_bytes=total,
        distinct_bytes=distinct,
        limit_bytes=limit,
        limit_from=limit_from,
        fits=total <= limit,
        largest_ratio=_down(limit / (ranks * one)),
        largest_ratio_bare=_down(bare / (ranks * one)),
        own_check_passes=per_rank <= own_limit,
        own_check_largest_ratio=_down(own_limit / one),
        own_check=own_text,
        prefix_tokens=kept * server.groups,
        device_tokens=int(tokens.value),
        numa=_numa(server, per_rank),
        sums=(total_sum, per_rank_sum),
        warnings=_warnings(server, kept, int(tokens.value)),
    )


def memory_limit(server: Deployment) -> tuple[int, str, tuple[str, ...]]:
    """Bytes HiCache may take: available memory less the reserve, or the cgroup's; whichever is smaller.

    What a running server already pins for HiCache is free again after a restart and counts as available.
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
    pinned = server.lowest("host_pool_gb")
    held = int(pinned.value * GB) * server.ranks_here if pinned and server.facts.get("running") else 0
    return int(available.value) + held, (available.source,)


def _cgroup(server: Deployment) -> int | None:
    """Bytes left under the cgroup's limit, what HiCache already holds given back."""
    limit, used = server.fact("cgroup_limit_bytes"), server.fact("cgroup_used_bytes")
    if limit is None or limit.value <= 0:
        return None
    pinned = server.lowest("host_pool_gb")
    held = int(pinned.value * GB) * server.ranks_here if pinned and used else 0
    return int(limit.value - (used.value if used else 0)) + held


def _pool(server: Deployment, ratio: float, size_gb: int) -> tuple[int, int]:
    """Bytes and tokens of one rank's host pool, the sidecar rows of an indexer included."""
    tokens, cell = server.pool_tokens, server.bytes_per_token
    assert tokens is not None and cell is not None  # noqa: PT018  checked by the caller
    kept = pools.host_tokens(int(tokens.value), server.page, ratio, size_gb, cell.value)
    return int(kept * cell.value), kept


def _copies(server: Deployment) -> int:
    """How many ranks of this host hold the same key and value."""
    return server.shape.full.copies(server.attn_tp) if server.shape else 1


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


def _warnings(server: Deployment, kept: int, device: int) -> tuple[str, ...]:
    found = []
    if kept <= device:
        failing = versions.host_pool_must_exceed_device(server.version)
        found.append("not larger than the device pool: " + ("the start fails" if failing else "of little use"))
    if server.has_draft and not versions.at_least(server.version, "0.5.12"):
        found.append("the draft's KV is not kept in host memory: accept length can fall after load-backs")
    if server.has_draft and versions.at_least(server.version, "0.5.12"):
        found.append("the draft's KV is kept in host memory too and is not in this sum")
    if server.shape and (server.shape.state or server.shape.sliding):
        found.append("only pools of full attention are counted; sidecar pools of state or window come on top")
    return tuple(found)


def _down(ratio: float) -> float:
    return max(0.0, floor(ratio / _RATIO_STEP + 1e-9) / 10)


def _missing(server: Deployment) -> tuple[Missing, ...]:
    lacking = []
    if server.pool_tokens is None:
        lacking.append(missing_pool())
    if server.bytes_per_token is None:
        lacking.append(missing_shape())
    if server.fact("mem_available_bytes") is None:
        lacking.append(Missing("free host memory", ("mem_available_bytes",), "/proc/meminfo of the host"))
    return tuple(lacking)
