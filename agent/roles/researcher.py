"""The researcher: tools over one pinned source tree, and the report that ends its work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from agent.session import Session
from tools.toolbox import Arguments, Emit, Tool, Toolbox, ToolRefused
from transcripts.parts import Citation, Finding
from transcripts.records import Replied, Reported

if TYPE_CHECKING:
    from tools.source import Source

READING = frozenset({"search", "read", "list", "flag", "rules", "usage"})


class FindingArguments(Arguments):
    question: str = Field(description="number or id of the question it answers")
    subject: str = Field(description="the flag, option or function it is about")
    kind: Literal["does", "does_not", "needs", "constraint", "answer", "contradicts"]
    text: str = Field(max_length=600)
    path: str
    line: int
    quote: str = Field(description="the exact text of that line")


class ReportArguments(Arguments):
    findings: list[FindingArguments]
    unanswered: list[str] = Field(default_factory=list, description="questions you could not answer")
    looks: list[str] = Field(
        default_factory=list, description="what only the host shows and an answer hangs on, with the question's number"
    )


def researcher_toolbox(source: Source, session: Session) -> Toolbox:
    """Search, read, list, flag, rules, usage over the tree, and `report`."""
    from tools.source import tools_for

    async def report(arguments: ReportArguments, emit: Emit) -> str:
        read_something = any(
            call.name in READING for record in session.records if isinstance(record, Replied) for call in record.calls
        )
        if not (arguments.findings or arguments.unanswered or arguments.looks):
            raise ToolRefused("an empty report.", "Give findings, or the questions that stay unanswered.")
        findings = tuple(_checked(finding, source) for finding in arguments.findings)
        emit(
            Reported(
                task=session.id,
                findings=findings,
                unanswered=tuple(arguments.unanswered),
                looks=tuple(arguments.looks),
                verified=read_something,
            )
        )
        wrong = [citation for finding in findings for citation in finding.citations if not citation.checked]
        text = f"{len(findings)} findings are kept."
        if wrong:
            listed = "; ".join(f"{citation.path}:{citation.line}" for citation in wrong)
            text += f" These lines do not read as you quoted them: {listed}. Read them again and report once more."
        return text

    description = "End your work: one finding per statement, each with path, line and the exact line."
    return Toolbox([*tools_for(source), Tool("report", description, ReportArguments, report)])


def _checked(finding: FindingArguments, source: Source) -> Finding:
    citation = Citation(
        path=finding.path,
        line=finding.line,
        quote=finding.quote.strip(),
        version=source.version,
        checked=source.check_citation(finding.path, finding.line, finding.quote),
    )
    return Finding(
        question=finding.question,
        subject=finding.subject,
        kind=finding.kind,
        text=finding.text,
        citations=(citation,),
    )
