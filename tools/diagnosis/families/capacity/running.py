"""The limit on running requests: set by default or typed, and reached with room in the pool."""

from __future__ import annotations

from tools.diagnosis import watches
from tools.diagnosis.changes import (
    HICACHE_FOR_RUNNING,
    plan,
    step,
)
from tools.diagnosis.clues import (
    Clue,
    Entry,
    Seen,
    both,
    either,
    fact,
    lacks,
    said,
    symptom,
    when,
)
from tools.diagnosis.conditions import (
    FULL_CACHE,
    HYBRID,
    IDLE_CACHE,
    THROWN_BACK,
    WAITING,
    below_limit,
    limit_typed,
    pinned,
    pool_carries_no_more,
)
from tools.diagnosis.model import Actions, Proposal, Question
from tools.diagnosis.sums import slots_that_fit
from tools.diagnosis.view import View


def _pool_carries_more(view: View) -> Seen | None:
    """Nine tenths of the pool carry more than the limit allows; without the sum, a pool that has room."""
    fit = slots_that_fit(view)
    if fit is None or fit.limit is None:
        return IDLE_CACHE(view)
    if not fit.raises_limit:
        return None
    return Seen(f"{fit.requests} fit, {fit.limit:g} are allowed", view.sources("tokens_per_request", "kv_pool"))


def _limit_is_48(view: View) -> Seen | None:
    limit = view.number("running_limit")
    if limit is None:
        return _flat_at_48(view)
    if not view.speculative or limit not in (48, 32) or limit_typed(view):
        return None
    return Seen(f"{limit:g} with speculative decoding and no limit typed", view.sources("running_limit"))


def _flat_at_48(view: View) -> Seen | None:
    """Exactly as many run as speculative decoding allows by default, others wait, and no limit was typed."""
    running, queue = view.number("running_max"), view.number("queue_max")
    if not view.speculative or running != 48 or not queue or limit_typed(view) or view.number("running_limit"):
        return None
    return Seen(f"48 running, {queue:g} waiting", view.sources("running_max", "queue_max"))


_SPEC_DEFAULT = either(_limit_is_48, fact("spec_default_reset"), said("spec_default_reset"))


_LEAST_GAIN = 0.05  # of the limit; a restart that loses what runs has to bring more
_LARGER = ("a larger KV pool", "what would help next, as the pool ends soon after the limit; see the options")
_NO_DRAFT = (
    "speculative decoding off at high concurrency",
    "the default limit goes with it, and so does its speed-up at low load",
)


_NO_MEMORY = "the request table and graphs of more would leave the GPUs less free memory than activations need"
_SMALLER_POOL = (
    "a lower --mem-fraction-static together with the higher limit",
    "gives part of a pool that has room to the request table and graphs; `sglscout plan --set` sums the pair",
)


def _raise_slots(view: View) -> Actions:
    from tools.capacity import limit_that_fits

    to, why = _wanted_running(view)
    most, now = limit_that_fits(view.facts, to), view.running_limit or 0
    if most is not None and most < to:
        note = f"the pool carries {to} requests ({why}), but {_NO_MEMORY}"
        if most <= now:
            return plan(
                never=(("raise", "--max-running-requests", note), HICACHE_FOR_RUNNING), alternatives=(_SMALLER_POOL,)
            )
        to, why = most, f"{why}; the GPU memory that is free after all graphs ends at {most}"
    if now and 0 <= to - now < _LEAST_GAIN * now:
        few = f"{to - now:g} more than the {now:g} allowed now is too little for a restart; {why}"
        return plan(
            never=(HICACHE_FOR_RUNNING,), alternatives=((f"--max-running-requests {to}", few), _LARGER), notes=(few,)
        )
    changes = [
        step(view, "set" if limit_typed(view) is None else "raise", "--max-running-requests", to, why, unit="requests"),
        *_graphs_for(view, to),
    ]
    return plan(
        *changes,
        never=(
            ("raise", "--mem-fraction-static", "the pool has room; the limit binds, not memory"),
            ("raise", "--schedule-conservativeness", "it admits fewer requests, not more"),
            HICACHE_FOR_RUNNING,
        ),
        alternatives=(_NO_DRAFT,) if view.speculative and limit_typed(view) is None else (),
        expected=((f"max_running_requests={to}", "ready line of the log"),),
        verify=(watches.RETRACTIONS_SOON, watches.running(_limit_seen(view)), watches.USAGE),
    )


