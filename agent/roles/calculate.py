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

COMBINED_TOLD: Final = 4
SINGLE_TOLD: Final = 9


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


def _fraction(facts: Facts, value: float | None) -> str:
    """Whether a static fraction is within what the evidence supports, then what the larger one brings."""
    largest = capacity.gpu_budget(facts).largest_fraction
    told = _levers(facts, ("--mem-fraction-static",), alone=True)
    if largest is None or value is None:
        return told
    verdict = "is within" if value <= largest else "is past"
    named = _sources(capacity.gpu_budget(facts).sums)
    bound = f"{largest:g}, the largest fraction that the memory free after all graphs allows [{named}]."
    return f"{value:g} {verdict} {bound}\n{told}"


def _levers(facts: Facts, wanted: tuple[str, ...], *, alone: bool = False) -> str:
    """Each lever by itself with what it risks, then in a line what it comes to beside others."""
    levers = capacity.levers(facts)
    lacking = [lever for lever in levers if not isinstance(lever, capacity.Lever)]
    if lacking:
        return f"That cannot be worked out yet. Missing: {sums.lacking(tuple(lacking[:1]))}"
    asked = [
        lever
        for lever in levers
        if isinstance(lever, capacity.Lever) and (not wanted or {flag for flag, _, _ in lever.changes} & set(wanted))
    ]
    if alone:
        asked = [lever for lever in asked if {flag for flag, _, _ in lever.changes} == set(wanted)]
    single = [lever for lever in asked if " + " not in lever.name and (lever.changes or not wanted)]
    lines = [f"{_lever(lever)} [{_sources(lever.sums)}]." for lever in single[:SINGLE_TOLD]]
    combined = [lever for lever in asked if " + " in lever.name]
    if combined:
        best = sorted(combined, key=lambda lever: (not lever.fits, -(lever.factor or 0)))[:COMBINED_TOLD]
        told = "; ".join(_in_short(lever) for lever in best)
        more = f" (and {len(combined) - len(best)} more)" if len(combined) > len(best) else ""
        lines.append(
            f"Together with others: {told}{more}; what each risks stands with the options [{_sources(best[0].sums)}]."
        )
    return "\n".join(lines) or "No such lever is legal here, or what it needs was not seen."


def _lever(lever: capacity.Lever) -> str:
    text = f"{lever.name}: {amount(lever.tokens)} tokens, {lever.factor:.2f}x" if lever.tokens else lever.name
    set_to = ", ".join(f"{flag} {was if was is not None else '(not set)'} -> {to}" for flag, was, to in lever.changes)
    text += f" by {set_to}" if set_to else ""
    text += f"; runs {lever.running}" if lever.running else ""
    text += "" if lever.fits else f"; {_fit(lever)}: {lever.why_not}"
    return text + (f"; {lever.risk}" if lever.risk else "")


def _in_short(lever: capacity.Lever) -> str:
    runs = f", runs {lever.running}" if lever.running else ""
    factor = f" {lever.factor:.2f}x" if lever.factor is not None else ""
    return f"{lever.name}{factor}{runs}" + ("" if lever.fits else f", {_fit(lever)}")


def _fit(lever: capacity.Lever) -> str:
    return "does not fit" if lever.fits is False else "not known to fit"


def _sources(entries: tuple[capacity.Sum, ...]) -> str:
    found: dict[str, Any] = dict.fromkeys(source for entry in entries for source in entry.sources if source[:1] == "E")
    return ", ".join(list(found)[:6])


SUMS: Final[Mapping[str, Callable[[Facts, float | None], str]]] = {
    "hicache_ratio": _ratio,
    "hicache_size": _size,
    "running_requests": _slots,
    "gpu_memory": _gpu_memory,
    "fraction": _fraction,
}
LEVERS: Final[Mapping[str, tuple[str, ...]]] = {
    "levers": (),
    "kv_dtype": ("--kv-cache-dtype",),
    "dp_attention": ("--enable-dp-attention", "--dp-size", "--dp"),
    "dcp": ("--dcp-size", "--decode-context-parallel-size"),
    "speculation": ("--speculative-algorithm",),
}
