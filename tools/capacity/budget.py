"""The memory of one GPU, from the size of the card down to what is free, and how far the static fraction may go."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

from tools.capacity import pools, versions
from tools.capacity.deployment import Deployment
from tools.capacity.fraction import Card, automatic_fraction
from tools.capacity.missing import missing_layout, missing_memory, missing_pool, missing_shape
from tools.capacity.state_budget import rule_of
from tools.capacity.sums import GIB, Known, Missing, Sum, provenance
from transcripts.facts import Facts, Grade

# What should stay free for activations of the largest prefill; a vision tower takes its share in bursts. Below the
# floor a plan does not fit, between the two it is tight.
HEADROOM_FLOOR_GIB = 3.0
HEADROOM_VISION_GIB = 4.0
FRACTION_STEP = 0.005
_PRINT_GIB = 0.005
_SINKS_GIB, _RANKS_GIB, _INTEGRATED_GIB = 0.04, 0.1, 0.4


@dataclass(frozen=True, slots=True)
class Step:
    """One part of a GPU's memory. `left_gib` is what remains below it; `why_not_spare` says why it cannot be had."""

    name: str
    gib: float
    left_gib: float
    grade: Grade
    source: str
    why_not_spare: str


@dataclass(frozen=True, slots=True)
class GpuBudget:
    """One GPU (the fullest rank), step by step; `steps` add up to the card, what no line explains is its own step.

    `pool_tokens` is what the version's own sum gives from free memory, beside what was printed. `largest_fraction` is
    None where the evidence does not support raising it at all; its sum says why.
    """

    steps: tuple[Step, ...]
    sums: tuple[Sum, ...]
    largest_fraction: float | None
    headroom_gib: float
    free_gib: float | None
    missing: tuple[Missing, ...]

    def sum(self, name: str) -> Sum | None:
        return next((entry for entry in self.sums if entry.name == name), None)


def gpu_budget(facts: Facts) -> GpuBudget:
    """Fold the facts of a start into the budget of one GPU. Says in `missing` what it could not place."""
    server = Deployment(facts)
    sums = [
        found
        for found in (
            budget_sum(server),
            tokens_sum(server),
            size_sum(server),
            table_sum(server),
            automatic_sum(server),
            smallest_sum(server),
        )
        if found
    ]
    fraction = fraction_sum(server)
    missing = []
    if server.shape is None:
        missing.append(missing_shape())
    elif server.shape.unsummed:
        missing.append(missing_layout(server.shape.unsummed, server.shape.compressed))
    if server.before_gib is None or server.after_gib is None:
        missing.append(missing_memory())
    if server.pool_tokens is None and not any(found.name == "pool_tokens" for found in sums):
        missing.append(missing_pool())
    if server.free_now_gib is None:
        missing.append(Missing("free memory after all graphs", ("gpu_free_mib",), "nvidia-smi under load"))
    largest = None
    if fraction is not None:
        sums.append(fraction)
        now = server.fraction
        largest = fraction.value if now and fraction.value > now.value + 1e-9 else None
    return GpuBudget(
        steps=_Ladder(server).steps(),
        sums=tuple(sums),
        largest_fraction=largest,
        headroom_gib=headroom_gib(server),
        free_gib=server.free_now_gib.value if server.free_now_gib else None,
        missing=tuple(missing),
    )


def headroom_gib(server: Deployment) -> float:
    """GiB that stay free: more where a vision tower is loaded."""
    return HEADROOM_VISION_GIB if server.shape and server.shape.vision else HEADROOM_FLOOR_GIB


def budget_sum(server: Deployment) -> Sum | None:
    """Budget of the pools: free after weights less the part of free-before-weights that stays in reserve."""
    before, after, fraction = server.before_gib, server.after_gib, server.effective_fraction
    if before is None or after is None or fraction is None:
        return None
    known = provenance(before, after, fraction)
    inputs = {"after_weights": after.value, "before_weights": before.value, "fraction": fraction.value}
    expression, images = "after_weights - before_weights * (1 - fraction)", server.images_gib
    if images:
        inputs |= {"images": images}
        expression += " - images"
    value = after.value - before.value * (1 - fraction.value) - images
    down, up = _doubt_gib(server, fraction.value)
    return Sum(
        "pool_budget",
        expression,
        inputs,
        value,
        "GiB",
        known.grade,
        known.sources,
        source_line=versions.source_line(server.version, "budget"),
        low=value - down,
        high=value + up,
    )


