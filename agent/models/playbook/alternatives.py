"""Questions that put one thing against another: A or B, which first, how much with one of them."""

from __future__ import annotations

import re
from typing import Final

from agent.case import Case
from agent.models.playbook import chosen
from agent.models.playbook.answer import cited
from agent.models.playbook.operating import looks, nothing_to_change, restarts, sources
from agent.models.playbook.wished import SLOTS, settings_named
from agent.views.words import change_told
from tools.spoken import HICACHE

Found = re.Match[str]
_OR: Final = re.compile(r"(?:,? or (?:rather |better |else )?|,? against )")
_ASKED: Final = re.compile(
    r"\b(?:better|best|which|what|prefer\w*|rather|should|smarter|first)\b(?:\W+(?:is|are|it|to|one|would|be|do|you|i)\b)*"
)
_LEAD: Final = re.compile(r"^(?:(?:is|are|would|should|do|does|can|could|will|be|it|to|i|we|you|just|and|so|but) )+")
_TAIL: Final = re.compile(r"[,.?:;\s]+(?:what|which)\b.*$")


def halves(case: Case, question: str) -> list[str]:
    """The two things that a plain question puts against each other, each as a question; empty where it does not.

    Each must name an option, and not the same one with no other value.
    """
    sides = _OR.split(_TAIL.sub("", question))
    if len(sides) != 2 or not _ASKED.search(question):
        return []
    sides = [_LEAD.sub("", " ".join(_ASKED.sub(" ", side).split()).strip(" ,?:")) for side in sides]
    names = [(_named(case, side), settings_named(case, side)) for side in sides]
    return sides if all(flags for flags, _ in names) and names[0] != names[1] else []


def _named(case: Case, side: str) -> set[str]:
    return {flag for _, flag, _ in chosen.named(side)} | set(settings_named(case, side))


def verdict(case: Case, sides: list[str]) -> str:
    """Which of two things is recommended, and what is where neither is."""
    changes = case.advised.changes if case.advised else ()
    flags = set[str]().union(*(_named(case, side) for side in sides))
    told = "; ".join(change_told(each) for each in changes if each["flag"] in flags)
    if told:
        return cited(f"Of the two, recommended: {told}", sources(case), case)
    others = "; ".join(change_told(each) for each in changes)
    return cited(f"Neither is what is recommended: {others}" if others else "Neither is recommended", looks(case), case)


def order(case: Case, _found: Found) -> str:
    """Which change comes first: all go into one restart; one at a time, the most telling leads."""
    changes = case.advised.changes if case.advised else ()
    if not changes:
        return nothing_to_change(case)
    told = [change_told(each) for each in changes]
    if len(told) == 1:
        return cited(f"There is one change: {told[0]}", sources(case), case)
    flags = {each["flag"] for each in changes}
    if HICACHE in flags and all(flag == HICACHE or flag.startswith("--hicache-") for flag in flags):
        return cited(f"They belong together, in one restart: {'; '.join(told)}", sources(case), case)
    lines = [cited(f"To see what each brings: first {', then '.join(told)}", sources(case), case)]
    if restarts(case):
        together = "Together they cost one restart, one at a time one each; they were checked together"
        lines.append(cited(together, sources(case), case))
    return "\n".join(lines)


def room_with(case: Case, found: Found) -> str:
    """How many requests run with one option that is named, by itself."""
    told = [(flag, word) for _, flag, word in chosen.named(found.string) if flag != SLOTS]
    if len(told) != 1:
        return ""
    rows = [row for row in chosen.alone(case, told[0][1]) if row.get("running_factor") is not None]
    return "\n".join(cited(chosen.in_short(row), row.get("evidence", ()), case) for row in rows[:1])


_SPLIT_BEST: Final = 0.8  # of the weights of a rank, at least, that are divided among ranks and not copied
_ROOM: Final = 0.9  # of a card, above which nothing is left for KV and graphs


def other_gpus(case: Case, found: Found) -> str:
    """Whether the weights would fit on fewer GPUs, by what a rank holds of them now."""
    wanted, gpus = int(found[1]), case.facts.number("gpu_count")
    weights, total = case.facts.get("weights_gib", ""), case.facts.number("gpu_memory_mib")
    if not gpus or weights is None or not total or not 0 < wanted < gpus:
        return ""
    card, now = total / 1024, float(weights.value)
    most = now * gpus / wanted
    known = [weights.source, *(fact.source for fact in case.facts.all("gpu_memory_mib")[:1])]
    text = (
        f"The weights take {now:.1f} GiB of each of {gpus:g} GPUs; on {wanted} they take up to {most:.1f} of {card:.1f}"
    )
    if _SPLIT_BEST * most > card:
        text += ": they do not fit, so that needs a smaller checkpoint"
    elif most > _ROOM * card:
        text += ": next to nothing is left for the KV pool"
    else:
        text += f", which leaves at most {card - most:.1f} GiB for the KV pool, graphs and activations"
    return cited(f"{text} (estimated: what every rank has a copy of does not grow)", known, case)
