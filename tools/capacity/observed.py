"""Observed server starts against the sums: one row of a CSV in, comparisons out.

The columns are those of collected start logs: shape, parallelism, free memory, and what the server printed. Each
comparison knows what print rounding allows. Rows whose shape was fitted to the printed size prove nothing and are
kept apart by `Comparison.inferred`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import floor

from tools.capacity import pools, versions
from tools.capacity.errors import RowsUnreadable
from tools.capacity.fraction import Card, automatic_fraction
from tools.capacity.host_pools import INDEXER, KV, SLIDING, STATE, DevicePool, Kept
from tools.capacity.shape import Latent
from tools.capacity.start_row import Row, Start
from tools.capacity.state_budget import StateRule
from tools.capacity.sums import GIB

_PRINT = 0.005
_NEEDED = ("id", "arch_src", "kv_kind", "max_total_num_tokens", "kv_size_gb")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of one start: `want` as printed, `got` as summed, `slack` what rounding of the prints allows."""

    id: str
    group: str
    what: str
    want: float
    got: float
    slack: float
    inferred: bool

    @property
    def error(self) -> float:
        """Signed relative error, a fraction."""
        return (self.got - self.want) / self.want if self.want else self.got - self.want

    @property
    def inside_rounding(self) -> bool:
        return abs(self.got - self.want) <= self.slack + 1e-9


def compare(rows: Sequence[Row]) -> tuple[list[Comparison], list[str]]:
    """Everything that the rows let one test, and the ids of rows with a figure that cannot be read.

    Raises RowsUnreadable where columns are missing.
    """
    if rows and (lacking := [name for name in _NEEDED if name not in rows[0]]):
        raise RowsUnreadable(f"the file lacks the columns {', '.join(lacking)}.", "Give a file of observed starts.")
    found: list[Comparison] = []
    unread: list[str] = []
    for row in rows:
        start = Start(row)
        for test in (_size, _draft, _state, _state_slots, _split, _host, _tokens, _fraction, _running):
            try:
                found += test(start)
            except (ValueError, TypeError, ArithmeticError):
                unread.append(start.text("id"))
    return found, list(dict.fromkeys(unread))


def _compared(start: Start, group: str, what: str, want: float, got: float, slack: float) -> Comparison:
    return Comparison(start.text("id"), group, what, want, got, slack, start.inferred)


def _size(start: Start) -> Iterator[Comparison]:
    """Printed pool sizes from the printed tokens. A total of several printed parts carries their rounding."""
    tokens, cell = start.tokens, start.bytes_per_token
    if tokens is None or cell is None or start.text("arch_src") == "unknown":
        return
    swa_tokens = start.whole("swa_tokens") or pools.sliding_tokens(tokens, 0.8, start.page)
    full = pools.gib(pools.pool_bytes(cell, start.whole("full_tokens") or tokens, start.page))
    sliding = (
        pools.gib(pools.pool_bytes(start.sliding_bytes_per_token, swa_tokens, start.page)) if start.sliding else 0.0
    )
    total = start.number("kv_size_gb")
    if start.kind == "dsv4":
        if total is not None:
            yield _compared(start, "size", "kv_size_gb", total, *_compressed_size(start, tokens, cell))
        return
    parts = 1 if isinstance(start.full, Latent) or start.kind == "dsa" else 4 if start.sliding else 2
    if total is not None:
        yield _compared(start, "size", "kv_size_gb", total, full + sliding, _PRINT * parts)
    elif start.number("full_k_gb") is not None:
        printed = sum(start.number(name) or 0.0 for name in ("full_k_gb", "full_v_gb", "swa_k_gb", "swa_v_gb"))
        yield _compared(start, "size", "full and swa", printed, full + sliding, _PRINT * parts)


def _compressed_size(start: Start, tokens: int, cell: float) -> tuple[float, float]:
    """The printed figure is the budget: tokens times the server's own bytes, less a fixed state taken off before."""
    taken = re.search(r"([\d.]+) GB taken off the budget", start.text("notes"))
    fixed = float(taken.group(1)) if taken else 0.0
    slack = _PRINT * (2 if taken else 1) + pools.gib(cell * start.page)
    return pools.gib(cell * tokens) + fixed, slack


