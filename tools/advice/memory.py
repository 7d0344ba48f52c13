"""Whether what a change set makes of GPU and host memory still fits: the levers together, not one by one.

Only figures that the facts hold are used; what is missing is named, and the change stays unconfirmed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from tools.advice.change import Problem
from tools.advice.command import FLAG
from tools.capacity import GB, NO_CAP, gpu_budget, limit_that_fits, pool_tokens_with
from transcripts.facts import Facts

GIB = 1 << 30
_RESERVE_BYTES = 10 * GIB
_RESERVE_SHARE = 0.05
_GPU_HEADROOM_GIB = 1.0
_TP = ("--tp-size", "--tp", "--tensor-parallel-size")
_DP = ("--dp-size", "--dp", "--data-parallel-size")
_PP = ("--pp-size", "--pp", "--pipeline-parallel-size")
_FRACTION = "--mem-fraction-static"
_DTYPE = "--kv-cache-dtype"
_RUNNING = "--max-running-requests"
_CAP = "--max-total-tokens"
_LEVERS = frozenset({_FRACTION, _RUNNING, "--enable-hierarchical-cache", "--hicache-ratio", "--hicache-size", _DTYPE})
# What changes the sum of GPU memory in a way that is not followed here.
_ELSEWHERE = ("--speculative-algorithm", "--enable-dp-attention", *_DP, *_TP, *_PP)
_KV_BYTES = {"auto": 2, "bf16": 2, "bfloat16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp4_e2m1": 0.5}


@dataclass(slots=True)
class Fit:
    """What does not fit, and what would have to be known to say whether it does."""

    problems: list[Problem] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def touches(flag: str) -> bool:
    """Whether an option changes what memory is needed."""
    return flag in _LEVERS


def fit(before: Sequence[str], after: Sequence[str], facts: Facts) -> Fit:
    """Check the options after a change against what they were, on this host."""
    found = Fit()
    old, new = _options(before), _options(after)
    pool_gib = _pool(old, new, facts, found)
    _host(old, new, pool_gib, facts, found)
    _running(old, new, facts, found)
    return found


def _options(words: Sequence[str]) -> dict[str, str]:
    """Option -> last value, empty for a switch."""
    found: dict[str, str] = {}
    name = ""
    for word in words:
        if FLAG.match(word):
            name, _, value = word.partition("=")
            found[name] = value
        elif name and not found[name]:
            found[name] = word
    return found


def _number(options: dict[str, str], names: Sequence[str], default: float | None = None) -> float | None:
    for name in names:
        try:
            return float(options[name])
        except (KeyError, ValueError):
            continue
    return default


def _in_effect(facts: Facts, options: dict[str, str], flag: str) -> float | None:
    typed = _number(options, [flag])
    return typed if typed is not None else facts.number("server_arg", flag.removeprefix("--").replace("-", "_"))


def _pool(old: dict[str, str], new: dict[str, str], facts: Facts, found: Fit) -> float | None:
    """GiB of the KV pool per rank after the change; a larger fraction must fit into what the ready server left free."""
    pool = facts.number("kv_pool_gib", "")
    was, now = _in_effect(facts, old, _FRACTION), _number(new, [_FRACTION])
    if now is None or now == was:
        return pool
    total = facts.number("weights_before_gib", "")
    free = facts.number("free_after_boot_gib")
    if was is None or total is None:
        found.missing.append("free GPU memory before weights and the fraction in effect (boot log, /server_info)")
        return pool
    grown, floor = (now - was) * total, _floor(facts, pool, was, total)
    if floor is not None and now <= floor:
        found.problems.append(
            Problem(
                f"{_FRACTION} {now:g} leaves no memory for a KV pool: the weights take {floor:.3f} of what is free "
                "before them, and a start needs more",
                _source(facts, "weights_before_gib"),
            )
        )
    if grown > 0 and free is None:
        found.missing.append("free GPU memory after all graphs (the ready line)")
    elif grown > 0 and free is not None and grown > free - _GPU_HEADROOM_GIB:
        found.problems.append(
            Problem(
                f"{_FRACTION} {now:g} takes {grown:.1f} GiB more per GPU; {free:.1f} GiB are free after boot and "
                f"{_GPU_HEADROOM_GIB:g} GiB of them must stay",
                _source(facts, "free_after_boot_gib"),
            )
        )
    return None if pool is None else max(pool + grown, 0.0)


def _floor(facts: Facts, pool: float | None, was: float, total: float) -> float | None:
    """The fraction that the weights alone take; from the pool that stands where no line says what they leave."""
    found = gpu_budget(facts).sum("smallest_fraction")
    if found is not None:
        return found.value
    beside = facts.get("state_slots") or facts.get("kv_pool", "swa")
    return None if pool is None or beside or total <= 0 else was - pool / total


def _host(old: dict[str, str], new: dict[str, str], pool_gib: float | None, facts: Facts, found: Fit) -> None:
    """ranks x bytes <= MemAvailable - max(10 GiB, 5 % of MemTotal), and the cgroup's limit likewise."""
    if not _hierarchical(new):
        return
    ranks = _ranks(new)
    needed = _host_bytes(new, pool_gib, ranks)
    available, total = facts.number("mem_available_bytes"), facts.number("mem_total_bytes")
    if needed is None:
        found.missing.append("size of the KV pool per rank (boot log)")
        return
    if available is None or total is None:
        found.missing.append("MemAvailable and MemTotal (/proc/meminfo)")
        return
    held = _host_bytes(old, facts.number("kv_pool_gib", ""), _ranks(old)) or 0.0 if _hierarchical(old) else 0.0
    held = min(held, (facts.number("host_pool_total_gb") or held / GB) * GB)
    room = available + held - max(_RESERVE_BYTES, _RESERVE_SHARE * total)
    limit, used = facts.number("cgroup_limit_bytes"), facts.number("cgroup_used_bytes")
    source = _source(facts, "mem_available_bytes")
    if limit is not None and limit > 0:
        group = limit - (used or 0.0) + held - max(_RESERVE_BYTES, _RESERVE_SHARE * limit)
        if group < room:
            room, source = group, _source(facts, "cgroup_limit_bytes")
    if needed > room:
        found.problems.append(
            Problem(
                f"the host copy needs {needed / GB:.1f} GB ({ranks:g} ranks); {max(room, 0) / GB:.1f} GB may be used",
                source,
            )
        )


