"""A value given to a flag: whether the parser reads it, and whether it lies where a value of that meaning can lie.

The parser of SGLang takes any number for most flags; a port of 99999 or a fraction of 5 fails after the weights are
loaded, or never says why. What a number means is read from the words of the flag's name; its default and what its own
help text allows (`-1 means disabled`, `in the range [0, 1]`) always count as possible.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from tools.json_text import is_json
from tools.source.catalogue import Flag

FILLED_LATER: Final = re.compile(r"\$|<[^>]+>|\{\{")
_READABLE: Final = re.compile(r"(\d+)(?:(\.\d+)?(k|M|G|T)|(Ki|Mi|Gi|Ti))")
_POWERS: Final = {"k": 1, "M": 2, "G": 3, "T": 4}
_NUMBERS: Final = ("int", "float", "human_readable_int")
_SAID_RANGE: Final = re.compile(
    r"(?:range|between|value)s?\s*(?:is|of|must be)?\s*([\[(])?(-?\d+(?:\.\d+)?)\s*(?:,|and|to)\s*"
    r"(-?\d+(?:\.\d+)?)([\])])?",
    re.I,
)
_OFF: Final = r"(?:disab|unlimited|no limit|off|auto)"
_SAID_NONE: Final = re.compile(
    rf"\bset(?:ting)?\b[^.;]{{0,12}} to 0\b|\b0\b[^.;]{{0,40}}\b(?:{_OFF}|means|selects|default|all)"
    rf"|\b{_OFF}[^.;]{{0,40}}\b0\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Range:
    """Where numbers of one meaning lie; `beyond` are single values outside that are possible too."""

    meaning: str
    least: float
    most: float = math.inf
    least_in: bool = True
    most_in: bool = True
    beyond: frozenset[float] = frozenset()

    def holds(self, value: float) -> bool:
        low = value >= self.least if self.least_in else value > self.least
        high = value <= self.most if self.most_in else value < self.most
        return (low and high and math.isfinite(value)) or value in self.beyond

    def __str__(self) -> str:
        low = f"at least {self.least:g}" if self.least_in else f"above {self.least:g}"
        high = "" if math.isinf(self.most) else f" and {'at most' if self.most_in else 'below'} {self.most:g}"
        return f"{self.meaning} is {low}{high}"


_PORT: Final = Range("a port", 1, 65535)
_SHARE: Final = Range("a fraction", 0, 1, least_in=False)
_STATIC_SHARE: Final = Range("a fraction of the memory", 0, 1, least_in=False, most_in=False)
_USUAL_STATIC_SHARE: Final = (0.3, 0.97)
_RATIO: Final = Range("a ratio", 0, least_in=False)
_WHOLE: Final = Range("it", 1)
_COUNT: Final = Range("it", 0)
# Words of a name that decide, the first group that has one of them first.
_MEANINGS: Final[tuple[tuple[frozenset[str], Range], ...]] = (
    (frozenset({"port"}), _PORT),
    (frozenset({"fraction"}), _SHARE),
    (frozenset({"ratio"}), _RATIO),
    (frozenset({"seed", "delimiter", "priority", "id", "ids", "offset", "threshold"}), Range("", -math.inf)),
    (frozenset({"size", "nnodes", "bs", "interval", "length", "topk", "max", "depth", "breadth", "step"}), _WHOLE),
    (frozenset({"tp", "dp", "pp"}), _WHOLE),
    (frozenset({"num", "count", "steps", "tokens", "requests", "passes", "slots", "attempts", "splits"}), _COUNT),
    (frozenset({"timeout", "seconds", "secs", "ms", "gb", "mb", "rank", "level", "buckets"}), _COUNT),
    (frozenset({"conservativeness"}), _COUNT),
)  # fmt: skip


def range_of(flag: Flag) -> Range | None:
    """Where the numbers of a flag can lie; None for text, and where its name does not tell."""
    if flag.type not in _NUMBERS or isinstance(flag.choices, tuple):
        return None
    words = frozenset(re.split(r"[-_]", flag.name.lstrip("-")))
    found = next((meant for names, meant in _MEANINGS if not names.isdisjoint(words)), None)
    if found is _SHARE and "static" in words:
        found = _STATIC_SHARE
    if found is _WHOLE and flag.type == "float":
        found = _COUNT
    found = _said_range(flag.help) or found
    if found is None or math.isinf(found.least):
        return None
    beyond = {float(one) for one in _listed(flag.default) if isinstance(one, int | float)}
    if not flag.help or re.search(r"(?<![\w.])-1\b", flag.help):
        beyond.add(-1.0)
    unsaid = not flag.help and flag.default not in (None, 1)  # catalogues that ship have no help texts
    if found.meaning != _PORT.meaning and (unsaid or _SAID_NONE.search(flag.help)):
        beyond.add(0.0)
    return Range(found.meaning, found.least, found.most, found.least_in, found.most_in, frozenset(beyond))


def _listed(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _said_range(text: str) -> Range | None:
    """The range that a help text names: `in the range [0.0, 1.0]`, `between 0 and 1`."""
    said = _SAID_RANGE.search(text)
    if said is None or float(said[2]) >= float(said[3]):
        return None
    return Range("it", float(said[2]), float(said[3]), least_in=said[1] != "(", most_in=said[4] != ")")


def _empty(flag: Flag, values: Sequence[str]) -> bool:
    """Whether text is given that holds nothing, as an unset variable in quotes leaves it."""
    return flag.nargs is None and flag.type == "str" and flag.default != "" and values == ("",)


def read_value(flag: Flag, text: str) -> Any:
    """A value as the parser would read it. Raises ValueError."""
    match flag.type:
        case "int":
            return int(text)
        case "float":
            return float(text)
        case "human_readable_int":
            return _readable(text)
        case "json.loads" | "loads" | "json_list_type":
            return json.loads(text)
    return text


def _readable(text: str) -> int:
    """`25.6k` and `1Ki` as SGLang reads them (sglang 0.5.23 srt/utils/common.py:3394)."""
    found = _READABLE.fullmatch(text.strip())
    if found is None:
        return int(text)
    if found[4]:
        return int(found[1]) << 10 * _POWERS[found[4][0].replace("K", "k")]
    return round(float(found[1] + (found[2] or "")) * 10.0 ** (3 * _POWERS[found[3]]))


def value_problem(flag: Flag, values: Sequence[str]) -> str:
    """Why the parser refuses the values of a flag; empty if it takes them."""
    if flag.nargs == 0:
        return f"{flag.name} takes no value, {values[0]!r} is given" if values else ""
    if not values and flag.nargs not in ("?", "*"):
        return f"{flag.name} needs a value"
    if _empty(flag, tuple(values)) and not isinstance(flag.choices, tuple):
        return f"{flag.name} is given no text: the value is empty"
    if isinstance(flag.nargs, int) and len(values) != flag.nargs:
        return f"{flag.name} needs {flag.nargs} values"
    for value in values:
        if FILLED_LATER.search(value):
            continue
        try:
            typed = read_value(flag, value)
        except ValueError:
            return f"{flag.name} takes {flag.type}, {value!r} is none"
        if "json" in flag.dest.split("_") and not is_json(value):
            return f"{flag.name} takes JSON, {value!r} is none"
        if isinstance(flag.choices, tuple) and typed not in flag.choices:
            return f"{flag.name} takes {', '.join(str(choice) for choice in flag.choices)}; {value!r} is none of them"
    return ""


def near_choices(flag: Flag, values: Sequence[str]) -> list[str]:
    """The choices that a value which is none of them may stand for, `fp8` for `fp8_e4m3`; empty where none is near."""
    if not isinstance(flag.choices, tuple) or len(values) != 1:
        return []
    asked = _plainly(values[0])
    known = {_plainly(str(choice)): str(choice) for choice in flag.choices}
    begun = [each for each in known if asked and each.startswith(asked)]
    near = [asked] if asked in known else begun or get_close_matches(asked, known, 2, 0.7)
    return [known[each] for each in near]


def _plainly(value: str) -> str:
    return value.lower().replace("-", "_")


def range_problem(flag: Flag, values: Sequence[str]) -> str:
    """Why a value that the parser takes cannot be meant; empty if it can."""
    lies = range_of(flag)
    for value in values if lies is not None else ():
        if FILLED_LATER.search(value):
            continue
        if lies is not None and not lies.holds(_figure(read_value(flag, value))):
            return f"{flag.name} {value}: {lies}"
    return ""


def _figure(number: int | float) -> float:
    """A whole number beyond every float lies in no range, as infinity does not."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


def unusual(flag: Flag, values: Sequence[str]) -> str:
    """What a value that can be meant rarely is; empty for others. What `mem_fraction_static` leaves out is not given
    to weights and KV pool (sglang 0.5.9 srt/model_executor/model_runner_kv_cache_mixin.py:143).
    """
    if (
        not {"static", "fraction"} <= set(flag.dest.split("_"))
        or value_problem(flag, values)
        or any(map(FILLED_LATER.search, values))
    ):
        return ""
    low, high = _USUAL_STATIC_SHARE
    share = float(values[0])
    if share < low:
        said = f"weights and KV pool together get {share:.0%} of the free memory; with a card of its own a server takes"
        return f"{flag.name} {values[0]}: {said} 0.7 to 0.95"
    if share > high:
        return f"{flag.name} {values[0]}: {1 - share:.1%} of the free memory is left for activations and CUDA graphs"
    return ""
