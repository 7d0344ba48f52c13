"""One observed server start, as a row of collected logs: columns read as shapes, layouts and settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import isfinite

from tools.capacity import pools, versions
from tools.capacity.shape import Heads, Latent
from tools.capacity.state import StateShape, gated_delta, kimi_delta, lightning, mamba2, short_convolution

Row = Mapping[str, str]
_INDEXER_ROW = 132
_DSA_FP8_ROW, _DSA_FP8_CHARGED = 656, 576


class Start:
    """One row, read by column; a blank column is None."""

    def __init__(self, row: Row) -> None:
        self.row = row

    def text(self, name: str) -> str:
        return (self.row.get(name) or "").strip()

    def number(self, name: str) -> float | None:
        """A mark of doubt (`~`, `?`) is left out. Raises ValueError for a cell that is neither blank nor a number."""
        written = self.text(name)
        if not written:
            return None
        value = float(written.strip("~? ").replace(",", ""))
        if not isfinite(value):
            raise ValueError(f"{name}: {written}")
        return value

    def on(self, name: str) -> bool:
        return self.text(name).lower() in ("1", "yes", "true")

    def whole(self, name: str, default: int = 0) -> int:
        value = self.number(name)
        return default if value is None else int(value)

    @property
    def inferred(self) -> bool:
        return self.text("arch_src") == "inferred"

    @property
    def kind(self) -> str:
        return self.text("kv_kind").partition(":")[0]

    @property
    def kind_bytes(self) -> float:
        return float(self.text("kv_kind").partition(":")[2] or 0)

    @property
    def attn_tp(self) -> int:
        if self.whole("attn_tp_assumed"):
            return self.whole("attn_tp_assumed")
        tp = self.whole("tp", 1)
        attention_groups = self.whole("dp", 1) if self.on("enable_dp_attention") else 1
        return max(1, tp // attention_groups)

    @property
    def page(self) -> int:
        on_cuda = not re.search(r"AMD|MI\d{3}|ROCm|Ascend|NPU", self.text("gpu"))
        return self.whole("page_size", 64 if self.kind == "dsa" and on_cuda else 1)

    @property
    def element(self) -> float:
        return self.number("kv_elem_bytes") or pools.element_bytes(self.text("kv_cache_dtype")) or 2.0

    @property
    def tokens(self) -> int | None:
        value = self.number("max_total_num_tokens") or self.number("full_tokens")
        return None if value is None else int(value)

    @property
    def stage_share(self) -> float:
        """The part of the row's layers that the quoted pipeline stage holds, 1 without stages.

        The columns count the layers of the model or of the stage; the printed size tells which, and stages differ by a
        layer. Without a size a count of all layers is the model's, and the largest stage has the fewest tokens.
        """
        layers, stages = self.whole("kv_layers") or self.whole("n_layers"), self.whole("pp", 1)
        if stages < 2 or not layers:
            return 1.0
        largest, smallest = -(-layers // stages) / layers, layers // stages / layers
        size, tokens, whole = self.number("kv_size_gb"), self.tokens, self._row_bytes_per_token
        if size is None or not tokens or not whole:
            return largest if layers == (self.whole("n_layers") or layers) else 1.0
        return min((1.0, largest, smallest), key=lambda share: abs(pools.gib(share * whole * tokens) - size))

    @property
    def full(self) -> Heads | Latent | None:
        """Layers whose cache grows with the context, from the columns."""
        layers = self.whole("kv_layers") or self.whole("n_layers")
        head_dim = self.text("head_dim")
        if self.kind in ("dsa", "dsv4", "ratio") or not layers or not head_dim:
            return None
        if self.kind == "mla" or "+" in head_dim:
            parts = [int(part) for part in head_dim.split("+")]
            return Latent(layers, parts[0], sum(parts[1:]))
        heads = self.whole("n_kv_heads")
        width = int(float(head_dim))
        return Heads(layers, heads, width, self.whole("v_head_dim", width)) if heads else None

    @property
    def sliding(self) -> Heads | None:
        layers, width = self.whole("swa_layers"), self.whole("swa_head_dim")
        if self.kind != "swa" or not layers or not width:
            return None
        return Heads(layers, self.whole("swa_kv_heads"), width, self.whole("swa_v_head_dim", width))

    @property
    def bytes_per_token(self) -> float | None:
        """Stored bytes per token and rank, the sliding-window layers apart."""
        whole = self._row_bytes_per_token
        return None if whole is None else whole * self.stage_share

    @property
    def _row_bytes_per_token(self) -> float | None:
        if self.kind == "dsv4":
            return self.kind_bytes or None
        if self.kind == "dsa":
            return self.kind_bytes * self.whole("kv_layers") + float(_INDEXER_ROW * self.whole("index_layers"))
        full = self.full
        return None if full is None else full.elements_per_token(self.attn_tp) * self.element

    @property
    def index_bytes_per_token(self) -> float:
        """The part of `bytes_per_token` that a sparse indexer's keys take."""
        return _INDEXER_ROW * self.whole("index_layers") * self.stage_share if self.kind == "dsa" else 0.0

    @property
    def draft_bytes_per_token(self) -> float:
        """Bytes per token and rank of the draft's pool, 0 where the row gives none."""
        kind, _, rest = self.text("draft_spec").partition(":")
        if not rest:
            return 0.0
        if kind != "mha":
            return float(rest)
        layers, heads, width, element = (float(part) for part in rest.split(","))
        return 2 * layers * heads * width * element

    @property
    def charges(self) -> tuple[float, ...]:
        """Bytes per token that the budget may be divided by, the sliding-window layers apart.

        As the row says; where it does not, what is stored and what a version of the row's age charges instead.
        """
        said, stored = self.number("budget_cell_bytes"), self.bytes_per_token
        if said or stored is None:
            return (said,) if said else ()
        stored += self.number("unlogged_bytes") or 0.0
        found = {stored}
        for version in self.rules:
            charged = stored
            if self.kind == "dsa" and self.kind_bytes == _DSA_FP8_ROW and versions.old_dsa_divisor(version):
                charged -= (_DSA_FP8_ROW - _DSA_FP8_CHARGED) * self.whole("kv_layers") * self.stage_share
            if versions.draft_in_budget(version):
                charged += self.draft_bytes_per_token
            found.add(charged)
        return tuple(sorted(found))

    @property
    def speculative(self) -> bool:
        """Whether the start drafts: said, or seen by the states that it keeps between steps."""
        return bool(self.text("speculative") or self.number("mamba_spec_ssm_gb"))

    @property
    def algorithm(self) -> str:
        """The kind of speculative decoding, as the flag names it; empty where the row names none of them."""
        found = re.search(r"EAGLE3?|NEXTN|STANDALONE|NGRAM", self.text("speculative").upper())
        return found.group() if found else ""

    @property
    def sliding_bytes_per_token(self) -> float:
        sliding = self.sliding
        return 0.0 if sliding is None else sliding.elements_per_token(self.attn_tp) * self.element * self.stage_share

    @property
    def state(self) -> StateShape | None:
        kind, _, rest = self.text("lin_spec").partition(":")
        readers: dict[str, Callable[..., StateShape]] = {
            "gdn": gated_delta,
            "kda": kimi_delta,
            "mamba2": mamba2,
            "lightning": lightning,
            "shortconv": short_convolution,
        }
        return readers[kind](*(int(float(part)) for part in rest.split(","))) if kind in readers and rest else None

    @property
    def slots_by_hand(self) -> bool:
        """Whether somebody set the state slots: the automatic split keeps state and KV near 0.9 to 1."""
        slots, shape, tokens, cell = self.number("mamba_slots"), self.state, self.tokens, self.bytes_per_token
        if slots is None or shape is None or not tokens or not cell:
            return False
        kept = tokens * (cell + (self.number("unlogged_bytes") or 0.0))
        return not 0.8 <= slots * shape.bytes_per_request(self.attn_tp) / kept <= 1.0

    @property
    def newer(self) -> bool | None:
        """Whether the build reserves the extra state slot; None where neither version nor date says."""
        if self.text("sglang_version"):
            return versions.state_slot_reserved(self.text("sglang_version"))
        # The change came with 0.5.17, forks took it later still: a date only rules it out.
        dated = self.text("log_date")
        return False if dated and dated < "2026-05" else None

    @property
    def builds(self) -> tuple[bool, ...]:
        """`newer`, or both where nothing says."""
        return (False, True) if self.newer is None else (self.newer,)

    @property
    def rules(self) -> tuple[str, ...]:
        """Versions by whose rules a row is read: its own, else by the log's date one before and one after 0.5.17.

        That came at the end of July 2026; a build of unknown age is tried as both.
        """
        if self.text("sglang_version"):
            return (self.text("sglang_version"),)
        dated = self.text("log_date")
        return ("0.5.16",) if dated and dated < "2026-07-25" else ("0.5.16", "0.5.17")
