"""One chat: its target, its session, the question being answered and those that wait."""

from __future__ import annotations

import asyncio
import io
import re
import sys
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TextIO, cast

from rich.text import Text

from agent.document import document
from agent.grounding import commands_of
from agent.models.playbook.followup import is_question
from agent.models.playbook.research import GO_ON
from agent.run import Run, start
from agent.session import Session, damage_told
from agent.settings import PLAYBOOK, Settings
from agent.views import terminal
from agent.views.watching import Watching, download_progress
from agent.views.words import visible, wording
from transcripts.errors import ScoutError, UsageError
from transcripts.records import Note

Json = dict[str, Any]
YES: Final = frozenset({"y", "yes"})
NO: Final = frozenset({"", "n", "no"})
HURTS: Final = "Say what hurts, or ask"
GREETING: Final = re.compile(
    r"(?:hi|hello|hey|hallo|moin|servus|good (?:morning|evening)|guten (?:tag|morgen|abend)|thanks|danke|okay|test)"
    r"(?: there)?\W*",
    re.IGNORECASE,
)
COMING_SHOWN: Final = 30  # characters of an answer that is still coming, below the prompt


class _Standard(io.TextIOBase):
    """Standard output or error as it is at the time of writing: a prompt puts itself in between later."""

    def __init__(self, name: str) -> None:
        self._name = name

    def write(self, text: str) -> int:
        return int(getattr(sys, self._name).write(text))

    def flush(self) -> None:
        getattr(sys, self._name).flush()


