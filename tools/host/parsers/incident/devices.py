"""GPUs against each other in short notes, the links between them, and how much host memory was pinned for a request."""

# ruff: noqa: E501  (a pattern reads better on one line)
from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tools.host.parsers.page import Page
from transcripts.facts import Grade

_LINK_ROW: Final = re.compile(r"^\s*GPU\d+\s+(.*)$")
_LINKS: Final = re.compile(r"\b(NV\d+|PIX|PXB|PHB|NODE|SYS|CNS|GNS|TNS|NS)\b")
_SLASHED: Final = re.compile(
    r"(?<![\d.])(\d{1,3}(?:\.\d+)?(?: ?(?:GB|GiB|MiB))?(?: ?/ ?\d{1,3}(?:\.\d+)?(?: ?(?:GB|GiB|MiB))?)+) ?(GB|GiB|MiB)?",
    re.I,
)
_GPU_WORDS: Final = re.compile(r"nvidia-smi|gpus?\b|cards?\b|vram|device", re.I)
_HELD: Final = re.compile(
    r"(?:gpu|cuda:|card|device)s? ?(\d+)(?: ?(?:-|–|to|\.\.) ?(?:gpu ?)?\d+)?\b[^\d\n]{0,24}?(\d+(?:\.\d+)?) ?(GB|GiB|MiB)\b",
    re.I,
)
_FREE_WORDS: Final = re.compile(r"\bfree\b|avail", re.I)
_PROCESS: Final = re.compile(r"\|\s+(\d+)\s+\S+\s+\S+\s+(\d+)\s+C\S*\s+(\S.*?)\s+(\d+)MiB")
_HOLDS: Final = re.compile(r"Process (\d+) has (\d+(?:\.\d+)?) (GiB|MiB) memory in use")
# `ps -o pid,rss,cmd`: kB of a scheduler
_RANK_RSS: Final = re.compile(r"^\s*(\d+)\s+(\d{7,10})\s+sglang::scheduler")
_MIB: Final = {"mib": 1.0, "gib": 1024.0, "gb": 1024.0}

_PINNED: Final = re.compile(
    r"(?:cuda(?:Host|Malloc)(?:Alloc|Host)|hipHostMalloc|pin(?:ned|_memory)?|reserved|segment|host_alloc\w*|mlock\w*)\b[^\n]{0,50}?\b(\d{9,15})\b",
    re.I,
)
_PINNED_GIB: Final = re.compile(
    r"(?:pinned|locks?|locked|mlocked|takes?|took|resident|reserved|allocated|got)\b[^\d\n]{0,30}(\d+(?:\.\d+)?) ?(GiB|GB)\b",
    re.I,
)
_ASKED: Final = re.compile(
    r"(?:request\w*|asked?|asks|needs?|wants?|buffer|tensor|should be|expected)\b[^\d\n]{0,40}?(\d+(?:\.\d+)?) ?(GiB|GB)\b|(?:current|requested|nbytes|size of)\D{0,10}(\d{9,15})\b",
    re.I,
)
_GIB: Final = 1 << 30


def read(page: Page, lines: Sequence[str], grade: Grade) -> None:
    """Facts of one text."""
    asked: list[tuple[int, int]] = []
    taken: list[tuple[int, int]] = []
    held: dict[int, float] = {}
    for number, line in enumerate(lines, 1):
        if len(line) > 1000 or "#running-req" in line:
            continue
        if row := _LINK_ROW.match(line):
            for link in _LINKS.findall(row.group(1)):
                page.add("gpu_link", link, number, grade=grade)
        if found := _PROCESS.search(line):
            scope = f"gpu{found.group(1)}:{found.group(2)}"
            page.add("gpu_process_mib", int(found.group(4)), number, scope=scope, grade=grade)
            page.add("gpu_process", found.group(3), number, scope=scope, grade=grade)
        for pid, size, unit in _HOLDS.findall(line):
            page.add("gpu_process_mib", int(float(size) * _MIB[unit.lower()]), number, scope=f"gpu:{pid}", grade=grade)
        if found := _RANK_RSS.match(line):
            page.add("rank_memory_bytes", int(found.group(2)) * 1024, number, scope=found.group(1), grade=grade)
        _lists(page, line, number, grade)
        if not _FREE_WORDS.search(line) and "Tried to allocate" not in line:
            for index, amount, unit in _HELD.findall(line):
                held.setdefault(int(index), float(amount) * _MIB[unit.lower()])
        _pins(line, number, asked, taken)
    if set(held) >= {0, 1}:
        _extra(page, [held[index] for index in sorted(held)], 0, grade)
    _rounded(page, asked, taken, grade)


def _lists(page: Page, line: str, number: int, grade: Grade) -> None:
    """`79 / 68 / 68 / 68 GB`: one figure a GPU, the first GPU first."""
    if not _GPU_WORDS.search(line) or _FREE_WORDS.search(line):
        return
    found = list(_SLASHED.finditer(line))
    if not found:
        return
    last = found[-1]
    values = [float(one) for one in re.findall(r"\d+(?:\.\d+)?", last.group(1))]
    unit = (last.group(2) or next(iter(re.findall(r"[GM]i?B", last.group(1), re.I)), "GB")).lower()
    if len(values) in (2, 4, 8, 16):
        _extra(page, [value * _MIB.get(unit, 1024.0) for value in values], number, grade)


def _extra(page: Page, used_mib: list[float], number: int, grade: Grade) -> None:
    more = used_mib[0] - max(used_mib[1:])
    if more >= 1024:
        page.add("gpu0_extra_mib", int(more), number, grade=grade)


def _pins(line: str, number: int, asked: list[tuple[int, int]], taken: list[tuple[int, int]]) -> None:
    taken.extend((number, int(amount)) for amount in _PINNED.findall(line))
    taken.extend((number, int(float(amount) * _GIB)) for amount, _ in _PINNED_GIB.findall(line))
    asked.extend((number, int(count) if count else int(float(gib) * _GIB)) for gib, _, count in _ASKED.findall(line))


def _rounded(page: Page, asked: list[tuple[int, int]], taken: list[tuple[int, int]], grade: Grade) -> None:
    """The first pair where what was pinned is the next power of two above what was asked for."""
    for number, size in taken:
        if size < _GIB or size & (size - 1):
            continue
        wanted = next((one for _, one in asked if size // 2 < one < 0.98 * size), None)
        if wanted is not None:
            page.add("pin_asked_bytes", wanted, number, grade=grade)
            page.add("pin_taken_bytes", size, number, grade=grade)
            return
