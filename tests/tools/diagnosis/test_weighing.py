"""The ranking: what counts, what does not decide alone, when nothing is named, and what a healthy server looks like."""

from __future__ import annotations

import pytest

from tools import diagnosis
from transcripts.facts import Fact, Facts, Grade, Value


def fact(name: str, value: Value, scope: str = "", grade: Grade = "observed", source: str = "E1:1") -> Fact:
    return Fact(name, value, "", grade, source, scope)


SPECULATIVE = (
    fact("version", "0.5.9"),
    fact("flag", "EAGLE3", "--speculative-algorithm", source="E2:1"),
    fact("running_limit", 48),
    fact("spec_default_reset", 48),
    fact("kv_pool", 159209),
)
SLOTS = (
    *SPECULATIVE,
    fact("decode_lines", 400),
    fact("pinned_share", 0.97),
    fact("running_p95", 48),
    fact("running_max", 48),
    fact("queue_p95", 17),
    fact("usage_p95", 0.62),
    fact("usage_p50", 0.6),
    fact("tokens_per_request", 1990),
)


def test_slots_at_the_default_with_room_in_the_pool() -> None:
    assessment = diagnosis.weigh(Facts(SLOTS))
    assert (assessment.kind, assessment.label) == ("cause", "capacity.spec_default_cap")
    change = diagnosis.actions(assessment.label, Facts(SLOTS)).changes[0]
    assert (change.flag, change.to) == ("--max-running-requests", 72)


def test_the_same_limit_typed_by_the_operator_is_no_default() -> None:
    typed = Facts((*SLOTS, fact("flag", "48", "--max-running-requests", source="E2:1")))
    assert diagnosis.weigh(typed).label != "capacity.spec_default_cap"


def test_a_full_pool_with_retractions_is_too_small() -> None:
    facts = Facts(
        (
            *SPECULATIVE,
            fact("decode_lines", 400),
            fact("running_p95", 21),
            fact("running_max", 22),
            fact("queue_p95", 20),
            fact("usage_p95", 0.99),
            fact("usage_max", 1.0),
            fact("retractions", 14),
        )
    )
    assessment = diagnosis.weigh(facts)
    assert (assessment.kind, assessment.label) == ("cause", "capacity.kv_pool_too_small")
    assert any(change.flag == "--kv-cache-dtype" for change in diagnosis.actions(assessment.label, facts).changes)


def test_one_sign_alone_is_likely_and_several_lines_are_nearly_certain() -> None:
    one = diagnosis.weigh(Facts((fact("message", "No space left for only one request.", "last_request"),)))
    assert (one.label, one.certainty) == ("retraction.last_request_cannot_fit", 0.8)
    several = diagnosis.weigh(Facts(SLOTS))
    assert several.certainty == 0.8, "all of it stands in one line"
    lines = Facts(Fact(f.name, f.value, "", f.grade, f"E1:{n}", f.scope) for n, f in enumerate(SLOTS))
    assert diagnosis.weigh(lines).certainty == 0.97


def test_boot_lines_alone_decide_nothing_and_say_which_look_would() -> None:
    assessment = diagnosis.weigh(Facts(SPECULATIVE))
    assert assessment.kind == "abstain"
    assert assessment.label == ""
    assert "capacity.spec_default_cap" in {one.label for one in assessment.hypotheses[:3]}
    assert any("decode lines" in text.lower() for text in assessment.missing)


def test_claims_and_the_launch_command_decide_nothing() -> None:
    told = Facts(
        fact("symptom", True, term, "claimed", "operator")
        for term in ("garbled_output", "fp8_kv", "hangs", "few_running")
    )
    assert diagnosis.weigh(told).kind == "abstain"


def test_evidence_that_contradicts_itself_is_not_a_cause() -> None:
    both = Facts((*SLOTS, fact("usage_p95", 0.99), fact("usage_max", 1.0), fact("retractions", 9)))
    assessment = diagnosis.weigh(both)
    assert assessment.label != "capacity.spec_default_cap"


