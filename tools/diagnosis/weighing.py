"""Facts in, a ranking with reasons out.

A weight is a sum of clues; claims count half. A cause is named when the first hypothesis weighs enough, when at least
one clue for it was observed (the operator's words and the launch command alone decide nothing), when it leads the
next family clearly, and when little speaks against it. Otherwise the program abstains and says what would settle it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tools.diagnosis.clues import Clue, Entry, Seen
from tools.diagnosis.failed import GPU_SLOWED, MACHINE, failed
from tools.diagnosis.families import ENTRIES
from tools.diagnosis.health import health
from tools.diagnosis.model import Assessment, Hypothesis, Reason, Status
from tools.diagnosis.view import View
from transcripts.facts import Facts

CLAIMED = 0.5  # of the weight of a clue that rests on the operator's word alone
# Explanations of too little capacity that look alike until the server is seen busy.
TOLD_BY_LOAD = frozenset({"capacity.spec_default_cap", "capacity.kv_pool_too_small", "cache.working_set_exceeds_hbm"})
CAPACITY_SYMPTOMS = frozenset({"few_running", "requests_wait", "host_cache", "cache_full"})
HELD_OPEN = 1.5
# Families that are told by the load: a card that fails explains none of them.
_OF_LOAD = ("capacity.", "perf.", "cache.", "retraction.")
ENOUGH = 3.0
OBSERVED_ENOUGH = 1.0
LEAD = 0.75
SURE, LIKELY = 0.97, 0.8  # the most that a verdict is certain of, and that of one sign alone
CONTESTED = 0.5  # of the weight for it, when that much speaks against it


def weigh(facts: Facts) -> Assessment:
    """Rank every entry of the taxonomy by the facts. Pure; the order of entries breaks ties."""
    view = View(facts)
    hypotheses = [_weigh_entry(entry, view) for entry in ENTRIES]
    if _unseen_under_load(view):
        hypotheses = [_kept_open(one, view) if one.label in TOLD_BY_LOAD else one for one in hypotheses]
    hypotheses = [one for one in hypotheses if one.for_ or one.against]
    hypotheses.sort(key=lambda one: -one.weight)
    live = tuple(one for one in hypotheses if one.for_)
    ranked = live + tuple(one for one in hypotheses if not one.for_)
    healthy = health(view)
    if not live or live[0].weight < ENOUGH:
        return _without_cause(view, ranked, healthy.good, healthy.checked)
    return _with_cause(view, ranked, healthy.checked)


def _unseen_under_load(view: View) -> bool:
    """A server that runs, a complaint about capacity, and not one line of how it does when it is busy."""
    up = view.facts.text("ready") == "True" or view.facts.text("running") == "True"
    asked = any(fact.scope in CAPACITY_SYMPTOMS for fact in view.facts.all("symptom"))
    return up and asked and not any(name in view.facts for name in ("decode_lines", "running_max", "usage_p50"))


def _kept_open(one: Hypothesis, view: View) -> Hypothesis:
    """An explanation that only a busy server can confirm or refute stays alive until one was seen."""
    reason = Reason("no busy minute was seen that would rule it out", view.sources("ready", "running"), HELD_OPEN)
    return replace(one, status="open", weight=max(one.weight, 0.0) + HELD_OPEN, for_=(*one.for_, reason))


def _weigh_entry(entry: Entry, view: View) -> Hypothesis:
    for_, observed = _sum(entry.for_, view)
    against, _ = _sum(entry.against, view)
    weight = sum(reason.weight for reason in for_) - sum(reason.weight for reason in against)
    status: Status = "open"
    if weight >= ENOUGH and observed >= OBSERVED_ENOUGH:
        status = "supported"
    elif weight <= -2:
        status = "refuted"
    return Hypothesis(
        entry.label,
        entry.statement,
        round(weight, 2),
        round(observed, 2),
        status,
        for_,
        against,
        entry.settle,
        entry.neighbours,
    )


def _sum(clues: Iterable[Clue], view: View) -> tuple[tuple[Reason, ...], float]:
    reasons, observed = [], 0.0
    for clue in clues:
        seen = clue.test(view)
        if seen is None:
            continue
        weight = clue.weight * (CLAIMED if seen.known == "claimed" else 1.0)
        observed += weight if seen.known == "observed" else 0.0
        reasons.append(Reason(_text(clue, seen), seen.sources, weight))
    return tuple(reasons), observed


def _text(clue: Clue, seen: Seen) -> str:
    return f"{clue.why} ({seen.text})" if seen.text else clue.why


def _with_cause(view: View, ranked: tuple[Hypothesis, ...], checked: tuple[str, ...]) -> Assessment:
    first = ranked[0]
    rival = next((one for one in ranked[1:] if family(one.label) != family(first.label)), None)
    sibling = ranked[1] if len(ranked) > 1 else None
    lead = first.weight - (rival.weight if rival else 0.0)
    contrary = sum(reason.weight for reason in first.against)
    in_favour = sum(reason.weight for reason in first.for_)
    why = ""
    failure = failed(view.facts)
    if failure is not None and failure.kind in MACHINE and not first.label.startswith(_OF_LOAD):
        why = f"{failure.means}; what else failed may have come of it"
    elif failure is not None and failure.kind == GPU_SLOWED and family(first.label) == "perf":
        why = f"{failure.means}; what is slow may come of it"
    elif first.label in TOLD_BY_LOAD and _unseen_under_load(view):
        why = "the server was not seen busy, and only that tells these explanations apart"
    elif first.observed < OBSERVED_ENOUGH:
        why = "nothing that was looked at decides it; it rests on what was said and on the launch command"
    elif lead < LEAD and rival is not None:
        why = f"{rival.label} is as well supported"
    elif contrary >= CONTESTED * in_favour:
        why = "the evidence contradicts itself"
    certainty = _certainty(first, sibling)
    missing = _missing(ranked, view)
    if why:
        return Assessment("abstain", "", round(certainty * 0.5, 2), ranked, missing, _not_checked(view), checked, why)
    return Assessment("cause", first.label, certainty, ranked, missing, _not_checked(view), checked)


def _without_cause(view: View, ranked: tuple[Hypothesis, ...], good: bool, checked: tuple[str, ...]) -> Assessment:
    if good:
        return Assessment("healthy", "", 0.8, ranked, (), _not_checked(view), checked)
    why = "the evidence supports no cause enough to name it"
    certainty = round(_certainty(ranked[0], None) * 0.5, 2) if ranked else 0.0
    return Assessment("abstain", "", certainty, ranked, _missing(ranked, view), _not_checked(view), checked, why)


def _certainty(first: Hypothesis, second: Hypothesis | None) -> float:
    """Between 0 and 0.97: how heavy the first is, and how far before the second; one sign alone is no more than likely.

    The heaviest sign may be a line that another cause prints as well: of unseen incidents, three causes in four were
    right where one line told them, nine in ten where several did.
    """
    lead = first.weight - (max(second.weight, 0.0) if second else 0.0)
    weight = 1 / (1 + math.exp(-(first.weight - 3.0) / 1.5))
    margin = 1 / (1 + math.exp(-lead))
    lines = {source for reason in first.for_ for source in reason.source}
    most = SURE if len(first.for_) > 1 and len(lines) > 1 else LIKELY
    return round(min(most, max(0.05, 2 * weight * margin - weight * 0.5)), 2)


def _missing(ranked: Sequence[Hypothesis], view: View) -> tuple[str, ...]:
    """What to collect: what would settle the leading explanations, then the common ground that is not there."""
    asked = [
        f"{one.would_settle.text} Look: {one.would_settle.look}"
        for one in ranked[:3]
        if one.would_settle is not None and one.for_
    ]
    common = [text for text, there in _common_ground(view) if not there]
    return tuple(dict.fromkeys(asked + common))[:6]


def _not_checked(view: View) -> tuple[str, ...]:
    return tuple(text for text, there in _common_ground(view) if not there)


def _common_ground(view: View) -> tuple[tuple[str, bool], ...]:
    facts = view.facts
    return (
        (
            "The start-up log from the first line to `fired up` or the failure.",
            "weights_after_gib" in facts or "kv_pool" in facts,
        ),
        (
            "Decode and prefill lines under load (running, queue, token usage).",
            "decode_lines" in facts or "usage_p50" in facts,
        ),
        ("The launch command with every flag.", "flag" in facts),
        ("SGLang's version.", "version" in facts),
        ("GPU memory per device and process (nvidia-smi).", "gpu_memory_mib" in facts or "gpu_used_mib" in facts),
        (
            "Host memory and kernel kills (free, journalctl -k).",
            "mem_available_bytes" in facts or "kernel_oom_kill" in facts,
        ),
    )


def family(label: str) -> str:
    """All before the last dot."""
    return label.rpartition(".")[0]