def _doubt_gib(server: Deployment, fraction: float) -> tuple[float, float]:
    """How far the budget may lie below and above the sum over printed figures, GiB.

    Prints are rounded to 0.01 GiB; free memory sinks a little before the profile on CUDA; of several ranks the least
    counts and the line quotes one; on an integrated GPU it is the system's memory and moves by itself.
    """
    rounding = _PRINT_GIB * (2 - fraction)
    if server.integrated:
        return rounding + _INTEGRATED_GIB, rounding + _INTEGRATED_GIB
    sinks = _SINKS_GIB if versions.free_memory_sinks_before_profile(server.version) and not server.rocm else 0.0
    ranks = _RANKS_GIB if server.tp * server.pp > 1 else 0.0
    return rounding + max(sinks, ranks), rounding


def tokens_sum(server: Deployment) -> Sum | None:
    """Tokens of the pool by the version's own sum; with a state pool, after its share."""
    budget, shape = budget_sum(server), server.shape
    if budget is None or shape is None or shape.unsummed:
        return None
    draft = server.draft_bytes_per_token
    cell = pools.budget_bytes_per_token(shape, server.layout, server.version, draft.value if draft else 0.0)
    rest = budget.value * GIB
    inputs = {"budget_gib": budget.value, "bytes_per_token": cell, "page": float(server.page)}
    expression = "floor(budget * 2^30 / bytes_per_token) to a page"
    if shape.state:
        per_request = shape.state.bytes_per_request(server.attn_tp)
        slots, left = rule_of(server, per_request).split(rest)
        inputs |= {
            "state_slots": float(slots),
            "states": (rest - left) / per_request,
            "state_bytes": float(per_request),
        }
        rest = left
        expression = "floor((budget * 2^30 - states * state_bytes) / bytes_per_token) to a page"
    if shape.sliding:
        sliding = pools.sliding_bytes_per_token(shape, server.layout)
        tokens, _ = pools.sliding_split(rest, cell, sliding, server.window_ratio, server.page)
        inputs |= {"sliding_bytes_per_token": sliding, "ratio": server.window_ratio}
        expression = "floor(budget * 2^30 / (bytes_per_token + ratio * sliding_bytes_per_token)) to a page"
    else:
        tokens = pools.tokens_in(rest, cell, server.page) * server.dcp
    cap = server.number("max_total_tokens")
    if cap is not None and cap.value < tokens:
        tokens, expression = int(cap.value) // server.page * server.page, "max_total_tokens"
        inputs |= {"max_total_tokens": cap.value}
    # What the budget may be off, in tokens.
    each = (inputs["bytes_per_token"] + float(inputs.get("sliding_bytes_per_token", 0.0))) / GIB / server.dcp
    down, up = ((budget.value - (budget.low or 0.0)) / each, ((budget.high or 0.0) - budget.value) / each)
    grade: Grade = "estimated" if draft is None and versions.draft_in_budget(server.version) else budget.grade
    if server.element is None or server.element.grade == "estimated":
        grade = "estimated"
    return Sum(
        "pool_tokens", expression, inputs, tokens, "tokens", grade, (*budget.sources, *_element_source(server)),
        source_line=versions.source_line(server.version, "sliding" if shape.sliding else "budget"),
        low=max(0.0, tokens - down), high=tokens + up,
    )  # fmt: skip


def size_sum(server: Deployment) -> Sum | None:
    """Size of the pool per rank as the server prints it, padding page included, against what it printed."""
    tokens, cell = server.pool_tokens, server.bytes_per_token
    if tokens is None or cell is None:
        return None
    printed = server.fact("kv_pool_gib", "full" if server.shape and server.shape.sliding else "")
    known = provenance(tokens, cell)
    return Sum(
        "pool_size",
        "bytes_per_token * (tokens + page) / 2^30",
        {"bytes_per_token": cell.value, "tokens": tokens.value, "page": float(server.page)},
        pools.gib(pools.pool_bytes(cell.value, int(tokens.value), server.page)),
        "GiB",
        known.grade,
        known.sources,
        limit=printed.value + 0.005 if printed else None,
        limit_from=printed.source if printed else "",
        source_line=versions.source_line(server.version, "cell"),
    )


def table_sum(server: Deployment) -> Sum | None:
    """The request table: allocated after the pool is sized, so the limit on running requests does not shrink it."""
    limit = server.running_limit
    if limit is None or not server.context_len:
        return None
    rows = int(limit.value)
    return Sum(
        "request_table",
        "requests * (context + 4 + draft_tokens) * 4 / 2^30",
        {"requests": rows, "context": server.context_len, "draft_tokens": server.draft_tokens},
        pools.gib(pools.request_table_bytes(rows, server.context_len, server.draft_tokens)),
        "GiB",
        "derived",
        (limit.source,),
        source_line=versions.source_line(server.version, "request_table"),
    )


