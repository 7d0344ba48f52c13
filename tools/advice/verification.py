"""Looking again: each expectation against a second look, with the figures before and after.

An expectation is a changed setting as it should run (`--kv-cache-dtype fp8_e4m3`) or a sentence with a figure
(`max_running_requests=72`, `KV pool about 159,209 tokens`); what holds neither is not decided here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tools.advice.expected import READY
from tools.advice.figures import Claim, Seen, claim_of, figure_in, less_is_better, shown
from transcripts.facts import Fact, Facts

Outcome = Literal["met", "not met", "not yet visible"]

_TOLERANCE = 0.03
_SUMMED = 0.9  # a pool below this share of what the sums say is another one: a change of the command is missing
_KEPT = 0.05
# Rows that `expected.py` makes of the changes themselves.
_OPTION = re.compile(r"(?P<without>without )?(?P<flag>--[a-z0-9\-]+)(?: (?P<value>.+))?")
_VARIABLE = re.compile(r"(?P<without>without )?(?P<name>[A-Z][A-Z0-9_]*)(?:=(?P<value>.+))?")
_VERSION = re.compile(r"sglang (?P<to>\d\S*)|another version of sglang")
_RELATIVE = frozenset({"kept", "rise", "fall", "doubled"})
_BOOT_ONLY = frozenset(
    {"running_limit", "kv_pool", "kv_pool_gib", "free_after_boot_gib", "graph_max_bs", "context_len", "pool_end_gib",
     "chunked_prefill_size", "host_pool_gb", "host_pool_total_gb", "weights_after_gib", "max_prefill_tokens"}
)  # fmt: skip


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
    for form, held in ((_OPTION, _option), (_VARIABLE, _variable), (_VERSION, _version)):
        if found := form.fullmatch(what):
            return held(what, found, before, after)
    if what == READY:
        return _ready(what, before, after)
    claim = claim_of(what)
    return _undecided(what) if claim is None else _figure(what, claim, before, after)


def _undecided(what: str) -> Verified:
    return Verified(what, "not yet visible", "", "", (), "it holds no figure that a look brings; see for yourself")


def _row(what: str, outcome: Outcome, was: Seen, now: Seen, why: str) -> Verified:
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


def _figure(what: str, claim: Claim, before: Facts, after: Facts) -> Verified:
    was, now = figure_in(before, claim), figure_in(after, claim)
    unmoved = _unmoved(before, after) if claim.fact in _BOOT_ONLY else _unloaded(after)
    if unmoved:
        return _row(what, "not yet visible", was, now, unmoved)
    lacking = _incomparable(claim, was, now)
    if lacking:
        return _row(what, "not yet visible", was, now, lacking)
    assert now.value is not None
    if claim.summed and not now.value >= _SUMMED * claim.summed:
        why = f"{claim.called} is {now.value:g}, the sums say {claim.summed:g}: is every change in the command?"
        return _row(what, "not met", was, now, why)
    held = _holds(claim, now.value, was.value)
    why = f"{claim.called} is {now.value:g}, asked {claim.test} {claim.figure:g}"
    return _row(what, "met" if held else "not met", was, now, why)


def _incomparable(claim: Claim, was: Seen, now: Seen) -> str:
    """Which look lacks the figure that is compared; empty where both have what it takes."""
    if now.value is None:
        return f"the second look holds no {claim.called}"
    if claim.test in _RELATIVE and not claim.counter and was.value is None:
        return f"the first look holds no {claim.called} to compare with"
    return ""


def _holds(claim: Claim, value: float, was: float | None) -> bool:
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


def _moved(claim: Claim, value: float, was: float) -> bool:
    """Against the figure of before; a counter begins anew with the server."""
    less = less_is_better(claim)
    match claim.test:
        case "kept":
            return value <= was * (1 + _KEPT) if less else value >= was * (1 - _KEPT)
        case "rise":
            return value > (0.0 if claim.counter else was * (1 + _KEPT))
        case "doubled":
            return value >= 2 * was
        case _:
            return value < was * (1 - _KEPT)


def _option(what: str, asked: re.Match[str], before: Facts, after: Facts) -> Verified:
    """An option as the command line or the server's own arguments have it; `without` one, that neither has."""
    was, now = _setting(before, asked["flag"]), _setting(after, asked["flag"])
    known = "flag" in after or "server_arg" in after
    unmoved = _unmoved(before, after) or ("" if known else "the second look holds no command line")
    if unmoved:
        return _row(what, "not yet visible", _word(was), _word(now), unmoved)
    met = now is None if asked["without"] else now is not None and _same(now, asked["value"] or "true")
    return _row(what, "met" if met else "not met", _word(was), _word(now, "not typed"), "as it runs now")


