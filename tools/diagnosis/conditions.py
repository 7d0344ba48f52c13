"""Conditions that causes of more than one group look at: each is said once, so that all of them mean the same."""

from __future__ import annotations

from tools.diagnosis.clues import Seen, above, below, either, fact, flag, said, symptom, when
from tools.diagnosis.foreign import EQUIVALENT
from tools.diagnosis.view import View

SPECULATES = when(lambda view: view.speculative, "speculative decoding")
DRAFT = either(SPECULATES, symptom("draft_on"))
HYBRID = either(
    fact("state_slots"),
    fact("state_cap"),
    fact("usage_p95", "state"),
    symptom("hybrid_state"),
    flag("--max-mamba-cache-size"),
    flag("--mamba-full-memory-ratio"),
)
SWA = either(
    fact("kv_pool", "swa"), fact("usage_p95", "swa"), symptom("sliding_window"), flag("--swa-full-tokens-ratio")
)
IDLE_CACHE = either(below("usage_p95", 0.75), below("usage_max", 0.75), symptom("cache_idle"))
WAITING = either(above("queue_p95", 3), symptom("requests_wait", "few_running"))
HICACHE = when(lambda view: view.hierarchical)
REJECTED = either(fact("rejected_flag"), said("unrecognized_argument", "invalid_choice"), symptom("flag_refused"))
KILLED = either(said("killed", "kernel_oom"), fact("kernel_oom_kill"), symptom("killed_silently", "host_memory_short"))


def pinned(view: View) -> Seen | None:
    """Running requests stand at the limit while others wait."""
    share, limit, running = view.number("pinned_share"), view.number("running_limit"), view.number("running_p95")
    if share is not None and share >= 0.5 and limit is not None:
        return Seen(f"at the limit with a queue in {share:.0%} of decode lines", view.sources("pinned_share"))
    if limit is not None and running is not None and running >= limit and (view.number("queue_p95") or 0) > 0:
        return Seen(f"{running:g} running of {limit:g}, with a queue", view.sources("running_p95", "running_limit"))
    return None


def known_foreign(view: View) -> Seen | None:
    """A flag stands there that another engine has, as typed or as refused."""
    found = [
        fact_
        for fact_ in (*view.facts.all("flag"), *view.facts.all("rejected_flag"))
        if (fact_.scope if fact_.name == "flag" else str(fact_.value)) in EQUIVALENT
    ]
    if not found:
        return None
    first = found[0]
    return Seen(first.scope if first.name == "flag" else str(first.value), (first.source,))


def underscored(view: View) -> Seen | None:
    """A flag is written with underscores, as refused or as typed."""
    found = [
        fact_
        for fact_ in (*view.facts.all("rejected_flag"), *view.facts.all("flag"))
        if "_" in (str(fact_.value) if fact_.name == "rejected_flag" else fact_.scope)
    ]
    if not found:
        return None
    return Seen(
        str(found[0].value) if found[0].name == "rejected_flag" else found[0].scope,
        (found[0].source,),
        "observed" if found[0].name == "rejected_flag" else "typed",
    )