def round_fraction_down(fraction: float) -> float:
    """To a step that an operator would type."""
    return round(floor(fraction / FRACTION_STEP + 1e-9) * FRACTION_STEP, 4)


def automatic_sum(server: Deployment) -> Sum | None:
    """The fraction that the server would pick by itself, from the card and the settings."""
    card = server.card_mib
    if card is None:
        return None
    dp = server.attention_dp if server.attention_dp > 1 else 0
    chunk, graphs = server.number("chunked_prefill_size"), server.number("cuda_graph_max_bs")
    value = automatic_fraction(
        Card(card.value, server.tp, server.pp, dp),
        chunk=int(chunk.value) if chunk else None,
        graph_max_bs=int(graphs.value) if graphs else None,
        speculative=server.algorithm,
        vision=server.shape.vision if server.shape else None,
        version=server.version,
        prefill_graphs=0 if server.rocm else None,
        latent=server.shape is not None and server.shape.latent,
    )
    return Sum(
        "automatic_fraction",
        "(card - reserve) / card, times the vision tower's factor",
        {"card_mib": card.value, "reserve_mib": (1 - value) * card.value, "tp": server.tp, "pp": server.pp},
        value,
        "fraction",
        "derived",
        (card.source,),
        source_line=versions.source_line(server.version, "fraction_default"),
    )


def smallest_sum(server: Deployment) -> Sum | None:
    """The fraction at which the weights leave nothing for a pool: at or below it the server does not start."""
    before, after = server.before_gib, server.after_gib
    if before is None or after is None or before.value <= 0:
        return None
    known, images = provenance(before, after), server.images_gib
    inputs = {"after_weights": after.value, "before_weights": before.value} | ({"images": images} if images else {})
    return Sum(
        "smallest_fraction",
        f"1 - {'(after_weights - images)' if images else 'after_weights'} / before_weights",
        inputs,
        round(1 - (after.value - images) / before.value, 4),
        "fraction",
        known.grade,
        known.sources,
        source_line=versions.source_line(server.version, "budget"),
    )


def fraction_sum(server: Deployment) -> Sum | None:
    """The largest static fraction that leaves the headroom, from what is free after all graphs.

    A higher fraction grows the pool and, where the draft is paid from the reserve, the draft's pool with it. Out of
    memory in the past means that not even the present fraction is supported.
    """
    now, before, free = server.fraction, server.before_gib, server.free_now_gib
    if now is None or before is None or free is None or before.value <= 0:
        return None
    keep = headroom_gib(server)
    growth = 1.0
    draft, cell = server.draft_bytes_per_token, server.bytes_per_token
    if draft and cell and cell.value and not versions.draft_in_budget(server.version):
        growth += draft.value / cell.value
    spare = max(0.0, free.value - keep)
    burnt = [fact for fact in server.facts.all("oom_phase") if str(fact.value) not in ("load", "pools")]
    raised = now.value if burnt else now.value + spare / growth / before.value
    value = max(now.value, round_fraction_down(raised))
    known = provenance(now, before, free)
    return Sum(
        "largest_fraction",
        "fraction (it ran out of memory before)" if burnt else "fraction + (free - headroom) / growth / before_weights",
        {
            "fraction": now.value,
            "free": free.value,
            "headroom": keep,
            "growth": growth,
            "before_weights": before.value,
        },
        round(value, 4),
        "fraction",
        "estimated",
        known.sources,
        source_line=versions.source_line(server.version, "budget"),
        low=now.value,
        high=round(value, 4),
    )


def _element_source(server: Deployment) -> tuple[str, ...]:
    return (server.element.source,) if server.element and server.element.source else ()


