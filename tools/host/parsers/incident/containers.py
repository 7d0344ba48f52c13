"""What container runtimes, cgroups, disks and sockets say in the short form that is pasted beside a log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tools.host.parsers.page import Page
from transcripts.facts import Grade

_DOCKER_LIMIT: Final = re.compile(r"^\s*\"?(?:HostConfig\.)?Memory\"?:\s*(\d{8,})", re.I)
_LIMIT_FILE: Final = re.compile(r"memory\.(?:max|limit_in_bytes)\b")
# `kubectl describe pod` and manifests: the first `memory:` below `Limits:`, before what is only requested.
_POD_LIMITS: Final = re.compile(r"^\s*limits:\s*$", re.I)
_POD_REQUESTS: Final = re.compile(r"^\s*requests:\s*$", re.I)
_POD_MEMORY: Final = re.compile(r"^\s*memory:\s+\"?(\d+(?:\.\d+)?)([KMGT])(i?)\"?\s*$")
_POWERS: Final = {"K": 1, "M": 2, "G": 3, "T": 4}
_USED_FILE: Final = re.compile(r"memory\.(?:current|usage_in_bytes|peak)\b")
# `limits: {memory: 64Gi}`, `"limits":{"cpu":"8","memory":"64Gi"}`
_POD_INLINE: Final = re.compile(
    r"\blimits[\"']?\s*:\s*\{[^{}]*?\bmemory[\"']?\s*:\s*[\"']?(\d+(?:\.\d+)?)([KMGT])(i?)\b", re.I
)
_EVENTS_FILE: Final = re.compile(r"memory\.events")
_BYTES: Final = re.compile(r"^\s*(\d{8,})\s*$")
_INLINE: Final = re.compile(
    r"memory\.(max|limit_in_bytes|current|usage_in_bytes)(?:\s*\([^)]*\))?\s*[:=]?\s+(\d{8,})\b"
)
_EVENT: Final = re.compile(r"^\s*(low|high|max|oom|oom_kill|oom_group_kill)[ :=]+(\d+)\s*$")
_EVENTS_INLINE: Final = re.compile(r"memory\.events.*?\bmax[ :=]+(\d+)")
_CONSTRAINT: Final = re.compile(r"constraint=(CONSTRAINT_\w+)", re.I)
_VICTIM: Final = re.compile(r"victim process: ([\w:.-]+)|killed process \d+ \(([^)]{1,64})\)", re.I)
_DF: Final = re.compile(r"^\S+\s+\S+\s+\S+\s+\S+\s+(\d{1,3})%\s+(/\S*)")
_UTIL_HEAD: Final = re.compile(r"^\s*Device\S*\s+.*%util", re.I)
_UTIL: Final = re.compile(r"\b((?:nvme|sd|md|vd|dm-)\w*)\b.*?%?util:? ?(\d+(?:\.\d+)?)", re.I)
_RATE: Final = re.compile(r"\b([rw])/s:? +(\d+(?:\.\d+)?)")
_FILES: Final = re.compile(r"\b(?:ls|find)\b.*\|\s*wc -l")
_SOCKETS: Final = re.compile(r"\b(?:ss|netstat)\b.*\|\s*wc -l")
_CONNECTIONS: Final = re.compile(r"(\d[\d,]*) (?:\w+ )?(?:established|open) (?:tcp )?(?:connections?|sockets?)", re.I)
_NEAR: Final = 4  # lines between a command or a file's name and what it printed


_IMAGE: Final = re.compile(
    r"\b(?:docker|container|oci|base|official|runtime|nightly|slim|python|cuda|rocm|sglang|lmsysorg\S*) images?\b"
    r"|(?<![\w/-])image ?: ?(?=\S)"
    r"|\bimages?\b(?= (?:is |was |are |tag )?(?:[\w.-]+/[\w.-]+[:\w]|the official|lmsys|v?\d+\.\d+|pulled|built))"
    r"|\b(?:to|since|after|with|in|from|on) (?:the |our |an? )?(?:new|old|latest|previous|next|same|custom) image\b"
    r"(?! (?:request|url|input|token|processor|prompt|batch))",
    re.I,
)


def without_container_images(text: str) -> str:
    """The text without images that containers are made of: they are no pictures."""
    return _IMAGE.sub(" ", text)


def read(page: Page, lines: Sequence[str], grade: Grade) -> None:
    """Facts of one text; what a command printed is known by the command a few lines above."""
    head: list[str] = []
    for number, line in enumerate(lines, 1):
        if len(line) > 2000:
            continue
        above = lines[max(0, number - 1 - _NEAR) : number - 1]
        _memory(page, line, above, number, grade)
        _kill(page, line, number, grade)
        if found := _DF.match(line):
            page.add("disk_used_share", int(found.group(1)) / 100, number, scope=found.group(2), grade=grade)
        if _UTIL_HEAD.match(line):
            head = line.split()
        else:
            _disk(page, line, head, number, grade)
        _counted(page, line, above, number, grade)


def _memory(page: Page, line: str, above: Sequence[str], number: int, grade: Grade) -> None:
    if found := _DOCKER_LIMIT.match(line):
        page.add("cgroup_limit_bytes", int(found.group(1)), number, grade=grade)
    if found := _INLINE.search(line):
        name = "cgroup_limit_bytes" if found.group(1) in ("max", "limit_in_bytes") else "cgroup_used_bytes"
        page.add(name, int(found.group(2)), number, grade=grade)
    elif (found := _BYTES.match(line)) and above:
        if _LIMIT_FILE.search(above[-1]):
            page.add("cgroup_limit_bytes", int(found.group(1)), number, grade=grade)
        elif _USED_FILE.search(above[-1]):
            page.add("cgroup_used_bytes", int(found.group(1)), number, grade=grade)
    found = _POD_INLINE.search(line) or (_POD_MEMORY.match(line) if _limits(above) else None)
    if found:
        limit = float(found.group(1)) * (1024 if found.group(3) else 1000) ** _POWERS[found.group(2).upper()]
        page.add("cgroup_limit_bytes", int(limit), number, grade=grade)
    if found := _EVENTS_INLINE.search(line):
        page.add("cgroup_limit_hits", int(found.group(1)), number, grade=grade)
    elif (found := _EVENT.match(line)) and found.group(1) == "max" and any(_EVENTS_FILE.search(one) for one in above):
        page.add("cgroup_limit_hits", int(found.group(2)), number, grade=grade)


def _limits(above: Sequence[str]) -> bool:
    """Whether the last of the headings above is that of the limits."""
    heads = [one for one in above if _POD_LIMITS.match(one) or _POD_REQUESTS.match(one)]
    return bool(heads) and _POD_LIMITS.match(heads[-1]) is not None


def _kill(page: Page, line: str, number: int, grade: Grade) -> None:
    if found := _CONSTRAINT.search(line):
        page.add("kernel_oom_constraint", found.group(1).upper(), number, grade=grade)
    if found := _VICTIM.search(line):
        page.add("oom_victim", found.group(1) or found.group(2), number, grade=grade)


def _disk(page: Page, line: str, head: Sequence[str], number: int, grade: Grade) -> None:
    cells = line.split()
    if head and len(cells) == len(head) and re.match(r"(?:nvme|sd|md|vd|dm-)\w*$", cells[0]):
        row = dict(zip(head, cells, strict=True))
        if re.fullmatch(r"[\d.]+", row.get("%util", "")):
            page.add("disk_busy_share", round(float(row["%util"]) / 100, 3), number, scope=cells[0], grade=grade)
        for column, name in (("r/s", "disk_reads_per_s"), ("w/s", "disk_writes_per_s")):
            if re.fullmatch(r"[\d.]+", row.get(column, "")):
                page.add(name, float(row[column]), number, scope=cells[0], grade=grade)
        return
    if found := _UTIL.search(line):
        page.add("disk_busy_share", round(float(found.group(2)) / 100, 3), number, scope=found.group(1), grade=grade)
        for side, rate in _RATE.findall(line):
            name = "disk_reads_per_s" if side == "r" else "disk_writes_per_s"
            page.add(name, float(rate), number, scope=found.group(1), grade=grade)


def _counted(page: Page, line: str, above: Sequence[str], number: int, grade: Grade) -> None:
    if found := _CONNECTIONS.search(line):
        page.add("connections", int(found.group(1).replace(",", "")), number, grade=grade)
    if not above or not re.fullmatch(r"\s*\d+\s*", line):
        return
    if _SOCKETS.search(above[-1]):
        page.add("connections", int(line), number, grade=grade)
    elif _FILES.search(above[-1]):
        page.add("stored_files", int(line), number, grade=grade)