def _draft(start: Start) -> Iterator[Comparison]:
    kind, _, rest = start.text("draft_spec").partition(":")
    tokens = start.tokens
    if tokens is None or not rest:
        return
    fitted = start.text("draft_src") == "fitted" or start.inferred
    if kind == "mha":
        layers, heads, width, element = (float(part) for part in rest.split(","))
        one = pools.gib(pools.pool_bytes(layers * heads * width * element, tokens, start.page))
        wanted = [(name, start.number(name), one) for name in ("draft_k_gb", "draft_v_gb")]
        wanted.append(("draft_kv_gb", start.number("draft_kv_gb"), 2 * one))
    else:
        whole = pools.gib(pools.pool_bytes(float(rest), tokens, start.page))
        wanted = [("draft_kv_gb", start.number("draft_kv_gb"), whole)]
        halves = [start.number("draft_k_gb"), start.number("draft_v_gb")]
        if wanted[0][1] is None and None not in halves:
            wanted = [("draft_k_gb", halves[0], whole / 2), ("draft_v_gb", halves[1], whole / 2)]
    for name, want, got in wanted:
        if want is not None:
            slack = _PRINT * (2 if name == "draft_kv_gb" and kind == "mha" else 1)
            yield Comparison(start.text("id"), "draft", name, want, got, slack, fitted)


def _state(start: Start) -> Iterator[Comparison]:
    """Sizes of the state pool from its slots; one slot more is allocated for padding."""
    slots, shape = start.number("mamba_slots"), start.state
    if slots is None or shape is None:
        return
    per_request = {
        "mamba_conv_gb": shape.conv_bytes_per_request(start.attn_tp),
        "mamba_ssm_gb": shape.matrix_bytes_per_request(start.attn_tp),
    }
    for name, each in per_request.items():
        want = start.number(name)
        if want is not None:
            yield _compared(start, "state", name, want, pools.gib((slots + 1) * each), _PRINT)


def _state_slots(start: Start) -> Iterator[Comparison]:
    """The slot count from the printed pools: KV and state together are the budget that the automatic split divides.

    Counts set by hand show in the proportion of the two pools and test nothing.
    """
    slots, shape = start.number("mamba_slots"), start.state
    tokens, cell = start.tokens, start.bytes_per_token
    if slots is None or shape is None or tokens is None or cell is None or start.text("capped"):
        return
    each, kept = shape.bytes_per_request(start.attn_tp), cell + (start.number("unlogged_bytes") or 0.0)
    if start.slots_by_hand or start.on("mamba_radix_off") or start.speculative:
        return
    budget = tokens * kept
    rules = [StateRule(each, padded=padded) for padded in start.builds]
    counts = [rule.split(budget + (slots + rule.padded) * each)[0] for rule in rules]
    got = min(counts, key=lambda count: abs(count - slots))
    yield _compared(start, "state", "mamba_slots", slots, got, 0)


def _split(start: Start) -> Iterator[Comparison]:
    """Tokens of the sliding-window pool from those of the full one. The ratio is a setting of two decimals at most."""
    full, sliding = start.number("full_tokens"), start.number("swa_tokens")
    if not full or sliding is None:
        return
    ratio = _stated_ratio(start) or round(sliding / full, 2)
    yield _compared(start, "split", "swa_tokens", sliding, pools.sliding_tokens(int(full), ratio, start.page), 0)


def _stated_ratio(start: Start) -> float | None:
    found = re.search(r"swa ratio (?:of )?([\d.]*\d)", start.text("notes"))
    return float(found.group(1)) if found else None