class _Ladder:
    """Builds the steps downward; what lies between two printed figures and no sum explains becomes its own step."""

    def __init__(self, server: Deployment) -> None:
        self._server = server
        self._steps: list[Step] = []
        self._left = 0.0

    def steps(self) -> tuple[Step, ...]:
        card = self._server.card_mib
        if card is None:
            return ()
        self._left = card.value / 1024
        self._steps.append(Step("card", self._left, self._left, card.grade, card.source, "what the GPU has"))
        self._load()
        self._pools()
        self._after_pools()
        self._rest()
        return tuple(self._steps)

    def _take(self, name: str, taken: float, grade: Grade, source: str, why: str) -> None:
        self._left -= taken
        self._steps.append(Step(name, taken, self._left, grade, source, why))

    def _down_to(self, name: str, level: Known | None, why: str) -> None:
        """The rest down to a printed level of free memory; nothing where the level was not printed."""
        if level is not None and abs(self._left - level.value) >= 0.005:
            self._take(name, self._left - level.value, "derived", level.source, why)

    def _load(self) -> None:
        server = self._server
        self._down_to(
            "driver, context, communication", server.before_gib, "taken before a weight is loaded; it grows with tp"
        )
        if server.after_gib is not None:
            self._down_to("weights", server.after_gib, "the model itself; some parts stand whole on every rank")

    def _pools(self) -> None:
        server = self._server
        if server.before_gib is None or server.after_gib is None:
            return
        tokens, cell = server.pool_tokens, server.bytes_per_token
        if tokens and cell:
            known = provenance(tokens, cell)
            size = pools.gib(cell.value * tokens.value)
            self._take("KV pool", size, known.grade, tokens.source, "holds running requests and, evictable, prefixes")
            padding = pools.gib(cell.value * server.page)
            self._take("padding page", padding, known.grade, cell.source, "padded tokens of a batch are written there")
            if server.shape and server.shape.sliding:
                row = pools.sliding_bytes_per_token(server.shape, server.layout)
                window = pools.gib(pools.pool_bytes(row, server.window_tokens, server.page))
                why = "holds the last tokens of running requests for the sliding-window layers"
                self._take("sliding-window pool", window, known.grade, tokens.source, why)
        slots = server.fact("state_slots")
        if server.shape and server.shape.state and slots:
            size = pools.gib((slots.value + 1) * server.shape.state.bytes_per_request(server.attn_tp))
            self._take("recurrent state", size, "derived", slots.source, "one slot and more for each running request")
        table = table_sum(server)
        if table:
            self._take("request table", table.value, "derived", table.sources[0], "maps requests to token slots")
        end = server.fact("pool_end_gib", "")
        self._down_to("allocator and small buffers", end, "rounding and small tensors beside the pools")

    def _after_pools(self) -> None:
        server = self._server
        why_graph = "replaying captured graphs is what makes decode fast; their memory is held for good"
        self._graph("target graphs", "target", why_graph)
        pool_end = server.fact("pool_end_gib", "draft")
        weights = server.fact("weights_gib", "draft")
        before = server.fact("weights_before_gib", "draft")
        if server.has_draft:
            self._down_to("attention workspaces", before, "scratch of the attention kernels")
            if weights:
                self._take("draft weights", weights.value, weights.grade, weights.source, "the draft model itself")
            self._draft_pool()
            name = "draft and its surroundings" if weights is None else "draft's buffers"
            self._down_to(
                name, pool_end, "target graphs, workspaces, draft weights and pool, as far as not named above"
            )
            self._graph("draft graphs", "draft", why_graph)
            self._graph("draft extend graphs", "draft extend", why_graph)

    def _draft_pool(self) -> None:
        server = self._server
        tokens = server.fact("kv_pool", "draft") or server.pool_tokens
        cell = server.draft_bytes_per_token
        if tokens and cell and cell.value:
            size = pools.gib(pools.pool_bytes(cell.value, int(tokens.value), server.page))
            self._take("draft pool", size, "derived", cell.source, "one draft row for every slot of the target's pool")

    def _graph(self, name: str, scope: str, why: str) -> None:
        taken, level = self._server.fact("graph_gib", scope), self._server.fact("graph_end_gib", scope)
        if taken is not None:
            self._take(name, taken.value, taken.grade, taken.source, why)
        if level is not None and self._left - level.value >= 0.005:
            self._down_to(f"workspaces beside {name}", level, "scratch that the first run of a kernel allocates")

    def _rest(self) -> None:
        server = self._server
        self._down_to(
            "graphs and workspaces" if server.fact("graph_gib") is None else "buffers until ready",
            server.fact("free_after_boot_gib"),
            "what the start allocates after the lines above",
        )
        free = server.free_now_gib
        self._down_to("activations and caches under load", free, "kept by the allocator for prefill and sampling")
        if free is not None:
            keep = headroom_gib(server)
            text = f"{keep:g} GiB of it must stay for the largest prefill" + (
                " and for images" if server.shape and server.shape.vision else ""
            )
            self._steps.append(Step("free", free.value, 0.0, free.grade, free.source, text))