def _hierarchical(options: dict[str, str]) -> bool:
    return "--enable-hierarchical-cache" in options


def _ranks(options: dict[str, str]) -> float:
    return (_number(options, _TP, 1) or 1) * (_number(options, _PP, 1) or 1)


def _host_bytes(options: dict[str, str], pool_gib: float | None, ranks: float) -> float | None:
    """Bytes of all ranks: --hicache-size in GB per rank, else the ratio (2.0 by default) of the pool."""
    size = _number(options, ["--hicache-size"], 0) or 0
    if size > 0:
        return ranks * size * GB
    if pool_gib is None:
        return None
    return ranks * pool_gib * GIB * (_number(options, ["--hicache-ratio"], 2.0) or 2.0)


def _running(old: dict[str, str], new: dict[str, str], facts: Facts, found: Fit) -> None:
    """A running limit that the pool cannot hold at the tokens per request that were seen only brings retractions."""
    wanted = _number(new, [_RUNNING])
    if wanted is None or wanted == _number(old, [_RUNNING]):
        return
    beside = _beside(old, new)
    pool, each = facts.number("kv_pool", ""), facts.number("tokens_per_request")
    in_effect = facts.number("running_limit")
    if in_effect is not None and wanted <= in_effect:
        return
    largest = limit_that_fits(facts, int(wanted), beside)
    if largest is not None and wanted > largest and all(old.get(name) == new.get(name) for name in _ELSEWHERE):
        found.problems.append(
            Problem(
                f"{_RUNNING} {wanted:g} leaves too little GPU memory free after its request table and graphs: "
                f"at most {largest} fit",
                _source(facts, "free_after_boot_gib"),
            )
        )
    if pool is None or each is None or each <= 0:
        found.missing.append("tokens of the pool and tokens per request under load (decode lines)")
        return
    summed = pool_tokens_with(facts, beside) if beside else None
    pool = pool * _token_factor(old, new) if summed is None else summed
    pools = max(_number(new, _DP, 1) or 1, 1) if "--enable-dp-attention" in new else 1
    were = max(_number(old, _DP, 1) or 1, 1) if "--enable-dp-attention" in old else 1
    most = math.floor(pool * pools / each) if pools >= were else math.floor(pool / each)
    if wanted > most:
        found.problems.append(
            Problem(
                f"{wanted:g} requests at {each:,.0f} tokens each do not fit {pool * pools:,.0f} tokens: at most {most}",
                _source(facts, "tokens_per_request"),
            )
        )


def _beside(old: dict[str, str], new: dict[str, str]) -> dict[str, str]:
    """What else of the change makes the pool another one."""
    changed = {name: new[name] for name in (_FRACTION, _DTYPE, _CAP) if new.get(name) and new[name] != old.get(name)}
    return changed | ({_CAP: NO_CAP} if _CAP in old and _CAP not in new else {})


def _token_factor(old: dict[str, str], new: dict[str, str]) -> float:
    was = _KV_BYTES.get(old.get(_DTYPE, "auto"))
    now = _KV_BYTES.get(new.get(_DTYPE, "auto"))
    return was / now if was and now else 1.0


def _source(facts: Facts, name: str) -> str:
    fact = facts.get(name)
    return fact.source if fact else ""
