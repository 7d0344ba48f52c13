"""Answers from what was weighed and read: reasons for and against, certainty, what is missing, lines of the source."""

from __future__ import annotations

import re

from agent.case import Case
from agent.grounding import exists
from agent.models.playbook.answer import cited, composed, leading, sources_of
from agent.models.playbook.operating import looks
from agent.models.playbook.seen import said_of
from transcripts.parts import HypothesisRow, ReasonRow

LINES_SHOWN = 8
OTHERS_SHOWN = 3


def log_line(case: Case, _found: re.Match[str]) -> str:
    """The very lines that the leading explanation rests on."""
    first = leading(case)
    lines = []
    for source in sources_of(first.supporting if first else ()):
        name, _, number = source.partition(":")
        evidence = case.evidence.get(name)
        if evidence is not None and number.isdigit() and exists(source, case):
            quoted = evidence.text.splitlines()[int(number) - 1].strip()
            lines.append(f"{evidence.probe}, line {number}: “{quoted[:300]}” [{source}].")
    return "\n".join(dict.fromkeys(lines))


def research(case: Case, _found: re.Match[str]) -> str:
    lines = [
        f"{finding.subject}: {citation.path}:{citation.line}: “{citation.quote[:160]}” [{citation.id}]."
        for finding in case.findings
        for citation in finding.citations
        if citation.checked
    ]
    for task in case.tasks.values():
        if not lines and task.status != "completed":
            return cited(
                f"Task {task.id} ({task.description}) ended as {task.status}, so it has read nothing",
                looks(case),
                case,
            )
    left = len(lines) - LINES_SHOWN
    where = f"{left} more lines of the source were read: `sglscout writeup {case.opened.id}` quotes them all"
    return "\n".join([*lines[:LINES_SHOWN], *([cited(where, list(case.citations), case)] if left > 0 else [])])


def why(case: Case, found: re.Match[str]) -> str:
    """Reasons for and against the explanation that was named, else for the leading one."""
    row = _named(case, found.string) or leading(case)
    if row is None:
        return ""
    lines = [_reason("For", row, number, reason, case) for number, reason in enumerate(row.supporting)]
    lines += [_reason("Against", row, number, reason, case) for number, reason in enumerate(row.against)]
    return "\n".join(line for line in lines if line)


def _reason(side: str, row: HypothesisRow, number: int, reason: ReasonRow, case: Case) -> str:
    """A reason as a sentence; the explanation is named with the first."""
    return cited(f"{side} {'it' if number else _title(row)}: {reason.text}", reason.source, case)


def wrong(case: Case, _found: re.Match[str]) -> str:
    """What would speak against the verdict: what it rests on, what the change would show, and the rival."""
    weighed, first = case.weighed, leading(case)
    if weighed is None or first is None:
        return ""
    named = sources_of(first.supporting)
    held = f"What is held for the cause: {first.statement.rstrip('.')} (certainty {weighed.certainty:.2f})"
    lines = [cited(held, named, case)]
    if first.would_settle:
        lines.append(cited(f"What tests it: {first.would_settle}", named, case))
    advised = case.advised if case.advised and case.advised.changes else None
    told = [f"after the change, {row['metric']}: {row['worse']}" for row in (advised.verify if advised else ())]
    told += [f"a next boot that does not print {row['what']}" for row in (advised.expected if advised else ())]
    lines += [cited(f"Against it would speak: {each}", named, case) for each in told]
    rival = next((row for row in weighed.hypotheses if row is not first and row.supporting), None)
    if rival is not None:
        text = f"The next explanation would be {_title(rival)}: {rival.supporting[0].text}"
        lines.append(cited(text, rival.supporting[0].source, case))
    return "\n".join(lines)


def _named(case: Case, text: str) -> HypothesisRow | None:
    rows = case.weighed.hypotheses if case.weighed else ()
    for row in rows:
        words = row.label.rpartition(".")[2].replace("_", " ")
        if row.id.lower() in text.split() or words in text or row.label in text:
            return row
    keys = {"pool": "kv_pool_too_small", "slot": "spec_default", "prefix": "working_set", "admission": "admission"}
    wanted = next((label for key, label in keys.items() if key in text), None)
    return next((row for row in rows if wanted and wanted in row.label), None)


def _title(row: HypothesisRow) -> str:
    return f"{row.id} {row.label} ({row.status}, {row.weight:+.1f})"


def certainty(case: Case, _found: re.Match[str]) -> str:
    weighed, first = case.weighed, leading(case)
    if weighed is None or first is None:
        return ""
    text = f"The verdict is {weighed.kind} {weighed.label} with certainty {weighed.certainty:.2f}"
    second = next((row for row in weighed.hypotheses if row is not first and row.supporting), None)
    if second is not None:
        text += f"; next comes {_title(second)}"
    return cited(text, sources_of(first.supporting), case)


def missing(case: Case, _found: re.Match[str]) -> str:
    weighed = case.weighed
    listed = [text.rstrip(".") for text in (*weighed.missing, *weighed.not_checked)] if weighed else []
    text = "; ".join(dict.fromkeys(listed)) or "nothing that would change the verdict"
    return cited(f"Still missing: {text}", looks(case), case)


def claims(case: Case, _found: re.Match[str]) -> str:
    return "\n".join(
        cited(f"“{claim.text}” is {claim.verdict}: {claim.why}", claim.evidence or looks(case), case)
        for claim in case.claims
    )


