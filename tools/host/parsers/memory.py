"""Host memory and limits: meminfo, free, NUMA, cgroups, huge pages, limits of a process, file systems."""

from __future__ import annotations

import re
from typing import Final

from tools.host.parsers.page import Page, short_lines
from transcripts.facts import Evidence

_MEMINFO: Final = re.compile(r"^(?:Node (\d+) )?([\w()]+):\s+(\d+)(?: (kB))?\s*$")
_MEMINFO_BYTES: Final = {
    "MemTotal": "mem_total_bytes",
    "MemAvailable": "mem_available_bytes",
    "MemFree": "mem_free_bytes",
    "Cached": "mem_cached_bytes",
    "Shmem": "mem_shmem_bytes",
    "Unevictable": "mem_unevictable_bytes",
    "Mlocked": "mem_locked_bytes",
    "SwapTotal": "swap_total_bytes",
    "SwapFree": "swap_free_bytes",
    "Hugetlb": "hugetlb_bytes",
}
_NODE: Final = re.compile(r"^node (\d+) (size|free): (\d+) MB")
_NODES: Final = re.compile(r"^available: (\d+) nodes")
_LIMIT: Final = re.compile(r"^Max (locked memory|open files)\s+(\S+)\s+(\S+)")
_CGROUP_LIMIT: Final = ("memory.max", "memory.limit_in_bytes", "memory.high")
_CGROUP_USED: Final = ("memory.current", "memory.usage_in_bytes")
_UNLIMITED: Final = 1 << 62
_SIZE: Final = re.compile(r"^(\d+(?:\.\d+)?)([KMGTPE]?)(i?)(B?)$", re.I)
_SHIFTS: Final = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}
_SHM: Final = "/dev/shm"  # noqa: S108  a mount point that is looked at, never written to
_CHOSEN: Final = re.compile(r"\[(\w+)\]")


def size_bytes(text: str) -> int | None:
    """`396Gi`, `1.5T`, `800M`, `1024` as bytes, powers of 1024 as free and df print them; None when it is no size."""
    match = _SIZE.match(text.strip())
    if match is None:
        return None
    return round(float(match[1]) * (1 << _SHIFTS[match[2].upper()]))


def read_meminfo(page: Page, evidence: Evidence) -> None:
    """/proc/meminfo, or the table of `free` with any unit."""
    for number, raw in short_lines(evidence.text):
        match = _MEMINFO.match(raw)
        if match is None:
            continue
        if match[1] is not None:
            _node_meminfo(page, match[1], match[2], int(match[3]), number)
            continue
        _meminfo_value(page, match[2], int(match[3]) * (1024 if match[4] else 1), number)
    _read_free(page, evidence)


def _meminfo_value(page: Page, key: str, value: int, number: int) -> None:
    name = _MEMINFO_BYTES.get(key)
    if name is not None:
        page.add(name, value, number)
    elif key == "HugePages_Total":
        page.add("hugepages_total", value, number)
    elif key == "HugePages_Free":
        page.add("hugepages_free", value, number)


_FREE_COLUMNS: Final = ["total", "used", "free", "shared", "buff/cache", "available"]


def _read_free(page: Page, evidence: Evidence) -> None:
    head, unit = _FREE_COLUMNS, _free_unit(evidence.command)
    for number, raw in short_lines(evidence.text):
        words = raw.split()
        if "available" in words and "total" in words:
            head = words
        elif words and words[0] == "Mem:" and len(words) == len(head) + 1:
            for name, column in (("mem_total_bytes", "total"), ("mem_available_bytes", "available")):
                word, total = words[1 + head.index(column)], words[1 + head.index("total")]
                value = size_bytes(word)
                if value is not None:
                    scale = (unit or _likely_unit(total)) if word.isdecimal() else 1
                    page.add(name, value * scale, number)
        elif "free" in words:
            unit = _free_unit(raw) or unit


def _free_unit(command: str) -> int:
    """What a bare number counts by the command that was typed; 0 where no `free` stands there."""
    if re.search(r"\bfree\b", command) is None:
        return 0
    for option, unit in (("b", 1), ("k", 1 << 10), ("m", 1 << 20), ("g", 1 << 30)):
        if re.search(rf"\bfree\b.*\s-\w*{option}\b", command):
            return unit
    return 1 << 10


def _likely_unit(total: str) -> int:
    """GiB, MiB or KiB by the size of the total: no server has 16,000 GiB, or less than 4 GiB."""
    if not total.isdecimal():
        return 1 << 10
    return 1 << 30 if int(total) < 16_000 else 1 << 20 if int(total) < 4 << 20 else 1 << 10


def read_numa(page: Page, evidence: Evidence) -> None:
    """`numactl -H`, or the meminfo files of the nodes."""
    nodes: set[str] = set()
    last = 0
    for number, raw in short_lines(evidence.text):
        _, _, raw_after_name = raw.rpartition("meminfo:")
        text = (raw_after_name or raw).strip()
        count = _NODES.match(text)
        if count is not None:
            page.add("numa_nodes", int(count[1]), number)
        node = _NODE.match(text)
        if node is not None:
            name = "numa_total_bytes" if node[2] == "size" else "numa_free_bytes"
            page.add(name, int(node[3]) << 20, number, scope=f"node{node[1]}")
        meminfo = _MEMINFO.match(text)
        if meminfo is not None and meminfo[1] is not None:
            nodes.add(meminfo[1])
            last = number
            _node_meminfo(page, meminfo[1], meminfo[2], int(meminfo[3]), number)
    if nodes and not any(fact.name == "numa_nodes" for fact in page.facts):
        page.add("numa_nodes", len(nodes), last, grade="derived")


