"""The `/commands` of the chat, each a small function over the case."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from rich.text import Text

from agent.case import Case
from agent.chat import Chat
from agent.document import document
from agent.views import terminal
from agent.views.markdown import markdown
from transcripts.errors import ScoutError, UsageError

Command = Callable[[Chat, str], Awaitable[None]]


async def handle(chat: Chat, line: str) -> None:
    """Carry out one `/command`; what is wrong with it is said in a line."""
    name, _, rest = line[1:].partition(" ")
    command = COMMANDS.get(name)
    try:
        if command is None:
            raise UsageError(f"/{name} is no command.", "/help names them.")
        await command[0](chat, rest.strip())
    except ScoutError as error:
        chat.say(Text(str(error), style="red"))


def _case(chat: Chat) -> Case:
    if chat.session is None:
        raise UsageError("there is no case yet.", "Ask something first.")
    return chat.session.case


async def _help(chat: Chat, _rest: str) -> None:
    rows = [[f"/{name}", text] for name, (_, text) in COMMANDS.items()]
    chat.say(terminal.table([("command", {"no_wrap": True}), ("", {})], rows))


async def _quit(chat: Chat, _rest: str) -> None:
    chat.leaving = True


async def _tasks(chat: Chat, rest: str) -> None:
    tasks = [task for task in _case(chat).tasks.values() if not rest or task.id.startswith(rest)]
    if not tasks:
        chat.say("no task yet.")
        return
    rows = [[t.id, t.description, t.status, str(t.turns), f"{t.citations_checked}/{t.citations}"] for t in tasks]
    columns: list[tuple[str, dict[str, Any]]] = [
        ("task", {"no_wrap": True}),
        ("about", {}),
        ("status", {}),
        ("turns", {}),
        ("held", {}),
    ]
    chat.say(terminal.table(columns, rows))


async def _stop(chat: Chat, rest: str) -> None:
    if rest and chat.run is not None:
        stopped = await chat.run.tasks.cancel(rest)
        chat.say(f"stopped {', '.join(stopped)}." if stopped else f"{rest} is not running.")
    elif not await chat.stop():
        chat.say("nothing is running.")


async def _resume(chat: Chat, rest: str) -> None:
    from agent.run import take_up

    if not rest:
        raise UsageError("which one?", "/resume ses_… continues a session; see `sglscout sessions`.")
    case = chat.session.case if chat.session else None
    if case is not None and rest in case.tasks:
        chat.ask(f"continue task {rest}")
        return
    session = take_up(chat.settings, rest)
    await chat.close()
    chat.open(session)
    chat.target = session.case.opened.target
    chat.say(f"{session.id}: {session.case.complaint}")


async def _writeup(chat: Chat, rest: str) -> None:
    case = _case(chat)
    assert chat.session is not None
    path = Path(rest) if rest else chat.session.transcript.folder / "writeup.md"
    try:
        path.write_text(markdown(document(case)), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.", "Give another file.") from error
    chat.say(f"written: {path}")


async def _evidence(chat: Chat, rest: str) -> None:
    case = _case(chat)
    if not rest:
        rows = [[e.id, e.probe, e.problem or f"{e.lines} lines"] for e in case.evidence.values()]
        chat.say(terminal.table([("id", {}), ("look", {}), ("brought", {})], rows))
        return
    identity, _, line = rest.partition(":")
    found = case.evidence.get(identity.upper())
    if found is None:
        raise UsageError(f"no evidence is {rest}.", "/evidence lists it.")
    lines = found.text.splitlines()
    if line.isdigit():
        near = int(line)
        shown = [f"{n}: {lines[n - 1]}" for n in range(max(1, near - 2), min(len(lines), near + 2) + 1)]
    else:
        shown = [f"{n}: {text}" for n, text in enumerate(lines[:60], 1)]
    chat.say(Text(f"{found.command}\n" + "\n".join(shown)))


def _section(wanted: str) -> Command:
    """A command that shows one part of the document."""

    async def show(chat: Chat, rest: str) -> None:
        made = document(_case(chat))
        if wanted == "hypotheses" and rest:
            made["hypotheses"] = [row for row in made["hypotheses"] if row["id"] == rest.upper()]
        part = terminal.part(made, wanted)
        chat.say(part if part is not None else f"no {wanted} yet.")

    return show


async def _host(chat: Chat, rest: str) -> None:
    if not rest:
        chat.say(chat.target["host"] if chat.target else "no host is chosen.")
        return
    await chat.close()
    chat.session = chat.run = None
    chat.target = {"kind": "local" if rest == "local" else "ssh", "host": rest}
    chat.say(f"{rest}; the next question opens a new session.")


async def _model(chat: Chat, _rest: str) -> None:
    chat.say(chat.settings.model or "playbook")


async def _cost(chat: Chat, _rest: str) -> None:
    for whose, usage in zip(("own", "tasks"), _case(chat).total_usage(), strict=True):
        chat.say(f"{whose}: {usage.turns} turns, {usage.tokens_in} tokens in, {usage.tokens_out} out")


COMMANDS: Final[dict[str, tuple[Command, str]]] = {
    "help": (_help, "this list"),
    "tasks": (_tasks, "research tasks and how they stand"),
    "task": (_tasks, "one task: /task ses_…"),
    "stop": (_stop, "stop the turn, or one task: /stop ses_…"),
    "resume": (_resume, "continue a session or a task: /resume ses_…"),
    "evidence": (_evidence, "what was looked at: /evidence E3, /evidence E3:41"),
    "why": (_section("hypotheses"), "hypotheses with reasons: /why, /why H2"),
    "options": (_section("options"), "options side by side"),
    "advice": (_section("changes"), "the change, and what it rests on"),
    "writeup": (_writeup, "write the incident up: /writeup [FILE]"),
    "host": (_host, "which host; /host USER@HOST changes it"),
    "model": (_model, "what decides"),
    "cost": (_cost, "turns and tokens spent"),
    "quit": (_quit, "leave"),
}
