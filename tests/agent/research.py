"""A main agent and its research tasks, scripted on both sides, over real transcripts; some wait to be let go."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agent.loop import Agent
from agent.model import Request
from agent.models.scripted import Scripted, Step, calls, say
from agent.session import Session
from agent.tasks import Tasks
from tools.toolbox import Arguments, Emit, Tool, Toolbox
from transcripts.ids import new_id
from transcripts.parts import Citation, Finding, Limits
from transcripts.records import Opened, Reported
from transcripts.store import Store

ASK = {"description": "offload options", "prompt": "1. Which options are there?"}
LATER = {**ASK, "background": True}


class Nothing(Arguments):
    pass


class Gates:
    """Researchers that wait until they are let go, each by its place in the order of their beginnings."""

    def __init__(self, count: int) -> None:
        self.doors = [asyncio.Event() for _ in range(count)]
        self.begun = [asyncio.Event() for _ in range(count)]
        self._next = iter(range(count))

    async def wait(self) -> None:
        number = next(self._next)
        self.begun[number].set()
        await self.doors[number].wait()


def session_in(home: Path) -> Session:
    return Session.create(Store(home), Opened(id=new_id(), role="session", text="it is slow", model="scripted"))


def tasks_of(session: Session, home: Path, gates: Gates | None = None, *researchers: Scripted) -> Tasks:
    queue = list(researchers)

    async def pinned() -> dict[str, object]:
        return {"version": "0.5.9"}

    async def wait(_arguments: Nothing, _emit: Emit) -> str:
        if gates is not None:
            await gates.wait()
        return "waited"

    async def make(child: Session) -> Agent:
        async def report(_arguments: Nothing, emit: Emit) -> str:
            citation = Citation(path="srt/a.py", line=1, quote="x", checked=True)
            finding = Finding(question="1", subject="a", kind="does", text="found", citations=(citation,))
            emit(Reported(task=child.id, findings=(finding,), verified=True))
            return "kept"

        tools = Toolbox([Tool("wait", "", Nothing, wait), Tool("report", "", Nothing, report)])
        model = queue.pop(0) if queue else Scripted(calls(("wait", {})), calls(("report", {})), say("reported"))
        return Agent(child, model, tools, "researcher", child.case.opened.limits)

    return Tasks(session, Store(home), make, "scripted", pinned)


def main_agent(session: Session, tasks: Tasks, *steps: Step, limits: Limits | None = None) -> tuple[Agent, Scripted]:
    model = Scripted(*steps)
    return Agent(session, model, Toolbox([tasks.tool("task")]), "main", limits or Limits(), inbox=tasks), model


def results(request: Request) -> list[str]:
    return [str(message["content"]) for message in request.messages if message["role"] == "tool"]


def delivered(request: Request) -> list[str]:
    return [str(m["content"]) for m in request.messages if m["role"] == "user" and "background task" in m["content"]]
