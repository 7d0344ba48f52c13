"""The agent: ask the model, run the tools it calls, record, repeat.

The main agent and every researcher are this class with another prompt, toolbox and limits. Whatever ends a run
(an answer, a limit, a fault, a stop) is on record before it is raised or returned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from pydantic import BaseModel

from agent import history
from agent.limits import Meter
from agent.model import Model, Reply, Request, unheard
from agent.models.errors import ContextTooLong
from agent.repetition import Repetition
from agent.session import Session
from tools.toolbox import NotACall, Toolbox, ToolRefused
from transcripts.errors import EndpointError, HostError, LimitReached, ScoutError, UsageError
from transcripts.parts import Call, Limits, Usage
from transcripts.reading import StoreError
from transcripts.records import Concluded, Delivered, Ended, Note, Replied, Started, TaskChanged

# A tool that meets one of these ends the run; any other fault of a tool is an answer the model can work with.
ENDING = (HostError, UsageError, EndpointError, LimitReached)
CALLS_AT_ONCE = 16
SHORTEN_ABOVE = 80_000  # tokens of a request; open models of this kind are served with windows of 128k and more
SHARE = 0.6  # of the window, where the endpoint tells it: the rest is for what a round of tools brings
LAST_WORDS_S = 60.0


class Inbox(Protocol):
    """What comes while the model works: results of background tasks."""

    def arrived(self) -> list[Delivered]: ...

    async def more(self) -> bool: ...


@dataclass(slots=True)
class Agent:
    """One run over one session."""

    session: Session
    model: Model
    toolbox: Toolbox
    system: str
    limits: Limits
    shorten_above: int = SHORTEN_ABOVE
    inbox: Inbox | None = None
    last_words_s: float = LAST_WORDS_S
    coming: Callable[[str], None] = unheard
    _ids: set[str] = field(default_factory=set)
    _repetition: Repetition = field(init=False)
    _conversation: history.Conversation = field(init=False)

    def __post_init__(self) -> None:
        answers = (record for record in self.session.records if isinstance(record, Replied))
        self._ids.update(call.id for answer in answers for call in answer.calls)
        self._repetition = Repetition(self.session.records)
        self._conversation = history.Conversation(self.system)

    async def run(self) -> Reply:
        """Until the model answers without calling a tool. Raises what ended the run otherwise; all is recorded."""
        before = self._tasks_cost()
        meter = Meter(self.limits, self._spent(), tasks_cost=lambda: self._tasks_cost() - before)
        try:
            async with meter.clock():
                return await self._turns(meter)
        except TimeoutError:
            limit = LimitReached(f"the limit of {self.limits.seconds:.0f} s is reached.")
        except LimitReached as reached:
            limit = reached
        self.session.answer_dangling(lambda _call, _name: f"stopped: {limit.message}")
        summary = await self._last_words(limit)
        self.session.record(Concluded(text=summary, exit=limit.exit_code, reason=limit.message))
        raise limit

    def _spent(self) -> Usage:
        """What counts against the limits: of a task all that it ever used, of a session the current question."""
        case = self.session.case
        return case.usage if case.opened.role == "task" else case.usage_of_question

    def _tasks_cost(self) -> float:
        return self.limits.price(self.session.case.total_usage()[1])

    async def _turns(self, meter: Meter) -> Reply:
        while True:
            meter.check()
            for result in self.inbox.arrived() if self.inbox is not None else ():
                self.session.record(result)
            try:
                reply = await self.model.reply(self._request(self.toolbox.schemas()))
            except ContextTooLong:
                history.shorten(self.session)
                reply = await self.model.reply(self._request(self.toolbox.schemas()))
            meter.add(reply.usage)
            reply = self._record_reply(reply)
            if not reply.calls:
                if self.inbox is not None and await self.inbox.more():
                    continue
                return reply
            await self._run_calls(reply.calls)
            if reply.usage.tokens_in > min(self.shorten_above, SHARE * reply.window or self.shorten_above):
                history.shorten(self.session)

    def _request(self, tools: list[dict[str, object]]) -> Request:
        return Request(self._conversation.messages(self.session.records), tools, self.session.case, self.coming)

    def _record_reply(self, reply: Reply) -> Reply:
        """The reply as recorded: an id names one call, though some servers number those of every answer from 0."""
        calls = []
        for call in reply.calls:
            again = call.id in self._ids
            calls.append(call.model_copy(update={"id": f"{call.id}_{len(self._ids)}"}) if again else call)
            self._ids.add(calls[-1].id)
        reply = replace(reply, calls=tuple(calls))
        self.session.record(
            Replied(text=reply.text, calls=reply.calls, usage=reply.usage, model=reply.model, finish=reply.finish)
        )
        return reply

    async def _run_calls(self, calls: tuple[Call, ...]) -> None:
        """All calls of one message at once; the first fault that ends the run is raised after every one is answered."""
        for call in calls[CALLS_AT_ONCE:]:
            self._end(call, "refused", f"only {CALLS_AT_ONCE} calls of one message are carried out.")
        for call in calls[:CALLS_AT_ONCE]:
            self.session.record(Started(call=call.id, name=call.name, arguments=call.arguments))
        outcomes = await asyncio.gather(*(self._run(call) for call in calls[:CALLS_AT_ONCE]), return_exceptions=True)
        for outcome in outcomes:
            if outcome is not None and not isinstance(outcome, NotACall):
                raise outcome
        self._repetition.answered(len(outcomes), sum(isinstance(outcome, NotACall) for outcome in outcomes))

    async def _run(self, call: Call) -> ScoutError | None:
        def emit(record: BaseModel) -> None:
            if isinstance(record, TaskChanged) and not record.call:
                record = record.model_copy(update={"call": call.id})
            self.session.record(record)

        try:
            times = self._repetition.begin(call)
            text = await self.toolbox.call(call.name, call.arguments, emit)
        except ToolRefused as refused:
            self._end(call, "refused", str(refused))
            return refused if isinstance(refused, NotACall) else None
        except StoreError as error:  # nothing more can be recorded, not even that
            return error
        except ENDING as error:
            self._end(call, "failed", str(error))
            return error
        except ScoutError as error:
            self._end(call, "failed", str(error))
        except asyncio.CancelledError as stopped:
            if call.id in self.session.case.unanswered:
                self._end(call, "interrupted", str(stopped) or "stopped before it ended.")
            raise
        else:
            self._end(call, "ok", self._repetition.told(call, times, text))
        return None

    def _end(self, call: Call, status: str, text: str) -> None:
        self.session.record(Ended.model_validate({"call": call.id, "status": status, "text": text}))

    async def _last_words(self, limit: LimitReached) -> str:
        """One turn without tools to sum up; a model that cannot even do that leaves the bare reason."""
        self.session.record(Note(text=f"{limit.message} Sum up what was found, what is open, and stop."))
        request = self._request([])
        request.messages.append({"role": "user", "content": f"{limit.message} Sum up what you found and what is open."})
        try:
            async with asyncio.timeout(self.last_words_s):
                reply = await self.model.reply(request)
        except (EndpointError, TimeoutError):
            return f"Stopped: {limit.message}"
        self._record_reply(Reply(text=reply.text, usage=reply.usage, model=reply.model, finish=reply.finish))
        return reply.text or f"Stopped: {limit.message}"