def _node_meminfo(page: Page, node: str, key: str, value: int, number: int) -> None:
    name = {"MemTotal": "numa_total_bytes", "MemFree": "numa_free_bytes"}.get(key)
    if name is not None:
        page.add(name, value * 1024, number, scope=f"node{node}")


def read_cgroup(page: Page, evidence: Evidence) -> None:
    """Files of a cgroup path, version 1 or 2: `name:value`, or a line with the name and then the value."""
    limits: list[tuple[int, int]] = []
    used: list[tuple[int, int]] = []
    name = ""
    for number, raw in short_lines(evidence.text):
        text = raw.strip().strip("=<> ")
        path, _, value = text.rpartition(":")
        if _is_cgroup_file(path) or not value.strip():
            name, text = path, value.strip()
        elif _is_cgroup_file(text):
            name = text
            continue
        elif " " in text and _is_cgroup_file(text.split()[0]):
            name, text = text.split(maxsplit=1)
        bare = name.rsplit("/", 1)[-1]
        if text == "max" or text.isdecimal():
            amount = _UNLIMITED if text == "max" else int(text)
            if bare in _CGROUP_LIMIT and amount < _UNLIMITED:
                limits.append((amount, number))
            elif bare in _CGROUP_USED:
                used.append((amount, number))
    if not name and not limits:
        limits, used = _bare_cgroup(evidence)
    if limits:
        amount, number = min(limits)
        page.add("cgroup_limit_bytes", amount, number)
    if used:
        amount, number = max(used)
        page.add("cgroup_used_bytes", amount, number)


def _bare_cgroup(evidence: Evidence) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Values alone, in the order in which the command names the files."""
    asked = re.findall(r"memory\.(?:max|limit_in_bytes|high|current|usage_in_bytes)\b", evidence.command)
    limits: list[tuple[int, int]] = []
    used: list[tuple[int, int]] = []
    values = [(n, raw.strip()) for n, raw in short_lines(evidence.text) if raw.strip()]
    for (number, text), file in zip(values, asked, strict=False):
        if text.isdecimal() and int(text) < _UNLIMITED:
            (limits if file in _CGROUP_LIMIT else used).append((int(text), number))
    return limits, used


def _is_cgroup_file(text: str) -> bool:
    return text.rsplit("/", 1)[-1] in (*_CGROUP_LIMIT, *_CGROUP_USED)


def read_huge_pages(page: Page, evidence: Evidence) -> None:
    """/sys/kernel/mm/transparent_hugepage: the word in brackets is the setting in force."""
    for number, raw in short_lines(evidence.text):
        chosen = _CHOSEN.search(raw)
        if chosen is not None:
            scope = next((part for part in ("shmem_enabled", "defrag") if part in raw), "")
            page.add("transparent_hugepages", chosen[1], number, scope=scope)
        meminfo = _MEMINFO.match(raw)
        if meminfo is not None and meminfo[1] is None and meminfo[2].startswith("HugePages_"):
            _meminfo_value(page, meminfo[2], int(meminfo[3]), number)


def read_limits(page: Page, evidence: Evidence) -> None:
    """/proc/PID/limits: the soft limits, which are what binds."""
    for number, raw in short_lines(evidence.text):
        match = _LIMIT.match(raw)
        if match is None:
            continue
        name = "memlock_bytes" if match[1] == "locked memory" else "nofile_limit"
        if match[2] == "unlimited":
            page.add(name, -1, number)
        elif match[2].isdecimal():
            page.add(name, int(match[2]), number)


def read_disks(page: Page, evidence: Evidence) -> None:
    """`df` with any block size; /dev/shm has facts of its own."""
    block = 0
    head: list[str] = []
    for number, raw in short_lines(evidence.text):
        words = raw.replace("Mounted on", "Mounted_on").split()
        if "Mounted_on" in words:
            head, block = words, _block_bytes(words)
            continue
        size_column = next((i for i, word in enumerate(head) if word in ("Available", "Avail")), 0)
        if size_column < 2 or len(words) < len(head):
            continue
        mount = " ".join(words[len(head) - 1 :])
        free, total = _blocks(words[size_column], block), _blocks(words[size_column - 2], block)
        if free is None or total is None:
            continue
        if mount == _SHM:
            page.add("shm_total_bytes", total, number)
            page.add("shm_free_bytes", free, number)
        else:
            page.add("disk_free_bytes", free, number, scope=mount)


def _block_bytes(head: list[str]) -> int:
    for word in head:
        match = re.fullmatch(r"(\d+)([KMG]?)i?B?-?B?(?:locks|blocks)", word.replace("-b", "b"), re.I)
        if match is not None:
            return int(match[1]) << _SHIFTS[match[2].upper()]
    return 0


def _blocks(word: str, block: int) -> int | None:
    if block and word.isdecimal():
        return int(word) * block
    return size_bytes(word)
