"""What fills a prefill batch, and who waits behind it."""

from __future__ import annotations

from tools.diagnosis.changes import (
    HICACHE_FOR_RUNNING,
    HIGHER_FRACTION,
    plan,
    scale,
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
    setting_below,
    symptom,
)
from tools.diagnosis.conditions import (
    DP_ATTENTION,
    IDLE_CACHE,
    QUEUED,
    WAITING,
    at_prefill_budget,
    fills_chunk,
)
from tools.diagnosis.model import Actions, Question
from tools.diagnosis.view import View

_MANY_CHUNKS = 24  # a prompt of that many makes everyone behind it wait
_SMALL_CHUNK = 2_048  # tokens; below it a GPU of today is not kept busy


def _small_chunk(view: View) -> Seen | None:
    """What one data-parallel rank prefills at a time."""
    chunk = view.number("chunk_adjusted") or view.number("chunked_prefill_size")
    if chunk is None or not 0 < chunk <= _SMALL_CHUNK:
        return None
    return Seen(f"chunks of {chunk:g} tokens", view.sources("chunk_adjusted", "chunked_prefill_size"))


def _long_prompt_under_way(view: View) -> Seen | None:
    """One prompt of many chunks: batch after batch is full, and what is still to come is dozens of them."""
    pending, usual = view.number("pending_tokens_p50"), view.number("new_tokens_p50")
    if pending is None or not usual or pending < _MANY_CHUNKS * usual or fills_chunk(view) is None:
        return None
    return Seen(f"{pending:,.0f} tokens pending in chunks of {usual:g}", view.sources("pending_tokens_p50"))


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
        never=(
            ("lower", "--chunked-prefill-size", "each rank would get even less"),
            HIGHER_FRACTION,
            HICACHE_FOR_RUNNING,
        ),
        alternatives=(
            ("--enable-prefill-delayer", "lets ranks prefill together"),
            ("tensor parallel attention", "for latency rather than throughput"),
        ),
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
            HIGHER_FRACTION,
            ("raise", "--max-running-requests", "the long prompt keeps the prefill budget"),
        ),
        alternatives=(
            ("a limit per tenant, or a server for long prompts, in front", "the scheduler has no notion of tenants"),
            ("prefill/decode disaggregation", "other prefill workers stay free"),
        ),
    )


def _more_prefill(view: View) -> Actions:
    return plan(
        scale(
            view,
            "--max-prefill-tokens",
            2,
            "the budget of one prefill batch is used up before more requests are admitted",
        ),
        never=(
            HIGHER_FRACTION,
            ("raise", "--max-running-requests", "the prefill budget binds"),
            ("lower", "--max-prefill-tokens", "it is the limit that binds"),
        ),
        alternatives=(("larger --chunked-prefill-size", "when single prompts are long"),),
    )


ENTRIES = (
    Entry(
        "perf.chunk_budget_split_across_dp",
        "With DP attention the chunk budget is divided by dp, so each rank prefills in small pieces.",
        for_=(
            Clue(
                4,
                both(DP_ATTENTION, either(symptom("prefill_slow", "slow_ttft"), both(QUEUED, fills_chunk)), IDLE_CACHE),
                "prefill crawls under DP attention while the pool is empty",
            ),
            Clue(3, both(DP_ATTENTION, fills_chunk, _small_chunk), "every batch is as small as the chunk of a rank"),
            Clue(1.5, said("dp_chunk_adjusted"), "the server adjusted the chunk for DP"),
            Clue(
                2,
                both(said("dp_chunk_adjusted"), symptom("prefill_slow", "slow_ttft")),
                "the chunk was divided, and first tokens are late",
            ),
            Clue(
                1,
                both(DP_ATTENTION, setting_below("--chunked-prefill-size", 8192)),
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
                3,
                both(_long_prompt_under_way, QUEUED, lacks(DP_ATTENTION)),
                "others wait while one long prompt fills every batch",
            ),
            Clue(
                2,
                both(
                    symptom("long_prompts"),
                    symptom("slow_ttft", "requests_wait"),
                    lacks(DP_ATTENTION),
                    lacks(symptom("slow_decode")),
                ),
                "first tokens wait behind long prompts",
            ),
            Clue(
                3,
                both(fills_chunk, above("prefill_queue_p50", 3), symptom("long_prompts"), lacks(DP_ATTENTION)),
                "every batch is one chunk of a long prompt while others wait",
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
            Clue(4, both(at_prefill_budget, QUEUED), "batches end at the budget while others wait"),
            Clue(1, symptom("prefill_budget"), "the prefill budget is named"),
            Clue(
                1.5, both(IDLE_CACHE, WAITING, symptom("one_prefill_at_a_time")), "one request is prefilled at a time"
            ),
        ),
        settle=Question("Does #new-token stop at max_prefill_tokens?", "prefill lines; ready line"),
        act=_more_prefill,
    ),
)
