"""The static budget of one GPU as sums: what the pools may take, what they hold, and how far the fraction may go."""

from __future__ import annotations

from math import floor

from tools.capacity import pools, versions
from tools.capacity.deployment import Deployment
from tools.capacity.fraction import Card, automatic_fraction
from tools.capacity.state_budget import rule_of
from tools.capacity.sums import GIB, Sum, provenance
from transcripts.facts import Grade

# What should stay free for activations of the largest prefill; a vision tower takes its share in bursts. Below the
# floor a plan does not fit, between the two it is tight.
HEADROOM_FLOOR_GIB = 3.0
HEADROOM_VISION_GIB = 4.0
FRACTION_STEP = 0.005
_PRINT_GIB = 0.005
_SINKS_GIB, _RANKS_GIB, _INTEGRATED_GIB = 0.04, 0.1, 0.4


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
        inputs |= {"max_total_tokens": cap.value, "without_it": float(tokens)}
        tokens, expression = int(cap.value) // server.page * server.page, "max_total_tokens"
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


def withheld_gib(server: Deployment) -> float:
    """What a typed `--max-total-tokens` keeps from the pool per rank; it shows as free, and goes when the cap goes."""
    found = tokens_sum(server)
    if found is None or "without_it" not in found.inputs:
        return 0.0
    draft = None if versions.draft_in_budget(server.version) else server.draft_bytes_per_token
    each = found.inputs["bytes_per_token"] + (draft.value if draft else 0.0)
    return (found.inputs["without_it"] - found.value) * each / server.dcp / GIB


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
    withheld = withheld_gib(server)
    spare = max(0.0, free.value - withheld - keep)
    burnt = [fact for fact in server.facts.all("oom_phase") if str(fact.value) not in ("load", "pools")]
    raised = now.value if burnt else now.value + spare / growth / before.value
    value = max(now.value, round_fraction_down(raised))
    known = provenance(now, before, free)
    return Sum(
        "largest_fraction",
        "fraction (it ran out of memory before)"
        if burnt
        else f"fraction + (free{' - withheld' if withheld else ''} - headroom) / growth / before_weights",
        {
            "fraction": now.value,
            "free": free.value,
            "headroom": keep,
            "growth": growth,
            "before_weights": before.value,
        }
        | ({"withheld": withheld} if withheld else {}),
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
