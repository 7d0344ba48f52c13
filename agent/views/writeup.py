"""The write-up as sections of plain blocks, in the order a team reads them on Monday.

Built from the document alone, without clock, locale or terminal: same document, same sections. Markdown and HTML
(`markdown.py`, `html.py`) only dress the blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agent.views.terminal import amount, change_line

Json = dict[str, Any]
Cell = str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A sentence or more; `references` are ids of evidence or citations that the view links."""

    text: str
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Code:
    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture to be drawn by views that can: `memory`, `load` or `host`."""

    kind: str


@dataclass(frozen=True, slots=True)
class Anchor:
    """A small heading that references link to."""

    id: str
    text: str


Block = Paragraph | Table | Code | Picture | Anchor


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    blocks: list[Block] = field(default_factory=list)


def title(document: Json) -> str:
    diagnosis = document["diagnosis"]
    said = {"cause": diagnosis["label"], "healthy": "nothing wrong found", "abstain": "not decided"}[diagnosis["kind"]]
    return f"{document['target']['host'] or 'SGLang server'}: {said}"


def sections(document: Json) -> list[Section]:
    """Every section that has something to say."""
    made = [
        Section("Summary", list(_summary(document))),
        Section("Impact", list(_impact(document))),
        Section("Timeline", list(_timeline(document))),
        Section("What one must know", list(_background(document))),
        Section("What was asked, what was believed, what was the question", list(_framing(document))),
        Section("Evidence", list(_evidence(document))),
        Section("Hypotheses", list(_hypotheses(document))),
        Section("Assumptions", list(_assumptions(document))),
        Section("What was left open", list(_left_open(document))),
        Section("Options", list(_options(document))),
        Section("Decision", list(_decision(document))),
        Section("What is known now", list(_known(document))),
        Section("The change", list(_change(document))),
        Section("Verification", list(_verification(document))),
        Section("Follow-ups", list(_follow_ups(document))),
        Section("Appendix: commands and citations", list(_appendix(document))),
    ]
    return [section for section in made if section.blocks]


def _summary(document: Json) -> Iterator[Block]:
    diagnosis = document["diagnosis"]
    first = document["hypotheses"][0] if document["hypotheses"] else None
    target = document["target"]
    version, model = target["version"] or "of unknown version", target["model"] or "model unknown"
    yield Paragraph(
        f"On {target['host']} (SGLang {version}, {model}) the operator reported: “{document['complaint']}”.",
        (target["version_from"],) if target["version_from"] else (),
    )
    if diagnosis["kind"] == "cause" and first:
        yield Paragraph(f"{first['statement']} (certainty {diagnosis['certainty']:.2f}).", tuple(first["for"]))
    elif diagnosis["kind"] == "healthy":
        yield Paragraph("Nothing wrong was found in what was looked at.")
    else:
        yield Paragraph(f"The evidence does not decide the cause: {diagnosis.get('why') or 'too little was seen'}.")
    if document["changes"]:
        changes = "; ".join(change_line(change) for change in document["changes"])
        yield Paragraph(f"Recommended: {changes}.", tuple(document["changes"][0]["evidence"]))
    else:
        yield Paragraph("No change is recommended yet.")


def _impact(document: Json) -> Iterator[Block]:
    wanted = ("running_p95", "queue_p95", "usage_p50", "retracted_requests", "cached_share")
    rows = tuple(
        (fact["name"], f"{amount(fact['value'])} {fact['unit']}".strip(), fact["grade"], fact["from"])
        for name in wanted
        for fact in document["facts"]
        if fact["name"] == name and not fact.get("scope")
    )
    if rows:
        yield Table(("measure", "value", "known", "from"), rows)
    else:
        yield Paragraph("No figure of the load was seen, so the impact is not known.")


def _timeline(document: Json) -> Iterator[Block]:
    rows = tuple(
        (event["at"].replace("T", " ").rstrip("Z")[:19], event["text"], _span(event["references"]))
        for event in document["timeline"]
    )
    yield Table(("UTC", "what", "evidence"), rows)


def _span(references: list[str]) -> str:
    """`E1` to `E29` for a run of looks, else each by itself."""
    if len(references) > 3:
        return f"{references[0]} to {references[-1]}"
    return ", ".join(references)


def _background(document: Json) -> Iterator[Block]:
    for finding in document["findings"][:4]:
        yield Paragraph(f"{finding['subject']}: {finding['text']}", tuple(finding["citations"]))
    if document["memory"]:
        yield Picture("memory")


def _framing(document: Json) -> Iterator[Block]:
    yield Paragraph(f"Asked: “{document['complaint']}”.")
    if document["claims"]:
        yield Table(
            ("believed", "verdict", "why", "evidence"),
            tuple(
                (claim["text"], claim["verdict"], claim["why"], ", ".join(claim["evidence"]))
                for claim in document["claims"]
            ),
        )


def _evidence(document: Json) -> Iterator[Block]:
    yield Table(
        ("id", "look", "brought"),
        tuple(
            (item["id"], item["probe"], item["problem"] or f"{item['lines']} lines, exit {item['exit']}")
            for item in document["evidence"]
        ),
    )
    yield Picture("load")


def _hypotheses(document: Json) -> Iterator[Block]:
    rows = []
    for row in document["hypotheses"]:
        reasons = [f"for: {reason['text']} [{', '.join(reason['source'])}]" for reason in row["reasons_for"]]
        reasons += [f"against: {reason['text']} [{', '.join(reason['source'])}]" for reason in row["reasons_against"]]
        rows.append((f"{row['id']} {row['label']}", f"{row['status']} ({row['weight']:+.1f})", "; ".join(reasons)))
    if rows:
        yield Table(("hypothesis", "kept or dropped", "why"), tuple(rows))


def _assumptions(document: Json) -> Iterator[Block]:
    rows = tuple(
        (fact["name"], f"{amount(fact['value'])} {fact['unit']}".strip(), fact["grade"], fact["from"])
        for fact in document["facts"]
        if fact["grade"] in ("estimated", "claimed")
    )
    if rows:
        yield Table(("taken for granted", "value", "how it is known", "from"), rows)
    unconfirmed = [change for change in document["changes"] if not change["confirmed"]]
    for change in unconfirmed:
        yield Paragraph(f"Not confirmed on a live host: {change_line(change)}.")


def _left_open(document: Json) -> Iterator[Block]:
    diagnosis = document["diagnosis"]
    for text in diagnosis["missing"]:
        yield Paragraph(f"Missing: {text}")
    for text in diagnosis["not_checked"]:
        yield Paragraph(f"Not checked: {text}")
    for sentence in document["answer"]:
        if not sentence["supported"]:
            yield Paragraph(f"Said without support: {sentence['text']}")
    for refused in document["refused"]:
        yield Paragraph(f"Proposed and refused: {refused['what']}: {refused['reason']}")
    for text in document["contradictions"]:
        yield Paragraph(f"Contradiction between findings: {text}")


def _options(document: Json) -> Iterator[Block]:
    if not document["options"]:
        return
    yield Table(
        ("option", "running", "prefix tokens", "host GB", "fits", "restart", "risk or limit", "evidence"),
        tuple(
            (
                option["name"],
                f"{option['running_factor']:.2f}x" if option.get("running_factor") is not None else "",
                amount(option["prefix_tokens"]) if option.get("prefix_tokens") else "",
                amount(option["host_gb"]) if option.get("host_gb") else "",
                "no" if option.get("fits") is False else "yes",
                "yes" if option.get("restart") else "no",
                option.get("risk") or option.get("why_not") or "",
                ", ".join(option.get("evidence", ())),
            )
            for option in document["options"]
        ),
    )
    yield Picture("host")


def _decision(document: Json) -> Iterator[Block]:
    for sentence in document["answer"]:
        yield Paragraph(sentence["text"])


def _known(document: Json) -> Iterator[Block]:
    rows = tuple(
        (
            item["name"],
            item["expression"],
            ", ".join(f"{name}={amount(value)}" for name, value in item["inputs"].items()),
            f"{amount(item['value'])} {item['unit']}",
            item.get("grade", ""),
        )
        for item in document["arithmetic"]
    )
    if rows:
        yield Table(("sum", "how", "from", "value", "known"), rows)


def _change(document: Json) -> Iterator[Block]:
    for change in document["changes"]:
        valid = change.get("valid")
        proof = f" Valid in {valid['in']} at {valid['at']}, rules {valid['rules']}." if valid else ""
        yield Paragraph(f"{change_line(change)}. {change['why']}.{proof}", tuple(change["evidence"]))
    launch = document["launch"]
    if document["changes"] and launch.get("patch"):
        yield Code(launch["patch"])
    for number, stage in enumerate(document["stages"], 1):
        yield Paragraph(f"{number}. {stage['title']}" + (f": {stage['cost']}" if stage["cost"] else ""))
        if stage["commands"]:
            yield Code("\n".join(stage["commands"]))


def _verification(document: Json) -> Iterator[Block]:
    if document["expected"]:
        yield Table(("expected", "where"), tuple((item["what"], item["where"]) for item in document["expected"]))
    if document["verify"]:
        yield Table(
            ("measure", "minutes", "better", "worse"),
            tuple(
                (item["metric"], str(item["window_s"] // 60), item["better"], item["worse"])
                for item in document["verify"]
            ),
        )
    rollback = document["rollback"]
    if rollback:
        yield Paragraph(f"Roll back when: {', '.join(rollback.get('when', []))}.")
        if rollback.get("commands"):
            yield Code("\n".join(rollback["commands"]))


def _follow_ups(document: Json) -> Iterator[Block]:
    for item in document["must_not"]:
        yield Paragraph(f"Do not {item['do']} {item['flag']}: {item['why']}")
    for item in document["alternatives"]:
        yield Paragraph(f"Considered: {item['what']}. {item['why_not']}")


def _appendix(document: Json) -> Iterator[Block]:
    for item in document["evidence"]:
        yield Anchor(item["id"], f"{item['id']} {item['probe']}")
        yield Code(f"{item['command']}\n# {item['host']} at {item['at']}, exit {item['exit']}, {item['lines']} lines")
    for citation in document["citations"]:
        state = "" if citation["checked"] else " (NOT in the tree)"
        yield Anchor(
            citation["id"], f"{citation['id']} {citation['path']}:{citation['line']} of {citation['version']}{state}"
        )
        yield Code(citation["quote"])
