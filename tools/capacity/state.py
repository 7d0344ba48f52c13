"""Recurrent state of linear-attention and mamba layers: bytes per request, not per token.

One request needs a convolution window and a state matrix on every such layer; tensor parallelism divides both.
Shapes: sglang 0.5.9 srt/configs/mamba_utils.py:118 (mamba and gated delta nets) and :190 (Kimi's delta attention).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

_DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, slots=True)
class StateShape:
    """Dimensions over all ranks.

    `conv_dim` are convolution channels divided by the ranks as they are, `groups` those of `state_size` channels that
    come on top twice and are repeated where they do not divide. `beside_attention`: the layers keep KV as well.
    """

    kind: str
    layers: int
    conv_dim: int
    groups: int
    conv_kernel: int
    heads: int
    head_dim: int
    state_size: int
    state_bytes: int = 4
    conv_bytes: int = 2
    beside_attention: bool = False

    def conv_bytes_per_request(self, attn_tp: int) -> int:
        """Bytes of the convolution windows of one request on one rank."""
        groups = self.groups
        if groups and groups % attn_tp:
            groups += attn_tp - groups
        channels = (self.conv_dim + 2 * groups * self.state_size) // attn_tp
        return self.layers * channels * (self.conv_kernel - 1) * self.conv_bytes

    def matrix_bytes_per_request(self, attn_tp: int) -> int:
        """Bytes of the state matrices of one request on one rank."""
        heads = self.heads // attn_tp if self.heads >= attn_tp else 1
        return self.layers * heads * self.head_dim * self.state_size * self.state_bytes

    def bytes_per_request(self, attn_tp: int) -> int:
        return self.conv_bytes_per_request(attn_tp) + self.matrix_bytes_per_request(attn_tp)


def gated_delta(
    layers: int, k_heads: int, v_heads: int, head_dim: int, conv_kernel: int, state_bytes: int, k_dim: int = 0
) -> StateShape:
    """Gated delta nets (Qwen3-Next and its kin); `k_dim` where the keys' width differs."""
    return StateShape(
        "gated delta",
        layers,
        v_heads * head_dim,
        k_heads,
        conv_kernel,
        v_heads,
        head_dim,
        k_dim or head_dim,
        state_bytes,
    )


def kimi_delta(layers: int, heads: int, head_dim: int, conv_kernel: int, state_bytes: int) -> StateShape:
    """Kimi's delta attention: three windows of all heads."""
    return StateShape(
        "Kimi delta", layers, 3 * heads * head_dim, 0, conv_kernel, heads, head_dim, head_dim, state_bytes
    )


def mamba2(
    layers: int, heads: int, head_dim: int, state_size: int, groups: int, conv_kernel: int, state_bytes: int
) -> StateShape:
    return StateShape("mamba", layers, heads * head_dim, groups, conv_kernel, heads, head_dim, state_size, state_bytes)


def lightning(layers: int, heads: int, head_dim: int, state_bytes: int) -> StateShape:
    """Lightning attention: a matrix and no convolution."""
    return StateShape("lightning", layers, 0, 0, 1, heads, head_dim, head_dim, state_bytes)


def short_convolution(layers: int, dim: int, kernel: int) -> StateShape:
    """Short convolutions: a window and no matrix."""
    return StateShape("short convolution", layers, dim, 0, kernel, 0, 0, 0)


def state_from_config(text: Mapping[str, Any], layers: int) -> StateShape | None:
    """The state that a text config describes, None for a model that keeps none."""
    for read in (_kimi, _grouped_kda, _gated_delta, _nemotron, _mamba_heads, _jet, _short, _mixers, _lightning):
        found = read(text, layers)
        if found is not None and found.layers:
            return found
    return None


def _state_bytes(text: Mapping[str, Any]) -> int:
    return _DTYPE_BYTES.get(str(text.get("mamba_ssm_dtype")), 4)


def with_state_dtype(shape: StateShape, dtype: str) -> StateShape:
    """The state with its matrices in another type (`--mamba-ssm-dtype`); as it is for a name that is none."""
    if dtype not in _DTYPE_BYTES or not shape.state_bytes:
        return shape
    return replace(shape, state_bytes=_DTYPE_BYTES[dtype])


def _of_kind(text: Mapping[str, Any], layers: int, *kinds: str) -> int | None:
    listed = text.get("layer_types") or text.get("layers_block_type")
    if not isinstance(listed, list):
        return None
    return sum(kind in kinds for kind in listed[:layers])


def _kimi(text: Mapping[str, Any], layers: int) -> StateShape | None:
    part = text.get("linear_attn_config")
    if not isinstance(part, Mapping) or "num_heads" not in part:
        return None
    count = len(part.get("kda_layers") or ()) or layers - len(part.get("full_attn_layers") or ())
    return kimi_delta(
        count,
        int(part["num_heads"]),
        int(part["head_dim"]),
        int(part.get("short_conv_kernel_size") or 4),
        _state_bytes(text),
    )