def _host(start: Start) -> Iterator[Comparison]:
    """Host memory of one rank from the device pools and the ratio, or from a size in GB.

    The column does not say whether its figure is the KV pool's or all pools' of a model with more: the nearer counts.
    """
    said = start.text("hicache")
    given = re.search(r"size\s*(?:of\s*)?[=:]?\s*(\d+)(?:\s*GB)?", said)
    # The size asked for may carry its unit too: what was allocated stands beside it.
    beside = said.replace(given.group(), "") if given else said
    size = re.search(r"(\d+(?:\.\d+)?)\s*GB", beside) or re.search(r"(\d+(?:\.\d+)?)\s*GB", said)
    cell = start.bytes_per_token
    if not size or cell is None:
        return
    want = float(size.group(1))
    tokens = start.tokens
    if tokens is None and start.number("kv_size_gb"):
        tokens = int((start.number("kv_size_gb") or 0.0) * GIB / cell) - start.page
    ratio = re.search(r"ratio\s*(?:of\s*)?[=:]?\s*(\d+(?:\.\d+)?)", said)
    scale = float(ratio.group(1)) if ratio else 2.0
    if not given and (tokens is None or not (ratio or "default ratio" in said)):
        return
    device = _device_pools(start, tokens or 0, cell)
    totals = []
    for version in start.rules:
        hosted = Kept(device, 0.0, 1, version).on_host(scale, float(given.group(1)) if given else 0.0)
        totals += [hosted[0].bytes, sum(pool.bytes for pool in hosted)]
    got = min((pools.gb(total) for total in totals), key=lambda value: abs(value - want))
    slack = (
        _PRINT if start.tokens is not None or given else want * _PRINT / (start.number("kv_size_gb") or 1.0) + _PRINT
    )
    yield _compared(start, "host", "host_gb", want, got, slack)


def _device_pools(start: Start, tokens: int, cell: float) -> tuple[DevicePool, ...]:
    found = [DevicePool(KV, tokens, cell - start.index_bytes_per_token, start.page)]
    if start.index_bytes_per_token:
        found.append(DevicePool(INDEXER, tokens, start.index_bytes_per_token, start.page, rides=True, in_size=False))
    if start.sliding:
        window = start.whole("swa_tokens") or pools.sliding_tokens(tokens, _observed_ratio(start), start.page)
        found.append(DevicePool(SLIDING, window, start.sliding_bytes_per_token, start.page))
    shape, slots = start.state, start.number("mamba_slots")
    if shape is not None and slots is not None:
        each = shape.bytes_per_request(start.attn_tp)
        scratch = _states_between_steps(start, shape.matrix_bytes_per_request(start.attn_tp)) * each
        found.append(DevicePool(STATE, int(slots), each, 1, scratch_bytes=scratch))
    return tuple(found)


def _states_between_steps(start: Start, matrix_bytes: int) -> int:
    """How many states speculative decoding keeps, from the printed size of their matrices."""
    printed = start.number("mamba_spec_ssm_gb") or 0.0
    return round(printed * GIB / matrix_bytes) if matrix_bytes else 0


def free_memory(start: Start) -> tuple[float, float] | None:
    """Free memory before and after the weights, GiB; either may come from the other and the weights' size."""
    before = start.number("avail_mem_before_load_gb") or start.number("before_est_gb")
    after = start.number("avail_mem_after_load_gb") or start.number("after_est_gb")
    weights = start.number("weight_mem_gb")
    if before is None and after is not None and weights is not None:
        before = after + weights
    if after is None and before is not None and weights is not None:
        after = before - weights
    return None if before is None or after is None else (before, after)


def _static_fraction(start: Start) -> float | None:
    """The fraction in effect: printed, else automatic, and scaled where the server scales it."""
    fraction = start.number("mem_fraction_static")
    if fraction is None and start.on("mf_auto"):
        fraction = predicted_fraction(start)
    factor = start.number("mf_effective_factor")
    return None if fraction is None else fraction * (factor or 1.0)


def budget_gib(start: Start) -> float | None:
    """The static budget: printed, else from free memory and the fraction."""
    logged = start.number("rest_gb_logged")
    if logged is not None:
        return logged
    memory, fraction = free_memory(start), _static_fraction(start)
    return None if memory is None or fraction is None else memory[1] - memory[0] * (1 - fraction)


def _tokens(start: Start) -> Iterator[Comparison]:
    """Tokens of the pool from free memory, by the version's own steps; capped pools test nothing."""
    want, rest, cell = start.tokens, budget_gib(start), start.bytes_per_token
    if want is None or rest is None or cell is None or start.text("capped") or start.text("arch_src") == "unknown":
        return
    ratio, sliding = _stated_ratio(start) or _observed_ratio(start), start.sliding_bytes_per_token
    counts = [
        pools.sliding_split(budget, charged, sliding, ratio, start.page)[0]
        if start.sliding
        else pools.tokens_in(budget, charged, start.page)
        for charged in start.charges
        for budget in _budgets_left(start, rest * GIB)
    ]
    got = min(counts, key=lambda count: abs(count - want))
    moved = 2 * _PRINT * GIB / (min(start.charges) + sliding)
    yield _compared(start, "tokens", "max_total_num_tokens", want, got, moved + start.page)


