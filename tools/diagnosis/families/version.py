"""Faults and changes tied to a version."""

from __future__ import annotations

from tools.diagnosis.changes import FRACTION, NOT_MEMORY, plan, raise_fraction, step, upgrade
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
    fact_is,
    flag,
    lacks,
    said,
    setting_above,
    symptom,
)
from tools.diagnosis.conditions import HICACHE, REJECTED, SPECULATES, known_foreign, underscored
from tools.diagnosis.foreign import changes_for_rejected
from tools.diagnosis.measured import fell, rose, stands_in, steady
from tools.diagnosis.model import Actions, Proposal, Question
from tools.diagnosis.view import View


def _renamed(view: View) -> Actions:
    return plan(
        *changes_for_rejected(view),
        alternatives=(("leave it while it is only a warning", "it goes in a later version"),),
    )


def _free_window(view: View) -> Actions:
    now = view.value("--swa-full-tokens-ratio") or 0.8
    return plan(
        upgrade("later versions free what left the window on this path too"),
        step(
            view,
            "raise",
            "--swa-full-tokens-ratio",
            round(min(1.0, now * 3), 2),
            "until then a window pool that one long request does not fill",
            unit="ratio",
        ),
        never=(
            ("raise", FRACTION, "the full pool has room"),
            ("raise", "--schedule-conservativeness", "one request alone is thrown back"),
            ("lower", "--swa-full-tokens-ratio", "the window pool is the one that fills"),
        ),
    )


def _fixed_later(view: View) -> Actions:
    changes = [upgrade("the fault is in this version; a later one has the fix")]
    if symptom("sliding_window")(view) or view.typed("--swa-full-tokens-ratio"):
        now = view.value("--swa-full-tokens-ratio") or 0.8
        changes.append(
            step(
                view,
                "raise",
                "--swa-full-tokens-ratio",
                round(min(1.0, now * 2), 2),
                "less pressure on the window pool until then",
                unit="ratio",
            )
        )
    return plan(
        *changes,
        never=(
            ("raise", FRACTION, "no memory is short"),
            ("lower", FRACTION, "no memory is short"),
            ("set", "--disable-cuda-graph", "it hides the fault and costs speed"),
            ("lower", "--swa-full-tokens-ratio", "more pressure on the window pool"),
        ),
        alternatives=(("the feature that is new in this start, off", "until the upgrade"),),
    )


def _upgrade_only(view: View) -> Actions:
    return plan(
        upgrade("the fault is in this version; a later one has the fix"),
        never=NOT_MEMORY[1:],
        alternatives=(("the previous version", "where it worked"),),
    )


def _raise_after_draft(view: View) -> Actions:
    return plan(
        raise_fraction(
            view,
            "what the draft loaded and gave back after the pools were sized lies idle; take it back in a small step",
            0.02,
        ),
        never=(("lower", FRACTION, "memory lies idle already"), ("remove", "--kv-cache-dtype", "it halves the pool")),
        alternatives=(("upgrade", "later versions share these tensors before sizing"),),
    )


def _no_prefill_graph(view: View) -> Actions:
    old = view.before(0, 5, 16)
    change = (
        step(view, "set", "--disable-piecewise-cuda-graph", True, "decode graphs stay on; only prefill graphs go")
        if old
        else step(
            view, "set", "--cuda-graph-backend-prefill", "disabled", "decode graphs stay on; only prefill graphs go"
        )
    )
    return plan(
        change,
        never=(
            ("lower", FRACTION, "no memory is short"),
            ("set", "--disable-cuda-graph", "decode graphs are not at fault"),
            ("raise", "--watchdog-timeout", "it hides the cause"),
            ("set", "--skip-server-warmup", "the next request would fail instead"),
        ),
        alternatives=(
            ("a longer context", "where graph buckets exceed it"),
            ("upgrade", "later versions bound the buckets"),
        ),
    )


def _page_one(view: View) -> Actions:
    return plan(
        upgrade("later versions count whole pages before decode"),
        step(view, "set", "--page-size", 1, "tokens and pages are then the same", unit="tokens"),
        never=(
            ("raise", FRACTION, "there is room; it is counted wrongly"),
            ("raise", "--max-running-requests", "more requests cross page borders at once"),
        ),
        alternatives=(("lower --max-running-requests", "fewer requests cross page borders at once"),),
    )


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


def _integration(view: View) -> Actions:
    changes = []
    if said("lmcache_needs_file")(view):
        changes.append(
            step(
                view,
                "set",
                "--lmcache-config-file",
                "your YAML with mp_host and mp_port",
                "this version starts the connector from a file and a server of its own",
            )
        )
    else:
        changes.append(upgrade("the two versions must match; take the pair that the integration documents"))
    return plan(
        *changes,
        never=(("set", "LMCACHE_CONFIG_FILE", "the variable is not read here"), *NOT_MEMORY),
        alternatives=(("--enable-hierarchical-cache", "the built-in host tier"),),
    )


