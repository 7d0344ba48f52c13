"""A question to a research task, answered from its findings; of a flag that none is about, from the tree itself."""

from __future__ import annotations

import json
import re
from typing import Final

from agent.case import Case
from agent.model import Reply, Request
from agent.models.playbook.asking import plain
from agent.models.playbook.brought import results
from agent.views.words import FLAG
from transcripts.parts import Call, Finding

FINDINGS_TOLD: Final = 6
_WORD: Final = re.compile(r"--[a-z][a-z0-9-]+|[a-z0-9_]{2,}")
# Words of any question: they say nothing about what it is about.
_EMPTY: Final = frozenset({
    "the", "what", "which", "where", "when", "why", "how", "who", "is", "are", "does", "do", "did", "can", "could",
    "it", "that", "this", "there", "of", "in", "on", "for", "to", "and", "or", "with", "an", "about", "you", "your",
    "me", "my", "we", "us", "say", "says", "tell", "show", "find", "found", "line", "lines", "source", "code", "one",
    "any", "be", "not", "if", "so", "then", "them", "will", "would", "should", "have", "has", "was", "were", "from",
    "at", "by",
})  # fmt: skip


def next_reply(request: Request, question: str) -> Reply:
    """The findings that share most words with the question, each with its line of the source."""
    case = request.case
    text = plain(question)
    told = [_told(finding) for finding in _about(case, text)]
    if told:
        return Reply(text="\n".join(told))
    flag = FLAG.search(text)
    call = f"ask_{case.fresh['said']}_flag"
    brought = results(request.messages)
    if call in brought:
        return Reply(text=brought[call])
    if flag is not None:
        return Reply(calls=(Call(id=call, name="flag", arguments=json.dumps({"name": flag[0]})),), finish="calls")
    return Reply(text=_cannot(case), finish="unanswered")


def _about(case: Case, question: str) -> list[Finding]:
    wanted = set(_WORD.findall(question)) - _EMPTY
    found = case.reports[case.opened.id].findings if case.opened.id in case.reports else ()
    ranked = [(len(wanted & _words(finding)), finding) for finding in found]
    best = max((score for score, _ in ranked), default=0)
    named = set(FLAG.findall(question)) & {finding.subject for finding in found}
    if not named and 2 * best <= len(wanted):  # what shares no more than half of the words is about something else
        return []
    least = max(1, (best + 1) // 2)
    held = sorted((row for row in ranked if row[0] >= least), key=lambda row: -row[0])
    return [finding for _, finding in held[:FINDINGS_TOLD]]


def _words(finding: Finding) -> set[str]:
    quotes = " ".join(f"{citation.path} {citation.quote}" for citation in finding.citations)
    text = f"{finding.question} {finding.subject} {finding.text} {quotes}".lower()
    parts = re.findall(r"[a-z0-9]{2,}", text)
    return {*_WORD.findall(text), *parts, *(word.removesuffix("s") for word in parts)}


def _told(finding: Finding) -> str:
    lines = [
        f"{citation.path}:{citation.line}: “{citation.quote[:160]}”"
        + ("" if citation.checked else " (NOT IN THE TREE)")
        for citation in finding.citations
    ]
    return f"{finding.subject}: {finding.text}. " + "; ".join(lines)


def _cannot(case: Case) -> str:
    report = case.reports.get(case.opened.id)
    subjects = list(dict.fromkeys(finding.subject for finding in report.findings)) if report else []
    about = f" Its findings are about {', '.join(subjects)}." if subjects else " It has no findings."
    return (
        f"This task has no answer to that.{about} Ask the session it belongs to ({case.opened.parent}), or a model at "
        "an endpoint (OPENAI_BASE_URL), which searches the tree anew."
    )
