"""Shapes from config.json of every class of cache: bytes per token and per request against what servers printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.tools.capacity.boxes import KIMI
from tools.capacity import (
    Card,
    Cards,
    HostBudget,
    ModelShape,
    Report,
    assume,
    automatic_fraction,
    host_budget,
    versions,
)
from tools.capacity.errors import ConfigUnreadable
from tools.capacity.pools import Layout, budget_bytes_per_token, full_bytes_per_token, sliding_bytes_per_token
from tools.capacity.shape import Vision
from transcripts.facts import Fact, Facts

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


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("cca_time0", 2, "convolutional attention"),
        ("sconv_kernel_size", 4, "short convolutions"),
        ("swa_kv_lora_rank", 256, "rank of their own"),
    ],
)
def test_a_layout_that_is_not_summed_is_said_and_left_to_the_printed_pool(key: str, value: int, said: str) -> None:
    config = LLAMA | {key: value}
    assert said in ModelShape.from_config(config).kind
    found = assume(config, Cards.parse("1x80"), "0.5.23")
    document = Report(found.middle, {}, None, (found.worst, found.best)).as_json()
    assert any(said in entry["what"] for entry in document["missing"])
    assert not any("shape" in entry["what"] for entry in document["missing"])
    assert not [entry for entry in document["arithmetic"] if entry["name"] == "pool_tokens"]
    seen = Facts(
        [
            Fact("version", "0.5.23", "", "observed", "E1"),
            Fact("model_config", json.dumps(config), "", "observed", "E2"),
            Fact("kv_pool", 100_000, "tokens", "observed", "E3"),
            Fact("kv_pool_gib", 5.0, "GiB", "observed", "E3"),
            Fact("mem_available_bytes", 400 << 30, "bytes", "observed", "E4"),
        ]
    )
    host = host_budget(seen, 2.0)
    assert isinstance(host, HostBudget)
    assert host.per_rank_gb == pytest.approx(2 * 5.0 * (1 << 30) / 1e9, rel=1e-3)


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
        pytest.param(automatic_fraction(Card(81559, 8), version="0.5.2"), 0.831, id="by card: grok-2 on H100, printed"),
        pytest.param(automatic_fraction(Card(81559, 8), version="0.5.3"), 0.818, id="by chunk and graphs since 0.5.3"),
        pytest.param(automatic_fraction(Card(24564, 1), version="0.4.10", speculative="EAGLE"), 0.796, id="small card"),
        pytest.param(automatic_fraction(Card(183359, 8, dp_attention=2), version="0.5.1"), 0.799, id="large card, dp"),
        pytest.param(
            automatic_fraction(Card(183359, 1), version="0.5.10"), 0.854, id="prefill graphs by default, B200"
        ),
        pytest.param(automatic_fraction(Card(81559, 1), version="0.5.20"), 0.83, id="and on H100, printed"),
        pytest.param(automatic_fraction(Card(81559, 1), version="0.5.9"), 0.835, id="not before"),
        pytest.param(
            automatic_fraction(Card(81559, 8), version="0.5.10", speculative="EAGLE"), 0.768, id="not beside a draft"
        ),
        pytest.param(
            automatic_fraction(Card(81559, 8), version="0.5.20", latent=True), 0.799, id="MLA's prefill graphs"
        ),
        pytest.param(
            automatic_fraction(Card(81559, 8), version="0.5.20", latent=True, graph_max_bs=0), 0.831, id="no graphs"
        ),
        pytest.param(automatic_fraction(Card(97887, 8), speculative="EAGLE3", vision=VISION), 0.752, id="story"),
    ],
)
def test_the_fraction_that_the_server_picks(fraction: float, expected: float) -> None:
    assert fraction == pytest.approx(expected, abs=0.0006)


def plain(name: str, layers: int, heads: int, kv_heads: int, hidden: int, **more: Any) -> dict[str, Any]:
    return {
        "architectures": [name], "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "hidden_size": hidden, **more,
    }  # fmt: skip


GEMMA_3_4B = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34, "sliding_window": 1024},
    "vision_config": {"num_hidden_layers": 27, "hidden_size": 1152},
}
LLAMA_4 = {
    "architectures": ["Llama4ForConditionalGeneration"],
    "text_config": plain("", 48, 40, 8, 5120, head_dim=128, attention_chunk_size=8192),
}
STEP_3_5 = plain(
    "Step3p5ForCausalLM", 45, 64, 0, 4096, head_dim=128, num_attention_groups=8, sliding_window=512,
    attention_other_setting={"num_attention_heads": 96, "num_attention_groups": 8, "head_dim": 128},
    layer_types=(["full_attention"] + ["sliding_attention"] * 3) * 12,
)  # fmt: skip
STEP_3_5.pop("num_key_value_heads")
FALCON_H1 = plain(
    "FalconH1ForCausalLM", 72, 20, 4, 5120, head_dim=128, mamba_d_ssm=4096, mamba_n_heads=32, mamba_d_head="auto",
    mamba_d_state=256, mamba_n_groups=2, mamba_d_conv=4,
)  # fmt: skip
NEMOTRON_3 = plain(
    "NemotronHForCausalLM", 0, 32, 2, 2688, head_dim=128, mamba_num_heads=64, mamba_head_dim=64, ssm_state_size=128,
    n_groups=8, conv_kernel=4, layers_block_type=["mamba", "moe", "attention", "moe"] * 13,
)  # fmt: skip
NEMOTRON_3.pop("num_hidden_layers")
NEMOTRON_NAS = plain(
    "DeciLMForCausalLM", 80, 64, 0, 8192,
    block_configs=[{"attention": {"n_heads_in_group": 8, "no_op": False}}] * 49 + [{"attention": {"no_op": True}}] * 31,
)  # fmt: skip
NEMOTRON_NAS["num_key_value_heads"] = None
LFM_OLD = plain("Lfm2ForCausalLM", 16, 32, 8, 2048, conv_L_cache=3, full_attn_idxs=[2, 5, 8, 10, 12, 14])
LING_3 = plain(
    "BailingMoeV3ForCausalLM", 42, 32, 32, 4096, head_dim=128, kv_lora_rank=512, qk_rope_head_dim=64,
    layer_group_size=6, short_conv_kernel_size=4,
)  # fmt: skip
LING_2_5 = plain(
    "BailingMoeV2_5ForCausalLM", 32, 16, 16, 2048, head_dim=128, kv_lora_rank=512, qk_rope_head_dim=64,
    layer_group_size=[1, 1, 1, 0] * 8,
)  # fmt: skip
SALA = plain(
    "MiniCPMSALAForCausalLM", 32, 32, 2, 4096, head_dim=128, lightning_nkv=32, lightning_head_dim=128,
    mixer_types=["lightning-attn", "lightning-attn", "lightning-attn", "minicpm4"],
)  # fmt: skip
GIGA = plain(
    "GigaChat35ForCausalLM", 40, 32, 32, 4096, kv_lora_rank=512, qk_rope_head_dim=64, linear_num_key_heads=16,
    linear_num_value_heads=32, linear_key_head_dim=128, linear_value_head_dim=128, linear_conv_kernel_dim=4,
    full_attention_layers=[3, 7, 11, 15, 19, 23, 27, 31, 35, 39],
)  # fmt: skip
MINIMAX_M3 = plain(
    "MiniMaxM3SparseForCausalLM", 60, 64, 4, 6144, head_dim=128,
    sparse_attention_config={
        "sparse_index_dim": 128, "sparse_attention_freq": [0] * 3 + [1] * 57,
        "sparse_disable_index_value": [0] * 3 + [1] * 57,
    },
)  # fmt: skip


@pytest.mark.parametrize(
    ("config", "layout", "expected"),
    [
        pytest.param(plain("Glm4MoeForCausalLM", 92, 96, 8, 5120, head_dim=128, num_nextn_predict_layers=1),
                     Layout(attn_tp=8), 92 * 256 * 2, id="GLM-4.6: prediction layers are not the target's"),
        pytest.param(plain("Glm4MoeLiteForCausalLM", 47, 20, 20, 2048, kv_lora_rank=512, qk_rope_head_dim=64),
                     Layout(attn_tp=4), 47 * 576 * 2, id="GLM-4.7-Flash is MLA"),
        pytest.param(plain("MiniMaxM2ForCausalLM", 62, 48, 8, 3072, head_dim=128, attn_type_list=[1] * 62),
                     Layout(attn_tp=8), 62 * 256 * 2, id="MiniMax-M2: all layers are full"),
        pytest.param(plain("HunYuanMoEV1ForCausalLM", 32, 32, 8, 4096, attention_head_dim=128),
                     Layout(attn_tp=4), 32 * 2 * 256 * 2, id="Hunyuan-A13B"),
        pytest.param(plain("Ernie4_5_MoeForCausalLM", 54, 64, 8, 8192), Layout(attn_tp=8), 54 * 256 * 2, id="Ernie"),
        pytest.param(GEMMA_3_4B, Layout(), 34 * 4 * 512 * 2, id="Gemma-3: what the text part leaves out, one pool"),
        pytest.param({"architectures": ["InternVLChatModel"], "llm_config": plain("", 48, 32, 4, 2048, head_dim=128)},
                     Layout(attn_tp=2), 48 * 2 * 256 * 2, id="InternVL"),
        pytest.param({"architectures": ["Qwen3OmniMoeForConditionalGeneration"], "thinker_config": {
            "text_config": plain("", 48, 32, 4, 2048, head_dim=128)}}, Layout(), 48 * 4 * 256 * 2, id="Qwen3-Omni"),
        pytest.param(FALCON_H1, Layout(attn_tp=2), 72 * 2 * 256 * 2, id="Falcon-H1: attention beside mamba"),
        pytest.param(NEMOTRON_3, Layout(), 13 * 2 * 256 * 2, id="Nemotron-H by block types, layers counted"),
        pytest.param(NEMOTRON_NAS, Layout(attn_tp=8), 80 * 256 * 2, id="Nemotron-NAS: heads by group, every block"),
        pytest.param(LFM_OLD, Layout(), 6 * 8 * 128 * 2, id="LFM2 by indices"),
        pytest.param(LING_3, Layout(attn_tp=8), 7 * 576 * 2, id="Ling-3: groups of six"),
        pytest.param(LING_3 | {"use_mla_nope": True}, Layout(), 7 * 512 * 2, id="Ling-3 without rope"),
        pytest.param(LING_2_5, Layout(), 8 * 576 * 2, id="Ling-2.5 by a list"),
        pytest.param(SALA, Layout(), 8 * 2 * 256 * 2, id="MiniCPM-SALA: mixers repeat"),
        pytest.param(GIGA, Layout(), 10 * 576 * 2, id="GigaChat 3.5: MLA with gated delta"),
        pytest.param({"architectures": ["WhisperForConditionalGeneration"], "num_hidden_layers": 32, "d_model": 1280,
                      "encoder_layers": 32, "decoder_layers": 4, "encoder_attention_heads": 20}, Layout(),
                     40 * 20 * 128 * 2, id="Whisper: decoder layers attend twice, the encoder's stand empty"),
        pytest.param(plain("NanbeigeForCausalLM", 32, 32, 8, 4096, num_loops=2), Layout(), 64 * 8 * 256 * 2,
                     id="layers that run twice"),
    ],
)  # fmt: skip
def test_bytes_per_token_of_more_architectures(config: dict[str, Any], layout: Layout, expected: float) -> None:
    """By hand from sglang 0.5.23 srt/configs/ and srt/model_executor/pool_configurator.py:342."""
    assert full_bytes_per_token(shape(config), layout) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("config", "full", "sliding"),
    [
        pytest.param(LLAMA_4, 12 * 8 * 256 * 2, 36 * 8 * 256 * 2, id="Llama 4: every fourth layer is whole"),
        pytest.param(STEP_3_5, 12 * 8 * 256 * 2, 33 * 8 * 256 * 2, id="Step-3.5: types beyond the layers do not count"),
    ],
)
def test_more_models_of_two_pools(config: dict[str, Any], full: int, sliding: int) -> None:
    found = shape(config)
    assert full_bytes_per_token(found, Layout()) == full
    assert sliding_bytes_per_token(found, Layout()) == sliding


@pytest.mark.parametrize(
    ("config", "attn_tp", "conv", "matrix"),
    [
        pytest.param(FALCON_H1, 1, 72 * (4096 + 2 * 2 * 256) * 3 * 2, 72 * 32 * 128 * 256 * 4, id="head width auto"),
        pytest.param(
            FALCON_H1, 4, 72 * (4096 + 2 * 4 * 256) // 4 * 3 * 2, 72 * 8 * 128 * 256 * 4, id="groups repeated"
        ),
        pytest.param(NEMOTRON_3, 1, 13 * (4096 + 2 * 8 * 128) * 3 * 2, 13 * 64 * 64 * 128 * 4, id="block types"),
        pytest.param(LFM_OLD, 1, 10 * 2048 * 2 * 2, 0, id="short convolutions by indices"),
        pytest.param(LING_3, 1, 35 * 3 * 4096 * 3 * 2, 35 * 32 * 128 * 128 * 4, id="Kimi delta in groups"),
        pytest.param(LING_2_5, 1, 0, 24 * 16 * 128 * 128 * 4, id="lightning by a list"),
        pytest.param(SALA, 2, 0, 24 * 16 * 128 * 128 * 4, id="lightning mixers"),
        pytest.param(GIGA, 1, 30 * (4096 + 2 * 16 * 128) * 3 * 2, 30 * 32 * 128 * 128 * 4, id="gated delta with MLA"),
    ],
)
def test_state_of_more_architectures(config: dict[str, Any], attn_tp: int, conv: int, matrix: int) -> None:
    state = shape(config).state
    assert state is not None
    assert state.conv_bytes_per_request(attn_tp) == conv
    assert state.matrix_bytes_per_request(attn_tp) == matrix


@pytest.mark.parametrize(
    ("config", "layers", "each"),
    [
        pytest.param(MINIMAX_M3, 60 * 4 * 256 * 2, 57 * 128 * 2, id="MiniMax-M3: keys only, on sparse layers"),
        pytest.param(
            QWEN_NEXT | {"indexer_compress_ratio": 4, "indexer_head_dim": 128, "indexer_kv_heads": 1},
            12 * 2 * 512 * 2,
            12 * 64,
            id="compressed index keys",
        ),
    ],
)
def test_index_keys_beside_heads_are_charged_and_not_in_the_printed_pool(
    config: dict[str, Any], layers: int, each: int
) -> None:
    found = shape(config)
    assert full_bytes_per_token(found, Layout()) == layers
    assert budget_bytes_per_token(found, Layout(), "0.5.23") == layers + each


def test_blocks_with_unlike_heads_are_refused() -> None:
    config = NEMOTRON_NAS | {"block_configs": [{"attention": {"n_heads_in_group": group}} for group in (4, 8)]}
    with pytest.raises(ConfigUnreadable, match="unlike numbers of KV heads"):
        ModelShape.from_config(config)


@pytest.mark.parametrize(
    ("name", "before", "since"),
    [
        ("GptOssForCausalLM", "0.5.7", "0.5.8"),
        ("Gemma4ForConditionalGeneration", "0.5.10", "0.5.11"),
        ("Step3p7ForConditionalGeneration", "0.5.12", "0.5.13"),
        ("MuseGlimmerForCausalLM", "0.5.17", "0.5.18"),
        ("GraniteSWAForCausalLM", "0.5.18", "0.5.19"),
    ],
)
def test_the_release_that_first_splits_a_model(name: str, before: str, since: str) -> None:
    config = GPT_OSS | {"architectures": [name]}
    assert shape(config, before).sliding is None
    assert shape(config, since).sliding is not None


def test_a_model_that_opts_in_is_split_since_0_5_13() -> None:
    config = GPT_OSS | {"architectures": ["SomethingElse"], "is_hybrid_swa": True}
    assert shape(config, "0.5.12").sliding is None
    assert shape(config, "0.5.13").sliding is not None


@pytest.mark.parametrize(
    ("rule", "before", "since"),
    [
        (versions.draft_in_budget, "0.5.13", "0.5.14"),
        (versions.has_dcp, "0.5.14", "0.5.15"),
        (versions.has_attention_dp_flag, "0.5.21", "0.5.22"),
        (versions.indexer_rows_elided, "0.5.17", "0.5.18"),
        (versions.state_slot_reserved, "0.5.16", "0.5.17"),
        (versions.states_between_steps_in_share, "0.5.12", "0.5.13"),
        (versions.multimodal_reserved, "0.5.17", "0.5.18"),
        (versions.host_size_is_shared, "0.5.16", "0.5.17"),
        (lambda version: not versions.old_dsa_divisor(version), "0.5.16", "0.5.17"),
        (lambda version: not versions.host_check_is_per_rank(version), "0.5.18", "0.5.19"),
        (lambda version: not versions.host_pool_must_exceed_device(version), "0.5.14", "0.5.15"),
    ],
)
def test_the_release_that_brought_a_rule(rule: Callable[[str], bool], before: str, since: str) -> None:
    """As found by looking at each release's tree."""
    assert not rule(before)
    assert rule(since)


@pytest.mark.parametrize(
    ("version", "backends", "capability", "rocm", "raw"),
    [
        ("0.5.9", (), (10, 0), False, False),
        ("0.5.10", (), (10, 0), False, True),
        ("0.5.10", (), (9, 0), False, False),
        ("0.5.10", ("flashmla_kv",), (10, 0), False, False),
        ("0.5.9", ("trtllm",), (9, 0), False, True),
        ("0.5.11", ("tilelang",), (), False, False),
        ("0.5.12", ("", "tilelang"), (), False, True),
        ("0.5.23", (), (), True, True),
    ],
)
def test_fp8_rows_of_an_indexer_model_by_backend_and_gpu(
    version: str, backends: tuple[str, ...], capability: tuple[int, ...], rocm: bool, raw: bool
) -> None:
    assert versions.dsa_fp8_is_raw(version, backends, capability, rocm) is raw


def test_no_heads_at_all_are_refused() -> None:
    with pytest.raises(ConfigUnreadable, match="keeps nothing"):
        ModelShape.from_config(LLAMA | {"num_key_value_heads": 0})
