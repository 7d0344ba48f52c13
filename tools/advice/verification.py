"""Looking again: each expectation against a second look, with the figures before and after.

An expectation is a sentence with a figure (`max_running_requests=72`, `KV pool about 159,209 tokens`,
`decode lines with #running-req above 48`); what holds no figure that a fact carries is not decided here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from transcripts.facts import Fact, Facts

Outcome = Literal["met", "not met", "not yet visible"]
Test = Literal["=", "~", ">", ">=", "<", "<=", "any"]

_NUMBER = r"(-?\d[\d,]*(?:\.\d+)?)"
_TOLERANCE = 0.03
_BOOT_ONLY = frozenset(
    {"running_limit", "kv_pool", "kv_pool_gib", "free_after_boot_gib", "graph_max_bs", "context_len", "pool_end_gib",
     "chunked_prefill_size", "host_pool_gb", "host_pool_total_gb", "weights_after_gib", "max_prefill_tokens"}
)  # fmt: skip
# What a sentence calls a figure, longest first -> fact and scope. `p95` or `max` in the sentence chooses the statistic.
_NAMES: tuple[tuple[str, str, str | None], ...] = (
    (r"max_running_requests|running limit", "running_limit", None),
    (r"max_total_num_tokens|kv pool tokens|#tokens|tokens of the (?:kv )?pool", "kv_pool", ""),
    (r"available_gpu_mem|free after boot", "free_after_boot_gib", None),
    (r"max_prefill_tokens", "max_prefill_tokens", None),
    (r"chunked_prefill_size", "chunked_prefill_size", None),
    (r"context_len", "context_len", None),
    (r"kv size|kv_pool_gib|pool size", "kv_pool_gib", ""),
    (r"host_pool_total|host memory in all|host_total", "host_pool_total_gb", None),
    (r"host (?:memory|pool)|host_pool_gb", "host_pool_gb", None),
    (r"retraction|retracted", "retractions", None),
    (r"abort", "retraction_aborts", None),
    (r"accept[ _]len", "accept_len_p50", None),
    (r"cached[ _]share|hit rate|cache_hit_rate|cached prefix", "cached_share", ""),
    (r"token usage|usage", "usage_p95", ""),
    (r"gen(?:eration)? throughput|gen_throughput", "gen_throughput_p50", None),
    (r"queue", "queue_p95", None),
    (r"#?running", "running_p95", None),
)
_COMPARE = re.compile(
    rf"(>=|<=|>|<|≥|≤|==?|~|\b(?:about|around|at least|at most|above|below|over|under)\b)\s*{_NUMBER}",
    re.I,
)
_TESTS: dict[str, Test] = {
    ">=": ">=", "≥": ">=", "at least": ">=", "<=": "<=", "≤": "<=", "at most": "<=", ">": ">", "above": ">",
    "over": ">", "<": "<", "below": "<", "under": "<", "=": "=", "==": "=", "about": "~", "around": "~", "~": "~",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Verified:
    """One expectation or watch: what came of it, the figures before and after with where they stand, and why."""

    what: str
    outcome: Outcome
    before: str
    after: str
    sources: tuple[str, ...]
    why: str

    def row(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "outcome": self.outcome,
            "before": self.before,
            "after": self.after,
            "evidence": list(self.sources),
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class _Claim:
    fact: str
    scope: str | None
    test: Test
    figure: float


def verify(
    expected: Sequence[Mapping[str, Any]],
    watches: Sequence[Mapping[str, Any]],
    facts_before: Facts,
    facts_after: Facts,
) -> tuple[Verified, ...]:
    """Rows `{what, where}` and `{metric, window_s, better, worse}` against two looks, in their order."""
    rows = [_expected(str(row.get("what", "")), facts_before, facts_after) for row in expected]
    return (*rows, *(_watched(row, facts_before, facts_after) for row in watches))


def restarted(before: Facts, after: Facts) -> bool | None:
    """Whether the server was started anew between the looks; None when neither start nor process is known."""
    for name in ("started_at", "pid"):
        was, now = before.text(name), after.text(name)
        if was and now:
            return was != now
    return None


def _expected(what: str, before: Facts, after: Facts) -> Verified:
    flag = re.search(r"(--[a-z0-9\-]+)(?:[= ]+(\S+))?", what)
    claim = _claim(what)
    if claim is not None:
        return _figure(what, claim, before, after)
    if flag is not None:
        return _typed(what, flag[1], (flag[2] or "").rstrip(".,;"), before, after)
    return Verified(what, "not yet visible", "", "", (), "it holds no figure that a look brings; see for yourself")


def _claim(text: str, named: str = "") -> _Claim | None:
    about = f"{named} {text}".lower()
    found = next(((fact, scope) for pattern, fact, scope in _NAMES if re.search(pattern, about)), None)
    compared = _COMPARE.search(text)
    if found is None:
        return None
    name, scope = _statistic(found[0], about), found[1]
    if compared is not None:
        return _Claim(name, scope, _TESTS[compared[1].lower()], float(compared[2].replace(",", "")))
    if re.match(r"\s*(?:any|no)\b", text, re.I):
        return _Claim(name, scope, "any" if text.strip().lower().startswith("any") else "=", 0)
    return None


def _statistic(name: str, about: str) -> str:
    if name.endswith("_p95"):
        for word in ("p50", "max"):
            if re.search(rf"\b{word}\b", about) or (word == "p50" and "median" in about):
                return name.removesuffix("p95") + word
    return name


def _figure(what: str, claim: _Claim, before: Facts, after: Facts) -> Verified:
    was, now = before.get(claim.fact, claim.scope), after.get(claim.fact, claim.scope)
    sources = _sources(was, now)
    if claim.fact in _BOOT_ONLY and restarted(before, after) is False:
        return Verified(what, "not yet visible", _shown(was), _shown(now), sources, "the server was not restarted")
    value = after.number(claim.fact, claim.scope)
    if value is None:
        return Verified(what, "not yet visible", _shown(was), "", sources, f"the second look holds no {claim.fact}")
    held = _holds(claim, value)
    why = f"{claim.fact} is {value:g}, asked {claim.test} {claim.figure:g}"
    return Verified(what, "met" if held else "not met", _shown(was), _shown(now), sources, why)


def _holds(claim: _Claim, value: float) -> bool:
    figure = claim.figure
    match claim.test:
        case "=":
            return abs(value - figure) <= max(1e-6, abs(figure) * 1e-6)
        case "~":
            return abs(value - figure) <= _TOLERANCE * abs(figure)
        case ">":
            return value > figure
        case ">=":
            return value >= figure
        case "<":
            return value < figure
        case "<=":
            return value <= figure
        case "any":
            return value > 0


def _typed(what: str, flag: str, value: str, before: Facts, after: Facts) -> Verified:
    was, now = before.get("flag", flag), after.get("flag", flag)
    sources = _sources(was, now)
    if restarted(before, after) is False:
        return Verified(what, "not yet visible", _shown(was), _shown(now), sources, "the server was not restarted")
    if "flag" not in after:
        return Verified(what, "not yet visible", _shown(was), "", sources, "the second look holds no command line")
    met = now is not None and (not value or str(now.value) == value)
    return Verified(what, "met" if met else "not met", _shown(was), _shown(now) or "not typed", sources, "as typed now")


def _watched(row: Mapping[str, Any], before: Facts, after: Facts) -> Verified:
    """Worse decides at once; better only after the window, over which load was seen."""
    metric, better, worse = (str(row.get(key, "")) for key in ("metric", "better", "worse"))
    window = float(row.get("window_s", 0) or 0)
    what = f"{metric}: {better}" if better else metric
    good, bad = _claim(better, metric), _claim(worse, "" if _claim(worse) else metric)
    shown = good or bad
    if shown is None:
        return Verified(what, "not yet visible", "", "", (), "it holds no figure that a look brings; see for yourself")
    was, now = before.get(shown.fact, shown.scope), after.get(shown.fact, shown.scope)
    sources = _sources(was, now)
    if restarted(before, after) is False:
        return Verified(what, "not yet visible", _shown(was), _shown(now), sources, "the server was not restarted")
    turned = after.number(bad.fact, bad.scope) if bad is not None else None
    if bad is not None and turned is not None and _holds(bad, turned):
        return Verified(what, "not met", _shown(was), _shown(now), sources, f"{bad.fact} is {turned:g}: {worse}")
    value = after.number(shown.fact, shown.scope)
    seen = after.number("load_window_s") or 0.0
    if value is None or seen < window:
        why = f"{seen:.0f} s of load seen, {window:.0f} s are asked for"
        return Verified(what, "not yet visible", _shown(was), _shown(now), sources, why)
    held = _holds(good, value) if good is not None else True
    return Verified(what, "met" if held else "not met", _shown(was), _shown(now), sources, f"{shown.fact} is {value:g}")


def _shown(fact: Fact | None) -> str:
    if fact is None:
        return ""
    value = f"{fact.value:g}" if isinstance(fact.value, float) else str(fact.value)
    return f"{value} {fact.unit}".strip()


def _sources(*facts: Fact | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(fact.source for fact in facts if fact is not None))
