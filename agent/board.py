"""The case as text for a model, from records: shortening a conversation forgets nothing that counts."""

from __future__ import annotations

from agent.case import Case
from transcripts.facts import Fact

FACTS = 60


def board(case: Case) -> str:
    """Facts, hypotheses, tasks, options and advice as they stand, with the ids they are cited by."""
    parts = [
        _part("Evidence", [f"{e.id} {e.probe}: {e.problem or f'{e.lines} lines'}" for e in case.evidence.values()]),
        _part("Facts", [_fact(fact) for fact in list(case.facts)[:FACTS]]),
        _part("Hypotheses", _hypotheses(case)),
        _part("Claims", [f"{c.id} {c.verdict}: {c.text} [{', '.join(c.evidence)}]" for c in case.claims]),
        _part("Tasks", [f"task_id: {t.id} ({t.description}): {t.status}" for t in case.tasks.values()]),
        _part("Findings", _findings(case)),
        _part("Options", [str(option.get("name", "")) for option in (case.compared.options if case.compared else ())]),
        _part("Advice", _advice(case)),
        _part("Open", list(case.weighed.missing) if case.weighed else []),
        _part("Looks asked for", [f"{look} [task_id: {r.task}]" for r in case.reports.values() for look in r.looks]),
    ]
    return "\n\n".join(part for part in parts if part)


def _part(title: str, lines: list[str]) -> str:
    return f"{title}:\n" + "\n".join(f"- {line}" for line in lines) if lines else ""


def _fact(fact: Fact) -> str:
    scope = f" ({fact.scope})" if fact.scope else ""
    value = str(fact.value)
    return f"{fact.name}{scope} = {value[:80]} {fact.unit} [{fact.source}, {fact.grade}]"


def _hypotheses(case: Case) -> list[str]:
    if case.weighed is None:
        return []
    head = f"verdict: {case.weighed.kind} {case.weighed.label} (certainty {case.weighed.certainty:.2f})"
    return [head, *(f"{h.id} {h.label} {h.status} {h.weight:+.1f}" for h in case.weighed.hypotheses[:8])]


def _findings(case: Case) -> list[str]:
    return [
        f"{finding.subject}: {finding.text} [{', '.join(c.id for c in finding.citations)}]" for finding in case.findings
    ]


def _advice(case: Case) -> list[str]:
    if case.advised is None:
        return []
    lines = [f"{change['do']} {change['flag']} {change['to']}" for change in case.advised.changes]
    return lines + [f"refused: {refused['what']}: {refused['reason']}" for refused in case.advised.refused]
