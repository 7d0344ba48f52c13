"""A larger KV pool: which levers make it one, how large by the sums, and the limit that would bind in it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tools.diagnosis import watches
from tools.diagnosis.changes import (
    FRACTION,
    HICACHE_FOR_RUNNING,
    Forbidden,
    cap_lifted,
    fewer_running,
    plan,
    raise_fraction,
    smaller_kv,
    step,
    total_gib,
)
from tools.diagnosis.conditions import OOM_ANYWHERE, limit_typed, pinned
from tools.diagnosis.model import Actions, Do, Proposal
from tools.diagnosis.sums import SHARE, slots_that_fit
from tools.diagnosis.view import View

if TYPE_CHECKING:
    from tools.capacity import Lever

_CAP = "--max-total-tokens"


def grow_pool(view: View) -> Actions:
    fitting, card = _fitting(view), more_of_the_card(view)
    chosen = _without_cap(view, fitting) or _card_alone(view, card) or _more_tokens(view, card)[:2]
    limit = _limit_of_larger_pool(view, chosen)
    crowd: Forbidden = (
        "raise",
        "--max-running-requests",
        "it grows no pool; raise it once the larger pool is seen to have room",
    )
    return plan(
        *chosen,
        *limit,
        never=(
            *(() if limit else (crowd,)),
            ("raise", "--context-length", "it promises more, it holds no more"),
            ("raise", "--chunked-prefill-size", "larger chunks take memory from the pool"),
            HICACHE_FOR_RUNNING,
        ),
        alternatives=(
            *_other_levers(chosen, fitting),
            ("more GPUs or a smaller checkpoint", "when no lever above is left"),
        ),
        expected=((_larger_pool(view, chosen, fitting), "ready line of the log"),),
        verify=(watches.USAGE, watches.retractions(view.number("retractions"))),
    )


def _without_cap(view: View, fitting: list[Lever]) -> list[Proposal]:
    """The typed cap taken off, where it is what ends the pool: the memory for more is there already."""
    lifted, larger = cap_lifted(view), next((one for one in fitting if one.flags == {_CAP} and one.factor > 1.05), None)
    if not lifted or not fitting:  # without the sums only what ends the pool is known, not what the memory would hold
        return lifted
    if larger is None:
        return []
    return [replace(lifted[0], why=f"{lifted[0].why}; the static fraction leaves memory for {larger.tokens:,}")]


def _card_alone(view: View, card: list[Proposal]) -> list[Proposal]:
    """A higher fraction alone, where its pool carries all that run and wait: elements stay as they are."""
    from tools.capacity import pool_tokens_with

    wanted, each = _open_requests(view), view.number("tokens_per_request")
    if not wanted or not each or not card:
        return []
    tokens = pool_tokens_with(view.facts, {FRACTION: str(card[0].to)})
    return card if tokens and tokens * view.schedulers * SHARE >= wanted * each else []


def _more_tokens(view: View, card: list[Proposal]) -> list[Proposal]:
    """Smaller elements, then more of the card; fewer at once where neither is left and ranks share attention."""
    changes = []
    if not view.setting("--kv-cache-dtype").startswith(("fp8", "fp4", "nvfp4")):
        changes.append(
            step(
                view,
                "set",
                "--kv-cache-dtype",
                smaller_kv(view),
                "halves the bytes per token, so about twice the tokens; check quality on this GPU first",
            )
        )
    changes += card
    if not changes and view.on("--enable-dp-attention"):
        changes.append(fewer_running(view, 0.75, "fewer at once until the pool is larger"))
    return changes


def _fitting(view: View) -> list[Lever]:
    """Levers of the arithmetic that fit; none where it cannot be done."""
    from tools.capacity import Lever, levers

    return [one for one in levers(view.facts) if isinstance(one, Lever) and one.fits]


def _larger_pool(view: View, chosen: list[Proposal], fitting: list[Lever]) -> str:
    """What the next start must print: more tokens than now, and how many by the sums where those hold."""
    now, stays = view.number("kv_pool", ""), {fact.scope for fact in view.facts.all("tuned")}
    if not now:
        return "a larger max_total_num_tokens"
    flags = {one.flag for one in chosen} - stays  # what the operator wants left as it is makes no pool larger
    summed = [one.tokens for one in fitting if one.tokens and flags and one.flags == flags]
    return f"max_total_num_tokens above {now:,.0f}" + (f", by the sums {summed[0]:,}" if summed else "")


def _limit_of_larger_pool(view: View, chosen: list[Proposal]) -> list[Proposal]:
    """The limit as well, where it would bind in the larger pool: it is reached already, or fewer may run than want to.

    As far as the GPUs have memory for it beside what is chosen.
    """
    from tools.capacity import NO_CAP, limit_that_fits, pool_tokens_with

    fit, wanted, now = slots_that_fit(view), _open_requests(view), view.number("kv_pool", "")
    if fit is None or fit.limit is None or (pinned(view) is None and (wanted is None or wanted <= fit.limit)):
        return []
    beside = {one.flag: NO_CAP if one.to is None else str(one.to) for one in chosen if one.do != "lower"}
    tokens = pool_tokens_with(view.facts, beside)
    requests = int(fit.requests * tokens / now) if tokens and now else fit.requests
    most = limit_that_fits(view.facts, requests, beside)
    requests = requests if most is None else min(requests, most)
    if requests <= fit.limit:
        return []
    do: Do = "set" if limit_typed(view) is None else "raise"
    held = "is reached already, and" if pinned(view) else f"is below the {wanted:g} that run and wait, and"
    why = f"the limit of {fit.limit:g} {held} would bind in the larger pool"
    return [step(view, do, "--max-running-requests", requests, why, unit="requests")]


def _open_requests(view: View) -> float | None:
    """Requests that run and that wait under load, over all data-parallel ranks; None where either was not seen."""
    running, waiting = view.number("running_p95"), view.number("queue_p95")
    return None if running is None or waiting is None else (running + waiting) * view.schedulers


def more_of_the_card(view: View) -> list[Proposal]:
    """A higher fraction, as far as what is free after all graphs allows; none where that is known to be nothing."""
    from tools.capacity import gpu_budget

    why = "more of the card for the pool, only as far as the memory free after all graphs allows"
    budget, now = gpu_budget(view.facts), view.value("--mem-fraction-static")
    if budget.free_gib is None or now is None:
        return [raise_fraction(view, why, 0.02)]
    largest = budget.largest_fraction
    if largest is None and budget.sum("largest_fraction") is None:
        return _step_of_the_card(view, budget.free_gib - budget.headroom_gib, why)
    if largest is None or largest < now + 0.005:
        return []
    to = int(largest * 1000) / 1000
    return [step(view, "raise", "--mem-fraction-static", to, f"{why}: {budget.free_gib:.2f} GiB", unit="fraction")]


def _step_of_the_card(view: View, spare_gib: float, why: str) -> list[Proposal]:
    """What is free after all graphs, less its headroom, as a share of the card; a small step where its size is unknown.

    For starts whose weight lines are not there, so that the sums cannot be made.
    """
    if spare_gib < 1 or OOM_ANYWHERE(view):
        return []
    total = total_gib(view)
    share = int(spare_gib / total * 100) / 100 if total else 0.02
    return [raise_fraction(view, f"{why}: {spare_gib:.2f} GiB beside the headroom", share)] if share >= 0.01 else []


def _other_levers(chosen: list[Proposal], fitting: list[Lever]) -> tuple[tuple[str, str], ...]:
    """Levers beside what is chosen, the largest gain first, with what each risks more; a word where none is known."""
    flags = {one.flag for one in chosen}
    taken = {piece for one in fitting if one.flags <= flags for piece in one.risk.split("; ")}
    found = [one for one in fitting if one.factor > 1.05 and not (one.changes and one.flags <= flags)]
    found.sort(key=lambda one: -one.factor)
    said = [
        (
            f"{one.name}: {one.factor:.2f} x tokens",
            "; ".join(piece for piece in (one.why_not, *one.risk.split("; ")) if piece and piece not in taken),
        )
        for one in found[:4]
    ]
    return tuple(said) or (
        (
            "data-parallel attention for MLA models",
            "each group keeps its own pool; the size that pays must be computed",
        ),
    )