def _limit_seen(view: View) -> float:
    """The limit as the log prints it, for one scheduler."""
    return view.number("spec_default_reset") or view.number("running_limit") or 48


def _wanted_running(view: View) -> tuple[int, str]:
    """The value for --max-running-requests that the pool can carry at nine tenths, and how it was reached."""
    fit = slots_that_fit(view)
    if fit is not None:
        return fit.requests, fit.why
    limit = view.number("spec_default_reset") or view.running_limit or 48
    why = "twice what it is; the tokens per request are not known, so go up in steps while token usage stays below 0.9"
    return int(limit * 2), why


def _graphs_for(view: View, requests: int) -> list[Proposal]:
    """What captures graphs up to that many requests; nothing where they reach or where it is not known."""
    # What was captured is cut to the limit of this start; the setting is what bounds the next one.
    captured = view.value("--cuda-graph-max-bs") or view.number("graph_max_bs")
    each = requests / view.schedulers
    if captured is None or captured >= each:
        return []
    why = f"graphs stop at {captured:g}; larger batches would decode without them"
    return [step(view, "raise", "--cuda-graph-max-bs", int(each), why, unit="requests")]


ENTRIES = (
    Entry(
        "capacity.spec_default_cap",
        "Speculative decoding set a default limit on running requests; the pool has room.",
        for_=(
            Clue(
                3,
                either(fact("spec_default_reset"), said("spec_default_reset")),
                "the server reset the limit for speculative decoding",
            ),
            Clue(2, _limit_is_48, "the limit is the speculative default"),
            Clue(
                3,
                both(
                    either(pinned, _flat_at_48, symptom("few_running")),
                    _SPEC_DEFAULT,
                ),
                "that many run and others wait",
            ),
            Clue(
                1,
                both(when(lambda view: view.speculative), IDLE_CACHE, WAITING),
                "requests wait while the pool has room",
            ),
        ),
        against=(
            Clue(5, limit_typed, "the limit was typed by the operator"),
            Clue(3, FULL_CACHE, "the pool is full"),
            Clue(5, below_limit, "fewer run than the limit allows"),
            Clue(4, pool_carries_no_more, "the pool carries no more than the limit allows"),
            Clue(3, THROWN_BACK, "requests are thrown back, so memory binds"),
            Clue(3, lacks(either(pinned, WAITING, symptom("few_running"))), "nothing shows requests at that limit"),
        ),
        neighbours=(
            ("capacity.kv_pool_too_small", "there the pool fills before the limit is reached"),
            ("capacity.state_pool_cap", "there the limit is lowered by state slots, and the log says so"),
        ),
        settle=Question(
            "Do as many requests run as the limit allows while others wait?",
            "decode lines under load: #running-req, #queue-req, token usage",
        ),
        act=_raise_slots,
        questions=("running_limit",),
    ),
    Entry(
        "capacity.running_limit_too_low",
        "The limit on running requests is reached while the pool has room for more.",
        for_=(
            Clue(5, both(pinned, lacks(_SPEC_DEFAULT), _pool_carries_more), "the limit is reached, the pool has room"),
            Clue(1, both(pinned, limit_typed), "the limit was typed by the operator"),
        ),
        against=(
            Clue(3, either(FULL_CACHE, THROWN_BACK), "the pool is full"),
            Clue(
                5, either(said("state_caps_running", "running_reduced_by_kv"), HYBRID), "the server lowered the limit"
            ),
            Clue(3, symptom("tool_calls", "one_slot_short"), "what is short is not the limit itself"),
        ),
        neighbours=(
            ("capacity.spec_default_cap", "there nobody typed the limit: speculative decoding set it"),
            ("capacity.kv_pool_too_small", "there the pool fills before the limit is reached"),
        ),
        settle=Question(
            "Do as many requests run as the limit allows while others wait, and how full is the pool then?",
            "decode lines under load: #running-req, #queue-req, token usage",
        ),
        act=_raise_slots,
        questions=("running_limit",),
    ),
)
