"""The document as a terminal shows it: the first screen, the change and its commands, then the proof. 80 columns or
more, with or without colour."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from agent.views import layout, tables
from agent.views.first import anew, first_screen, risk
from agent.views.layout import Line, Page, columned, item, paragraph
from agent.views.layout import table as table
from agent.views.weighed import facts_weighed, looks_weighed
from agent.views.words import VERDICTS, change_line, checked, fewer, plural, sentence, typed, with_sources

if TYPE_CHECKING:
    from rich.console import Console

Json = dict[str, Any]
Part = Callable[[Json, int, bool], list[Line]]
RAISED_SHOWN: Final = 3
FOR_SHOWN: Final = 3
AGAINST_SHOWN: Final = 2
ALTERNATIVES_SHOWN: Final = 2
WITHOUT_SHOWN: Final = 4
ASKED_ALIKE: Final = 40
_REST: Final = (
    ("/advice", "the commands to apply, check and roll back"),
    ("/why", "the reasons"),
    ("/options", "side by side"),
    ("/evidence", "what was looked at"),
)
_WHY: Final = "Why: for (+), against (-), would settle (?)"
LIVE_SHOWN: Final = 3
FAILED: Final = frozenset({"failed", "limit", "cancelled", "interrupted"})


def render(document: Json, *, whole: bool = False) -> Page:
    """Everything an operator reads after a diagnosis, most needed first; `whole` leaves no row out."""
    parts: tuple[Part, ...] = (
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

    def make(width: int) -> list[Line]:
        details = [line for made in parts for line in made(document, width, whole)]
        return [*first_screen(document, width), *details]

    return Page(make)


def opening(document: Json, before: Json | None = None) -> Page:
    """What a chat shows of a diagnosis: the first screen, and the commands that show the rest.

    After another that was shown `before`: only what is different.
    """
    if before is not None:
        return Page(lambda width: anew(document, before, width))
    told = [each for each in _REST if each[0] != "/advice" or document["changes"]]
    rest = ", ".join(f"{command} {what}" for command, what in told)
    return Page(lambda width: [*first_screen(document, width), Line(""), *paragraph(rest, width, style="dim")])


def spoken(text: str, commands: Iterable[str]) -> Page:
    """An answer in words; commands that stand in it keep their lines, so that they can be taken over."""
    whole = frozenset(commands)

    def make(width: int) -> list[Line]:
        parts = [[Line(line)] if line in whole else layout.told(line)(width) for line in text.split("\n")]
        return [line for part in parts for line in part]

    return Page(make)


def part(document: Json, wanted: str) -> Page | None:
    """One part of it, whole: `hypotheses`, `options` or `changes` (with the commands)."""
    made: tuple[Part, ...] = {
        "hypotheses": (_hypotheses,),
        "options": (_options,),
        "changes": (_changes, _apply, _check, _roll_back),
    }[wanted]

    def make(width: int) -> list[Line]:
        return [line for each in made for line in each(document, width, True)]

    return Page(make) if make(layout.WIDEST) else None


def console(*, stderr: bool = False) -> Console:
    """A console that is plain where it must be: piped, NO_COLOR, TERM=dumb."""
    from agent.views.console import PlainConsole

    return PlainConsole(stderr=stderr, highlight=False, soft_wrap=False)


def still_asked(document: Json) -> list[str]:
    """Of `missing`, what an answer leaves open: not what would settle the cause that is named, or one dropped."""
    missing: list[str] = document["diagnosis"]["missing"]
    named = document["diagnosis"]["label"]
    if not named:
        return missing
    done = [row for row in document["hypotheses"] if row["label"] == named or row["status"] == "refuted"]
    settled = {_bare(row["would_settle"] or "") for row in done}
    return [text for text in missing if _bare(text) not in settled]


def _bare(question: str) -> str:
    """A question without its marks and without where to look."""
    return re.split(r"[?.;]? +look(?: at|:) ", question, maxsplit=1, flags=re.IGNORECASE)[0].rstrip(" ?.")


def unknown(document: Json) -> list[str]:
    """What was not looked at or found, each once, where `missing` does not name it already."""
    missing = [text.rstrip(".").lower() for text in document["diagnosis"]["missing"]]
    return [text for text in document["diagnosis"]["not_checked"] if text.rstrip(".").lower() not in missing]


def _titled(title: str, lines: list[Line]) -> list[Line]:
    return [Line(""), Line(title, "bold"), *lines] if lines else []


def _changes(document: Json, width: int, _whole: bool) -> list[Line]:
    lines: list[Line] = []
    for change in document["changes"]:
        lines += paragraph(change_line(change), width, 2, 4, "bold")
        lines += paragraph(with_sources(change["why"], change["evidence"]), width, 4)
        lines += paragraph(checked(change), width, 4)
        if not change["confirmed"]:
            lines += paragraph("NOT CONFIRMED on a live host", width, 4, style="yellow")
    _, risked = risk(document)
    if risked:
        lines += paragraph(f"also a risk: {risked}", width, 2, 4)
    for refused in document["refused"]:
        lines += paragraph(f"not taken: {refused['what']}: {refused['reason']}", width, 2, 4, "dim")
    return _titled("Change", lines)


def _apply(document: Json, width: int, _whole: bool) -> list[Line]:
    lines: list[Line] = []
    for note in document["launch"].get("notes", ()):
        lines += item(note, width, style="yellow")
    for number, stage in enumerate(document["stages"], 1):
        lines += paragraph(f"{number}. {sentence(stage['title'])}", width, 2, 3)
        lines += paragraph(stage["cost"], width, 5) if stage["cost"] else []
        lines += _to_do(stage["commands"], width)
        if stage["restart"] and not stage["commands"]:
            chosen = [change for change in document["changes"] if change["flag"] in stage["changes"]]
            lines += item(f"in the launch command, which was not seen as a file: {typed(chosen)}", width, 5)
    return _titled("Apply", lines)


def _to_do(commands: list[str], width: int) -> list[Line]:
    """Commands as they must be typed; notes, which are no commands, as a list."""
    notes = [command for command in commands if command.startswith("#") and "\n" not in command]
    if len(notes) < len(commands):
        return [Line(""), *layout.commands(commands)]
    return [line for note in notes for line in item(note.lstrip("# "), width, 5)]


def _check(document: Json, width: int, _whole: bool) -> list[Line]:
    lines: list[Line] = []
    printed: dict[str, list[str]] = {}
    for expected in document["expected"]:
        printed.setdefault(expected["where"], []).append(expected["what"])
    for where, expectations in printed.items():
        lines += item(f"expect {'; '.join(expectations)} ({where})", width)
    for watch in document["verify"]:
        minutes = watch["window_s"] // 60
        lines += item(
            f"watch {watch['metric']} for {minutes} min: better is {watch['better']}, worse is {watch['worse']}", width
        )
    for rule in document["must_not"]:
        lines += item(f"do not {rule['do']} {rule['flag']}: {rule['why']}", width)
    if document["ids"]["verify"]:
        lines += item(f"then run: {document['ids']['verify']}", width)
    for row in document["verified"]:
        lines += item(verified_line(row), width)
    return _titled("Check" if document["changes"] else "Keep in mind", lines)


NOTHING_EXPECTED: Final = (
    "Not verified: the change has no figure that another look could check. See that the server starts and "
    "that what was complained of is gone."
)


def verification(rows: list[Json]) -> Page:
    """What another look found, an expectation an entry; that there was none to hold it against."""
    if not rows:
        return Page(lambda width: paragraph(NOTHING_EXPECTED, width, 0))
    return Page(lambda width: [line for row in rows for line in item(verified_line(row), width, 0)])


def verified_line(row: Json) -> str:
    """One expectation after another look: what came of it, the figures before and after, why."""
    figures = f"before {row['before'] or 'not known'}, now {row['after'] or 'not known'}"
    why = f"; {row['why']}" if row["why"] else ""
    return f"{row['outcome']}: {row['what']} ({figures}{why})"


def _roll_back(document: Json, width: int, _whole: bool) -> list[Line]:
    rollback = document["rollback"]
    if not document["changes"]:
        return []
    when = rolled_back_when(document)
    lines = paragraph(f"When: {'; '.join(when)}.", width, 2) if when else []
    if not rollback.get("commands"):
        back = f"in the launch command, as before: {typed(document['changes'], 'from')}; then start it again"
        return _titled("Roll back", [*lines, *item(back, width)])
    return _titled("Roll back", [*lines, Line(""), *layout.commands(rollback["commands"])])


def rolled_back_when(document: Json) -> list[str]:
    """Each reason to roll back, once."""
    stages = [each for stage in document["stages"] for each in (stage.get("rollback") or {}).get("when", ())]
    return list(dict.fromkeys((*document["rollback"].get("when", ()), *stages)))


def _answer(document: Json, width: int, whole: bool) -> list[Line]:
    """What the answer says beside the change, and each claim that it does not judge."""
    lines: list[Line] = []
    flags = [change["flag"] for change in document["changes"]]
    answer = document["decided"].get("answer", ())
    said = " ".join(spoken["text"] for spoken in answer)
    shown = _shown_elsewhere(document)
    for spoken in answer:
        text = spoken["text"]
        if text.startswith("Change: ") and any(flag in text for flag in flags):
            continue
        if text.startswith(shown):
            continue
        unsupported = not spoken["supported"] and "(unsupported)" not in text
        lines += item(fewer(text) + (" (unsupported)" if unsupported else ""), width)
    for claim in document["claims"]:
        if claim["text"] not in said:
            verdict = f"“{claim['text']}” {VERDICTS[claim['verdict']]}: {claim['why']}"
            lines += item(with_sources(verdict, claim["evidence"]), width)
    alternatives = document["alternatives"]
    for alternative in alternatives if whole else alternatives[:ALTERNATIVES_SHOWN]:
        why = alternative["why_not"] if whole else alternative["why_not"].partition("; ")[0]
        lines += item(f"not chosen: {alternative['what']}: {why}", width)
    return _titled("Answer", lines)


def _shown_elsewhere(document: Json) -> tuple[str, ...]:
    """How sentences of an answer begin that stand on the first screen, under `Not known` or, with reasons, `Why`."""
    leading = [row["statement"].rstrip(".") for row in document["hypotheses"][:LIVE_SHOWN] if row["reasons_for"]]
    if document["diagnosis"]["kind"] != "abstain":
        return (*leading[:1],)
    lead = (f"{start}{each}" for each in leading for start in ("Live: ", "The strongest lead: "))
    failed = [document["diagnosis"]["failed"]["means"]] if document["diagnosis"]["failed"] else []
    look = ["In a busy minute, "] if document["diagnosis"]["look"] else []
    return (
        *lead,
        *failed,
        *look,
        "The evidence does not decide the cause; ",
        "Not checked, since nothing of it was seen",
    )


def _not_known(document: Json, width: int, _whole: bool) -> list[Line]:
    diagnosis = document["diagnosis"]
    lines: list[Line] = []
    if diagnosis["kind"] == "abstain":
        for text in diagnosis["missing"]:
            lines += item(text, width)
    for text in unknown(document):
        lines += item(f"not checked: {text}", width)
    return _titled("Not known", lines)


def reasons(row: Json) -> Page:
    """One hypothesis, also one that nothing speaks for."""
    return Page(lambda width: _titled(_WHY, _hypothesis(row, width, True, "")))


def _hypothesis(row: Json, width: int, whole: bool, asked: str) -> list[Line]:
    """How it stands and why; what would settle it where that is not `asked` elsewhere."""
    name = f"{row['id']} {row['label']}" if whole else row["label"]
    lines = paragraph(f"{name}: {row['status']}, weight {row['weight']:+.1f}", width, 2, 4)
    for reason in row["reasons_for"] if whole else row["reasons_for"][:FOR_SHOWN]:
        lines += item(with_sources(reason["text"], reason["source"]), width, 4, "+")
    for reason in row["reasons_against"] if whole else row["reasons_against"][:AGAINST_SHOWN]:
        lines += item(with_sources(reason["text"], reason["source"]), width, 4, "-")
    if row["status"] == "open" and row["would_settle"] and row["would_settle"][:ASKED_ALIKE] not in asked:
        lines += item(row["would_settle"], width, 4, "?")
    return lines


def _hypotheses(document: Json, width: int, whole: bool) -> list[Line]:
    """Those that something speaks for; the rest in a line."""
    lines: list[Line] = []
    raised = [row for row in document["hypotheses"] if row["reasons_for"]]
    asked = " ".join(document["diagnosis"]["missing"]) if document["diagnosis"]["kind"] == "abstain" else ""
    told = raised if whole else raised[:RAISED_SHOWN]
    for row in told:
        lines += _hypothesis(row, width, whole, asked)
    further = [f"{row['label']} ({row['status']}, {row['weight']:+.1f})" for row in raised[len(told) :]]
    if further:
        lines += paragraph(f"further: {', '.join(further)}", width, 2, 4)
    rest = [row for row in document["hypotheses"] if not row["reasons_for"]]
    without = [f"{row['id']} {row['label']}" if whole else row["label"] for row in rest]
    if lines and without:
        named = without if whole else without[:WITHOUT_SHOWN]
        more = f" and {len(without) - len(named)} more" if len(without) > len(named) else ""
        lines += paragraph(f"nothing speaks for: {', '.join(named)}{more}", width, 2, 4, "dim")
    return _titled(_WHY, lines)


def _options(document: Json, width: int, whole: bool) -> list[Line]:
    return _titled("Options", tables.options(document, width, whole=whole))


def _memory(document: Json, width: int, whole: bool) -> list[Line]:
    return _titled("Memory of one GPU, step by step", tables.memory(document, width, whole=whole))


def _arithmetic(document: Json, width: int, whole: bool) -> list[Line]:
    return _titled("Arithmetic", tables.arithmetic(document, width, whole=whole))


def _looked(document: Json, width: int, _whole: bool) -> list[Line]:
    """What was asked of the host and of the source, and what came of it."""
    seen, lost = looks_weighed(document)
    facts = facts_weighed(document)
    text = f"{plural(len(seen), 'look')} brought evidence, {plural(len(facts), 'fact')} were read"
    text += "".join(f"; {each['probe']}: {each['problem']}" for each in lost)
    lines = paragraph(text, width, 2, 2)
    if document["target"]["source"]:
        origin = document["target"]["source"].split()
        lines += paragraph(f"source: {' '.join(origin[:2])} {origin[-1][:19]}", width, 2, 2)
    rows = [[task["id"], task["description"], task["status"], _held(task)] for task in document["tasks"]]
    if rows:
        names = ["research task", "about", "status", "citations hold"]
        lines += [Line(""), *columned(names, rows, width, indent=2, whole=[True, False, True, False])]
    told = " ".join(unknown(document))
    for why in dict.fromkeys(brought(task) for task in document["tasks"] if _in_vain(task)):
        lines += [] if why.rstrip(".") in told else item(why, width)
    return _titled("Looked at", lines)


def _in_vain(task: Json) -> bool:
    return task["status"] in FAILED and not task["citations"]


def _held(task: Json) -> str:
    return "none" if _in_vain(task) else f"{task['citations_checked']} of {task['citations']}"


def brought(task: Json) -> str:
    """What a task brought: `4 of 4` citations that hold, or why there is none."""
    return str(task["reason"] or "it ended before it read anything") if _in_vain(task) else _held(task)


def _next(document: Json, width: int, _whole: bool) -> list[Line]:
    ids = document["ids"]
    told = [("ask more", ids["ask"]), ("write up", ids["writeup"])]
    told += [("verify", ids["verify"])] if ids["verify"] else []
    vain = {task["id"] for task in document["tasks"] if _in_vain(task)}
    told += [("one task", 'sglscout resume ID "…"  (each by its id)')] if set(ids["tasks"]) - vain else []
    lines = [Line(f"  {name:<9} {command}") for name, command in told]
    return _titled(f"Go on with session {ids['session']}", lines)
