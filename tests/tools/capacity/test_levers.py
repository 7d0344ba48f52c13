"""Levers and their combinations."""

from __future__ import annotations

import pytest

from tests.tools.capacity.boxes import GIB, story, under_load
from tools.capacity import Lever, gpu_budget, levers, what_if
from tools.capacity.errors import SettingRefused
from transcripts.facts import Fact, Facts


def of(facts: Facts) -> dict[str, Lever]:
    found = levers(facts)
    assert all(isinstance(lever, Lever) for lever in found)
    return {lever.name: lever for lever in found if isinstance(lever, Lever)}


@pytest.fixture(scope="module")
def full() -> dict[str, Lever]:
    """Long requests: about 20 running at some 7,700 tokens each."""
    return of(story(*under_load(usage=0.97, running=20)))


@pytest.mark.parametrize(("dp", "factor"), [(2, 1.77), (4, 2.59), (8, 1.44)])
def test_dp_attention_on_the_storys_box(full: dict[str, Lever], dp: int, factor: float) -> None:
    lever = full[f"DP attention, dp {dp}"]
    assert round(lever.factor, 2) == factor
    assert any(entry.name == "attention_weights_repeated" for entry in lever.sums)


def of_class(name: str, version: str = "0.5.9") -> dict[str, Lever]:
    return of(story(*under_load(), Fact("model_class", name, "", "observed", "E5:40"), version=version))


@pytest.mark.parametrize(("name", "version"), [("LlamaForCausalLM", "0.5.23"), ("MiniMaxM2ForCausalLM", "0.5.9")])
def test_a_class_whose_code_has_no_dp_attention_is_offered_none(name: str, version: str) -> None:
    assert not [lever for lever in of_class(name, version) if "DP attention" in lever]
    with pytest.raises(SettingRefused, match=rf"{name} has no DP attention in SGLang {version}"):
        what_if(story(Fact("model_class", name, "", "observed", "E5:40"), version=version), {"dp-size": "2"})


def test_a_class_that_was_not_read_is_offered_dp_attention_as_not_known() -> None:
    for name, lever in of_class("NewestForCausalLM").items():
        if "DP attention" in name and lever.tokens:
            assert lever.fits is None
            assert not lever.frontier
            assert "whether NewestForCausalLM has DP attention is not known" in lever.why_not
    assert of_class("MiniMaxM2ForCausalLM", "0.5.11")["DP attention, dp 4"].fits


def test_fp8_doubles_the_pool(full: dict[str, Lever]) -> None:
    assert full["FP8 KV cache"].factor == pytest.approx(2.0, abs=0.001)
    assert full["FP8 KV cache"].running == 41


def test_dp_4_with_fp8_runs_into_the_48_again(full: dict[str, Lever]) -> None:
    lever = full["FP8 KV cache + DP attention, dp 4"]
    assert (lever.running, lever.binds) == (48, "slots")
    assert "12 in each pool" in lever.why_not
    more = full["FP8 KV cache + DP attention, dp 4 + more slots"]
    assert more.running is not None
    assert more.running > 90
    assert ("--max-running-requests", None, "96") in more.changes


def test_hicache_leaves_running_requests_alone(full: dict[str, Lever]) -> None:
    lever = full["HiCache, ratio 4.4"]
    assert lever.running_factor == 1.0
    assert lever.factor == 1.0
    assert lever.prefix_factor == pytest.approx(4.4, abs=0.01)
    assert lever.host_gb < 398.2


def test_little_ram_makes_hicache_not_worth_it() -> None:
    lever = of(story(*under_load(), available_gib=120))["HiCache, ratio 1.1"]
    assert "not worth it" in lever.why_not


def test_more_slots_only_where_the_pool_has_room() -> None:
    assert of(story(*under_load()))["more slots"].changes == (("--max-running-requests", None, "72"),)
    assert "more slots" not in of(story(*under_load(usage=0.97, running=20)))


def test_dcp_only_where_the_version_has_it() -> None:
    assert not [name for name in of(story()) if "dcp" in name]
    later = of(story(version="0.5.23"))
    assert later["decode context parallel, dcp 8"].factor == pytest.approx(8.0, abs=0.01)


def test_a_flag_that_the_catalogue_lacks_is_not_offered() -> None:
    found = levers(story(), catalogue_has=lambda flag: flag != "--kv-cache-dtype")
    assert not [lever for lever in found if isinstance(lever, Lever) and "FP8" in lever.name]


def test_speculation_off_gives_back_what_the_draft_was_seen_to_take() -> None:
    seen = story(
        Fact("weights_gib", 1.9, "GiB", "observed", "E5:80", "draft"),
        Fact("kv_pool_gib", 0.34, "GiB", "observed", "E5:85", "draft"),
        Fact("graph_gib", 0.5, "GiB", "observed", "E5:90", "draft"),
    )
    lever = of(seen)["speculative decoding off"]
    assert lever.tokens > 159209
    assert ("--speculative-algorithm", "EAGLE3", None) in lever.changes


