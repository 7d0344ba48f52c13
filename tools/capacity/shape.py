"""The shape of a model as its config.json tells it: which layers keep what, per token and per request.

Read from structure, not from a table of model names: latent attention is where `kv_lora_rank` stands, a recurrent
state where its dimensions stand. Which sliding-window models a version gives two pools is that version's own list
(`versions.splits_sliding_window`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tools.capacity import versions
from tools.capacity.errors import ConfigUnreadable
from tools.capacity.indexer import Indexer, index_bytes_of, indexer_of
from tools.capacity.state import StateShape, state_from_config

Config = Mapping[str, Any]

_CONTEXT_KEYS = (
    "max_sequence_length",
    "seq_length",
    "max_seq_len",
    "model_max_length",
    "max_position_embeddings",
)
_BEYOND_REASON = 1 << 40
# What the config classes fill in where a nested text part of that type leaves it out.
_LEFT_OUT: Mapping[str, Config] = {
    "gemma3_text": {
        "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "hidden_size": 2304, "vocab_size": 262208, "max_position_embeddings": 131072,
    },
    "llama": {"num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 4096, "vocab_size": 32000},
    "mistral": {
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096,
        "vocab_size": 32000, "max_position_embeddings": 131072,
    },
    "qwen2": {"num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 4096, "vocab_size": 151936},
}  # fmt: skip
_COMPRESSED = "compressed attention"
# Layouts that are known not to be the sum of heads or latent rows, by the key that tells them.
_UNSUMMED: Mapping[str, str] = {
    "compress_ratios": _COMPRESSED,
    "cca_time0": "compressed convolutional attention",
    "zaya_layers": "compressed convolutional attention",
    "sconv_kernel_size": "two pools with short convolutions beside them",
    "swa_kv_lora_rank": "MLA with sliding-window layers of a rank of their own",
}
_KV_HEAD_KEYS = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups")


@dataclass(frozen=True, slots=True)
class Heads:
    """Keys and values per head. Divided over tensor-parallel ranks, never below one head a rank."""

    layers: int
    kv_heads: int
    head_dim: int
    v_head_dim: int

    def heads_per_rank(self, attn_tp: int) -> int:
        return max(1, self.kv_heads // attn_tp)

    def elements_per_token(self, attn_tp: int) -> int:
        return self.layers * self.heads_per_rank(attn_tp) * (self.head_dim + self.v_head_dim)

    def copies(self, attn_tp: int) -> int:
        """How many ranks of one attention group hold the same key."""
        return max(1, attn_tp // self.kv_heads)


@dataclass(frozen=True, slots=True)
class Latent:
    """One compressed row per token and layer (MLA). The same on every tensor-parallel rank."""

    layers: int
    lora_rank: int
    rope_dim: int

    def elements_per_token(self, attn_tp: int) -> int:
        return self.layers * (self.lora_rank + self.rope_dim)

    def copies(self, attn_tp: int) -> int:
        return attn_tp


@dataclass(frozen=True, slots=True)
class Vision:
    """The vision tower, as the automatic fraction weighs it."""

    layers: int
    hidden: int


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What a model keeps. `full` are the layers whose cache grows with the context.

    `sliding` are windowed layers with a pool of their own where the version makes one (else they count as full, see
    `for_version`). `unsummed` names a layout whose bytes do not follow from `full` and `sliding`, empty for all others.
    """

    architectures: tuple[str, ...]
    layers: int
    hidden: int
    attention_heads: int
    vocabulary: int
    full: Heads | Latent
    sliding: Heads | None
    window: int
    indexer: Indexer | None
    state: StateShape | None
    context_len: int
    element_bytes: float
    index_bytes: int
    index_compressed: bool
    vision: Vision | None
    unsummed: str
    opted_in: bool
    experts: bool
    attention_weight_elements: int

    @property
    def compressed(self) -> bool:
        """Whether the server prints its own bytes per token."""
        return self.unsummed == _COMPRESSED

    @property
    def latent(self) -> bool:
        return isinstance(self.full, Latent)

    @property
    def kind(self) -> str:
        """The class of cache in the field's words."""
        if self.compressed:
            return "compressed attention (the server prints its own bytes per token)"
        if self.unsummed:
            return f"{self.unsummed} (no sum here; the printed pool tells its bytes per token)"
        name = "MLA" if self.latent else _heads_name(self)
        if self.indexer:
            name += " with a sparse indexer"
        if self.state:
            name = f"hybrid of {self.state.kind} state and {name}"
        if self.sliding:
            name += " with sliding-window layers"
        return name

    @classmethod
    def from_config(cls, config: Config, draft: bool = False) -> ModelShape:
        """Read a config.json as parsed from JSON.

        `draft`: the config is a draft model's, or a target's whose prediction layers are the draft.
        Raises ConfigUnreadable where a dimension is missing or is no number.
        """
        try:
            return _possible(cls._read(config, draft))
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise ConfigUnreadable(
                f"config.json has a dimension that cannot be read ({error}).", "Give the config.json of the model."
            ) from error

    @classmethod
    def _read(cls, config: Config, draft: bool) -> ModelShape:
        text = text_part(config)
        layers = _layers(text)
        heads = _number(text, "num_attention_heads", "n_head", "n_heads", "encoder_attention_heads")
        hidden = _number(text, "hidden_size", "n_embd", "d_model")
        names = tuple(str(name) for name in config.get("architectures") or text.get("architectures") or ())
        if draft:
            layers = int(text.get("num_nextn_predict_layers") or (1 if layers > 8 else layers))
        state = None if draft else state_from_config(text, layers)
        full = _full(text, 1 if draft and layers == 1 else _kept_layers(text, names, layers, state), heads, hidden)
        sliding, full = (None, full) if draft else _split_sliding(text, names, full)
        return cls(
            architectures=names,
            layers=layers,
            hidden=hidden,
            attention_heads=heads,
            vocabulary=int(text.get("vocab_size") or 0),
            full=full,
            sliding=sliding,
            window=int(text.get("sliding_window") or text.get("attention_chunk_size") or 0),
            indexer=indexer_of(text, full.layers) if isinstance(full, Latent) else None,
            state=state,
            context_len=_context(text),
            element_bytes=4.0 if "float32" in str(text.get("torch_dtype") or text.get("dtype")) else 2.0,
            index_bytes=0 if draft or isinstance(full, Latent) else index_bytes_of(text, full.layers),
            index_compressed=bool(text.get("indexer_compress_ratio")),
            vision=_vision(config),
            unsummed=_unsummed(text),
            opted_in=bool(text.get("is_hybrid_swa")),
            experts=any(text.get(key) for key in ("n_routed_experts", "num_experts", "num_local_experts")),
            attention_weight_elements=_attention_weights(text, full, heads, hidden),
        )

    def for_version(self, version: str) -> ModelShape:
        """The shape as that version lays it out: one pool where it does not split, all indexer rows where it must."""
        shape = self
        if shape.sliding and not versions.splits_sliding_window(version, self.architectures, self.opted_in):
            shape = replace(shape, sliding=None, full=_joined(shape.full, shape.sliding))
        if shape.indexer and not versions.indexer_rows_elided(version):
            shape = replace(shape, indexer=replace(shape.indexer, owners=shape.indexer.layers))
        return shape

    def without_sliding_pool(self) -> ModelShape:
        """All layers in one pool (`--disable-hybrid-swa-memory`)."""
        if self.sliding is None:
            return self
        return replace(self, sliding=None, full=_joined(self.full, self.sliding))


