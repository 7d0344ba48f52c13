"""Host memory of HiCache for models with more than one pool, by the rule of the version."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tools.capacity.boxes import GIB, story
from tools.capacity import HostBudget, Lever, host_budget, levers, what_if
from tools.capacity.errors import SettingRefused
from transcripts.facts import Fact, Facts

# 48 layers, 12 of them with KV of 2 heads x 256, 36 with a gated-delta state of 48 x 128 x 128.
HYBRID: dict[str, Any] = {
    "architectures": ["Qwen4ExpForCausalLM"], "num_hidden_layers": 48, "num_attention_heads": 16,
    "num_key_value_heads": 2, "head_dim": 256, "hidden_size": 2048, "linear_num_key_heads": 16,
    "linear_num_value_heads": 48, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4, "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 12,
    "mamba_ssm_dtype": "bfloat16", "max_position_embeddings": 262144,
}  # fmt: skip
WINDOWS: dict[str, Any] = {
    "architectures": ["GptOssForCausalLM"], "num_hidden_layers": 36, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 64, "hidden_size": 2880, "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 18, "max_position_embeddings": 131072,
}  # fmt: skip


def box(
    config: dict[str, Any],
    version: str,
    *more: Fact,
    available_gib: float = 1500.0,
    flags: dict[str, str] | None = None,
) -> Facts:
    """One GPU with 240,128 tokens of FP8 cache."""
    return Facts(
        [
            Fact("version", version, "", "observed", "E1"),
            Fact("model_config", json.dumps(config), "", "observed", "E2"),
            Fact("kv_dtype", "torch.float8_e4m3fn", "", "observed", "E3"),
            Fact("kv_pool", 240128, "tokens", "observed", "E4"),
            Fact("mem_available_bytes", int(available_gib * GIB), "bytes", "observed", "E5"),
            Fact("mem_total_bytes", int(available_gib * GIB), "bytes", "observed", "E5"),
            Fact("flag", "64", "", "observed", "E6", "--page-size"),
            Fact("flag", "0.9", "", "observed", "E6", "--mem-fraction-static"),
            *(
                Fact("flag", value, "", "observed", "E6", "--" + name.replace("_", "-"))
                for name, value in (flags or {}).items()
            ),
            *more,
        ]
    )


# 78 MLA layers with a sparse indexer, of which every fourth owns one from the third layer on.
INDEXED: dict[str, Any] = {
    "architectures": ["GlmMoeDsaForCausalLM"], "num_hidden_layers": 78, "num_attention_heads": 64, "hidden_size": 6144,
    "kv_lora_rank": 512, "qk_rope_head_dim": 64, "index_topk": 2048, "index_head_dim": 128, "index_topk_freq": 4,
    "index_skip_topk_offset": 3, "num_nextn_predict_layers": 1, "max_position_embeddings": 202752,
}  # fmt: skip
STATE = Fact("state_slots", 48, "slots", "observed", "E7")
DRAFTED = {"speculative_algorithm": "NEXTN", "speculative_num_draft_tokens": "4"}
LIMIT = Fact("running_limit", 4, "requests", "observed", "E8")


def budget(facts: Facts, ratio: float | None = None, size_gb: int | None = None) -> HostBudget:
    found = host_budget(facts, ratio, size_gb)
    assert isinstance(found, HostBudget)
    return found


def pools(found: HostBudget) -> dict[str, float]:
    return {pool.name: round(pool.bytes / 1e9, 2) for pool in found.pools}


def test_a_size_is_one_total_shared_by_device_bytes_as_a_server_printed_it() -> None:
    # Printed: 3,035,904 tokens in 40.41 GB with one packed draft layer, and 55.60 GB of state, at --hicache-size 96.
    found = budget(box(HYBRID, "0.5.20", STATE, LIMIT, flags=DRAFTED), size_gb=96)
    kv, state = found.pools
    assert (kv.name, kv.rows, round(kv.bytes / 1e9, 2)) == ("KV", 3_035_904, 40.41)
    assert kv.row_bytes == 13 * 2 * 256 * 2
    assert round(state.bytes / 1e9, 1) == 55.6
    assert found.per_rank_gb == pytest.approx(96, abs=0.1)
    assert any("one total" in text for text in found.warnings)


@pytest.mark.parametrize("version", ["0.5.12", "0.5.16"])
def test_before_each_pool_takes_all_of_the_size(version: str) -> None:
    found = budget(box(HYBRID, version, STATE), size_gb=20)
    assert pools(found) == {"KV": 20.0, "recurrent state": pytest.approx(20.0, abs=0.06)}
    assert found.total_gb == pytest.approx(40.0, abs=0.06)
    assert "hybrid_pool_assembler.py" in found.sums[0].source_line
    assert any("takes the whole of --hicache-size" in text for text in found.warnings)


def test_the_fit_follows_the_version() -> None:
    """A size of 60 fits a host of 100 GB as one total, and not as one for each of two pools."""
    before, after = (budget(box(WINDOWS, version, available_gib=100), size_gb=60) for version in ("0.5.16", "0.5.17"))
    assert pools(before) == {"KV": 60.0, "sliding window": 60.0}
    assert sum(pools(after).values()) == pytest.approx(60.0, abs=0.02)
    assert (before.fits, after.fits) == (False, True)
    kv, window = after.pools
    assert kv.bytes / window.bytes == pytest.approx(1 / 0.8, rel=0.01)


def test_a_ratio_scales_each_pool_by_itself() -> None:
    for version in ("0.5.16", "0.5.23"):
        found = budget(box(HYBRID, version, STATE), ratio=4.0)
        kv, state = found.pools
        assert kv.rows == 4 * 240128 + 64
        assert state.rows == 4 * 48 + 1
        assert found.total_bytes == kv.bytes + state.bytes
        facts = box(HYBRID, version, STATE, available_gib=60)
        largest = budget(facts, 4.0).largest_ratio
        assert budget(facts, largest).fits
        assert not budget(facts, round(largest + 0.1, 1)).fits


def test_a_draft_of_its_own_comes_on_top_and_prediction_layers_are_packed_later() -> None:
    packed = budget(box(HYBRID, "0.5.18", STATE, LIMIT, flags=DRAFTED), ratio=2.0)
    beside = budget(box(HYBRID, "0.5.16", STATE, LIMIT, flags=DRAFTED), ratio=2.0)
    assert [pool.name for pool in packed.pools] == ["KV", "recurrent state"]
    assert [pool.name for pool in beside.pools] == ["KV", "recurrent state", "draft"]
    assert beside.pools[2].row_bytes == 2 * 256 * 2
    assert packed.total_bytes == pytest.approx(beside.total_bytes, rel=1e-3)


def test_an_early_version_keeps_no_draft_and_says_so() -> None:
    found = budget(story(), 4.0)
    assert [pool.name for pool in found.pools] == ["KV"]
    assert any("not kept in host memory" in text for text in found.warnings)


def test_a_draft_of_unknown_shape_is_said_to_be_missing_from_the_sum() -> None:
    found = budget(story(version="0.5.12"), 4.0)
    assert any("not in this sum" in text for text in found.warnings)


def test_slots_that_no_line_says_follow_the_split() -> None:
    found = budget(box(HYBRID, "0.5.20"), ratio=1.0)
    kv, state = found.pools
    assert state.bytes / kv.bytes == pytest.approx(0.9, abs=0.03)


def test_a_version_that_refuses_such_a_model_is_said_to() -> None:
    assert any("the start fails" in text for text in budget(box(HYBRID, "0.5.9", STATE), 2.0).warnings)
    assert any("the start fails" in text for text in budget(box(WINDOWS, "0.5.11"), 2.0).warnings)
    assert not any("the start fails" in text for text in budget(box(WINDOWS, "0.5.12"), 2.0).warnings)


def running(config: dict[str, Any], version: str, *more: Fact, flags: dict[str, str] | None = None) -> dict[str, Lever]:
    memory = (
        Fact("weights_before_gib", 94.0, "GiB", "observed", "E9"),
        Fact("weights_after_gib", 20.0, "GiB", "observed", "E9"),
    )
    found = levers(box(config, version, *memory, *more, available_gib=300, flags=flags))
    return {lever.name: lever for lever in found if isinstance(lever, Lever)}


def test_the_levers_sum_all_pools_and_the_plan_as_set_counts_its_size() -> None:
    on = {"enable_hierarchical_cache": "true", "hicache_size": "60"}
    assert running(WINDOWS, "0.5.16", flags=on)["now"].host_gb == pytest.approx(120, abs=0.1)
    assert running(WINDOWS, "0.5.17", flags=on)["now"].host_gb == pytest.approx(60, abs=0.1)
    lever = next(one for name, one in running(WINDOWS, "0.5.17", flags=on).items() if name.startswith("HiCache"))
    assert ("--hicache-size", "60", None) in lever.changes  # a size wins over a ratio
    ratio = float(next(after for flag, _, after in lever.changes if flag == "--hicache-ratio") or 0)
    alone = budget(box(WINDOWS, "0.5.17", available_gib=300), ratio)
    assert lever.host_gb == pytest.approx(alone.total_gb * lever.tokens / 240128, rel=0.02)


def test_no_hicache_lever_where_the_version_refuses_the_model() -> None:
    assert not [name for name in running(HYBRID, "0.5.9", STATE) if "HiCache" in name]
    assert [name for name in running(HYBRID, "0.5.12", STATE) if "HiCache" in name]


def test_an_indexer_has_a_host_pool_of_its_own_with_as_many_rows_as_a_server_printed_it() -> None:
    # Printed on MI355X at the default ratio: 3,423,488 tokens in 153.81 GB, and 35.25 GB for the indexer.
    amd = Fact("gpu_name", "AMD Instinct MI355X", "", "observed", "E9")
    pool = Fact("kv_pool", 1711712, "tokens", "observed", "E4")
    found = budget(box(INDEXED, "0.5.20", amd, pool), ratio=2.0)
    assert [one.rows for one in found.pools] == [3_423_488, 3_423_488]
    assert pools(found) == {"KV": 153.81, "indexer": 35.25}


@pytest.mark.parametrize(
    ("version", "expected", "on_top"),
    [
        pytest.param("0.5.10", {"KV": 60.0}, False, id="in the KV rows"),
        pytest.param("0.5.16", {"KV": 60.0, "indexer": 60.0 * 132 / 656}, True, id="on top, on every layer"),
        pytest.param("0.5.22", {"KV": 60.0, "indexer": 60.0 * 132 * 21 / 656 / 78}, True, id="on top, on its owners"),
    ],
)
def test_an_indexer_under_a_size(version: str, expected: dict[str, float], on_top: bool) -> None:
    found = budget(box(INDEXED, version), size_gb=60)
    assert pools(found) == pytest.approx(expected, abs=0.01)
    assert found.total_gb == pytest.approx(sum(expected.values()), abs=0.02)
    assert any("on top of --hicache-size" in text for text in found.warnings) == on_top
    assert "hybrid" not in found.sums[0].source_line


def test_a_prediction_layer_with_an_indexer_is_packed_into_both() -> None:
    kv, index = budget(box(INDEXED, "0.5.20", LIMIT, flags=DRAFTED), ratio=1.0).pools
    assert (kv.row_bytes, index.row_bytes) == (79 * 656, 79 * 132)


def test_compressed_index_keys_beside_heads_take_their_part_of_the_size_once_the_version_keeps_them() -> None:
    config = HYBRID | {"indexer_compress_ratio": 4, "indexer_head_dim": 128}
    assert "indexer" not in pools(budget(box(config, "0.5.21", STATE), size_gb=60))
    found = budget(box(config, "0.5.22", STATE), size_gb=60)
    assert found.total_gb == pytest.approx(60, abs=0.1)
    assert pools(found)["indexer"] == pytest.approx(pools(found)["KV"] * 64 * 12 / (12 * 2 * 512), rel=0.01)


def test_a_size_that_the_operator_names_is_summed_as_the_budget_sums_it() -> None:
    found = what_if(story(), {"hicache-size": "20"})
    assert isinstance(found, Lever)
    assert found.host_gb == pytest.approx(budget(story(), size_gb=20).total_gb)
    assert found.host_gb == pytest.approx(160, abs=0.05)
    assert found.prefix_tokens == budget(story(), size_gb=20).prefix_tokens
    assert found.fits


@pytest.mark.parametrize("setting", [{"hicache-ratio": "2"}, {"hicache-size": "60"}, {"enable-hierarchical-cache": ""}])
def test_named_settings_do_not_start_what_the_version_refuses(setting: dict[str, str]) -> None:
    memory = (
        Fact("weights_before_gib", 94.0, "GiB", "observed", "E9"),
        Fact("weights_after_gib", 20.0, "GiB", "observed", "E9"),
    )
    with pytest.raises(SettingRefused, match="the start fails"):
        what_if(box(HYBRID, "0.5.9", STATE, *memory), setting)
    assert isinstance(what_if(box(HYBRID, "0.5.12", STATE, *memory), setting), Lever)
