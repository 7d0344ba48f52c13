"""The story's box: 8 GPUs of 96 GB, Kimi-K2.5 INT4, SGLang 0.5.9."""

from __future__ import annotations

import pytest

from tests.tools.capacity.boxes import GIB, story, under_load
from tools.capacity import (
    Concurrency,
    HostBudget,
    Lever,
    Mix,
    Slots,
    concurrency,
    gpu_budget,
    host_budget,
    levers,
    slots_for,
    what_if,
)
from transcripts.facts import Fact, Facts


def host(ratio: float, available_gib: float = 396.0) -> HostBudget:
    found = host_budget(story(available_gib=available_gib), ratio)
    assert isinstance(found, HostBudget)
    return found


def test_the_pool_comes_out_to_the_token() -> None:
    tokens = gpu_budget(story()).sum("pool_tokens")
    assert tokens is not None
    assert tokens.value == 159209
    assert tokens.grade == "derived"
    assert set(tokens.sources) >= {"E5:31", "E5:40", "E3:4"}
    assert tokens.source_line == "srt/model_executor/model_runner_kv_cache_mixin.py:143"


def test_the_smallest_fraction_is_what_the_weights_take() -> None:
    floor = gpu_budget(story()).sum("smallest_fraction")
    assert floor is not None
    assert floor.value == pytest.approx(1 - 21.7068 / 94.06, abs=1e-4)
    low = what_if(story(), {"mem-fraction-static": "0.1"})
    assert isinstance(low, Lever)
    assert (low.tokens, low.fits) == (0, False)
    assert "the weights take 0.769" in low.why_not


def test_ratio_4_takes_358_gb_of_ram_and_fits() -> None:
    budget = host(4.0)
    assert round(budget.per_rank_gb, 2) == 44.75
    assert round(budget.total_gb, 1) == 358.0
    assert round(budget.distinct_bytes / 1e9, 2) == 44.75
    assert budget.fits
    assert budget.running_factor == 1.0
    assert budget.prefix_tokens == pytest.approx(4 * 159209, abs=1)


def test_ratio_5_is_refused_with_its_sum() -> None:
    budget = host(5.0)
    assert not budget.fits
    total = budget.sums[0]
    assert round(total.value, 1) == 447.5
    assert total.limit is not None
    assert total.value > total.limit
    assert "447.5" in total.line()


def test_the_largest_ratio_with_and_without_the_margin() -> None:
    budget = host(4.0)
    assert budget.largest_ratio_bare == 4.6
    assert budget.largest_ratio == 4.4


def test_little_ram_allows_little_and_the_versions_own_check_does_not_notice() -> None:
    budget = host(4.0, available_gib=120)
    assert budget.largest_ratio == 1.1
    assert not budget.fits
    assert budget.own_check_passes


def test_a_later_version_divides_its_check_by_the_ranks() -> None:
    budget = host_budget(story(version="0.5.23"), 5.0)
    assert isinstance(budget, HostBudget)
    assert not budget.own_check_passes


def looked(running: bool, *more: Fact, available_gib: float = 200.0) -> Facts:
    """A start with HiCache at ratio 4, and whether its process is there."""
    pool = Fact("host_pool_gb", 44.75, "GB", "observed", "E5:96")
    return story(pool, Fact("running", running, "", "observed", "E1:1"), *more, available_gib=available_gib)


def test_what_a_dead_server_would_pin_is_not_free_memory() -> None:
    dead, alive = host_budget(looked(False), 4.0), host_budget(looked(True), 4.0)
    assert isinstance(dead, HostBudget)
    assert isinstance(alive, HostBudget)
    assert dead.limit_bytes == pytest.approx(200 * GIB - 0.05 * 503 * GIB, rel=1e-6)
    assert (dead.fits, dead.largest_ratio) == (False, 2.0)
    assert alive.fits


def test_no_more_host_memory_than_the_machine_has() -> None:
    budget = host_budget(looked(True, available_gib=396.0), 4.0)
    assert isinstance(budget, HostBudget)
    assert budget.limit_bytes == pytest.approx(0.95 * 503 * GIB, rel=1e-6)
    charged = (
        Fact("cgroup_limit_bytes", 300 * GIB, "bytes", "observed", "E9"),
        Fact("cgroup_used_bytes", 80 * GIB, "bytes", "observed", "E9"),
    )
    boxed = host_budget(looked(True, *charged, available_gib=396.0), 4.0)
    assert isinstance(boxed, HostBudget)
    assert boxed.limit_bytes == pytest.approx(0.95 * 300 * GIB, rel=1e-6)