@pytest.mark.parametrize(
    ("limit", "running", "queue", "usage"),
    [(48, 12, 0, 0.2), (48, 40, 1, 0.55), (256, 90, 0, 0.7), (2048, 300, 2, 0.85), (16, 3, 0, 0.02),
     (4096, 800, 0, 0.8), (64, 1, 0, 0.0), (128, 100, 1, 0.75), (32, 31, 0, 0.6), (512, 20, 0, 0.1)],
)  # fmt: skip
def test_a_healthy_server_is_called_healthy(limit: int, running: int, queue: int, usage: float) -> None:
    facts = Facts(
        (
            fact("ready", value=True),
            fact("version", "0.5.9"),
            fact("kv_pool", 400_000),
            fact("weights_after_gib", 40.0),
            fact("free_after_boot_gib", 6.0),
            fact("running_limit", limit),
            fact("decode_lines", 300),
            fact("prefill_lines", 50),
            fact("running_p95", running),
            fact("running_max", running),
            fact("queue_p95", queue),
            fact("queue_max", queue),
            fact("usage_p95", usage),
            fact("usage_max", usage),
            fact("retractions", 0),
            fact("graph_false_share", 0.0),
            fact("cached_share", 0.4),
        )
    )
    assessment = diagnosis.weigh(facts)
    assert assessment.kind == "healthy", assessment.hypotheses[:2]
    assert len(assessment.checked) >= 5


def test_one_thing_out_of_order_is_not_healthy() -> None:
    facts = Facts((fact("ready", value=True), fact("decode_lines", 10), fact("usage_p95", 0.2), fact("xid", "79")))
    assert diagnosis.weigh(facts).kind == "abstain"


@pytest.mark.parametrize(("version", "direction"), [("0.5.16", "raise"), ("0.5.9", "lower"), ("0.4.6", "lower")])
def test_which_way_the_fraction_goes_for_a_draft_depends_on_the_version(version: str, direction: str) -> None:
    facts = Facts((fact("version", version), fact("flag", "0.75", "--mem-fraction-static")))
    change = diagnosis.actions("spec.draft_memory_not_budgeted", facts).changes[0]
    assert (change.flag, change.do) == ("--mem-fraction-static", direction)


def test_the_fraction_goes_past_what_the_weights_need() -> None:
    facts = Facts(
        (fact("flag", "0.88", "--mem-fraction-static"), fact("weights_after_gib", 12.25), fact("weights_gib", 125.65))
    )
    change = diagnosis.actions("oom.startup.weights_exceed_static_budget", facts).changes[0]
    assert change.do == "raise"
    assert isinstance(change.to, float)
    assert 0.912 < change.to < 0.96


def test_the_fraction_falls_by_what_the_allocation_lacked() -> None:
    held = (fact("flag", "0.91", "--mem-fraction-static"), fact("gpu_memory_mib", 97887))
    small = diagnosis.actions(
        "oom.runtime.prefill_activation", Facts((*held, fact("oom_request_gib", 0.5), fact("oom_free_gib", 0.4)))
    )
    large = diagnosis.actions(
        "oom.runtime.prefill_activation", Facts((*held, fact("oom_request_gib", 6.0), fact("oom_free_gib", 0.4)))
    )
    first, second = small.changes[0].to, large.changes[0].to
    assert isinstance(first, float)
    assert isinstance(second, float)
    assert second < first < 0.91


def test_a_queue_with_room_in_the_pool_names_no_limit_that_was_not_seen() -> None:
    load = (fact("decode_lines", 30), fact("running_max", 48), fact("running_p95", 48), fact("queue_p95", 17))
    assessment = diagnosis.weigh(Facts((*load, fact("usage_p95", 0.6), fact("usage_p50", 0.6))))
    assert assessment.kind == "abstain"
    assert assessment.hypotheses[0].label == "perf.admission_too_conservative"


def test_fewer_running_than_allowed_with_a_queue_and_room_is_admission() -> None:
    facts = [one for one in SLOTS if not one.name.startswith(("running_m", "running_p", "pinned"))]
    below = Facts((*facts, fact("running_p95", 20), fact("running_max", 20), fact("pinned_share", 0.0)))
    assert diagnosis.weigh(below).label == "perf.admission_too_conservative"


def test_a_limit_is_never_lowered_above_what_runs() -> None:
    thrown_back = (fact("running_p95", 19), fact("running_max", 20), fact("retractions", 40), fact("running_limit", 48))
    for label in ("retraction.admission_too_aggressive", "retraction.kv_pool_overcommitted"):
        changes = {one.flag: one for one in diagnosis.actions(label, Facts(thrown_back)).changes}
        to = changes["--max-running-requests"].to
        assert isinstance(to, int)
        assert to < 19


BUSY = (
    fact("decode_lines", 60),
    fact("running_limit", 512),
    fact("queue_p95", 40),
    fact("queue_p50", 30),
    fact("usage_p95", 0.99),
    fact("usage_max", 1.0),
)