def _possible(shape: ModelShape) -> ModelShape:
    """The shape, if a machine could hold it. Raises ValueError for rows of nothing and for sizes beyond reason."""
    rows = [shape.full.elements_per_token(1), shape.sliding.elements_per_token(1) if shape.sliding else 0]
    state = shape.state.bytes_per_request(1) if shape.state else 1
    vision = (shape.vision.layers, shape.vision.hidden) if shape.vision else (1, 1)
    sizes = (*rows, state, *vision, shape.layers, shape.hidden, shape.attention_heads, shape.context_len)
    heads = [part.kv_heads for part in (shape.full, shape.sliding) if isinstance(part, Heads)]
    if min(rows) < 0 or sum(rows) <= 0 or state <= 0 or min(*vision, *heads) <= 0:
        raise ValueError("a layer that keeps nothing, or less")
    if max(*sizes, shape.vocabulary, shape.window, shape.index_bytes) > _BEYOND_REASON:
        raise ValueError("a size beyond reason")
    if not 0 <= shape.attention_weight_elements <= _BEYOND_REASON * 1024:
        raise ValueError("attention weights beyond reason")
    return shape


def text_part(config: Config) -> Config:
    """The language model's part of a config that may be a multimodal one's, in the order the server looks for it
    (sglang 0.5.23 srt/utils/hf_transformers/common.py:582)."""
    thinker = config.get("thinker_config")
    if isinstance(thinker, Mapping):
        return text_part(thinker)
    for key in ("llm_config", "language_config", "text_config"):
        part = config.get(key)
        if not isinstance(part, Mapping):
            continue
        left_out = _LEFT_OUT.get(str(part.get("model_type")), {})
        if "num_hidden_layers" in part or "num_attention_heads" in part or left_out:
            return {**left_out, **part}
    return config


