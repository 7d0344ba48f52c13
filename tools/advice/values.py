"""Values of changes: what parses, what lies in a range that makes sense, what is written without quotes anywhere."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tools.advice.catalogue import FlagInfo
from tools.advice.change import Change, Scalar
from tools.advice.edits import SAFE

_PLACEHOLDER = re.compile(
    r"\.\.\.|(?:^|[-_.])(?:todo|tbd|fixme|placeholder|example|your|changeme|x{2,}|value|none|null|nan|inf)(?:[-_.]|$)",
    re.I,
)
# Memory of a server, never less than a gigabyte: as container engines write it, and as systemd does.
_SIZE = re.compile(r"[1-9]\d{0,4}[gt]i?b?", re.I)
_UNIT_SIZE = re.compile(r"infinity|[1-9]\d{0,4}[GT]")
_WHOLE = re.compile(r"-?\d{1,12}")
_NUMBER = re.compile(r"-?\d{1,12}(?:\.\d{1,12})?")
# name -> (least, most): narrower than what can be meant, where the ends are never advice.
_RANGES: dict[str, tuple[float, float]] = {
    "--mem-fraction-static": (0.1, 0.97),
    "--hicache-ratio": (0.1, 64.0),
    "--schedule-conservativeness": (0.0, 4.0),
    "--mamba-full-memory-ratio": (0.001, 64.0),
}
_MOST = 10**8
# Variables whose name says what they take.
_VARIABLES = (
    (re.compile(r"(?:.*_)?(?:ENABLE|DISABLE)(?:_.*)?"), re.compile(r"[01]|true|false", re.I), "0 or 1"),
    (re.compile(r"(?:CUDA|HIP|ROCR)_VISIBLE_DEVICES"), re.compile(r"\d{1,2}(?:,\d{1,2})*"), "numbers of GPUs"),
)
_FIGURE = re.compile(r"-?\d+(?:\.\d+)?(?:[kmgt]i?b?|s|ms)?", re.I)

SHMEM_HUGE = "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
_CONTAINER = {
    "shm-size": _SIZE,
    "ipc": re.compile(r"host|shareable"),
    "ulimit": re.compile(
        r"(?:memlock=(?:-1|[1-9]\d{6,14})|(?:nofile|stack)=(?:-1|[1-9]\d{3,11}))(?::(?:-1|[1-9]\d{3,14}))?"
    ),
    "memory": _SIZE,
    "memory-swap": _SIZE,
    "init": re.compile(r""),
    "restart": re.compile(r"on-failure|unless-stopped|always"),
}
_HOST = {
    "memlock": re.compile(r"unlimited|infinity|[1-9]\d{6,15}"),
    "nofile": re.compile(r"[1-9]\d{3,7}"),
    "LimitMEMLOCK": re.compile(r"infinity"),
    "LimitNOFILE": re.compile(r"[1-9]\d{3,7}"),
    "MemoryMax": _UNIT_SIZE,
    "MemoryHigh": _UNIT_SIZE,
    "TimeoutStartSec": re.compile(r"[1-9]\d{2,5}"),
    "TimeoutStopSec": re.compile(r"[1-9]\d{1,5}"),
    "vm.swappiness": re.compile(r"[0-5]?\d|60"),  # the kernel's own is 60: less swaps later
    "vm.overcommit_memory": re.compile(r"[012]"),
    "vm.max_map_count": re.compile(r"[1-9]\d{4,8}"),
    "vm.nr_hugepages": re.compile(r"\d{1,6}"),
    "kernel.numa_balancing": re.compile(r"[01]"),
    "transparent_hugepage": re.compile(r"always|madvise|never"),
    SHMEM_HUGE: re.compile(r"always|within_size|advise|never"),
    "shm": re.compile(r"[1-9]\d{0,4}[gG]"),
}
UNIT_LIMITS = {"memlock": "LimitMEMLOCK", "nofile": "LimitNOFILE"}  # what a unit calls a limit of the shell
UNIT_KEYS = frozenset({"LimitMEMLOCK", "LimitNOFILE", "MemoryMax", "MemoryHigh", "TimeoutStartSec", "TimeoutStopSec"})


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why a value is not taken."""

    reason: str


