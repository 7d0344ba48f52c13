"""Research tasks: opened, run side by side, resumed by id; every outcome begins with the id.

The parent's transcript says which tasks there are and how they stand, the task's own transcript holds its work. A task
is on record in both before it starts, so an id that was ever shown can always be resumed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

from pydantic import Field

from agent.loop import Agent
from agent.reports import numbered, outcome, shown
from agent.session import Session
from tools.toolbox import Arguments, Emit, Tool, ToolRefused
from transcripts.errors import LimitReached, ScoutError
from transcripts.files import BusyError
from transcripts.ids import new_id
from transcripts.parts import Limits, Usage
from transcripts.reading import StoreError, UnreadableError
from transcripts.records import Concluded, Delivered, Opened, Record, Said, TaskChanged
from transcripts.store import Store

POOL: Final = 3
LIMITS: Final = Limits(turns=30, seconds=600.0, tokens=400_000)
NO_ID: Final = frozenset({"", "none", "null", "new", "ses_", "ses_..."})


class TaskArguments(Arguments):
    description: str = Field(description="three to six words", max_length=80)
    prompt: str = Field(description="what to establish, as numbered questions", max_length=8_000)
    task_id: str | None = Field(None, description="continue this earlier task instead of starting one")
    background: bool = Field(False, description="answer at once; the result follows")


MakeResearcher = Callable[[Session], Awaitable[Agent]]
Pinned = Callable[[], Awaitable[dict[str, object]]]


@dataclass(slots=True)
class Tasks:
    """The tasks of one parent session. `source` pins, on record, the tree that they read before the first one runs."""

    parent: Session
    store: Store
    make: MakeResearcher
    model: str
    source: Pinned
    pool: int = POOL
    limits: Limits = LIMITS
    running: dict[str, asyncio.Task[str]] = field(default_factory=dict)
    watchers: list[Callable[[str, Record], None]] = field(default_factory=list)
    _slots: asyncio.Semaphore = field(init=False)
    _cancelled: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.pool)

    def tool(self, description: str) -> Tool[TaskArguments]:
        return Tool("task", description, TaskArguments, self._call)

    async def cancel(self, *identities: str) -> list[str]:
        """Cancel these tasks, or, with none named, end all as their parent ends; what they found stays.

        The ids that were running. A task cancelled by name says so; one that ends with its parent is `interrupted`.
        """
        chosen = [task for task in self.running if not identities or task in identities]
        self._cancelled.update(identities)
        stopped = [self.running[task] for task in chosen]
        for each in stopped:
            each.cancel()
        await asyncio.gather(*stopped, return_exceptions=True)
        return chosen

    def arrived(self) -> list[Delivered]:
        """Results of background tasks that nobody was told yet; those a dead process left are `interrupted` now."""
        results = []
        case = self.parent.case
        for task in list(case.tasks.values()):
            if task.id in self.running and not self.running[task.id].done():
                continue
            if task.status in ("opened", "running") and task.call not in case.unanswered:
                self.parent.record(TaskChanged(id=task.id, status="interrupted"))
            if task.undelivered:
                report = case.reports.get(task.id)
                text = shown(report, _last_text(self.store, task.id), self.prompts(task.id))
                results.append(Delivered(task=task.id, text=outcome(task.id, task.status, text)))
        return results

    async def more(self) -> bool:
        """Wait for the next result of a background task; False when none is to come."""
        running = [work for work in self.running.values() if not work.done()]
        if running:
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        return bool(running) or any(task.undelivered for task in self.parent.case.tasks.values())

    async def go_on(self, identity: str, question: str) -> str:
        """Continue one task for the operator, beside the main agent; its outcome. Raises ToolRefused."""
        known = self.parent.case.tasks.get(self._resumable(identity))
        about = known.description if known is not None else ""
        arguments = TaskArguments(description=about[:80], prompt=question, task_id=identity, background=False)
        work = self._begin(identity, arguments, question, self.parent.record)
        try:
            return await work
        except asyncio.CancelledError:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            raise

    def interrupted(self, call: str) -> str:
        """The answer to a `task` call that a dead process left open, from the task's own record."""
        state = next((task for task in self.parent.case.tasks.values() if task.call == call), None)
        if state is None:
            return "interrupted before the task had an id; nothing of it ran. Call it again."
        found = ""
        if records := self.store.peek(state.id):
            replies = [record["text"] for record in records if record["type"] == "replied" and record["text"]]
            turns = sum(record["type"] == "replied" for record in records)
            found = f"{turns} turns done.\n{replies[-1] if replies else ''}"
        if state.status in ("opened", "running"):
            self.parent.record(TaskChanged(id=state.id, status="interrupted"))
        return outcome(state.id, self.parent.case.tasks[state.id].status, found.strip())

    def told(self, session: Session, status: str, text: str) -> str:
        """A task that was continued by itself, told to the person who did so."""
        report = shown(session.case.reports.get(session.id), text, _asked(session))
        return f"{session.id} ({session.case.opened.description}): {status}\n\n{report}"

    def last_text(self, identity: str) -> str:
        """The last thing a task said, or why it ended."""
        return _last_text(self.store, identity)

    async def _call(self, arguments: TaskArguments, emit: Emit) -> str:
        wanted = (arguments.task_id or "").strip()
        if wanted.lower() in NO_ID or wanted.startswith("<"):
            identity = new_id()
            opened = TaskChanged(
                id=identity,
                description=arguments.description,
                asked=arguments.prompt,
                status="opened",
                background=arguments.background,
            )
            emit(opened)
            prompt = ""
        else:
            identity = self._resumable(wanted)
            prompt = arguments.prompt
        work = self._begin(identity, arguments, prompt, emit)
        if arguments.background:
            return outcome(identity, "running", "its result follows when it is there; do something else meanwhile.")
        try:
            return await work
        except asyncio.CancelledError:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            asked_to_stop = asyncio.current_task()
            if asked_to_stop is not None and asked_to_stop.cancelling():
                text = outcome(identity, "interrupted", _last_text(self.store, identity))
                raise asyncio.CancelledError(text) from None
            return outcome(identity, "cancelled", _last_text(self.store, identity))

    def _begin(self, identity: str, arguments: TaskArguments, prompt: str, emit: Emit) -> asyncio.Task[str]:
        self._cancelled.discard(identity)
        work = asyncio.ensure_future(self._run(identity, arguments, prompt, emit))
        self.running[identity] = work
        work.add_done_callback(lambda _: self.running.pop(identity, None))
        return work

    def prompts(self, identity: str) -> list[str]:
        """What a task was asked, first and later."""
        return [str(each["text"]) for each in self.store.peek(identity) if each["type"] in ("opened", "said")]

    def _resumable(self, wanted: str) -> str:
        """The id if this session may continue it. Raises ToolRefused naming the reason and what there is."""
        known = self.parent.case.tasks
        if wanted in known and wanted not in self.running:
            return wanted
        if wanted == self.parent.id:
            reason = "that is this session itself, not a task."
        elif wanted in self.running:
            reason = "that task is still running; wait for its result."
        elif self.store.holds(wanted):
            reason = "that id belongs to another session."
        else:
            reason = "no task has that id."
        listed = "; ".join(
            f"{task.id} ({task.description}, {task.status})" for task in known.values() if task.id not in self.running
        )
        raise ToolRefused(
            f"{wanted}: {reason}", f"Resumable: {listed or 'none'}. Leave task_id out to start a new one."
        )

    async def _run(self, identity: str, arguments: TaskArguments, follow_up: str, emit: Emit) -> str:
        """One run of a task from waiting for its turn to its outcome. Whatever ends it is on the parent's record."""
        try:
            async with self._slots:
                with self._open(identity, arguments, follow_up, await self.source()) as session:
                    session.watchers += [partial(watch, identity) for watch in self.watchers]
                    emit(TaskChanged(id=identity, status="running", background=arguments.background))
                    return await self._work(session, emit)
        except asyncio.CancelledError:
            ended: Literal["cancelled", "interrupted"] = "cancelled" if identity in self._cancelled else "interrupted"
            usage = self._usage(identity)
            emit(TaskChanged(id=identity, status=ended, turns=usage.turns, usage=usage))
            raise
        except BusyError as error:
            raise ToolRefused(str(error)) from error
        except ScoutError as error:  # no tree to read, no record to go on from: it ends under its id all the same
            if isinstance(error, StoreError) and not isinstance(error, UnreadableError):
                raise  # what cannot be kept ends the whole run, not one task of it
            usage = self._usage(identity)
            emit(TaskChanged(id=identity, status="failed", turns=usage.turns, usage=usage, reason=str(error)))
            return outcome(identity, "failed", str(error))

    def _usage(self, identity: str) -> Usage:
        """What a task has used in all its runs, from its own records."""
        replies = (record["usage"] for record in self.store.peek(identity) if record["type"] == "replied")
        return sum((Usage.model_validate(each) for each in replies), Usage())

    def _open(self, identity: str, arguments: TaskArguments, follow_up: str, source: dict[str, object]) -> Session:
        """The task's own transcript, with the follow-up; made here, from the parent's record, for one that has none.

        A task has none when it is new, and when the process died between its id and its first record.
        """
        if self.store.holds(identity):
            session = Session.open(self.store, identity, self.parent.transcript.redact)
            session.answer_dangling(call_again)
        else:
            session = Session.create(
                self.store,
                Opened(
                    id=identity,
                    role="task",
                    parent=self.parent.id,
                    text=self.parent.case.tasks[identity].asked or arguments.prompt,
                    description=arguments.description,
                    model=self.model,
                    tools=("search", "read", "list", "flag", "rules", "usage", "report"),
                    limits=self.limits,
                    source=source,
                ),
                self.parent.transcript.redact,
            )
        if follow_up and follow_up != session.case.opened.text:
            session.record(Said(text=follow_up))
        return session

    async def _work(self, session: Session, emit: Emit) -> str:
        status, text = await run_task(await self.make(session))
        report = session.case.reports.get(session.id)
        if report is not None:
            report = numbered(report, self.parent.case.citations.values())
            emit(report)
        cited = [citation for finding in report.findings for citation in finding.citations] if report else []
        emit(
            TaskChanged(
                id=session.id,
                status=status,
                turns=session.case.usage.turns,
                citations=len(cited),
                citations_checked=sum(citation.checked for citation in cited),
                usage=session.case.usage,
                reason="" if status == "completed" else text or "a limit of turns, time or tokens",
            )
        )
        return outcome(session.id, status, shown(report, text, _asked(session)))


