"""`calculate`: memory arithmetic on this server's facts, in sentences that name what they rest on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from agent import sums
from agent.merge import hicache_says
from agent.views.words import amount
from tools import capacity
from tools.toolbox import ToolRefused
from transcripts.facts import Facts


def calculated(facts: Facts, what: str, value: float | None) -> str:
    """The answer to one question of arithmetic. Raises ToolRefused where `what` is no such question."""
    if what in SUMS:
        return SUMS[what](facts, value)
    if what in LEVERS:
        return _levers(facts, LEVERS[what])
    raise ToolRefused(f"nothing is calculated under {what!r}.", f"There are: {', '.join([*SUMS, *LEVERS])}.")


def _hicache(facts: Facts, ratio: float | None, size_gb: int | None) -> str:
    budget = capacity.host_budget(facts, ratio=ratio, size_gb=size_gb)
    if not isinstance(budget, capacity.HostBudget):
        return f"That cannot be worked out yet. Missing: {sums.lacking(budget)}"
    sources = _sources(budget.sums)
    said = [f"{hicache_says(budget)} [{sources}]."]
    said += [f"{entry.line()} [{', '.join(entry.sources)}]." for entry in budget.sums]
    if budget.numa:
        said.append(f"NUMA: {budget.numa} [{sources}].")
    return "\n".join(said)


def _ratio(facts: Facts, value: float | None) -> str:
    return _hicache(facts, value or 2.0, None)


def _size(facts: Facts, value: float | None) -> str:
    return _hicache(facts, None, int(value or 1))


def _slots(facts: Facts, value: float | None) -> str:
    slots = capacity.slots_for(facts)
    if not isinstance(slots, capacity.Slots):
        return f"That cannot be worked out yet. Missing: {sums.lacking(slots)}"
    sources = _sources(slots.sums)
    wanted = int(value or slots.value)
    share = wanted / slots.groups / slots.wall
    verdict = (
        "leaves room" if share <= 0.92 else "is past what the pool carries" if share > 1 else "leaves hardly any room"
    )
    said = [
        f"{wanted} running requests would hold {share:.2f} of the pool, which {verdict} [{sources}].",
        f"Nine tenths of the pool carry {slots.value}, all of it {slots.wall * slots.groups} [{sources}].",
        f"{slots.reserve.line()} [{sources}].",
    ]
    if slots.covered_by_graphs is False:
        said.append(
            f"The captured graph sizes do not cover that: larger batches would decode without them [{sources}]."
        )
    return "\n".join(said)


def _gpu_memory(facts: Facts, _value: float | None) -> str:
    budget = capacity.gpu_budget(facts)
    if not budget.steps:
        return f"That cannot be worked out yet. Missing: {sums.lacking(budget.missing)}"
    said = []
    for step in budget.steps:
        reference = f" [{step.source}]" if step.source else ""
        said.append(f"{step.name}: {step.gib:.2f} GiB, {step.left_gib:.2f} left; {step.why_not_spare}{reference}.")
    if budget.largest_fraction:
        said.append(
            f"The largest fraction the evidence supports is {budget.largest_fraction:.2f} [{_sources(budget.sums)}]."
        )
    return "\n".join(said)


def _levers(facts: Facts, wanted: tuple[str, ...]) -> str:
    lines = []
    for lever in capacity.levers(facts):
        if not isinstance(lever, capacity.Lever):
            return f"That cannot be worked out yet. Missing: {sums.lacking((lever,))}"
        flags = {flag for flag, _, _ in lever.changes}
        if wanted and not flags & set(wanted):
            continue
        text = f"{lever.name}: {amount(lever.tokens)} tokens, {lever.factor:.2f}x" if lever.tokens else lever.name
        set_to = ", ".join(
            f"{flag} {was if was is not None else '(not set)'} -> {to}" for flag, was, to in lever.changes
        )
        text += f" by {set_to}" if set_to else ""
        text += f"; runs {lever.running}" if lever.running else ""
        fit = "does not fit" if lever.fits is False else "not known to fit"
        text += "" if lever.fits else f"; {fit}: {lever.why_not}"
        text += f"; {lever.risk}" if lever.risk else ""
        lines.append(f"{text} [{_sources(lever.sums)}].")
    return "\n".join(lines) or "No such lever is legal here, or what it needs was not seen."


def _sources(entries: tuple[capacity.Sum, ...]) -> str:
    found: dict[str, Any] = dict.fromkeys(source for entry in entries for source in entry.sources if source[:1] == "E")
    return ", ".join(list(found)[:6])


SUMS: Final[Mapping[str, Callable[[Facts, float | None], str]]] = {
    "hicache_ratio": _ratio,
    "hicache_size": _size,
    "running_requests": _slots,
    "gpu_memory": _gpu_memory,
}
LEVERS: Final[Mapping[str, tuple[str, ...]]] = {
    "levers": (),
    "kv_dtype": ("--kv-cache-dtype",),
    "dp_attention": ("--enable-dp-attention", "--dp-size", "--dp"),
    "fraction": ("--mem-fraction-static",),
    "dcp": ("--dcp-size", "--decode-context-parallel-size"),
    "speculation": ("--speculative-algorithm",),
}
