"""The playbook as a researcher: search each question's anchors, read off the lines, report what was found.

A question's anchors are patterns (`tools.diagnosis`); a claim is reported only with the line that shows it, so a
version whose code no longer says so yields no such finding.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from agent.model import Message, Reply, Request
from agent.models.playbook import answers
from agent.models.playbook.brought import results
from tools.diagnosis import Anchor, ResearchQuestion, research_question
from transcripts.parts import Call

_ID: Final = re.compile(r"\[([a-z0-9_]+(?:\.[a-z0-9_]+)+)\]")
_HIT: Final = re.compile(r"^(?P<path>[^\s:][^:\n]*):(?P<line>\d+): ?(?P<text>.*)$", re.MULTILINE)
AT_ONCE: Final = 12
GO_ON: Final = "Go on where you stopped."


@dataclass(frozen=True, slots=True)
class Lookup:
    """One search of one anchor of one question, under a call id that says which."""

    call: str
    question: ResearchQuestion
    anchor: Anchor


def next_reply(request: Request) -> Reply:
    """Searches that were not made yet, then the report, then one closing line."""
    if "report" not in {tool["function"]["name"] for tool in request.tools}:
        return Reply(text=_closing(request))
    questions = list(_questions(request.messages))
    lookups = [lookup for question in questions for lookup in _lookups(question)]
    made = results(request.messages)
    waiting = [lookup for lookup in lookups if lookup.call not in made]
    if waiting:
        return Reply(calls=tuple(_search(lookup) for lookup in waiting[:AT_ONCE]), finish="calls")
    if f"report.{len(questions)}" not in made:
        return Reply(calls=(_report(questions, lookups, made),), finish="calls")
    asked = request.case.follow_up
    if asked and asked != GO_ON:
        return answers.next_reply(request, asked)
    return Reply(text=_closing(request))


def _questions(messages: list[Message]) -> Iterator[ResearchQuestion]:
    seen: set[str] = set()
    for message in messages:
        if message["role"] != "user":
            continue
        for identity in _ID.findall(message["content"]):
            question = research_question(identity)
            if question is not None and identity not in seen:
                seen.add(identity)
                yield question


def _lookups(question: ResearchQuestion) -> Iterator[Lookup]:
    for number, anchor in enumerate(question.anchors, 1):
        yield Lookup(f"{question.id}#{number}", question, anchor)


def _search(lookup: Lookup) -> Call:
    arguments: dict[str, Any] = {"pattern": lookup.anchor.pattern, "glob": lookup.anchor.path}
    return Call(id=lookup.call, name="search", arguments=json.dumps(arguments))


def _report(questions: list[ResearchQuestion], lookups: list[Lookup], made: dict[str, str]) -> Call:
    findings = []
    answered: set[str] = set()
    for lookup in lookups:
        hit = _HIT.search(made[lookup.call])
        if hit is None:
            continue
        answered.add(lookup.question.id)
        findings.append(
            {
                "question": lookup.question.id,
                "subject": lookup.anchor.shows,
                "kind": lookup.anchor.kind,
                "text": lookup.anchor.claim,
                "path": hit["path"],
                "line": int(hit["line"]),
                "quote": hit["text"],
            }
        )
    unanswered = [question.id for question in questions if question.id not in answered]
    arguments = json.dumps({"findings": findings, "unanswered": unanswered})
    return Call(id=f"report.{len(questions)}", name="report", arguments=arguments)


def _closing(request: Request) -> str:
    report = request.case.reports.get(request.case.opened.id)
    if report is None:
        return "Nothing was established."
    cited = [citation for finding in report.findings for citation in finding.citations]
    held = sum(citation.checked for citation in cited)
    text = f"{len(report.findings)} findings, {held} of {len(cited)} citations hold"
    return text + (f"; unanswered: {', '.join(report.unanswered)}." if report.unanswered else ".")
