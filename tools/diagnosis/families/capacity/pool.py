"""The KV pool: too small, full, promised beyond its size, or of another size at every start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.diagnosis.changes import (
    FRACTION,
    HICACHE_FOR_RUNNING,
    Forbidden,
    fewer_running,
    plan,
    raise_fraction,
    smaller_kv,
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
    OOM_ANYWHERE,
    QUEUED,
    SWA,
    THROWN_BACK,
    WAITING,
    below_limit,
    context_over_pool,
    limit_typed,
    pinned,
    pool_carries_no_more,
    rejected_input,
    state_outweighs_kv,
)
from tools.diagnosis.model import Actions, Do, Proposal, Question
from tools.diagnosis.sums import SHARE, slots_that_fit
from tools.diagnosis.view import View

if TYPE_CHECKING:
    from tools.capacity import Lever

_CAP = "--max-total-tokens"
_LARGEST_PAGE = 256  # tokens; a pool ends at a page
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


def _grow_pool(view: View) -> Actions:
    fitting, card = _fitting(view), _more_of_the_card(view)
    chosen = _without_cap(view, fitting) or _card_alone(view, card) or _more_tokens(view, card)[:2]
    limit = _limit_of_larger_pool(view, chosen)
    crowd: Forbidden = (
        "raise",
        "--max-running-requests",
        "it grows no pool; raise it once the larger pool is seen to have room",
    )
    return plan(
        *chosen,
        *limit,
        never=(
            *(() if limit else (crowd,)),
            ("raise", "--context-length", "it promises more, it holds no more"),
            ("raise", "--chunked-prefill-size", "larger chunks take memory from the pool"),
            HICACHE_FOR_RUNNING,
        ),
        alternatives=(
            *_other_levers(chosen, fitting),
            ("more GPUs or a smaller checkpoint", "when no lever above is left"),
        ),
        expected=((_larger_pool(view, chosen, fitting), "ready line of the log"),),
        verify=(
            ("token usage, p95", 900, "below 0.92", "retractions as before"),
            ("retractions per hour", 3600, "none", "any"),
        ),
    )


def _without_cap(view: View, fitting: list[Lever]) -> list[Proposal]:
    """The typed cap taken off, where it is what ends the pool: the memory for more is there already."""
    cap, pool = view.value(_CAP) if view.typed(_CAP) else None, view.number("kv_pool", "")
    if not cap or not pool or not cap - _LARGEST_PAGE < pool <= cap:
        return []
    larger = next((one for one in fitting if one.flags == {_CAP} and one.factor > 1.05), None)
    if larger is None:
        return []
    why = f"it ends the pool at {pool:,.0f} tokens; the static fraction leaves memory for {larger.tokens:,}"
    return [step(view, "remove", _CAP, None, why, unit="tokens")]


def _card_alone(view: View, card: list[Proposal]) -> list[Proposal]:
    """A higher fraction alone, where its pool carries all that run and wait: elements stay as they are."""
    from tools.capacity import pool_tokens_with

    wanted, each = _open_requests(view), view.number("tokens_per_request")
    if not wanted or not each or not card:
        return []
    tokens = pool_tokens_with(view.facts, {FRACTION: str(card[0].to)})
    return card if tokens and tokens * view.schedulers * SHARE >= wanted * each else []


def _more_tokens(view: View, card: list[Proposal]) -> list[Proposal]:
    """Smaller elements, then more of the card; fewer at once where neither is left and ranks share attention."""
    changes = []
    if not view.setting("--kv-cache-dtype").startswith(("fp8", "fp4", "nvfp4")):
        changes.append(
            step(
                view,
                "set",
                "--kv-cache-dtype",
                smaller_kv(view),
                "halves the bytes per token, so about twice the tokens; check quality on this GPU first",
            )
        )
    changes += card
    if not changes and view.on("--enable-dp-attention"):
        changes.append(fewer_running(view, 0.75, "fewer at once until the pool is larger"))
    return changes


def _fitting(view: View) -> list[Lever]:
    """Levers of the arithmetic that fit; none where it cannot be done."""
    from tools.capacity import Lever, levers

    return [one for one in levers(view.facts) if isinstance(one, Lever) and one.fits]


def _larger_pool(view: View, chosen: list[Proposal], fitting: list[Lever]) -> str:
    """What the next start must print: more tokens than now, and how many by the sums where those hold."""
    now, flags = view.number("kv_pool", ""), {one.flag for one in chosen}
    if not now:
        return "a larger max_total_num_tokens"
    summed = [one.tokens for one in fitting if one.tokens and one.flags == flags]
    return f"max_total_num_tokens above {now:,.0f}" + (f", by the sums {summed[0]:,}" if summed else "")


def _limit_of_larger_pool(view: View, chosen: list[Proposal]) -> list[Proposal]:
    """The limit as well, where it would bind in the larger pool: it is reached already, or fewer may run than want to.

    As far as the GPUs have memory for it beside what is chosen.
    """
    from tools.capacity import NO_CAP, limit_that_fits, pool_tokens_with

    fit, wanted, now = slots_that_fit(view), _open_requests(view), view.number("kv_pool", "")
    if fit is None or fit.limit is None or (pinned(view) is None and (wanted is None or wanted <= fit.limit)):
        return []
    beside = {one.flag: NO_CAP if one.to is None else str(one.to) for one in chosen if one.do != "lower"}
    tokens = pool_tokens_with(view.facts, beside)
    requests = int(fit.requests * tokens / now) if tokens and now else fit.requests
    most = limit_that_fits(view.facts, requests, beside)
    requests = requests if most is None else min(requests, most)
    if requests <= fit.limit:
        return []
    do: Do = "set" if limit_typed(view) is None else "raise"
    held = "is reached already, and" if pinned(view) else f"is below the {wanted:g} that run and wait, and"
    why = f"the limit of {fit.limit:g} {held} would bind in the larger pool"
    return [step(view, do, "--max-running-requests", requests, why, unit="requests")]


def _open_requests(view: View) -> float | None:
    """Requests that run and that wait under load, over all data-parallel ranks; None where either was not seen."""
    running, waiting = view.number("running_p95"), view.number("queue_p95")
    return None if running is None or waiting is None else (running + waiting) * view.schedulers


def _more_of_the_card(view: View) -> list[Proposal]:
    """A higher fraction, as far as what is free after all graphs allows; none where that is known to be nothing."""
    from tools.capacity import gpu_budget

    why = "more of the card for the pool, only as far as the memory free after all graphs allows"
    budget, now = gpu_budget(view.facts), view.value("--mem-fraction-static")
    if budget.free_gib is None or now is None:
        return [raise_fraction(view, why, 0.02)]
    largest = budget.largest_fraction
    if largest is None and budget.sum("largest_fraction") is None:
        return _step_of_the_card(view, budget.free_gib - budget.headroom_gib, why)
    if largest is None or largest < now + 0.005:
        return []
    to = int(largest * 1000) / 1000
    return [step(view, "raise", "--mem-fraction-static", to, f"{why}: {budget.free_gib:.2f} GiB", unit="fraction")]


def _step_of_the_card(view: View, spare_gib: float, why: str) -> list[Proposal]:
    """What is free after all graphs, less its headroom, as a share of the card; a small step where its size is unknown.

    For starts whose weight lines are not there, so that the sums cannot be made.
    """
    if spare_gib < 1 or OOM_ANYWHERE(view):
        return []
    total = total_gib(view)
    share = int(spare_gib / total * 100) / 100 if total else 0.02
    return [raise_fraction(view, f"{why}: {spare_gib:.2f} GiB beside the headroom", share)] if share >= 0.01 else []


def _other_levers(chosen: list[Proposal], fitting: list[Lever]) -> tuple[tuple[str, str], ...]:
    """Levers beside what is chosen, the largest gain first, with what each risks more; a word where none is known."""
    flags = {one.flag for one in chosen}
    taken = {piece for one in fitting if one.flags <= flags for piece in one.risk.split("; ")}
    found = [one for one in fitting if one.factor > 1.05 and not (one.changes and one.flags <= flags)]
    found.sort(key=lambda one: -one.factor)
    said = [
        (
            f"{one.name}: {one.factor:.2f} x tokens",
            "; ".join(piece for piece in (one.why_not, *one.risk.split("; ")) if piece and piece not in taken),
        )
        for one in found[:4]
    ]
    return tuple(said) or (
        (
            "data-parallel attention for MLA models",
            "each group keeps its own pool; the size that pays must be computed",
        ),
    )


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
        return plan(fewer, *_more_of_the_card(view), never=crowd, alternatives=alternatives, notes=notes)
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
        act=_grow_pool,
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
