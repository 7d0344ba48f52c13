"""The case's facts weighed, as the record that a session keeps of it."""

from __future__ import annotations

from agent.case import Case
from agent.found import sglang_found
from agent.views.words import plainly
from tools import diagnosis
from tools.diagnosis.failed import failed
from tools.other_engines import log_of_another
from transcripts.parts import HypothesisRow, ReasonRow
from transcripts.records import Weighed

PASTED = 0.9  # the most that is certain of what others looked up and passed on: what they left out is not known
NOTHING_THERE = "no process, unit, container or log of it is among what was looked at"


def weighed(case: Case) -> Weighed:
    """The ranking of hypotheses by the facts of now, and the verdict: none where no server was found."""
    assessment = diagnosis.weigh(case.facts)
    if not sglang_found(case):  # what the operator said is no lead where there is no server
        other = failed(case.facts) if log_of_another(case.facts) is not None else None
        why = NOTHING_THERE if other is None else other.means
        missing, unchecked = (assessment.missing, assessment.not_checked) if other is None else ((), ())
        assessment = diagnosis.Assessment("abstain", "", 0.0, (), missing, unchecked, (), why)
    return Weighed(
        kind=assessment.kind,
        label=assessment.label,
        certainty=min(assessment.certainty, PASTED)
        if case.opened.target.get("kind") == "bundle"
        else assessment.certainty,
        missing=assessment.missing,
        not_checked=assessment.not_checked,
        checked=assessment.checked,
        why=assessment.why,
        hypotheses=tuple(_row(number, one) for number, one in enumerate(assessment.hypotheses, 1)),
    )


def _row(number: int, one: diagnosis.Hypothesis) -> HypothesisRow:
    return HypothesisRow(
        id=f"H{number}",
        label=one.label,
        statement=one.statement,
        status=one.status,
        weight=one.weight,
        supporting=tuple(_reason(reason) for reason in one.for_),
        against=tuple(_reason(reason) for reason in one.against),
        would_settle=_settled_by(one.would_settle) if one.would_settle else "",
    )


def _settled_by(question: diagnosis.Question) -> str:
    """One sentence: what would decide, and where to look for it."""
    return f"{question.text.rstrip(' ?.')}; look at {question.look.rstrip('.')}"


def _reason(reason: diagnosis.Reason) -> ReasonRow:
    return ReasonRow(text=plainly(reason.text), source=reason.source, weight=reason.weight)
