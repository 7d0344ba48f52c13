"""How many requests and tokens fit at all."""

from __future__ import annotations

from tools.diagnosis.changes import (
    FRACTION,
    HICACHE_FOR_RUNNING,
    Forbidden,
    fewer_running,
    plan,
    raise_fraction,
    step,
    total_gib,
)
from tools.diagnosis.clues import (
    Clue,
    Entry,
    Seen,
    above,
    below,
    both,
    either,
    fact,
    lacks,
    phase,
    said,
    setting_above,
    setting_below,
    symptom,
    when,
)
from tools.diagnosis.conditions import (
    FULL_CACHE,
    HYBRID,
    IDLE_CACHE,
    QUEUED,
    SWA,
    THROWN_BACK,
    WAITING,
    below_limit,
    limit_typed,
    pinned,
    pool_carries_no_more,
)
from tools.diagnosis.model import Actions, Do, Proposal, Question
from tools.diagnosis.sums import slots_that_fit
from tools.diagnosis.view import View

_FEW = 100  # requests at once; where more fill the pool, too many were let in


def _few_fill_it(view: View) -> Seen | None:
    """Fewer run than the limit allows, and few in number: each holds a good part of the pool."""
    running = view.number("running_max")
    return below_limit(view) if running is not None and running < _FEW else None


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
    if limit is None or not view.speculative or limit not in (48, 32) or limit_typed(view):
        return None
    return Seen(f"{limit:g} with speculative decoding and no limit typed", view.sources("running_limit"))


_SPEC_DEFAULT = either(_limit_is_48, fact("spec_default_reset"), said("spec_default_reset"))


def _raise_slots(view: View) -> Actions:
    to, why = _wanted_running(view)
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
        alternatives=(
            (
                "speculative decoding off at high concurrency",
                "the default limit goes with it, and so does its speed-up at low load",
            ),
        ),
        expected=((f"max_running_requests={to}", "ready line of the log"),),
        verify=(
            ("running requests, p95", 900, "above the old limit", "any retraction in ten minutes"),
            ("token usage, p95", 900, "below 0.92", "0.97 or more"),
        ),
    )


def _wanted_running(view: View) -> tuple[int, str]:
    """The value for --max-running-requests that the pool can carry at nine tenths, and how it was reached."""
    fit = slots_that_fit(view)
    if fit is not None:
        return fit.requests, fit.why
    limit = view.number("spec_default_reset") or view.number("running_limit") or 48
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


def _grow_pool(view: View) -> Actions:
    changes = []
    if not view.setting("--kv-cache-dtype").startswith(("fp8", "fp4", "nvfp4")):
        # Kernels for e4m3 begin with compute capability 8.9; older cards convert e5m2.
        old = _capability(view) < 8.9
        changes.append(
            step(
                view,
                "set",
                "--kv-cache-dtype",
                "fp8_e5m2" if old else "fp8_e4m3",
                "halves the bytes per token, so about twice the tokens; check quality on this GPU first",
            )
        )
    changes += _more_of_the_card(view)
    if view.on("--enable-dp-attention"):
        changes.append(fewer_running(view, 0.75, "fewer at once until the pool is larger"))
    return plan(
        *changes[:2],
        *_limit_of_larger_pool(view, changes[:2]),
        never=(
            ("raise", "--max-running-requests", "more requests in the same pool are thrown back, not served"),
            ("raise", "--context-length", "it promises more, it holds no more"),
            ("raise", "--chunked-prefill-size", "larger chunks take memory from the pool"),
            HICACHE_FOR_RUNNING,
        ),
        alternatives=(
            *_other_levers(view),
            ("more GPUs or a smaller checkpoint", "when no lever above is left"),
        ),
        expected=(("a larger max_total_num_tokens", "ready line of the log"),),
        verify=(
            ("token usage, p95", 900, "below 0.92", "retractions as before"),
            ("retractions per hour", 3600, "none", "any"),
        ),
    )


def _limit_of_larger_pool(view: View, changes: list[Proposal]) -> list[Proposal]:
    """The limit as well, where it is reached already and would bind in the larger pool."""
    from tools.capacity import Lever, levers

    fit, flags = slots_that_fit(view), {one.flag for one in changes if one.do != "lower"}
    if fit is None or pinned(view) is None:
        return []
    larger = [
        one
        for one in levers(view.facts)
        if isinstance(one, Lever) and one.fits and {flag for flag, _, _ in one.changes if flag in flags} == flags
    ]
    requests = int(fit.requests * min((one.factor for one in larger), default=1.0))
    if fit.limit is None or requests <= fit.limit:
        return []
    do: Do = "set" if limit_typed(view) is None else "raise"
    why = f"the limit of {fit.limit:g} is reached already, and would bind in the larger pool"
    return [step(view, do, "--max-running-requests", requests, why, unit="requests")]


