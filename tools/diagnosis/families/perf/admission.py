"""Requests that are not let in although slots and memory are free."""

from __future__ import annotations

from tools.diagnosis import watches
from tools.diagnosis.changes import (
    HIGHER_FRACTION,
    plan,
    step,
)
from tools.diagnosis.clues import (
    Clue,
    Entry,
    Seen,
    above,
    both,
    either,
    fact,
    flag,
    lacks,
    said,
    setting_above,
    symptom,
)
from tools.diagnosis.conditions import (
    IDLE_CACHE,
    QUEUED,
    WAITING,
    at_prefill_budget,
    below_limit,
    fills_chunk,
    pinned,
)
from tools.diagnosis.model import Actions, Proposal, Question
from tools.diagnosis.view import View


def _nothing_runs(view: View) -> Seen | None:
    """Requests wait and not one runs: admission has stopped, it is not slow."""
    running, waiting = view.number("running_max"), view.number("queue_p95")
    if running is None or running > 0 or not waiting:
        return None
    return Seen(f"{waiting:g} wait, none runs", view.sources("queue_p95", "running_max"))


def _no_delay(view: View) -> Actions:
    changes = [
        step(view, "remove", name, None, "it holds requests back until more ranks have some")
        for name in ("--enable-prefill-delayer", "--min-free-slots-delay")
        if view.on(name)
    ]
    if not changes:
        changes = [
            step(view, "remove", "--enable-prefill-delayer", None, "it holds requests back until more ranks have some")
        ]
    return plan(
        *changes,
        never=(
            HIGHER_FRACTION,
            ("raise", "--max-running-requests", "requests are held back on purpose, not for lack of slots"),
            ("lower", "--schedule-conservativeness", "admission is delayed, not refused"),
        ),
        alternatives=(("a shorter delay", "where throughput needs some of it"),),
    )


def _admit_more(view: View) -> Actions:
    now = view.value("--schedule-conservativeness")
    changes = [
        step(
            view,
            "lower",
            "--schedule-conservativeness",
            round(max(0.1, (now if now is not None else 1.0) * 0.4), 2),
            "each running request reserves less of the output it may still write",
        )
    ]
    return plan(
        *changes,
        Proposal(
            "env",
            "lower",
            "SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION",
            view.env("SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION") or 4096,
            1024,
            "tokens",
            "the reserve per request is cut at this many tokens",
        ),
        never=(
            HIGHER_FRACTION,
            ("raise", "--schedule-conservativeness", "it admits fewer"),
            ("raise", "--max-running-requests", "the limit is not reached"),
        ),
        alternatives=(("max_tokens set by clients", "an unset one reserves the most"),),
        verify=(watches.USAGE, watches.RETRACTIONS_SOON, watches.QUEUE),
    )


def _radix_on(view: View) -> Actions:
    return plan(
        step(
            view,
            "remove",
            "--disable-radix-cache",
            None,
            "with it and ignore_eos each request reserves its whole output at admission",
        ),
        never=(
            ("lower", "--schedule-conservativeness", "it is not used on this path"),
            ("raise", "--max-running-requests", "the limit is not reached"),
        ),
        alternatives=(
            ("a benchmark without ignore_eos", "admission then estimates instead of reserving"),
            ("a larger pool", "for more requests at full length"),
        ),
    )


# What else holds requests back: the server or a flag says so, or another pool is measured to be full.
_OTHER_WALL = either(
    said("state_caps_running", "running_reduced_by_kv"),
    flag("--disable-radix-cache"),
    flag("--enable-prefill-delayer"),
    above("usage_max", 0.7, "state"),
    above("usage_max", 0.7, "swa"),
    symptom("tool_calls"),
)
_VERY_CAUTIOUS = setting_above("--schedule-conservativeness", 2)


def _conservative(view: View) -> Seen | None:
    value = view.value("--schedule-conservativeness")
    if value is None or value <= 1.0:
        return None
    return Seen(f"conservativeness {value:g}", view.flag_sources("--schedule-conservativeness"), "typed")


ENTRIES = (
    Entry(
        "perf.admission_delayer",
        "An admission delay holds requests back although slots and memory are free.",
        for_=(
            Clue(
                5,
                both(
                    either(flag("--enable-prefill-delayer"), flag("--min-free-slots-delay"), symptom("delayer")),
                    WAITING,
                ),
                "requests wait with a delay switched on",
            ),
            Clue(
                2,
                either(flag("--enable-prefill-delayer"), flag("--min-free-slots-delay"), symptom("delayer")),
                "a delay is switched on",
            ),
            Clue(4, said("prefill_held_back"), "the server says that it held requests back"),
        ),
        settle=Question("Does the wait go without the delay?", "queue time with and without it"),
        act=_no_delay,
    ),
    Entry(
        "perf.admission_too_conservative",
        "Admission reserves more for running requests than they will write, so others wait with the pool half empty.",
        for_=(
            Clue(
                4, both(_conservative, either(WAITING, IDLE_CACHE)), "requests wait and admission is set to be cautious"
            ),
            Clue(3, both(IDLE_CACHE, QUEUED, below_limit, lacks(_OTHER_WALL)), "requests wait, and no limit binds"),
            Clue(1.5, both(_VERY_CAUTIOUS, QUEUED, below_limit), "and far more is reserved than by default"),
            Clue(1.5, both(IDLE_CACHE, WAITING, lacks(fact("running_limit"))), "requests wait while the pool has room"),
            Clue(1.5, both(symptom("large_max_tokens"), WAITING), "clients ask for long outputs"),
        ),
        against=(
            Clue(3, pinned, "running requests stand at their limit"),
            Clue(2, above("usage_p95", 0.9), "the pool is full"),
            Clue(3, _nothing_runs, "nothing runs at all"),
            Clue(2.5, either(at_prefill_budget, fills_chunk), "prefill batches are full"),
            Clue(2, symptom("forgets_conversations", "hit_rate_fell", "hit_rate_low"), "what suffers is reuse"),
            Clue(2, said("batch_full_flag"), "another reason is printed"),
            Clue(2, symptom("after_burst", "queue_never_drains", "hangs"), "it never recovers"),
        ),
        settle=Question(
            "Does it ease after 600 decode steps, or with a max_tokens set by clients?",
            "decode lines over some minutes; new_token_ratio",
        ),
        act=_admit_more,
        questions=("admission",),
    ),
    Entry(
        "perf.admission_reserves_full_output",
        (
            "With the radix cache off and ignore_eos each request "
            "reserves its whole output, so fewer run than the pool shows."
        ),
        for_=(
            Clue(
                4,
                both(flag("--disable-radix-cache"), IDLE_CACHE, WAITING),
                "requests wait with a part-empty pool and the radix cache off",
            ),
            Clue(
                2,
                both(flag("--disable-radix-cache"), symptom("ignore_eos", "few_running")),
                "the benchmark writes every output to its end",
            ),
        ),
        against=(Clue(2, above("usage_p95", 0.93), "the pool is full"),),
        settle=Question("Does running x (input + output) equal the pool?", "decode lines; the benchmark's lengths"),
        act=_radix_on,
    ),
)