def test_a_gpu_without_the_server_shows_nothing_that_could_be_spared() -> None:
    empty = [Fact("gpu_free_mib", 97247, "MiB", "observed", "E2", f"gpu{n}") for n in range(8)]
    for facts in (looked(False, *empty), story(*empty)):
        budget = gpu_budget(facts)
        assert (budget.free_gib, budget.largest_fraction) == (None, None)
        assert [one for one in budget.missing if one.facts == ("gpu_free_mib",)]
        found = levers(facts)
        assert not [lever for lever in found if isinstance(lever, Lever) and "fraction" in lever.name]


def test_one_gpu_step_by_step_adds_up_to_the_card() -> None:
    budget = gpu_budget(story())
    card, *rest = budget.steps
    assert card.gib == pytest.approx(97887 / 1024)
    assert sum(step.gib for step in rest) == pytest.approx(card.gib, abs=1e-6)
    assert rest[-1].name == "free"
    assert rest[-1].gib == pytest.approx((97887 - 92450) / 1024)
    assert all(step.why_not_spare for step in budget.steps)


def test_steps_follow_the_order_in_which_the_version_takes_memory() -> None:
    later = (
        Fact("weights_before_gib", 21.71, "GiB", "observed", "E5:45", "draft"),
        Fact("weights_after_gib", 20.93, "GiB", "observed", "E5:50", "draft"),
        Fact("weights_gib", 0.78, "GiB", "observed", "E5:50", "draft"),
        Fact("kv_pool_gib", 0.54, "GiB", "observed", "E5:75", "draft"),
        Fact("pool_end_gib", 10.4, "GiB", "observed", "E5:70"),
        Fact("pool_end_gib", 9.8, "GiB", "observed", "E5:80", "draft"),
        *(
            Fact("graph_gib", gib, "GiB", "observed", "E5:90", scope)
            for scope, gib in (("target", 1.48), ("draft", 0.9))
        ),
    )
    steps = gpu_budget(story(*later, version="0.5.16")).steps
    sizes = {step.name: step.gib for step in steps}
    assert sizes["weights"] == pytest.approx(94.06 - 21.7068)
    assert sizes["draft weights"] == pytest.approx(21.7068 - 20.93)
    assert min(sizes.values()) >= 0
    names = [step.name for step in steps]
    assert names.index("draft weights") < names.index("KV pool") < names.index("target graphs")


def test_the_fraction_goes_only_as_far_as_what_is_free() -> None:
    assert gpu_budget(story()).largest_fraction == 0.89
    tight = story(*(Fact("gpu_used_mib", 95000, "MiB", "observed", "E1", f"gpu{n}") for n in range(8)))
    assert gpu_budget(tight).largest_fraction is None
    burnt = story(Fact("oom_phase", "prefill", "", "observed", "E5:200"))
    assert gpu_budget(burnt).largest_fraction is None


def test_slots_from_what_a_request_holds() -> None:
    slots = slots_for(story(*under_load()))
    assert isinstance(slots, Slots)
    assert (slots.value, slots.wall) == (72, 80)
    assert slots.reserve.low is not None
    assert slots.reserve.low < 48 < (slots.reserve.high or 0)
    other = slots_for(story(*under_load(usage=0.30)))
    assert isinstance(other, Slots)
    assert other.value == 144


def test_without_load_it_says_what_to_measure() -> None:
    missing = slots_for(story())
    assert isinstance(missing, tuple)
    assert missing[0].facts == ("tokens_per_request",)


def test_which_wall_binds() -> None:
    pinned = concurrency(story(*under_load()))
    assert isinstance(pinned, Concurrency)
    assert (pinned.binds, pinned.running) == ("slots", 48)
    long = concurrency(story(), Mix(7000, 1400))
    assert isinstance(long, Concurrency)
    assert (long.binds, long.running) == ("pool", 20)
    greedy = concurrency(story(), Mix(2000, 500, max_new_tokens=32000))
    assert isinstance(greedy, Concurrency)
    assert greedy.binds == "slots"