def _unsummed(text: Config) -> str:
    return next((name for key, name in _UNSUMMED.items() if text.get(key) is not None), "")


def _heads_name(shape: ModelShape) -> str:
    kv_heads = shape.full.kv_heads if isinstance(shape.full, Heads) else 1
    name = "MHA" if kv_heads == shape.attention_heads else "GQA"
    return f"MoE {name}" if shape.experts else f"dense {name}"


def _number(text: Config, *keys: str) -> int:
    for key in keys:
        value = text.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    raise ConfigUnreadable(f"config.json does not say {keys[0]}.", "Give the config.json of the model itself.")


def _layers(text: Config) -> int:
    listed = text.get("layers_block_type")
    if "num_hidden_layers" not in text and isinstance(listed, list) and listed:
        return len(listed)
    return _number(text, "num_hidden_layers", "n_layer", "n_layers", "num_layers")


def _kept_layers(text: Config, names: tuple[str, ...], layers: int, state: StateShape | None) -> int:
    """Layers that keep keys and values."""
    pattern = text.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        return pattern[:layers].count("*")
    listed = text.get("layers_block_type")
    if isinstance(listed, list) and state:
        return sum(kind in ("attention", "full_attention") for kind in listed[:layers])
    kept = layers - state.layers if state and not state.beside_attention else layers
    if "WhisperForConditionalGeneration" in names:
        # Each decoder layer attends twice, and the encoder's get a cache that nothing fills
        # (sglang 0.5.9 srt/configs/model_config.py:669).
        return int(text.get("encoder_layers") or 0) + 2 * int(text.get("decoder_layers") or layers)
    if any(name.startswith("LongcatFlash") for name in names):
        return 2 * kept  # each of its layers attends twice
    return kept * int(text.get("loop_num") or text.get("num_loops") or 1)


def _kv_heads(text: Config, heads: int) -> int:
    if text.get("multi_query") and not text.get("new_decoder_architecture"):
        return 1
    nested = text.get("attn_config")
    if isinstance(nested, Mapping) and nested.get("kv_n_heads"):
        return int(nested["kv_n_heads"])
    blocks = text.get("block_configs")
    if isinstance(blocks, list):
        return _heads_of_blocks(blocks, heads)
    for key in _KV_HEAD_KEYS:
        if text.get(key) is not None:
            return int(text[key])
    return heads


def _heads_of_blocks(blocks: list[Any], heads: int) -> int:
    """KV heads where each block says how many query heads share one; every block gets a cache of that size
    (sglang 0.5.23 srt/configs/model_config.py:1652)."""
    parts = [block["attention"] for block in blocks if isinstance(block, Mapping) and "attention" in block]
    groups = {int(part["n_heads_in_group"]) for part in parts if not part.get("no_op") and part.get("n_heads_in_group")}
    if len(groups) != 1:
        raise ConfigUnreadable("config.json has blocks with unlike numbers of KV heads.")
    return heads // groups.pop()