def _observed_ratio(start: Start) -> float:
    full, sliding = start.number("full_tokens"), start.number("swa_tokens")
    return round(sliding / full, 2) if full and sliding is not None else 0.8


def _budgets_left(start: Start, budget: float) -> list[float]:
    """What recurrent state leaves of a budget, by each rule that the build may have.

    Slots are as set by somebody, the request limit where the radix cache is off, else the automatic split; states
    between the steps of speculative decoding are taken as printed.
    """
    shape = start.state
    if shape is None:
        return [budget]
    each = shape.bytes_per_request(start.attn_tp)
    limit = start.whole("req_cap") or start.whole("max_running_requests")
    typed = start.whole("mamba_slots") if start.slots_by_hand else None
    if typed is None and start.on("mamba_radix_off") and limit:
        typed = limit
    between = _states_between_steps(start, shape.matrix_bytes_per_request(start.attn_tp)) * each
    rules = [StateRule(each, typed=typed, padded=padded) for padded in start.builds]
    return [rule.split(budget - between)[1] for rule in rules]


def predicted_fraction(start: Start) -> float | None:
    """The automatic fraction of such a card, from the columns."""
    memory = start.number("gpu_mem_mib")
    if memory is None:
        return None
    graphs = start.text("graphs")
    decode, prefill = re.search(r"decode(\d+)", graphs), re.search(r"prefill(\d+)", graphs)
    groups = start.whole("dp", 1) if start.on("enable_dp_attention") else 0
    card = Card(memory, start.whole("tp", 1), start.whole("pp", 1), groups)
    named = 0 if graphs else None
    return automatic_fraction(
        card,
        graph_max_bs=int(decode.group(1)) if decode else named,
        prefill_graphs=int(prefill.group(1)) if prefill else 0,
        speculative=start.algorithm,
        version=start.text("sglang_version"),
    )


def _fraction(start: Start) -> Iterator[Comparison]:
    """The automatic fraction against the printed one, or the one that the pool implies."""
    got = predicted_fraction(start) if start.on("mf_auto") else None
    if got is None:
        return
    printed = start.number("mem_fraction_static")
    if printed is not None:
        yield _compared(start, "auto_fraction", "mem_fraction_static", printed, got, 0.0005)
        return
    memory, tokens, cell = free_memory(start), start.tokens, start.bytes_per_token
    if memory is None or tokens is None or cell is None or start.text("capped") or start.sliding:
        return
    used = cell * tokens
    slots, shape = start.number("mamba_slots"), start.state
    if slots is not None and shape is not None:
        used += slots * shape.bytes_per_request(start.attn_tp)
    before, after = memory
    slot = shape.bytes_per_request(start.attn_tp) if shape else 0
    slack = 0.0005 + (2 * _PRINT + pools.gib(slot)) / before
    implied = 1 - (after - pools.gib(used)) / before
    yield _compared(start, "auto_fraction", "implied fraction", implied, got, slack)


def _running(start: Start) -> Iterator[Comparison]:
    """The limit on running requests where nobody set one: the table's rule, half the tokens, or the state slots.

    Old builds print one more. A limit below everything that the rule can give was set by somebody and tests nothing.
    """
    want, tokens, context = start.number("max_running_requests"), start.tokens, start.number("context_len")
    slots = start.number("mamba_slots")
    if want is None or tokens is None or (context is None and slots is None):
        return
    cap = start.number("req_cap")
    rule = pools.default_running_limit(tokens, int(context)) if context else 4096
    walls = [min(rule, tokens // 2, int(cap or rule))]
    if slots is not None:
        shares = (1,) if start.on("mamba_radix_off") else (3, 4, 5)
        walls = [min(walls[0], int(slots) // share) for share in shares]
    version = start.text("sglang_version")
    if (not version or versions.one_more_request_row(version)) and slots is None:
        walls.append(walls[0] + 1)
    got = min(walls, key=lambda value: abs(value - want))
    if want < min(walls) and cap is None:
        return
    yield _compared(start, "running", "max_running_requests", want, floor(got), 0)
