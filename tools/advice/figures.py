"""What a sentence asks of a figure, and that figure as a look brings it.

A sentence holds a figure (`max_running_requests=72`, `KV pool about 159,209 tokens`, `below 0.92`) or a word that
compares with the look before (`as before`, `rises`); what it is about is told by its words or by the measure's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from transcripts.facts import Fact, Facts

Test = Literal["=", "~", ">", ">=", "<", "<=", "any", "between", "kept", "rise", "fall", "doubled"]

_NUMBER = r"(-?\d[\d,]*(?:\.\d+)?)"
_HOUR_S = 3600.0
_GIB = float(1 << 30)
_MIB_OF_GIB = 1024.0
# Figures of which less is better; of the others more is.
_LESS_IS_BETTER = re.compile(r"retract|usage|queue|abort|seconds")
METRIC, PER_HOUR, GRAPHS = "metric", "retractions_per_hour", "graph_share"
GPU_FREE, HOST_FREE = "gpu_free_gib", "host_available_gib"
_COUNTED = frozenset({"retractions", "retraction_aborts"})
# What a sentence calls a figure, longest first -> fact and scope. `p95` or `max` in the sentence chooses the statistic.
_NAMES: tuple[tuple[str, str, str | None], ...] = (
    (r"max_running_requests|running limit", "running_limit", None),
    (r"max_total_num_tokens|kv pool tokens|#tokens|tokens of the (?:kv )?pool|kv cache is allocated", "kv_pool", ""),
    (r"free gpu memory", GPU_FREE, None),
    (r"available host memory", HOST_FREE, None),
    (r"time to first token", METRIC, "time_to_first_token_seconds:p95"),
    (r"inter-token latency", METRIC, "inter_token_latency_seconds:p95"),
    (r"available_gpu_mem|free after boot", "free_after_boot_gib", None),
    (r"max_prefill_tokens", "max_prefill_tokens", None),
    (r"chunked_prefill_size", "chunked_prefill_size", None),
    (r"context_len", "context_len", None),
    (r"kv size|kv_pool_gib|pool size", "kv_pool_gib", ""),
    (r"host_pool_total|host memory in all|host_total", "host_pool_total_gb", None),
    (r"host (?:memory|pool)|host_pool_gb", "host_pool_gb", None),
    (r"load_back_tokens_total", METRIC, "load_back_tokens_total"),
    (r"cached tokens (?:by|from) (?:source |the )?host", METRIC, "cached_tokens_total{cache_source=host}"),
    (r"(?:retractions? per hour|retractions? every)", PER_HOUR, None),
    (r"retraction|retracted", "retractions", None),
    (r"abort", "retraction_aborts", None),
    (r"accept[ _]len", "accept_len_p50", None),
    (r"cached[ _]share|hit rate|cache_hit_rate|cached prefix", "cached_share", ""),
    (r"cuda graph: true", GRAPHS, None),
    (r"token usage|usage", "usage_p95", ""),
    (r"gen(?:eration)? throughput|gen_throughput", "gen_throughput_p50", None),
    (r"queue", "queue_p95", None),
    (r"#?running", "running_p95", None),
)
_COMPARE = re.compile(
    rf"(>=|<=|>|<|≥|≤|==?|~|\b(?:about|around|at least|at most|above|below|over|under)\b)\s*{_NUMBER}",
    re.I,
)
_BETWEEN = re.compile(rf"\bbetween {_NUMBER} and {_NUMBER}", re.I)
_OR_MORE = re.compile(rf"{_NUMBER} or (more|less)\b", re.I)
_BY_SUMS = re.compile(rf"\bby the sums {_NUMBER}", re.I)
_TESTS: dict[str, Test] = {
    ">=": ">=", "≥": ">=", "at least": ">=", "<=": "<=", "≤": "<=", "at most": "<=", ">": ">", "above": ">",
    "over": ">", "<": "<", "below": "<", "under": "<", "=": "=", "==": "=", "about": "~", "around": "~", "~": "~",
    "more": ">=", "less": "<=",
}  # fmt: skip
# Words without a figure, in their order: what they ask of the figure of now, next to the one of before.
_WORDS: tuple[tuple[str, Test, float], ...] = (
    (r"\bas before\b", "kept", 0),
    (r"\bdoubled\b", "doubled", 0),
    (r"\bnear none\b", "<=", 1),
    (r"\bstays? at zero\b|^none\b", "=", 0),
    (r"^any\b|^KV Cache is allocated", "any", 0),
    (r"\b(?:rises?|higher|larger)\b", "rise", 0),
    (r"\b(?:falls?|lower|smaller)\b", "fall", 0),
)


@dataclass(frozen=True, slots=True)
class Claim:
    """What is asked of a figure. `figure` and `most` are numbers; relative tests take the figure of before."""

    fact: str
    scope: str | None
    test: Test
    figure: float
    most: float = 0.0
    summed: float = 0.0

    @property
    def called(self) -> str:
        return str(self.scope) if self.fact == METRIC else self.fact

    @property
    def counter(self) -> bool:
        """Whether it begins anew with the server, so that its figure of before says nothing."""
        return self.fact == METRIC and not self.called.endswith((":p50", ":p95"))


@dataclass(frozen=True, slots=True)
class Seen:
    """A figure as one look has it; `value` None where it has none."""

    value: float | None = None
    shown: str = ""
    source: str = ""


def claim_of(text: str, named: str = "") -> Claim | None:
    about = f"{named} {text}".lower()
    found = next(((fact, scope) for pattern, fact, scope in _NAMES if re.search(pattern, about)), None)
    asked = _asked(text)
    if found is None or asked is None:
        return None
    test, figure, most = asked
    summed = _BY_SUMS.search(text)
    return Claim(_statistic(found[0], about), found[1], test, figure, most, _read(summed[1]) if summed else 0.0)


def _asked(text: str) -> tuple[Test, float, float] | None:
    """The test and its figures, as a sentence puts them."""
    if between := _BETWEEN.search(text):
        return "between", _read(between[1]), _read(between[2])
    if compared := _COMPARE.search(text):
        return _TESTS[compared[1].lower()], _read(compared[2]), 0.0
    if ending := _OR_MORE.search(text):
        return _TESTS[ending[2].lower()], _read(ending[1]), 0.0
    said = next((one for one in _WORDS if re.search(one[0], text.strip(), re.I)), None)
    return None if said is None else (said[1], said[2], 0.0)


def _read(number: str) -> float:
    return float(number.replace(",", ""))


def _statistic(name: str, about: str) -> str:
    if name.endswith("_p95"):
        for word in ("p50", "max"):
            if re.search(rf"\b{word}\b", about) or (word == "p50" and "median" in about):
                return name.removesuffix("p95") + word
    return name


def figure_in(facts: Facts, asked: Claim) -> Seen:
    """The figure that a claim is about. What a log of load never printed has happened no time."""
    if asked.fact in _WORKED_OUT:
        return _WORKED_OUT[asked.fact](facts)
    fact, window = facts.get(asked.fact, asked.scope), facts.get("load_window_s")
    if fact is None and asked.fact in _COUNTED and window is not None:
        return Seen(0.0, "none", window.source)
    if fact is None or isinstance(fact.value, str):
        return Seen()
    return Seen(float(fact.value), shown(fact), fact.source)


def _with_graphs(facts: Facts) -> Seen:
    without = facts.get("graph_false_share")
    if without is None:
        return Seen()
    share = 1 - float(without.value)
    return Seen(share, f"{share:.3g}", without.source)


def _per_hour(facts: Facts) -> Seen:
    window, fact = facts.get("load_window_s"), facts.get("retractions")
    if fact is None:
        return Seen() if window is None else Seen(0.0, "none", window.source)
    hours = float(window.value) / _HOUR_S if window is not None else 0.0
    each = float(fact.value) / hours if hours > 0 else float(fact.value)
    return Seen(each, f"{each:.0f} an hour" if hours > 0 else shown(fact), fact.source)


def _free_of_gpu(facts: Facts) -> Seen:
    """Of the card that has least."""
    found = []
    for used in facts.all("gpu_used_mib"):
        whole = facts.number("gpu_memory_mib", used.scope)
        if whole is not None:
            found.append(((whole - float(used.value)) / _MIB_OF_GIB, used.source))
    if not found:
        return Seen()
    gib, source = min(found)
    return Seen(gib, f"{gib:.2f} GiB", source)


def _free_of_host(facts: Facts) -> Seen:
    fact = facts.get("mem_available_bytes")
    if fact is None:
        return Seen()
    gib = float(fact.value) / _GIB
    return Seen(gib, f"{gib:.1f} GiB", fact.source)


_WORKED_OUT: dict[str, Callable[[Facts], Seen]] = {
    GRAPHS: _with_graphs,
    PER_HOUR: _per_hour,
    GPU_FREE: _free_of_gpu,
    HOST_FREE: _free_of_host,
}


def less_is_better(asked: Claim) -> bool:
    return _LESS_IS_BETTER.search(asked.called) is not None


def shown(fact: Fact) -> str:
    number = isinstance(fact.value, int | float) and not isinstance(fact.value, bool)
    whole = number and float(fact.value).is_integer()
    value = f"{fact.value:,.0f}" if whole else f"{fact.value:g}" if number else str(fact.value)
    return f"{value} {'' if fact.unit == 'fraction' else fact.unit}".strip()
