"""What the operator says, tested; what researchers are asked, found in the real trees."""

from __future__ import annotations

import pytest

from tests.tools.diagnosis.test_weighing import SLOTS, fact
from tools import diagnosis
from transcripts.facts import Facts

ASKED = "seems like I'm kinda low on max parallel request context, what options do we have for ram offload of kv cache?"


def test_the_claims_of_the_question_are_named_and_tested() -> None:
    found = {claim.text: claim for claim in diagnosis.claims(ASKED, Facts(SLOTS))}
    assert found["Parallel capacity is short of KV memory"].verdict == "contradicted"
    assert found["Host RAM can serve running requests"].verdict == "contradicted"
    assert found["The limit of 48 keeps the KV pool small"].verdict == "contradicted"
    assert found["Parallel capacity is short of KV memory"].evidence


def test_without_lines_under_load_the_shortage_is_untestable() -> None:
    facts = Facts((fact("running_limit", 48),))
    found = {claim.text: claim.verdict for claim in diagnosis.claims(ASKED, facts)}
    assert found["Parallel capacity is short of KV memory"] == "untestable"


def test_a_full_pool_supports_the_shortage() -> None:
    facts = Facts((fact("usage_p95", 0.99), fact("queue_p95", 9)))
    found = {claim.text: claim.verdict for claim in diagnosis.claims("low on concurrent requests", facts)}
    assert found["Parallel capacity is short of KV memory"] == "supported"


@pytest.mark.parametrize(
    "complaint",
    [
        "crash at start after enabling hicache",
        "which prefix cache policy do we run?",
        "it dies with a 128k context",
        "nvidia-smi hangs",
        "we lowered max running, now drop it?",
    ],
)
def test_a_topic_alone_puts_no_words_into_the_operators_mouth(complaint: str) -> None:
    assert diagnosis.claims(complaint, Facts(SLOTS)) == ()


def test_a_question_about_offloading_raises_the_whole_catalogue() -> None:
    facts = Facts(SLOTS)
    asked = {question.id for question in diagnosis.questions(diagnosis.weigh(facts), facts, ASKED)}
    fields = ("hierarchical_cache", "hicache_flags", "host_memory", "storage", "lmcache", "decode_kv", "weights")
    assert {f"offload.{field}" for field in fields} <= asked
    assert "limits.spec_default" in asked


def test_every_question_belongs_to_a_field_and_is_found_by_its_id() -> None:
    facts = Facts(SLOTS)
    for question in diagnosis.questions(diagnosis.weigh(facts), facts, ASKED):
        assert question.id.partition(".")[0] in diagnosis.FIELDS
        assert diagnosis.research_question(question.id) == question
        assert question.anchors
    assert diagnosis.research_question("no.such") is None
