"""Facts to ranked causes, what would settle them, and what to do: pure functions, no input or output.

One entry per cause stands in `families`; `weighing` sums it up; `claims` tests what the operator said. Nothing here
reads text, a host or a source tree: parsers make facts, researchers search for the anchors of `questions`.
"""

from dataclasses import replace

from tools.diagnosis.claims import claims
from tools.diagnosis.failed import Failed, failed
from tools.diagnosis.families import ENTRIES
from tools.diagnosis.model import (
    Actions,
    Anchor,
    Assessment,
    Claim,
    Expectation,
    Hypothesis,
    MustNot,
    Proposal,
    Question,
    Reason,
    ResearchQuestion,
    Watch,
)
from tools.diagnosis.questions import FIELDS, questions, research_question
from tools.diagnosis.view import View
from tools.diagnosis.watches import of_family
from tools.diagnosis.weighing import family, weigh
from transcripts.facts import Facts

_BY_LABEL = {entry.label: entry for entry in ENTRIES}
LABELS = tuple(_BY_LABEL)


def actions(label: str, facts: Facts) -> Actions:
    """What to do about a cause, with values from these facts; empty for a label that is not in the taxonomy."""
    entry = _BY_LABEL.get(label)
    if entry is None:
        return Actions()
    found = entry.act(View(facts))
    return replace(found, verify=found.verify or of_family(label)) if found.changes else found


__all__ = [
    "FIELDS",
    "LABELS",
    "Actions",
    "Anchor",
    "Assessment",
    "Claim",
    "Expectation",
    "Failed",
    "Hypothesis",
    "MustNot",
    "Proposal",
    "Question",
    "Reason",
    "ResearchQuestion",
    "Watch",
    "actions",
    "claims",
    "failed",
    "family",
    "questions",
    "research_question",
    "weigh",
]
