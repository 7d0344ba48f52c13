"""The `/commands` of the chat, each a small function over the case."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final

from rich.text import Text

from agent.case import Case
from agent.chat import Chat
from agent.document import document
from agent.history import shorten, size
from agent.models.playbook.research import GO_ON
from agent.progress import progress, told
from agent.reports import shown
from agent.settings import load_settings
from agent.views import terminal
from agent.views.files import write_up
from agent.views.words import plural, visible
from transcripts.errors import ScoutError, UsageError
from transcripts.parts import Limits
from transcripts.store import Store

EVIDENCE_SHOWN: Final = 60  # lines
BESIDE_SHOWN: Final = 320  # characters: four lines of a narrow terminal
BARE: Final = {"?": "help", "exit": "quit", "q": "quit"}  # what other programs call them
ALONE: Final = frozenset({"help", "quit", *BARE})  # meant as commands also without a slash
Command = Callable[[Chat, str], Awaitable[None]]


async def handle(chat: Chat, line: str) -> None:
    """Carry out one `/command`; what is wrong with it is said in a line."""
    name, _, rest = line.removeprefix("/").partition(" ")
    known = BARE.get(name.lower(), name.lower())
    command, _ = COMMANDS.get(known, (_unknown, ""))
    try:
        await command(chat, rest.strip() if known in COMMANDS else name)
    except ScoutError as error:
        chat.say(Text(visible(str(error)), style="red"))
    except Exception as error:  # noqa: BLE001  a bug ends this command, not the chat
        chat.bug(error)


async def _unknown(_chat: Chat, name: str) -> None:
    raise UsageError(f"/{name} is no command.", "/help names them.")


def _case(chat: Chat) -> Case:
    if chat.session is None:
        raise UsageError("there is no case yet.", "Ask something first.")
    return chat.session.case


async def _help(chat: Chat, _rest: str) -> None:
    rows = [[f"/{name}", text] for name, (_, text) in COMMANDS.items()]
    chat.say(terminal.table([("command", {"no_wrap": True}), ("", {})], rows))


async def _quit(chat: Chat, _rest: str) -> None:
    chat.leaving = True


async def _tasks(chat: Chat, _rest: str) -> None:
    tasks = list(_case(chat).tasks.values())
    if not tasks:
        chat.say("no task yet.")
        return
    running = chat.run.tasks.running if chat.run is not None else {}
    store = Store(chat.settings.home)
    rows = []
    for task in tasks:
        seen = progress(store, task.id, task.id in running)
        waiting = task.status in ("opened", "running")
        status = task.status if not waiting else f"running: {seen.doing}" if task.id in running else "interrupted"
        rows.append([task.id, task.description, status[:40], seen.times, f"{seen.tokens:,}"])
    columns: list[tuple[str, dict[str, Any]]] = [
        ("task", {"no_wrap": True}),
        ("about", {"ratio": 3}),
        ("status", {"ratio": 2}),
        ("for / silent", {"no_wrap": True}),
        ("tokens", {"justify": "right"}),
    ]
    chat.say(terminal.table(columns, rows))


async def _task(chat: Chat, rest: str) -> None:
    case = _case(chat)
    identity = _one_of(rest, case.tasks, "task", "/tasks lists them.")
    running = chat.run is not None and identity in chat.run.tasks.running
    chat.say(Text(visible(told(case.tasks[identity], Store(chat.settings.home), running))))
    report = case.reports.get(identity)
    if report is not None and chat.run is not None:
        chat.say(Text(visible(shown(report, "", chat.run.tasks.prompts(identity)))))


async def _stop(chat: Chat, rest: str) -> None:
    if not rest:
        if not await chat.stop():
            chat.say("nothing is running.")
        return
    if chat.run is None:
        raise UsageError("nothing is running.", "Ask something first.")
    identity = _one_of(rest, chat.run.tasks.running, "running task", "/tasks says how they stand.")
    stopped = await chat.run.tasks.cancel(identity)
    chat.say(f"stopped {', '.join(stopped)}; /resume {identity} goes on with it." if stopped else "it has ended.")


def _one_of(rest: str, known: Iterable[str], what: str, hint: str) -> str:
    """The id that is meant by its beginning or its end. Raises UsageError when none or several are."""
    if not rest:
        raise UsageError(f"which {what}?", hint)
    found = [each for each in known if each.startswith(rest) or each.endswith(rest)]
    if len(found) != 1:
        said = f"{len(found)} {what}s are" if found else f"no {what} is"
        raise UsageError(f"{said} meant by {rest}.", hint)
    return found[0]


async def _resume(chat: Chat, rest: str) -> None:
    from agent.run import take_up

    rest, _, question = rest.partition(" ")
    identity = Store(chat.settings.home).resolve(rest) if rest else ""
    case = chat.session.case if chat.session else None
    if case is None and not identity:
        raise UsageError("which one?", "/resume ses_… continues a session; see `sglscout sessions`.")
    if case is not None and identity in ("", case.opened.id):
        chat.go_on()
    elif case is not None and identity in case.tasks:
        chat.go_on_with(identity, question.strip() or GO_ON)
    else:
        session = take_up(chat.settings, identity)
        if session.case.opened.role == "task":
            session.close()
            raise UsageError(
                f"{identity} is a task of another session.", f"/resume {session.case.opened.parent} first."
            )
        await chat.close()
        chat.open(session)
        chat.say(Text(f"{session.id}: {visible(session.case.complaint)}"))
        if session.case.stopped:
            chat.say("it is not answered yet; /resume goes on with it.")


async def _fork(chat: Chat, rest: str) -> None:
    from agent.decisions import number_of
    from agent.run import take_up
    from transcripts.copies import fork

    _case(chat)
    assert chat.session is not None
    if chat.busy:
        raise UsageError("a turn is running.", "Wait for it, or /stop it first.")
    old = chat.session
    made = fork(Store(chat.settings.home), old.id, number_of(old.records, rest) if rest else None)
    await chat.close()
    chat.open(take_up(chat.settings, made))
    chat.say(Text(f"{made} goes on from here; {old.id} stays as it is."))


async def _writeup(chat: Chat, rest: str) -> None:
    case = _case(chat)
    assert chat.session is not None
    wanted, _, name = rest.partition(" ")
    improve = wanted == "--improve"
    name = name.strip() if improve else rest
    path = Path(name) if name else chat.session.transcript.folder / "writeup.md"

    def written(worded: str = "") -> None:
        if worded:
            chat.say(Text(visible(worded)))
        write_up(path, document(case))
        said = f"written: {path}"
        chat.say(terminal.spoken(said, [said]))

    if improve:
        chat.improve(written)
    else:
        written()


async def _evidence(chat: Chat, rest: str) -> None:
    case = _case(chat)
    if not rest:
        rows = [[e.id, e.probe, e.problem or plural(e.lines, "line")] for e in case.evidence.values()]
        chat.say(terminal.table([("id", {}), ("look", {}), ("brought", {})], rows))
        return
    identity, _, line = rest.partition(":")
    found = case.evidence.get(_numbered("E", identity))
    if found is None:
        raise UsageError(f"no evidence is {rest}.", "/evidence lists it.")
    lines = found.text.splitlines()
    if line and not (line.isdigit() and 1 <= int(line) <= len(lines)):
        raise UsageError(f"{found.id} has no line {line}.", f"It has {plural(len(lines), 'line')}.")
    if line:
        near = int(line)
        numbers = range(max(1, near - 2), min(len(lines), near + 2) + 1)
        shown = [f"{n}: {lines[n - 1] if n == near else _beside(lines[n - 1])}" for n in numbers]
    else:
        shown = [f"{n}: {_beside(text)}" for n, text in enumerate(lines[:EVIDENCE_SHOWN], 1)]
        if len(lines) > EVIDENCE_SHOWN:
            shown.append(f"… {len(lines) - EVIDENCE_SHOWN} more lines: /evidence {found.id}:{EVIDENCE_SHOWN + 1}")
    chat.say(terminal.spoken(found.command, [found.command]))
    chat.say(Text(visible("\n".join(shown))))


def _numbered(letter: str, identity: str) -> str:
    """An id as it is written: `3` and `e3` are E3."""
    return f"{letter}{identity.upper().removeprefix(letter)}"


def _beside(line: str) -> str:
    """A line that nobody asked for by its number: a server prints some that would fill the screen."""
    return line if len(line) <= BESIDE_SHOWN else f"{line[:BESIDE_SHOWN]} … ({len(line):,} characters)"


def _section(wanted: str) -> Command:
    """A command that shows one part of the document."""

    async def show(chat: Chat, _rest: str) -> None:
        part = terminal.part(document(_case(chat)), wanted)
        chat.say(part if part is not None else f"no {wanted} yet.")

    return show


async def _why(chat: Chat, rest: str) -> None:
    if not rest:
        return await _section("hypotheses")(chat, "")
    rows = [row for row in document(_case(chat))["hypotheses"] if row["id"] == _numbered("H", rest)]
    if not rows:
        raise UsageError(f"no hypothesis is {rest}.", "/why lists them.")
    chat.say(terminal.reasons(rows[0]))
    return None


async def _host(chat: Chat, rest: str) -> None:
    from tools.host import check_target

    if not rest:
        chat.say(chat.target["host"] if chat.target else "no host is chosen.")
        return
    await asyncio.to_thread(check_target, rest)
    await chat.close()
    chat.target = {"kind": "local" if rest == "local" else "ssh", "host": rest}
    chat.say(Text(f"{rest}; the next question opens a new session."))


async def _model(chat: Chat, rest: str) -> None:
    if not rest:
        now = chat.session.case.opened.model if chat.session is not None else chat.settings.model or "playbook"
        chat.say(Text(now))
        return
    chat.settings = load_settings(rest)
    chat.say(Text(f"{chat.settings.model or 'playbook'} decides from the next session on; /host opens one."))


async def _compact(chat: Chat, _rest: str) -> None:
    case = _case(chat)
    assert chat.session is not None
    if chat.busy:
        raise UsageError("a turn is running.", "Wait for it, or /stop it first.")
    before = size(chat.session)
    shorten(chat.session)
    chat.say(f"{case.opened.id}: {before:,} -> {size(chat.session):,} characters of conversation; the records stay.")


async def _cost(chat: Chat, _rest: str) -> None:
    own, tasks = _case(chat).total_usage()
    prices = Limits(price_in=chat.settings.price_in, price_out=chat.settings.price_out)
    for whose, usage in (("own", own), ("tasks", tasks), ("together", own + tasks)):
        money = f", {prices.price(usage):.4f} in money" if prices.price_in or prices.price_out else ""
        chat.say(
            f"{whose}: {plural(usage.turns, 'turn')}, {usage.tokens_in:,} tokens in, {usage.tokens_out:,} out{money}"
        )


COMMANDS: Final[dict[str, tuple[Command, str]]] = {
    "help": (_help, "this list"),
    "tasks": (_tasks, "research tasks and how they stand"),
    "task": (_task, "one task with its report: /task ses_…"),
    "stop": (_stop, "stop the turn, or one task: /stop ses_…"),
    "resume": (_resume, "go on with what was stopped; another session, or a task: /resume ses_… [QUESTION]"),
    "fork": (_fork, "go on in a copy of this session: /fork, or up to one answer: /fork D1"),
    "evidence": (_evidence, "what was looked at: /evidence E3, /evidence E3:41"),
    "why": (_why, "hypotheses with reasons: /why, /why H2"),
    "options": (_section("options"), "options side by side"),
    "advice": (_section("changes"), "the change, and what it rests on"),
    "writeup": (_writeup, "write the incident up: /writeup [FILE]; /writeup --improve [FILE]: worded by a model"),
    "host": (_host, "which host; /host USER@HOST changes it"),
    "model": (_model, "what decides; /model NAME changes it for the next session"),
    "compact": (_compact, "shorten the conversation to the case"),
    "cost": (_cost, "turns and tokens spent"),
    "quit": (_quit, "leave"),
}
