"""Bytes of the pools of one rank: KV, indexer, sliding window, recurrent state, draft, request table, host copy.

Sizes are bytes, pools count the padding page that every pool allocates beyond its tokens
(sglang 0.5.9 srt/mem_cache/memory_pool.py:1441). "GB" in the server's device lines are GiB.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

from tools.capacity import versions
from tools.capacity.indexer import Indexer
from tools.capacity.shape import Heads, Latent, ModelShape
from tools.capacity.sums import GB, GIB

# Bytes per stored element; FP4 keeps one scale byte per 16 elements, MXFP8 one per 32.
ELEMENT_BYTES = {
    "bf16": 2.0,
    "bfloat16": 2.0,
    "float16": 2.0,
    "half": 2.0,
    "fp8_e4m3": 1.0,
    "fp8_e5m2": 1.0,
    "fp8": 1.0,
    "mxfp8": 1.0 + 1 / 32,
    "fp4_e2m1": 0.5 + 1 / 16,
    "fp4_mx_block16": 0.5 + 1 / 16,
    "fp4": 0.5 + 1 / 16,
    "nvfp4": 0.5 + 1 / 16,
}
_DSA_FP8_BLOCK = 128
_ROPE_BYTES = 2


def element_bytes(kv_dtype: str, model_bytes: float = 2.0) -> float | None:
    """Bytes per element of a KV dtype as typed or as printed; None for a name that is not known."""
    name = kv_dtype.strip().lower().removeprefix("torch.")
    if name in ("", "auto"):
        return model_bytes
    if name.startswith("float8"):
        return 1.0
    if name.startswith("float4"):
        return ELEMENT_BYTES["fp4"]
    return ELEMENT_BYTES.get(name)


@dataclass(frozen=True, slots=True)
class Layout:
    """How one rank stores the cache: ranks that share attention, element size, page, decode-context ranks.

    `raw_dsa_fp8`: the TRT-LLM layout of sparse-indexer models, without scales (also ROCm).
    """

    attn_tp: int = 1
    element: float = 2.0
    page: int = 1
    dcp: int = 1
    pp: int = 1
    raw_dsa_fp8: bool = False


def latent_row_bytes(full: Latent, indexer: Indexer | None, layout: Layout) -> float:
    """Bytes of one token in one MLA layer; FP8 with a sparse indexer keeps scales and an unquantised rope part."""
    if indexer and layout.element == 1.0 and not layout.raw_dsa_fp8:
        return full.lora_rank + full.lora_rank // _DSA_FP8_BLOCK * 4 + full.rope_dim * _ROPE_BYTES
    return (full.lora_rank + full.rope_dim) * layout.element


def stage_share(layers: int, pp: int) -> float:
    """The largest pipeline stage's share of the layers: it has the fewest tokens, and the others follow it."""
    return -(-layers // pp) / layers if layers else 1.0


def full_bytes_per_token(shape: ModelShape, layout: Layout) -> float:
    """Bytes per token and rank of the layers whose cache grows with the context, indexer rows included."""
    full = shape.full
    share = stage_share(full.layers, layout.pp)
    if isinstance(full, Heads):
        return full.elements_per_token(layout.attn_tp) * layout.element * share
    return full.layers * latent_row_bytes(full, shape.indexer, layout) * share + indexer_bytes_per_token(shape, layout)


def indexer_bytes_per_token(shape: ModelShape, layout: Layout) -> float:
    """Bytes per token and rank of a sparse indexer's keys. Beside MLA they are part of the printed pool, beside plain
    heads they are budgeted and not printed."""
    row = shape.indexer.owners * shape.indexer.row_bytes if shape.indexer else shape.index_bytes
    return row * stage_share(shape.full.layers, layout.pp)


def sliding_bytes_per_token(shape: ModelShape, layout: Layout) -> float:
    """Bytes per token and rank in the sliding-window pool, 0 without one."""
    if shape.sliding is None:
        return 0.0
    share = stage_share(shape.sliding.layers, layout.pp)
    return shape.sliding.elements_per_token(layout.attn_tp) * layout.element * share


def budget_bytes_per_token(shape: ModelShape, layout: Layout, version: str, draft: float = 0.0) -> float:
    """What the version divides the budget by: the stored bytes, save where it charges otherwise.

    Before 0.5.17 an FP8 pool of a sparse-indexer model is charged at 576 bytes a layer and stores 656. From 0.5.14 the
    draft's bytes are charged too (`draft`, per token and rank); under decode-context parallelism it is on every rank.
    """
    cell, index = full_bytes_per_token(shape, layout), indexer_bytes_per_token(shape, layout)
    if not shape.indexer:
        cell += index
    elif isinstance(shape.full, Latent) and versions.old_dsa_divisor(version):
        charged = (shape.full.lora_rank + shape.full.rope_dim) * layout.element
        cell = shape.full.layers * charged * stage_share(shape.full.layers, layout.pp) + index
    if versions.draft_in_budget(version):
        cell += draft * layout.dcp
    return cell


def pool_bytes(bytes_per_token: float, tokens: int, page: int) -> float:
    """A pool with its padding page."""
    return bytes_per_token * (tokens + page)


def tokens_in(budget_bytes: float, bytes_per_token: float, page: int) -> int:
    """Tokens a budget gives, floored to a page; never negative."""
    if budget_bytes <= 0 or bytes_per_token <= 0:
        return 0
    return int(budget_bytes // bytes_per_token) // page * page


def sliding_split(
    budget_bytes: float, full_cell: float, sliding_cell: float, ratio: float, page: int
) -> tuple[int, int]:
    """Tokens of the full and the sliding-window pool (sglang 0.5.9 srt/…/model_runner_kv_cache_mixin.py:325)."""
    whole = int(budget_bytes // (full_cell + sliding_cell)) * (full_cell + sliding_cell)
    full = int(whole / (full_cell + ratio * sliding_cell))
    return full // page * page, sliding_tokens(full, ratio, page)


def sliding_tokens(full_tokens: int, ratio: float, page: int) -> int:
    return floor(full_tokens * ratio + 1e-9) // page * page


def request_table_bytes(requests: int, context_len: int, draft_tokens: int = 0) -> int:
    """The table from requests to token slots, int32; outside the static budget."""
    return requests * (context_len + 4 + draft_tokens) * 4


def default_running_limit(tokens: int, context_len: int) -> int:
    """Rows of the request table when nobody sets the limit (sglang 0.5.9 …/model_runner_kv_cache_mixin.py:345)."""
    return min(max(int(tokens / context_len * 512), 2048), 4096)


def host_tokens(device_tokens: int, page: int, ratio: float = 0.0, size_gb: float = 0, row_bytes: float = 1.0) -> int:
    """Rows of a HiCache host pool of one rank; `size_gb` (decimal, this pool's part) wins over `ratio`."""
    tokens = int(size_gb * 1e9 // row_bytes) if size_gb > 0 and row_bytes > 0 else int(device_tokens * ratio + 1e-9)
    return (tokens // page + 1) * page


def gib(value_bytes: float) -> float:
    return value_bytes / GIB


def gb(value_bytes: float) -> float:
    return value_bytes / GB
