"""What the document tells beside the fold: load over time, the log's own events, the lines that are leaned on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from agent.case import Case
from agent.views.words import IMPACT, REFERENCE, references
from transcripts.facts import Evidence, Fact, Facts
from transcripts.vocabulary import FAILURE

Json = dict[str, Any]
SERIES_POINTS: Final = 240
QUOTED_CHARACTERS: Final = 300
EVENTS_OF_A_KIND: Final = 3
FAILURE_CHARACTERS: Final = 200
_STAMP: Final = re.compile(r"\[(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)")
_DECODE: Final = "Decode batch"
_BOOT: Final = {
    "spec_default_reset": "speculative decoding set the running limit to {value} requests",
    "weights_after_gib": "weights loaded, {value} GiB left on the fullest GPU",
    "ready": "server ready",
    "running_limit": "running limit in effect: {value} requests",
    "kernel_oom_kill": "the kernel killed {value} for memory",
    "xid": "GPU error Xid {value}",
}
_LEANING: Final = (
    "claims", "answer", "decided", "follow_ups", "hypotheses", "changes", "arithmetic", "options", "memory", "walls",
    "timeline", "since", "verified", "target", "findings", "contradictions",
)  # fmt: skip


def decided(case: Case) -> int:
    """How many answers the session has come to."""
    return sum(event.text.startswith("answered (") for event in case.events)


@dataclass(frozen=True, slots=True)
class Series:
    """Load over time from the log that has most of it; `rows` at most `SERIES_POINTS`, `all` every decode line."""

    evidence: str = ""
    all: tuple[Any, ...] = ()
    rows: list[Json] = field(default_factory=list)
    retractions: tuple[Any, ...] = ()


def series(evidence: Mapping[str, Evidence]) -> Series:
    """Running, queued and usage over time."""
    likely = sorted(
        (item for item in evidence.values() if _DECODE in item.text),
        key=lambda item: item.text.count(_DECODE),
        reverse=True,
    )
    if not likely:
        return Series()
    from tools.host.parsers import series as parsed

    name = ""
    timed: tuple[Any, ...] = ()
    points: tuple[Any, ...] = ()
    for item in likely:
        timed = tuple(p for p in parsed(item) if p.seconds is not None)
        points = tuple(p for p in timed if p.kind == "decode" and p.running is not None)
        if points:
            name = item.id
            break
    if not points:
        return Series()
    step = -(-len(points) // SERIES_POINTS)
    rows = [
        {
            "at": p.at,
            "seconds": round(p.seconds or 0.0, 1),
            "running": p.running,
            "queue": p.queue or 0,
            "usage": p.usage or 0.0,
        }
        for p in points[::step]
    ]
    return Series(name, points, rows, tuple(_retractions(timed)))


def _retractions(timed: Iterable[Any]) -> Iterator[Any]:
    """Lines that tell of a retraction; every rank prints it, between two decode lines it is told once."""
    told = False
    for point in timed:
        if point.kind == "retraction" and not told:
            yield point
        if point.kind != "prefill":
            told = point.kind == "retraction"


def marks(points: Series) -> list[Json]:
    """Retractions as moments of the series."""
    return [
        {"seconds": round(point.seconds, 1), "what": "retraction", "from": f"{points.evidence}:{point.line}"}
        for point in points.retractions
    ]


def logged(facts: Facts, evidence: Mapping[str, Evidence], points: Series) -> list[Json]:
    """Events by the clock of the host's log: start, failures, when requests began to wait, retractions.

    `points`: the series of that evidence.
    """
    found = [*_from_facts(facts, evidence), *_from_series(points)]
    unique = list({(each["at"], each["text"]): each for each in found}.values())
    return sorted(unique, key=lambda each: str(each["at"]))


def since(case: Case) -> list[Json]:
    """Events of the host's log that a look after the verdict brought, and no look before it."""
    evidence, facts = case.seen_since
    before, known = case.seen
    told = {(each["at"], each["text"]) for each in logged(known, before, series(before))}
    return [each for each in logged(facts, evidence, series(evidence)) if (each["at"], each["text"]) not in told]


def _from_facts(facts: Iterable[Fact], evidence: Mapping[str, Evidence]) -> Iterator[Json]:
    told: dict[str, int] = {}
    lines: set[str] = set()
    line_at = _reader(evidence)
    for fact in facts:
        known = fact.name in _BOOT and fact.scope in ("", "TP0") and fact.value is not False
        at = fact.at or (_stamped(line_at(fact.source)) if fact.name == "failure" else "")
        if not at or fact.grade != "observed" or not (known or fact.name in FAILURE):
            continue
        if fact.name == "failure" and fact.source in lines:  # told by what was read from that line
            continue
        told[fact.name] = told.get(fact.name, 0) + 1
        if told[fact.name] > EVENTS_OF_A_KIND:
            continue
        lines.add(fact.source)
        text = _BOOT[fact.name].format(value=fact.value) if known else _failure(fact)
        yield _event(at, text, fact.source)


