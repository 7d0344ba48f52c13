"""The prompt: stays usable while the agent and its tasks work.

Words are questions, `/words` are commands. A question asked while one is being answered waits in a queue that is shown.
Ctrl-C stops the turn and keeps what was found; twice leaves. Without a terminal, lines are read and answered in turn.

The agent has a thread and an event loop of its own: whatever it computes there, keys are taken here.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeVar

from agent.chat import HURTS, Chat
from agent.chat_commands import ALONE, handle
from agent.run import take_up
from agent.settings import Settings
from transcripts.errors import UsageError
from transcripts.paths import made_own

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

WELCOME: Final = f"{HURTS}. /help names the commands, /quit leaves"
NEW_LINE: Final = "; Alt-Enter begins a new line"
INTERRUPTED: Final = 130
PROMPT: Final = "sglscout> "
HANDLED_S: Final = 0.5  # how long the prompt waits for a command's output before it shows itself again
TURN_SEEN_S: Final = 0.2  # how long after a turn a bare prompt may come
CLOSING_S: Final = 10.0
Json = dict[str, Any]
T = TypeVar("T")


class _InterruptedError(Exception):
    """Ctrl-C at the prompt, with what was typed by then."""

    def __init__(self, typed: str) -> None:
        super().__init__(typed)
        self.typed = typed


async def talk(settings: Settings, target: Json | None, identity: str | None, complaint: str = "") -> int:
    """Chat until the operator leaves; the exit code of the last turn."""
    chat = Chat(settings, target, complaint=complaint)
    if sys.stdin.isatty() and sys.stdout.isatty():
        await _at_a_prompt(chat, identity)
        return chat.exit
    try:
        if identity:
            chat.open(take_up(settings, identity))
        await _line_by_line(chat)
    finally:
        await chat.close()
    return chat.exit


async def take(chat: Chat, line: str) -> None:
    """One line of input: a command is carried out at once, a question is asked or, while one is answered, queued."""
    line = line.strip()
    if chat.decide(line):
        return
    if line.startswith("/") or line.lower() in ALONE:
        await handle(chat, line)
    elif line:
        chat.ask(line)


async def _line_by_line(chat: Chat) -> None:
    """Piped input: each line is shown, and answered before the next is read; nothing ever waits for a terminal.

    Raises UsageError where no line says anything.
    """
    asked = False
    while not chat.leaving:
        line = await asyncio.to_thread(sys.stdin.readline)
        if not line and not asked:
            raise UsageError("nothing was asked.", "Start it at a terminal, or pipe questions to it, one a line.")
        if not line:
            return
        if line.strip():
            chat.say(f"{PROMPT}{line.strip()}")
            asked = True
        await take(chat, line)
        if chat.turn is not None:
            await chat.turn


class _Bench:
    """The thread and the loop that the chat works on; a context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="agent", daemon=True)

    def __enter__(self) -> _Bench:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSING_S)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def done(self, work: Coroutine[Any, Any, T], within_s: float) -> None:
        """Begin the work and wait for it so long, and no longer."""
        await asyncio.wait([asyncio.wrap_future(self.begin(work))], timeout=within_s)


async def _at_a_prompt(chat: Chat, identity: str | None) -> None:
    from prompt_toolkit.patch_stdout import patch_stdout

    chat.attended = True
    made_own(chat.settings.home)
    with _Bench() as bench:
        if identity:  # what is wrong with the id is said before there is a prompt
            await asyncio.wrap_future(bench.begin(_open(chat, identity)))
        dumb = os.environ.get("TERM", "dumb") in ("dumb", "unknown", "")
        with nullcontext() if dumb else patch_stdout(raw=True):
            chat.say(f"{WELCOME}{'' if dumb else NEW_LINE}.")
            await bench.done(_warm(), 0)
            try:
                await (_bare_prompts if dumb else _prompts)(chat, bench)
            finally:
                await bench.done(chat.close(), CLOSING_S)


async def _open(chat: Chat, identity: str) -> None:
    chat.open(take_up(chat.settings, identity))


async def _warm() -> None:
    """Import what the first question needs while the operator still types it."""
    import importlib

    for name in (
        "agent.roles.main",
        "agent.advise",
        "agent.merge",
        "tools.host.parsers",
        "tools.host.ssh",
    ):
        importlib.import_module(name)


async def _prompts(chat: Chat, bench: _Bench) -> None:
    prompt = _prompt(chat)
    asked_to_leave, draft = False, ""
    while not chat.leaving:
        try:
            line = await prompt.prompt_async(default=draft)
        except _InterruptedError as pressed:
            if asked_to_leave:
                chat.exit = INTERRUPTED
                return
            asked_to_leave = True
            draft = _interrupted(chat, bench, pressed.typed)
        except EOFError:
            return
        else:
            asked_to_leave, draft = False, ""
            with _deaf_to_interrupts():
                await bench.done(take(chat, line), HANDLED_S)


async def _bare_prompts(chat: Chat, bench: _Bench) -> None:
    """On a terminal that cannot move its cursor: the prompt stands only where no output can run into it."""
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[str | None] = asyncio.Queue()

    def read() -> None:
        data = os.read(sys.stdin.fileno(), 1 << 16)  # a terminal hands over whole lines
        for line in data.decode("utf-8", "replace").splitlines():
            events.put_nowait(line)
        if not data:
            events.put_nowait(None)

    loop.add_signal_handler(signal.SIGINT, events.put_nowait, "\x03")
    loop.add_reader(sys.stdin.fileno(), read)
    asked_to_leave = prompted = False
    while not chat.leaving:
        if not chat.busy and not prompted:
            sys.stdout.write(PROMPT)
            sys.stdout.flush()
            prompted = True
        try:
            async with asyncio.timeout(TURN_SEEN_S):
                line = await events.get()
        except TimeoutError:
            continue
        prompted = False
        if line is None:
            return
        if line == "\x03" and asked_to_leave:
            chat.exit = INTERRUPTED
            return
        asked_to_leave = line == "\x03"
        if line == "\x03":
            chat.say("")
            _interrupted(chat, bench, "")
        else:
            await bench.done(take(chat, line), HANDLED_S)


def _interrupted(chat: Chat, bench: _Bench, typed: str) -> str:
    """Stop the turn if there is one; what was queued or half typed comes back to the prompt."""
    if not chat.busy:
        chat.say("Ctrl-C again leaves.")
        return typed
    waiting = chat.unqueued()
    chat.say("stopping; Ctrl-C again leaves.")
    bench.begin(chat.stop())
    return "\n".join([*waiting, *([typed] if typed else [])])


def _prompt(chat: Chat) -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import FileHistory

    from agent.chat_completion import Words

    return PromptSession(
        message=lambda: "run it? [y/N] " if chat.asking else PROMPT,
        history=FileHistory(str(chat.settings.home / "history")),
        completer=Words(chat),
        complete_while_typing=False,
        complete_in_thread=True,
        bottom_toolbar=lambda: chat.status,
        refresh_interval=0.5,
        multiline=True,
        prompt_continuation="........> ",
        key_bindings=_keys(chat),
    )


def _keys(chat: Chat) -> KeyBindings:
    """Enter sends, Alt-Enter begins a new line; Ctrl-C clears what is typed, or stops, or leaves."""
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter")
    def _send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    @keys.add("<sigint>")
    def _interrupt(event: KeyPressEvent) -> None:
        typed = event.current_buffer.text
        if typed and not chat.busy:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=_InterruptedError(typed), style="class:aborting")

    return keys


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Between two prompts Ctrl-C does nothing; at the prompt it means what the prompt says."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
