"""A researcher has no host: what only a look can show it asks of the main agent, which goes on with it by its id."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from agent.history import messages, shorten
from agent.model import Reply, Request
from agent.models.scripted import Scripted, calls, say
from agent.roles.researcher import READING
from agent.run import Run, start
from agent.settings import Settings, load_settings
from tests.agent.research import results
from transcripts.records import Reported

PROMPT = "1. What is --max-running-requests when it is not set?\n2. Does that default apply on this host?"
WANTED = "2: is speculative decoding on in the launch command?"
LINE = "srt/server_args.py"


def _found(request: Request) -> tuple[int, str]:
    """A line of the tree as a search brought it."""
    hit = re.search(rf"{LINE}:(\d+): ?(.*max_running_requests = 48.*)", results(request)[-1])
    assert hit is not None, results(request)[-1]
    return int(hit[1]), hit[2].strip()


def _report(request: Request, *answered: str, looks: tuple[str, ...] = ()) -> Reply:
    number, quote = _found(request)
    findings = [
        {"question": each, "subject": "--max-running-requests", "kind": "answer", "text": "48 with speculation",
         "path": LINE, "line": number, "quote": quote} for each in answered
    ]  # fmt: skip
    return calls(("report", {"findings": findings, "looks": list(looks)}))


SEARCH = calls(("search", {"pattern": "max_running_requests = 48", "path": LINE}))


def _continued(request: Request) -> Reply:
    """What the main agent does with an asked look that it granted: it tells the task what it saw."""
    told = next(text for text in results(request) if text.startswith("task_id: "))
    identity = told.split()[1]
    seen = re.search(r"E20:\d+: .*(speculative_algorithm='\w+')", results(request)[-1])
    assert seen is not None
    return calls(("task", {"description": "", "prompt": f"The boot log says: {seen[1]}", "task_id": identity}))


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A researcher asks for a look, the main agent takes it on the recorded host, the researcher answers."""
    main = Scripted(
        calls(("look", {})),
        calls(("task", {"description": "the default limit", "prompt": PROMPT})),
        calls(("evidence", {"id": "E20", "find": "speculative_algorithm"})),
        _continued,
        say("The limit is the default of speculation [S1]."),
    )
    first = Scripted(SEARCH, lambda asked: _report(asked, "1", looks=(WANTED,)), say("one look is needed"))
    again = Scripted(SEARCH, lambda asked: _report(asked, "1", "2"), say("both answered"))
    minds = [first, again]

    class TwoRoles:
        name = "scripted"

        async def reply(self, request: Request) -> Reply:
            own = any(tool["function"]["name"] == "look" for tool in request.tools)
            if not own and not minds[0].steps:
                minds.pop(0)
            return await (main if own else minds[0]).reply(request)

    async def work() -> dict[str, Any]:
        home = tmp_path_factory.mktemp("looked")
        settings = Settings(home, load_settings("playbook").cache, "", "", "")
        target = {"kind": "recorded", "recording": "slots", "host": "recorded:slots"}
        with start(settings, target, "slow") as session:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("agent.run.make_model", lambda *_: TwoRoles())
                run = Run.on(settings, session, lambda *_: None)
            async with run.bench:
                await run.answer()
            kept = [record for record in session.records if isinstance(record, Reported)]
            begun = next(n for n, record in enumerate(session.records) if record is kept[0])
            tasks = list(session.case.tasks.values())
            session.case.reports[tasks[0].id] = kept[0]
            shorten(session)
            board = messages("s", session.records)[1]["content"]
        return {"main": main, "first": first, "again": again, "reports": kept, "tasks": tasks, "board": board,
                "begun": begun}  # fmt: skip

    return asyncio.run(work())


def test_what_it_asks_for_reaches_the_main_agent_with_the_question_left_open(looked: dict[str, Any]) -> None:
    told = results(looked["main"].requests[2])[-1]
    assert f"- asks for a look: {WANTED}" in told
    assert "question 1: answered [S1]" in told
    assert "question 2: unanswered" in told


def test_the_look_that_was_granted_reaches_the_same_researcher_which_then_answers(looked: dict[str, Any]) -> None:
    (task,) = looked["tasks"]
    assert task.status == "completed"
    began = looked["again"].requests[0].messages
    assert "speculative_algorithm" in began[-1]["content"]
    assert PROMPT in json.dumps(began[1]["content"]).replace("\\n", "\n")
    told = results(looked["main"].requests[-1])[-1]
    assert told.startswith(f"task_id: {task.id} ")
    assert "question 2: answered [S1]" in told
    assert "asks for a look" not in told
    looked["main"].finished()


def test_a_shortened_conversation_still_says_which_look_is_asked_for(looked: dict[str, Any]) -> None:
    assert f"Looks asked for:\n- {WANTED} [task_id: {looked['tasks'][0].id}]" in looked["board"]


def test_the_researcher_itself_has_no_tool_that_looks(looked: dict[str, Any]) -> None:
    names = {tool["function"]["name"] for tool in looked["first"].requests[0].tools}
    assert names == READING | {"report"}


def test_of_a_line_longer_than_a_result_may_be_the_part_looked_for_is_read(looked: dict[str, Any]) -> None:
    """A server prints all its arguments in one line; cut in the middle it would lose just that."""
    told = results(looked["main"].requests[3])[-1]
    assert "speculative_algorithm='EAGLE3'" in told
    assert "characters left out" not in told
    assert "characters; `find` shows the part around a text" in told
