"""Reports of research tasks as their parent is told them: data with citations, question by question."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from transcripts.parts import Citation, Finding
from transcripts.records import Reported

Answered = Literal["answered", "unanswered", "contradicted"]
_QUESTION: Final = re.compile(r"^\s*(\d{1,3})[.)]\s+(?:\[([^\]\s]+)\]\s*)?(\S.*)$", re.MULTILINE)
_NUMBER: Final = re.compile(r"\d{1,3}")


@dataclass(frozen=True, slots=True)
class Question:
    """One numbered question of a prompt and how it came back; `references` are checked citations."""

    number: str
    text: str
    state: Answered
    references: tuple[str, ...]


def outcome(identity: str, status: str, text: str) -> str:
    """What every end of a task looks like: the id to resume it by, the status unless completed, what there is."""
    lines = [f"task_id: {identity} (for resuming to continue this task if needed)"]
    if status != "completed":
        lines.append(f"status: {status}")
    return "\n".join([*lines, "", text]).rstrip() + "\n"


def numbered(report: Reported, known: Iterable[Citation]) -> Reported:
    """The report with an id for each citation: the one that its place has in `known`, else the next number.

    A task that is continued reports what it found before once more; its lines keep the ids that were shown.
    """
    ids = {_place(citation): citation.id for citation in known}
    findings: list[Finding] = []
    for finding in report.findings:
        citations = [
            citation.model_copy(update={"id": ids.setdefault(_place(citation), f"S{len(ids) + 1}")})
            for citation in finding.citations
        ]
        findings.append(finding.model_copy(update={"citations": tuple(citations)}))
    return report.model_copy(update={"findings": tuple(findings)})


def _place(citation: Citation) -> Citation:
    return citation.model_copy(update={"id": ""})


def shown(report: Reported | None, text: str, prompts: Iterable[str] = ()) -> str:
    """A report as the parent reads it: findings, then each numbered question of the prompts and how it came back."""
    if report is None:
        return f"(no report; unverified)\n{text}"
    lines = [] if report.verified else ["(unverified: it read nothing in the tree)"]
    for finding in report.findings:
        cited = " ".join(
            f"[{f'{c.id} ' if c.id else ''}{c.path}:{c.line}{'' if c.checked else ' NOT IN THE TREE'}]"
            for c in finding.citations
        )
        lines.append(f"- {finding.subject} ({finding.kind}): {finding.text} {cited}".rstrip())
    lines += [f"- unanswered: {question}" for question in report.unanswered]
    lines += [f"- asks for a look: {look}" for look in report.looks]
    for question in questions(report, prompts):
        references = f" [{', '.join(question.references)}]" if question.references else ""
        lines.append(f"question {question.number}: {question.state}{references}")
    return "\n".join(lines)


def questions(report: Reported, prompts: Iterable[str]) -> list[Question]:
    """Each numbered question of the prompts; only findings whose citations hold answer or contradict one."""
    found = []
    for number, name, text in (match for prompt in prompts for match in _QUESTION.findall(prompt)):
        about = [finding for finding in report.findings if _is_about(finding, number, name)]
        held = [finding for finding in about if any(citation.checked for citation in finding.citations)]
        state: Answered = "answered" if held else "unanswered"
        if any(finding.kind == "contradicts" for finding in held):
            state = "contradicted"
        references = tuple(c.id for finding in held for c in finding.citations if c.checked and c.id)
        found.append(Question(number, text, state, references))
    return found


def _is_about(finding: Finding, number: str, name: str) -> bool:
    said = finding.question.strip()
    first = _NUMBER.search(said.partition("[")[0])
    return bool(name and name in said) or (first is not None and first[0] == number)
