"""Host memory of a recording: /proc/meminfo and what free, vmstat, numactl and the cgroup files say about it."""

from __future__ import annotations

from tools.host.recorded.figures import Memory
from tools.host.recorded.options import Options, UsageMistake, parse

KIB_PER_GIB = 1 << 20


def meminfo(memory: Memory) -> dict[str, int]:
    """Fields in KiB. What is available beyond the free memory is page cache."""
    total, available = (round(gib * KIB_PER_GIB) for gib in (memory.total_gib, memory.available_gib))
    free = min(round(memory.free_gib * KIB_PER_GIB), round(available * 0.6))
    shared, swap = round(memory.shared_gib * KIB_PER_GIB), round(memory.swap_gib * KIB_PER_GIB)
    reclaimable = available - free
    buffers = min(round(0.4 * KIB_PER_GIB), reclaimable // 10)
    slab_reclaimable = reclaimable // 40
    cached = reclaimable - buffers - slab_reclaimable + shared
    unreclaimable = round(2.6 * KIB_PER_GIB)
    anonymous = max(total - free - buffers - cached - slab_reclaimable - unreclaimable, 0)
    return {
        "MemTotal": total,
        "MemFree": free,
        "MemAvailable": available,
        "Buffers": buffers,
        "Cached": cached,
        "SwapCached": 0,
        "Active": anonymous // 3 + cached // 2,
        "Inactive": anonymous - anonymous // 3 + cached - cached // 2,
        "Unevictable": 31_204,
        "Mlocked": 27_540,
        "SwapTotal": swap,
        "SwapFree": swap,
        "Dirty": 1_284,
        "Writeback": 0,
        "AnonPages": anonymous,
        "Mapped": 5_401_212,
        "Shmem": shared,
        "KReclaimable": slab_reclaimable,
        "Slab": slab_reclaimable + unreclaimable // 2,
        "SReclaimable": slab_reclaimable,
        "SUnreclaim": unreclaimable // 2,
        "KernelStack": 61_216,
        "PageTables": 402_116,
        "CommitLimit": total // 2 + swap,
        "Committed_AS": anonymous * 3 // 2,
        "VmallocTotal": 34_359_738_367,
        "VmallocUsed": 912_440,
        "AnonHugePages": anonymous // 2,
        "HugePages_Total": 0,
        "HugePages_Free": 0,
        "HugePages_Rsvd": 0,
        "HugePages_Surp": 0,
        "Hugepagesize": 2_048,
        "Hugetlb": 0,
    }


def meminfo_text(memory: Memory) -> str:
    lines = []
    for name, value in meminfo(memory).items():
        unit = "" if name.startswith("HugePages_") else " kB"
        lines.append(f"{name + ':':<16}{value:>8}{unit}")
    return "\n".join(lines) + "\n"


_FREE = Options(
    values={"s": "seconds", "seconds": "seconds", "c": "count", "count": "count"},
    switches={
        "b": "b",
        "bytes": "b",
        "k": "k",
        "kibi": "k",
        "m": "m",
        "mebi": "m",
        "g": "g",
        "gibi": "g",
        "h": "h",
        "human": "h",
        "w": "wide",
        "wide": "wide",
        "t": "total",
        "total": "total",
        "si": "si",
        "l": "low",
        "tebi": "t",
        "mega": "mega",
        "giga": "giga",
        "kilo": "kilo",
    },
)
_DIVISORS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "kilo": 1000, "mega": 10**6, "giga": 10**9}


