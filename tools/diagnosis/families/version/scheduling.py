"""Schedulers, collectives and queues of a version that wait for ever or admit too little."""

from __future__ import annotations

import math

from tools.diagnosis.changes import FRACTION, NOT_MEMORY, plan, step, upgrade
from tools.diagnosis.clues import (
    Clue,
    Entry,
    Seen,
    above,
    below,
    both,
    either,
    env,
    fact,
    flag,
    lacks,
    said,
    setting_above,
    symptom,
)
from tools.diagnosis.conditions import FULL_CACHE, SPECULATES, THROWN_BACK, pool_carries_no_more
from tools.diagnosis.measured import stands_in
from tools.diagnosis.model import Actions, Proposal, Question
from tools.diagnosis.view import View


def _no_overlap(view: View) -> Actions:
    return plan(
        step(view, "set", "--disable-overlap-schedule", True, "the scheduler and the forward step wait for each other"),
        upgrade("later versions corrected the order"),
        never=(("raise", "--watchdog-timeout", "it hides the deadlock"), *NOT_MEMORY[1:]),
    )


def _spec_v1(view: View) -> Actions:
    return plan(
        Proposal(
            "env",
            "set",
            "SGLANG_ENABLE_SPEC_V2",
            view.env("SGLANG_ENABLE_SPEC_V2") or None,
            "0",
            "",
            "this version runs grammar requests one after the other on that path",
        ),
        upgrade("later versions batch them"),
        never=(("raise", "--max-running-requests", "no limit is reached"), ("raise", FRACTION, "memory is not short")),
        alternatives=(("speculation off for tool traffic", "a second server without it"),),
    )


def _one_tokenizer(view: View) -> Actions:
    return plan(
        step(
            view,
            "set",
            "--tokenizer-worker-num",
            1,
            "with several workers a refusal reaches the wrong one and the client waits for ever",
        ),
        upgrade("later versions send it to the right worker"),
        never=(("raise", "--watchdog-timeout", "it hides the lost answer"), *NOT_MEMORY[1:]),
        alternatives=(("no --max-queued-requests", "then nothing is refused"),),
    )


def _collective(view: View) -> Actions:
    return plan(
        upgrade("later versions keep the ranks' collectives in step"),
        step(view, "remove", "--enable-dp-attention", None, "or run without it until then"),
        never=(
            ("raise", "--watchdog-timeout", "it hides the hang"),
            ("raise", "--dist-timeout", "it hides the hang"),
            *NOT_MEMORY[1:],
        ),
    )


def _batch_full(view: View) -> Actions:
    limit = view.value("--max-running-requests")
    extra = max(1.0, view.value("--dp-size") or 1, limit if limit is not None and limit <= 4 else 1)
    return plan(
        upgrade("later versions clear the flag"),
        *(
            [
                step(
                    view,
                    "raise",
                    "--max-running-requests",
                    int(limit + extra),
                    "until then one slot more per rank",
                    unit="requests",
                )
            ]
            if limit
            else []
        ),
        never=(
            ("raise", FRACTION, "memory is not short"),
            ("lower", "--schedule-conservativeness", "admission is not what refuses"),
        ),
    )


def _one_short(view: View) -> Seen | None:
    limit, running = view.value("--max-running-requests"), view.number("running_max")
    dp = view.value("--dp-size") or 1
    if limit is None or running is None or not view.number("queue_max"):
        return None
    shares = {limit / dp, *(number for number in (limit / 8, limit / 4, limit / 2) if dp > 1)}
    if running + 1 not in shares:
        return None
    return Seen(f"{running:g} running of {running + 1:g}", view.sources("running_max", "queue_max"))


def _starved(view: View) -> Seen | None:
    """Hardly anything runs, very many wait, and the pool is nearly empty."""
    running, queue, usage = view.number("running_max"), view.number("queue_p95"), view.usage
    if running is None or queue is None or usage is None or running > 8 or queue < 50 or usage > 0.1:
        return None
    return Seen(f"{running:g} running, {queue:g} waiting, usage {usage:.2f}", view.sources("running_max", "queue_p95"))


# Where ranks under DP attention agree on the next batch (0.5.9 srt/managers/scheduler_dp_attn_mixin.py).
_IN_SYNC = stands_in(
    "prepare_mlp_sync_batch", "maybe_prepare_mlp_sync_batch", "prepare_mlp_sync_batch_raw", "all_gather", file="dp_attn"
)


def _gauge(view: View, name: str) -> float | None:
    return view.number("metric", name)