def _more_of_the_card(view: View) -> list[Proposal]:
    """A higher fraction, as far as what is free after all graphs allows; none where that is known to be nothing."""
    from tools.capacity import gpu_budget

    why = "more of the card for the pool, only as far as the memory free after all graphs allows"
    budget, now = gpu_budget(view.facts), view.value("--mem-fraction-static")
    if budget.free_gib is None or now is None:
        return [raise_fraction(view, why, 0.02)]
    largest = budget.largest_fraction
    if largest is None or largest < now + 0.005:
        return []
    to = int(largest * 1000) / 1000
    return [step(view, "raise", "--mem-fraction-static", to, f"{why}: {budget.free_gib:.2f} GiB", unit="fraction")]


def _other_levers(view: View) -> tuple[tuple[str, str], ...]:
    """Levers of the arithmetic with their factors and risks, the largest gain first; a word where none is computed."""
    from tools.capacity import Lever, levers

    found = [one for one in levers(view.facts) if isinstance(one, Lever) and one.fits and one.factor > 1.05]
    found.sort(key=lambda one: -one.factor)
    said = [
        (
            f"{one.name}: {one.factor:.2f} x tokens",
            "; ".join(text for text in (one.why_not, one.risk, one.binds) if text),
        )
        for one in found[:4]
    ]
    return tuple(said) or (
        (
            "data-parallel attention for MLA models",
            "each group keeps its own pool; the size that pays must be computed",
        ),
    )


def _capability(view: View) -> float:
    """Compute capability of the GPU; 9 where it is not known."""
    try:
        return float(view.facts.text("compute_capability"))
    except ValueError:
        return 9.0


def _rejected_input(view: View) -> Seen | None:
    limit, asked = view.number("input_limit_tokens"), view.number("rejected_input_tokens")
    context = view.number("context_len") or view.value("--context-length")
    if limit is None or asked is None:
        return None
    if context is not None and limit >= context * 0.98:
        return None
    return Seen(f"{asked:g} tokens refused at {limit:g}", view.sources("rejected_input_tokens", "input_limit_tokens"))


def _card_half_empty(view: View) -> Seen | None:
    """Far more of the card is free after start than the fraction leaves: the pool was sized by a wrong figure."""
    free, total = view.number("free_after_boot_gib"), total_gib(view)
    fraction = view.value(FRACTION) or 0.9
    if free is None or not total or free < (1 - fraction) * total + 0.2 * total:
        return None
    return Seen(f"{free:g} GiB free after start of {total:g}", view.sources("free_after_boot_gib"))


def _context_over_pool(view: View) -> Seen | None:
    scope = "full" if view.facts.get("kv_pool", "full") else ""
    pool, context = view.number("kv_pool", scope), view.number("context_len") or view.value("--context-length")
    if pool is None or context is None or pool >= context:
        return None
    return Seen(f"pool of {pool:g} tokens, context {context:g}", view.sources("kv_pool", "context_len"))


def _raise_state(view: View) -> Actions:
    slots, limit = (
        view.number("state_slots") or view.value("--max-mamba-cache-size"),
        view.number("state_cap") or view.number("running_limit"),
    )
    each = view.number("state_cap", "slots_per_request") if view.facts.get("state_cap", "slots_per_request") else None
    if each is None and slots and limit:
        each = max(1, round(slots / limit))
    wanted = view.value("--max-running-requests") or (limit or 8) * 1.25
    changes = []
    if view.typed("--max-mamba-cache-size") or not view.typed("--mamba-full-memory-ratio"):
        to = int(max((each or 5) * wanted, (slots or 0) * 1.25))
        changes.append(
            step(
                view,
                "raise",
                "--max-mamba-cache-size",
                to,
                f"about {each or 5:g} slots stand behind each running request",
                unit="slots",
            )
        )
    else:  # the ratio counts only where no number of slots is typed
        now = view.value("--mamba-full-memory-ratio") or 0.9
        changes.append(
            step(
                view,
                "raise",
                "--mamba-full-memory-ratio",
                round(min(now * 1.5, max(2.0, now * 1.2)), 2),
                "a larger part of the memory for state",
                unit="ratio",
            )
        )
    return plan(
        *changes,
        never=(
            ("raise", "--mem-fraction-static", "KV has room; the state slots bind"),
            ("raise", "--max-running-requests", "the server lowers it again to what the slots allow"),
            ("lower", "--schedule-conservativeness", "admission waits for slots, not for tokens"),
        ),
        alternatives=(
            ("--mamba-ssm-dtype bfloat16", "halves a slot; check quality"),
            ("--max-running-requests near the real load", "where the state pool is sized from it"),
        ),
        expected=(("a higher cap in the line about the state cache", "boot log"),),
    )


