"""What settings that somebody names would come to, summed together: fit, free memory, pool, and which requests run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from agent import sums
from agent.views.words import amount, free_of_gpu, option_typed
from tools import capacity
from transcripts.errors import ScoutError
from transcripts.facts import Facts

FRACTION: Final = "--mem-fraction-static"
SLOTS: Final = "--max-running-requests"
ROOMY: Final = 0.92  # of the pool
_SIZED: Final = frozenset({FRACTION, "--hicache-ratio", "--kv-cache-dtype"})


def summed(facts: Facts, settings: Mapping[str, str]) -> str:
    """The settings as one lever, its verdict first; why not where the version refuses them or a figure is missing."""
    named = ", ".join(option_typed(flag, value) for flag, value in settings.items())
    try:
        lever = capacity.what_if(facts, settings)
    except ScoutError as error:
        return f"{named}: {error}"
    if not isinstance(lever, capacity.Lever):
        return sums.not_yet(lever)
    cites = f"[{sums.sources(lever.sums)}]"
    lines = [f"{line} {cites}." for line in _told(facts, named, settings, lever)]
    limit = settings.get(SLOTS)
    if limit is not None:
        lines += share_of(facts, int(limit), {flag: value for flag, value in settings.items() if flag != SLOTS})
    return "\n".join(lines)


def share_of(facts: Facts, wanted: int, settings: Mapping[str, str]) -> Iterator[str]:
    """What share of the pool so many requests hold once other settings are in force."""
    held = facts.number("tokens_per_request")
    try:
        lever = capacity.what_if(facts, settings) if settings else ()
    except ScoutError:
        return
    if held is not None and isinstance(lever, capacity.Lever) and lever.tokens:
        share = wanted * held / lever.tokens
        verdict = judged(share, "leaves room", "is past it", "leaves hardly any room")
        with_them = ", ".join(option_typed(flag, value) for flag, value in settings.items())
        yield (
            f"With {with_them} the pool is {amount(lever.tokens)} tokens, of which {wanted} running requests would "
            f"hold {share:.2f}, which {verdict} [{sums.sources(lever.sums)}]."
        )


def judged(share: float, fits: str, past: str, tight: str) -> str:
    """The words for a share of the pool that running requests hold."""
    return fits if share <= ROOMY else past if share > 1 else tight


def _told(facts: Facts, named: str, settings: Mapping[str, str], lever: capacity.Lever) -> Iterator[str]:
    verdict = "fits" if lever.fits else "is not known to fit" if lever.fits is None else "does not fit"
    against = f": {lever.why_not}" if lever.why_not else ""
    yield f"{named} {verdict}{against}"
    budget = capacity.gpu_budget(facts)
    if budget.free_gib is not None and lever.gpu_free_gib is not None:
        text = f"Free on a GPU: {budget.free_gib:.2f} GiB now"
        if abs(lever.gpu_free_gib - budget.free_gib) >= 0.005:
            text += f", {free_of_gpu(lever.gpu_free_gib, lever.gpu_free_least_gib)} then"
        yield f"{text}; {budget.headroom_gib:g} should stay{_short_of(lever.gpu_free_gib)}"
    largest = budget.sum("largest_fraction")
    if FRACTION in settings and largest is not None:
        yield _of_the_fraction(largest, float(settings[FRACTION]))
    if lever.tokens:
        runs = f"; {amount(lever.running)} requests of the length seen run" if lever.running else ""
        yield f"The pool: {amount(lever.tokens)} tokens, {lever.factor:.2f}x{runs}{_binds(lever)}"
    if lever.host_gb:
        yield f"Host RAM: {amount(lever.host_gb)} GB; prefix tokens {lever.prefix_factor:.1f}x"
    risks = dict.fromkeys([*_known_of(facts, settings), *filter(None, [lever.risk])])
    if risks:
        yield f"Known of it: {'; '.join(risks)}"


def _known_of(facts: Facts, settings: Mapping[str, str]) -> Iterator[str]:
    """What speaks against each lever that is part of the settings, whatever its size where it has one."""
    for lever in capacity.levers(facts):
        if isinstance(lever, capacity.Lever) and lever.changes and " + " not in lever.name:
            same = (flag in _SIZED or settings.get(flag) == str(to).lower() for flag, _, to in lever.changes)
            if lever.risk and lever.flags <= set(settings) and all(same):
                yield lever.risk


def _short_of(free: float) -> str:
    return "; less than nothing: it runs out of memory at the start or under load" if free <= 0 else ""


def _binds(lever: capacity.Lever) -> str:
    return {"slots": ", bound by the limit on running requests", "pool": ", bound by the pool"}.get(lever.binds, "")


def _of_the_fraction(largest: capacity.Sum, wanted: float) -> str:
    """The step from now to the fraction that is wanted, as GiB, and the largest that the free memory allows."""
    now, before, growth = (largest.inputs[name] for name in ("fraction", "before_weights", "growth"))
    taken = (wanted - now) * before * growth
    text = f"(free before the weights {before:.2f} GiB, {wanted:g} less {now:g} of it"
    text += f", x {growth:.3f} for the draft's pool" if growth > 1 else ""
    more = f"takes {taken:.2f} GiB more" if taken >= 0 else f"gives {-taken:.2f} GiB back"
    bound = f"the largest fraction that the memory free after all graphs allows is {largest.value:g}"
    return f"The step {more} {text}); {bound}"