def test_without_load_tokens_are_known_and_running_is_not() -> None:
    lever = of(story())["FP8 KV cache"]
    assert lever.running is None
    assert lever.tokens == 318418


def test_without_the_models_shape_it_says_what_is_missing() -> None:
    facts = Facts(fact for fact in story() if fact.name != "model_config")
    missing = levers(facts)
    assert [entry.facts for entry in missing if not isinstance(entry, Lever)] == [("model_config",)]


def test_the_frontier_is_marked_and_holds_no_beaten_lever(full: dict[str, Lever]) -> None:
    marked = {name for name, lever in full.items() if lever.frontier}
    assert {"FP8 KV cache + DP attention, dp 4 + more slots", "HiCache, ratio 4.4"} <= marked
    assert "FP8 KV cache + DP attention, dp 4" not in marked
    assert "DP attention, dp 8" not in marked
    assert all(full[name].fits for name in marked)


def test_a_larger_host_pool_of_the_running_server_counts_as_available() -> None:
    pinned = story(
        Fact("host_pool_gb", 44.75, "GB", "observed", "E5:99"), Fact("running", True, "", "observed", "E4"),
        available_gib=396 - 8 * 44.75e9 / GIB,
    )  # fmt: skip
    assert "HiCache, ratio 4.4" in of(pinned)


def test_dp_attention_is_spelled_as_the_version_spells_it() -> None:
    earlier, later = (of(story(version=version))["DP attention, dp 4"] for version in ("0.5.9", "0.5.23"))
    assert earlier.changes == (("--enable-dp-attention", None, "true"), ("--dp-size", None, "4"))
    assert later.changes == (("--attn-dp-size", None, "4"),)


@pytest.mark.parametrize(
    ("version", "flags"),
    [
        ("0.5.9", {"--enable-dp-attention": "true", "--dp-size": "4"}),
        ("0.5.23", {"--attn-dp-size": "4"}),
        ("0.5.23", {"--enable-dp-attention": "true", "--dp-size": "4"}),
    ],
)
def test_a_server_that_runs_dp_attention_is_read_in_either_spelling(version: str, flags: dict[str, str]) -> None:
    facts = story(*(Fact("flag", value, "", "observed", "E3", name) for name, value in flags.items()), version=version)
    found = of(facts)
    assert found["now"].tokens == 4 * 159209
    assert "DP attention, dp 8" in found
    assert "DP attention, dp 4" not in found


def test_where_the_draft_is_in_the_budget_dropping_it_enlarges_the_pool_by_itself() -> None:
    draft = '{"num_hidden_layers": 1, "num_attention_heads": 64, "hidden_size": 7168, "head_dim": 128}'
    facts = story(
        Fact("model_config", draft, "", "observed", "E8", "draft"),
        Fact("weights_gib", 0.8, "GiB", "observed", "E5:80", "draft"),
        Fact("weights_after_gib", 20.9068, "GiB", "observed", "E5:80", "draft"),
        Fact("kv_pool", 138895, "tokens", "observed", "E5:61"),
        version="0.5.23",
    )
    found = of(facts)
    assert found["now"].tokens == 138895
    # 10.42 GiB at 70,272 bytes a token
    assert found["speculative decoding off"].tokens == pytest.approx(159209, rel=0.002)


def test_a_typed_cap_on_tokens_is_what_ends_the_pool() -> None:
    """0.5.9 takes the smaller of what was profiled and --max-total-tokens; what the cap keeps back shows as free."""
    capped = (
        Fact("flag", "100000", "", "observed", "E3:4", "--max-total-tokens"),
        Fact("kv_pool", 100_000, "tokens", "observed", "E5:61"),
        Fact("kv_pool", 100_000, "tokens", "observed", "E5:62", "draft"),
        Fact("kv_pool_gib", 6.54, "GiB", "observed", "E5:61"),
        *(Fact("gpu_free_mib", 9_687, "MiB", "observed", f"E1:{n + 2}", f"gpu{n}") for n in range(8)),
        Fact("free_after_boot_gib", 9.6, "GiB", "observed", "E5:90"),
    )
    facts = story(*under_load(), *capped)
    found = of(facts)
    assert found["no cap on tokens"].tokens == pytest.approx(159_258, abs=60)
    assert found["no cap on tokens"].fits
    assert found["FP8 KV cache"].tokens == 100_000
    assert found["FP8 KV cache + no cap on tokens"].tokens == pytest.approx(2 * 159_258, abs=120)
    assert "larger static fraction" not in found
    largest = gpu_budget(facts).largest_fraction
    assert largest is not None
    assert largest <= 0.90  # 9.6 GiB are free with the cap, 5.5 without
    with_cap = what_if(story(*under_load()), {"max-total-tokens": "100000"})
    assert isinstance(with_cap, Lever)
    assert with_cap.tokens == 100_000