def scalar(text: str) -> Scalar:
    """Typed text as a number where it is one."""
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def words(value: Scalar | None) -> list[str]:
    """A value as words of a command: none for a switch, numbers without rounding."""
    if value is None or value is True:
        return []
    if isinstance(value, float):
        return [f"{value:.12g}"]
    return str(value).split(" ")


_ON, _OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def same(was: Scalar, to: Scalar) -> bool:
    """Whether two values of a variable mean the same: `True` and 1 do."""
    one, other = str(was).lower(), str(to).lower()
    return one == other or any(one in words and other in words for words in (_ON, _OFF))


def plain_value(value: Scalar | None) -> Scalar | Unfit:
    """A value that is written the same in every form, and stands for itself."""
    if value is None:
        return Unfit("no value is given")
    if isinstance(value, float) and not math.isfinite(value):
        return Unfit(f"{value} is no number")
    text = {True: "1", False: "0"}[value] if isinstance(value, bool) else " ".join(words(value))
    if len(text) > 64 or not SAFE.fullmatch(text) or text.startswith(("--", "/", "~")) or "/" in text or ".." in text:
        return Unfit(f"{text[:80]!r} is no plain value")
    if text.startswith("-") and not _NUMBER.fullmatch(text):
        return Unfit(f"{text!r} is written as an option is")
    if _PLACEHOLDER.search(text):
        return Unfit(f"{text!r} stands for a value that is not there")
    return scalar(text)


def parsed(change: Change, info: FlagInfo, was: Scalar | None, effective: float | None) -> Scalar | Unfit | None:
    """The value that the change gives the option, None for a switch or a removal."""
    if change.do == "remove":
        return _removed(change, was)
    if change.do == "upgrade":
        return Unfit("an option is not upgraded")
    if info.kind == "switch":
        return _switched(change, was)
    parts = str(change.to).split(" ") if info.many and isinstance(change.to, str) else None
    found = [_one(change.flag, info, part) for part in parts] if parts else [_one(change.flag, info, change.to)]
    for one in found:
        if isinstance(one, Unfit):
            return one
    to = found[0] if len(found) == 1 else " ".join(str(one) for one in found)
    assert not isinstance(to, Unfit)
    return _moved(change, to, was, effective)


def _removed(change: Change, was: Scalar | None) -> Unfit | None:
    if change.to is not None:
        return Unfit(f"{change.flag} is removed and given a value at once")
    return Unfit(f"{change.flag} is not typed, so it cannot be removed") if was is None else None


def _switched(change: Change, was: Scalar | None) -> Unfit | None:
    if change.do != "set" or change.to not in (None, True, "true", "True"):
        return Unfit(f"{change.flag} is a switch: it is set without a value, or removed")
    return Unfit(f"{change.flag} is typed already") if was is not None else None


def _one(flag: str, info: FlagInfo, value: Scalar | None) -> Scalar | Unfit:
    to = plain_value(value)
    if isinstance(to, Unfit):
        return Unfit(f"{flag}: {to.reason}")
    if isinstance(value, bool) and info.kind != "bool":
        return Unfit(f"{flag} takes a value, not {value}")
    if info.choices is not None and str(to) not in {str(one) for one in info.choices}:
        return Unfit(f"{flag} takes {', '.join(map(str, info.choices))}; not {to}")
    if info.kind == "int" and not isinstance(to, int):
        return Unfit(f"{flag} takes a whole number, not {to}")
    if info.kind == "float" and not isinstance(to, int | float):
        return Unfit(f"{flag} takes a number, not {to}")
    if isinstance(to, int | float):
        return _in_range(info, flag, to)
    return to


def _in_range(info: FlagInfo, flag: str, to: float) -> Scalar | Unfit:
    for name in info.spellings:
        if name in _RANGES:
            least, most = _RANGES[name]
            return to if least <= to <= most else Unfit(f"{flag} {to:g} is not between {least:g} and {most:g}")
    if info.lies is not None and not info.lies.holds(to):
        return Unfit(f"{flag} {to:g}: {info.lies}")
    unknown = info.lies is None and to <= 0 and not (to == 0 and info.kind == "float")
    return Unfit(f"{flag} {to:g} is not between 1 and {_MOST:g}") if unknown or to > _MOST else to


