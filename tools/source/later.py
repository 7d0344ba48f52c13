"""What the server refuses after its flags were read: values of a command that cannot come out right, whatever the GPU.

Each entry is a line that the version must have, the values that break it, and a line with which they do not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tools.source.source import Source

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A line that refuses. `broken` says why values (by the code's names, defaults included) do not pass it, empty
    where they may; `unless` is a line of versions that raise the value before.
    """

    line: str
    globs: tuple[str, ...]
    flag: str
    broken: Callable[[Values], str]
    unless: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """A refusal that is certain: destination of the flag, why, where."""

    flag: str
    why: str
    at: str
    quote: str


def _number(values: Values, name: str) -> float | None:
    value = values.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _host_ratio(values: Values) -> float | None:
    """The ratio that a pool of host memory is sized by; None without one, or where a size in GB counts instead."""
    wanted = values.get("enable_hierarchical_cache") is True and _number(values, "hicache_size") == 0
    return _number(values, "hicache_ratio") if wanted else None


def _smaller_host_pool(values: Values) -> str:
    """Up to 0.5.14 the pool of host memory must have more tokens than that of the GPU (0.5.9
    srt/mem_cache/memory_pool_host.py:161).
    """
    ratio = _host_ratio(values)
    if ratio is None or ratio >= 1:
        return ""
    return f"a host pool of {ratio:g} of the device pool is smaller than it: the server refuses to start"


def _equal_host_pool(values: Values) -> str:
    """Up to 0.5.5 the host pool is rounded down to whole pages, later up by one page."""
    return (
        "a host pool of the size of the device pool is not larger than it: the server refuses to start"
        if _host_ratio(values) == 1
        else ""
    )


def _requests_of_a_group(values: Values) -> str:
    """With DP attention each group gets its share, rounded down (0.5.9 srt/model_executor/model_runner.py:597)."""
    requests, groups = _number(values, "max_running_requests"), _number(values, "dp_size")
    if values.get("enable_dp_attention") is not True or requests is None or groups is None or groups < 1:
        return ""
    if requests < 1 or requests // groups > 0:
        return ""
    return f"{requests:g} requests over {groups:g} groups of DP attention are 0 for each: the server refuses to start"


HOST_POOLS: Final = ("srt/mem_cache/**/*.py",)
WORKER: Final = ("srt/managers/tp_worker.py",)
SIZING: Final = ("srt/mem_cache/kv_cache_configurator.py", "srt/model_executor/*.py", *WORKER)
REFUSALS: Final = (
    Refusal(r"host memory should be larger than the device memory", HOST_POOLS, "hicache_ratio", _smaller_host_pool),
    Refusal(r"self\.size - \(self\.size % self\.page_size\)", HOST_POOLS, "hicache_ratio", _equal_host_pool),
    Refusal(
        r"max_running_requests > 0, \"max_running_request is zero\"",
        WORKER,
        "max_running_requests",
        _requests_of_a_group,
        unless=r"max\(1, \w*max_\w+ // \S*dp_size\)",
    ),
)


def refused_later(values: Values, source: Source) -> list[Refused]:
    """The refusals that are certain for these values in this tree."""
    found: list[Refused] = []
    for each in REFUSALS:
        why = each.broken(values)
        shown = _first(each.line, each.globs, source) if why else None
        if shown is not None and not (each.unless and _first(each.unless, SIZING, source)):
            found.append(Refused(each.flag, why, *shown))
    return found


def _first(line: str, globs: tuple[str, ...], source: Source) -> tuple[str, str] | None:
    """`path:line` and text of the first line that matches."""
    pattern = re.compile(line)
    for path in source.files(*globs):
        for number, text in enumerate(source.lines(path), 1):
            if pattern.search(text):
                return f"{path}:{number}", text.strip()
    return None