def _nothing_left(view: View) -> Seen | None:
    """By its metrics nothing runs and nothing waits, while connections are open."""
    running, queue = _gauge(view, "num_running_reqs"), _gauge(view, "num_queue_reqs")
    open_ = view.number("connections")
    waits = symptom("clients_wait", "hangs", "stragglers")(view)
    if running != 0 or queue != 0 or (not waits and (open_ or 0) < 50):
        return None
    return Seen(f"0 running, 0 waiting, {open_ or 0:g} connections", view.sources("metric", "connections"))


_SEVERAL = either(setting_above("--tokenizer-worker-num", 2), symptom("tokenizer_workers"))


def _queue_at_bound(view: View) -> Seen | None:
    """As many waited as the bounded queue takes."""
    bound, queue = view.value("--max-queued-requests"), view.number("queue_max")
    if not bound or queue is None or queue < bound:
        return None
    return Seen(f"{queue:g} waiting of {bound:g}", view.sources("queue_max"))


def _one_while_others_wait(view: View) -> Seen | None:
    """A load line shows one running request, and requests waited although the pool had room."""
    fewest = min(view.number("running_p50", scope) or math.inf for scope in ("", "all"))
    queue, usage = view.number("queue_max"), view.usage
    if fewest > 1 or not queue or (usage or 0) > 0.5:
        return None
    return Seen(f"1 running, {queue:g} waiting", view.sources("running_p50", "queue_max"))


def _nothing_runs(view: View) -> Seen | None:
    """By its metrics or its decode lines nothing runs while many wait and the pool is empty."""
    running, queue, usage = (_gauge(view, name) for name in ("num_running_reqs", "num_queue_reqs", "token_usage"))
    if running != 0 or queue is None or queue < 8 or (usage or 0) > 0.1:
        return None
    return Seen(f"0 running, {queue:g} waiting", view.sources("metric"))


