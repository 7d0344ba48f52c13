"""Device memory of a start, rank by rank, from the figures and the flags: what every boot line and nvidia-smi show.

    kv bytes = (after weights - before weights * (1 - fraction)) * 2^30
    tokens   = kv bytes // bytes per token, down to a page, at most --max-total-tokens
    table    = requests * (context + 4 + draft tokens) * 4 bytes

(sglang 0.5.9 srt/model_executor/model_runner_kv_cache_mixin.py:143, :149, :378, :421.) Draft weights, draft pool and
graphs come out of the reserve, after the pool and the target's graphs (model_runner.py:590,
speculative/eagle_worker_v2.py:134). From 0.5.14 both models are loaded first, then both pools are made, then all graphs
(srt/managers/scheduler.py:859), and the draft's weights and rows are in the budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tools.host.recorded.figures import Boot, Figures
from tools.host.recorded.launch import Argument, at_least, graph_sizes

GIB = 1 << 30
_BYTES = {"fp8_e4m3": 1, "fp8_e5m2": 1}


@dataclass(frozen=True, slots=True)
class Pool:
    """A KV pool of one rank. `values_gib` is None where keys and values share one buffer (MLA)."""

    tokens: int
    cell_bytes: int
    keys_gib: float
    values_gib: float | None

    @property
    def gib(self) -> float:
        return self.keys_gib + (self.values_gib or 0.0)


@dataclass(frozen=True, slots=True)
class Ledger:
    """GiB free on the rank with least memory after each step of a start."""

    context_len: int
    before_weights: float
    after_weights: float
    fits: bool
    pool: Pool
    running_limit: int
    table_gib: float
    pool_end: float
    graph_begin: float
    graph_end: float
    graph_sizes: tuple[int, ...]
    draft_before_weights: float
    draft_after_weights: float
    draft_pool: Pool | None
    draft_pool_end: float
    draft_graph_begin: float
    draft_graph_end: float
    draft_extend_end: float
    summary: float
    serving: float


def loads_draft_first(version: str) -> bool:
    """Whether the draft is loaded before any pool is made (sglang 0.5.14 srt/managers/scheduler.py:859)."""
    return at_least(version, "0.5.14")


def kv_element_bytes(arguments: Mapping[str, Argument]) -> int:
    return _BYTES.get(str(arguments.get("kv_cache_dtype")), 2)


def kv_dtype(arguments: Mapping[str, Argument]) -> str:
    return {"fp8_e4m3": "torch.float8_e4m3fn", "fp8_e5m2": "torch.float8_e5m2"}.get(
        str(arguments.get("kv_cache_dtype")), "torch.bfloat16"
    )


def build_ledger(
    figures: Figures, arguments: Mapping[str, Argument], model: Mapping[str, Any], draft: Mapping[str, Any] | None
) -> Ledger:
    """The start of a recording's server. Figures must hold `server` and `boot`."""
    boot, server = figures.boot, figures.server
    if boot is None or server is None:
        raise ValueError("a ledger needs the sections server and boot")
    text = model.get("text_config", model)
    element = kv_element_bytes(arguments)
    attention_tp = _whole(arguments, "tp_size", 1) // max(1, _dp(arguments))
    cell = _cell(text, attention_tp, element)
    budgeted, first = cell, draft is not None and loads_draft_first(server.version)
    if draft is not None and first:
        budgeted += cell // int(text["num_hidden_layers"]) * int(draft.get("num_hidden_layers", 1))
    fraction = float(str(arguments.get("mem_fraction_static") or 0.88))
    rest = boot.weights_after_gib - boot.weights_before_gib * (1 - fraction)
    if first:
        rest -= boot.draft_weights_gib
    page = _whole(arguments, "page_size", 1)
    tokens = max(0, int(rest * GIB)) // budgeted
    asked = arguments.get("max_total_tokens")
    if asked is not None:
        tokens = min(tokens, int(str(asked)))
    tokens = tokens // page * page
    return _through(boot, arguments, text, draft, _pool(text, attention_tp, element, tokens, page), page, first)


