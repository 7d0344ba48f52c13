"""The first screen: what was asked, the answer, the cause, the change and its price, in 24 lines of 80 columns.

Whatever is left out here stands below it (`terminal.py`) and in the write-up, with what it rests on.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import shorten
from typing import Any, Final

from agent.views.layout import Line, paragraph
from agent.views.words import VERDICTS, amount, change_told, listed, measured, plural, sentence
from tools.spoken import HICACHE

Json = dict[str, Any]
LABEL: Final = 10
ASKED: Final = 200
CLAIM: Final = 150
ANSWER: Final = 310
CHANGES: Final = 3
CAUSE: Final = 240
COST: Final = 140
RISK: Final = 130
LEFT_OUT: Final = " …"
STYLES: Final = {"cause": "bold green", "healthy": "bold green", "abstain": "bold yellow"}
_COMMANDS: Final = frozenset({"Look", "Then"})
_WEIGHTIEST: Final = ("contradicted", "supported", "untestable")


def first_screen(document: Json, width: int) -> list[Line]:
    """What an operator must know before anything else, then the ids and the commands to go on with."""
    lines = [Line("")]
    for label, text, style in _rows(document):
        lines += _row(label, text, width, style)
    ids = document["ids"]
    told = [("ask more", ids["ask"]), ("write up", ids["writeup"])]
    told += [("verify", ids["verify"])] if ids["verify"] else []
    lines.append(Line(f"Session   {ids['session']}", "bold"))
    return [*lines, *(Line(f"{name:<{LABEL}}{command}") for name, command in told)]


def anew(document: Json, before: Json, width: int) -> list[Line]:
    """What of the first screen differs after a case was weighed once more; what stands as it was is not told twice."""
    told, now = list(_rows(before)), list(_rows(document))
    lines = [Line("")]
    for label, text, style in now:
        if (label, text) not in {(label, text) for label, text, _ in told}:
            lines += _row(label, text, width, style)
    gone = [label for label, *_ in told if label not in {label for label, *_ in now}]
    over = f"no longer: {', '.join(gone).lower()}; " if gone else ""
    return [*lines, *_row("", f"The case was weighed anew; {over}all else stands as before.", width, "dim")]


def headline(document: Json) -> str:
    """The verdict in one sentence of plain words."""
    diagnosis = document["diagnosis"]
    if not document["target"]["found"]:
        return f"No SGLang found {where(document)}."
    if diagnosis["kind"] == "healthy":
        return "Nothing wrong was found."
    if _certain(diagnosis):
        return sentence(diagnosis["failed"]["means"])
    first = next((row for row in document["hypotheses"] if row["status"] != "refuted" and row["reasons_for"]), None)
    if first is None:
        return "Not decided yet: too little was seen" + (" beside the failure." if diagnosis["failed"] else ".")
    if diagnosis["kind"] == "abstain":
        return sentence(f"Not decided yet; the strongest lead: {first['statement']}")
    return sentence(first["statement"])


def where(document: Json) -> str:
    """`on gpu1`, or `in crash.log` where there is no host."""
    target = document["target"]
    return f"{'in' if target['kind'] == 'bundle' else 'on'} {target['host'] or 'the host'}"


def hicache_in_short(option: Json) -> str:
    """One HiCache row of the options as half a sentence, with its figures; what does not fit brings nothing."""
    takes = f"{option['name']}: {amount(option['host_gb'])} GB of host RAM, which "
    if not option["fits"]:
        return f"{takes}does not fit"
    return (
        f"{takes}fits; {option['prefix_factor']:.1f}x the prefix tokens, "
        f"running requests {option['running_factor']:.2f}x"
    )


def _row(label: str, text: str, width: int, style: str) -> list[Line]:
    """Text beside its label, later lines under the first; a command stays in one line."""
    folded = [Line(text, style)] if label in _COMMANDS else paragraph(text, width - LABEL, style=style)
    return [
        Line(f"{label if number == 0 else '':<{LABEL}}{line.text}", line.style) for number, line in enumerate(folded)
    ]


def _rows(document: Json) -> Iterator[tuple[str, str, str]]:
    diagnosis = document["diagnosis"]
    yield "Asked", _cut(document["complaint"], ASKED), "dim"
    if document["told"]:
        yield "Told", _told(document["told"]), "dim"
    if document["state"] == "stopped":
        yield "Stopped", f"before its end; `sglscout resume {document['id']}` goes on with it.", STYLES["abstain"]
    if document["damage"]:
        yield "Damaged", _cut(f"the transcript: {'; '.join(document['damage'])}", CAUSE), STYLES["abstain"]
    if not document["target"]["found"]:
        yield "Answer", headline(document), STYLES["abstain"]
        yield from _failed(diagnosis["failed"])
        yield "Seen", _seen_instead(document), ""
        if not diagnosis["failed"]:
            yield "Do", _do_where_nothing_is(document), ""
        return
    answered = " ".join(_asked(document))
    if answered:
        yield "Answer", answered, ""
    yield "Cause", f"{_cut(headline(document), CAUSE)} {_certainty(diagnosis)}", STYLES[diagnosis["kind"]]
    if diagnosis["kind"] == "abstain":
        yield from _failed(diagnosis["failed"])
        if not _certain(diagnosis):
            yield from _undecided(diagnosis)
    yield from _change(document)
    target = document["target"]
    version = f"SGLang {target['version']}" if target["version"] else "SGLang of unknown version"
    gpus = [f"{gpu['count']} x {gpu['name']}" for gpu in target["gpus"]]
    yield "Server", ", ".join(filter(None, [target["host"], version, target["model"], *gpus])), "dim"


def _told(told: list[Json]) -> str:
    """What the operator says has to stay, and the last statement; a figure of it that was measured is no belief."""
    shown = [each for each in told if each is told[-1] or each.get("stays")]
    room = max(CLAIM // len(shown), CLAIM // 4)
    text = ", ".join(f"“{_cut(each['text'], room)}” [{each['evidence']}]" for each in shown)
    text += ": your word, weighed as such"
    for fact in told[-1]["measured"][:1]:
        name, value = measured(fact["name"], fact["value"], fact["unit"])
        text += f"; {name} was measured and counts: {value} [{fact['from']}]"
    return f"{text}."


def _asked(document: Json) -> Iterator[str]:
    """The options that were asked for, then what was taken for granted, judged; as much as three lines hold."""
    options = [option for option in document["options"] if option.get("answers")][:1]
    about_ram = bool(options)
    ranked = sorted(
        document["claims"],
        key=lambda claim: (about_ram and "RAM" not in claim["text"], _WEIGHTIEST.index(claim["verdict"])),
    )
    said = [_about_ram(option, document) for option in options]
    said += [f"“{claim['text']}” {VERDICTS[claim['verdict']]}: {claim['why']}" for claim in ranked]
    room = ANSWER
    for number, text in enumerate(said):
        if number and len(text) > room:
            return
        room -= len(text)
        yield _cut(text, CLAIM) + "."


def _about_ram(asked: Json, document: Json) -> str:
    """The option that was asked for; the largest that fits where it does not; and whether it is what is changed."""
    text = hicache_in_short(asked)
    if not asked["fits"]:
        smaller = [row for row in document["options"] if row.get("prefix_factor") and row["fits"] and row is not asked]
        text += f"; {smaller[0]['name'].partition(', ')[2]} does" if smaller else "; no ratio above 1 does"
    if document["changes"] and all(change["flag"] != HICACHE for change in document["changes"]):
        text += "; not the change that helps here"
    return text


def _certain(diagnosis: Json) -> bool:
    """Whether the line of the failure is the cause; documents written before this was told lack it."""
    return bool(diagnosis["failed"].get("certain"))


def _certainty(diagnosis: Json) -> str:
    if _certain(diagnosis):
        return "(named by the failure itself)"
    named = f"{diagnosis['label']}, " if diagnosis["label"] else ""
    return f"({named}certainty {diagnosis['certainty']:.2f})"


def _failed(failed: Json) -> Iterator[tuple[str, str, str]]:
    """The line of the failure, what it means and what to do first."""
    if failed:
        means = "." if failed.get("certain") else f": {failed['means']}."  # the cause says it already
        yield "Failed", f"“{failed['line']}” [{failed['evidence']}]{means}", STYLES["abstain"]
        yield "Do", f"{failed['do']}.", ""


def _undecided(diagnosis: Json) -> Iterator[tuple[str, str, str]]:
    for text in diagnosis["missing"][:1]:
        what, _, look = text.partition("Look: ")
        yield "Settle", _cut(f"{what.strip()} {look}".strip(), CAUSE), ""
    if diagnosis["look"]:
        yield "Look", diagnosis["look"]["command"], ""
        yield "Then", diagnosis["look"]["then"], ""


def _change(document: Json) -> Iterator[tuple[str, str, str]]:
    changes = document["changes"]
    if not changes:
        refused = "; ".join(f"{each['what']}: {each['reason']}" for each in document["refused"][:1])
        if refused:
            yield "Change", _cut(f"none; not taken: {refused}", CAUSE), ""
            yield from _instead(document)
            if not document["target"]["source"]:
                yield "Do", "name the version: the same command with --sglang-version V, or --source PATH", ""
        elif document["diagnosis"]["kind"] == "cause" and document["alternatives"]:
            left = document["alternatives"][0]
            yield "Change", _cut(f"none; not chosen: {left['what']}: {left['why_not']}", CAUSE), ""
        return
    told = [change_told(change) + ("" if change["confirmed"] else ", NOT CONFIRMED") for change in changes[:CHANGES]]
    more = [f"{plural(len(changes) - CHANGES, 'more change')}, below"] if len(changes) > CHANGES else []
    yield "Change", "; ".join([*told, *more]), "bold"
    yield from _instead(document)
    known, left = risk(document)
    if known:
        yield "Risk", known + (f"; {left.count('; ') + 1} more, below" if left else ""), ""
    restarts = [stage for stage in document["stages"] if stage["restart"]]
    without = "no restart" if document["stages"] else "a restart, once what is yours is filled in"
    costs = [stage["cost"] for stage in restarts if stage["cost"]] or [without]
    when = next((f", {stage['held_off']}" for stage in restarts if stage.get("held_off")), "")
    yield "Costs", (f"{plural(len(restarts), 'restart')}{when}. " if restarts else "") + _sentences(costs[0], COST), ""
    watched = [_watch(each) for each in document["verify"][: 1 if known else 2]]
    if watched:
        yield "Watch", "; ".join(watched), ""
    if document["walls"]:
        yield "Next wall", document["walls"][0]["what"], ""


def _watch(row: Json) -> str:
    return f"{row['metric']}, for {row['window_s'] // 60} min: worse is {row['worse']}"


def _instead(document: Json) -> Iterator[tuple[str, str, str]]:
    """What is left where the operator ruled something out; documents of before lack it."""
    option = document.get("instead")
    if option:
        runs = f", {amount(option['running'])} requests run" if option.get("running") else ""
        against = f"; {option['risk']}" if option.get("risk") else ""
        text = f"{option['name']}: {option['running_factor']:.2f}x the pool{runs}{against}"
        yield "Instead", _cut(hicache_in_short(option) if option.get("host_gb") else text, CAUSE), ""


def risk(document: Json) -> tuple[str, str]:
    """What is known against the option that is the change: as many pieces as there is room for, and the others."""
    wanted = {change["flag"] for change in document["changes"]}
    rows = [row for row in document["options"] if {each[0] for each in row.get("changes") or ()} == wanted != set()]
    pieces = next((row["risk"] for row in rows if row.get("risk")), "").split("; ")
    fitting = [number for number in range(2, len(pieces) + 1) if len("; ".join(pieces[:number])) <= RISK]
    shown = max(fitting, default=1)
    return "; ".join(pieces[:shown]), "; ".join(pieces[shown:])


def _seen_instead(document: Json) -> str:
    """What this target has to show, and what of SGLang is not there."""
    if document["target"]["kind"] == "bundle":
        return "no line that a server, its start or its failure is known by"
    gpus = [f"{gpu['count']} x {gpu['name']}" for gpu in document["target"]["gpus"]]
    return f"no process, unit, container or log of SGLang; {listed(gpus) or 'no GPU that nvidia-smi or rocm-smi shows'}"


def _do_where_nothing_is(document: Json) -> str:
    if document["target"]["kind"] == "bundle":
        return "give the server's log from its first line on, or what `sglscout collect` brings"
    return (
        "check the host's name, that the server is started there, and that this login may see its processes; "
        "a server that died leaves a log: give it with --bundle FILE"
    )


def _cut(text: str, characters: int) -> str:
    """The text, or as many whole words of it as there is room for."""
    return shorten(" ".join(text.split()), characters, placeholder=LEFT_OUT)


def _sentences(text: str, characters: int) -> str:
    """As many whole sentences as there is room for, at least one."""
    kept = ""
    for each in text.split(". "):
        said = each if each.endswith(".") else f"{each}."
        if kept and len(kept) + len(said) > characters:
            break
        kept = f"{kept} {said}".strip()
    return kept
