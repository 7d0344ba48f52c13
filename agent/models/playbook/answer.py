"""The playbook's words: what the case shows, each sentence with what it rests on.

Sentences are made of statements, reasons and sums that tools brought; what brought no reference is not said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from agent.case import COMPLAINT, Case
from agent.document import next_look
from agent.found import sglang_found
from agent.grounding import exists
from agent.views.words import change_line
from tools import diagnosis
from transcripts.parts import HypothesisRow, ReasonRow

Json = dict[str, Any]
REASONS = 3
_QUOTED = re.compile(r"(“[^”]*”)")
_ENDS = re.compile(r"[.!?]+\s+(?=\S)")


def composed(case: Case) -> str:
    """The answer to the complaint, a sentence a line."""
    return "\n".join(sentence for sentence in _sentences(case) if sentence)


def cited(text: str, references: Any, case: Case) -> str:
    """The sentence with those of its references that hold; empty when none does, so that nothing unproven is said."""
    held = list(dict.fromkeys(ref for ref in references if exists(str(ref), case)))
    if not held:
        return ""
    return f"{_one_sentence(text)} [{', '.join(held[:6])}]."


def _one_sentence(text: str) -> str:
    """The text without an end in its middle, so that its references stand for all of it; quotations stay."""
    pieces = _QUOTED.split(text.strip().rstrip(".").replace("...", "…"))
    return "".join(piece if index % 2 else _ENDS.sub("; ", piece) for index, piece in enumerate(pieces))


def _sentences(case: Case) -> Iterator[str]:
    yield from _verdict(case)
    yield from _in_the_source(case)
    yield from _claims(case)
    yield from _asked(case)
    yield from _change(case)
    yield from _warnings(case)


def _verdict(case: Case) -> Iterator[str]:
    weighed = case.weighed
    if weighed is None:
        return
    live = [row for row in weighed.hypotheses if row.supporting and row.status != "refuted"]
    if weighed.kind == "cause" and live:
        yield cited(f"{_bare(live[0].statement)}: {_said(live[0].supporting)}", sources_of(live[0].supporting), case)
        for row in weighed.hypotheses[1:4]:
            if row.status == "refuted" and row.against:
                text = f"Ruled out: {_bare(row.statement)}; against it: {_said(row.against)}"
                yield cited(text, sources_of(row.against), case)
        return
    everything = list(case.evidence)
    if not sglang_found(case):
        yield cited(f"No SGLang was found: {weighed.why}", _looks(case), case)
        return
    if weighed.kind == "healthy":
        yield cited(f"Nothing wrong was found; checked: {'; '.join(weighed.checked)}", everything, case)
        return
    failed = diagnosis.failed(case.facts)
    if failed is not None and failed.certain:
        yield cited(f"{failed.means}: “{failed.line}”; {failed.do}", [failed.source], case)
        return
    named = live[:3]
    if named:
        sources = [source for row in named for source in sources_of(row.supporting)]
        how_many = "one explanation is live" if len(named) == 1 else f"{len(named)} explanations are live"
        yield cited(f"The evidence does not decide the cause; {how_many}", sources or everything, case)
        for row in named:
            said = f"Live: {_bare(row.statement)}; for it: {_said(row.supporting)}"
            yield cited(said, sources_of(row.supporting) or everything, case)
        settle = next((row.would_settle for row in named if row.would_settle), "")
        if settle:
            lead = _bare(named[0].statement)
            yield cited(f"The strongest lead: {lead}; this would settle it: {settle}", sources or everything, case)
            yield _the_look(case)
    else:
        yield cited("Too little was seen to name a cause", everything, case)
    if failed is not None:
        yield cited(f"What failed: “{failed.line}”; {failed.means}; {failed.do}", [failed.source], case)


def _looks(case: Case) -> list[str]:
    """Looks at the host that brought something."""
    return [item.id for item in case.evidence.values() if not item.problem and item.probe != COMPLAINT]


def _the_look(case: Case) -> str:
    """The command that shows the missing lines, and how to have them weighed."""
    look = next_look(case)
    if not look:
        return ""
    return cited(
        f"In a busy minute, `{look['command']}` shows it, and `{look['then']}` weighs it", [look["from"]], case
    )


def _in_the_source(case: Case) -> Iterator[str]:
    """What the tree says about the flag that is to change, in its own words."""
    flags = {change["flag"] for change in (case.advised.changes if case.advised else ())}
    told = [finding for finding in case.findings if finding.subject in flags and finding.kind in ("answer", "does")]
    for finding in told[:2]:
        held = [citation for citation in finding.citations if citation.checked]
        if held:
            where = f"{held[0].path}:{held[0].line}"
            yield cited(f"In the source of {held[0].version}, {where}: {finding.text}", [held[0].id], case)


def _claims(case: Case) -> Iterator[str]:
    for claim in case.claims:
        word = {"contradicted": "does not hold", "supported": "holds", "untestable": "cannot be tested yet"}[
            claim.verdict
        ]
        references = [*claim.evidence, *(ref for ref in case.evidence if claim.verdict == "untestable")]
        yield cited(f"“{claim.text}” {word}: {claim.why}", references, case)


def _asked(case: Case) -> Iterator[str]:
    """The question about RAM, from the options that would hold KV there."""
    for option in case.compared.options if case.compared else ():
        if option.get("answers") and option.get("says"):
            yield cited(option["says"], option.get("evidence", ()), case)


def _change(case: Case) -> Iterator[str]:
    advised = case.advised
    for change in advised.changes if advised else ():
        yield cited(f"Change: {change_line(change)}, {change['why']}", change["evidence"], case)
    if advised and advised.changes:
        for wall in advised.walls:
            yield cited(f"The next wall: {wall['what']}", wall["evidence"], case)


def _warnings(case: Case) -> Iterator[str]:
    if case.weighed is not None and case.weighed.not_checked and sglang_found(case):
        listed = "; ".join(text.rstrip(".") for text in case.weighed.not_checked)
        yield cited(f"Not checked, since nothing of it was seen: {listed}", list(case.evidence), case)


def _bare(statement: str) -> str:
    return statement.rstrip().rstrip(".")


def _said(reasons: tuple[ReasonRow, ...]) -> str:
    heaviest = sorted(reasons, key=lambda reason: -reason.weight)[:REASONS]
    return "; ".join(reason.text.rstrip(".") for reason in heaviest)


def sources_of(reasons: tuple[ReasonRow, ...]) -> list[str]:
    """What reasons rest on, in their order."""
    return [source for reason in reasons for source in reason.source]


def leading(case: Case) -> HypothesisRow | None:
    """The first hypothesis that something speaks for."""
    rows = case.weighed.hypotheses if case.weighed else ()
    return next((row for row in rows if row.supporting), None)
