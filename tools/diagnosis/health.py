"""What is looked at before a server is called healthy."""

from __future__ import annotations

from dataclasses import dataclass

from tools.diagnosis.conditions import THROWN_BACK
from tools.diagnosis.failed import GPU_SLOWED, MACHINE, failed
from tools.diagnosis.view import View

# Facts whose presence is a sign of trouble, whatever their value.
_ALARMS = ("oom_phase", "kernel_oom_kill", "rejected_flag", "xid", "minimum_fraction")


# Messages that a server in good order prints as well; any other one is looked into before it is called healthy.
_HARMLESS = frozenset(
    (
        "spec_default_reset",
        "dp_chunk_adjusted",
        "host_pool_allocated",
        "host_pool_not_larger",
        "hicache_io_switched",
        "fp8_kv",
        "fp8_fallback",
        "draft_loaded",
        "draft_shares_embedding",
        "spec_v2",
        "fp8_without_scales",
        "huge_pages_warned",
        "deprecated_flag",
        "deprecated_parser",
        "running_reduced_by_kv",
        "graph_progress",
        "nccl_init",
        "input_too_long",
        "retraction",  # how often decides, which is a check of its own
    )
)

# What is said or noted to go wrong that none of the checks can refute: with it, nothing found is not nothing wrong.
_NOT_REFUTED = (
    "slow_decode",
    "slow_ttft",
    "prefill_slow",
    "throughput_fell",
    "errors_in_front",
    "no_lines_after",
    "slower_than_before",
    "stalls",
    "hangs",
    "garbled_output",
    "forgets_conversations",
    "hit_rate_low",
    "hit_rate_fell",
    "no_benefit",
    "creeps",
    "evictions_rise",
    "host_memory_grows",
    "gpu0_heavier",
    "killed_silently",
)


@dataclass(frozen=True, slots=True)
class Health:
    """`good` only when the server was seen working and nothing looked at is out of order."""

    good: bool
    checked: tuple[str, ...]
    wrong: tuple[str, ...]


def health(view: View) -> Health:
    """Each check is run only where its facts are there; without a sign of life nothing is called healthy."""
    checked: list[str] = []
    wrong: list[str] = []
    facts = view.facts

    def check(text: str, *, present: bool, fine: bool) -> None:
        if present:
            (checked if fine else wrong).append(text)

    usage, queue = view.usage, view.number("queue_p95")
    running, limit = view.number("running_p95"), view.number("running_limit")
    check("the server reports ready", present="ready" in facts, fine=facts.text("ready") == "True")
    check(
        "no allocation failed, no process was killed, no flag was refused",
        present=True,
        fine=not _alarmed(view),
    )
    check(
        "hardly a request was thrown back",
        present="decode_lines" in facts or "retractions" in facts,
        fine=THROWN_BACK(view) is None,
    )
    check(
        f"the queue stays short (p95 {queue:g})" if queue is not None else "",
        present=queue is not None,
        fine=(queue or 0) <= 2,
    )
    check(
        f"token usage leaves room (p95 {usage:.2f})" if usage is not None else "",
        present=usage is not None,
        fine=(usage or 0) < 0.9,
    )
    at_limit = running is not None and limit is not None and running >= limit and (queue or 0) > 0
    check(
        "running requests stay below their limit or nothing waits",
        present=running is not None and limit is not None,
        fine=not at_limit,
    )
    eager = view.number("graph_false_share")
    check("decode runs from captured graphs", present=eager is not None, fine=(eager or 0) < 0.1)
    accept = view.number("accept_len_p50")
    check("drafts are accepted", present=accept is not None, fine=(accept or 2) >= 1.2)
    alive = facts.text("ready") == "True" or "decode_lines" in facts or facts.text("running") == "True"
    alive = alive or (view.number("prefill_lines") or 0) > 1  # an embedding server decodes nothing
    looked = (usage is not None or queue is not None) and not _lone_line(view)
    described = [term for term in _NOT_REFUTED if view.has("symptom", term)]
    wrong += [f"what is described was not looked at: {term.replace('_', ' ')}" for term in described]
    return Health(alive and looked and not wrong, tuple(checked), tuple(wrong))


def _lone_line(view: View) -> bool:
    """One load line of a server that had next to nothing to do shows no server at work."""
    lines = (view.number("decode_lines") or 0) + (view.number("prefill_lines") or 0)
    if lines > 1 or view.facts.text("ready") == "True" or not lines:
        return False
    return (view.number("running_max") or 0) <= 1


def _alarmed(view: View) -> bool:
    """A failure, a refusal or a kill was seen; what the operator says is no alarm."""
    seen = [fact for name in _ALARMS for fact in view.facts.all(name) if fact.grade != "claimed"]
    seen += [one for one in view.facts.all("message") if one.grade != "claimed" and one.scope not in _HARMLESS]
    failure = failed(view.facts)
    return bool(seen) or (failure is not None and failure.kind in MACHINE | {GPU_SLOWED})
