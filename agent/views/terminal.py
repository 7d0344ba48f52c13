"""The document as a terminal shows it: the answer, the change and its commands, then the proof. 80 columns or more,
with or without colour."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from rich.console import Console

from agent.views import layout
from agent.views.layout import Line, Page, PlainConsole, columned, item, paragraph
from agent.views.layout import table as table
from agent.views.words import BRACKETED, listed, plural, sentence, without_references
from agent.views.words import amount as amount
from agent.views.words import change_line as change_line

Json = dict[str, Any]
Part = Callable[[Json, int], list[Line]]
REFERENCES_SHOWN: Final = 3
OPTIONS_SHOWN: Final = 9
SMALL_GIB: Final = 0.1
ASKED_ALIKE: Final = 40
_STYLES: Final = {"cause": "bold green", "healthy": "bold green", "abstain": "bold yellow"}
_VERDICTS: Final = {"supported": "holds", "contradicted": "does not hold", "untestable": "cannot be tested"}


def render(document: Json) -> Page:
    """Everything an operator reads after a diagnosis, most needed first."""
    parts: tuple[Part, ...] = (
        _verdict,
        _changes,
        _apply,
        _check,
        _roll_back,
        _answer,
        _not_known,
        _hypotheses,
        _options,
        _memory,
        _arithmetic,
        _looked,
        _next,
    )
    return Page(lambda width: [line for made in parts for line in made(document, width)])


def part(document: Json, wanted: str) -> Page | None:
    """One part of it: `hypotheses`, `options` or `changes`."""
    made: Part = {"hypotheses": _hypotheses, "options": _options, "changes": _changes}[wanted]
    return Page(lambda width: made(document, width)) if made(document, layout.WIDEST) else None


def console(*, stderr: bool = False) -> Console:
    """A console that is plain where it must be: piped, NO_COLOR, TERM=dumb."""
    return PlainConsole(stderr=stderr, highlight=False, soft_wrap=False)


def headline(document: Json) -> str:
    """The verdict in one sentence of plain words."""
    diagnosis = document["diagnosis"]
    if diagnosis["kind"] == "healthy":
        return "Nothing wrong was found."
    first = next((row for row in document["hypotheses"] if row["status"] != "refuted" and row["reasons_for"]), None)
    if first is None:
        return "Not decided yet: too little was seen."
    if diagnosis["kind"] == "abstain":
        return sentence(f"Not decided yet; the strongest lead: {first['statement']}")
    return sentence(first["statement"])


def unknown(document: Json) -> list[str]:
    """What was not looked at or found, each once, where `missing` does not name it already."""
    missing = [text.rstrip(".").lower() for text in document["diagnosis"]["missing"]]
    return [text for text in document["diagnosis"]["not_checked"] if text.rstrip(".").lower() not in missing]


def _titled(title: str, lines: list[Line]) -> list[Line]:
    return [Line(""), Line(title, "bold"), *lines] if lines else []


def _verdict(document: Json, width: int) -> list[Line]:
    diagnosis, target = document["diagnosis"], document["target"]
    said = f"{diagnosis['label'] or diagnosis['kind']}, certainty {diagnosis['certainty']:.2f}"
    gpus = [f"{gpu['count']} x {gpu['name']} ({gpu['memory_mib']:,} MiB each)" for gpu in target["gpus"]]
    seen = [f"{target['host']}: SGLang {target['version'] or 'of unknown version'}", target["model"], *gpus]
    return [
        Line(""),
        *paragraph(headline(document), width, style=_STYLES[diagnosis["kind"]]),
        *paragraph(said, width),
        *paragraph(", ".join(each for each in seen if each), width, style="dim"),
    ]


def _changes(document: Json, width: int) -> list[Line]:
    lines: list[Line] = []
    for change in document["changes"]:
        valid = change.get("valid")
        proof = (
            f"valid in {valid['in']} ({valid['at']}), its rules {valid['rules']}"
            if valid
            else "checked as far as its kind can be"
        )
        lines += paragraph(change_line(change), width, 2, 4, "bold")
        lines += paragraph(_why(change["why"], change["evidence"]), width, 4)
        lines += paragraph(proof, width, 4)
        if not change["confirmed"]:
            lines += paragraph("NOT CONFIRMED on a live host", width, 4, style="yellow")
    for refused in document["refused"]:
        lines += paragraph(f"not taken: {refused['what']}: {refused['reason']}", width, 2, 4, "dim")
    return _titled("Change", lines)


def _apply(document: Json, width: int) -> list[Line]:
    lines: list[Line] = []
    for number, stage in enumerate(document["stages"], 1):
        lines += paragraph(f"{number}. {sentence(stage['title'])}", width, 2, 3)
        lines += paragraph(stage["cost"], width, 5) if stage["cost"] else []
        lines += [Line(""), *layout.commands(stage["commands"])] if stage["commands"] else []
    return _titled("Apply", lines)


def _check(document: Json, width: int) -> list[Line]:
    lines: list[Line] = []
    for expected in document["expected"]:
        lines += item(f"expect {expected['what']} ({expected['where']})", width)
    for watch in document["verify"]:
        minutes = watch["window_s"] // 60
        lines += item(
            f"watch {watch['metric']} for {minutes} min: better is {watch['better']}, worse is {watch['worse']}", width
        )
    for rule in document["must_not"]:
        lines += item(f"do not {rule['do']} {rule['flag']}: {rule['why']}", width)
    if document["changes"] and lines:
        lines += item(f"then run: {document['ids']['verify']}", width)
    return _titled("Check" if document["changes"] else "Keep in mind", lines)


def _roll_back(document: Json, width: int) -> list[Line]:
    rollback = document["rollback"]
    if not rollback.get("commands"):
        return []
    when = rolled_back_when(document)
    lines = paragraph(f"When: {'; '.join(when)}.", width, 2) if when else []
    return _titled("Roll back", [*lines, Line(""), *layout.commands(rollback["commands"])])


def rolled_back_when(document: Json) -> list[str]:
    """Each reason to roll back with what it is measured on."""
    named = {watch["worse"]: f"{watch['metric']}: {watch['worse']}" for watch in document["verify"]}
    stages = [each for stage in document["stages"] for each in (stage.get("rollback") or {}).get("when", ())]
    return list(dict.fromkeys(named.get(each, each) for each in (*document["rollback"].get("when", ()), *stages)))


def _answer(document: Json, width: int) -> list[Line]:
    """What the answer says beside the change, and each claim that it does not judge."""
    lines: list[Line] = []
    flags = [change["flag"] for change in document["changes"]]
    said = " ".join(spoken["text"] for spoken in document["answer"])
    leading = [row["statement"].rstrip(".") for row in document["hypotheses"][:1] if row["reasons_for"]]
    for spoken in document["answer"]:
        text = spoken["text"]
        if text.startswith("Change: ") and any(flag in text for flag in flags):
            continue
        if any(text.startswith(statement) for statement in leading):
            continue  # the headline; its reasons stand under `Why`
        unsupported = not spoken["supported"] and "(unsupported)" not in text
        lines += item(_fewer(text) + (" (unsupported)" if unsupported else ""), width)
    for claim in document["claims"]:
        if claim["text"] not in said:
            verdict = f"“{claim['text']}” {_VERDICTS[claim['verdict']]}: {claim['why']}"
            lines += item(_why(verdict, claim["evidence"]), width)
    for alternative in document["alternatives"]:
        lines += item(f"not chosen: {alternative['what']}: {alternative['why_not']}", width)
    return _titled("Answer", lines)


def _not_known(document: Json, width: int) -> list[Line]:
    diagnosis = document["diagnosis"]
    lines: list[Line] = []
    if diagnosis["kind"] == "abstain":
        for text in diagnosis["missing"]:
            lines += item(text, width)
    for text in unknown(document):
        lines += item(f"not checked: {text}", width)
    return _titled("Not known", lines)


def _hypotheses(document: Json, width: int) -> list[Line]:
    """Those that something speaks for; the rest, which nobody raised, in one line."""
    lines: list[Line] = []
    raised = [row for row in document["hypotheses"] if row["reasons_for"]]
    asked = " ".join(document["diagnosis"]["missing"]) if document["diagnosis"]["kind"] == "abstain" else ""
    for row in raised[:6]:
        lines += paragraph(f"{row['label']}: {row['status']}, weight {row['weight']:+.1f}", width, 2, 4)
        for reason in row["reasons_for"][:4]:
            lines += item(_why(reason["text"], reason["source"]), width, 4, "+")
        for reason in row["reasons_against"][:3]:
            lines += item(_why(reason["text"], reason["source"]), width, 4, "-")
        if row["status"] == "open" and row["would_settle"] and row["would_settle"][:ASKED_ALIKE] not in asked:
            lines += item(row["would_settle"], width, 4, "?")
    ruled_out = [row["label"] for row in document["hypotheses"] if not row["reasons_for"]]
    if lines and ruled_out:
        lines += paragraph(f"ruled out: {', '.join(ruled_out)}", width, 2, 4, "dim")
    return _titled("Why: for (+), against (-), would settle (?)", lines)


def _options(document: Json, width: int) -> list[Line]:
    """The options that matter side by side; what each risks stands under the table, where there is room for it."""
    measured = [option for option in document["options"] if option.get("running_factor") is not None]
    shown = sorted(measured, key=lambda option: (bool(option.get("combined")), not option.get("answers")))
    shown = shown[:OPTIONS_SHOWN]
    rows = [
        [
            option["name"],
            f"{option['running_factor']:.2f}x",
            amount(option["running"]) if option.get("running") else "",
            amount(option["prefix_tokens"]) if option.get("prefix_tokens") else "",
            amount(option["host_gb"]) if option.get("host_gb") else "",
            "does not fit" if option.get("fits") is False else ("restart" if option.get("restart") else "nothing"),
        ]
        for option in shown
    ]
    names = ["option", "GPU pool", "running", "prefix tokens", "host GB", "takes"]
    lines = columned(names, rows, width, indent=2, right=[False, True, True, True, True, False]) if rows else []
    if len(measured) > len(shown):
        lines += paragraph(f"and {plural(len(measured) - len(shown), 'combination')}: see --json", width, 2)
    for owners, said in _risks(shown):
        lines += item(f"{owners}: {said}", width)
    for text in told_options(document["options"]):
        lines += item(text, width)
    for text in document["contradictions"]:
        lines += item(f"findings disagree: {text}", width)
    return _titled("Options", lines)


def _risks(options: list[Json]) -> list[tuple[str, str]]:
    """What each option risks or runs into; what several share is said once."""
    owners: dict[str, list[str]] = {}
    for option in options:
        for text in (option.get("why_not"), option.get("risk")):
            for piece in (text or "").split("; "):
                if piece:
                    owners.setdefault(piece, []).append(option["name"])
    said: dict[str, list[str]] = {}
    for piece, names in owners.items():
        said.setdefault("; ".join(_together(names)), []).append(piece)
    return [(names, "; ".join(pieces)) for names, pieces in said.items()]


def _together(names: list[str]) -> list[str]:
    """`DP attention, dp 2`, `… dp 4` as `DP attention, dp 2, dp 4`."""
    groups: dict[str, list[str]] = {}
    for name in names:
        family, _, member = name.partition(", ")
        groups.setdefault(family, []).append(member)
    return [", ".join([family, *filter(None, members)]) for family, members in groups.items()]


def told_options(options: Iterable[Json]) -> list[str]:
    """Options that only the source tells of, a line each; flags that only tune another option in one line."""
    told = [option for option in options if option.get("running_factor") is None and option.get("does")]
    tuning = [option["name"] for option in told if option["name"].startswith("--hicache-")]
    lines = []
    for option in told:
        if option["name"] not in tuning:
            limit = f"; {option['risk']}" if option.get("risk") else ""
            lines.append(f"{option['name']}: {option['does']}{limit}")
    return [*lines, f"flags that tune HiCache: {', '.join(tuning)}"] if tuning else lines


def _memory(document: Json, width: int) -> list[Line]:
    """The steps from the card to what is free; those too small to matter in one row."""
    if not document["memory"]:
        return []
    large = [step for step in document["memory"] if step["gib"] >= SMALL_GIB]
    small = [step for step in document["memory"] if step["gib"] < SMALL_GIB]
    rows: list[list[str]] = []
    told: set[str] = set()
    for step in large:
        why = "as above" if step["why_not_spare"] in told else step["why_not_spare"]
        told.add(step["why_not_spare"])
        rows.append([step["name"], f"{step['gib']:.2f}", step["grade"], _why(why, [step["source"]])])
    if small:
        whole = sum(step["gib"] for step in small)
        rows.insert(-1, ["small parts", f"{whole:.2f}", "derived", listed([step["name"] for step in small])])
    lines = columned(
        ["one GPU", "GiB", "known", "why it is not spare"], rows, width, indent=2, right=[False, True, False, False]
    )
    return _titled("Memory of one GPU, step by step", lines)


def _arithmetic(document: Json, width: int) -> list[Line]:
    """A sum a line: name = formula = value, inputs, where they stand. Those of the change, if it has any."""
    rows = [row for row in document["arithmetic"] if row.get("for_change") or row["name"] == "host_total"]
    rows = rows if any(row.get("for_change") for row in rows) else document["arithmetic"]
    lines: list[Line] = []
    for row in rows:
        inputs = ", ".join(f"{name} {amount(value)}" for name, value in row["inputs"].items())
        limit = f"; limit {amount(row['limit'])} ({row['limit_from']})" if row.get("limit") is not None else ""
        span = f"; {amount(row['range'][0])} to {amount(row['range'][1])}" if row.get("range") else ""
        text = f"{row['name']} = {row['expression']} = {amount(row['value'])} {row['unit']}"
        lines += item(_why(f"{text} ({row['grade']}: {inputs}{span}{limit})", row.get("evidence", ())), width)
    left = len(document["arithmetic"]) - len(rows)
    lines += paragraph(f"and {plural(left, 'more sum')}: see the write-up", width, 2) if left else []
    return _titled("Arithmetic", lines)


def _looked(document: Json, width: int) -> list[Line]:
    """What was asked of the host and of the source, and what came of it."""
    seen = [each for each in document["evidence"] if not each["problem"]]
    lost = [each for each in document["evidence"] if each["problem"] not in ("", "skipped", "missing")]
    text = f"{plural(len(seen), 'look')} brought evidence, {plural(len(document['facts']), 'fact')} were read"
    text += "".join(f"; {each['probe']}: {each['problem']}" for each in lost)
    lines = paragraph(text, width, 2, 2)
    if document["target"]["source"]:
        origin = document["target"]["source"].split()
        lines += paragraph(f"source: {' '.join(origin[:2])} {origin[-1][:19]}", width, 2, 2)
    rows = [
        [task["id"], task["description"], task["status"], f"{task['citations_checked']} of {task['citations']}"]
        for task in document["tasks"]
    ]
    if rows:
        names = ["research task", "about", "status", "citations hold"]
        lines += [Line(""), *columned(names, rows, width, indent=2, whole=[True, False, True, False])]
    return _titled("Looked at", lines)


def _next(document: Json, width: int) -> list[Line]:
    ids = document["ids"]
    told = [("ask more", ids["ask"]), ("write up", ids["writeup"]), ("verify", ids["verify"])]
    told += [("one task", command) for command in ids["resume_task"]]
    lines = [Line(f"  {name:<9} {command}") for name, command in told if name != "verify" or document["changes"]]
    return _titled(f"Go on with session {ids['session']}", lines)


def _why(text: str, sources: Iterable[str]) -> str:
    named = [source for source in sources if source]
    return _fewer(f"{without_references(text)} [{', '.join(named)}]") if named else _fewer(text)


def _fewer(text: str) -> str:
    """Long rows of references cut to the first few; the write-up has them all."""

    def shorter(found: re.Match[str]) -> str:
        named = [name.strip() for name in found[1].split(",")]
        more = len(named) - REFERENCES_SHOWN
        return f" [{', '.join(named[:REFERENCES_SHOWN])}{f' +{more}' if more > 0 else ''}]"

    return BRACKETED.sub(shorter, text)
