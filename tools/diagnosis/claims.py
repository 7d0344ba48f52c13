"""What the operator says or takes for granted, tested against the facts.

Each claim has words that raise it and a test that decides it: supported, contradicted, or not testable yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tools.diagnosis.model import Claim
from tools.diagnosis.view import View
from transcripts.facts import Facts

Verdict = Literal["supported", "contradicted", "untestable"]
Tested = tuple[Verdict, tuple[str, ...], str]

_FULL, _ROOM = 0.93, 0.75


@dataclass(frozen=True, slots=True)
class _Claim:
    text: str
    raised_by: re.Pattern[str]
    test: Callable[[View], Tested]


def claims(complaint: str, facts: Facts) -> tuple[Claim, ...]:
    """The claims that the complaint makes or implies, each with its verdict, evidence and why."""
    view = View(facts)
    raised = [one for one in _CLAIMS if one.raised_by.search(complaint)]
    if view.number("running_limit") == 48 and any(one.text.startswith("Parallel") for one in raised):
        raised.append(_LIMIT_SHRINKS_POOL)
    found = []
    for one in raised:
        verdict, evidence, why = one.test(view)
        found.append(Claim(one.text, verdict, evidence, why))
    return tuple(found)


def _short_of_kv(view: View) -> Tested:
    usage, queue = view.usage, view.number("queue_p95")
    sources = view.sources("usage_p95", "usage_max", "running_p95", "queue_p95")
    if usage is None or queue is None:
        return "untestable", (), "no decode lines under load: running, queue and token usage are not known"
    if usage >= _FULL and queue > 0:
        return "supported", sources, f"requests wait at token usage {usage:.2f}"
    if usage <= _ROOM:
        running = view.number("running_p95") or 0
        return "contradicted", sources, f"{running:g} run and {queue:g} wait at token usage {usage:.2f}"
    return "untestable", sources, f"token usage {usage:.2f} lies between room and shortage"


def _ram_runs_requests(view: View) -> Tested:
    why = "every token of a running request needs a slot on the GPU; host memory keeps prefixes for later"
    return "contradicted", view.sources("mem_available_bytes"), why


def _limit_shrinks(view: View) -> Tested:
    why = "the table of requests is made after the pool is sized; the limit does not take from it"
    return "contradicted", view.sources("running_limit", "kv_pool"), why


def _gpu_full(view: View) -> Tested:
    if "kv_pool" not in view.facts:
        return "untestable", view.sources("gpu_used_mib"), "the log's pool line would tell what the used memory is"
    why = "pools are reserved at start, so nvidia-smi shows the same at any load"
    return "contradicted", view.sources("gpu_used_mib", "kv_pool"), why


def _leak(view: View) -> Tested:
    if view.facts.get("message", "pool_leak") is not None:
        return "supported", (view.facts.all("message", "pool_leak")[-1].source,), "the server reports a leak itself"
    low = view.number("usage_min")
    if low is not None and low <= 0.05:
        return "contradicted", view.sources("usage_min"), f"token usage falls to {low:.2f} when little runs"
    return "untestable", (), "token usage of an idle minute would tell: cached tokens are not counted as used"


def _longer_context(view: View) -> Tested:
    pool, context = view.number("kv_pool", ""), view.number("context_len") or view.value("--context-length")
    if pool is None or context is None:
        return "untestable", (), "the pool and the context length are not both known"
    if pool < context:
        why = f"the context is {context:,.0f}, the pool holds {pool:,.0f} tokens"
        return "contradicted", view.sources("kv_pool", "context_len"), why
    return "supported", view.sources("kv_pool", "context_len"), "the pool holds a request of full length"


def _cache_broken(view: View) -> Tested:
    share = view.number("cached_share")
    if share is None:
        return "untestable", (), "prefill lines with #cached-token would tell"
    verdict: Verdict = "supported" if share < 0.1 else "contradicted"
    return verdict, view.sources("cached_share"), f"{share:.0%} of prompt tokens came from the cache"


def _lower_is_safer(view: View) -> Tested:
    from tools.diagnosis.changes import weights_floor

    floor = weights_floor(view)
    if floor is None:
        return "untestable", (), "the memory that is free before and after the weights is not known"
    why = f"the fraction must exceed {floor:.3f}, what the weights take; below it nothing is left for the cache"
    return "contradicted", view.sources("minimum_fraction", "weights_after_gib"), why


def _each_of(*said: str) -> re.Pattern[str]:
    """Words of which every kind stands in the complaint, in any order: a topic alone claims nothing."""
    return re.compile("".join(f"(?=.*(?:{one}))" for one in said), re.IGNORECASE | re.DOTALL)


_CLAIMS = (
    _Claim(
        "Parallel capacity is short of KV memory",
        re.compile(r"parallel|concurren|at once|kv (?:cache )?(?:memory|capacity)|low on|more requests", re.I),
        _short_of_kv,
    ),
    _Claim(
        "Host RAM can serve running requests",
        _each_of(
            r"\bram\b|off-?load|host memory|hicache|hierarchical|\d+ ?gi?b free",
            r"parallel|concurren|at once|more (?:requests|users|sessions|context|capacity)|running|low on|queue|wait",
        ),
        _ram_runs_requests,
    ),
    _Claim(
        "The GPU memory in use is spare or wasted",
        _each_of(
            r"nvidia-smi|vram|gpu memory",
            r"spare|wast|unused|full|\bused?\b|in use|\d ?(?:gi?b|%)|always|idle|nothing (?:runs|is running)",
        ),
        _gpu_full,
    ),
    _Claim("The cache leaks", re.compile(r"\bleak", re.I), _leak),
    _Claim(
        "The context length says how much fits",
        _each_of(
            r"context[- ]length|\d+k context|context of", r"\bfits?\b|hold|enough|should|although|even though|but"
        ),
        _longer_context,
    ),
    _Claim(
        "The prefix cache does not work",
        _each_of(
            r"prefix cach|cache\b|hit rate|cached tokens",
            r"broken|(?:not|n't|never|hardly) (?:\w+ )?(?:work|hit|used?|reus)|no (?:hits|reuse)|useless|low|zero",
        ),
        _cache_broken,
    ),
    _Claim(
        "A lower memory fraction is safer",
        _each_of(r"fraction", r"safe|conservative|lower|drop"),
        _lower_is_safer,
    ),
)
_LIMIT_SHRINKS_POOL = _Claim("The limit of 48 keeps the KV pool small", re.compile(r"(?!)"), _limit_shrinks)