def why_limit(case: Case, _found: re.Match[str]) -> str:
    lines = [line for name in ("spec_default_reset", "running_limit") for line in said_of(case, name)]
    lines += [
        f"{citation.path}:{citation.line}: “{citation.quote}” [{citation.id}]."
        for citation in case.citations.values()
        if "max_running_requests" in citation.quote and citation.checked
    ]
    return "\n".join(dict.fromkeys(lines))


def suspect(case: Case, found: re.Match[str]) -> str:
    """Whether anything speaks for a part that was named: network, disk, CPU, driver."""
    word = found[1]
    rows = case.weighed.hypotheses if case.weighed else ()
    about = [row for row in rows if word in f"{row.label} {row.statement}".lower().replace("_", " ")]
    for row in about[:1]:
        reasons = row.supporting or row.against
        told = "; ".join(reason.text for reason in reasons) or "nothing speaks for or against it"
        named = sources_of(reasons)
        return cited(f"{_title(row)}: {told}", named or looks(case), case)
    weighed = f"none of the {len(rows)} explanations that something speaks for or against is about it"
    return cited(f"Nothing that was looked at points at {word}: {weighed}", looks(case), case)


def upgrade(case: Case, _found: re.Match[str]) -> str:
    """Whether a newer version is part of the answer."""
    version = case.facts.get("version")
    changes = [each for each in (case.advised.changes if case.advised else ()) if each["kind"] == "upgrade"]
    for each in changes:
        return cited(f"Yes: upgrade to {each['to'] or 'a newer version'}: {each['why']}", each["evidence"], case)
    rows = case.weighed.hypotheses if case.weighed else ()
    of_version = [row for row in rows if row.label.startswith("version.") and row.supporting]
    lines = [
        cited(f"{_title(row)}: {row.supporting[0].text}", row.supporting[0].source, case) for row in of_version[:2]
    ]
    if version is not None:
        compares = f"`sglscout upgrade {version.value} NEWER` lists what would change for this command"
        lines.insert(0, cited(f"Nothing that is recommended needs a newer version; {compares}", [version.source], case))
    return "\n".join(line for line in lines if line)


def cause(case: Case, _found: re.Match[str]) -> str:
    return "\n".join(composed(case).splitlines()[:3])


def others(case: Case, _found: re.Match[str]) -> str:
    """The explanations beside the leading one: those still open with their reasons, then those ruled out."""
    weighed, first = case.weighed, leading(case)
    if weighed is None:
        return ""
    rest = [row for row in weighed.hypotheses if row is not first]
    lines = []
    for row in [row for row in rest if row.status != "refuted" and row.supporting][:OTHERS_SHOWN]:
        text = f"{_title(row)}: {row.statement.rstrip('.')}; for it: {row.supporting[0].text}"
        lines.append(cited(text, row.supporting[0].source, case))
    refuted = [row for row in rest if row.status == "refuted" and row.against]
    if refuted:
        names = ", ".join(row.label for row in refuted)
        lines.append(cited(f"Ruled out: {names}", [ref for row in refuted for ref in row.against[0].source], case))
    unseen = "; ".join(text.rstrip(".") for text in weighed.not_checked)
    if unseen:
        lines.append(cited(f"Not checked: {unseen}", looks(case), case))
    return "\n".join(lines) or cited("Nothing else that was looked at points anywhere", looks(case), case)


def which_part(case: Case, _found: re.Match[str]) -> str:
    """Whether the model, the server, the host or a client is at fault: the cause, and where its change is made."""
    weighed, first = case.weighed, leading(case)
    if weighed is None or first is None:
        return ""
    named = sources_of(first.supporting)
    found = "What was found" if weighed.kind == "cause" else "Not decided yet; the strongest lead"
    lines = [cited(f"{found}: {first.statement.rstrip('.')} ({first.label})", named, case)]
    for each in case.advised.changes if case.advised else ():
        where = PLACES.get(each["kind"], "how the server is launched")
        lines.append(cited(f"What changes it is {each['flag']}, in {where}", each["evidence"], case))
    return "\n".join(lines)


PLACES = {
    "flag": "the launch command of the server, not in the model or a client",
    "env": "the environment of the server, not in the model or a client",
    "container": "the container that runs the server",
    "host": "the host under the server",
    "upgrade": "the version of SGLang",
}


def other_version(case: Case, found: re.Match[str]) -> str:
    """A question about another version than the deployed one: what was checked, and what would check the other."""
    version = case.facts.get("version")
    if version is None or found[1] == version.value:
        return ""
    lines = [
        cited(f"Everything was checked against {version.value}, which runs here, not against {found[1]}",
              [version.source], case)
    ]  # fmt: skip
    flags = [each["flag"] for each in (case.advised.changes if case.advised else ()) if each["kind"] == "flag"]
    named = re.findall(r"--[a-z][a-z0-9-]+", found.string)
    for flag in dict.fromkeys(named or flags):
        look = f"`sglscout flags {flag.lstrip('-')} --version {found[1]}` tells whether {flag} is there"
        lines.append(cited(look, [version.source], case))
    compares = f"`sglscout upgrade {version.value} {found[1]}` lists what changes between them"
    return "\n".join([*lines, cited(compares, [version.source], case)])
