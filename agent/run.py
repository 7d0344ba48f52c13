"""Working on a session from outside: open it, let the agent run, record how it ended, put the write-up beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from agent import tracing
from agent.case import Case
from agent.deployed import Progress
from agent.document import document
from agent.found import served_by
from agent.grounding import grounded
from agent.loop import Agent
from agent.model import Model, Reply
from agent.roles import main as main_role
from agent.roles.researcher import researcher_toolbox
from agent.session import Session
from agent.settings import FROM_HOST, PLAYBOOK, Settings
from agent.tasks import Tasks, call_again, run_task
from agent.workbench import Workbench
from prompts import prompt
from transcripts.errors import Inconclusive, LimitReached, ScoutError, UsageError
from transcripts.facts import Facts
from transcripts.ids import new_id
from transcripts.parts import Limits
from transcripts.reading import StoreError
from transcripts.records import Advised, Concluded, Opened, Replied, Resumed, Retried, Reworded, Said, Verified, Weighed
from transcripts.redaction import Redactor
from transcripts.store import DiskFullError, Store

WRITEUP: Final = "writeup"
LIMITS: Final = Limits(turns=60, seconds=1800.0, tokens=2_000_000)


def start(settings: Settings, target: dict[str, Any], complaint: str) -> Session:
    """A new session about a complaint; it is on disk before anything is asked of a host.

    Raises UsageError for a model that such a target cannot have.
    """
    if settings.model == FROM_HOST and target["kind"] == "bundle":
        raise UsageError("a bundle has no server to ask.", "Use --host with --model-from-host.")
    opened = Opened(
        id=new_id(),
        role="session",
        text=complaint,
        target=target,
        model=settings.model or PLAYBOOK,
        tools=main_role.NAMES,
        limits=settings.limited(LIMITS),
        program=_program(),
    )
    redactor = _redactor(settings)
    session = Session.create(Store(settings.home), opened, redactor.redact)
    session.learn = redactor.learn_from
    return session


def take_up(settings: Settings, identity: str) -> Session:
    """An earlier session or task, opened for going on. Raises UnknownIdError or BusyError."""
    redactor = _redactor(settings)
    session = Session.open(Store(settings.home), identity, redactor.redact)
    session.learn = redactor.learn_from
    return session


def _redactor(settings: Settings) -> Redactor:
    """Knows the key of the endpoint from the start; what the server was started with is learnt by the look."""
    redactor = Redactor()
    if settings.api_key:
        redactor.learn(settings.api_key, "api_key")
    return redactor


@dataclass(slots=True)
class Run:
    """One session being worked on. `watch` sees every record of the session and of its tasks as it is made."""

    settings: Settings
    bench: Workbench
    model: Model
    tasks: Tasks
    coming: str = ""  # what has come of an answer so far: shown as it grows, counted for nothing

    @classmethod
    def on(cls, settings: Settings, session: Session, progress: Progress) -> Run:
        bench = Workbench(settings, session, progress)

        def notice(text: str) -> None:
            session.record(Retried(text=text))

        def made(name: str) -> Model:
            if name != FROM_HOST:
                return make_model(settings, name, notice)
            from agent.models.from_host import FromHost

            return FromHost(bench.port, lambda: served_by(session.case), settings.api_key, notice)

        model = made(session.case.opened.model)

        async def researcher(task: Session) -> Agent:
            source = await bench.source()
            system = prompt("researcher", version=source.version)
            opened = task.case.opened
            own = model if opened.model == session.case.opened.model else made(opened.model)
            return Agent(task, own, researcher_toolbox(source, task), system, opened.limits)

        async def pinned() -> dict[str, Any]:
            await bench.source()
            located = bench.session.case.located
            return located.model_dump(exclude={"type", "seq", "at"}) if located else {}

        tasks = Tasks(session, Store(settings.home), researcher, session.case.opened.model, pinned)
        tasks.limits = settings.limited(tasks.limits)
        if tracing.wanted() and (tracer := tracing.exporting()) is not None:
            spans = tracing.Tracing(tracer, session.case.opened, settings.base_url)
            session.watchers.append(spans.session)
            tasks.watchers.append(spans.task)
        return cls(settings, bench, model, tasks)

    @property
    def session(self) -> Session:
        return self.bench.session

    async def answer(self, follow_up: str = "") -> dict[str, Any]:
        """Go on until the follow-up, or else what was stopped, has an answer; the document.

        What ended it otherwise is recorded, then raised. A session that was stopped stays so when a follow-up is
        answered from what it had found by then.
        """
        session = self.session
        session.answer_dangling(self._answer_dangling)
        if follow_up:
            session.record(Said(text=follow_up))
        elif session.case.stopped:
            _take_up_again(session)
        else:
            return self._written_up(anew=False)
        weighed = session.case.weighed
        toolbox = main_role.main_toolbox(self.bench, self.tasks)
        limits = session.case.opened.limits
        agent = Agent(session, self.model, toolbox, prompt("main"), limits, inbox=self.tasks, coming=self._comes)
        try:
            try:
                reply = await agent.run()
            finally:
                await self.tasks.cancel()
        except DiskFullError as error:
            error.hint = f"Free some space, then `sglscout resume {session.id}`."  # not that of the task that met it
            raise
        except StoreError:
            raise
        except ScoutError as error:
            self._stop(error.exit_code, str(error))
            raise
        except asyncio.CancelledError:
            self._stop(130, "stopped by the operator")
            raise
        case = session.case
        text = reply.text if reply.finish == "unanswered" else grounded(reply.text, case)
        session.record(
            Concluded(
                text=_with_damage(_with_its_end(text, reply.finish), case.damage),
                exit=_exit_of(reply, session, weighed),
                case_exit=exit_code(session),
                state="stopped" if case.follow_up and not case.diagnosed else "concluded",
            )
        )
        return self._written_up()

    def _comes(self, text: str) -> None:
        self.coming = text

    def _stop(self, code: int, reason: str) -> None:
        """Record why there is no answer, where the agent has not done so itself."""
        if self.session.case.fresh.get("concluded", 0) < self.session.case.last_seq:
            self.session.record(Concluded(text="", exit=code, reason=reason))

    def _written_up(self, *, anew: bool = True) -> dict[str, Any]:
        """The document; its write-up is put beside the transcript, so that nobody has to ask for it."""
        from agent.views.files import dressed

        made = document(self.session.case)
        if anew or not (self.session.transcript.folder / f"{WRITEUP}.md").exists():
            for form in ("md", "html"):
                self.session.transcript.put_beside(f"{WRITEUP}.{form}", dressed(made, form))
        return made

    async def research(self, follow_up: str = "") -> tuple[str, int]:
        """Go on with a task by itself; its report, or its answer to the follow-up, as text, and the exit code."""
        session = self.session
        session.answer_dangling(call_again)
        if follow_up:
            session.record(Said(text=follow_up))
        elif session.case.stopped:
            _take_up_again(session)
        elif session.case.concluded is not None:
            return self.tasks.told(session, "completed", session.case.concluded.text), 0
        agent = await self.tasks.make(session)
        status, text = await run_task(agent)
        if follow_up and status == "completed":
            return text, 3 if _unanswered(session) else 0
        return self.tasks.told(session, status, text), _TASK_EXITS[status]

    async def reword(self) -> Reworded:
        """Have the prose of the write-up worded by the session's model, else the configured one; write it up anew.

        Raises UsageError where there is neither.
        """
        from agent.roles.writer import reword

        settings, name = self.settings, self.session.case.opened.model
        name = settings.model if name in (PLAYBOOK, FROM_HOST) else name
        if name in ("", FROM_HOST) or not (settings.base_url or settings.api_key):
            raise UsageError(
                "no model is there to word the write-up.",
                "Set OPENAI_BASE_URL and SGLSCOUT_MODEL, or leave --improve out.",
            )
        model = make_model(settings, name, lambda text: self.session.record(Retried(text=text)))
        record = await reword(self.session, model)
        self._written_up()
        return record

    async def verify(self) -> list[dict[str, Any]]:
        """Look at the host anew and hold what the advice expected against it, row by row; recorded and written up.

        `before` is what was known when the advice was given, however often was looked since.
        """
        from tools import advice

        case = self.session.case
        advised = case.advised
        if advised is None:
            return []
        before, known = _facts_of_advice(self.session), len(case.facts)
        await main_role.look_anew(self.bench)
        after = Facts(list(case.facts)[known:])
        rows = [row.row() for row in advice.verify(advised.expected, advised.verify, before, after)]
        self.session.record(Verified(rows=tuple(rows)))
        self._written_up()
        return rows

    def _answer_dangling(self, call: str, name: str) -> str:
        if name == "task":
            return self.tasks.interrupted(call)
        if name == "run" and (brought := main_role.brought_by_run(self.session.records, call)):
            return brought
        return f"interrupted; call {name} again: what it had brought is kept."


def _facts_of_advice(session: Session) -> Facts:
    """The facts that the last advice was given on."""
    last = max(number for number, record in enumerate(session.records) if isinstance(record, Advised))
    return Case.fold(session.records[: last + 1]).facts


_TASK_EXITS: Final = {"completed": 0, "failed": Inconclusive.exit_code, "limit": LimitReached.exit_code}


def _unanswered(session: Session) -> bool:
    last = next(record for record in reversed(session.records) if isinstance(record, Replied))
    return last.finish == "unanswered"


def _exit_of(reply: Reply, session: Session, weighed: Weighed | None) -> int:
    """Of a follow-up: 3 when it has no answer; of a question for which the case was weighed: what was found."""
    if reply.finish == "unanswered":
        return Inconclusive.exit_code
    follow_up = bool(session.case.follow_up) and session.case.weighed is weighed
    return 0 if follow_up else exit_code(session)


def _take_up_again(session: Session) -> None:
    """Put a question again to which an end is on record; one that a dead process left goes on where the records end."""
    case = session.case
    ended = case.fresh.get("concluded", 0)
    if ended > max(case.fresh.get("said", 0), case.fresh.get("resumed", 0)):
        session.record(Resumed(text=case.stopped))


def _with_its_end(text: str, finish: str) -> str:
    """The answer, and that it was cut off where it was."""
    return f"{text}\nThe model's answer was cut off here by its endpoint." if finish == "length" else text


def _with_damage(text: str, damage: list[str]) -> str:
    """The answer, and what it could not rest on."""
    if not damage:
        return text
    return f"{text}\nThis answer rests on a damaged transcript: {'; '.join(damage)}."


def exit_code(session: Session) -> int:
    """0 when a cause was named, by its failure as well, or the server found healthy; 3 when the case is undecided."""
    weighed = session.case.weighed
    if weighed is None or weighed.kind in ("cause", "healthy"):
        return 3 if weighed is None else 0
    from tools import diagnosis  # here, since a turn without a tool needs none

    failure = diagnosis.failed(session.case.facts)
    return 0 if failure is not None and failure.certain else 3


def make_model(settings: Settings, name: str, notice: Callable[[str], None] = lambda _what: None) -> Model:
    """The model a session was opened with: the playbook, or one at the configured endpoint."""
    if name == PLAYBOOK:
        from agent.models.playbook import Playbook

        return Playbook()
    from agent.models.openai_compatible import OpenAICompatible

    return OpenAICompatible(name, settings.base_url, settings.api_key, notice=notice)


def _program() -> str:
    try:
        return version("sglscout")
    except PackageNotFoundError:
        return "0"