def free(memory: Memory, argv: list[str]) -> tuple[int, str, str]:
    """As free of procps-ng 4 prints it: `used` is total minus available."""
    try:
        asked = parse(_FREE, argv[1:])
    except UsageMistake as mistake:
        return 1, "", f"free: {mistake}\n"
    fields = meminfo(memory)
    divisor = next((_DIVISORS[key] for key, _ in asked.found if key in _DIVISORS), 1 << 10)

    def shown(kib: int) -> str:
        return _human(kib) if asked.has("h") else str(kib * 1024 // divisor)

    cache = fields["Cached"] + fields["SReclaimable"]
    used = fields["MemTotal"] - fields["MemAvailable"]
    row: list[tuple[str, int]] = [
        ("total", fields["MemTotal"]),
        ("used", used),
        ("free", fields["MemFree"]),
        ("shared", fields["Shmem"]),
    ]
    if asked.has("wide"):
        row += [("buffers", fields["Buffers"]), ("cache", cache)]
    else:
        row.append(("buff/cache", fields["Buffers"] + cache))
    row.append(("available", fields["MemAvailable"]))
    swap = [fields["SwapTotal"], fields["SwapTotal"] - fields["SwapFree"], fields["SwapFree"]]
    lines = [
        _row("", [name for name, _ in row]),
        _row("Mem:", [shown(value) for _, value in row]),
        _row("Swap:", [shown(value) for value in swap]),
    ]
    if asked.has("total"):
        sums = [fields["MemTotal"] + swap[0], used + swap[1], fields["MemFree"] + swap[2]]
        lines.append(_row("Total:", [shown(value) for value in sums]))
    return 0, "\n".join(lines) + "\n", ""


def _row(label: str, cells: list[str]) -> str:
    return f"{label:<9}" + " ".join(f"{cell:>11}" for cell in cells)


def _human(kib: int) -> str:
    """Three or four letters with a binary unit, as procps scales: one decimal while the number has one digit."""
    value, units = float(kib * 1024), ("B", "Ki", "Mi", "Gi", "Ti")
    for unit in units:
        if value < 1000 or unit == units[-1]:
            if unit == "B":
                return f"{int(value)}{unit}"
            return f"{value:.1f}{unit}" if value < 10 else f"{int(value)}{unit}"
        value /= 1024
    return ""


def numactl_hardware(memory: Memory, cores: int) -> str:
    """`numactl -H`: MiB a node, free memory spread a little unevenly."""
    fields, nodes = meminfo(memory), memory.nodes
    lines = [f"available: {nodes} nodes (0-{nodes - 1})" if nodes > 1 else "available: 1 nodes (0)"]
    share = cores // nodes
    for node in range(nodes):
        names = [*range(node * share, (node + 1) * share), *range(cores + node * share, cores + (node + 1) * share)]
        free_mib = fields["MemFree"] // 1024 // nodes + (137 if node % 2 else -137) * (nodes > 1)
        lines += [
            f"node {node} cpus: {' '.join(str(name) for name in names)}",
            f"node {node} size: {fields['MemTotal'] // 1024 // nodes} MB",
            f"node {node} free: {free_mib} MB",
        ]
    lines.append("node distances:")
    lines.append("node " + "".join(f"{node:>4}" for node in range(nodes)))
    lines += [
        f"{node:>4}: " + "".join(f"{10 if node == other else 32:>4}" for other in range(nodes)) for node in range(nodes)
    ]
    return "\n".join(lines) + "\n"


def node_meminfo(memory: Memory, node: int) -> str:
    fields = meminfo(memory)
    names = ("MemTotal", "MemFree", "Active", "Inactive", "Dirty", "AnonPages", "Mapped", "Shmem", "HugePages_Total")
    return "".join(
        f"Node {node} {name + ':':<16}{fields[name] // memory.nodes:>8}{'' if name.startswith('Huge') else ' kB'}\n"
        for name in names
    )


def numastat(memory: Memory) -> str:
    """Counters of allocations by node; a host whose ranks are bound shows next to no misses."""
    head = " " * 20 + "".join(f"{'node' + str(node):>16}" for node in range(memory.nodes))
    rows = {
        "numa_hit": 8_412_077_391,
        "numa_miss": 0,
        "numa_foreign": 0,
        "local_node": 8_401_662_018,
        "other_node": 10_415_373,
    }
    lines = [head, *(f"{name:<20}" + f"{value:>16}" * memory.nodes for name, value in rows.items())]
    return "\n".join(lines) + "\n"
