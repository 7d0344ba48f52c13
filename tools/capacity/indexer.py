"""Keys of a sparse-attention indexer, as config.json describes them: beside MLA, and beside plain heads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Indexer:
    """Keys of a sparse-attention indexer: FP8 with one 4-byte scale per 128, on the layers that own one."""

    head_dim: int
    owners: int
    layers: int

    @property
    def row_bytes(self) -> int:
        return self.head_dim + self.head_dim // 128 * 4


def indexer_of(text: Mapping[str, Any], layers: int) -> Indexer | None:
    """The indexer that a text config with latent attention on `layers` layers describes."""
    if not text.get("index_topk") or not text.get("index_head_dim"):
        return None
    owners = sum(not _shares_topk(text, layer) for layer in range(layers))
    return Indexer(int(text["index_head_dim"]), owners, layers)


def index_bytes_of(text: Mapping[str, Any], layers: int) -> int:
    """Keys of a sparse-attention indexer beside plain heads, of 2-byte elements: compressed in blocks on every full
    layer (sglang 0.5.23 srt/mem_cache/qsa_kv_pool.py:59), or of one head on the sparse layers, with values where they
    are not switched off (…/pool_configurator.py:384)."""
    ratio, width = text.get("indexer_compress_ratio"), text.get("indexer_head_dim")
    if ratio and width:
        return int(text.get("indexer_kv_heads") or 1) * int(width) * 2 // int(ratio) * layers
    sparse = text.get("sparse_attention_config")
    if not isinstance(sparse, Mapping) or not isinstance(sparse.get("sparse_attention_freq"), list):
        return 0
    off = sparse.get("sparse_disable_index_value") or []
    rows = sum(
        2 - bool(layer < len(off) and off[layer])
        for layer, often in enumerate(sparse["sparse_attention_freq"])
        if often
    )
    return rows * int(sparse.get("sparse_index_dim") or 0) * 2


def _shares_topk(text: Mapping[str, Any], layer: int) -> bool:
    """Whether a layer reuses the top-k of an earlier one (sglang 0.5.23 srt/configs/model_config.py:488)."""
    kinds = text.get("indexer_types")
    if isinstance(kinds, list):
        return layer < len(kinds) and kinds[layer] == "shared"
    factor = int(text.get("cli_factor") or 1)
    if factor > 1:
        return layer % factor != 0
    pattern = text.get("index_topk_pattern")
    if pattern is not None:
        return layer < len(pattern) and pattern[layer] == "S"
    every = int(text.get("index_topk_freq") or 1)
    offset = text.get("index_skip_topk_offset")
    start = layer - int(offset) + 1 if offset is not None else layer - 1
    return max(start, 0) % every != 0
