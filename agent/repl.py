"""The prompt: stays usable while the agent and its tasks work.

Words are questions, `/words` are commands. A question asked while one is being answered waits in a queue that is shown.
Ctrl-C stops the turn and keeps what was found; twice leaves. Without a terminal, lines are read and answered in turn.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Final

from agent.chat import Chat
from agent.chat_commands import COMMANDS, handle
from agent.run import take_up
from agent.settings import Settings

WELCOME: Final = "Say what hurts, or ask. /help names the commands, /quit leaves."
Json = dict[str, Any]


async def talk(settings: Settings, target: Json | None, identity: str | None) -> int:
    """Chat until the operator leaves; the exit code of the last turn."""
    chat = Chat(settings, target)
    if identity:
        chat.open(take_up(settings, identity))
    try:
        if sys.stdin.isatty() and sys.stdout.isatty():
            await _at_a_prompt(chat)
        else:
            await _line_by_line(chat)
    finally:
        await chat.close()
    return chat.exit


async def take(chat: Chat, line: str) -> None:
    """One line of input: a command is carried out at once, a question is asked."""
    line = line.strip()
    if line.startswith("/"):
        await handle(chat, line)
    elif line:
        chat.ask(line)


async def _line_by_line(chat: Chat) -> None:
    """Piped input: each line is answered before the next is read; nothing ever waits for a terminal."""
    while not chat.leaving:
        line = await asyncio.to_thread(sys.stdin.readline)
        if not line:
            return
        await take(chat, line)
        if chat.turn is not None:
            await chat.turn


async def _at_a_prompt(chat: Chat) -> None:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.patch_stdout import patch_stdout

    chat.settings.home.mkdir(parents=True, exist_ok=True)
    prompt: PromptSession[str] = PromptSession(
        history=FileHistory(str(chat.settings.home / "history")),
        completer=WordCompleter([f"/{name}" for name in COMMANDS], sentence=True),
        complete_while_typing=False,
        bottom_toolbar=lambda: _status(chat),
        refresh_interval=0.5,
    )
    with patch_stdout(raw=True):
        chat.say(WELCOME)
        while not chat.leaving:
            try:
                await take(chat, await prompt.prompt_async("sglscout> "))
            except KeyboardInterrupt:
                if not await chat.stop():
                    return
            except EOFError:
                return


def _status(chat: Chat) -> str:
    """What is going on, for the line below the prompt."""
    if not chat.busy:
        return f"{chat.target['host'] if chat.target else ''}  /help"
    running = len(chat.run.tasks.running) if chat.run is not None else 0
    waiting = f", {len(chat.queue)} queued" if chat.queue else ""
    return f"working, {running} tasks{waiting}  Ctrl-C stops"