def call_again(_call: str, name: str) -> str:
    """The answer to a researcher's call that a dead process left open: reading the tree again costs nothing."""
    return f"interrupted; call {name} again if it is still needed."


TaskStatus = Literal["completed", "failed", "limit"]


async def run_task(agent: Agent) -> tuple[TaskStatus, str]:
    """Run a researcher to its end: an honest status word and its last text. Only a stop is raised."""
    session = agent.session
    try:
        reply = await agent.run()
    except LimitReached:
        return "limit", session.case.concluded.text if session.case.concluded else ""
    except asyncio.CancelledError:
        session.answer_dangling(lambda _call, _name: "stopped.")
        session.record(Concluded(text="", exit=130, reason="cancelled"))
        raise
    except StoreError:  # what it did cannot be kept: no finding of the task, and the end of the run
        raise
    except ScoutError as error:
        session.record(Concluded(text=str(error), exit=error.exit_code, reason="failed"))
        return "failed", str(error)
    session.record(Concluded(text=reply.text, exit=0))
    return "completed", reply.text


def _asked(session: Session) -> list[str]:
    return [session.case.opened.text, *(said.text for said in session.case.said)]


def _last_text(store: Store, identity: str) -> str:
    """The last thing a task said, or why it ended; empty when it has no transcript yet."""
    records = store.peek(identity)
    texts = [str(record["text"]) for record in records if record["type"] == "replied" and record["text"]]
    reasons = [str(record["text"]) for record in records if record["type"] == "concluded" and record["text"]]
    return (texts or reasons or [""])[-1]