@dataclass(slots=True)
class Chat:
    """One chat over one target; its session begins with the first question. `attended`: there is a prompt.

    `complaint` is what the session is about when the first line is a question about a case, not a complaint.
    """

    settings: Settings
    target: Json | None
    attended: bool = False
    complaint: str = ""
    session: Session | None = None
    run: Run | None = None
    queue: deque[str] = field(default_factory=deque)
    turn: asyncio.Task[None] | None = None
    began: float = 0.0
    download: str = ""
    asking: str = ""
    leaving: bool = False
    exit: int = 0
    _decision: asyncio.Future[bool] | None = None

    @property
    def busy(self) -> bool:
        return self.turn is not None and not self.turn.done()

    @property
    def status(self) -> str:
        """What is going on, for the line below the prompt."""
        if not self.busy:
            return f"{self.target['host'] if self.target else 'no host'} | /help"
        running = len(self.run.tasks.running) if self.run is not None else 0
        parts = [f"working {time.monotonic() - self.began:.0f} s", f"{running} tasks"]
        parts += [f"{len(self.queue)} queued"] if self.queue else []
        coming = " ".join(visible(self.run.coming).split()) if self.run is not None else ""
        parts += [f"… {coming[-COMING_SHOWN:]}"] if coming else []
        parts += [self.download] if self.download else []
        return " | ".join([*parts, "Ctrl-C stops"])

    def say(self, what: Any) -> None:
        terminal.console().print(what)

    def bug(self, error: Exception) -> None:
        """Say what went wrong inside the program, and where its trace is."""
        self.exit = 1
        with tempfile.NamedTemporaryFile("w", prefix="sglscout-bug-", suffix=".txt", delete=False) as file:
            traceback.print_exception(error, file=file)
        text = f"a bug: {type(error).__name__}: {error}. Its trace is in {file.name}; please report it."
        self.say(Text(visible(text), style="red"))

    def ask(self, question: str) -> None:
        """Answer a question, now or as soon as the turn is over."""
        if self.session is None and GREETING.fullmatch(question):
            self.say(Text(HURTS, style="dim"))
        elif self.busy:
            self.queue.append(question)
            self.say(Text(f"queued ({len(self.queue)}): {visible(question)}", style="dim"))
        else:
            self._begin(question)

    def go_on(self) -> None:
        """Continue an answer that was stopped. Raises UsageError when there is none."""
        case = self.session.case if self.session is not None else None
        if self.busy:
            raise UsageError("it is being worked on.", "/tasks says how far it is.")
        if case is None or not case.stopped:
            raise UsageError("nothing was stopped.", "Ask something.")
        self._begin("")

    def go_on_with(self, task: str, question: str) -> None:
        """Continue one research task beside the main agent. Raises UsageError while a turn runs."""
        if self.busy:
            raise UsageError("a turn is running.", "Wait for it, or /stop it first.")
        self.began = time.monotonic()
        self.turn = asyncio.create_task(self._task(task, question))

    def improve(self, told: Callable[[str], None]) -> None:
        """Have a model word the write-up, as a turn of its own; then `told` what came of it. Raises UsageError."""
        if self.busy or self.run is None:
            raise UsageError("a turn is running." if self.busy else "there is no case yet.", "Ask, and wait for it.")
        self.began = time.monotonic()
        self.turn = asyncio.create_task(self._improve(self.run, told))

    async def _improve(self, run: Run, told: Callable[[str], None]) -> None:
        try:
            record = await run.reword()
            told(wording(record))
        except ScoutError as error:
            self.say(Text(visible(str(error)), style="red"))
        await self._waiting()

    def unqueued(self) -> list[str]:
        """Take back the questions that wait."""
        taken = []
        while self.queue:
            taken.append(self.queue.popleft())
        return taken

    async def stop(self) -> bool:
        """Stop the turn; what was found stays on record. Whether there was one."""
        turn = self.turn
        if turn is None or turn.done():
            return False
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)
        self.exit = 130
        if self.session is not None:
            self.session.record(Note(text="stopped by the operator."))
            self.say(Text(f"stopped; what was found is kept. /resume goes on with {self.session.id}."))
        return True

    async def close(self) -> None:
        self.queue.clear()
        await self.stop()
        if self.run is not None:
            await self.run.bench.close()
        if self.session is not None:
            self.session.close()
        self.session = self.run = self.turn = None

    def open(self, session: Session) -> None:
        """Work on this session from now on."""
        self.session = session
        self.target = session.case.opened.target
        if session.case.damage:
            self.say(Text(visible(damage_told(session.id, session.case.damage)), style="yellow"))
        progress = self._downloaded if self.attended else download_progress(sys.stderr)
        self.run = Run.on(self.settings, session, progress)
        self.run.bench.approve = self._approve
        watching = Watching(cast(TextIO, _Standard("stdout" if self.attended else "stderr")))
        session.watchers.append(watching.session)
        self.run.tasks.watchers.append(watching.task)

    def decide(self, line: str) -> bool:
        """Take a line as the answer to a question that waits for yes or no. Whether it was one."""
        decision = self._decision
        if decision is None or decision.done() or line.lower() not in YES | NO:
            return False
        decision.set_result(line.lower() in YES)
        return True

    async def _approve(self, command: str, reason: str) -> bool:
        """The operator's yes to one command, shown whole; without a prompt, or while another is asked about, no."""
        if not self.attended or self._decision is not None:
            return False
        self._decision = asyncio.get_running_loop().create_future()
        self.asking = command
        self.say(Text(f"the agent asks to run ({visible(reason)}):\n  {visible(command)}\ny runs it, n does not."))
        try:
            return await self._decision
        finally:
            self._decision, self.asking = None, ""

    def _downloaded(self, what: str, done: int, whole: int | None) -> None:
        if not whole and not done:
            self.say(Text(visible(what), style="dim"))
            return
        finished = whole is not None and done >= whole
        self.download = (
            "" if finished else f"{what} {done / 1e6:.0f}" + (f" of {whole / 1e6:.0f} MB" if whole else " MB")
        )

    def _begin(self, question: str) -> None:
        self.began = time.monotonic()
        self.turn = asyncio.create_task(self._turns(question))

    async def _turns(self, question: str) -> None:
        await self._answer(question)
        await self._waiting()

    async def _waiting(self) -> None:
        while self.queue:
            question = self.queue.popleft()
            self.say(Text(f"now: {visible(question)}", style="dim"))
            await self._answer(question)

    async def _task(self, task: str, question: str) -> None:
        assert self.run is not None
        try:
            outcome = await self.run.tasks.go_on(task, question)
            asked = question != GO_ON and "\nstatus: " not in outcome
            self.say(visible(self.run.tasks.last_text(task) if asked else outcome.partition("\n\n")[2]))
        except ScoutError as error:
            self.say(Text(visible(str(error)), style="red"))
        await self._waiting()

    async def _answer(self, question: str) -> None:
        try:
            run, whole = self._run_for(question)
            if whole:
                await run.answer()
                self._tell(run, None)
            if not whole or (question and is_question(question)):
                before = document(run.session.case)
                await run.answer(question)
                self._tell(run, None if before["state"] == "stopped" else before)
        except ScoutError as error:
            self.exit = error.exit_code
            self.say(Text(visible(str(error)), style="red"))
            return
        except Exception as error:  # noqa: BLE001  a bug ends this answer, not the chat
            self.bug(error)
            return
        concluded = run.session.case.concluded
        self.exit = concluded.exit if concluded is not None else 0

    def _tell(self, run: Run, before: Json | None) -> None:
        """An answer; where the case was weighed for it, what of the first screen was not told `before`."""
        case = run.session.case
        decided = case.decisions[-1]
        if decided.whole:
            self.say(terminal.opening(document(case), before))
        if not decided.whole or run.model.name != PLAYBOOK:  # a model's own words stand on no first screen
            self.say("")
            self.say(terminal.spoken(decided.text, commands_of(case)))

    def _run_for(self, question: str) -> tuple[Run, bool]:
        """The run that answers, opened with the first question; and whether its answer is the whole diagnosis."""
        opens = self.session is None
        if opens:
            if self.target is None:
                raise UsageError("no host is chosen.", "Use /host USER@HOST.")
            complaint = self.complaint if self.complaint and is_question(question) else question
            self.open(start(self.settings, self.target, complaint))
        if self.run is None or self.session is None:
            raise UsageError("there is no session.", "Use /host or /resume.")
        return self.run, opens or not (question or self.session.case.follow_up)
