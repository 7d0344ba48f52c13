"""What HiCache keeps in host memory for one rank: a copy of each device pool, sized by the version's rule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor
from typing import Final

from tools.capacity import pools, versions
from tools.capacity.deployment import Deployment
from tools.capacity.sums import GIB

RATIO_STEP: Final = 0.1
_SPLIT_SHARE: Final = 0.9
KV, SLIDING, STATE, DRAFT, INDEXER = "KV", "sliding window", "recurrent state", "draft", "indexer"


@dataclass(frozen=True, slots=True)
class DevicePool:
    """One pool of a rank's GPU as HiCache sees it. Rows are tokens, or slots of recurrent state.

    `packed_bytes` are a draft's layers that the host keeps in the same rows; `scratch_bytes` belong to the pool, weigh
    when a size is shared and are not kept (states between the steps of speculative decoding). `rides`: the host gives
    it as many rows as the KV pool; `in_size`: it takes its part of the KV pool's size, else it comes on top of that.
    """

    name: str
    rows: int
    row_bytes: float
    page: int
    copies: int = 1
    packed_bytes: float = 0.0
    scratch_bytes: float = 0.0
    rides: bool = False
    in_size: bool = True

    @property
    def bytes(self) -> float:
        """With the padding page, as the server weighs the pools against each other."""
        return pools.pool_bytes(self.row_bytes, self.rows, self.page) + self.scratch_bytes

    @property
    def kept_bytes(self) -> float:
        """Host bytes at ratio 1."""
        return self.rows * (self.row_bytes + self.packed_bytes)


@dataclass(frozen=True, slots=True)
class HostPool:
    """One pool of a rank in host memory; `copies` ranks of an attention group hold the same rows."""

    name: str
    rows: int
    row_bytes: float
    copies: int

    @property
    def bytes(self) -> int:
        return int(self.rows * self.row_bytes)


@dataclass(frozen=True, slots=True)
class Kept:
    """The pools of one rank. `draft_bytes` is a draft's row that has a pool of its own beside the KV rows; None where
    the version keeps the draft and its row is not known."""

    device: tuple[DevicePool, ...]
    draft_bytes: float | None
    draft_copies: int
    version: str

    @property
    def sized(self) -> tuple[DevicePool, ...]:
        """Pools that take a size of their own."""
        return tuple(pool for pool in self.device if not pool.rides)

    @property
    def at_ratio_one(self) -> float:
        """Bytes that each step of 1 in the ratio takes on one rank."""
        return sum(pool.kept_bytes for pool in self.device) + self.device[0].rows * (self.draft_bytes or 0.0)

    def largest_ratio(self, limit_bytes: float) -> float:
        """The ratio, in steps of 0.1, at which the pools of one rank with their padding stay within a limit."""
        padding = sum(pool.page * (pool.row_bytes + pool.packed_bytes) for pool in self.device)
        padding += 2 * self.device[0].page * (self.draft_bytes or 0.0)
        return max(0.0, floor((limit_bytes - padding) / self.at_ratio_one / RATIO_STEP + 1e-9) / 10)

    def on_host(self, ratio: float, size_gb: float = 0.0) -> tuple[HostPool, ...]:
        """Host pools of one rank at a ratio, each scaling its own device pool, or at a size in decimal GB.

        A size is one total for all pools, in proportion to their device bytes; before 0.5.17 each takes all of it. A
        draft that is not packed into the KV rows, and an indexer that rides on them, come on top of either.
        """
        whole = sum(pool.bytes for pool in self.sized)
        shared = versions.host_size_is_shared(self.version) and whole > 0
        first = self.device[0]
        beside = sum(pool.bytes for pool in self.device if pool.rides and pool.in_size)
        found: list[HostPool] = []
        for pool in self.device:
            given = size_gb * pool.bytes / whole if shared else size_gb
            if pool is first:
                given *= first.bytes / (first.bytes + beside)
            row = pool.row_bytes + pool.packed_bytes
            rows = found[0].rows if pool.rides else pools.host_tokens(pool.rows, pool.page, ratio, given, row)
            found.append(HostPool(pool.name, rows, row, pool.copies))
        if self.draft_bytes:
            rows = pools.host_tokens(found[0].rows, self.device[0].page, 1.0)
            found.append(HostPool(DRAFT, rows, self.draft_bytes, self.draft_copies))
        return tuple(found)


def kept(
    server: Deployment, layout: pools.Layout, tokens: int, cell: float, slots: int | None, speculative: bool = True
) -> Kept:
    """The pools of a rank with `tokens` rows of `cell` bytes under a layout; `slots` as known, else by the split."""
    shape = server.shape
    row, index = _rows(server, layout, cell / layout.dcp)
    draft = server.draft_bytes(layout) if speculative and versions.draft_on_host(server.version) else None
    none_kept = not speculative or not server.has_draft or not versions.draft_on_host(server.version)
    own_row = 0.0 if none_kept else (None if draft is None else draft.value)
    packed = own_row if own_row and server.predicts_itself and versions.draft_packed_on_host(server.version) else 0.0
    copies = shape.full.copies(layout.attn_tp) if shape else 1
    draft_copies = server.draft_shape.full.copies(layout.attn_tp) if server.draft_shape else 1
    draft_index = server.draft_shape.indexer if server.draft_shape and packed and index else None
    packed_index = float(draft_index.owners * draft_index.row_bytes) if draft_index and shape and shape.indexer else 0.0
    found = [DevicePool(KV, tokens, row, layout.page, copies, packed - packed_index)]
    if shape and shape.sliding:
        stands = server.pool_tokens is not None and tokens == int(server.pool_tokens.value)
        window = server.window_tokens if stands else pools.sliding_tokens(tokens, server.window_ratio, layout.page)
        window_row = pools.sliding_bytes_per_token(shape, layout) / layout.dcp
        found.append(DevicePool(SLIDING, window, window_row, layout.page, shape.sliding.copies(layout.attn_tp)))
    if shape and shape.state:
        each = shape.state.bytes_per_request(layout.attn_tp)
        held = state_slots(row * tokens, each) if slots is None else slots
        found.append(DevicePool(STATE, held, each, 1, scratch_bytes=_scratch(server, each) if speculative else 0.0))
    if index:
        in_size = shape is not None and shape.index_compressed
        rides = DevicePool(INDEXER, tokens, index, layout.page, copies, packed_index, rides=True, in_size=in_size)
        found.append(rides)
    return Kept(tuple(found), None if own_row is None else own_row - (packed or 0.0), draft_copies, server.version)


def _rows(server: Deployment, layout: pools.Layout, row: float) -> tuple[float, float]:
    """Host bytes per token of the KV pool, and of an indexer's pool where the version gives it one."""
    shape = server.shape
    if shape is None:
        return row, 0.0
    on_device = pools.indexer_bytes_per_token(shape, layout) / layout.dcp
    if shape.indexer is None:
        kept_there = versions.host_keeps_index_of_heads(server.version, shape.index_compressed)
        return row, on_device if kept_there else 0.0
    owners = shape.indexer.owners if versions.host_indexer_elided(server.version) else shape.indexer.layers
    on_host = replace(shape, indexer=replace(shape.indexer, owners=owners))
    index = pools.indexer_bytes_per_token(on_host, layout) / layout.dcp
    if versions.indexer_has_host_pool(server.version):
        return row - on_device, index
    return row - on_device + index, 0.0


def kept_now(server: Deployment) -> Kept | None:
    """The pools of a rank as they stand, None where the KV pool is not known."""
    tokens, cell = server.pool_tokens, server.bytes_per_token
    if tokens is None or cell is None:
        return None
    slots = server.fact("state_slots") or server.number("max_mamba_cache_size")
    held = int(slots.value) if slots and 0 < slots.value < 1 << 32 else None
    return kept(server, server.layout, int(tokens.value), cell.value, held)


def state_slots(kv_bytes: float, each: int) -> int:
    """Slots that the automatic split leaves beside a KV pool, where no line says how many."""
    return int(_SPLIT_SHARE * kv_bytes / each) if each else 0


def _scratch(server: Deployment, each: int) -> float:
    """States kept between the steps of speculative decoding: one for each draft token of each running request.

    The server weighs windows that overlap in memory at full size (sglang 0.5.20 srt/mem_cache/memory_pool.py:430).
    """
    limit = server.running_limit
    if not server.draft_tokens or limit is None or not 0 <= limit.value < GIB:
        return 0.0
    return (limit.value + 1) * server.draft_tokens * each