def _moved(change: Change, to: Scalar, was: Scalar | None, effective: float | None) -> Scalar | Unfit:
    """`raise` and `lower` go the way they say, from what is typed, else in effect, else proposed."""
    if was is not None and str(was) == str(to):
        return Unfit(f"{change.flag} is {was} already")
    if change.do == "set":
        in_force = was is None and not isinstance(to, str) and effective is not None and float(to) == effective
        return Unfit(f"{change.flag} is {to:g} already, which nothing typed") if in_force else to
    base = was if was is not None else effective if effective is not None else change.from_
    if isinstance(to, str) or isinstance(base, str | bool):
        return Unfit(f"{change.flag}: only numbers are raised or lowered")
    if base is not None and (to <= base if change.do == "raise" else to >= base) and base != -1:
        return Unfit(f"{change.flag} is {base:g}; {to:g} does not {change.do} it")
    return to


def variable(change: Change, was: str | None) -> Scalar | Unfit:
    """The value that an environment variable is given; `was` is what the launch sets now."""
    if change.do == "upgrade":
        return Unfit("a variable is not upgraded")
    to = plain_value(change.to)
    if isinstance(to, Unfit):
        return to
    for named, takes, words_for_it in _VARIABLES:
        if named.fullmatch(change.flag) and not takes.fullmatch(str(to)):
            return Unfit(f"{change.flag} takes {words_for_it}; not {to}")
    if change.do != "set" and not _FIGURE.fullmatch(str(to)):
        return Unfit(f"{change.flag}: only numbers are raised or lowered")
    return _wrong_way(change, to, was if was is not None else change.from_) or to


def _wrong_way(change: Change, to: Scalar | None, base: Scalar | None) -> Unfit | None:
    """`raise` and `lower` of two plain numbers, which can be compared, go the way they say."""
    ends = [scalar(str(end)) for end in (base, to)]
    if change.do not in ("raise", "lower") or any(isinstance(end, str | bool) for end in ends):
        return None
    low, high = ends if change.do == "raise" else ends[::-1]
    if float(low) < float(high):
        return None
    return Unfit(f"{change.flag} is {base}; {to} does not {change.do} it")


def container(change: Change) -> Scalar | Unfit | None:
    """An option of the container's engine, by its name with or without dashes."""
    return _listed(change, change.flag.removeprefix("--").replace("_", "-"), _CONTAINER, "of a container")


def host(change: Change) -> Scalar | Unfit | None:
    """A setting of the machine or of the unit."""
    return _listed(change, change.flag, _HOST, "of a host")


def _listed(change: Change, name: str, known: dict[str, re.Pattern[str]], what: str) -> Scalar | Unfit | None:
    if name not in known:
        return Unfit(f"{change.flag} is no setting {what} that is proposed; there are {', '.join(known)}")
    if change.do not in ("set", "raise", "lower"):
        return Unfit(f"{change.flag} is set, raised or lowered, not {change.do}d")
    text = "" if change.to is None else str(change.to)
    if not known[name].fullmatch(text):
        return Unfit(f"{change.flag}: {text[:80]!r} does not parse")
    return _wrong_way(change, change.to, change.from_) or change.to


def upgrade(change: Change, now: str) -> str:
    """Why an upgrade does not stand, empty when it does."""
    if change.do != "upgrade" or change.flag != "sglang":
        return "an upgrade names sglang and is done as `upgrade`"
    if change.to is None:
        return ""
    to = _version(str(change.to))
    if to is None:
        return f"{str(change.to)[:40]!r} is no version"
    was = _version(now)
    return f"{change.to} is not newer than {now}" if was is not None and to <= was else ""


def _version(text: str) -> tuple[int, ...] | None:
    found = re.fullmatch(
        r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:\.?(?:post|rc)\d{1,3})?(?:\+[A-Za-z0-9.]{1,20})?", text
    )
    return tuple(int(part or 0) for part in found.groups()) if found else None
