"""Recurrent state in the static budget: who gets how much, version by version, and how far a sum may be off."""

from __future__ import annotations

import pytest

from tests.tools.capacity.boxes import story
from tests.tools.capacity.test_host_pools import DRAFTED, HYBRID, box
from tools.capacity import ModelShape, Sum, gpu_budget
from transcripts.facts import Fact, Facts

EACH = 58_834_944  # bytes of one state of HYBRID on one rank
CELL = 12 * 2 * 512  # FP8
MEMORY = (
    Fact("weights_before_gib", 100.0, "GiB", "observed", "E9"),
    Fact("weights_after_gib", 40.0, "GiB", "observed", "E9"),
)
REST = 30 * (1 << 30)  # 40 - 100 * 0.1


def tokens(version: str, *more: Fact, flags: dict[str, str] | None = None) -> Sum:
    found = gpu_budget(box(HYBRID, version, *MEMORY, *more, flags=flags)).sum("pool_tokens")
    assert found is not None
    return found


def expected(states: int) -> int:
    return int((REST - states * EACH) // CELL) // 64 * 64


def test_the_size_of_one_state() -> None:
    state = ModelShape.from_config(HYBRID).state
    assert state is not None
    assert state.bytes_per_request(1) == EACH


def test_the_padding_slot_is_taken_out_since_0_5_17() -> None:
    share = REST * 0.9 / 1.9
    before, after = tokens("0.5.16"), tokens("0.5.17")
    assert before.inputs["state_slots"] == int(share // EACH)
    assert before.value == expected(int(share // EACH))
    assert after.inputs["state_slots"] == int((share - EACH) // EACH)
    assert after.value == expected(int((share - EACH) // EACH) + 1)


@pytest.mark.parametrize(("version", "padding"), [("0.5.12", 0), ("0.5.16", 0), ("0.5.17", 1)])
def test_slots_by_flag(version: str, padding: int) -> None:
    assert tokens(version, flags={"max_mamba_cache_size": "64"}).value == expected(64 + padding)


def test_states_between_steps_come_out_of_the_whole_first_and_of_the_states_share_later() -> None:
    drafted = DRAFTED | {"max_running_requests": "8", "speculative_draft_model_path": "/models/draft"}
    early = tokens("0.5.12", flags=drafted)
    slots = int((REST - 8 * 4 * EACH) * 0.9 / 1.9 // EACH)
    assert early.inputs["state_slots"] == slots
    assert early.value == expected(slots + 8 * 4)
    later = tokens("0.5.15", flags=drafted)
    slots = int(REST * 0.9 / 1.9 // (EACH * (1 + 4 / 3)))
    assert later.inputs["state_slots"] == slots
    assert later.value == expected(slots + 8 * 4)


def test_without_radix_cache_the_limit_is_the_number_of_slots() -> None:
    flags = {"disable_radix_cache": "true", "max_running_requests": "20"}
    assert tokens("0.5.12", flags=flags).inputs["state_slots"] == 20


def test_images_have_their_part_of_the_budget_since_0_5_18() -> None:
    seeing = HYBRID | {"vision_config": {"depth": 27, "hidden_size": 1152}}

    def budget(version: str, *more: Fact, flags: dict[str, str] | None = None) -> float:
        found = gpu_budget(box(seeing, version, *MEMORY, *more, flags=flags)).sum("pool_budget")
        assert found is not None
        return round(found.value, 4)

    assert budget("0.5.17") == 30.0
    assert budget("0.5.18") == round(30 - 100 / 1024, 4)
    assert budget("0.5.18", flags={"mm_feature_transport": "cuda_ipc"}) == round(30 - 1124 / 1024, 4)
    assert budget("0.5.18", Fact("env", "500", "", "observed", "E1", "SGLANG_VLM_CACHE_SIZE_MB")) == round(
        30 - 500 / 1024, 4
    )


def spread(facts: Facts) -> tuple[float, float]:
    """GiB that the budget may lie below and above its sum."""
    found = gpu_budget(facts).sum("pool_budget")
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    return round(found.value - found.low, 3), round(found.high - found.value, 3)


def card(name: str) -> Fact:
    return Fact("gpu_name", name, "", "observed", "E1", "gpu0")


@pytest.mark.parametrize(
    ("version", "name", "down", "up"),
    [
        pytest.param("0.5.9", "NVIDIA H100 80GB HBM3", 0.0455, 0.0055, id="free memory sinks before the profile"),
        pytest.param("0.4.6", "NVIDIA L4", 0.0055, 0.0055, id="not yet"),
        pytest.param("0.5.9", "AMD Instinct MI355X", 0.0055, 0.0055, id="not on ROCm"),
        pytest.param("0.5.9", "NVIDIA GB10", 0.4055, 0.4055, id="system memory moves"),
    ],
)
def test_a_promise_is_held_back_on_the_side_that_logs_show(version: str, name: str, down: float, up: float) -> None:
    below, above = spread(box(HYBRID, version, *MEMORY, card(name)))
    assert below == pytest.approx(down, abs=0.001)
    assert above == pytest.approx(up, abs=0.001)


def test_of_several_ranks_the_least_counts_and_one_is_quoted() -> None:
    down, up = spread(story())
    assert down > 0.1
    assert up < 0.01
    found = gpu_budget(story()).sum("pool_tokens")
    assert found is not None
    assert (found.low or 0) < 159209 <= (found.high or 0)
