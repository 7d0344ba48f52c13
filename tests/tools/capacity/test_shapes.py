"""Shapes from config.json of every class of cache: bytes per token and per request against what servers printed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tools.capacity.boxes import KIMI
from tools.capacity import Card, ModelShape, automatic_fraction
from tools.capacity.errors import ConfigUnreadable
from tools.capacity.pools import Layout, budget_bytes_per_token, full_bytes_per_token, sliding_bytes_per_token
from tools.capacity.shape import Vision

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "hidden_size": 4096, "max_position_embeddings": 131072,
}  # fmt: skip
DSA = {
    "architectures": ["GlmMoeDsaForCausalLM"], "num_hidden_layers": 78, "num_attention_heads": 64, "hidden_size": 6144,
    "kv_lora_rank": 512, "qk_rope_head_dim": 64, "index_topk": 2048, "index_head_dim": 128, "n_routed_experts": 256,
}  # fmt: skip
QWEN_NEXT = {
    "architectures": ["Qwen3NextForCausalLM"], "num_hidden_layers": 48, "num_attention_heads": 16,
    "num_key_value_heads": 2, "head_dim": 256, "hidden_size": 2048, "full_attention_interval": 4,
    "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "num_experts": 512,
}  # fmt: skip
QWEN_27B = {
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "text_config": {
        "num_hidden_layers": 64, "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256,
        "hidden_size": 5120, "linear_num_key_heads": 16, "linear_num_value_heads": 48, "linear_key_head_dim": 128,
        "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
        "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 16, "num_nextn_predict_layers": 1,
    },
    "vision_config": {"depth": 27, "hidden_size": 1152},
}  # fmt: skip
GPT_OSS = {
    "architectures": ["GptOssForCausalLM"], "num_hidden_layers": 36, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 64, "hidden_size": 2880, "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 18, "num_local_experts": 128,
}  # fmt: skip
GEMMA_4 = {
    "architectures": ["Gemma4ForConditionalGeneration"],
    "text_config": {
        "num_hidden_layers": 30, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256,
        "global_head_dim": 512, "num_global_key_value_heads": 2, "hidden_size": 2816, "sliding_window": 1024,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 5,
    },
}  # fmt: skip
MIMO = {
    "architectures": ["MiMoV2FlashForCausalLM"], "num_hidden_layers": 48, "num_attention_heads": 64,
    "num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128, "hidden_size": 4096, "sliding_window": 128,
    "swa_num_key_value_heads": 8, "swa_head_dim": 192, "swa_v_head_dim": 128,
    "hybrid_layer_pattern": [0] + [1, 1, 1, 1, 1, 0] * 7 + [1] * 4 + [0],
}  # fmt: skip
NEMOTRON = {
    "architectures": ["NemotronHForCausalLM"], "num_hidden_layers": 52, "num_attention_heads": 32,
    "num_key_value_heads": 2, "head_dim": 128, "hidden_size": 2688,
    "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
    "mamba_num_heads": 64, "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4,
}  # fmt: skip
GRANITE = {
    "architectures": ["GraniteMoeHybridForCausalLM"], "num_hidden_layers": 40, "num_attention_heads": 32,
    "num_key_value_heads": 8, "hidden_size": 2048, "mamba_n_heads": 64, "mamba_d_head": 64, "mamba_d_state": 128,
    "mamba_n_groups": 1, "mamba_d_conv": 4, "layer_types": (["mamba"] * 9 + ["attention"]) * 4,
}  # fmt: skip
KIMI_LINEAR = {
    "architectures": ["KimiLinearForCausalLM"], "num_hidden_layers": 27, "num_attention_heads": 32, "hidden_size": 2304,
    "kv_lora_rank": 512, "qk_rope_head_dim": 64,
    "linear_attn_config": {
        "num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4, "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
        "kda_layers": [layer for layer in range(1, 27) if layer % 4],
    },
}  # fmt: skip
LFM = {
    "architectures": ["Lfm2ForCausalLM"], "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
    "hidden_size": 2048, "conv_L_cache": 3, "layer_types": ["conv", "conv", "full_attention", "conv"] * 4,
}  # fmt: skip

VISION = Vision(layers=27, hidden=1152)


def shape(config: dict[str, Any], version: str = "0.5.23") -> ModelShape:
    return ModelShape.from_config(config).for_version(version)


@pytest.mark.parametrize(
    ("config", "layout", "expected"),
    [
        pytest.param(LLAMA, Layout(), 131072, id="dense"),
        pytest.param(LLAMA, Layout(attn_tp=16), 32 * 256 * 2, id="never below one head"),
        pytest.param(LLAMA, Layout(element=0.5625), 36864, id="FP4 with scales"),
        pytest.param(KIMI, Layout(attn_tp=8), 70272, id="MLA is whole on every rank"),
        pytest.param(KIMI, Layout(attn_tp=8, element=1.0), 35136, id="MLA FP8"),
        pytest.param(DSA, Layout(element=1.0), 78 * (656 + 132), id="indexer, FP8 with scales"),
        pytest.param(DSA, Layout(element=1.0, raw_dsa_fp8=True), 78 * (576 + 132), id="indexer, raw FP8"),
        pytest.param(DSA, Layout(), 78 * (1152 + 132), id="indexer, bf16"),
        pytest.param(QWEN_NEXT, Layout(attn_tp=1), 12 * 2 * 512 * 2, id="gated delta: only full layers keep KV"),
        pytest.param(QWEN_27B, Layout(attn_tp=2), 16 * 2 * 512 * 2, id="nested text part"),
        pytest.param(NEMOTRON, Layout(attn_tp=4, element=1.0), 6 * 256, id="mamba by pattern"),
        pytest.param(GRANITE, Layout(), 4 * 8 * 128 * 2, id="mamba by layer types"),
        pytest.param(KIMI_LINEAR, Layout(), 7 * 576 * 2, id="linear attention with MLA"),
        pytest.param(LFM, Layout(), 4 * 8 * 128 * 2, id="short convolutions"),
        pytest.param(LLAMA, Layout(pp=3), 11 * 4096, id="the largest pipeline stage"),
    ],
)
def test_bytes_per_token(config: dict[str, Any], layout: Layout, expected: float) -> None:
    assert full_bytes_per_token(shape(config), layout) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("config", "full", "sliding"),
    [
        pytest.param(GPT_OSS, 18 * 8 * 128 * 2, 18 * 8 * 128 * 2, id="same heads"),
        pytest.param(GEMMA_4, 5 * 2 * 1024 * 2, 25 * 8 * 512 * 2, id="wide full layers"),
        pytest.param(MIMO, 9 * 4 * 320 * 2, 39 * 8 * 320 * 2, id="values narrower than keys"),
    ],
)
def test_two_pools_of_a_sliding_window_model(config: dict[str, Any], full: int, sliding: int) -> None:
    found = shape(config)
    assert full_bytes_per_token(found, Layout()) == full
    assert sliding_bytes_per_token(found, Layout()) == sliding


def test_a_version_that_does_not_split_gives_every_layer_the_full_row() -> None:
    found = shape(GEMMA_4, "0.5.9")
    assert found.sliding is None
    assert full_bytes_per_token(found, Layout()) == 30 * 2 * 1024 * 2


@pytest.mark.parametrize(
    ("config", "attn_tp", "conv", "matrix"),
    [
        # printed: 186 slots, conv 0.10, ssm 4.38 GB at tp 2 (32 layers of the same heads, 24 of them linear)
        pytest.param(QWEN_27B, 1, 48 * 10240 * 3 * 2, 48 * 48 * 128 * 128 * 4, id="gated delta"),
        pytest.param(NEMOTRON, 4, 23 * 1536 * 3 * 2, 23 * 16 * 64 * 128 * 4, id="mamba, tp 4"),
        pytest.param(GRANITE, 1, 36 * 4352 * 3 * 2, 36 * 64 * 64 * 128 * 4, id="mamba, one group"),
        pytest.param(KIMI_LINEAR, 1, 20 * 3 * 4096 * 3 * 2, 20 * 32 * 128 * 128 * 4, id="Kimi delta"),
        pytest.param(LFM, 2, 12 * 1024 * 2 * 2, 0, id="short convolution"),
    ],
)
def test_state_per_request(config: dict[str, Any], attn_tp: int, conv: int, matrix: int) -> None:
    state = shape(config).state
    assert state is not None
    assert state.conv_bytes_per_request(attn_tp) == conv
    assert state.matrix_bytes_per_request(attn_tp) == matrix


def test_shared_topk_layers_have_no_indexer_rows_where_the_version_leaves_them_out() -> None:
    config = DSA | {"index_topk_freq": 4, "index_skip_topk_offset": 3}
    later, earlier = shape(config, "0.5.23").indexer, shape(config, "0.5.9").indexer
    assert later is not None
    assert earlier is not None
    assert (later.owners, earlier.owners) == (21, 78)


def test_the_old_budget_of_an_fp8_indexer_model_divides_by_less_than_it_stores() -> None:
    layout = Layout(element=1.0)
    assert budget_bytes_per_token(shape(DSA, "0.5.9"), layout, "0.5.9") == 55224
    assert full_bytes_per_token(shape(DSA, "0.5.9"), layout) == 61464
    assert budget_bytes_per_token(shape(DSA), layout, "0.5.23") == 61464


def test_draft_shapes_its_own_and_the_targets_prediction_layer() -> None:
    eagle = {"num_hidden_layers": 1, "num_attention_heads": 64, "hidden_size": 7168, "head_dim": 128}
    assert full_bytes_per_token(ModelShape.from_config(eagle, draft=True), Layout(attn_tp=8)) == 8 * 256 * 2
    predicted = ModelShape.from_config(QWEN_27B, draft=True)
    assert predicted.state is None
    assert full_bytes_per_token(predicted, Layout(attn_tp=2)) == 2 * 512 * 2


def test_a_compressed_cache_is_left_to_the_servers_own_figure() -> None:
    config = LLAMA | {"architectures": ["DeepseekV4ForCausalLM"], "compress_ratios": [4, 128], "head_dim": 512}
    found = ModelShape.from_config(config)
    assert found.compressed
    assert "prints its own" in found.kind


def test_context_lengths_with_and_without_scaling() -> None:
    assert shape(KIMI).context_len == 262144
    assert shape(LLAMA | {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}).context_len == 131072
    assert shape(LLAMA | {"rope_scaling": {"type": "linear", "factor": 2.0}}).context_len == 262144


def test_a_config_without_layers_is_refused_in_one_line() -> None:
    with pytest.raises(ConfigUnreadable, match="num_hidden_layers"):
        ModelShape.from_config({"hidden_size": 4096})


@pytest.mark.parametrize(
    ("fraction", "expected"),
    [
        pytest.param(automatic_fraction(Card(95830, 1), graph_max_bs=256), 0.860, id="H100 NVL"),
        pytest.param(automatic_fraction(Card(81559, 1), graph_max_bs=256, prefill_graphs=58), 0.830, id="H100 80 GB"),
        pytest.param(automatic_fraction(Card(16303, 1)), 0.771, id="16 GB"),
        pytest.param(automatic_fraction(Card(81559, 8), version="0.4.6"), 0.81, id="old table"),
        pytest.param(automatic_fraction(Card(97887, 8), speculative="EAGLE3", vision=VISION), 0.752, id="story"),
    ],
)
def test_the_fraction_that_the_server_picks(fraction: float, expected: float) -> None:
    assert fraction == pytest.approx(expected, abs=0.0006)
