"""Servers that the tests speak about, as facts."""

from __future__ import annotations

import json
from typing import Any

from transcripts.facts import Fact, Facts

GIB = 1 << 30

KIMI: dict[str, Any] = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "model_type": "kimi_k25",
    "text_config": {
        "architectures": ["DeepseekV3ForCausalLM"],
        "num_hidden_layers": 61,
        "num_attention_heads": 64,
        "num_key_value_heads": 64,
        "hidden_size": 7168,
        "vocab_size": 163840,
        "kv_lora_rank": 512,
        "q_lora_rank": 1536,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "n_routed_experts": 384,
        "max_position_embeddings": 262144,
        "rope_scaling": {"type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096},
        "torch_dtype": "bfloat16",
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*"],
        },
    },
    "vision_config": {"vt_num_hidden_layers": 27, "vt_hidden_size": 1152},
}


def story(*more: Fact, version: str = "0.5.9", available_gib: float = 396.0) -> Facts:
    """The box of the story; `more` wins over what stands here."""
    flags = {
        "--tp": "8",
        "--mem-fraction-static": "0.88",
        "--speculative-algorithm": "EAGLE3",
        "--speculative-num-steps": "3",
        "--speculative-eagle-topk": "1",
        "--speculative-num-draft-tokens": "4",
        "--speculative-draft-model-path": "/models/kimi-eagle3",
        "--served-model-name": "kimi-k2.5",
    }
    facts = [
        Fact("version", version, "", "observed", "E7:1"),
        Fact("model_config", json.dumps(KIMI), "", "observed", "E8"),
        *(Fact("flag", value, "", "observed", "E3:4", name) for name, value in flags.items()),
        *(Fact("gpu_memory_mib", 97887, "MiB", "observed", f"E1:{n + 2}", f"gpu{n}") for n in range(8)),
        *(Fact("gpu_used_mib", 92450, "MiB", "observed", f"E1:{n + 2}", f"gpu{n}") for n in range(8)),
        Fact("mem_total_bytes", 503 * GIB, "bytes", "observed", "E2:1"),
        Fact("mem_available_bytes", int(available_gib * GIB), "bytes", "observed", "E2:3"),
        Fact("weights_before_gib", 94.06, "GiB", "observed", "E5:31"),
        Fact("weights_after_gib", 21.7068, "GiB", "observed", "E5:40"),
        Fact("kv_dtype", "torch.bfloat16", "", "observed", "E5:44"),
        Fact("kv_pool", 159209, "tokens", "observed", "E5:61"),
        Fact("kv_pool_gib", 10.42, "GiB", "observed", "E5:61"),
        Fact("pool_end_gib", 11.2, "GiB", "observed", "E5:70"),
        Fact("pool_end_gib", 7.9, "GiB", "observed", "E5:88", "draft"),
        Fact("running_limit", 48, "requests", "observed", "E5:95"),
        Fact("context_len", 262144, "tokens", "observed", "E5:95"),
    ]
    return Facts([*facts, *more])


def under_load(usage: float = 0.60, running: int = 48) -> tuple[Fact, ...]:
    """What decode lines under load say."""
    return (
        Fact("usage_p50", usage, "fraction", "observed", "E6"),
        Fact("running_p50", running, "requests", "observed", "E6"),
        Fact("tokens_per_request", usage * 159209 / running, "tokens", "derived", "E6"),
    )
