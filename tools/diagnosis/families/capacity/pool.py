"""The KV pool: too small, full, promised beyond its size, or of another size at every start."""

from __future__ import annotations

from tools.diagnosis.changes import (
    FRACTION,
    Forbidden,
    fewer_running,
    plan,
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
    setting_below,
    symptom,
)
from tools.diagnosis.conditions import (
    FULL_CACHE,
    HYBRID,
    IDLE_CACHE,
    NEVER_CAME_UP,
    QUEUED,
    SWA,
    THROWN_BACK,
    WAITING,
    below_limit,
    context_over_pool,
    over_context,
    pool_carries_no_more,
    rejected_input,
    state_outweighs_kv,
)
from tools.diagnosis.families.capacity.growth import grow_pool, more_of_the_card
from tools.diagnosis.model import Actions, Question
from tools.diagnosis.view import View

_FEW = 100  # requests at once; where more fill the pool, too many were let in


def _few_fill_it(view: View) -> Seen | None:
    """Fewer run than the limit allows, and few in number: each holds a good part of the pool."""
    running = view.number("running_max")
    return below_limit(view) if running is not None and running < _FEW else None


def _pool_full(view: View) -> Seen | None:
    """The pool of whole contexts is full; where there are two, the window pool is another matter."""
    scope = "full" if view.facts.get("usage_p95", "full") else None
    return either(above("usage_p95", 0.93, scope), above("usage_max", 0.97, scope))(view)


def _no_room_for_another(view: View) -> Seen | None:
    """What is left of the pool is less than one more request of the usual length takes."""
    pool, usage, each = view.number("kv_pool", ""), view.number("usage_p95", ""), view.number("tokens_per_request")
    if not pool or usage is None or usage < 0.8 or not each or (1 - usage) * pool >= each:
        return None
    return Seen(f"{(1 - usage) * pool:,.0f} tokens left", view.sources("usage_p95", "tokens_per_request"))


def _card_half_empty(view: View) -> Seen | None:
    """Far more of the card is free after start than the fraction leaves: the pool was sized by a wrong figure."""
    free, total = view.number("free_after_boot_gib"), total_gib(view)
    fraction = view.value(FRACTION) or 0.9
    if free is None or not total or free < (1 - fraction) * total + 0.2 * total:
        return None
    return Seen(f"{free:g} GiB free after start of {total:g}", view.sources("free_after_boot_gib"))


def _pool_of_starts_varies(view: View) -> Seen | None:
    """Starts of one log ended with pools more than a twentieth apart."""
    least, most = view.number("kv_pool_of_starts", "least"), view.number("kv_pool_of_starts", "most")
    if not least or not most or most < 1.05 * least:
        return None
    return Seen(f"{least:,.0f} to {most:,.0f} tokens", view.sources("kv_pool_of_starts"))


def _saturated(view: View) -> Actions:
    """Where requests wait, fewer at once or a larger pool; where none does, a test that tells cache from requests."""
    crowd: tuple[Forbidden, ...] = (
        ("lower", "--mem-fraction-static", "it makes the pool smaller"),
        ("raise", "--max-running-requests", "more requests in the same pool are thrown back, not served"),
    )
    fewer = fewer_running(view, 0.75, "what runs at once then leaves room to grow")
    notes = ("Cached tokens are not counted as used; usage near 1 means running requests hold the pool.",)
    alternatives = (("a larger pool (FP8 KV, more GPUs)", "when the load is wanted as it is"),)
    if QUEUED(view):
        return plan(fewer, *more_of_the_card(view), never=crowd, alternatives=alternatives, notes=notes)
    return plan(
        step(
            view,
            "set",
            "--disable-radix-cache",
            True,
            "as a test on a quiet moment only: what stays used without it is held by requests, not by cache",
        ),
        fewer,
        never=crowd,
        alternatives=alternatives,
        notes=notes,
    )


def _unified(view: View) -> Actions:
    pool = view.number("kv_pool_of_starts", "least") or view.number("kv_pool", "")
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


_POOL_ASKED = said("prefill_alloc", "decode_alloc")


ENTRIES = (
    Entry(
        "capacity.kv_pool_too_small",
        "The KV pool holds too few tokens for the requests that want to run.",
        for_=(
            Clue(
                3,
                both(
                    either(_pool_full, _no_room_for_another),
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
            Clue(1, both(setting_below(FRACTION, 0.7), pool_carries_no_more, QUEUED), "the fraction leaves it small"),
            Clue(
                2,
                both(said("running_reduced_by_kv"), lacks(HYBRID)),
                "the server lowered the limit to what the pool carries",
            ),
            Clue(
                4,
                both(
                    said("prefill_alloc", "decode_alloc"), fact("wanted_tokens"), lacks(fact("wanted_below_available"))
                ),
                "a batch asked for more tokens than the pool had left",
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
            Clue(2, NEVER_CAME_UP, "the server did not come up at all"),
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
        act=grow_pool,
        questions=("kv_pool", "offload"),
    ),
    Entry(
        "capacity.context_exceeds_kv_pool",
        "One request is longer than the whole KV pool; the context length promises more than the pool holds.",
        for_=(
            Clue(5, both(rejected_input, lacks(SWA)), "an input was refused below the context length"),
            Clue(
                2,
                both(context_over_pool, either(symptom("input_refused"), said("input_too_long"))),
                "the pool is smaller than the context",
            ),
            Clue(1, said("pool_below_context"), "the server warns of it at its start"),
            Clue(
                2,
                both(either(symptom("input_refused"), said("input_too_long")), lacks(SWA)),
                "long inputs are refused",
            ),
        ),
        against=(
            Clue(5, state_outweighs_kv, "recurrent state was given the memory"),
            Clue(4, over_context, "the context length refuses it, not the pool"),
            Clue(2, SWA, "the model splits its memory over two pools"),
            Clue(3, phase("prefill", "decode", "graph_capture"), "an allocation failed, nothing was refused"),
            Clue(4, _card_half_empty, "the card has room that the pool was not given"),
        ),
        neighbours=(("capacity.swa_ratio_misallocated", "there one of two pools is short and the other has room"),),
        settle=Question(
            "How many tokens does the pool hold, and how long is the refused input?",
            "ready line: max_total_num_tokens, context_len; the refusal",
        ),
        act=grow_pool,
        questions=("kv_pool",),
    ),
    Entry(
        "capacity.pool_saturated_by_active_requests",
        "The pool is held by running requests; it looks like a leak but empties when they finish.",
        for_=(
            Clue(3, both(symptom("looks_like_leak"), FULL_CACHE), "usage stays high and is taken for a leak"),
            Clue(
                3,
                both(symptom("looks_like_leak", "hangs"), symptom("empties_later"), FULL_CACHE),
                "and falls to nothing when the requests are done",
            ),
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
                4,
                both(symptom("unified_memory"), _pool_of_starts_varies),
                "the pool was seen to differ between starts on shared memory",
            ),
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
