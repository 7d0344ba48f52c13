"""Questions whose answer a tool works out: the numbers in them, and the call that each asks for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from agent.case import Case
from agent.models.playbook import chosen, recorded

Json = dict[str, Any]
NUMBER: Final = r"(\d+(?:[.,]\d+)?)"
LENGTH: Final = r"(\d{1,3},\d{3}|\d+(?:\.\d+)?k|\d{3,})"  # tokens: 8000, 8,000, 8k
FEWEST_SLOTS: Final = 8
GIB_IN_GB: Final = (1 << 30) / 1e9


@dataclass(frozen=True, slots=True)
class Ask:
    """A tool call whose result is the answer."""

    tool: str
    arguments: Json


Answer = str | Ask
Handler = Callable[[Case, re.Match[str]], Answer]


def _number(text: str) -> float:
    """`8000`, `8,000`, `8k` and `0,9` as numbers."""
    thousand = 1000 if text.endswith("k") else 1
    text = text.removesuffix("k")
    return float(re.sub(r",(?=\d{3}\b)", "", text).replace(",", ".")) * thousand


def sum_of(what: str) -> Handler:
    """The sum that the number in the question is for."""

    def handler(_case: Case, found: re.Match[str]) -> Answer:
        return Ask("calculate", {"what": what, "value": _number(next(group for group in found.groups() if group))})

    return handler


def ram(what: str) -> Handler:
    """The sum that so many GB, or GiB, of host memory are for."""

    def handler(_case: Case, found: re.Match[str]) -> Answer:
        binary = found.string[found.end(1) :].lstrip().startswith("gib")
        return Ask("calculate", {"what": what, "value": round(_number(found[1]) * (GIB_IN_GB if binary else 1), 2)})

    return handler


def mix(_case: Case, found: re.Match[str]) -> Answer:
    """Prompts and answers of given lengths."""
    prompt, answers = (_number(text) for text in found.group("prompt", "answers"))
    return Ask("calculate", {"what": "prompt_tokens", "value": prompt, "answers": answers})


def lever(name: str) -> Handler:
    def handler(_case: Case, _found: re.Match[str]) -> Answer:
        return Ask("calculate", {"what": name})

    return handler


def flag(_case: Case, found: re.Match[str]) -> Answer:
    return Ask("flag", {"name": found[1]})


LEVER_WORDS: Final = {
    "kv_dtype": r"fp8|fp4|\be[45]m[23]\b|kv.?cache.?dtype|quanti[sz]\w* kv|kv quanti",
    "dp_attention": r"\bdp\b|data.parallel|dp.attention",
    "dcp": r"\bdcp\b|context.parallel",
}


_TIMES: Final = {
    "twice": 2.0, "double": 2.0, "doubled": 2.0, "doubles": 2.0, "triple": 3.0, "tripled": 3.0, "triples": 3.0,
    "half": 0.5, "halved": 0.5,
}  # fmt: skip


def longer(case: Case, found: re.Match[str]) -> Answer:
    """Requests that are a multiple of those seen."""
    held = case.facts.number("tokens_per_request")
    times = _TIMES.get(found[1]) or _number(found[2])
    return Ask("calculate", {"what": "prompt_tokens", "value": round(held * times)}) if held else ""


def more_traffic(case: Case, found: re.Match[str]) -> Answer:
    """A multiple of the requests that ran and waited at the last look."""
    seen = [case.facts.number(name) for name in ("running_p50", "queue_p50")]
    times = _TIMES.get(found[1]) or _number(found[2])
    wanted = sum(each for each in seen if each is not None) * times
    return Ask("calculate", {"what": "running_requests", "value": round(wanted)}) if wanted >= FEWEST_SLOTS else ""


def what_a_flag_does(case: Case, found: re.Match[str]) -> Answer:
    """The help of a flag that is written without its dashes, if the server has such a one."""
    name = found[1].replace("_", "-")
    known = {fact.scope.replace("_", "-") for fact in case.facts.all("server_arg")}
    known |= {flag.lstrip("-") for _, flag, _ in chosen.ALIASES}
    return Ask("flag", {"name": f"--{name}"}) if name in known else ""


def flag_of_an_option(_case: Case, found: re.Match[str]) -> Answer:
    """The help of the flag that switches an option on."""
    named = chosen.named(found.string)
    return Ask("flag", {"name": named[0][1]}) if len(named) == 1 else ""


def bare_number(case: Case, found: re.Match[str]) -> Answer:
    """A number with nothing beside it: the value of the change, the limit in force, or another value for the change."""
    value = _number(found[1])
    if set(re.findall(r"[a-z]+", found.string)) - _BESIDE_A_NUMBER:
        return ""
    if reason := chosen.why_this_value(case, found):
        return reason
    if value == case.facts.number("running_limit"):
        return recorded.why_limit(case, found)
    flags = {each["flag"] for each in (case.advised.changes if case.advised else ())}
    if "--hicache-ratio" in flags and value < FEWEST_SLOTS:
        return Ask("calculate", {"what": "hicache_ratio", "value": value})
    if value >= FEWEST_SLOTS and value.is_integer():
        return Ask("calculate", {"what": "running_requests", "value": value})
    return ""


# Words that leave a number what it is; any other word may be what the number counts.
_BESIDE_A_NUMBER: Final = frozenset({
    "what", "about", "if", "i", "we", "set", "use", "used", "why", "and", "instead", "of", "go", "to", "can", "could",
    "is", "it", "enough", "only", "just", "try", "not", "or", "take", "put", "make", "a", "the", "this", "that", "at",
    "do", "does", "would", "should", "be", "too", "much", "many", "high", "low", "safe", "okay", "better", "value",
    "down", "up", "limit", "max", "have", "need", "raise", "lower", "no", "then", "there", "was", "from", "where",
    "how", "first", "before", "after", "later", "step", "steps", "aggressive", "optimistic", "bold",
    "come", "comes", "exactly", "you", "running", "requests", "slots", "so", "but", "by", "default", "stay", "with",
    "going", "works", "work", "still", "more", "less", "than", "rather", "even", "now", "chosen", "choose", "did",
})  # fmt: skip