def _linear_layers(text: Mapping[str, Any], layers: int) -> int | None:
    """Linear layers where every `layer_group_size`-th is full, or where a list marks the linear ones with 1."""
    group: Any = text.get("layer_group_size")
    if isinstance(group, list):
        return sum(bool(value == 1) for value in group[:layers])
    return layers - layers // int(group) if isinstance(group, int) and group > 0 else None


def _grouped_kda(text: Mapping[str, Any], layers: int) -> StateShape | None:
    """Kimi's delta attention in groups; the short convolution is what tells it from lightning attention."""
    count = _linear_layers(text, layers)
    if not count or not text.get("short_conv_kernel_size"):
        return None
    heads = int(text["num_attention_heads"])
    width = int(text.get("head_dim") or int(text["hidden_size"]) // heads)
    return kimi_delta(count, heads, width, int(text["short_conv_kernel_size"]), _state_bytes(text))


def _gated_delta(text: Mapping[str, Any], layers: int) -> StateShape | None:
    if not text.get("linear_num_value_heads"):
        return None
    count = _of_kind(text, layers, "linear_attention")
    full = text.get("full_attention_layers")
    if count is None and isinstance(full, list):
        count = layers - len(full)
    if count is None:
        count = layers - layers // int(text.get("full_attention_interval") or 4)
    return gated_delta(
        count,
        int(text["linear_num_key_heads"]),
        int(text["linear_num_value_heads"]),
        int(text["linear_value_head_dim"]),
        int(text.get("linear_conv_kernel_dim") or 4),
        _state_bytes(text),
        int(text.get("linear_key_head_dim") or 0),
    )


def _nemotron(text: Mapping[str, Any], layers: int) -> StateShape | None:
    # Every letter is a layer: M mamba, * attention, - feed-forward, E experts; only the stars keep KV.
    pattern = text.get("hybrid_override_pattern")
    count = pattern[:layers].count("M") if isinstance(pattern, str) else _of_kind(text, layers, "mamba")
    if count is None or not text.get("mamba_num_heads"):
        return None
    return mamba2(
        count,
        int(text["mamba_num_heads"]),
        int(text["mamba_head_dim"]),
        int(text["ssm_state_size"]),
        int(text.get("n_groups") or text.get("mamba_n_groups") or 1),
        int(text.get("conv_kernel") or 4),
        _state_bytes(text),
    )


def _mamba_heads(text: Mapping[str, Any], layers: int) -> StateShape | None:
    if not text.get("mamba_n_heads"):
        return None
    count, heads = _of_kind(text, layers, "mamba"), int(text["mamba_n_heads"])
    width = text.get("mamba_d_head")
    if width in (None, "auto"):
        inner = text.get("mamba_d_ssm") or int(text.get("mamba_expand") or 2) * int(text["hidden_size"])
        width = int(inner) // heads
    shape = mamba2(
        layers if count is None else count,
        heads,
        int(width),
        int(text["mamba_d_state"]),
        int(text.get("mamba_n_groups") or 1),
        int(text.get("mamba_d_conv") or 4),
        _state_bytes(text),
    )
    return shape if count is not None else replace(shape, beside_attention=True)


def _jet(text: Mapping[str, Any], layers: int) -> StateShape | None:
    part = (text.get("efficient_attention_config") or {}).get("jet")
    count = _of_kind(text, layers, "jet")
    if not isinstance(part, Mapping) or not count:
        return None
    heads, k_dim = int(part["num_heads"]), int(part["head_dim"])
    v_dim = int(k_dim * float(part.get("expand_v") or 1))
    return gated_delta(count, heads, heads, v_dim, int(part.get("conv_size") or 4), _state_bytes(text), k_dim)


def _short(text: Mapping[str, Any], layers: int) -> StateShape | None:
    count, full = _of_kind(text, layers, "conv", "short_conv"), text.get("full_attn_idxs")
    if count is None and isinstance(full, list):
        count = layers - len(full)
    if not text.get("conv_L_cache") or not count:
        return None
    return short_convolution(count, int(text["hidden_size"]), int(text["conv_L_cache"]))


def _mixers(text: Mapping[str, Any], layers: int) -> StateShape | None:
    """Lightning attention by a list of mixers, which repeats where it is shorter than the model."""
    listed = text.get("mixer_types")
    if not isinstance(listed, list) or not listed:
        return None
    mixers = (listed * -(-layers // len(listed)))[:layers]
    count = sum("lightning" in str(mixer) for mixer in mixers)
    heads = int(text.get("lightning_nkv") or text.get("num_key_value_heads") or text["num_attention_heads"])
    width = text.get("lightning_head_dim") or text.get("head_dim")
    return lightning(count, heads, int(width or int(text["hidden_size"]) // int(text["num_attention_heads"])), 4)


def _lightning(text: Mapping[str, Any], layers: int) -> StateShape | None:
    heads, head_dim = text.get("num_attention_heads"), text.get("head_dim")
    if not heads:
        return None
    width = int(head_dim or int(text.get("hidden_size") or 0) // int(heads))
    count = _linear_layers(text, layers)
    if count is None:
        count = _of_kind(text, layers, "lightning_attention", "lightning")
    if not count:
        return None
    return lightning(count, int(text.get("num_linear_key_value_heads") or heads), width, 4)