@pytest.mark.parametrize(
    ("running", "retractions", "label"),
    [
        (12, 0, "capacity.kv_pool_too_small"),
        (12, 9, "capacity.kv_pool_too_small"),
        (400, 9, "retraction.kv_pool_overcommitted"),
    ],
)
def test_the_line_between_too_small_and_too_many(running: int, retractions: int, label: str) -> None:
    facts = [*BUSY, fact("running_max", running), fact("running_p95", running)]
    facts += [fact("retractions", retractions), fact("flag", "512", "--max-running-requests")] if retractions else []
    assert diagnosis.weigh(Facts(facts)).label == label


def test_one_retraction_in_a_quiet_pool_is_no_fault() -> None:
    quiet = (fact("ready", value=True), fact("decode_lines", 10), fact("usage_p95", 0.4), fact("usage_max", 0.45))
    load = (fact("queue_p95", 0), fact("queue_p50", 0), fact("running_p95", 60), fact("running_limit", 200))
    once = (fact("retractions", 1), fact("message", "Retract requests", "retraction"))
    assert diagnosis.weigh(Facts((*quiet, *load, *once))).kind == "healthy"
    often = (fact("retractions", 30), fact("message", "Retract requests", "retraction"))
    assert diagnosis.weigh(Facts((*quiet, *load, *often))).label.startswith("retraction.")


def test_prefill_batches_at_their_budget_bind_and_not_admission() -> None:
    facts = (
        *(fact("queue_p95", 90), fact("queue_p50", 60), fact("usage_p95", 0.1), fact("usage_max", 0.12)),
        *(fact("running_max", 13), fact("running_limit", 2048), fact("max_prefill_tokens", 16384)),
        *(fact("chunked_prefill_size", 32768), fact("new_tokens_p50", 15000), fact("new_tokens_max", 15900)),
    )
    assessment = diagnosis.weigh(Facts(facts))
    assert assessment.label == "perf.prefill_budget_max_prefill_tokens"
    change = diagnosis.actions(assessment.label, Facts(facts)).changes[0]
    assert (change.flag, change.do, change.to) == ("--max-prefill-tokens", "raise", 32768)


def test_what_is_held_in_pieces_is_no_activation_that_is_too_large() -> None:
    failed = (fact("message", "CUDA out of memory", "cuda_oom"), fact("oom_phase", "multimodal"))
    pieces = (fact("oom_request_gib", 1.2), fact("oom_reserved_gib", 8.0), fact("oom_free_gib", 0.3))
    whole = (fact("oom_request_gib", 1.2), fact("oom_reserved_gib", 0.4), fact("oom_free_gib", 0.3))
    assert diagnosis.weigh(Facts((*failed, *pieces))).label == "oom.runtime.allocator_fragmentation"
    assert diagnosis.weigh(Facts((*failed, *whole))).label == "oom.runtime.multimodal_activation"


def test_a_pool_of_nothing_on_a_card_with_room_is_not_the_context() -> None:
    refused = (fact("rejected_input_tokens", 3034), fact("input_limit_tokens", 1735), fact("context_len", 65536))
    card = (fact("gpu_memory_mib", 81559), fact("kv_pool", 1741), fact("flag", "0.8", "--mem-fraction-static"))
    full = diagnosis.weigh(Facts((*refused, *card, fact("free_after_boot_gib", 12.0))))
    assert full.label == "capacity.context_exceeds_kv_pool"
    half_empty = diagnosis.weigh(Facts((*refused, *card, fact("free_after_boot_gib", 46.9))))
    assert half_empty.label != "capacity.context_exceeds_kv_pool" or half_empty.kind == "abstain"


@pytest.mark.parametrize(("limit", "tokens", "to"), [(24, 1990, 144), (24, 5800, None), (24, 0, 86)])
def test_data_parallel_ranks_share_the_limit_that_is_typed(limit: int, tokens: int, to: int | None) -> None:
    """The ready line prints one rank's part of 48; a total just above 48 is no reason for a restart."""
    parted = (fact("running_limit", limit), fact("running_p95", limit), fact("running_max", limit))
    left_out = ("running_limit", "running_p95", "running_max", "tokens_per_request")
    attention = (fact("flag", "2", "--dp-size"), fact("flag", "true", "--enable-dp-attention"))
    each = (fact("tokens_per_request", tokens),) if tokens else ()
    facts = Facts(
        (*(one for one in SLOTS if one.name not in left_out), *parted, *attention, *each, fact("usage_p50", 0.5))
    )
    changes = diagnosis.actions("capacity.spec_default_cap", facts).changes
    assert [change.to for change in changes if change.flag == "--max-running-requests"] == ([to] if to else [])
