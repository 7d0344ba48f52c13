"""What holds of every plan: more gives no less, parts add up, units keep apart, and no config breaks it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.long import many
from tests.tools.capacity.boxes import GIB, KIMI, story, under_load
from tests.tools.capacity.test_host_pools import DRAFTED, HYBRID, LIMIT, STATE, WINDOWS, box
from tools.capacity import HostBudget, Lever, ModelShape, Report, gpu_budget, host_budget, levers
from tools.capacity.errors import ConfigUnreadable
from transcripts.facts import Fact, Facts

VERSIONS = st.sampled_from(["0.4.6", "0.5.9", "0.5.12", "0.5.14", "0.5.16", "0.5.17", "0.5.18", "0.5.23"])
CONFIGS = st.sampled_from([HYBRID, WINDOWS, KIMI])
PROPERTY = settings(max_examples=30, deadline=None)


def start(config: dict[str, Any], version: str, fraction: float, *more: Fact, **flags: str) -> Facts:
    memory = (
        Fact("weights_before_gib", 94.0, "GiB", "observed", "E9"),
        Fact("weights_after_gib", 30.0, "GiB", "observed", "E9"),
        Fact("gpu_memory_mib", 97887, "MiB", "observed", "E9", "gpu0"),
        Fact("flag", f"{fraction}", "", "observed", "E9", "--mem-fraction-static"),
    )
    return box(config, version, *memory, *more, flags=flags)


def tokens(facts: Facts) -> float:
    found = gpu_budget(facts).sum("pool_tokens")
    assert found is not None
    return found.value


def hosted(facts: Facts, ratio: float | None = None, size_gb: int | None = None) -> HostBudget:
    found = host_budget(facts, ratio, size_gb)
    assert isinstance(found, HostBudget)
    return found


@PROPERTY
@given(CONFIGS, VERSIONS, st.floats(0.70, 0.99), st.floats(0.0, 0.2), st.booleans())
def test_more_fraction_never_gives_fewer_tokens(
    config: dict[str, Any], version: str, fraction: float, more: float, drafting: bool
) -> None:
    """Save where another state slot takes its part of the pool: then by no more than that slot."""
    flags = DRAFTED | {"max_running_requests": "16"} if drafting else {}
    low = tokens(start(config, version, fraction, **flags))
    high = tokens(start(config, version, min(0.999, fraction + more), **flags))
    state = ModelShape.from_config(config).state
    slot = 3 * state.bytes_per_request(1) / (12 * 2 * 512) + 64 if state else 0.0
    assert high >= low - slot


@PROPERTY
@given(CONFIGS, VERSIONS, st.floats(0.1, 8), st.floats(0, 4))
def test_more_ratio_never_takes_less_host_memory(
    config: dict[str, Any], version: str, ratio: float, more: float
) -> None:
    facts = box(config, version, STATE, LIMIT, flags=DRAFTED)
    one, other = hosted(facts, ratio), hosted(facts, ratio + more)
    assert other.total_bytes >= one.total_bytes
    assert other.prefix_tokens >= one.prefix_tokens
    assert other.limit_bytes == one.limit_bytes


@PROPERTY
@given(CONFIGS, VERSIONS, st.integers(1, 900))
def test_a_size_is_kept_to(config: dict[str, Any], version: str, size: int) -> None:
    """Each pool rounds up by a page or a slot; nothing else comes on top without a draft."""
    found = hosted(box(config, version, STATE), size_gb=size)
    shared = tuple(map(int, version.split("."))) >= (0, 5, 17)
    totals = [size * 1e9] if shared else [size * 1e9] * len(found.pools)
    over = sum(64 * pool.row_bytes for pool in found.pools)
    assert abs(found.per_rank_bytes - sum(totals)) <= over


@PROPERTY
@given(CONFIGS, VERSIONS, st.floats(1, 1000), st.floats(1, 8))
def test_the_largest_ratio_is_reachable(config: dict[str, Any], version: str, available: float, ratio: float) -> None:
    facts = box(config, version, STATE, available_gib=available)
    largest = hosted(facts, ratio).largest_ratio
    if largest > 0:
        assert hosted(facts, largest).fits
    assert not hosted(facts, round(largest + 0.2, 1)).fits


@PROPERTY
@given(CONFIGS, VERSIONS, st.floats(1, 6))
def test_parts_add_up_and_units_keep_apart(config: dict[str, Any], version: str, ratio: float) -> None:
    facts = start(config, version, 0.9, STATE, Fact("gpu_free_mib", 4096, "MiB", "observed", "E9", "gpu0"))
    card, *rest = gpu_budget(facts).steps
    assert sum(step.gib for step in rest) == pytest.approx(card.gib, abs=1e-6)
    found = hosted(facts, ratio)
    assert found.total_bytes == found.per_rank_bytes * found.ranks
    assert found.per_rank_bytes == sum(pool.bytes for pool in found.pools)
    assert found.total_gb * 1e9 == pytest.approx(found.total_gib * GIB)
    for entry in (*gpu_budget(facts).sums, *found.sums):
        assert entry.unit == ("GB" if entry.name.startswith("host_") else entry.unit)
        assert entry.unit in ("GB", "GiB", "tokens", "requests", "fraction")
    total = found.sums[0]
    assert total.value == pytest.approx(found.total_gb)
    assert total.limit == pytest.approx(found.limit_bytes / 1e9)


@settings(max_examples=many(8))
@given(VERSIONS, st.floats(20, 900))
def test_no_lever_that_fits_takes_more_than_there_is(version: str, available: float) -> None:
    for lever in levers(story(*under_load(), version=version, available_gib=available)):
        assert isinstance(lever, Lever)
        assert lever.tokens >= 0
        assert lever.host_gb >= 0
        if lever.fits and lever.host_gb:
            assert lever.host_gb <= available * GIB / 1e9 - 10


ODD: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 1, 7, 10**12, 10**30, 10**400, "", "8", "auto", "x" * 50, 0.0, 1e308, float("inf")]),
    st.lists(st.one_of(st.integers(-2, 3), st.text(max_size=3), st.none()), max_size=4),
    st.dictionaries(st.sampled_from(["num_heads", "head_dim", "jet", "factor", "attention"]), st.integers(-1, 9)),
)
KEYS = sorted(
    {*KIMI["text_config"], *HYBRID, *WINDOWS}
    | {
        "vision_config", "thinker_config", "llm_config", "block_configs", "layers_block_type",
        "hybrid_override_pattern",
        "mamba_n_heads", "mamba_d_head", "mamba_d_state", "layer_group_size", "short_conv_kernel_size", "mixer_types",
        "full_attn_idxs", "conv_L_cache", "sparse_attention_config", "indexer_compress_ratio", "indexer_head_dim",
        "linear_attn_config", "attention_other_setting", "swa_num_key_value_heads", "loop_num", "compress_ratios",
        "index_topk", "index_head_dim", "index_topk_pattern", "efficient_attention_config", "global_head_dim",
        "num_nextn_predict_layers", "quantization_config", "attn_config",
    }
)  # fmt: skip


@settings(max_examples=many(150))
@given(
    st.sampled_from([HYBRID, WINDOWS, KIMI["text_config"]]),
    st.dictionaries(st.sampled_from(KEYS), ODD, max_size=4),
    st.sets(st.sampled_from(KEYS), max_size=3),
    st.booleans(),
)
def test_any_config_gives_a_plan_or_says_what_is_missing(
    base: dict[str, Any], changes: dict[str, Any], dropped: set[str], nested: bool
) -> None:
    part = {key: value for key, value in (base | changes).items() if key not in dropped}
    config = {"text_config": part, **changes} if nested else part
    facts = story(*under_load(), Fact("model_config", json.dumps(config), "", "observed", "E8"), version="0.5.23")
    report = Report(facts)
    assert json.loads(json.dumps(report.as_json(), allow_nan=False))["v"] == 1
    assert list(report.text(everything=True, explain=True)) is not None
    if refusal := _refusal(config):
        assert "\n" not in refusal
        assert "model_config" in {name for one in report.missing for name in one.facts}


def _refusal(config: dict[str, Any]) -> str:
    try:
        ModelShape.from_config(config)
    except ConfigUnreadable as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 100_000, id="deep"),
        pytest.param('{"thinker_config":' * 3000 + "{}" + "}" * 3000, id="nested beyond reason"),
        pytest.param('{"num_hidden_layers": ' + "9" * 5000 + "}", id="digits beyond reason"),
        pytest.param('{"num_hidden_layers": 1e999}', id="infinite"),
        pytest.param("null", id="nothing"),
    ],
)
def test_a_config_text_that_no_model_has(text: str) -> None:
    report = Report(story(Fact("model_config", text, "", "observed", "E8")))
    assert "model_config" in {name for one in report.missing for name in one.facts}
