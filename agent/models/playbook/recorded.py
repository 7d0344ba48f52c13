"""Answers to follow-ups from what the case already records: reasons, citations, the change, facts by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from agent.case import Case
from agent.document import document
from agent.grounding import exists
from agent.models.playbook.answer import cited, composed, leading
from agent.views.words import amount, change_line
from transcripts.facts import Fact
from transcripts.records import HypothesisRow

Handler = Callable[[Case, re.Match[str]], str]


def log_line(case: Case, _found: re.Match[str]) -> str:
    """The very lines that the leading explanation rests on."""
    first = leading(case)
    lines = []
    for source in [source for reason in (first.supporting if first else ()) for source in reason.source]:
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
                list(case.evidence),
                case,
            )
    return "\n".join(lines[:24])


def why(case: Case, found: re.Match[str]) -> str:
    """Reasons for and against the explanation that was named, else for the leading one."""
    row = _named(case, found.string) or leading(case)
    if row is None:
        return ""
    lines = [cited(f"For {_title(row)}: {reason.text}", reason.source, case) for reason in row.supporting]
    lines += [cited(f"Against {_title(row)}: {reason.text}", reason.source, case) for reason in row.against]
    return "\n".join(line for line in lines if line)


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
    return cited(text, [source for reason in first.supporting for source in reason.source], case)


def missing(case: Case, _found: re.Match[str]) -> str:
    weighed = case.weighed
    listed = [*weighed.missing, *weighed.not_checked] if weighed else []
    text = "; ".join(dict.fromkeys(listed)) or "nothing that would change the verdict"
    return cited(f"Still missing: {text}", list(case.evidence), case)


def change(case: Case, _found: re.Match[str]) -> str:
    advised = case.advised
    lines = [
        cited(f"{change_line(change)}, since {change['why']}", change["evidence"], case)
        for change in (advised.changes if advised else ())
    ]
    if advised and lines and advised.launch.get("patch"):
        lines.append(
            f"As a drop-in or command, see /advice or the write-up [{', '.join(advised.changes[0]['evidence'][:2])}]."
        )
    return "\n".join(lines) or cited(
        "No change is recommended, since the cause is not decided", list(case.evidence), case
    )


def rollback(case: Case, _found: re.Match[str]) -> str:
    made = document(case)
    commands = made["rollback"].get("commands", [])
    sources = _change_sources(case)
    return (
        cited(
            f"Roll back with: {'; '.join(commands)}. When: {', '.join(made['rollback'].get('when', []))}", sources, case
        )
        if commands
        else ""
    )


def verify(case: Case, _found: re.Match[str]) -> str:
    made = document(case)
    lines = [f"the next boot should print {item['what']} ({item['where']})" for item in made["expected"]]
    lines += [
        f"watch {item['metric']} for {item['window_s'] // 60} minutes: better {item['better']}, worse {item['worse']}"
        for item in made["verify"]
    ]
    return "\n".join(cited(line, _change_sources(case), case) for line in lines)


def _change_sources(case: Case) -> list[str]:
    advised = case.advised
    return [ref for change in (advised.changes if advised else ()) for ref in change["evidence"]]


def no_restart(case: Case, _found: re.Match[str]) -> str:
    made = document(case)
    live = [stage for stage in made["stages"] if not stage.get("restart")]
    lines = [cited(f"Without a restart: {stage['title']}", list(case.evidence), case) for stage in live]
    if made["changes"]:
        flags = ", ".join(change["flag"] for change in made["changes"])
        lines.append(
            cited(f"{flags} is read at start only, so it waits for the next restart", _change_sources(case), case)
        )
    return "\n".join(line for line in lines if line)


def restart_cost(case: Case, _found: re.Match[str]) -> str:
    fact = case.facts.get("load_seconds")
    if fact is None:
        return cited(
            "What a restart costs is not known: no whole start was seen in the journal", list(case.evidence), case
        )
    return cited(f"The last start took {amount(fact.value)} s from start to ready", [fact.source], case)


def wall(case: Case, _found: re.Match[str]) -> str:
    walls = case.advised.walls if case.advised else ()
    return "\n".join(cited(f"Next: {wall['what']}", wall["evidence"], case) for wall in walls)


def must_not(case: Case, _found: re.Match[str]) -> str:
    advised = case.advised
    refs = _change_sources(case) or list(case.evidence)
    return "\n".join(
        cited(f"Do not {item['do']} {item['flag']}: {item['why']}", refs, case)
        for item in (advised.must_not if advised else ())
    )


def options(case: Case, _found: re.Match[str]) -> str:
    lines = []
    for option in case.compared.options if case.compared else ():
        factor = option.get("running_factor")
        text = option["name"] + (f": {factor:.2f}x running" if factor is not None else "")
        text += f", {amount(option['host_gb'])} GB of host RAM" if option.get("host_gb") else ""
        text += ", does not fit" if option.get("fits") is False else ""
        lines.append(cited(text, option.get("evidence", ()), case))
    return "\n".join(line for line in lines if line)


def option(case: Case, found: re.Match[str]) -> str:
    """What the tree and the sums say about an option that was named."""
    word = _squeezed(found[1]).replace("ktransformers", "kt")
    lines = [
        cited(row["says"], row.get("evidence", ()), case)
        for row in (case.compared.options if case.compared else ())
        if word in _squeezed(row["name"]) and row.get("says")
    ]
    lines += [
        cited(f"{finding.subject}: {finding.text}", [c.id for c in finding.citations], case)
        for finding in case.findings
        if word in _squeezed(f"{finding.subject} {finding.text}")
    ]
    return "\n".join(dict.fromkeys(line for line in lines if line))


def _squeezed(text: str) -> str:
    return text.lower().replace(" ", "").replace("-", "")


def claims(case: Case, _found: re.Match[str]) -> str:
    return "\n".join(
        cited(f"“{claim.text}” is {claim.verdict}: {claim.why}", claim.evidence or list(case.evidence), case)
        for claim in case.claims
    )


def fact(*names: str) -> Handler:
    """The facts of these names as they are known; a fact that was never seen is said to be missing."""

    def handler(case: Case, _found: re.Match[str]) -> str:
        lines = [line for name in names for line in _said(case, name)]
        if lines:
            return "\n".join(lines)
        looked = ", ".join(name.replace("_", " ") for name in names)
        return cited(f"Nothing that was looked at tells {looked}", list(case.evidence), case)

    return handler


def _said(case: Case, name: str) -> Iterator[str]:
    seen: set[tuple[object, str]] = set()
    for fact in reversed(case.facts.all(name)):
        if (fact.value, fact.scope) in seen or len(seen) >= 8:
            continue
        seen.add((fact.value, fact.scope))
        yield cited(_worded(fact), [fact.source], case)


def _worded(fact: Fact) -> str:
    scope = f" ({fact.scope})" if fact.scope else ""
    value = amount(fact.value)
    if fact.unit == "bytes" and isinstance(fact.value, int | float):
        value = f"{fact.value / (1 << 30):,.1f} GiB"
        return f"{fact.name.replace('_', ' ').removesuffix(' bytes')}{scope} is {value}, {fact.grade}"
    return f"{fact.name.replace('_', ' ')}{scope} is {value} {fact.unit}".rstrip() + f", {fact.grade}"


def hicache(case: Case, found: re.Match[str]) -> str:
    lines = [
        cited(option["says"], option.get("evidence", ()), case)
        for option in (case.compared.options if case.compared else ())
        if option.get("answers") and option.get("says")
    ]
    lines += [cited(f"“{c.text}” is {c.verdict}: {c.why}", c.evidence, case) for c in case.claims if "RAM" in c.text]
    return "\n".join(dict.fromkeys(line for line in lines if line)) or option(case, found)


def why_limit(case: Case, _found: re.Match[str]) -> str:
    lines = [line for name in ("spec_default_reset", "running_limit") for line in _said(case, name)]
    lines += [
        f"{citation.path}:{citation.line}: “{citation.quote}” [{citation.id}]."
        for citation in case.citations.values()
        if "max_running_requests" in citation.quote and citation.checked
    ]
    return "\n".join(dict.fromkeys(lines))


def cause(case: Case, _found: re.Match[str]) -> str:
    return "\n".join(composed(case).splitlines()[:3])
