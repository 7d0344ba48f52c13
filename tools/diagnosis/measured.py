"""Tests over what was measured: series, one thing with and without another, stacks, sizes of traffic."""

from __future__ import annotations

from tools.diagnosis.clues import Seen, Test
from tools.diagnosis.view import View
from transcripts.facts import Fact

_SLOWER = 0.85  # of the speed without, from which on a difference is more than noise
_WORSE = 0.93  # of the score without, from which on a difference is more than the spread of an evaluation
_SAME = (0.93, 1.07)


def _seen(text: str, *facts: Fact | None) -> Seen:
    known = [fact for fact in facts if fact is not None]
    claimed = all(fact.grade == "claimed" for fact in known)
    return Seen(text, tuple(dict.fromkeys(fact.source for fact in known)), "claimed" if claimed else "observed")


def _ends(view: View, quantity: str) -> tuple[float, float] | None:
    first, last = _end(view, "series_first", quantity), _end(view, "series_last", quantity)
    return None if first is None or last is None else (first, last)


def _end(view: View, name: str, quantity: str) -> float | None:
    """The value as measured; as told only where nothing was measured."""
    found = [one for one in view.facts.all(name) if one.scope == quantity]
    measured = [one for one in found if one.grade != "claimed"] or found
    return float(measured[-1].value) if measured else None


def fell(quantity: str, share: float = 0.7) -> Test:
    """A measured series ends at or below a share of where it began."""

    def test(view: View) -> Seen | None:
        ends = _ends(view, quantity)
        if ends is None or ends[0] <= 0 or ends[1] > ends[0] * share:
            return None
        text = f"{quantity.replace('_', ' ')} {ends[0]:g}, later {ends[1]:g}"
        return _seen(text, view.facts.get("series_last", quantity))

    return test


def rose(quantity: str, factor: float = 1.2) -> Test:
    """A measured series ends at or above a multiple of where it began."""

    def test(view: View) -> Seen | None:
        ends = _ends(view, quantity)
        if ends is None or ends[1] <= 0 or ends[1] < ends[0] * factor:
            return None
        text = f"{quantity.replace('_', ' ')} {ends[0]:g}, later {ends[1]:g}"
        return _seen(text, view.facts.get("series_last", quantity))

    return test


def steady(quantity: str) -> Test:
    """A measured series moved in one direction only."""

    def test(view: View) -> Seen | None:
        found = view.facts.get("series_steady", quantity)
        return _seen("", found) if found is not None and str(found.value) == "True" else None

    return test


def slower_with(*subjects: str) -> Test:
    """Measured slower with one of these than without; an empty name is a comparison that names nothing."""

    def test(view: View) -> Seen | None:
        found = [fact for fact in view.facts.all("speed_ratio") if fact.scope in subjects]
        slow = [fact for fact in found if float(fact.value) <= _SLOWER]
        return _seen(f"{float(slow[0].value):.2f} x the speed without", slow[0]) if slow else None

    return test


def worse_with(*subjects: str) -> Test:
    """An evaluation scored clearly lower with one of these than without."""

    def test(view: View) -> Seen | None:
        found = [fact for fact in view.facts.all("quality_ratio") if fact.scope in subjects]
        low = [fact for fact in found if float(fact.value) <= _WORSE]
        return _seen(f"{float(low[0].value):.2f} x the score without", low[0]) if low else None

    return test


def same_with(*subjects: str) -> Test:
    """Measured as fast with it as without."""

    def test(view: View) -> Seen | None:
        low, high = _SAME
        found = [fact for fact in view.facts.all("speed_ratio") if fact.scope in subjects]
        same = [fact for fact in found if low <= float(fact.value) <= high]
        return _seen(f"{float(same[0].value):.2f} x the speed without", same[0]) if same else None

    return test


def stands_in(*functions: str, file: str = "") -> Test:
    """A stack shows one of these functions (in a file whose name holds `file`)."""

    def test(view: View) -> Seen | None:
        found = [fact for fact in view.facts.all("stack_frame") if str(fact.value) in functions and file in fact.scope]
        return _seen(f"in {found[0].value} ({found[0].scope})", found[0]) if found else None

    return test


def metric_at_least(name: str, least: float) -> Test:
    def test(view: View) -> Seen | None:
        found, value = view.facts.get("metric", name), view.number("metric", name)
        return None if value is None or value < least else _seen(f"{name} {value:,.0f}", found)

    return test


def metric_is_zero(name: str) -> Test:
    def test(view: View) -> Seen | None:
        found, value = view.facts.get("metric", name), view.number("metric", name)
        return None if value is None or value > 0 else _seen(f"{name} 0", found)

    return test


def traffic_exceeds_pool(view: View) -> Seen | None:
    """The conversations that were named hold more tokens than the GPU pool."""
    pool, wanted = view.number("kv_pool", ""), view.number("working_set_tokens")
    if not pool or not wanted or wanted < 1.2 * pool:
        return None
    text = f"{wanted:,.0f} tokens of conversations, {pool:,.0f} in the pool"
    return _seen(text, view.facts.get("working_set_tokens"), view.facts.get("kv_pool", ""))


def mostly_generates(view: View) -> Seen | None:
    """Ten times as many tokens are generated as are read in."""
    read, written = view.number("bench_input_tokens"), view.number("bench_output_tokens")
    if not read or not written or written < 10 * read:
        return None
    text = f"{read:,.0f} tokens in, {written:,.0f} out"
    return _seen(text, view.facts.get("bench_output_tokens"))


def serves_mostly(tier: str, share: float = 0.5) -> Test:
    """Of the prompt tokens that were counted by tier, this one served at least a share."""

    def test(view: View) -> Seen | None:
        tiers = {fact.scope: float(fact.value) for fact in view.facts.all("tier_tokens")}
        total = sum(tiers.values())
        if not total or tiers.get(tier, 0.0) < share * total:
            return None
        return _seen(f"{tiers[tier] / total:.0%} from {tier}", view.facts.get("tier_tokens", tier))

    return test


def disk_saturated(view: View) -> Seen | None:
    found = [fact for fact in view.facts.all("disk_busy_share") if float(fact.value) >= 0.85]
    return _seen(f"{found[0].scope} {float(found[0].value):.0%} busy", found[0]) if found else None


def disk_writes(view: View) -> Seen | None:
    """A disk is asked for far more writes than reads."""
    written = [fact for fact in view.facts.all("disk_writes_per_s") if float(fact.value) >= 2000]
    for fact in written:
        if float(fact.value) > 2 * (view.number("disk_reads_per_s", fact.scope) or 0.0):
            return _seen(f"{float(fact.value):,.0f} writes/s on {fact.scope}", fact)
    return None
