"""Whether a tier helps this traffic at all, and what waits for its copies."""

from __future__ import annotations

from tools.diagnosis.changes import plan, step
from tools.diagnosis.clues import (
    Clue,
    Entry,
    Seen,
    Test,
    both,
    either,
    flag,
    lacks,
    symptom,
)
from tools.diagnosis.families.hicache.tier import FROM_HOST, KEEP_FRACTION, ON, STORE
from tools.diagnosis.measured import (
    metric_at_least,
    metric_is_zero,
    mostly_generates,
    same_with,
    stands_in,
)
from tools.diagnosis.model import Actions, Question
from tools.diagnosis.view import View

_WAITS_IN_EVICTION = stands_in(
    "evict", "_evict_backuped", "_evict_regular", "evict_host", "writing_check", "write_backup", "evict_from_tree_cache"
)


def _hardly_hits(least: int, most: float = float("inf")) -> Test:
    """Of the tokens that prefill lines count, less than a twentieth came from any cache; over so many lines."""

    def test(view: View) -> Seen | None:
        lines, new, cached = (view.number(name) or 0.0 for name in ("prefill_lines", "new_tokens", "cached_tokens"))
        if not least <= lines < most or cached > 0.05 * (new + cached) or not new:
            return None
        text = f"{cached:,.0f} of {new + cached:,.0f} tokens, {lines:g} prefill lines"
        return Seen(text, view.sources("cached_tokens", "new_tokens"))

    return test


def _drop(view: View) -> Actions:
    return plan(
        step(
            view,
            "remove",
            "--enable-hierarchical-cache",
            None,
            "traffic that is not reused gains nothing and pays for the copies",
        ),
        *(
            [step(view, "set", "--hicache-io-backend", "kernel", "the older copies are slow at small pages")]
            if view.typed("--hicache-io-backend") == "direct"
            else []
        ),
        never=(
            ("raise", "--hicache-ratio", "more room for what does not come back"),
            ("raise", "--hicache-size", "more room for what does not come back"),
            KEEP_FRACTION,
        ),
        alternatives=(("upgrade", "the copies became layer-wise and faster"),),
        notes=("Host cache replaces prefill work; it does not speed up decode and runs no more requests.",),
    )


def _write_back(view: View) -> Actions:
    return plan(
        step(
            view, "set", "--hicache-write-policy", "write_through", "copies early, so that eviction is only a pointer"
        ),
        never=(
            KEEP_FRACTION,
            ("raise", "--hicache-ratio", "the wait is for the copy, not for room"),
            ("raise", "--max-running-requests", "more would wait for the same copies"),
        ),
        alternatives=(("write_through_selective", "fewer copies when most prefixes are seen once"),),
    )


ENTRIES = (
    Entry(
        "hicache.no_benefit_workload_or_old_io_path",
        "The traffic does not reuse prefixes, or is bound by decode, or the version's copies are slow: no tier helps.",
        for_=(
            Clue(
                4,
                both(ON, symptom("no_benefit", "slower_than_before", "throughput_fell"), lacks(STORE)),
                "no gain with the host cache",
            ),
            Clue(2, both(ON, symptom("no_benefit")), "no gain with the host cache"),
            Clue(2, both(ON, symptom("unique_prompts", "single_pass")), "prompts do not come back"),
            Clue(
                5,
                both(ON, same_with("host_cache", ""), lacks(STORE), lacks(symptom("forgets_conversations"))),
                "measured with and without, it makes no difference",
            ),
            Clue(2, both(ON, _hardly_hits(10)), "hardly a token of a prompt comes from a cache"),
            Clue(0.5, both(ON, _hardly_hits(2, 10)), "of few prompts hardly a token came from a cache"),
            Clue(2, both(ON, mostly_generates), "the time goes into generating, which a prefix cache does not help"),
            Clue(
                3,
                both(
                    ON,
                    metric_is_zero(FROM_HOST),
                    metric_is_zero("load_back_tokens_total"),
                    lacks(metric_at_least("evicted_tokens_total", 1)),
                ),
                "nothing was ever read from the host",
            ),
            Clue(
                3,
                both(
                    ON,
                    metric_at_least("evicted_tokens_total", 1),
                    either(metric_is_zero("load_back_tokens_total"), metric_is_zero(FROM_HOST)),
                    lacks(symptom("forgets_conversations", "hit_rate_fell")),
                ),
                "much went to the host and nothing ever came back",
            ),
        ),
        against=(
            Clue(2, symptom("forgets_conversations"), "prefixes do come back"),
            Clue(3, STORE, "a store is in use"),
            Clue(2, symptom("garbled_output"), "the output is wrong"),
            Clue(3, flag("--hicache-write-policy", "write_back"), "evictions wait for copies"),
        ),
        settle=Question(
            "Do prompts share prefixes, and do load_back_tokens_total and cached tokens from the host rise at all?",
            "metrics; #cached-token against #new-token over a busy hour; the write policy",
        ),
        act=_drop,
    ),
    Entry(
        "hicache.write_back_blocks_eviction",
        "With write_back an eviction waits until its copy is done; under pressure everything waits.",
        for_=(
            Clue(
                4,
                both(
                    flag("--hicache-write-policy", "write_back"),
                    symptom(
                        "stalls",
                        "slow_ttft",
                        "throughput_fell",
                        "slower_than_before",
                        "slow_decode",
                        "hangs",
                        "requests_wait",
                    ),
                ),
                "requests stall with write_back",
            ),
            Clue(2, flag("--hicache-write-policy", "write_back"), "copies are made at eviction"),
            Clue(
                4,
                both(flag("--hicache-write-policy", "write_back"), _WAITS_IN_EVICTION),
                "the scheduler stands in an eviction",
            ),
            Clue(
                4,
                both(flag("--hicache-write-policy", "write_back"), metric_at_least("eviction_duration_seconds", 1)),
                "evictions take seconds",
            ),
        ),
        neighbours=(("hicache.l3_slower_than_recompute", "there reading waits, here eviction does"),),
        settle=Question("Do stalls coincide with evictions?", "eviction_duration_seconds"),
        act=_write_back,
    ),
)
