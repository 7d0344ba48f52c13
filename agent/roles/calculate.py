"""`calculate`: memory arithmetic on this server's facts, in sentences that name what they rest on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from agent import sums
from agent.merge import hicache_says
from agent.roles.settings import FRACTION, judged, share_of, summed
from agent.views.words import amount, option_typed
from tools import capacity
from tools.toolbox import ToolRefused
from transcripts.facts import Facts

COMBINED_TOLD: Final = 4
SINGLE_TOLD: Final = 9


def calculated(
    facts: Facts,
    what: str,
    value: float | None,
    answers: float | None = None,
    settings: Mapping[str, str] | None = None,
) -> str:
    """The answer to one question of arithmetic. Raises ToolRefused where `what` is no such question."""
    if what == "prompt_tokens" and value and answers:
        return _mix(facts, value, answers)
    if what == "settings" and settings:
        return summed(facts, settings)
    if what == "running_requests" and settings and value:
        return "\n".join([_slots(facts, value), *share_of(facts, int(value), settings)])
    if what in SUMS:
        return SUMS[what](facts, value)
    if what in LEVERS:
        return _levers(facts, LEVERS[what], requests=value)
    raise ToolRefused(f"nothing is calculated under {what!r}.", f"There are: {', '.join([*SUMS, *LEVERS])}.")


def _hicache(facts: Facts, ratio: float | None, size_gb: int | None) -> str:
    budget = capacity.host_budget(facts, ratio=ratio, size_gb=size_gb)
    if not isinstance(budget, capacity.HostBudget):
        return sums.not_yet(budget)
    sources = sums.sources(budget.sums)
    said = [f"{hicache_says(budget)} [{sources}]."]
    said += [f"{entry.line()} [{', '.join(entry.sources)}]." for entry in budget.sums]
    if budget.numa:
        said.append(f"NUMA: {budget.numa} [{sources}].")
    return "\n".join(said)


def _ratio(facts: Facts, value: float | None) -> str:
    return _hicache(facts, value or 2.0, None)


def _size(facts: Facts, value: float | None) -> str:
    return _hicache(facts, None, int(value or 1))


def _ram_for_it(facts: Facts, value: float | None) -> str:
    """The largest ratio within so many GB of host RAM, which the operator gives it."""
    largest = capacity.largest_ratio_within(facts, (value or 0.0) * capacity.GB)
    if not isinstance(largest, float):
        return sums.not_yet(largest)
    smallest = capacity.host_budget(facts, ratio=1.0)
    assert isinstance(smallest, capacity.HostBudget)  # the ratio was worked out from the same
    if largest > 1:
        told = f"Within {amount(value)} GB of host RAM the largest ratio is {largest:g}"
        return f"{told} [{sums.sources(smallest.sums)}].\n{_hicache(facts, largest, None)}"
    needed = f"a ratio of 1 takes {smallest.total_gb:.1f} GB and keeps no more than the GPU does"
    return f"Within {amount(value)} GB of host RAM nothing is gained: {needed} [{sums.sources(smallest.sums)}]."


def _ram_kept(facts: Facts, value: float | None) -> str:
    """What is left for HiCache where so many GB are kept for something else."""
    budget = capacity.host_budget(facts, ratio=1.0)
    if not isinstance(budget, capacity.HostBudget):
        return sums.not_yet(budget)
    allowed = budget.limit_bytes / capacity.GB
    left = max(0.0, allowed - (value or 0.0))
    told = f"{amount(allowed)} GB may be taken ({budget.limit_from}); less {amount(value)} GB, {left:.1f}"
    return f"{told} GB are left for it [{sums.sources(budget.sums)}].\n{_ram_for_it(facts, left)}"


def _slots(facts: Facts, value: float | None) -> str:
    slots = capacity.slots_for(facts)
    if not isinstance(slots, capacity.Slots):
        return sums.not_yet(slots)
    sources = sums.sources(slots.sums)
    wanted = int(value or slots.value)
    share = wanted / slots.groups / slots.wall
    verdict = judged(share, "leaves room", "is past what the pool carries", "leaves hardly any room")
    said = [
        f"{wanted} running requests would hold {share:.2f} of the pool, which {verdict} [{sources}].",
        f"Nine tenths of the pool carry {slots.value}, all of it {slots.wall * slots.groups} [{sources}].",
        f"{_reserved(slots.reserve)} [{sources}].",
    ]
    growth = capacity.graph_growth(facts, wanted)
    if growth is not None:
        said.append(f"At the start, {sums.graphs_told(growth)} [{', '.join(growth.sources)}].")
    if slots.covered_by_graphs is False:
        said.append(
            f"The captured graph sizes do not cover that: larger batches would decode without them [{sources}]."
        )
    return "\n".join(said)


def _reserved(reserve: capacity.Sum) -> str:
    """What the admission keeps back right after idle, in words before its sum."""
    if reserve.low is None or reserve.high is None:
        return reserve.line()
    return (
        f"In the first {amount(reserve.inputs['decode_steps'])} decode steps after idle it lets in "
        f"{reserve.low:.0f} to {reserve.high:.0f}, by the max_tokens that clients ask for, and more later, when it "
        f"reserves less: {reserve.line()}"
    )


def _lengths(facts: Facts, mix: capacity.Mix, text: str) -> str:
    """How many requests of given lengths the pool carries, and what the admission lets in."""
    walls = capacity.concurrency(facts, mix)
    if not isinstance(walls, capacity.Concurrency):
        return sums.not_yet(walls)
    sources = sums.sources(tuple(limit.sum for limit in walls.limits))
    pool = next((limit for limit in walls.limits if limit.name == "pool"), None)
    said = [f"{text}: the pool carries about {int(pool.requests)} at once [{sources}]."] if pool is not None else []
    limited = [f"{limit.name} {int(limit.requests)}" for limit in walls.limits]
    said.append(f"What binds first is the {walls.binds}, of {', '.join(limited)} in each pool [{sources}].")
    said += [
        f"{limit.sum.line()} [{sources}]." for limit in walls.limits if limit.name in ("pool", "admission reserve")
    ]
    return "\n".join(said)


def _prompt_tokens(facts: Facts, value: float | None) -> str:
    """Requests that hold so many tokens, before their answers are counted."""
    tokens = value or 0.0
    said = _lengths(facts, capacity.Mix(tokens, 0.0), f"Requests of {amount(tokens)} tokens before their answers")
    asking = capacity.concurrency(facts, capacity.Mix(tokens, 0.0, capacity.MAX_NEW_CLIP))
    if isinstance(asking, capacity.Concurrency):
        reserve = next(limit for limit in asking.limits if limit.name == "admission reserve")
        said += (
            f"\nWhere clients ask for answers of {amount(capacity.MAX_NEW_CLIP)} tokens or more, the admission reserve "
            f"lets in {int(reserve.requests)} [{sums.sources((reserve.sum,))}]."
        )
    return said


def _mix(facts: Facts, prompt: float, answers: float) -> str:
    """Requests whose prompts and answers are given: answers grow, so half of one is held on average."""
    mix = capacity.Mix(prompt, answers, int(answers))
    text = f"Prompts of {amount(prompt)} tokens with answers of {amount(answers)}, half of it held on average"
    return _lengths(facts, mix, text)


def _max_tokens(facts: Facts, value: float | None) -> str:
    """What clients ask for as the longest answer: what the scheduler reserves for it, and what it takes if it comes."""
    held = facts.number("tokens_per_request")
    if held is None or not value:
        return sums.not_yet(_slots_missing(facts))
    asked = _lengths(
        facts, capacity.Mix(held, 0.0, int(value)), f"Requests of the length seen that ask for {amount(value)}"
    )
    early = capacity.slots_for(facts, max_new=int(value))
    if isinstance(early, capacity.Slots):
        steps, most = amount(early.reserve.inputs["decode_steps"]), amount(capacity.MAX_NEW_CLIP)
        told = f"In the first {steps} decode steps after idle the admission reserve lets in {int(early.reserve.value)}"
        asked += f"\n{told}; it counts {most} of what is asked at most [{sums.sources((early.reserve,))}]."
    grown = _lengths(
        facts, capacity.Mix(held, value), "If every answer really gets that long, half of it held on average"
    )
    return f"{asked}\n{grown.splitlines()[0]}"


def _slots_missing(facts: Facts) -> tuple[capacity.Missing, ...]:
    slots = capacity.slots_for(facts)
    return () if isinstance(slots, capacity.Slots) else slots


def _room(facts: Facts, _value: float | None) -> str:
    """How many more requests fit than run, which is no count of users."""
    slots, running, waiting = capacity.slots_for(facts), facts.get("running_p50"), facts.get("queue_p50")
    if not isinstance(slots, capacity.Slots) or running is None:
        return sums.not_yet(_slots_missing(facts), "how many run")
    sources = sums.sources(slots.sums)
    now = f"{amount(running.value)} run" + (f" and {amount(waiting.value)} wait" if waiting is not None else "")
    limit = f" under a limit of {slots.limit}" if slots.limit is not None else ""
    more = slots.value - int(float(running.value))
    verdict = f"{more} more than run" if more > 0 else "no more than run"
    return (
        f"{now}{limit} [{running.source}].\n"
        f"Nine tenths of the pool carry {slots.value} requests of the length seen, {verdict}; all of it "
        f"{slots.wall * slots.groups} [{sources}].\n"
        f"How many users that is, nothing that was looked at counts: one may have several requests open [{sources}]."
    )


def _gpu_memory(facts: Facts, _value: float | None) -> str:
    budget = capacity.gpu_budget(facts)
    if not budget.steps:
        return sums.not_yet(budget.missing)
    said = []
    for step in budget.steps:
        reference = f" [{step.source}]" if step.source else ""
        said.append(f"{step.name}: {step.gib:.2f} GiB, {step.left_gib:.2f} left; {step.why_not_spare}{reference}.")
    if budget.largest_fraction:
        told = f"The largest fraction the evidence supports is {budget.largest_fraction:g}"
        said.append(f"{told} [{sums.sources(budget.sums)}].")
    return "\n".join(said)


def _fraction(facts: Facts, value: float | None) -> str:
    """A static fraction that is named, else the largest that the evidence supports."""
    return _levers(facts, (FRACTION,), alone=True) if value is None else summed(facts, {FRACTION: str(value)})


def _levers(facts: Facts, wanted: tuple[str, ...], *, alone: bool = False, requests: float | None = None) -> str:
    """Each lever by itself with what it risks, then in a line what it comes to beside others; `requests`: with so many
    running."""
    levers = capacity.levers(facts)
    lacking = [lever for lever in levers if not isinstance(lever, capacity.Lever)]
    if lacking:
        return sums.not_yet(tuple(lacking[:1]))
    asked = [
        lever for lever in levers if isinstance(lever, capacity.Lever) and (not wanted or lever.flags & set(wanted))
    ]
    if alone:
        asked = [lever for lever in asked if lever.flags == set(wanted)]
    single = [lever for lever in asked if " + " not in lever.name and (lever.changes or not wanted)]
    lines = [f"{_lever(lever)} [{sums.sources(lever.sums)}]." for lever in single[:SINGLE_TOLD]]
    if requests is not None:
        lines += _with_so_many(facts, single, requests)
    combined = [lever for lever in asked if " + " in lever.name]
    if combined:
        best = sorted(combined, key=lambda lever: (not lever.fits, -(lever.factor or 0)))[:COMBINED_TOLD]
        told = "; ".join(_in_short(lever) for lever in best)
        more = f" (and {len(combined) - len(best)} more)" if len(combined) > len(best) else ""
        told += f"{more}; what each risks stands with the options"
        lines.append(f"{sums.LEVERS_TOGETHER} {told} [{sums.sources(best[0].sums)}].")
    return "\n".join(lines) or "No such lever is legal here, or what it needs was not seen."


def _with_so_many(facts: Facts, levers: list[capacity.Lever], requests: float) -> Iterator[str]:
    """What share of each lever's pool so many running requests hold; the slots come as a flag of their own."""
    held = facts.number("tokens_per_request")
    for lever in levers:
        if held is not None and lever.tokens:
            share = requests * held / lever.tokens
            verdict = judged(share, "which fits", "which is past it", "which leaves hardly any room")
            yield (
                f"With {amount(requests)} running at {amount(held)} tokens each, {share:.2f} of the pool of "
                f"{lever.name} is held, {verdict}; it takes --max-running-requests {amount(requests)} too "
                f"[{sums.sources(lever.sums)}]."
            )


