"""The two pools of models with sliding-window layers."""

from __future__ import annotations

from tools.diagnosis.changes import (
    FRACTION,
    Forbidden,
    fewer_running,
    plan,
    raise_fraction,
    smaller_kv,
    step,
)
from tools.diagnosis.clues import (
    Clue,
    Entry,
    Seen,
    both,
    either,
    said,
    symptom,
)
from tools.diagnosis.conditions import (
    SWA,
    THROWN_BACK,
    WAITING,
    context_over_pool,
    rejected_input,
    window_below_chunk,
)
from tools.diagnosis.model import Actions, Question
from tools.diagnosis.view import View


def _smaller_window(view: View) -> Actions:
    """The window pool is sized for all that may run, before anything is given to the full one (sglang 0.5.23)."""
    why = "the window pool is sized for this many requests, and takes all there is"
    return plan(
        fewer_running(view, 0.5, why),
        raise_fraction(view, "or more of the card, so that something is left for the full pool"),
        never=(
            ("raise", "--max-running-requests", "the window pool grows with it"),
            ("lower", FRACTION, "less is left"),
        ),
        alternatives=(("--swa-prefix-tails and SGLANG_SWA_EVICTION_INTERVAL, lower", "the window pool counts both"),),
    )


def _swa_ratio(view: View) -> Actions:
    if said("window_leaves_no_room")(view):
        return _smaller_window(view)
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
            step(
                view,
                "set",
                "--kv-cache-dtype",
                smaller_kv(view),
                "halves the bytes per token of both pools; check quality",
            )
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


def _chunks_are_cut(view: View) -> Seen | None:
    chunk = view.value("--chunked-prefill-size") or view.number("chunked_prefill_size")
    most, swa = view.number("new_tokens_max"), view.number("usage_max", "swa")
    waiting = view.number("queue_p95")
    if not chunk or not most or swa is None or not waiting or most >= chunk / 2 or swa < 0.85:
        return None
    return Seen(f"{most:g} new tokens at most, chunks of {chunk:g}", view.sources("new_tokens_max", "usage_max"))


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


ENTRIES = (
    Entry(
        "capacity.swa_ratio_misallocated",
        "On a model with sliding-window layers the split between the two pools starves one of them.",
        for_=(
            Clue(4, either(_swa_is_full, _swa_is_idle), "one pool is full and the other is not"),
            Clue(
                4,
                both(SWA, either(symptom("input_refused"), context_over_pool, rejected_input)),
                "long inputs do not fit the pool for full attention",
            ),
            Clue(1.5, both(SWA, either(WAITING, THROWN_BACK)), "requests wait or are thrown back"),
            Clue(6, said("window_leaves_no_room"), "the window pool leaves nothing for the full one"),
        ),
        against=(
            Clue(2, symptom("hit_rate_low", "forgets_conversations", "hits_in_steps"), "what suffers is reuse"),
            Clue(3, window_below_chunk, "the window pool cuts chunks"),
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
            Clue(3, window_below_chunk, "the window pool is close to one chunk"),
            Clue(1, both(symptom("prefill_slow"), SWA), "prefill is slow"),
            Clue(2, _chunks_are_cut, "batches are far smaller than the chunk while the window pool is full"),
        ),
        settle=Question(
            "Is #new-token smaller than the chunk while the window pool is full?",
            "prefill lines: #new-token; swa token usage",
        ),
        neighbours=(("capacity.swa_ratio_misallocated", "there requests are refused or wait"),),
        act=_window_for_chunks,
    ),
)
