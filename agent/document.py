"""The diagnosis document: the one thing that `--json` prints and of which every view is a view.

Its shape is versioned (`sglscout.diagnosis/1`): fields are added, never renamed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from agent.case import COMPLAINT, Case, Decision
from agent.contradictions import contradictions
from agent.found import sglang_found
from agent.grounding import sentences
from agent.instead import instead
from agent.story import decided, logged, marks, memory_after, quoted, series, since
from agent.told import BINDING
from transcripts.facts import Fact, Facts
from transcripts.parts import Finding, HypothesisRow, ReasonRow

SCHEMA: Final = "sglscout.diagnosis/1"
Json = dict[str, Any]


def document(case: Case, *, latest: bool = False) -> Json:
    """The case as one JSON-ready document. Same case, same document.

    `answer` is the last answer of the session; `decided` is the one that views show: the last diagnosis, or, where
    `latest` is set, the last answer whatever it was about.
    """
    own, tasks = case.total_usage()
    advised, compared = case.advised, case.compared
    seen, facts = case.seen
    points = series(seen)
    made: Json = {
        "schema": SCHEMA,
        "id": case.opened.id,
        "at": case.opened.at,
        "target": _target(case, facts),
        "complaint": case.complaint,
        "told": list(_told(case)),
        "decision": {"id": f"D{decided(case)}", "question": case.question},
        **_decisions(case, latest=latest),
        "state": "stopped" if case.stopped else "concluded",
        "damage": list(case.damage),
        "claims": [claim.model_dump() for claim in case.claims],
        "diagnosis": _diagnosis(case),
        "answer": _answer(case),
        "hypotheses": [_hypothesis(row) for row in (case.weighed.hypotheses if case.weighed else ())],
        "evidence": [
            {
                "id": item.id,
                "probe": item.probe,
                "command": item.command,
                "host": item.host,
                "at": item.at,
                "exit": item.exit,
                "lines": item.lines,
                "truncated": item.truncated,
                "problem": item.problem,
            }
            for item in case.evidence.values()
        ],
        "facts": [_fact(fact) for fact in case.facts],
        "facts_weighed": case.facts_weighed,
        "evidence_weighed": len(seen),
        "tasks": [
            {
                "id": task.id,
                "description": task.description,
                "status": task.status,
                "turns": task.turns,
                "citations": task.citations,
                "citations_checked": task.citations_checked,
                "reason": task.reason,
            }
            for task in case.tasks.values()
        ],
        "citations": [citation.model_dump() for citation in case.citations.values()],
        "findings": [_finding(finding) for finding in case.findings],
        "options": list(compared.options) if compared else [],
        "contradictions": list(contradictions(case)),
        "memory": list(compared.memory) if compared else [],
        "memory_after": memory_after(case),
        "changes": list(advised.changes) if advised else [],
        "instead": instead(case),
        "refused": list(advised.refused) if advised else [],
        "arithmetic": _arithmetic(case),
        "launch": advised.launch if advised else {},
        "stages": list(advised.stages) if advised else [],
        "expected": list(advised.expected) if advised else [],
        "verify": list(advised.verify) if advised else [],
        "rollback": advised.rollback if advised else {},
        "alternatives": list(advised.alternatives) if advised else [],
        "must_not": list(advised.must_not) if advised else [],
        "walls": list(advised.walls) if advised else [],
        "verified": list(case.verified.rows) if case.verified else [],
        "series": points.rows,
        "marks": marks(points),
        "timeline": [*logged(facts, seen, points), *_recorded(case)],
        "worded": [{"was": was, "text": text} for was, text in case.worded.items()],
        "since": since(case) if case.verified else [],
        "questions": [{"at": said.at, "text": said.text} for said in case.said],
        "usage": {"own": own.model_dump(), "tasks": tasks.model_dump()},
        "model": case.opened.model,
        "ids": _ids(case),
    }
    made["quoted"] = quoted(case, made)
    return made


def _told(case: Case) -> Iterator[Json]:
    """What the operator stated later, and the figures of it that do not count since they were measured."""
    for item in case.evidence.values():
        if item.probe != COMPLAINT or item.text == case.complaint:
            continue
        stated = [fact for fact in case.facts if fact.source.partition(":")[0] == item.id and fact.name != "symptom"]
        counted = [case.facts.get(fact.name, fact.scope) for fact in stated]
        yield {
            "text": item.text,
            "evidence": item.id,
            "measured": [_fact(fact) for fact in counted if fact and fact.grade != "claimed"],
            "stays": [fact.scope or "no restart" for fact in stated if fact.name in BINDING],
        }


def _recorded(case: Case) -> Iterator[Json]:
    """What the session itself did, by its own clock (UTC)."""
    for event in case.events:
        yield {"at": event.at, "text": event.text, "references": list(event.references), "clock": "session"}


def _target(case: Case, facts: Facts) -> Json:
    version = facts.get("version")
    located = case.located
    return {
        "host": case.opened.target.get("host", ""),
        "kind": case.opened.target.get("kind", ""),
        "engine": "sglang",
        "found": sglang_found(case),
        "version": "" if version is None else str(version.value),
        "version_from": "" if version is None else version.source.partition(":")[0],
        "source": "" if located is None else f"{located.origin} {located.version} sha256:{located.digest}",
        "source_differs": [] if located is None else list(located.differs),
        "model": facts.text("served_model") or facts.text("model_path"),
        "gpus": _gpus(facts),
    }


def _gpus(facts: Facts) -> list[Json]:
    groups: dict[tuple[str, float], Json] = {}
    for fact in {fact.scope: fact for fact in facts.all("gpu_name")}.values():
        memory = facts.number("gpu_memory_mib", fact.scope) or 0
        row = groups.setdefault(
            (str(fact.value), memory),
            {"name": fact.value, "count": 0, "memory_mib": int(memory), "from": fact.source.partition(":")[0]},
        )
        row["count"] += int(facts.number("gpu_count") or 1) if not fact.scope else 1
    return list(groups.values())


def _diagnosis(case: Case) -> Json:
    weighed = case.weighed
    if weighed is None:
        nothing: Json = {"missing": [], "not_checked": list(dict.fromkeys(case.notes)), "look": {}, "failed": {}}
        return {"kind": "abstain", "label": "", "certainty": 0.0, **nothing}
    return {
        "kind": weighed.kind,
        "label": weighed.label,
        "certainty": round(weighed.certainty, 3),
        "why": weighed.why,
        "checked": list(weighed.checked),
        "missing": list(weighed.missing),
        "not_checked": [*weighed.not_checked, *dict.fromkeys(case.notes)],
        "look": next_look(case) if weighed.kind == "abstain" else {},
        "failed": _failed(case) if weighed.kind == "abstain" else {},
    }


def _failed(case: Case) -> Json:
    """The line that says why the server failed, where no cause is decided: quoted, with what to do first."""
    from tools import diagnosis  # a turn that weighs nothing needs none of it

    found = diagnosis.failed(case.facts)
    if found is None:
        return {}
    told = {"kind": found.kind, "line": found.line, "evidence": found.source, "means": found.means, "do": found.do}
    return {**told, "certain": found.certain}


def next_look(case: Case) -> Json:
    """The command that shows the lines under load, how to have them weighed, and where the unit is known from."""
    unit = case.facts.get("unit_name")
    if unit is None:
        return {}
    return {
        "command": f"journalctl -u {unit.value} -n 2000 --no-pager -o short-iso",
        "then": f'sglscout resume {case.opened.id} "look again"',
        "from": unit.source,
    }


def _decisions(case: Case, *, latest: bool) -> Json:
    """What was decided, and the questions that were asked about it and answered beside it."""
    whole = [one for one in case.decisions if one.whole]
    chosen = case.decisions[-1:] if latest else (whole or case.decisions)[-1:]
    return {
        "decided": _decision(chosen[0], case) if chosen else {},
        "follow_ups": [_decision(one, case) for one in case.decisions if not one.whole and one not in chosen],
    }


def _decision(one: Decision, case: Case) -> Json:
    return {"id": one.id, "at": one.at, "question": one.question, "answer": _spoken(one.text, case)}


def _answer(case: Case) -> list[Json]:
    return [] if case.concluded is None else _spoken(case.concluded.text, case)


def _spoken(text: str, case: Case) -> list[Json]:
    return [
        {"text": sentence.text, "references": list(sentence.references), "supported": sentence.supported}
        for sentence in sentences(text, case)
    ]


def _hypothesis(row: HypothesisRow) -> Json:
    return {
        "id": row.id,
        "label": row.label,
        "statement": row.statement,
        "status": row.status,
        "weight": round(row.weight, 2),
        "for": _sources(row.supporting),
        "against": _sources(row.against),
        "reasons_for": [reason.model_dump() for reason in row.supporting],
        "reasons_against": [reason.model_dump() for reason in row.against],
        "would_settle": row.would_settle or None,
    }


def _arithmetic(case: Case) -> list[Json]:
    """Every sum once; one made for the change stands for the same sum made for the comparison."""
    for_change = {row["name"] for row in case.advised.arithmetic} if case.advised else set()
    rows = [*(case.compared.arithmetic if case.compared else ()), *(case.advised.arithmetic if case.advised else ())]
    return [{**row, "for_change": name in for_change} for name, row in {row["name"]: row for row in rows}.items()]


def _sources(reasons: tuple[ReasonRow, ...]) -> list[str]:
    return list(dict.fromkeys(source for reason in reasons for source in reason.source))


def _fact(fact: Fact) -> Json:
    row: Json = {"name": fact.name, "value": fact.value, "unit": fact.unit, "grade": fact.grade, "from": fact.source}
    if fact.scope:
        row["scope"] = fact.scope
    if fact.at:
        row["at"] = fact.at
    return row


def _finding(finding: Finding) -> Json:
    return {
        "question": finding.question,
        "subject": finding.subject,
        "kind": finding.kind,
        "text": finding.text,
        "citations": [citation.id for citation in finding.citations],
    }


def _verify(case: Case) -> str:
    """The command that holds the advice against another look; empty where the advice holds nothing to look for."""
    advised = case.advised
    if advised is None or not (advised.changes and (advised.expected or advised.verify)):
        return ""
    pasted = " --bundle NEW.log" if case.opened.target.get("kind") == "bundle" else ""
    return f"sglscout verify {case.opened.id}{pasted}"


def _ids(case: Case) -> Json:
    identity = case.opened.id
    return {
        "session": identity,
        "tasks": list(case.tasks),
        "ask": f'sglscout resume {identity} "…"',
        "resume_task": [f'sglscout resume {task} "…"' for task in case.tasks],
        "writeup": f"sglscout writeup {identity}",
        "verify": _verify(case),
    }