def _setting(facts: Facts, flag: str) -> Fact | None:
    """As typed; as the server took it where no command line was seen, nothing where that is off."""
    typed = facts.get("flag", flag)
    if typed is not None:
        return typed
    taken = facts.get("server_arg", flag.removeprefix("--").replace("-", "_"))
    off = taken is None or str(taken.value) in ("None", "False", "")
    return None if off else taken


def _same(fact: Fact, value: str) -> bool:
    found = str(fact.value)
    try:
        return float(found) == float(value)
    except ValueError:
        return found.lower() == value.lower()


def _variable(what: str, asked: re.Match[str], before: Facts, after: Facts) -> Verified:
    was, now = before.get("env", asked["name"]), after.get("env", asked["name"])
    unmoved = _unmoved(before, after) or ("" if "env" in after else "the second look holds no environment")
    if unmoved:
        return _row(what, "not yet visible", _word(was), _word(now), unmoved)
    met = now is None if asked["without"] else now is not None and _same(now, asked["value"])
    return _row(what, "met" if met else "not met", _word(was), _word(now, "not set"), "as it runs now")


def _version(what: str, asked: re.Match[str], before: Facts, after: Facts) -> Verified:
    was, now = before.get("version"), after.get("version")
    if now is None:
        return _row(what, "not yet visible", _word(was), _word(now), "the second look holds no version")
    changed = was is None or str(was.value) != str(now.value)
    met = str(now.value) == asked["to"] if asked["to"] else changed
    return _row(what, "met" if met else "not met", _word(was), _word(now), "as it runs now")


def _ready(what: str, before: Facts, after: Facts) -> Verified:
    was, now = before.get("ready"), after.get("ready")
    unmoved = _unmoved(before, after) or ("" if now is not None else "the second look holds no start")
    if unmoved or now is None:
        return _row(what, "not yet visible", _is_ready(was), _is_ready(now), unmoved)
    return _row(what, "met" if now.value is True else "not met", _is_ready(was), _is_ready(now), "by its last start")


def _is_ready(fact: Fact | None) -> Seen:
    return Seen() if fact is None else Seen(None, "ready" if fact.value is True else "not ready", fact.source)


def _word(fact: Fact | None, otherwise: str = "") -> Seen:
    return Seen(None, shown(fact), fact.source) if fact is not None else Seen(None, otherwise)


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
    good, bad = claim_of(better, metric), claim_of(worse, metric)
    claim = good or bad
    if claim is None:
        return _undecided(what)
    was, now = figure_in(before, claim), figure_in(after, claim)
    unmoved = _unmoved(before, after) or _unloaded(after)
    if unmoved:
        return _row(what, "not yet visible", was, now, unmoved)
    seen = after.number("load_window_s") or 0.0
    if "while others wait" in worse and not after.number("queue_p95"):
        met = good is not None and now.value is not None and _holds(good, now.value, was.value)
        return _row(what, "met" if met else "not yet visible", was, now, "nothing waited")
    if bad is not None and (bad.test not in _RELATIVE or seen >= window):
        turned = figure_in(after, bad)
        if turned.value is not None and _worse(bad, turned.value, figure_in(before, bad).value):
            return _row(what, "not met", was, now, f"{bad.called} is {turned.value:g}: {worse}")
    short = f"{seen:.0f} s of load seen, {window:.0f} s are asked for" if seen < window else ""
    lacking = short or _incomparable(claim, was, now)
    if lacking or now.value is None:
        return _row(what, "not yet visible", was, now, lacking)
    held = _holds(good, now.value, was.value) if good is not None else True
    return _row(what, "met" if held else "not met", was, now, f"{claim.called} is {now.value:g}")


def _worse(claim: Claim, value: float, was: float | None) -> bool:
    """Whether what would be bad holds; of `as before` it does unless the figure has moved the good way."""
    if claim.test != "kept":
        return _holds(claim, value, was)
    old = was or 0.0
    better = value < old * (1 - _KEPT) if less_is_better(claim) else value > old * (1 + _KEPT)
    return not better
