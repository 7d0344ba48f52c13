"""Follow-ups about a case, without a model: what is asked is recognised, a tool works it out, the case is cited.

An intent (`intents/`) answers at once from what is recorded, or names the tool call that will bring the answer. What
no intent fits is not answered, and that is said together with what can be.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Final

from agent.case import Case
from agent.grounding import referenced
from agent.model import Reply, Request
from agent.models.playbook.alternatives import halves, verdict
from agent.models.playbook.answer import cited
from agent.models.playbook.asked import Answer, Ask
from agent.models.playbook.asking import plain
from agent.models.playbook.brought import results
from agent.models.playbook.german import in_english
from agent.models.playbook.intents import INTENTS
from agent.models.playbook.seen import NOT_TOLD
from agent.models.playbook.wished import taken_up
from agent.sums import LEVERS_TOGETHER, NOT_YET
from agent.views.words import FLAG
from transcripts.parts import Call

QUESTION_WORDS: Final = 12
CANNOT: Final = (
    "There is no answer to that from this case: nothing that was looked at tells it, or the playbook does not know "
    "the words."
)
FREELY: Final = "A model at an endpoint (OPENAI_BASE_URL) answers freely from the same case."
# Offered where a question has no answer: the first that this case answers, a change's only where there is one.
_OFFERED_OF_A_CHANGE: Final = ("what should I change", "how long is the restart", "how do I undo this")
_OFFERED: Final = ("what is missing", "what else could it be", "which options do I have", "what is the cause")
OFFERED: Final = 3
_ANOTHER_LOOK: Final = re.compile(
    r"look (?:again|anew|once more)|re-?(?:check|diagnose)|(?:busy|under load) (?:now|again)|now (?:it is |it's )?busy",
    re.IGNORECASE,
)
_ASKING: Final = re.compile(
    r"(?:why|how|what|whats|which|who|when|where|can|could|will|would|is|are|does|do|did|should|may|must|and|but|so)\b",
    re.IGNORECASE,
)


def asks_for_another_look(question: str) -> bool:
    """Whether the host is to be looked at anew before anything is answered."""
    return bool(_ANOTHER_LOOK.search(question))


def is_question(line: str) -> bool:
    """Whether a line asks about a case rather than telling what hurts."""
    return bool(_ASKING.match(in_english(line.strip().lower()))) and len(line.split()) <= QUESTION_WORDS


def next_reply(request: Request) -> Reply:
    """The answer to the operator's last question, or the tool call that brings it."""
    case = request.case
    brought = _brought(request)
    if brought is not None:
        return _reply(brought if brought.startswith(NOT_YET) else _resting(brought, case), case)
    sides = halves(case, plain(case.follow_up))
    parts = [answered(case, side) for side in sides]
    if parts and all(parts):
        return _side_by_side(request, sides, parts)
    answer = answered(case, case.follow_up)
    if isinstance(answer, Ask):
        call = Call(id=_call_id(case, answer.tool), name=answer.tool, arguments=json.dumps(answer.arguments))
        return Reply(calls=(call,), finish="calls")
    return _reply(answer, case)


def _side_by_side(request: Request, sides: list[str], parts: list[Answer]) -> Reply:
    """Two things that were put against each other, each answered for itself, then which of them is recommended."""
    case, brought = request.case, results(request.messages)
    ids = [f"pair_{case.fresh['said']}_{'ab'[number]}" for number in range(len(parts))]
    calls = [
        Call(id=id_, name=part.tool, arguments=json.dumps(part.arguments))
        for id_, part in zip(ids, parts, strict=True)
        if isinstance(part, Ask) and id_ not in brought
    ]
    if calls:
        return Reply(calls=tuple(calls), finish="calls")
    texts = [
        _resting(brought[id_], case) if isinstance(part, Ask) else part for id_, part in zip(ids, parts, strict=True)
    ]
    lines = [line for text in texts for line in text.splitlines() if not line.startswith(LEVERS_TOGETHER)]
    return _reply("\n".join([*dict.fromkeys(lines), verdict(case, sides)]), case)


def _reply(text: str, case: Case) -> Reply:
    """An answer; where nothing holds of it, or it tells no more than what is missing for one, it is none."""
    if not text:
        return Reply(text=_cannot(case), finish="unanswered")
    told = text.startswith((NOT_YET, NOT_TOLD))
    return Reply(text=text, finish="unanswered") if told else Reply(text=text)


def _cannot(case: Case) -> str:
    """That there is no answer, and questions that have one in this case."""
    changed = case.advised is not None and bool(case.advised.changes)
    asked = (*(_OFFERED_OF_A_CHANGE if changed else ()), *_OFFERED)
    offered = ", ".join(f"“{each}”" for each in islice((each for each in asked if answered(case, each)), OFFERED))
    return " ".join([CANNOT, *([f"It does answer {offered}."] if offered else []), FREELY])


def answered(case: Case, question: str) -> Answer:
    """What the first intent that fits and has something to say answers; empty where none has."""
    text = plain(question)
    for intent in INTENTS:
        found = intent.heard(text)
        if found is not None:
            answer = intent.handler(case, found)
            if answer and _is_about(answer, text) and taken_up(case, text, answer):
                return answer
    return ""


def _is_about(answer: Answer, question: str) -> bool:
    """Whether every flag that is asked about is told of: else the answer is one to another question."""
    return isinstance(answer, Ask) or all(flag in answer for flag in FLAG.findall(question))


def _call_id(case: Case, tool: str) -> str:
    return f"ask_{case.fresh['said']}_{tool}"


def _brought(request: Request) -> str | None:
    """The result of the call that was made for this question, if it was made."""
    beginning = f"ask_{request.case.fresh['said']}_"
    return next((text for call, text in results(request.messages).items() if call.startswith(beginning)), None)


def _resting(brought: str, case: Case) -> str:
    """A tool's text as an answer; one about the source rests on the tree of the version that the host told."""
    version = case.facts.get("version")
    if referenced(brought) or version is None:
        return brought
    return "\n".join(cited(line, [version.source], case) for line in brought.splitlines() if line.strip())