def _reader(evidence: Mapping[str, Evidence]) -> Callable[[str], str | None]:
    """What gives the line of a reference, `E5:88`; None for one that names no line. Each text is split once."""

    @cache
    def lines(name: str) -> list[str]:
        return evidence[name].text.splitlines()

    def line_at(reference: str) -> str | None:
        name, _, line = reference.partition(":")
        held = lines(name) if line and name in evidence else []
        return held[int(line) - 1] if held and 1 <= int(line) <= len(held) else None

    return line_at


def _stamped(line: str | None) -> str:
    """The time that a line of evidence itself prints, as the parsers write it; empty where it prints none."""
    found = _STAMP.search(line) if line else None
    return f"{found[1]} {found[2]}" if found else ""


def _failure(fact: Fact) -> str:
    if fact.name == "failure":
        return f"failure: {fact.value}"[:FAILURE_CHARACTERS]
    meaning = FAILURE[fact.name][1].partition(":")[0].partition(";")[0]
    return f"{meaning}: {fact.value} {fact.unit}".rstrip()[:FAILURE_CHARACTERS]


def _from_series(points: Series) -> Iterator[Json]:
    if not points.all:
        return
    waiting = next((p for p in points.all if p.queue), None)
    busiest = max(points.all, key=lambda p: (p.queue or 0, p.running, p.usage or 0.0))
    most = "longest queue" if waiting else "most at once"
    moments = [(points.all[0], "first decode line"), (waiting, "requests begin to wait"), (busiest, most)]
    moments += [(points.all[-1], "last decode line")]
    for point, text in moments:
        if point is not None:
            figures = f"{point.running} running, {point.queue or 0} queued, token usage {point.usage or 0.0:.2f}"
            yield _event(point.at, f"{text}: {figures}", f"{points.evidence}:{point.line}")
    if points.retractions:
        moments = [(points.retractions[0], "first retraction in this log")]
        moments += [(points.retractions[-1], f"last of {len(points.retractions)} moments with a retraction")]
        for point, text in moments:
            yield _event(point.at, text, f"{points.evidence}:{point.line}")


def _event(at: str, text: str, source: str) -> Json:
    return {"at": at, "text": text, "references": [source], "clock": "log"}


def memory_after(case: Case) -> list[Json]:
    """One GPU after the change, step by step; empty where the change does not touch it or cannot be summed.

    pool += before_weights * (new fraction - old); the draft's pool and the request table grow with theirs, graphs as
    the largest captured batch at most; free pays.
    """
    if case.advised is None or case.compared is None or not case.compared.memory:
        return []
    _, facts = case.seen
    wanted = {change["flag"]: change for change in case.advised.changes}
    gib = {step["name"]: float(step["gib"]) for step in case.compared.memory}
    before = facts.number("weights_before_gib")
    growth: dict[str, float] = {}
    fraction = wanted.get("--mem-fraction-static")
    old, new = _figure(fraction, "from"), _figure(fraction, "to")
    if old is not None and new is not None and before and gib.get("KV pool"):
        more = before * (new - old)
        growth["KV pool"] = more
        growth["draft pool"] = gib.get("draft pool", 0.0) * more / gib["KV pool"]
    limit, slots = facts.number("running_limit"), _figure(wanted.get("--max-running-requests"), "to")
    if slots is not None and limit:
        growth["request table"] = gib.get("request table", 0.0) * (slots / limit - 1)
        from tools import capacity  # a turn without a change sums nothing

        graphs = capacity.graph_growth(facts, int(slots))
        growth |= dict(graphs.steps) if graphs is not None else {}
    growth = {name: more for name, more in growth.items() if abs(more) >= 0.005 and name in gib}
    if not growth or "free" not in gib or any("dp" in flag for flag in wanted):
        return []
    growth["free"] = -sum(growth.values())
    return [
        {
            "name": step["name"],
            "gib": round(step["gib"] + growth.get(step["name"], 0.0), 2),
            "grade": "estimated" if step["name"] in growth else step["grade"],
            "source": step["source"],
        }
        for step in case.compared.memory
    ]


def _figure(change: Json | None, side: str) -> float | None:
    """The value before or after a change as a number; None where it is none."""
    try:
        return None if change is None or change[side] is None else float(change[side])
    except ValueError:
        return None


def quoted(case: Case, made: Json) -> Json:
    """Every line of evidence that the document leans on, as `E5:88: text`, cut to `QUOTED_CHARACTERS`."""
    told = [fact.source for fact in case.seen[1] if fact.name in IMPACT and not fact.scope]
    named = sorted(set(_named([*(made[key] for key in _LEANING), told])), key=_place)
    line_at = _reader(case.evidence)
    found: Json = {}
    for reference in named:
        text = line_at(reference)
        if text is not None:
            found[reference] = text if len(text) <= QUOTED_CHARACTERS else f"{text[:QUOTED_CHARACTERS]} …"
    return found


def _named(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if REFERENCE.fullmatch(value):
            yield value
        elif "[" in value:
            yield from references(value)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _named(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _named(each)


def _place(reference: str) -> tuple[str, int, int]:
    name, _, line = reference.partition(":")
    return name[0], int(name[1:]), int(line or 0)