def _given_back(view: View) -> Seen | None:
    """More is free at the end than after the weights: something was still held when the pool was measured."""
    after, free = view.number("weights_after_gib", ""), view.number("free_after_boot_gib")
    if after is None or free is None or free < after + 2:
        return None
    return Seen(
        f"{after:g} GiB after the weights, {free:g} at the end",
        view.sources("weights_after_gib", "free_after_boot_gib"),
    )


def _idle_beyond_reserve(view: View) -> Seen | None:
    """What is free after the start exceeds what the fraction leaves out by more than a tenth of the card."""
    after, took = view.number("weights_after_gib", ""), view.number("weights_gib", "")
    free, fraction = view.number("free_after_boot_gib"), view.value(FRACTION)
    if after is None or took is None or free is None or fraction is None:
        return None
    before = after + took
    idle = free - before * (1 - fraction)
    if idle < 0.1 * before:
        return None
    return Seen(f"{idle:.1f} GiB beyond the reserve", view.sources("free_after_boot_gib", "weights_after_gib"))


def _budget_early(view: View) -> Actions:
    idle = either(_given_back, _idle_beyond_reserve, symptom("cache_full", "pool_small", "idle_gpu_memory"))
    return plan(
        upgrade("later versions measure after what is allocated late"),
        raise_fraction(view, "until then take back what lies idle, in a small step", 0.02)
        if idle(view)
        else Proposal(
            "flag",
            "lower",
            FRACTION,
            view.value(FRACTION),
            round((view.value(FRACTION) or 0.88) - 0.05, 2),
            "fraction",
            "until then leave room for what is allocated after the measurement",
        ),
    )


def _leak(view: View) -> Actions:
    changes = [upgrade("host memory is not given back in this version")]
    if view.typed("--hicache-storage-prefetch-policy") or symptom("prefetching")(view):
        changes.append(
            step(view, "set", "--hicache-storage-prefetch-policy", "timeout", "ends fetches that are no longer wanted")
        )
    return plan(
        *changes,
        never=(
            ("raise", "--hicache-ratio", "more of what grows"),
            ("raise", "--hicache-size", "more of what grows"),
            *NOT_MEMORY[1:],
        ),
        alternatives=(("a restart at a quiet hour", "gives the memory back until then"),),
    )


_HYBRID = either(symptom("hybrid_state"), flag("--max-mamba-cache-size"), fact("state_slots"))


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


def _nothing_runs(view: View) -> Seen | None:
    """By its metrics or its decode lines nothing runs while many wait and the pool is empty."""
    running, queue, usage = (_gauge(view, name) for name in ("num_running_reqs", "num_queue_reqs", "token_usage"))
    if running != 0 or queue is None or queue < 8 or (usage or 0) > 0.1:
        return None
    return Seen(f"0 running, {queue:g} waiting", view.sources("metric"))