ENTRIES = (
    Entry(
        "version.overlap_schedule_deadlock",
        "The overlapped scheduler and the forward step wait for each other.",
        for_=(
            Clue(4, both(symptom("hangs"), symptom("overlap")), "it hangs with the overlapped scheduler"),
            Clue(
                2,
                both(
                    said("watchdog"),
                    lacks(flag("--disable-overlap-schedule")),
                    lacks(either(fact("oom_request_gib"), said("cuda_oom", "nccl_error"))),
                    lacks(either(_IN_SYNC, stands_in("evict"))),
                ),
                "the watchdog ends a step that never returns",
            ),
            Clue(
                5,
                both(
                    stands_in(
                        "event_loop_overlap", "event_loop_overlap_disagg_decode", "event_loop_overlap_disagg_prefill"
                    ),
                    stands_in(
                        "synchronize", "resolve_last_batch_result", "resolve_future_token_ids", "wait", "get", "acquire"
                    ),
                    lacks(either(_IN_SYNC, stands_in("evict"))),
                    lacks(said("cuda_oom", "nccl_error")),
                ),
                "the overlapped loop waits for a result that does not come",
            ),
        ),
        act=_no_overlap,
        settle=Question(
            "Where do the threads wait, and did a card or a collective fail first?",
            "py-spy dump of every scheduler, by the operator; journalctl -k | grep Xid; NCCL lines before it",
        ),
        neighbours=(("version.dp_attention_collective_hang", "there all ranks wait in one collective"),),
    ),
    Entry(
        "version.dp_attention_collective_hang",
        "Under DP attention ranks enter different collectives and wait for each other.",
        for_=(
            Clue(
                5,
                both(
                    either(flag("--enable-dp-attention"), symptom("dp_attention")),
                    either(symptom("hangs"), said("watchdog", "nccl_timeout")),
                    lacks(symptom("prefill_slow")),
                ),
                "ranks hang under DP attention",
            ),
            Clue(
                6,
                both(
                    either(flag("--enable-dp-attention"), symptom("dp_attention")),
                    _IN_SYNC,
                    either(
                        symptom("hangs"),
                        said("watchdog", "nccl_timeout", "collective_timeout"),
                        symptom("dies_in_warmup"),
                    ),
                ),
                "ranks wait where they agree on the next batch",
            ),
        ),
        act=_collective,
        settle=Question("Which collective does each rank wait in?", "py-spy dump of every rank"),
        against=(
            Clue(3, either(said("graph_progress"), symptom("dies_in_capture")), "it stops around capture"),
            Clue(2, both(flag("--disaggregation-mode"), lacks(_IN_SYNC)), "roles are split"),
        ),
    ),
    Entry(
        "version.lost_queue_rejections_multi_tokenizer",
        "With several tokenizer workers a refusal of the full queue is lost, and the client waits for ever.",
        for_=(
            Clue(
                5,
                both(
                    either(setting_above("--tokenizer-worker-num", 2), symptom("tokenizer_workers")),
                    symptom("hangs", "clients_wait", "stragglers"),
                ),
                "clients hang with several tokenizer workers",
            ),
            Clue(
                2,
                both(flag("--max-queued-requests"), symptom("hangs", "clients_wait")),
                "clients hang with a bounded queue",
            ),
            Clue(3, both(_SEVERAL, said("queue_full")), "the full queue refused requests"),
            Clue(3, both(_SEVERAL, _queue_at_bound), "the queue reached its bound, where requests are refused"),
            Clue(
                3,
                both(either(setting_above("--tokenizer-worker-num", 2), symptom("tokenizer_workers")), _nothing_left),
                "the server has nothing left to do while clients are still connected",
            ),
        ),
        against=(Clue(3, lacks(_SEVERAL), "there is one tokenizer"),),
        act=_one_tokenizer,
    ),
    Entry(
        "version.spec_v2_tool_serialisation",
        "Requests with tools or grammar run one after the other on this version's speculative path.",
        for_=(
            Clue(
                5,
                both(
                    symptom("tool_calls"),
                    symptom("few_running", "one_at_a_time"),
                    either(SPECULATES, env("SGLANG_ENABLE_SPEC_V2")),
                ),
                "only one runs as soon as tools are used",
            ),
            Clue(1, env("SGLANG_ENABLE_SPEC_V2", "true", "1"), "the second speculative path is on"),
            Clue(
                2,
                both(symptom("tool_calls"), _one_while_others_wait, either(SPECULATES, env("SGLANG_ENABLE_SPEC_V2"))),
                "one was seen to run while others waited",
            ),
        ),
        against=(Clue(2, symptom("content_misplaced"), "calls are parsed wrongly"),),
        act=_spec_v1,
    ),
    Entry(
        "version.batch_full_stale_flag",
        "A flag that the batch is full stays set, so nothing more is admitted.",
        for_=(
            Clue(
                5,
                both(
                    symptom("after_burst", "after_retraction", "collapse"),
                    either(symptom("queue_never_drains", "requests_wait", "collapse"), symptom("few_running")),
                    either(symptom("cache_idle"), symptom("never_recovers", "collapse", "stays_low")),
                ),
                "after a burst or retraction nothing more is admitted",
            ),
            Clue(6, said("batch_full_flag"), "the flag is named"),
            Clue(
                6,
                both(_nothing_runs, lacks(symptom("disaggregated")), lacks(said("watchdog", "cuda_oom", "nccl_error"))),
                "nothing runs, the pool is empty, and many wait",
            ),
            Clue(4, both(_starved, lacks(flag("--max-running-requests"))), "hardly anything runs and very many wait"),
            Clue(2, both(_starved, said("retraction")), "it began with a retraction"),
            Clue(
                4,
                both(symptom("hangs"), symptom("small_limit"), lacks(symptom("overlap"))),
                "nothing more is admitted once the few slots were taken at once",
            ),
            Clue(1, symptom("never_recovers"), "it never recovers"),
            Clue(
                4,
                both(
                    symptom("no_lines_after"),
                    below("usage_max", 0.2),
                    either(above("queue_max", 1), symptom("queue_rises")),
                    lacks(said("watchdog", "cuda_oom", "nccl_error")),
                ),
                "no batch is formed any more while the queue grows and the pool is empty",
            ),
        ),
        against=(
            Clue(5, above("usage_max", 0.9), "the pool is full"),
            Clue(2, symptom("prefill_slow"), "prefill goes on, slowly"),
        ),
        act=_batch_full,
        settle=Question(
            "Is the queue full while running and usage stay low after a retraction?", "decode lines after it"
        ),
    ),
    Entry(
        "version.batch_full_double_count",
        "A slot per rank is counted twice, so one request less runs than allowed.",
        for_=(
            Clue(
                5,
                both(
                    symptom("one_slot_short"),
                    either(flag("--dp-size"), flag("--max-running-requests"), symptom("few_running")),
                ),
                "one less runs than allowed",
            ),
            Clue(6, _one_short, "each rank runs one less than its share while others wait"),
            Clue(2, symptom("one_slot_short"), "one less runs than allowed"),
        ),
        against=(
            Clue(4, FULL_CACHE, "the pool is full"),
            Clue(4, THROWN_BACK, "requests are thrown back, so memory binds"),
            Clue(4, pool_carries_no_more, "the pool carries no more than the limit allows"),
        ),
        act=_batch_full,
    ),
)