def _slots_unused(view: View) -> Seen | None:
    slots = view.number("state_slots") or view.value("--max-mamba-cache-size")
    used = view.number("state_slots_used")
    if slots is None or used is None or used > slots * 0.7:
        return None
    return Seen(f"{used:g} of {slots:g} slots at the busiest moment", view.sources("state_slots", "state_slots_used"))


def _shrink_state(view: View) -> Actions:
    slots = view.number("state_slots") or view.value("--max-mamba-cache-size")
    changes = []
    if view.typed("--max-mamba-cache-size") or not view.typed("--mamba-full-memory-ratio"):
        used = view.number("state_slots_used")
        busy = (
            used * 1.25 / 5
            if used
            else view.number("running_max") or view.value("--max-running-requests") or (slots or 64) / 8
        )
        to = int(max(8, min(busy * 5, (slots or 64) * 0.5)))
        changes.append(
            step(
                view,
                "lower",
                "--max-mamba-cache-size",
                to,
                "slots for the requests that really run, the rest back to KV",
                unit="slots",
            )
        )
    else:
        now = view.value("--mamba-full-memory-ratio") or 0.9
        changes.append(
            step(
                view,
                "lower",
                "--mamba-full-memory-ratio",
                round(now * 0.5, 2),
                "less memory for state, more for KV",
                unit="ratio",
            )
        )
    return plan(
        *changes,
        never=(
            ("raise", "--max-mamba-cache-size", "more of what starves KV"),
            ("raise", "--mem-fraction-static", "the memory is there, in the wrong pool"),
            ("raise", "--mamba-full-memory-ratio", "more of what starves KV"),
        ),
    )


def _swa_ratio(view: View) -> Actions:
    now = view.value("--swa-full-tokens-ratio") or 0.8
    never: Forbidden
    full_binds = _swa_is_idle(view) is not None or not _swa_is_full(view)
    if full_binds:
        change = step(
            view,
            "lower",
            "--swa-full-tokens-ratio",
            round(max(now / 4, 0.05), 2),
            "moves memory from the window layers to the layers that hold whole contexts",
            unit="ratio",
        )
        never = ("raise", "--swa-full-tokens-ratio", "the full pool is the one that is short")
    else:
        change = step(
            view,
            "raise",
            "--swa-full-tokens-ratio",
            round(min(1.0, max(now * 1.5, now + 0.1)), 2),
            "the window pool is the one that is full",
            unit="ratio",
        )
        never = ("lower", "--swa-full-tokens-ratio", "the window pool is the one that is full")
    extra = (
        []
        if not full_binds or view.typed("--kv-cache-dtype")
        else [
            step(view, "set", "--kv-cache-dtype", "fp8_e5m2", "halves the bytes per token of both pools; check quality")
        ]
    )
    return plan(
        change,
        *extra,
        never=(
            never,
            ("raise", "--context-length", "the pool decides, not the promise"),
            ("raise", "--mem-fraction-static", "the split is wrong, not the sum"),
        ),
    )


def _swa_is_full(view: View) -> Seen | None:
    swa, full = view.number("usage_max", "swa"), view.number("usage_max", "full") or view.number("usage_max", "")
    if swa is None or swa < 0.9 or (full is not None and full >= 0.8):
        return None
    return Seen(
        f"window pool at {swa:.2f}" + (f", full pool at {full:.2f}" if full is not None else ""),
        view.sources("usage_max"),
    )


def _window_not_freed(view: View) -> Seen | None:
    """The window pool is full of one request's tokens, which should have left it."""
    if not view.speculative or _swa_is_full(view) is None or not view.has("symptom", "single_request"):
        return None
    return Seen("a single request with speculative decoding", view.sources("usage_max"))