ENTRIES = (
    Entry(
        "version.flag_renamed",
        "The flag has another name in this version.",
        for_=(
            Clue(5, said("deprecated_flag"), "the server says that the flag is deprecated"),
            Clue(
                3,
                both(REJECTED, symptom("after_upgrade"), lacks(known_foreign), lacks(underscored)),
                "a flag that worked is refused after an upgrade",
            ),
            Clue(1.5, symptom("what_replaces"), "the operator asks what replaces it"),
            Clue(5, fact_is("rejected_flag", "ambiguous"), "the old name is now the beginning of several new ones"),
        ),
        act=_renamed,
    ),
    Entry(
        "version.bug_fixed_upstream",
        "A fault of this version that a later one corrects.",
        for_=(
            Clue(5, said("crash_after_retraction"), "a crash in a path that memory pressure opens"),
            Clue(
                3,
                both(said("illegal_access", "index_out_of_bounds", "nan"), lacks(HICACHE), lacks(SPECULATES)),
                "a kernel faults",
            ),
            Clue(4, said("pool_leak"), "the server reports a leak of its pool"),
            Clue(
                2,
                both(symptom("garbled_output"), lacks(flag("--kv-cache-dtype")), lacks(symptom("fp8_kv"))),
                "the output is wrong",
            ),
            Clue(1.5, said("assertion"), "an assertion of the server's own failed"),
        ),
        act=_fixed_later,
    ),
    Entry(
        "version.radix_eviction_breaks_speculation",
        "After cached prefixes are evicted, drafts or state are wrong and output degenerates.",
        for_=(
            Clue(
                5,
                both(
                    either(symptom("repeats_token", "garbled_output"), symptom("accept_fell")),
                    either(SPECULATES, symptom("draft_on"), _HYBRID),
                    symptom("after_eviction"),
                ),
                "output degenerates after evictions",
            ),
            Clue(
                3,
                both(symptom("repeats_token"), either(SPECULATES, symptom("draft_on", "hybrid_state"), _HYBRID)),
                "one token repeats with a draft or state",
            ),
            Clue(
                2.5,
                both(symptom("accept_fell"), either(HICACHE, symptom("host_cache", "after_eviction"))),
                "accept length falls after cache traffic",
            ),
            Clue(
                4,
                both(
                    either(fell("accept_len", 0.75), fell("accept_share", 0.7)),
                    either(HICACHE, symptom("host_cache", "after_eviction")),
                ),
                "accept length was measured to fall while prefixes come and go",
            ),
            Clue(
                3,
                both(
                    either(fell("accept_len", 0.75), symptom("accept_fell")), symptom("restored_by_flush"), SPECULATES
                ),
                "emptying the cache restores it",
            ),
        ),
        act=lambda view: plan(
            upgrade("later versions restore what belongs to the prefix"),
            step(view, "set", "--disable-radix-cache", True, "until then no stale prefix can be taken"),
            never=NOT_MEMORY[1:],
        ),
        settle=Question("Does flush_cache in a quiet moment bring it back?", "accept length before and after"),
    ),
    Entry(
        "version.draft_pool_smaller_than_target",
        "The draft's pool is smaller than the target's, so it is indexed out of bounds.",
        for_=(
            Clue(
                6,
                both(said("index_out_of_bounds"), either(SPECULATES, symptom("draft_on"))),
                "an index is out of bounds with a draft",
            ),
            Clue(
                3,
                both(said("illegal_access"), SPECULATES, symptom("sliding_window")),
                "illegal access with a draft and a window pool",
            ),
        ),
        against=(Clue(2, symptom("garbled_output"), "the output is wrong, nothing crashes"),),
        act=_upgrade_only,
        settle=Question("Are the two pool lines of the same size?", "boot log: both KV pool lines"),
    ),
    Entry(
        "version.draft_embed_charged_to_kv",
        "The draft's own embedding and head are counted when the pool is sized and freed afterwards.",
        for_=(
            Clue(
                4,
                both(either(SPECULATES, symptom("draft_on")), symptom("draft_costs_cache")),
                "a small draft costs much cache",
            ),
            Clue(
                1,
                both(fact("weights_gib", "draft"), symptom("draft_costs_cache")),
                "the draft's weights are larger than its layers",
            ),
        ),
        act=_raise_after_draft,
        settle=Question("How much is free after start, against the reserve?", "ready line: available_gpu_mem"),
    ),
    Entry(
        "version.kv_budget_measured_too_early",
        "The pool is sized before or while other memory is taken or given back, so it is wrong.",
        for_=(
            Clue(4, symptom("measured_early"), "memory is measured before it settles"),
            Clue(7, _given_back, "more is free after the start than right after the weights"),
            Clue(4, both(_idle_beyond_reserve, lacks(_given_back)), "far more is free than the fraction leaves out"),
            Clue(
                2, both(symptom("idle_gpu_memory"), symptom("pool_small")), "GPU memory lies idle and the pool is small"
            ),
        ),
        against=(
            Clue(2, symptom("unified_memory"), "memory is shared with the host"),
            Clue(2, symptom("draft_costs_cache"), "it comes with a draft"),
        ),
        act=_budget_early,
        settle=Question("Does free memory after start agree with T x (1 - f)?", "boot log: avail mem lines in order"),
    ),
    Entry(
        "version.prefill_graph_bucket_exceeds_context",
        "Prefill graphs are warmed up for more tokens than the context has.",
        for_=(
            Clue(6, said("piecewise_failed"), "warming up prefill graphs fails"),
            Clue(2, both(symptom("prefill_graphs"), symptom("tiny_context")), "prefill graphs with a tiny context"),
        ),
        act=_no_prefill_graph,
    ),
    Entry(
        "version.prefill_graph_hang",
        "Prefill graphs leave the server hanging after it has started.",
        for_=(
            Clue(
                5,
                both(
                    either(said("detokenizer_silent"), symptom("health_503", "hangs", "first_request_hangs")),
                    symptom("prefill_graphs"),
                ),
                "no answer after prefill graphs were captured",
            ),
            Clue(
                3,
                both(said("detokenizer_silent"), symptom("health_503", "first_request_hangs")),
                "health fails and the first request hangs",
            ),
            Clue(1.5, said("detokenizer_silent"), "the detokenizer stays silent"),
        ),
        against=(
            Clue(2, said("permission_denied", "cache_dir_denied", "cuda_oom", "killed"), "a process died"),
            Clue(2, symptom("after_hours"), "it served for hours first"),
        ),
        act=_no_prefill_graph,
        settle=Question("Does it answer without prefill graphs?", "one start with them off"),
    ),
    Entry(
        "version.page_accounting_bug",
        "The server counts tokens where it allocates pages, and fails with room to spare.",
        for_=(
            Clue(
                5,
                both(
                    said("decode_alloc", "prefill_alloc"),
                    either(setting_above("--page-size", 2), fact("wanted_below_available")),
                ),
                "an allocation fails although enough tokens are available",
            ),
            Clue(2, fact("wanted_below_available"), "less was asked for than was available"),
        ),
        act=_page_one,
        settle=Question("How many tokens were asked for and how many were available?", "the error's figures"),
    ),
    Entry(
        "version.allocator_stranding",
        "A version's own buffers are allocated anew and stranded, so free memory drains with every request.",
        for_=(
            Clue(
                4,
                both(
                    symptom("creeps"),
                    either(said("device_out_of_resources"), said("cuda_oom"), symptom("gpu_memory_out")),
                ),
                "free GPU memory shrinks with every request",
            ),
            Clue(2, symptom("creeps"), "free GPU memory shrinks with time"),
            Clue(4, both(fell("gpu_free", 0.8), steady("gpu_free")), "free GPU memory was measured to shrink"),
        ),
        act=lambda view: plan(
            upgrade("later versions use a buffer of fixed size"),
            never=(("raise", FRACTION, "less would be left"),),
            alternatives=(("a lower fraction", "delays it"), ("a restart at a quiet hour", "gives it back")),
        ),
        settle=Question("Free GPU memory over hours at the same load.", "nvidia-smi every minute"),
        neighbours=(("oom.runtime.allocator_fragmentation", "there the reserve is large and unallocated"),),
    ),
    Entry(
        "version.host_memory_leak",
        "Host memory grows with time and is not given back.",
        for_=(
            Clue(5, symptom("host_memory_grows"), "host memory grows with time"),
            Clue(
                5,
                both(rose("rss_gib", 1.15), steady("rss_gib"), lacks(symptom("host_memory_grows"))),
                "resident memory was measured to grow",
            ),
            Clue(1, both(symptom("host_memory_grows"), HICACHE), "with a host cache on"),
        ),
        act=_leak,
        settle=Question("Resident memory per process over hours.", "ps or smaps every minute"),
    ),
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
            Clue(
                1.5,
                both(symptom("hangs"), symptom("overlap")),
                "it hangs with a small running limit",
            ),
        ),
        act=_no_overlap,
        settle=Question("Where do the threads wait?", "py-spy dump, by the operator"),
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
            Clue(
                3,
                both(either(setting_above("--tokenizer-worker-num", 2), symptom("tokenizer_workers")), _nothing_left),
                "the server has nothing left to do while clients are still connected",
            ),
        ),
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
        ),
        against=(
            Clue(3, above("usage_max", 0.9), "the pool is full"),
            Clue(2, symptom("prefill_slow"), "prefill goes on, slowly"),
        ),
        act=_batch_full,
        settle=Question(
            "Is the queue full while running and usage stay low after a retraction?", "decode lines after it"
        ),
    ),
    Entry(
        "version.swa_eviction_missing_in_spec_path",
        "With speculative decoding, tokens that left the window are not freed, so one request fills the window pool.",
        for_=(
            Clue(
                6,
                both(SPECULATES, above("usage_max", 0.95, "swa"), below("usage_max", 0.8, "full")),
                "the window pool fills with speculative decoding while the full pool has room",
            ),
            Clue(2, both(SPECULATES, symptom("sliding_window"), symptom("single_request")), "one request alone"),
            Clue(
                3,
                both(SPECULATES, fact("window_holds_all_tokens")),
                "the window pool holds as many tokens as the full one: none was freed",
            ),
        ),
        act=_free_window,
        settle=Question("Does #swa token equal #full token of one long request?", "decode lines: full and swa tokens"),
        neighbours=(("capacity.swa_ratio_misallocated", "there many requests share the window pool"),),
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
        act=_batch_full,
    ),
    Entry(
        "version.integration_changed",
        "An external cache or connector is started in another way in this version.",
        for_=(
            Clue(6, said("lmcache_needs_file", "integration_error"), "the integration asks for another setting"),
            Clue(
                2,
                both(either(flag("--enable-lmcache"), symptom("lmcache")), symptom("after_upgrade", "flag_refused")),
                "the connector fails after an upgrade",
            ),
        ),
        act=_integration,
    ),
)