def _lever(lever: capacity.Lever) -> str:
    text = f"{lever.name}: {amount(lever.tokens)} tokens, {lever.factor:.2f}x" if lever.tokens else lever.name
    set_to = ", ".join(f"{option_typed(flag, to)} (so far {was or 'not set'})" for flag, was, to in lever.changes)
    text += f", typed: {set_to}" if set_to else ""
    text += f"; runs {lever.running}" if lever.running else ""
    text += "" if lever.fits else f"; {_fit(lever)}: {lever.why_not}"
    return text + (f"; {lever.risk}" if lever.risk else "")


def _in_short(lever: capacity.Lever) -> str:
    runs = f", runs {lever.running}" if lever.running else ""
    factor = f" {lever.factor:.2f}x" if lever.factor is not None else ""
    return f"{lever.name}{factor}{runs}" + ("" if lever.fits else f", {_fit(lever)}")


def _fit(lever: capacity.Lever) -> str:
    return "does not fit" if lever.fits is False else "not known to fit"


SUMS: Final[Mapping[str, Callable[[Facts, float | None], str]]] = {
    "hicache_ratio": _ratio,
    "hicache_size": _size,
    "ram_for_hicache": _ram_for_it,
    "ram_for_others": _ram_kept,
    "running_requests": _slots,
    "prompt_tokens": _prompt_tokens,
    "max_tokens": _max_tokens,
    "room": _room,
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