def _swa_is_idle(view: View) -> Seen | None:
    swa, full = view.number("usage_max", "swa"), view.number("usage_max", "full")
    if swa is None or full is None or full < 0.9 or swa >= 0.7:
        return None
    return Seen(f"full pool at {full:.2f}, window pool at {swa:.2f}", view.sources("usage_max"))


def _swa_below_chunk(view: View) -> Seen | None:
    swa, chunk = (
        view.number("kv_pool", "swa") if view.facts.get("kv_pool", "swa") else None,
        view.value("--chunked-prefill-size") or view.number("chunked_prefill_size"),
    )
    if swa is None or chunk is None or swa >= 4 * chunk:
        return None
    return Seen(f"window pool of {swa:g} tokens for chunks of {chunk:g}", view.sources("kv_pool"))


def _window_for_chunks(view: View) -> Actions:
    now = view.value("--swa-full-tokens-ratio") or 0.8
    changes = [
        step(
            view,
            "raise",
            "--swa-full-tokens-ratio",
            round(min(1.0, max(now * 1.5, now + 0.1)), 2),
            "the window pool must hold whole chunks of more than one request",
            unit="ratio",
        )
    ]
    if view.before(0, 5, 17) is False:
        changes.insert(
            0,
            step(
                view,
                "raise",
                "--swa-prefix-tails",
                6,
                "more window tails, so that chunks are no longer cut",
                unit="tails",
            ),
        )
    return plan(
        *changes,
        never=(
            ("raise", "--chunked-prefill-size", "chunks are cut by the pool, not by this"),
            ("raise", "--max-prefill-tokens", "chunks are cut by the pool, not by this"),
        ),
    )


def _saturated(view: View) -> Actions:
    return plan(
        step(
            view,
            "set",
            "--disable-radix-cache",
            True,
            "as a test on a quiet moment only: what stays used without it is held by requests, not by cache",
        ),
        fewer_running(view, 0.75, "what runs at once then leaves room to grow"),
        never=(("lower", "--mem-fraction-static", "it makes the pool smaller"),),
        alternatives=(("a larger pool (FP8 KV, more GPUs)", "when the load is wanted as it is"),),
        notes=("Cached tokens are not counted as used; usage near 1 means running requests hold the pool.",),
    )


def _unified(view: View) -> Actions:
    pool = view.number("kv_pool", "")
    return plan(
        step(
            view,
            "set",
            "--max-total-tokens",
            int(pool * 0.9) if pool else 65536,
            "the same pool at every start, below the smallest that was seen",
            unit="tokens",
        ),
        never=(
            ("raise", "--mem-fraction-static", "the host needs the same memory"),
            ("lower", "--mem-fraction-static", "at some starts nothing is left for the cache already"),
        ),
        notes=("Drop the page cache before the start, and start nothing else beside it.",),
    )


