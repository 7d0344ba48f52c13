"""Requests that were let in and are thrown back."""

from __future__ import annotations

from tools.diagnosis.changes import (
    HICACHE_FOR_RUNNING,
    cap_lifted,
    fewer_running,
    plan,
    raise_fraction,
    smaller_kv,
    step,
    upgrade,
)
from tools.diagnosis.clues import (
    Clue,
    Entry,
    Seen,
    above,
    both,
    either,
    said,
    setting_above,
    setting_below,
    symptom,
)
from tools.diagnosis.conditions import (
    QUEUED,
    THROWN_BACK,
    below_limit,
)
from tools.diagnosis.model import Actions, Proposal, Question
from tools.diagnosis.view import View

_MANY = 100  # requests at once; where fewer fill the pool, the pool is what is small


def _very_many_run(view: View) -> Seen | None:
    """More requests were admitted than a pool of this size holds at full length."""
    running = view.number("running_max")
    if running is None or running < _MANY:
        return None
    return Seen(f"{running:g} running", view.sources("running_max"))


def _admit_less(view: View) -> Actions:
    now = view.value("--schedule-conservativeness") or 1.0
    known = view.value("--max-running-requests") or view.number("running_p95") or view.number("running_limit")
    return plan(
        step(
            view,
            "raise",
            "--schedule-conservativeness",
            1.0 if now < 0.8 else round(now * 1.3, 2),
            "reserve more of what requests will still write",
        ),
        *([fewer_running(view, 0.8, "fewer at once, all of which finish")] if known else []),
        never=(
            ("lower", "--mem-fraction-static", "a smaller pool throws back more"),
            ("set", "--disable-cuda-graph", "no GPU memory is short"),
            ("lower", "--chunked-prefill-size", "prefill is not the cause"),
            ("lower", "--schedule-conservativeness", "it admits still more"),
            ("raise", "--max-running-requests", "it admits still more"),
            HICACHE_FOR_RUNNING,
        ),
        alternatives=(
            ("a larger pool (FP8 KV, more GPUs)", "when all of them should run"),
            ("leave it", "an event now and then is harmless; each is printed once per rank"),
        ),
    )


def _fewer_in_pool(view: View) -> Actions:
    return plan(
        fewer_running(view, 0.6, "so that what is admitted can finish in the pool"),
        step(
            view,
            "raise",
            "--schedule-conservativeness",
            round((view.value("--schedule-conservativeness") or 1.0) * 1.3, 2),
            "reserve more of what requests will still write",
        ),
        never=(
            ("raise", "--max-running-requests", "more are thrown back"),
            ("lower", "--schedule-conservativeness", "it admits still more"),
            ("lower", "--mem-fraction-static", "a smaller pool throws back more"),
            HICACHE_FOR_RUNNING,
        ),
        alternatives=(("--kv-cache-dtype fp8_e4m3", "twice the tokens, after a quality check"),),
    )


def _last_one(view: View) -> Actions:
    if (view.number("running_max") or 0) == 1 or symptom("single_request")(view):
        return _room_for_one(view)
    return plan(
        upgrade("later versions end that one request instead of the scheduler"),
        fewer_running(view, 0.5, "leave a long request room to grow"),
        Proposal(
            "env",
            "raise",
            "SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION",
            view.env("SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION") or 4096,
            16384,
            "tokens",
            "reserve more for what long requests will still write",
        ),
        never=(
            ("raise", "--max-running-requests", "even less room for each"),
            ("set", "--disable-radix-cache", "cached tokens are given back anyway"),
            ("raise", "--context-length", "the request is already larger than the pool"),
        ),
        alternatives=(
            ("max_new_tokens capped below the pool", "at the client or gateway"),
            ("a larger pool", "FP8 KV, more GPUs"),
        ),
    )


def _room_for_one(view: View) -> Actions:
    """Nothing else runs: only a larger pool, or a shorter promise, changes what happens to it."""
    pool, context = view.number("kv_pool", ""), view.number("context_len") or view.value("--context-length")
    capped = cap_lifted(view)
    changes = capped or [raise_fraction(view, "a request that runs alone needs a larger pool, nothing else")]
    if not capped and not view.setting("--kv-cache-dtype").startswith(("fp8", "fp4", "nvfp4")):
        to = smaller_kv(view)
        changes.append(step(view, "set", "--kv-cache-dtype", to, "about twice the tokens; check quality first"))
    if pool and context and pool < context:
        to_ = int(pool * 0.95)
        why = "what is longer than the pool is then refused at once instead of ended midway"
        changes.append(step(view, "lower", "--context-length", to_, why, unit="tokens"))
    return plan(
        *changes,
        upgrade("later versions end that one request instead of the scheduler"),
        never=(("raise", "--context-length", "the request is already larger than the pool"),),
        alternatives=(("max_new_tokens capped below the pool", "at the client or gateway"),),
    )


ENTRIES = (
    Entry(
        "retraction.admission_too_aggressive",
        "More is admitted than can finish, and requests are thrown back and computed again.",
        for_=(
            Clue(4, THROWN_BACK, "requests are thrown back"),
            Clue(
                2,
                both(
                    THROWN_BACK,
                    setting_below("--schedule-conservativeness", 0.7),
                ),
                "admission was loosened",
            ),
        ),
        against=(
            Clue(3, said("crash_after_retraction", "last_request", "decode_alloc"), "it ends in a crash"),
            Clue(2, both(symptom("sliding_window"), symptom("single_request")), "a single request is thrown back"),
            Clue(1.5, setting_above("--max-running-requests", 200), "very many are allowed at once"),
            Clue(1.5, both(below_limit, QUEUED), "even fewer than the limit allows do not fit, and others wait"),
            Clue(3, symptom("single_request"), "one request alone is thrown back"),
            Clue(2, symptom("collapse"), "it never recovers"),
        ),
        settle=Question(
            "How often, and how far does new_token_ratio jump?",
            "retraction lines over an hour; each event is printed once per rank",
        ),
        neighbours=(
            ("retraction.kv_pool_overcommitted", "there far more run than the pool can hold at full length"),
            ("capacity.kv_pool_too_small", "there even few do not fit"),
        ),
        act=_admit_less,
    ),
    Entry(
        "retraction.kv_pool_overcommitted",
        "The running limit lets in far more than the pool holds at full length; throughput collapses in retractions.",
        for_=(
            Clue(
                3,
                both(
                    THROWN_BACK,
                    either(
                        symptom("collapse", "throughput_fell"),
                        setting_above("--max-running-requests", 200),
                    ),
                ),
                "throughput collapses in retractions",
            ),
            Clue(
                2.5,
                both(THROWN_BACK, symptom("collapse")),
                "it collapses after a retraction",
            ),
            Clue(1, above("retracted_requests", 20), "many are thrown back at once"),
            Clue(2, both(THROWN_BACK, above("retractions", 2), _very_many_run), "very many run and are thrown back"),
        ),
        against=(Clue(3, said("crash_after_retraction", "last_request"), "it ends in a crash"),),
        settle=Question("What do running x final length and the pool come to?", "decode lines; lengths of requests"),
        act=_fewer_in_pool,
    ),
    Entry(
        "retraction.last_request_cannot_fit",
        "One request alone outgrows the pool, and there is nothing left to take back.",
        for_=(
            Clue(6, said("last_request"), "no space was left for the only request"),
            Clue(2, both(symptom("single_request"), symptom("cache_full")), "a single request fills the pool"),
        ),
        settle=Question("How long was that request, and how large the pool?", "the error; ready line"),
        act=_last_one,
    ),
)