def _through(
    boot: Boot,
    arguments: Mapping[str, Argument],
    text: Mapping[str, Any],
    draft: Mapping[str, Any] | None,
    pool: Pool,
    page: int,
    draft_first: bool,
) -> Ledger:
    context = _whole(arguments, "context_length", int(text.get("max_position_embeddings", 4096)))
    draft_tokens = _whole(arguments, "speculative_num_draft_tokens", 0)
    asked = arguments.get("max_running_requests")
    default = min(max(int(pool.tokens / context * 512), 2048), 4096)
    table = int(str(asked)) if asked is not None else default
    limit = min(table // _dp(arguments) if asked is not None else pool.tokens // 2, table)
    table_gib = table * (context + 4 + draft_tokens) * 4 / GIB
    heads_tp = _whole(arguments, "tp_size", 1) // _dp(arguments)
    draft_pool = _pool(draft, heads_tp, kv_element_bytes(arguments), pool.tokens, page) if draft is not None else None
    draft_weights, draft_rows = (boot.draft_weights_gib, draft_pool.gib + 0.02) if draft_pool else (0.0, 0.0)
    maximum = _whole(arguments, "cuda_graph_max_bs", 256)
    sizes = () if arguments.get("disable_cuda_graph") else tuple(graph_sizes(maximum, limit, speculative=bool(draft)))
    pools, target_graphs = pool.gib + table_gib + boot.pool_misc_gib, boot.target_graph_gib if sizes else 0.0
    if draft_first:
        before_draft = boot.weights_after_gib
        after_draft = before_draft - draft_weights
        pool_end = after_draft - pools
        draft_end = pool_end - draft_rows
        graph_begin = draft_end - boot.workspace_gib
        draft_begin = graph_end = graph_begin - target_graphs
    else:
        pool_end = boot.weights_after_gib - pools
        graph_begin = pool_end - boot.workspace_gib
        before_draft = graph_end = graph_begin - target_graphs
        after_draft = before_draft - draft_weights
        draft_begin = draft_end = after_draft - draft_rows
    captured = draft is not None and bool(sizes)
    draft_graph_end = draft_begin - (boot.draft_graph_gib if captured else 0.0)
    extend_end = draft_graph_end - (boot.draft_extend_graph_gib if captured else 0.0)
    summary = extend_end - boot.sampling_gib
    return Ledger(
        context_len=context,
        before_weights=boot.weights_before_gib,
        after_weights=boot.weights_after_gib,
        fits=pool.tokens > 0,
        pool=pool,
        running_limit=limit,
        table_gib=table_gib,
        pool_end=pool_end,
        graph_begin=graph_begin,
        graph_end=graph_end,
        graph_sizes=sizes,
        draft_before_weights=before_draft,
        draft_after_weights=after_draft,
        draft_pool=draft_pool,
        draft_pool_end=draft_end,
        draft_graph_begin=draft_begin,
        draft_graph_end=draft_graph_end,
        draft_extend_end=extend_end,
        summary=summary,
        serving=summary - boot.serving_gib,
    )


def _dp(arguments: Mapping[str, Argument]) -> int:
    return _whole(arguments, "dp_size", 1) if arguments.get("enable_dp_attention") else 1


def _whole(arguments: Mapping[str, Argument], key: str, default: int) -> int:
    value = arguments.get(key)
    return default if value is None else int(str(value))


def _head_dim(text: Mapping[str, Any]) -> int:
    return int(text.get("head_dim") or int(text["hidden_size"]) // int(text["num_attention_heads"]))


def _cell(text: Mapping[str, Any], attention_tp: int, element: int) -> int:
    """Bytes of one token on one rank: MLA rows are whole on every rank (:49), heads are divided (:101)."""
    layers = int(text["num_hidden_layers"])
    if "kv_lora_rank" in text:
        return (int(text["kv_lora_rank"]) + int(text["qk_rope_head_dim"])) * layers * element
    heads = max(1, int(text.get("num_key_value_heads", text["num_attention_heads"])) // attention_tp)
    return heads * 2 * _head_dim(text) * layers * element


def _pool(text: Mapping[str, Any], attention_tp: int, element: int, tokens: int, page: int) -> Pool:
    cell = _cell(text, attention_tp, element)
    rows_gib = (tokens + page) * cell / GIB
    if "kv_lora_rank" in text:
        return Pool(tokens, cell, rows_gib, None)
    return Pool(tokens, cell, rows_gib / 2, rows_gib / 2)