_NOT_MEMORY_FAILURE = Clue(
    2,
    either(phase("load", "pools", "graph_capture", "warmup"), said("weights_leave_no_room")),
    "the server did not come up at all",
)

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
                    either(pinned, symptom("few_running")),
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
    Entry(
        "capacity.kv_pool_too_small",
        "The KV pool holds too few tokens for the requests that want to run.",
        for_=(
            Clue(
                3,
                both(
                    either(above("usage_p95", 0.93), above("usage_max", 0.97)),
                    either(above("queue_p95", 1), above("queue_max", 1)),
                ),
                "the pool is full while requests wait",
            ),
            Clue(2, both(THROWN_BACK, _few_fill_it), "few requests fill the pool, and some are thrown back"),
            Clue(2, both(THROWN_BACK, _few_fill_it, QUEUED), "and others wait meanwhile"),
            Clue(
                2,
                both(pool_carries_no_more, QUEUED, lacks(IDLE_CACHE)),
                "requests wait, and the pool carries no more than the limit",
            ),
            Clue(1.5, both(symptom("cache_full"), WAITING), "the pool is said to be full while requests wait"),
            Clue(
                2,
                both(said("running_reduced_by_kv"), lacks(HYBRID)),
                "the server lowered the limit to what the pool carries",
            ),
            Clue(1.5, symptom("pool_small"), "the pool is said to be small"),
            Clue(
                2.5,
                both(
                    symptom("pool_small"),
                    fact("kv_pool"),
                    lacks(either(said("input_too_long"), symptom("hybrid_state", "unified_memory", "draft_on"))),
                ),
                "the pool is known, and more is wanted",
            ),
        ),
        against=(
            Clue(4, both(below("usage_max", 0.75), lacks(THROWN_BACK)), "the pool has room"),
            Clue(2, symptom("cache_idle"), "the pool is said to have room"),
            _NOT_MEMORY_FAILURE,
            Clue(
                2,
                both(SWA, lacks(setting_below("--swa-full-tokens-ratio", 0.25))),
                "the model splits its memory over two pools",
            ),
        ),
        neighbours=(
            (
                "capacity.pool_saturated_by_active_requests",
                "there it is taken for a leak; no request is refused or thrown back",
            ),
            (
                "retraction.kv_pool_overcommitted",
                "there retractions follow each other although fewer at once would all finish",
            ),
        ),
        settle=Question(
            "Is token usage near 1 with a queue while fewer run than allowed?",
            "decode lines under load, retraction lines",
        ),
        act=_grow_pool,
        questions=("kv_pool", "offload"),
    ),
    Entry(
        "capacity.context_exceeds_kv_pool",
        "One request is longer than the whole KV pool; the context length promises more than the pool holds.",
        for_=(
            Clue(5, both(_rejected_input, lacks(SWA)), "an input was refused below the context length"),
            Clue(
                2,
                both(_context_over_pool, either(symptom("input_refused"), said("input_too_long"))),
                "the pool is smaller than the context",
            ),
            Clue(
                2,
                both(either(symptom("input_refused"), said("input_too_long")), lacks(SWA)),
                "long inputs are refused",
            ),
        ),
        against=(
            Clue(2, SWA, "the model splits its memory over two pools"),
            Clue(3, phase("prefill", "decode", "graph_capture"), "an allocation failed, nothing was refused"),
            Clue(4, _card_half_empty, "the card has room that the pool was not given"),
        ),
        neighbours=(("capacity.swa_ratio_misallocated", "there one of two pools is short and the other has room"),),
        settle=Question(
            "How many tokens does the pool hold, and how long is the refused input?",
            "ready line: max_total_num_tokens, context_len; the refusal",
        ),
        act=_grow_pool,
        questions=("kv_pool",),
    ),
    Entry(
        "capacity.state_pool_cap",
        "Recurrent-state slots bind before KV memory does: each running request holds several.",
        for_=(
            Clue(5, said("state_caps_running"), "the server lowered the limit to its state slots"),
            Clue(4, either(fact("state_cap"), said("state_pool_too_small")), "the state cache limits requests"),
            Clue(
                4,
                both(HYBRID, WAITING, either(IDLE_CACHE, above("usage_max", 0.7, "state"))),
                "requests wait for state while KV has room",
            ),
            Clue(1.5, both(HYBRID, symptom("few_running")), "few run on a model with state slots"),
            Clue(
                1.5,
                both(said("running_reduced_by_kv"), HYBRID),
                "the limit was lowered at start on a model with state slots",
            ),
        ),
        against=(
            Clue(4, symptom("forgets_conversations"), "what suffers is reuse, not admission"),
            Clue(2, FULL_CACHE, "KV is full"),
            _NOT_MEMORY_FAILURE,
        ),
        neighbours=(
            ("capacity.state_pool_oversized", "there slots lie idle and KV is short"),
            ("cache.state_slots_evict_prefixes", "there nothing waits; returning conversations are recomputed"),
        ),
        settle=Question(
            "What lowered the running limit at start, and what is the state usage under load?",
            "boot log: state cache lines; decode lines: mamba usage",
        ),
        act=_raise_state,
    ),
    Entry(
        "capacity.state_pool_oversized",
        "State slots take the memory that KV needs: many slots, few used, a small KV pool.",
        for_=(
            Clue(
                4,
                both(
                    HYBRID,
                    either(FULL_CACHE, symptom("pool_small", "input_refused"), said("input_too_long")),
                    either(
                        below("usage_max", 0.5, "state"),
                        symptom("state_idle"),
                        setting_above("--max-mamba-cache-size", 100),
                        above("state_slots", 100),
                    ),
                ),
                "KV is short while state lies idle",
            ),
            Clue(3, both(symptom("state_idle"), HYBRID), "most state slots are never used"),
            Clue(4, _slots_unused, "many state slots were never in use"),
            Clue(2, both(HYBRID, symptom("pool_small")), "a small KV pool on a model with state slots"),
        ),
        against=(Clue(3, said("state_caps_running"), "the slots limit requests"), Clue(2, IDLE_CACHE, "KV has room")),
        neighbours=(("capacity.state_pool_cap", "there the slots are the ones that are short"),),
        settle=Question(
            "How many state slots are used at the busiest moment, against KV usage?",
            "decode lines: mamba usage and token usage",
        ),
        act=_shrink_state,
    ),
    Entry(
        "capacity.swa_ratio_misallocated",
        "On a model with sliding-window layers the split between the two pools starves one of them.",
        for_=(
            Clue(4, either(_swa_is_full, _swa_is_idle), "one pool is full and the other is not"),
            Clue(
                4,
                both(SWA, either(symptom("input_refused"), _context_over_pool, _rejected_input)),
                "long inputs do not fit the pool for full attention",
            ),
            Clue(1.5, both(SWA, either(WAITING, THROWN_BACK)), "requests wait or are thrown back"),
        ),
        against=(
            Clue(3, _swa_below_chunk, "the window pool cuts chunks"),
            Clue(3, symptom("chunks_cut"), "chunks are cut"),
            Clue(3, said("crash_after_retraction"), "it crashes rather than refuses"),
            Clue(
                3,
                both(said("retraction"), symptom("never_recovers", "collapse", "throughput_fell")),
                "it collapses after a retraction",
            ),
            Clue(3, _window_not_freed, "one request alone fills the window pool"),
        ),
        neighbours=(
            ("capacity.context_exceeds_kv_pool", "there only one pool exists"),
            ("cache.swa_pool_pressure", "there prefixes are lost, nothing is refused"),
        ),
        settle=Question(
            "How full are the full and the window pool at the same moment?",
            "decode lines: full token usage, swa token usage",
        ),
        act=_swa_ratio,
    ),
    Entry(
        "capacity.swa_pool_smaller_than_chunk",
        "The window pool cannot hold a whole prefill chunk, so chunks are cut and long prompts crawl.",
        for_=(
            Clue(4, both(symptom("chunks_cut"), SWA), "chunks are cut on a model with a window pool"),
            Clue(3, _swa_below_chunk, "the window pool is close to one chunk"),
            Clue(1, both(symptom("prefill_slow"), SWA), "prefill is slow"),
        ),
        settle=Question(
            "Is #new-token smaller than the chunk while the window pool is full?",
            "prefill lines: #new-token; swa token usage",
        ),
        neighbours=(("capacity.swa_ratio_misallocated", "there requests are refused or wait"),),
        act=_window_for_chunks,
    ),
    Entry(
        "capacity.pool_saturated_by_active_requests",
        "The pool is held by running requests; it looks like a leak but empties when they finish.",
        for_=(
            Clue(3, both(symptom("looks_like_leak"), FULL_CACHE), "usage stays high and is taken for a leak"),
            Clue(
                1.5,
                both(
                    above("usage_p50", 0.9),
                    above("running_p50", 2),
                    lacks(THROWN_BACK),
                    lacks(above("queue_p95", 1)),
                ),
                "usage is high with many running, nothing waits or is thrown back",
            ),
        ),
        against=(
            Clue(3, said("pool_leak"), "the server itself reports a leak"),
            Clue(2, above("queue_p95", 1), "requests wait"),
            Clue(2, symptom("host_memory_grows"), "it is host memory that grows"),
        ),
        neighbours=(("capacity.kv_pool_too_small", "there requests wait or are thrown back"),),
        settle=Question(
            "Does token usage fall to about zero when nothing runs?",
            "token usage of an idle minute, or /flush_cache in a quiet moment",
        ),
        act=_saturated,
    ),
    Entry(
        "capacity.unified_memory_budget_varies",
        "CPU and GPU share one memory, so the pool depends on what else held memory at that start.",
        for_=(
            Clue(
                4,
                both(symptom("unified_memory"), symptom("pool_varies")),
                "another pool at every start on shared memory",
            ),
            Clue(2, symptom("pool_varies"), "the pool differs between starts of one command"),
            Clue(
                1,
                both(symptom("unified_memory"), symptom("pool_small", "cache_full")),
                "the pool is small on shared memory",
            ),
        ),
        settle=Question(
            "What was MemAvailable before each start?", "free -b before the start; the pool line of each start"
        ),
        neighbours=(("host.pinned_buffers_on_unified_memory", "there a fixed part is held by pinned buffers"),),
        act=_unified,
    ),
)
