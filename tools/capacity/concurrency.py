"""How many requests can run at once, and which wall they meet first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tools.capacity import versions
from tools.capacity.deployment import Deployment
from tools.capacity.missing import missing_load, missing_pool
from tools.capacity.sums import Known, Missing, Sum, provenance
from transcripts.facts import Facts

# sglang 0.5.9 srt/environ.py:225-229: initial ratio, what it decays to, over how many decode steps, and the clip.
INIT_NEW_TOKEN_RATIO = 0.7
MIN_RATIO_FACTOR = 0.14
DECAY_STEPS = 600
MAX_NEW_CLIP = 4096


@dataclass(frozen=True, slots=True)
class Mix:
    """Lengths of the requests, tokens. `max_new_tokens` is what clients ask for; 0 when they ask for nothing."""

    prompt_tokens: float
    output_tokens: float
    max_new_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Slots:
    """A value for `--max-running-requests`.

    `per_rank` counts one pool; `value` is what the flag takes, over all data-parallel ranks, and `limit` what it
    takes now, None where that is not known. `wall` is where the pool is full per rank. `covered_by_graphs` is None
    where the captured sizes are not known.
    """

    value: int
    per_rank: int
    wall: int
    groups: int
    limit: int | None
    covered_by_graphs: bool | None
    sums: tuple[Sum, ...]
    reserve: Sum


@dataclass(frozen=True, slots=True)
class Limit:
    """One wall: requests per pool, and the sum behind it."""

    name: str
    requests: float
    sum: Sum


@dataclass(frozen=True, slots=True)
class Concurrency:
    """All walls of one pool, the lowest first. `running` is over all data-parallel ranks."""

    binds: str
    running: int
    limits: tuple[Limit, ...]


def slots_for(facts: Facts, share: float = 0.9, max_new: int = 0) -> Slots | tuple[Missing, ...]:
    """The limit that fills `share` of the pool at the observed tokens per request, and the walls after it.

    `max_new`: tokens that clients ask for as the longest answer, 0 where that is not known.
    """
    server = Deployment(facts)
    pool, held = server.pool_tokens, server.tokens_per_request
    lacking = ((missing_pool(),) if pool is None else ()) + ((missing_load(),) if held is None else ())
    if pool is None or held is None:
        return lacking
    known = provenance(pool, held)
    inputs = {"pool_tokens": pool.value, "tokens_per_request": held.value}
    per_rank = max(1, round(share * pool.value / held.value))
    wall = max(1, int(pool.value / held.value + 1e-6))
    groups = server.limit_parts(server.attention_dp)
    slot_sum = Sum(
        "running_limit", "share * pool_tokens / tokens_per_request, nearest, for each pool", inputs | {"share": share},
        per_rank, "requests", known.grade, known.sources, limit=float(wall), limit_from="the pool",
        source_line=versions.source_line(server.version, "running_limit"),
    )  # fmt: skip
    wall_sum = Sum(
        "pool_wall", "pool_tokens / tokens_per_request", inputs, pool.value / held.value, "requests", known.grade,
        known.sources, source_line=versions.source_line(server.version, "admission"),
    )  # fmt: skip
    graphs = server.largest_graph
    return Slots(
        value=per_rank * groups,
        per_rank=per_rank,
        wall=wall,
        groups=groups,
        limit=None if server.running_limit is None else int(server.running_limit.value) * groups,
        covered_by_graphs=None if graphs is None else graphs >= per_rank,
        sums=(slot_sum, wall_sum),
        reserve=reserve_sum(server, pool, held, max_new),
    )


def new_token_ratio(server: Deployment) -> tuple[float, float]:
    """The admission ratio at the start (and after every idle moment) and after its decay."""
    typed = server.number("schedule_conservativeness", 1.0)
    conservativeness = typed.value if typed else 1.0
    resolved = server.facts.get("server_arg", "schedule_conservativeness") is not None
    if server.attention_dp > 1 and not resolved:
        conservativeness *= 0.3
    first = min(INIT_NEW_TOKEN_RATIO * conservativeness, 1.0)
    return first, min(first * MIN_RATIO_FACTOR, 1.0)


def reserve_sum(server: Deployment, pool: Known, held: Known, max_new: int) -> Sum:
    """Requests admitted in the first 600 decode steps after idle, while each reserves room for its answer.

    What clients ask for as the longest answer is not in the server's lines: the range runs from the clip of 4,096
    tokens to a short answer.
    """
    first, _ = new_token_ratio(server)
    ask = min(max_new, MAX_NEW_CLIP) if max_new else MAX_NEW_CLIP
    low = pool.value / (held.value + ask * first)
    high = low if max_new else pool.value / held.value
    return Sum(
        "admission_reserve",
        "pool_tokens / (tokens_per_request + min(max_new, 4096) * new_token_ratio)",
        {
            "pool_tokens": pool.value,
            "tokens_per_request": held.value,
            "max_new": float(ask),
            "new_token_ratio": first,
            "decode_steps": float(DECAY_STEPS),
        },
        low,
        "requests",
        "estimated",
        provenance(pool, held).sources,
        source_line=versions.source_line(server.version, "new_token_ratio"),
        low=low,
        high=high,
    )


def concurrency(facts: Facts, mix: Mix | None = None) -> Concurrency | tuple[Missing, ...]:
    """The walls at an observed mix (`mix` None) or a given one: slot cap, pool, admission reserve, state, window."""
    server = Deployment(facts)
    pool = server.pool_tokens
    held = server.tokens_per_request
    if mix is not None:
        held = Known(mix.prompt_tokens + mix.output_tokens / 2, "estimated", "given mix")
    if pool is None or held is None:
        return ((missing_pool(),) if pool is None else ()) + ((missing_load(),) if held is None else ())
    limits = [_pool_limit(server, pool, held)]
    if server.running_limit is not None:
        limits.append(_slot_limit(server, server.running_limit))
    _, decayed = new_token_ratio(server)
    ask = min(mix.max_new_tokens, MAX_NEW_CLIP) if mix and mix.max_new_tokens else 0
    if ask:
        limits.append(_admission_limit(server, pool, held, ask, decayed))
    limits += _state_limit(server)
    limits += _window_limit(server, held)
    ordered = tuple(sorted(limits, key=lambda limit: limit.requests))
    return Concurrency(ordered[0].name, int(ordered[0].requests + 1e-6) * server.groups, ordered)


def _limit(
    server: Deployment, name: str, value: float, expression: str, inputs: Mapping[str, float], topic: str, *from_: Known
) -> Limit:
    known = provenance(*from_)
    line = versions.source_line(server.version, topic)
    return Limit(
        name, value, Sum(name, expression, inputs, value, "requests", known.grade, known.sources, source_line=line)
    )


def _pool_limit(server: Deployment, pool: Known, held: Known) -> Limit:
    inputs = {"pool_tokens": pool.value, "tokens_per_request": held.value}
    value = pool.value / held.value
    return _limit(server, "pool", value, "pool_tokens / tokens_per_request", inputs, "admission", pool, held)


def _slot_limit(server: Deployment, limit: Known) -> Limit:
    topic = "speculative_default" if server.algorithm and server.limit_is_default else "running_limit"
    return _limit(server, "slots", limit.value, "max_running_requests", {"limit": limit.value}, topic, limit)


def _admission_limit(server: Deployment, pool: Known, held: Known, ask: int, ratio: float) -> Limit:
    inputs = {"pool_tokens": pool.value, "tokens_per_request": held.value, "max_new": ask, "new_token_ratio": ratio}
    value = pool.value / (held.value + ask * ratio)
    expression = "pool_tokens / (tokens_per_request + max_new * new_token_ratio)"
    return _limit(server, "admission reserve", value, expression, inputs, "new_token_ratio", pool, held)


def slots_per_request(server: Deployment) -> int:
    """State slots that one running request may pin: itself, and copies for the radix cache."""
    stated = server.fact("state_cap", "slots_per_request")
    if stated is not None:
        return int(stated.value)
    if server.switch("disable_radix_cache"):
        return 1
    extra = 0
    if server.text("mamba_scheduler_strategy") == "extra_buffer":
        extra = 1 if server.algorithm else 2
    return 3 + extra


def _state_limit(server: Deployment) -> list[Limit]:
    slots = server.fact("state_slots")
    if slots is None:
        return []
    each = slots_per_request(server)
    inputs = {"state_slots": slots.value, "slots_per_request": float(each)}
    value = float(int(slots.value) // each)
    return [_limit(server, "state slots", value, "state_slots // slots_per_request", inputs, "state_cap", slots)]


def _window_limit(server: Deployment, held: Known) -> list[Limit]:
    sliding = server.fact("kv_pool", "swa")
    if sliding is None or server.shape is None or not server.shape.window:
        return []
    each = min(held.value, server.shape.window + server.page)
    inputs = {"sliding_tokens": sliding.value, "tokens_per_request": each}
    value = sliding.value / each
    return [_limit(server, "sliding window", value, "sliding_tokens / window", inputs, "sliding", sliding, held)]
