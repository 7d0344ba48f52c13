"""What captured graphs take when more requests may run: batches that the old limit kept out of the capture come in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tools.capacity.deployment import Deployment
from tools.capacity.sums import GIB, MIB, Known
from transcripts.facts import Facts

# The version's own allowance for a captured request (sglang 0.5.9 srt/server_args.py:1029).
MIB_PER_REQUEST: Final = 2
LEFT_GIB: Final = 1.0
# Step of the budget -> scope of the log line that says what its capture took.
CAPTURES: Final = {"target graphs": "target", "draft graphs": "draft", "draft extend graphs": "draft extend"}


@dataclass(frozen=True, slots=True)
class GraphGrowth:
    """GiB more on a GPU: `low_gib` by the version's allowance for a request, `high_gib` if captures grow as the largest
    batch does, and `steps` that for each capture. Batches `first` to `last` come in; `free_gib` is free now."""

    steps: Mapping[str, float]
    first: int
    last: int
    low_gib: float
    high_gib: float
    free_gib: float | None
    sources: tuple[str, ...]

    @property
    def tight(self) -> bool:
        """Whether the upper end leaves too little for a start to be sure of."""
        return self.free_gib is not None and self.free_gib - self.high_gib < LEFT_GIB


def graph_growth(facts: Facts, limit: int) -> GraphGrowth | None:
    """For a limit on running requests over all pools; None where it captures no more, or nothing tells."""
    server = Deployment(facts)
    return growth_in_pool(server, limit // server.limit_parts(server.attention_dp), speculative=True)


def growth_in_pool(server: Deployment, rows: int, *, speculative: bool) -> GraphGrowth | None:
    """For so many running requests in one pool, with the draft's captures where there still is one; None where that
    captures no more, or nothing tells."""
    now, largest = server.running_limit, server.largest_graph
    taken: dict[str, Known] = {
        name: fact
        for name, scope in CAPTURES.items()
        if (speculative or scope == "target") and (fact := server.fact("graph_gib", scope)) is not None
    }
    if now is None or not largest or not taken:
        return None
    held = min(int(now.value), largest)
    then = min(rows, largest)
    if held < 1 or then <= held:
        return None
    steps = {name: fact.value * (then - held) / held for name, fact in taken.items()}
    most, free = sum(steps.values()), server.free_now_gib
    known = [*taken.values(), now, *([free] if free is not None else [])]
    return GraphGrowth(
        steps=steps,
        first=held + 1,
        last=then,
        low_gib=min((then - held) * MIB_PER_REQUEST * MIB / GIB * len(taken), most),
        high_gib=most,
        free_gib=None if free is None else free.value,
        sources=tuple(dict.fromkeys(each.source for each in known)),
    )
