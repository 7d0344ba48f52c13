"""Looking again: each expectation against a second look, with the figures before and after.

An expectation is a sentence with a figure (`max_running_requests=72`, `KV pool about 159,209 tokens`,
`decode lines with #running-req above 48`); what holds no figure that a fact carries is not decided here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from transcripts.facts import Fact, Facts

Outcome = Literal["met", "not met", "not yet visible"]
Test = Literal["=", "~", ">", ">=", "<", "<=", "any", "between", "kept", "rise", "fall", "doubled"]

_NUMBER = r"(-?\d[\d,]*(?:\.\d+)?)"
_TOLERANCE = 0.03
_SUMMED = 0.9  # a pool below this share of what the sums say is another one: a change of the command is missing
_KEPT = 0.05
_HOUR_S = 3600.0
_RELATIVE = frozenset({"kept", "rise", "fall", "doubled"})
_BOOT_ONLY = frozenset(
    {"running_limit", "kv_pool", "kv_pool_gib", "free_after_boot_gib", "graph_max_bs", "context_len", "pool_end_gib",
     "chunked_prefill_size", "host_pool_gb", "host_pool_total_gb", "weights_after_gib", "max_prefill_tokens"}
)  # fmt: skip
# Figures of which less is better; of the others more is.
_LESS_IS_BETTER = re.compile(r"retract|usage|queue|abort")
_METRIC, _PER_HOUR, _GRAPHS = "metric", "retractions_per_hour", "graph_share"
_COUNTED = frozenset({"retractions", "retraction_aborts", _PER_HOUR})
# What a sentence calls a figure, longest first -> fact and scope. `p95` or `max` in the sentence chooses the statistic.
_NAMES: tuple[tuple[str, str, str | None], ...] = (
    (r"max_running_requests|running limit", "running_limit", None),
    (r"max_total_num_tokens|kv pool tokens|#tokens|tokens of the (?:kv )?pool|kv cache is allocated", "kv_pool", ""),
    (r"available_gpu_mem|free after boot", "free_after_boot_gib", None),
    (r"max_prefill_tokens", "max_prefill_tokens", None),
    (r"chunked_prefill_size", "chunked_prefill_size", None),
    (r"context_len", "context_len", None),
    (r"kv size|kv_pool_gib|pool size", "kv_pool_gib", ""),
    (r"host_pool_total|host memory in all|host_total", "host_pool_total_gb", None),
    (r"host (?:memory|pool)|host_pool_gb", "host_pool_gb", None),
    (r"load_back_tokens_total", _METRIC, "load_back_tokens_total"),
    (r"cached tokens (?:by|from) (?:source |the )?host", _METRIC, "cached_tokens_total{cache_source=host}"),
    (r"(?:retractions? per hour|retractions? every)", _PER_HOUR, None),
    (r"retraction|retracted", "retractions", None),
    (r"abort", "retraction_aborts", None),
    (r"accept[ _]len", "accept_len_p50", None),
    (r"cached[ _]share|hit rate|cache_hit_rate|cached prefix", "cached_share", ""),
    (r"cuda graph: true", _GRAPHS, None),
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
    (r"\bstays? at zero\b|^none\b|^no (?!worse)", "=", 0),
    (r"^any\b|^KV Cache is allocated", "any", 0),
    (r"\bevery minute\b", ">=", 60),
    (r"\b(?:rises?|higher|larger)\b", "rise", 0),
    (r"\b(?:falls?|lower|smaller)\b", "fall", 0),
)


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
    """What is asked of a figure. `figure` and `most` are numbers; relative tests take the figure of before."""

    fact: str
    scope: str | None
    test: Test
    figure: float
    most: float = 0.0
    summed: float = 0.0


@dataclass(frozen=True, slots=True)
class _Seen:
    """A figure as one look has it; `value` None where it has none."""

    value: float | None = None
    shown: str = ""
    source: str = ""


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
    return _undecided(what)


def _undecided(what: str) -> Verified:
    return Verified(what, "not yet visible", "", "", (), "it holds no figure that a look brings; see for yourself")


def _claim(text: str, named: str = "") -> _Claim | None:
    about = f"{named} {text}".lower()
    found = next(((fact, scope) for pattern, fact, scope in _NAMES if re.search(pattern, about)), None)
    asked = _asked(text)
    if found is None or asked is None:
        return None
    test, figure, most = asked
    summed = _BY_SUMS.search(text)
    return _Claim(_statistic(found[0], about), found[1], test, figure, most, _read(summed[1]) if summed else 0.0)


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


def _seen(claim: _Claim, facts: Facts) -> _Seen:
    """The figure that a claim is about. What a log of load never printed has happened no time."""
    window = facts.get("load_window_s")
    if claim.fact == _GRAPHS:
        without = facts.get("graph_false_share")
        share = None if without is None else 1 - float(without.value)
        return _Seen() if share is None or without is None else _Seen(share, f"{share:.3g}", without.source)
    fact = facts.get("retractions" if claim.fact == _PER_HOUR else claim.fact, claim.scope)
    if fact is None and claim.fact in _COUNTED and window is not None:
        return _Seen(0.0, "none", window.source)
    if fact is None or isinstance(fact.value, str):
        return _Seen()
    if claim.fact == _PER_HOUR:
        hours = float(window.value) / _HOUR_S if window is not None else 0.0
        each = float(fact.value) / hours if hours > 0 else float(fact.value)
        return _Seen(each, f"{each:.0f} an hour" if hours > 0 else _shown(fact), fact.source)
    return _Seen(float(fact.value), _shown(fact), fact.source)


def _row(what: str, outcome: Outcome, was: _Seen, now: _Seen, why: str) -> Verified:
    sources = tuple(dict.fromkeys(one.source for one in (was, now) if one.source))
    return Verified(what, outcome, was.shown, now.shown, sources, why)


def _unmoved(before: Facts, after: Facts) -> str:
    """Why nothing of a new start can be seen; empty where there was one, or where that is not known."""
    if restarted(before, after) is False:
        return "the server was not restarted"
    if before.text("pid") and after.text("pid") in ("", "0"):
        return "no SGLang server was found running"
    return ""


def _unloaded(after: Facts) -> str:
    return "no load was seen since the last start" if "load_of_past_start" in after else ""


def _figure(what: str, claim: _Claim, before: Facts, after: Facts) -> Verified:
    was, now = _seen(claim, before), _seen(claim, after)
    unmoved = _unmoved(before, after) if claim.fact in _BOOT_ONLY else _unloaded(after)
    if unmoved:
        return _row(what, "not yet visible", was, now, unmoved)
    lacking = _incomparable(claim, was, now)
    if lacking:
        return _row(what, "not yet visible", was, now, lacking)
    assert now.value is not None
    if claim.summed and not now.value >= _SUMMED * claim.summed:
        why = f"{_called(claim)} is {now.value:g}, the sums say {claim.summed:g}: is every change in the command?"
        return _row(what, "not met", was, now, why)
    held = _holds(claim, now.value, was.value)
    why = f"{_called(claim)} is {now.value:g}, asked {claim.test} {claim.figure:g}"
    return _row(what, "met" if held else "not met", was, now, why)


def _incomparable(claim: _Claim, was: _Seen, now: _Seen) -> str:
    """Which look lacks the figure that is compared; empty where both have what it takes."""
    if now.value is None:
        return f"the second look holds no {_called(claim)}"
    if claim.test in _RELATIVE and claim.fact != _METRIC and was.value is None:
        return f"the first look holds no {_called(claim)} to compare with"
    return ""


def _called(claim: _Claim) -> str:
    return str(claim.scope) if claim.fact == _METRIC else claim.fact


def _holds(claim: _Claim, value: float, was: float | None) -> bool:
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
        case "between":
            return figure <= value <= claim.most
        case _:
            return _moved(claim, value, was or 0.0)


def _moved(claim: _Claim, value: float, was: float) -> bool:
    """Against the figure of before; a counter begins anew with the server."""
    less = _LESS_IS_BETTER.search(claim.fact) is not None
    match claim.test:
        case "kept":
            return value <= was * (1 + _KEPT) if less else value >= was * (1 - _KEPT)
        case "rise":
            return value > (0.0 if claim.fact == _METRIC else was * (1 + _KEPT))
        case "doubled":
            return value >= 2 * was
        case _:
            return value < was * (1 - _KEPT)


def _typed(what: str, flag: str, value: str, before: Facts, after: Facts) -> Verified:
    typed = after.get("flag", flag)
    was, now = _word(before.get("flag", flag)), _word(typed)
    unmoved = _unmoved(before, after) or ("" if "flag" in after else "the second look holds no command line")
    if unmoved:
        return _row(what, "not yet visible", was, now, unmoved)
    met = typed is not None and (not value or str(typed.value) == value)
    return _row(what, "met" if met else "not met", was, replace(now, shown=now.shown or "not typed"), "as typed now")


def _word(fact: Fact | None) -> _Seen:
    return _Seen(None, _shown(fact), fact.source) if fact is not None else _Seen()


def _watched(row: Mapping[str, Any], before: Facts, after: Facts) -> Verified:
    """Worse decides at once where it names a figure; better, and what is held against before, after the window."""
    metric, better, worse = (str(row.get(key, "")) for key in ("metric", "better", "worse"))
    window = float(row.get("window_s", 0) or 0)
    what = f"{metric}: {better}" if better else metric
    parts = metric.split(", and ") if better.startswith("both ") else [metric]
    found = [_watch(what, part, better, worse, window, before, after) for part in parts]
    decided = [one for one in found if one.outcome != "not yet visible"]
    return next((one for one in decided if one.outcome == "not met"), decided[0] if decided else found[-1])


def _watch(what: str, metric: str, better: str, worse: str, window: float, before: Facts, after: Facts) -> Verified:
    good, bad = _claim(better, metric), _claim(worse) or _claim(worse, metric)
    shown = good or bad
    if shown is None:
        return _undecided(what)
    was, now = _seen(shown, before), _seen(shown, after)
    unmoved = _unmoved(before, after) or _unloaded(after)
    if unmoved:
        return _row(what, "not yet visible", was, now, unmoved)
    seen = after.number("load_window_s") or 0.0
    if bad is not None and (bad.test not in _RELATIVE or seen >= window):
        turned = _seen(bad, after)
        if turned.value is not None and _worse(bad, turned.value, _seen(bad, before).value):
            return _row(what, "not met", was, now, f"{_called(bad)} is {turned.value:g}: {worse}")
    short = f"{seen:.0f} s of load seen, {window:.0f} s are asked for" if seen < window else ""
    lacking = short or _incomparable(shown, was, now)
    if lacking or now.value is None:
        return _row(what, "not yet visible", was, now, lacking)
    held = _holds(good, now.value, was.value) if good is not None else True
    return _row(what, "met" if held else "not met", was, now, f"{_called(shown)} is {now.value:g}")


def _worse(claim: _Claim, value: float, was: float | None) -> bool:
    """Whether what would be bad holds; of `as before` it does unless the figure has moved the good way."""
    if claim.test != "kept":
        return _holds(claim, value, was)
    old = was or 0.0
    better = value < old * (1 - _KEPT) if _LESS_IS_BETTER.search(claim.fact) else value > old * (1 + _KEPT)
    return not better


def _shown(fact: Fact) -> str:
    number = isinstance(fact.value, int | float) and not isinstance(fact.value, bool)
    whole = number and float(fact.value).is_integer()
    value = f"{fact.value:,.0f}" if whole else f"{fact.value:g}" if number else str(fact.value)
    return f"{value} {'' if fact.unit == 'fraction' else fact.unit}".strip()
