"""Speed and fairness problems with memory to spare, and retractions."""

from __future__ import annotations

from tools.diagnosis.changes import HICACHE_FOR_RUNNING, Forbidden, fewer_running, plan, scale, step, upgrade
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
    setting_below,
    symptom,
    when,
)
from tools.diagnosis.conditions import IDLE_CACHE, QUEUED, THROWN_BACK, WAITING, below_limit, pinned
from tools.diagnosis.model import Actions, Proposal, Question
from tools.diagnosis.view import View

_FRACTION_UP: Forbidden = ("raise", "--mem-fraction-static", "memory is not what binds")
_MANY = 100  # requests at once; where fewer fill the pool, the pool is what is small
_DP = either(flag("--enable-dp-attention"), when(lambda view: view.on("--enable-dp-attention")))


def _above_graph(view: View) -> Seen | None:
    captured, running = (
        view.number("graph_max_bs") or view.value("--cuda-graph-max-bs"),
        view.number("running_p95") or view.number("running_max"),
    )
    if captured is None or running is None or running <= captured:
        return None
    return Seen(f"{running:g} running, captured up to {captured:g}", view.sources("running_p95", "graph_max_bs"))


def _capture_more(view: View) -> Actions:
    captured, running = (
        view.number("graph_max_bs") or view.value("--cuda-graph-max-bs") or 32,
        view.number("running_max") or view.number("running_p95") or 0,
    )
    to = int(max(captured * 2, -(-running // 32) * 32))
    limit = view.value("--max-running-requests") or view.number("running_limit")
    why = "batches above the captured size run without graphs; capture what really runs"
    kept = "and keep the batch at what is captured"
    return plan(
        step(view, "raise", "--cuda-graph-max-bs", to, why, unit="requests"),
        *([step(view, "lower", "--max-running-requests", to, kept, unit="requests")] if (limit or to + 1) > to else []),
        never=(
            ("set", "--disable-cuda-graph", "every step would then be slow"),
            ("lower", "--mem-fraction-static", "memory is not short"),
            HICACHE_FOR_RUNNING,
        ),
        verify=(("share of decode lines with cuda graph: True", 900, "above 0.95", "below 0.5"),),
    )


def _chunk_for_all(view: View) -> Actions:
    dp = view.value("--dp-size") or 1
    now = view.value("--chunked-prefill-size") or view.number("chunked_prefill_size") or 8192
    return plan(
        step(
            view,
            "raise",
            "--chunked-prefill-size",
            int(max(4096 * dp, now * 2)),
            f"the budget is divided by dp: about 4096 for each of {dp:g} ranks",
            unit="tokens",
        ),
        never=(("lower", "--chunked-prefill-size", "each rank would get even less"), _FRACTION_UP, HICACHE_FOR_RUNNING),
        alternatives=(
            ("--enable-prefill-delayer", "lets ranks prefill together"),
            ("tensor parallel attention", "for latency rather than throughput"),
        ),
    )


def _decode_turns(view: View) -> Actions:
    changes = []
    now = view.value("--schedule-conservativeness")
    if now is not None and now < 1:
        changes.append(
            step(
                view,
                "raise",
                "--schedule-conservativeness",
                1.0,
                "admission was loosened; every admission starts another prefill",
            )
        )
    modern = not view.before(0, 5, 17)
    if modern and not view.value("--prefill-decode-interval"):
        changes.append(
            step(
                view,
                "set",
                "--prefill-decode-interval",
                4,
                "guarantees decode rounds between prefill batches",
                unit="rounds",
            )
        )
    chunk = view.value("--chunked-prefill-size")
    if chunk is None or chunk > 2048:
        changes.append(
            step(
                view,
                "lower",
                "--chunked-prefill-size",
                int(max(2048, (chunk or 8192) / 2)),
                "shorter prefill steps between decode steps",
                unit="tokens",
            )
        )
    return plan(
        *changes,
        never=(
            ("raise", "--chunked-prefill-size", "decode would wait longer for each chunk"),
            ("lower", "--schedule-conservativeness", "more prefill would cut in"),
            ("set", "--num-continuous-decode-steps", "it does not hold prefill back"),
            ("lower", "--max-running-requests", "the order of the work is wrong, not its amount"),
            *(
                (("set", "--enable-mixed-chunk", "speculative decoding switches it off again"),)
                if view.speculative
                else ()
            ),
        ),
        alternatives=(
            ("prefill/decode disaggregation", "decode never waits for prefill"),
            ("--enable-mixed-chunk", "without speculative decoding"),
        ),
        verify=(
            ("inter-token latency, p95", 900, "lower", "higher"),
            ("time to first token, p95", 900, "no worse than a tenth", "doubled"),
        ),
    )


def _shorter_interval(view: View) -> Actions:
    steps, interval = "--num-continuous-decode-steps", "--prefill-decode-interval"
    typed, why = view.value(interval), "prefill must wait that many decode rounds each time"
    if typed is None and (view.value(steps) or 1) > 1:
        change = step(view, "lower", steps, 1, why, unit="rounds")
    else:
        change = step(view, "lower", interval, int(max(0, (typed or 8) // 4)), why, unit="rounds")
    return plan(
        change,
        never=(
            ("raise", interval, "prefill would wait longer"),
            ("raise", steps, "prefill would wait longer"),
            _FRACTION_UP,
        ),
        verify=(("time to first token, p95", 900, "lower", "inter-token latency doubled"),),
    )


def _one_at_a_time(view: View) -> Actions:
    changes = []
    if view.version is None or view.at_least(0, 4, 8):
        changes.append(step(view, "set", "--enable-priority-scheduling", True, "short requests can pass a long one"))
    return plan(
        *changes,
        never=(
            ("raise", "--chunked-prefill-size", "the long prompt would hold more of each step"),
            ("set", "--max-prefill-tokens", "the long prompt's next chunk comes first whatever the budget"),
            _FRACTION_UP,
            ("raise", "--max-running-requests", "the long prompt keeps the prefill budget"),
        ),
        alternatives=(
            ("a limit per tenant, or a server for long prompts, in front", "the scheduler has no notion of tenants"),
            ("prefill/decode disaggregation", "other prefill workers stay free"),
        ),
    )


def _at_prefill_budget(view: View) -> Seen | None:
    """Prefill batches end just below the token budget although the chunk would allow more."""
    budget = view.number("max_prefill_tokens") or view.value("--max-prefill-tokens")
    chunk = view.number("chunked_prefill_size") or view.value("--chunked-prefill-size")
    usual, most = view.number("new_tokens_p50"), view.number("new_tokens_max")
    if not budget or usual is None or most is None or (chunk is not None and 0 < chunk < budget):
        return None
    if most > budget * 1.02 or usual < budget * 0.8:
        return None
    sources = view.sources("new_tokens_p50", "max_prefill_tokens")
    return Seen(f"{usual:g} new tokens a batch, the budget is {budget:g}", sources)


def _fills_chunk(view: View) -> Seen | None:
    """Prefill batches are as large as the chunk allows, so prompts wait for computation and not for admission."""
    chunk = view.number("chunked_prefill_size") or view.value("--chunked-prefill-size")
    usual = view.number("new_tokens_p50")
    if not chunk or usual is None or usual < 0.95 * chunk:
        return None
    return Seen(f"{usual:g} new tokens a batch, chunks of {chunk:g}", view.sources("new_tokens_p50"))


def _nothing_runs(view: View) -> Seen | None:
    """Requests wait and not one runs: admission has stopped, it is not slow."""
    running, waiting = view.number("running_max"), view.number("queue_p95")
    if running is None or running > 0 or not waiting:
        return None
    return Seen(f"{waiting:g} wait, none runs", view.sources("queue_p95", "running_max"))


def _very_many_run(view: View) -> Seen | None:
    """More requests were admitted than a pool of this size holds at full length."""
    running = view.number("running_max")
    if running is None or running < _MANY:
        return None
    return Seen(f"{running:g} running", view.sources("running_max"))


def _more_prefill(view: View) -> Actions:
    return plan(
        scale(
            view,
            "--max-prefill-tokens",
            2,
            "the budget of one prefill batch is used up before more requests are admitted",
        ),
        never=(
            _FRACTION_UP,
            ("raise", "--max-running-requests", "the prefill budget binds"),
            ("lower", "--max-prefill-tokens", "it is the limit that binds"),
        ),
        alternatives=(("larger --chunked-prefill-size", "when single prompts are long"),),
    )


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
            _FRACTION_UP,
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
            _FRACTION_UP,
            ("raise", "--schedule-conservativeness", "it admits fewer"),
            ("raise", "--max-running-requests", "the limit is not reached"),
        ),
        alternatives=(("max_tokens set by clients", "an unset one reserves the most"),),
        verify=(("token usage, p95", 900, "between 0.8 and 0.92", "retractions every minute"),),
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
        verify=(("retractions per hour", 3600, "near none", "as before"),),
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


def _conservative(view: View) -> Seen | None:
    value = view.value("--schedule-conservativeness")
    if value is None or value <= 1.0:
        return None
    return Seen(f"conservativeness {value:g}", view.flag_sources("--schedule-conservativeness"), "typed")


ENTRIES = (
    Entry(
        "perf.decode_exceeds_graph_bs",
        "More requests decode at once than graphs were captured for, so steps run eagerly and slowly.",
        for_=(
            Clue(4, both(_above_graph, lacks(said("cuda_oom"))), "the batch is larger than the largest captured size"),
            Clue(3, above("graph_false_share", 0.3), "decode runs without graphs"),
            Clue(
                2,
                both(symptom("slow_decode"), either(above("graph_false_share", 0.01), symptom("above_graph_size"))),
                "tokens come slowly without graphs",
            ),
        ),
        against=(
            Clue(3, flag("--disable-cuda-graph"), "graphs are switched off altogether"),
            Clue(3, either(said("cuda_oom"), fact("oom_request_gib")), "memory ran out"),
        ),
        settle=Question("Is `cuda graph: False` printed above a certain batch?", "decode lines; capture list"),
        act=_capture_more,
    ),
    Entry(
        "perf.chunk_budget_split_across_dp",
        "With DP attention the chunk budget is divided by dp, so each rank prefills in small pieces.",
        for_=(
            Clue(
                4,
                both(_DP, either(symptom("prefill_slow", "slow_ttft"), above("queue_p95", 32)), IDLE_CACHE),
                "prefill crawls under DP attention while the pool is empty",
            ),
            Clue(3, said("dp_chunk_adjusted"), "the server adjusted the chunk for DP"),
            Clue(
                1,
                both(_DP, setting_below("--chunked-prefill-size", 8192)),
                "the budget is small for the number of ranks",
            ),
        ),
        against=(
            Clue(3, either(fact("spec_default_reset"), said("spec_default_reset")), "the running limit was reset"),
            Clue(2, symptom("few_running"), "few run at once"),
            Clue(3, flag("--enable-prefill-delayer"), "prefill is delayed on purpose"),
        ),
        settle=Question(
            "What is #new-token of a prefill line per rank?", "prefill lines; the boot line about the adjusted chunk"
        ),
        act=_chunk_for_all,
    ),
    Entry(
        "perf.prefill_starves_decode",
        "Prefill goes first; long or many prompts keep running requests from their next token.",
        for_=(
            Clue(
                3,
                both(symptom("slow_decode", "stalls"), symptom("long_prompts", "steady_prefill")),
                "tokens stall while prompts are processed",
            ),
            Clue(3, symptom("prefill_outnumbers_decode"), "many prefill batches for each decode batch"),
            Clue(
                1.5,
                both(symptom("slow_ttft"), setting_below("--schedule-conservativeness", 0.5)),
                "every admission starts another prefill, and admission was loosened",
            ),
            Clue(
                2,
                both(
                    symptom("slow_decode", "stalls"),
                    either(
                        setting_below("--schedule-conservativeness", 0.5),
                        setting_above("--chunked-prefill-size", 8192),
                        flag("--prefill-decode-interval", "0"),
                    ),
                ),
                "the settings favour prefill",
            ),
            Clue(1, both(symptom("slow_decode", "stalls"), IDLE_CACHE), "tokens stall with memory to spare"),
        ),
        against=(
            Clue(
                2.5,
                both(symptom("one_tenant"), lacks(symptom("slow_decode", "stalls"))),
                "one sender's prompt is what others wait for",
            ),
            Clue(2, symptom("disk_busy"), "the disk is busy"),
            Clue(2, above("graph_false_share", 0.2), "steps run without graphs"),
            Clue(2, setting_above("--prefill-decode-interval", 8), "decode is already given turns"),
            Clue(3, flag("--hicache-storage-backend"), "a store is written"),
        ),
        settle=Question("How many prefill lines stand between two decode lines?", "the log of a slow minute"),
        neighbours=(("perf.single_request_monopolises_prefill", "there it is others' first token that waits"),),
        act=_decode_turns,
        questions=("prefill",),
    ),
    Entry(
        "perf.decode_interval_starves_prefill",
        "Decode rounds are forced between prefills, so first tokens wait.",
        for_=(
            Clue(
                4,
                both(
                    either(
                        setting_above("--prefill-decode-interval", 2), setting_above("--num-continuous-decode-steps", 4)
                    ),
                    either(
                        symptom("slow_ttft", "prefill_slow", "requests_wait", "throughput_fell"), above("queue_p95", 4)
                    ),
                ),
                "first tokens wait with forced decode rounds",
            ),
            Clue(1, setting_above("--prefill-decode-interval", 8), "many decode rounds between prefills"),
        ),
        settle=Question("How long do requests wait before their first prefill line?", "queue time; prefill lines"),
        act=_shorter_interval,
    ),
    Entry(
        "perf.single_request_monopolises_prefill",
        "One long prompt takes the whole prefill budget, chunk after chunk, and everyone behind it waits.",
        for_=(
            Clue(
                4,
                both(
                    symptom("one_tenant"),
                    symptom("long_prompts"),
                    either(
                        symptom("slow_ttft", "requests_wait", "stalls", "slow_decode"), above("prefill_queue_p50", 3)
                    ),
                ),
                "everyone waits behind one sender's long prompt",
            ),
            Clue(
                2,
                both(
                    symptom("long_prompts"),
                    symptom("slow_ttft", "requests_wait"),
                    lacks(_DP),
                    lacks(symptom("slow_decode")),
                ),
                "first tokens wait behind long prompts",
            ),
        ),
        against=(Clue(3, symptom("slow_decode", "stalls"), "running answers slow down as well"),),
        settle=Question("Is #new-seq 1 with #new-token at the chunk size while the queue grows?", "prefill lines"),
        act=_one_at_a_time,
    ),
    Entry(
        "perf.prefill_budget_max_prefill_tokens",
        "The token budget of a prefill batch is used up by few requests.",
        for_=(
            Clue(
                4,
                both(
                    setting_below("--max-prefill-tokens", 8192),
                    either(symptom("slow_ttft", "prefill_slow", "requests_wait"), above("queue_p95", 4)),
                ),
                "a small prefill budget with requests waiting",
            ),
            Clue(4, both(_at_prefill_budget, QUEUED), "batches end at the budget while others wait"),
            Clue(1, symptom("prefill_budget"), "the prefill budget is named"),
            Clue(
                1.5, both(IDLE_CACHE, WAITING, symptom("one_prefill_at_a_time")), "one request is prefilled at a time"
            ),
        ),
        settle=Question("Does #new-token stop at max_prefill_tokens?", "prefill lines; ready line"),
        act=_more_prefill,
    ),
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
            Clue(
                3,
                both(
                    IDLE_CACHE,
                    WAITING,
                    lacks(
                        either(
                            both(either(fact("spec_default_reset"), said("spec_default_reset")), lacks(below_limit)),
                            said("state_caps_running", "running_reduced_by_kv"),
                            _DP,
                            flag("--disable-radix-cache"),
                            flag("--max-mamba-cache-size"),
                            symptom("hybrid_state", "tool_calls", "slow_decode", "long_prompts"),
                        )
                    ),
                    below_limit,
                    lacks(flag("--enable-prefill-delayer")),
                ),
                "requests wait while the pool has room and no limit binds",
            ),
            Clue(1.5, both(IDLE_CACHE, WAITING, lacks(fact("running_limit"))), "requests wait while the pool has room"),
            Clue(1.5, both(symptom("large_max_tokens"), WAITING), "clients ask for long outputs"),
        ),
        against=(
            Clue(3, pinned, "running requests stand at their limit"),
            Clue(2, above("usage_p95", 0.9), "the pool is full"),
            Clue(3, _nothing_runs, "nothing runs at all"),
            Clue(2.5, either(_at_prefill_budget, _fills_chunk), "prefill batches are full"),
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
