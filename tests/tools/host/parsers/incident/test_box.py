"""What operators say of their GPUs, in notes and in sentences."""

from __future__ import annotations

import pytest

from tools.host.parsers import parse
from tools.host.parsers.incident import parse_text
from transcripts.facts import Evidence, Facts


def read(text: str, probe: str = "pasted") -> Facts:
    return Facts(parse_text(Evidence("E1", probe, "", "h", "", 0, text)))


@pytest.mark.parametrize(
    ("note", "name", "count"),
    [
        ("GPU: 3x DGX Spark", "DGX Spark", 3),
        ("gpu: 2x 4090", "4090", 2),
        ("GPU: 8 x H200 (141 GB)", "H200 (141 GB)", 8),
        ("GPU: RTX PRO 6000 (count not stated)", "RTX PRO 6000 (count not stated)", None),
        ("GPU: not stated", "", None),
        ("GPU: 1 x unknown", "", None),
    ],
)
def test_a_note_gives_the_card_and_how_many(note: str, name: str, count: int | None) -> None:
    facts = read(note)
    assert (facts.text("gpu_name"), facts.number("gpu_count")) == (name, count)


@pytest.mark.parametrize(
    ("sentence", "name", "count"),
    [
        ("GLM-5 on eight B200, dp attention", "B200", 8),
        ("It runs on a single MI300X here.", "MI300X", 1),
        ("We have 2x RTX 4090s in one box", "RTX 4090", 2),
        ("since we moved to H100 it is slower", "H100", None),
        ("I copied the B300 recipe to our H20 machine", "", None),
        ("served from /models/h100/llama and qwen-t4-7b", "", None),
    ],
)
def test_a_sentence_names_the_card_where_it_names_one(sentence: str, name: str, count: int | None) -> None:
    facts = read(sentence, "complaint")
    assert (facts.text("gpu_name"), facts.number("gpu_count")) == (name, count)
    assert {fact.grade for fact in facts.all("gpu_name")} <= {"claimed"}


@pytest.mark.parametrize(
    ("sentence", "version"),
    [
        ("we run SGLang 0.5.16 on 8 x H100, slow at night", "0.5.16"),
        ("sglang v0.5.16, 8x H200. It was fine before.", "0.5.16"),
        ("sglang 0.5.14 gpu 8x B300 (TP8), 3 TB host RAM", "0.5.14"),
        ("version 0.5.9 of sglang hangs", "0.5.9"),
        ("SGLang version is 0.5.10.post1", "0.5.10.post1"),
        ("after the upgrade to SGLang 0.5.16 it is slower", "0.5.16"),
        ("we upgraded from 0.5.9 to sglang 0.5.16 on Monday", "0.5.16"),
        ("we upgraded sglang 0.5.9 to 0.5.16 on Monday", ""),
        ("sglang 0.5.9 was fine", ""),
        ("should we go to sglang 0.5.23?", ""),
        ("is that fixed in sglang 0.5.23?", ""),
        ("sglang 0.5.9 here, sglang 0.5.16 on the other box", ""),
        ("vllm 0.9.1 does 80 requests", ""),
    ],
)
@pytest.mark.parametrize("probe", ["complaint", "pasted"])
def test_a_sentence_names_the_version_that_runs(sentence: str, version: str, probe: str) -> None:
    facts = read(sentence, probe)
    assert facts.text("version") == version
    assert {fact.grade for fact in facts.all("version")} <= {"claimed"}


@pytest.mark.parametrize(
    "denied",
    [
        "no OOM so far",
        "it has never had a CUDA out of memory",
        "zero OOMs in the log",
        "we don't see any out-of-memory",
    ],
)
def test_a_shortage_that_is_denied_is_neither_message_nor_symptom(denied: str) -> None:
    facts = read(denied)
    assert not facts.all("oom_phase")
    assert not [fact for fact in facts if fact.scope in ("cuda_oom", "gpu_memory_out")]


@pytest.mark.parametrize(
    ("line", "grade"),
    [
        ("--tp 8 --kv-cache-dtype fp8_e4m3 (speculation on)", "claimed"),
        ("the text is garbled after a few words whenever it runs with --kv-cache-dtype fp8_e4m3", "observed"),
    ],
)
def test_a_command_is_the_operators_word_and_a_sentence_about_a_run_is_not(line: str, grade: str) -> None:
    assert {fact.grade for fact in read(line).all("symptom")} == {grade}


def test_the_pool_of_a_former_start_is_compared_with_and_not_in_force() -> None:
    given = "max_total_num_tokens=100000, context_len=32768\nprevious image: max_total_num_tokens=400000"
    facts = Facts(parse(Evidence("E1", "pasted", "", "h", "", 0, given)))
    assert (facts.number("kv_pool"), facts.number("pool_ratio", "former")) == (100_000, 0.25)


@pytest.mark.parametrize("denied", ["retractions: 0", "no retractions at all", "retract lines: none"])
def test_what_is_counted_as_none_has_not_happened(denied: str) -> None:
    assert not read(denied).all("symptom")
