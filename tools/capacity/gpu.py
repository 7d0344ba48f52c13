"""The memory of one GPU, step by step from the size of the card down to what is free."""

from __future__ import annotations

from dataclasses import dataclass

from tools.capacity import pools, versions
from tools.capacity.budget import (
    automatic_sum,
    budget_sum,
    fraction_sum,
    headroom_gib,
    size_sum,
    smallest_sum,
    table_sum,
    tokens_sum,
)
from tools.capacity.deployment import Deployment
from tools.capacity.graphs import CAPTURES
from tools.capacity.missing import missing_layout, missing_memory, missing_pool, missing_shape
from tools.capacity.sums import Known, Missing, Sum, provenance
from transcripts.facts import Facts, Grade


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
        missing.append(missing_layout(server.shape))
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
        target = server.fact("weights_after_gib", "") if self._draft_first else None
        after = target or server.after_gib
        if after is not None:
            self._down_to("weights", after, "the model itself; some parts stand whole on every rank")
        if target is not None:
            self._down_to("draft weights", server.after_gib, "the draft model itself")

    @property
    def _draft_first(self) -> bool:
        """Whether the draft is loaded before the pools, so that its own free memory closes the weights."""
        server = self._server
        return (
            server.has_draft
            and versions.draft_in_budget(server.version)
            and server.fact("weights_after_gib", "draft") is not None
        )

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
        if self._draft_first:
            self._draft_pool()
            self._down_to("draft's buffers", server.fact("pool_end_gib", "draft"), "small tensors beside its pool")
            for name in CAPTURES:
                self._graph(name)
            return
        target, *of_draft = CAPTURES
        self._graph(target)
        pool_end = server.fact("pool_end_gib", "draft")
        weights = server.fact("weights_gib", "draft")
        before = server.fact("weights_before_gib", "draft")
        if server.has_draft:
            self._down_to("attention workspaces", before, "scratch of the attention kernels")
            if weights:
                self._take("draft weights", weights.value, weights.grade, weights.source, "the draft model itself")
            self._draft_pool()
            rest = "draft and its surroundings" if weights is None else "draft's buffers"
            self._down_to(
                rest, pool_end, "target graphs, workspaces, draft weights and pool, as far as not named above"
            )
            for name in of_draft:
                self._graph(name)

    def _draft_pool(self) -> None:
        server = self._server
        tokens = server.fact("kv_pool", "draft") or server.pool_tokens
        cell = server.draft_bytes_per_token
        if tokens and cell and cell.value:
            size = pools.gib(pools.pool_bytes(cell.value, int(tokens.value), server.page))
            self._take("draft pool", size, "derived", cell.source, "one draft row for every slot of the target's pool")

    def _graph(self, name: str) -> None:
        taken, level = (self._server.fact(figure, CAPTURES[name]) for figure in ("graph_gib", "graph_end_gib"))
        if taken is not None:
            why = "replaying captured graphs is what makes decode fast; their memory is held for good"
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
