"""One chat: its target, its session, the question being answered and those that wait."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from rich.text import Text

from agent.run import Run, start
from agent.session import Session
from agent.settings import Settings
from agent.views import terminal
from agent.views.watching import Watching, download_progress
from transcripts.errors import ScoutError, UsageError

Json = dict[str, Any]


@dataclass(slots=True)
class Chat:
    """One chat over one target; its session begins with the first question."""

    settings: Settings
    target: Json | None
    session: Session | None = None
    run: Run | None = None
    queue: deque[str] = field(default_factory=deque)
    turn: asyncio.Task[None] | None = None
    leaving: bool = False
    exit: int = 0

    @property
    def busy(self) -> bool:
        return self.turn is not None and not self.turn.done()

    def say(self, what: Any) -> None:
        terminal.console().print(what)

    def ask(self, question: str) -> None:
        """Answer a question, now or as soon as the turn is over."""
        if self.busy:
            self.queue.append(question)
            self.say(Text(f"queued ({len(self.queue)}): {question}", style="dim"))
        else:
            self.turn = asyncio.create_task(self._turns(question))

    async def stop(self) -> bool:
        """Stop the turn; what was found stays on record. Whether there was one."""
        if not self.busy or self.turn is None:
            return False
        self.turn.cancel()
        await asyncio.gather(self.turn, return_exceptions=True)
        self.say("stopped; what was found is kept.")
        return True

    async def close(self) -> None:
        await self.stop()
        if self.run is not None:
            await self.run.bench.close()
        if self.session is not None:
            self.session.close()

    def open(self, session: Session) -> None:
        """Work on this session from now on."""
        self.session = session
        self.run = Run.on(self.settings, session, download_progress(sys.stderr))
        watching = Watching(sys.stdout)
        session.watchers.append(watching.session)
        self.run.tasks.watch = watching.task

    async def _turns(self, question: str) -> None:
        await self._answer(question)
        while self.queue:
            await self._answer(self.queue.popleft())

    async def _answer(self, question: str) -> None:
        try:
            run, first = self._run_for(question)
            made = await run.answer("" if first else question)
        except ScoutError as error:
            self.exit = error.exit_code
            self.say(Text(str(error), style="red"))
            return
        self.exit = 0
        if first:
            self.say(terminal.render(made))
        elif run.session.case.concluded is not None:
            self.say(Text(run.session.case.concluded.text))

    def _run_for(self, question: str) -> tuple[Run, bool]:
        """The run that answers, opened with the first question; and whether it is that first one."""
        if self.session is None:
            if self.target is None:
                raise UsageError("no host is chosen.", "Use /host USER@HOST.")
            self.open(start(self.settings, self.target, question))
        if self.run is None or self.session is None:
            raise UsageError("there is no session.", "Use /host or /resume.")
        return self.run, self.session.case.concluded is None