def _full(text: Config, layers: int, heads: int, hidden: int) -> Heads | Latent:
    if text.get("kv_lora_rank") and text.get("qk_rope_head_dim") and text.get("use_mla", True):
        rope = 0 if text.get("use_mla_nope") and text.get("layer_group_size") else int(text["qk_rope_head_dim"])
        return Latent(layers, int(text["kv_lora_rank"]), rope)
    # Gemma 4 names the wide heads of its full layers apart; the plain names are then those of the windowed layers.
    head_dim = int(text.get("global_head_dim") or text.get("head_dim") or hidden // heads)
    kv_heads = int(text.get("num_global_key_value_heads") or _kv_heads(text, heads))
    v_head_dim = head_dim if text.get("global_head_dim") else int(text.get("v_head_dim") or head_dim)
    return Heads(layers, kv_heads, head_dim, v_head_dim)


def _sliding_layers(text: Config, names: tuple[str, ...], layers: int) -> int:
    """How many of the layers have a sliding window (or a chunk, for Llama 4)."""
    if "Llama4ForConditionalGeneration" in names:
        return sum((index + 1) % 4 != 0 for index in range(layers))
    if isinstance(text.get("local_layer_ids"), list):
        return len(text["local_layer_ids"])
    pattern = text.get("hybrid_layer_pattern")
    if isinstance(pattern, list):
        return sum(value == 1 for value in pattern[:layers])
    kinds = text.get("layer_types")
    if isinstance(kinds, list):
        return sum(value == "sliding_attention" for value in kinds[:layers])
    return 0


def _split_sliding(text: Config, names: tuple[str, ...], full: Heads | Latent) -> tuple[Heads | None, Heads | Latent]:
    count = _sliding_layers(text, names, full.layers)
    if count == 0 or isinstance(full, Latent):
        return None, full
    other = text.get("attention_other_setting")
    other_groups = other.get("num_attention_groups") if isinstance(other, Mapping) else None
    wide = bool(text.get("global_head_dim"))
    kv_heads = int(
        text.get("swa_num_key_value_heads")
        or other_groups
        or (_kv_heads(text, full.kv_heads) if wide else full.kv_heads)
    )
    head_dim = int(text.get("swa_head_dim") or (text.get("head_dim") if wide else 0) or full.head_dim)
    v_head_dim = int(text.get("swa_v_head_dim") or (full.v_head_dim if head_dim == full.head_dim else head_dim))
    return Heads(count, kv_heads, head_dim, v_head_dim), replace(full, layers=full.layers - count)


def _joined(full: Heads | Latent, sliding: Heads) -> Heads | Latent:
    """All layers in one pool: a version that does not split gives every layer the full layers' row."""
    if isinstance(full, Heads) and full.layers == 0:
        return sliding
    return replace(full, layers=full.layers + sliding.layers)


def _context(text: Config) -> int:
    scaling = text.get("rope_scaling") or {}
    factor = 1.0
    if isinstance(scaling, Mapping) and scaling and scaling.get("rope_type") != "llama3":
        factor = 1.0 if "original_max_position_embeddings" in scaling else float(scaling.get("factor") or 1)
    for key in _CONTEXT_KEYS:
        if text.get(key):
            return int(factor * int(text[key]))
    return 2048


def _vision(config: Config) -> Vision | None:
    part = config.get("vision_config") or (config.get("thinker_config") or {}).get("vision_config")
    if not isinstance(part, Mapping):
        return None
    layers = part.get("num_hidden_layers") or part.get("vt_num_hidden_layers") or part.get("depth") or 24
    return Vision(int(layers), int(part.get("hidden_size") or part.get("vt_hidden_size") or 1024))


def _attention_weights(text: Config, full: Heads | Latent, heads: int, hidden: int) -> int:
    """Elements of the attention weights that tensor parallelism divides, over all layers of the full kind.

    For MLA the down-projections are on every rank already and do not count.
    """
    if isinstance(full, Latent):
        nope = int(text.get("qk_nope_head_dim") or 0)
        value = int(text.get("v_head_dim") or nope)
        query_in = int(text.get("q_lora_rank") or hidden)
        per_head = query_in * (nope + full.rope_dim) + full.lora_rank * (nope + value) + value * hidden
        return full.layers * heads * per_head
    query = heads * full.head_dim * hidden
    keys_values = full.kv_heads * (full.head_dim + full.v_head_dim) * hidden
    return full.layers * (query + keys_values + heads * full.v_head_dim * hidden)
