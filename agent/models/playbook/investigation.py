"""The playbook as the main agent: look, weigh, research, compare, propose, answer; then follow-ups.

Each step is chosen from the case alone, so that a session taken up after a crash goes on where the records end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby

from agent.case import Case, TaskState
from agent.found import sglang_found
from agent.model import Reply, Request
from agent.models.playbook import answer, followup
from agent.models.playbook.research import GO_ON
from agent.told import states
from tools import diagnosis
from transcripts.parts import Call

RESUMABLE = frozenset({"opened", "running", "interrupted"})


def next_reply(request: Request) -> Reply:
    case = request.case
    again = followup.asks_for_another_look(case.follow_up)
    tells = bool(case.follow_up) and not again and states(case.follow_up)
    if case.follow_up and not again and not tells:
        return followup.next_reply(request)
    tried, fresh = case.tried, case.fresh
    if tells and tried.get("weigh", 0) < fresh["said"]:
        return _call(case, "weigh")
    if again and tried.get("look", 0) < fresh["said"]:
        call = Call(id=f"call_{case.last_seq}_look", name="look", arguments=json.dumps({"again": True}))
        return Reply(calls=(call,), finish="calls")
    seen = max(fresh.get("evidence", 0), fresh.get("facts", 0))
    if "look" not in tried:
        return _call(case, "look")
    if tried.get("weigh", 0) < seen:
        return _call(case, "weigh")
    if not sglang_found(case):
        return Reply(text=answer.composed(case))
    if research := list(_research(case)):
        return Reply(calls=tuple(research), finish="calls")
    if tried.get("compare", 0) < max(tried["weigh"], tried.get("task", 0)):
        return _call(case, "compare")
    if case.weighed is not None and case.weighed.kind == "cause" and tried.get("propose", 0) < tried["compare"]:
        return _call(case, "propose")
    return Reply(text=answer.composed(case))


def _call(case: Case, name: str) -> Reply:
    return Reply(calls=(Call(id=f"call_{case.last_seq}_{name}", name=name, arguments="{}"),), finish="calls")


def _research(case: Case) -> Iterator[Call]:
    """Tasks that are planned and not open yet, and those that were cut off and go on by their id."""
    known = {task.description: task for task in case.tasks.values()}
    for number, (description, prompt) in enumerate(_plan(case)):
        task: TaskState | None = known.get(description)
        if task is not None and task.status not in RESUMABLE:
            continue
        arguments = {"description": description, "prompt": prompt}
        if task is not None:
            arguments |= {"task_id": task.id, "prompt": GO_ON}
        yield Call(id=f"call_{case.last_seq}_task{number}", name="task", arguments=json.dumps(arguments))


def _plan(case: Case) -> Iterator[tuple[str, str]]:
    """One task for each field of questions: its description, and its questions numbered and named."""
    questions = diagnosis.questions(diagnosis.weigh(case.facts), case.facts, case.question)
    ordered = sorted(questions, key=lambda question: question.id.partition(".")[0])
    for field, group in groupby(ordered, key=lambda question: question.id.partition(".")[0]):
        numbered = [f"{number}. [{question.id}] {question.text}" for number, question in enumerate(group, 1)]
        version = case.facts.text("version") or "the deployed version"
        yield f"{diagnosis.FIELDS[field]} of {version}", "\n".join(numbered)
