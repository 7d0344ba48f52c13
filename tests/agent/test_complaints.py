"""What users of such programs complain of, and which test holds each complaint off.

The complaints are those that can be met from the start: lost handles, waiting, control, cost, trust, sessions. `HELD`
names the tests; those that stand nowhere else stand here.
"""

from __future__ import annotations

import ast
import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent.contradictions import contradictions
from agent.history import messages, shorten
from agent.limits import Meter, waiting
from agent.loop import Agent
from agent.model import Reply, Request
from agent.models.scripted import Scripted, calls, say
from agent.progress import progress
from agent.reports import shown
from agent.roles.researcher import researcher_toolbox
from agent.run import Run, start
from agent.session import Session
from agent.settings import Settings, load_settings
from agent.tasks import LIMITS, POOL
from prompts import prompt
from tests.agent.research import ASK, LATER, Gates, main_agent, results, session_in, tasks_of
from tools import source
from tools.toolbox import Toolbox
from transcripts.errors import EndpointError, LimitReached
from transcripts.ids import new_id
from transcripts.parts import Citation, Finding, Limits, Usage
from transcripts.records import Opened, Reported
from transcripts.store import Store

HERE = "tests/agent/test_complaints.py"
LOOP = "tests/agent/test_loop_and_tasks.py"
BACKGROUND = "tests/agent/test_background.py"
ENDPOINT = "tests/agent/models/test_endpoint.py"
CASE = "tests/agent/test_endpoint_case.py"
HELD = {
    "a failed or crashed task returns no id": [
        f"{LOOP}::test_a_failed_task_still_begins_with_its_id_and_says_so",
        f"{LOOP}::test_reopening_answers_a_dangling_task_call_from_its_record",
        f"{LOOP}::test_cancelling_one_task_keeps_the_rest_and_says_so",
        f"{BACKGROUND}::test_a_task_without_a_tree_fails_under_its_id",
    ],
    "tasks cannot be resumed after a failure": [
        f"{HERE}::test_however_a_task_ended_it_goes_on_with_all_it_had",
        f"{BACKGROUND}::test_cancelling_all_ends_running_and_waiting_ones_and_every_id_can_be_resumed",
    ],
    "an invented id starts a new task in silence": [
        f"{LOOP}::test_an_id_that_is_not_ours_is_refused_with_the_list",
        f"{LOOP}::test_a_placeholder_is_no_id",
    ],
    "the session's own id deadlocks": [f"{LOOP}::test_an_id_that_is_not_ours_is_refused_with_the_list"],
    "the id has another name in the result, and nothing says when to resume": [
        f"{HERE}::test_the_tool_says_that_tasks_go_on_and_names_the_id_as_the_result_does"
    ],
    "the tool calls its tasks stateless": [
        f"{HERE}::test_the_tool_says_that_tasks_go_on_and_names_the_id_as_the_result_does"
    ],
    "resuming works only in the process that began": [f"{HERE}::test_another_process_resumes_a_task_by_its_id"],
    "a resumed task loses its role, tools, model or limits": [
        f"{HERE}::test_a_resumed_task_keeps_the_limits_model_and_tools_it_was_opened_with"
    ],
    "follow-ups begin cold": [f"{LOOP}::test_a_task_resumed_by_id_keeps_its_conversation_and_its_contract"],
    "tasks cannot be told to the call that began them": [f"{HERE}::test_another_process_resumes_a_task_by_its_id"],
    "tasks of one message run one after the other": [
        f"{LOOP}::test_tasks_of_one_message_run_side_by_side_and_begin_with_their_ids"
    ],
    "the model polls instead of being told": [
        f"{BACKGROUND}::test_a_background_task_answers_at_once_and_its_result_follows_before_the_next_turn",
        f"{BACKGROUND}::test_a_parent_with_nothing_left_to_say_waits_for_each_of_its_tasks",
    ],
    "a cancelled task reads as unknown, a finished one as cancelled": [
        f"{HERE}::test_a_cancelled_task_is_listed_as_cancelled_and_a_finished_one_as_completed"
    ],
    "a task is called done while something of its own still runs": [f"{CASE}::test_a_researcher_has_no_host"],
    "a start or a wait blocks for hours": [f"{HERE}::test_a_model_that_never_answers_ends_at_the_time_limit"],
    "hung, crashed and working look the same": [f"{HERE}::test_a_board_tells_working_waiting_and_ended_apart"],
    "paused tasks hang the parent that is resumed": [
        f"{BACKGROUND}::test_the_board_after_a_restart_knows_every_task_and_tells_what_a_dead_process_left"
    ],
    "ended tasks hold their places": [f"{HERE}::test_more_tasks_than_places_all_get_their_turn"],
    "one task cannot be stopped by itself": [
        f"{BACKGROUND}::test_cancelling_one_by_id_leaves_the_others_and_each_says_what_it_is",
        f"{BACKGROUND}::test_one_cancelled_while_it_waits_for_its_turn_says_cancelled",
    ],
    "stopping the parent leaves its tasks burning tokens": [
        f"{HERE}::test_a_stopped_parent_leaves_no_task_that_asks_the_model"
    ],
    "a limit kills without asking for what was found, or reads as success": [
        f"{LOOP}::test_a_limit_gets_one_turn_to_sum_up_and_an_honest_word",
        f"{HERE}::test_a_task_at_its_limit_sums_up_and_says_limit",
    ],
    "the clock counts waiting for a person": [f"{HERE}::test_the_clock_stands_still_while_a_person_is_asked"],
    "tasks begin tasks without end": [
        f"{CASE}::test_a_researcher_has_no_host",
        f"{HERE}::test_of_very_many_calls_in_one_message_only_the_first_are_carried_out",
    ],
    "a fan-out dies together on 429": [
        f"{ENDPOINT}::test_retry_after_closes_the_gate_for_everybody_at_that_endpoint",
    ],
    "without a terminal a question hangs for ever, and two questions overwrite each other": [
        f"{BACKGROUND}::test_without_anybody_to_ask_it_is_refused",
        f"{BACKGROUND}::test_two_commands_of_one_message_are_asked_about_one_after_the_other",
    ],
    "what tasks cost is missing from the total": [
        f"{BACKGROUND}::test_what_a_parent_has_used_is_its_own_and_its_tasks_after_every_resume"
    ],
    "tasks have no cap": [f"{HERE}::test_a_task_at_its_limit_sums_up_and_says_limit"],
    "nothing is seen of a task while it runs": [f"{HERE}::test_a_board_tells_working_waiting_and_ended_apart"],
    "a report without a single look, with invented lines": [
        f"{HERE}::test_a_report_without_a_look_or_with_invented_lines_is_marked"
    ],
    "contradictions are merged away, what is missing is told as fact": [
        f"{HERE}::test_contradictions_are_listed_and_what_is_open_stays_open",
        f"{BACKGROUND}::test_a_question_comes_back_answered_unanswered_or_contradicted",
    ],
    "shortening forgets running tasks": [f"{HERE}::test_a_shortened_conversation_still_names_the_running_tasks"],
    "a dangling call poisons a session": [
        f"{LOOP}::test_reopening_answers_a_dangling_task_call_from_its_record"
    ],
    "resuming is slow with much history": [f"{HERE}::test_resuming_reads_the_transcript_once_and_no_other"],
    "what is typed meanwhile is lost": [
        "tests/agent/test_chat.py::test_questions_typed_while_it_works_wait_are_shown_and_answered"
    ],
    "success is said though the work was not done": [
        f"{CASE}::test_an_endpoint_that_dies_in_the_middle_ends_with_6_and_the_session_goes_on",
        f"{HERE}::test_a_run_that_reached_a_limit_is_no_success",
    ],
    "one bit for a dead channel, a missing program and no match": [
        f"{HERE}::test_why_a_command_brought_nothing_is_told_apart"
    ],
}  # fmt: skip


@pytest.mark.parametrize("complaint", HELD)
def test_every_complaint_is_held_off_by_tests_that_exist(complaint: str) -> None:
    root = Path(__file__).resolve().parents[2]
    for name in HELD[complaint]:
        path, _, function = name.partition("::")
        tree = ast.parse((root / path).read_text(encoding="utf-8"))
        assert function in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, name


def _several(count: int) -> list[tuple[str, dict[str, object]]]:
    """Calls of as many different tasks."""
    return [("task", {**ASK, "prompt": f"{number}. Which options are there?"}) for number in range(1, count + 1)]


def _task_line(text: str) -> str:
    return text.splitlines()[0].split()[1]


@pytest.mark.parametrize("how", ["failed", "limit", "cancelled", "interrupted"])
def test_however_a_task_ended_it_goes_on_with_all_it_had(tmp_path: Path, how: str) -> None:
    async def work() -> None:
        gates = Gates(1)
        with session_in(tmp_path) as session:
            first = {
                "failed": Scripted(calls(("report", {})), EndpointError("the endpoint is gone.", "Try later.")),
                "limit": Scripted(
                    calls(("report", {}), text="found"), LimitReached("the limit of 1 is reached."), say("")
                ),
            }.get(how, Scripted(calls(("report", {})), calls(("wait", {}))))
            tasks = tasks_of(session, tmp_path, gates, first)
            agent, _ = main_agent(session, tasks, calls(("task", ASK)), say("so be it"))
            running = asyncio.ensure_future(agent.run())
            if how in ("cancelled", "interrupted"):
                await gates.begun[0].wait()
                await tasks.cancel(*(session.case.tasks if how == "cancelled" else ()))
            await running
            (task,) = session.case.tasks.values()
            assert task.status == how
            later = Scripted(say("went on"))
            tasks = tasks_of(session, tmp_path, None, later)
            agent, model = main_agent(session, tasks, calls(("task", {**ASK, "task_id": task.id})), say("done"))
            await agent.run()
            assert task.status == "completed"
        assert any("kept" in text for text in results(later.requests[0]))
        assert _task_line(results(model.requests[-1])[-1]) == task.id

    asyncio.run(work())


def test_the_tool_says_that_tasks_go_on_and_names_the_id_as_the_result_does(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        schema = tasks_of(session, tmp_path).tool(prompt("task")).schema()["function"]
        agent, model = main_agent(session, tasks_of(session, tmp_path), calls(("task", ASK)), say("done"))
        asyncio.run(agent.run())
    assert "task_id" in schema["parameters"]["properties"]
    assert results(model.requests[1])[0].startswith("task_id: ses_")
    assert "pass that to ask more or to continue" in schema["description"]
    assert "Leave it out to start a new one" in schema["description"]
    assert "stateless" not in json.dumps(schema)
    assert len(json.dumps(schema)) <= 1_500


def test_another_process_resumes_a_task_by_its_id(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        asked = calls(("task", ASK))
        agent, _ = main_agent(session, tasks_of(session, tmp_path), asked, say("done"))
        asyncio.run(agent.run())
        (identity,) = session.case.tasks
        parent = session.id
    with Session.open(Store(tmp_path), parent) as session:
        assert session.case.tasks[identity].call == asked.calls[0].id
        later = Scripted(say("went on"))
        tasks = tasks_of(session, tmp_path, None, later)
        agent, _ = main_agent(
            session, tasks, calls(("task", {**ASK, "prompt": "and 2?", "task_id": identity})), say("")
        )
        asyncio.run(agent.run())
        assert list(session.case.tasks) == [identity]
    assert results(later.requests[0])[-1].count("kept") == 1
    assert later.requests[0].messages[-1]["content"] == "and 2?"


def test_a_resumed_task_keeps_the_limits_model_and_tools_it_was_opened_with(tmp_path: Path) -> None:
    """Whatever a later version or another setting gives to new tasks."""
    cache = load_settings("playbook").cache
    made: list[str] = []
    agents: list[Agent] = []

    def model(_settings: Settings, name: str, _notice: object) -> Scripted:
        made.append(name)
        return Scripted(calls(("flag", {"name": "--tp"})), say("done"))

    async def work() -> None:
        settings = Settings(tmp_path, cache, "new-model", "http://127.0.0.1:9/v1", "")
        target = {"kind": "bundle", "path": "x", "host": "x", "version": "0.5.9"}
        limits = Limits(turns=7, seconds=11.0, tokens=13_000)
        with start(settings, target, "slow") as session:
            parent = session.id
            opened = Opened(id=new_id(), role="task", parent=parent, text="1. ?", model="old-model", limits=limits)
            Session.create(Store(tmp_path), opened).close()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("agent.run.make_model", model)
                run = Run.on(settings, session, lambda *_: None)
                with Session.open(Store(tmp_path), opened.id) as task:
                    agents.append(await run.tasks.make(task))
                    await agents[0].run()

    asyncio.run(work())
    assert made == ["new-model", "old-model"]
    assert agents[0].limits == Limits(turns=7, seconds=11.0, tokens=13_000)
    assert set(agents[0].toolbox.names) == {"search", "read", "list", "flag", "rules", "usage", "report"}


def test_a_cancelled_task_is_listed_as_cancelled_and_a_finished_one_as_completed(tmp_path: Path) -> None:
    async def work() -> None:
        gates = Gates(2)
        with session_in(tmp_path) as session:
            tasks = tasks_of(session, tmp_path, gates)
            wrong = {**ASK, "task_id": "ses_0123456789ABCDEF"}
            agent, model = main_agent(
                session, tasks, calls(("task", ASK), ("task", ASK)), calls(("task", wrong)), say("done")
            )
            running = asyncio.ensure_future(agent.run())
            await asyncio.gather(*(begun.wait() for begun in gates.begun))
            first, second = session.case.tasks
            await tasks.cancel(first)
            gates.doors[1].set()
            await running
        refusal = results(model.requests[-1])[-1]
        assert f"{first} (offload options, cancelled)" in refusal
        assert f"{second} (offload options, completed)" in refusal

    asyncio.run(work())


class Silent:
    """A model that never answers."""

    name = "silent"

    def __init__(self) -> None:
        self.asked = 0

    async def reply(self, _request: Request) -> Reply:
        self.asked += 1
        await asyncio.Event().wait()
        raise AssertionError("never")


def test_a_model_that_never_answers_ends_at_the_time_limit(tmp_path: Path) -> None:
    assert LIMITS.seconds is not None
    with session_in(tmp_path) as session:
        agent = Agent(session, Silent(), Toolbox([]), "system", Limits(seconds=0.01), last_words_s=0.01)
        with pytest.raises(LimitReached, match="s is reached"):
            asyncio.run(agent.run())
        assert session.case.concluded is not None
        assert session.case.concluded.exit == 5


def test_a_board_tells_working_waiting_and_ended_apart(tmp_path: Path) -> None:
    async def work() -> None:
        gates = Gates(4)
        with session_in(tmp_path) as session:
            tasks = tasks_of(session, tmp_path, gates)
            agent, _ = main_agent(session, tasks, calls(*[("task", ASK)] * (POOL + 1)), say("done"))
            running = asyncio.ensure_future(agent.run())
            await asyncio.gather(*(begun.wait() for begun in gates.begun[:POOL]))
            *working, queued = session.case.tasks
            seen = [progress(Store(tmp_path), task, True) for task in working]
            assert [each.doing for each in seen] == ["wait"] * POOL
            assert all(each.silent_s is not None for each in seen)
            assert progress(Store(tmp_path), queued, True).doing == "waiting"
            for door in gates.doors:
                door.set()
            await running
            ended = progress(Store(tmp_path), working[0], False)
            assert (ended.doing, ended.silent_s) == ("done", None)

    asyncio.run(work())


def test_more_tasks_than_places_all_get_their_turn(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        tasks = tasks_of(session, tmp_path)
        agent, _ = main_agent(session, tasks, calls(*_several(3 * POOL + 1)), say("done"))
        asyncio.run(agent.run())
        assert [task.status for task in session.case.tasks.values()] == ["completed"] * (3 * POOL + 1)
        assert tasks.running == {}


def test_a_stopped_parent_leaves_no_task_that_asks_the_model(tmp_path: Path) -> None:
    async def work() -> None:
        gates = Gates(2)
        researchers = [Scripted(calls(("wait", {})), say("never asked for")) for _ in range(2)]
        with session_in(tmp_path) as session:
            tasks = tasks_of(session, tmp_path, gates, *researchers)
            agent, _ = main_agent(session, tasks, calls(("task", ASK), ("task", LATER)))
            running = asyncio.ensure_future(agent.run())
            await asyncio.gather(*(begun.wait() for begun in gates.begun))
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await tasks.cancel()
            for door in gates.doors:
                door.set()
            await asyncio.sleep(0)
            assert tasks.running == {}
            assert [task.status for task in session.case.tasks.values()] == ["interrupted"] * 2
        assert [len(researcher.requests) for researcher in researchers] == [1, 1]

    asyncio.run(work())


@pytest.mark.parametrize("limits", [Limits(turns=2), Limits(tokens=50)], ids=["turns", "tokens"])
def test_a_task_at_its_limit_sums_up_and_says_limit(tmp_path: Path, limits: Limits) -> None:
    assert LIMITS.turns is not None
    assert LIMITS.tokens is not None
    spent = Usage(turns=1, tokens_in=30, tokens_out=1)
    turn = calls(("report", {}))
    steps = [
        Reply(calls=turn.calls, usage=spent),
        Reply(calls=calls(("wait", {})).calls, usage=spent),
        say("so far: x"),
    ]
    with session_in(tmp_path) as session:
        tasks = tasks_of(session, tmp_path, None, Scripted(*steps))
        tasks.limits = limits
        agent, model = main_agent(session, tasks, calls(("task", ASK)), say("done"))
        asyncio.run(agent.run())
        (task,) = session.case.tasks.values()
    assert task.status == "limit"
    lines = results(model.requests[1])[0]
    assert f"task_id: {task.id}" in lines
    assert "status: limit" in lines
    assert "found" in lines


def test_the_clock_stands_still_while_a_person_is_asked() -> None:
    async def work() -> float:
        meter = Meter(Limits(seconds=0.05))
        async with meter.clock():
            async with waiting():
                await asyncio.sleep(0.2)  # longer than the limit, and still no TimeoutError
            left = meter.seconds_left()
        assert left is not None
        return left

    assert 0 < asyncio.run(work()) <= 0.05


def test_of_very_many_calls_in_one_message_only_the_first_are_carried_out(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        agent, model = main_agent(session, tasks_of(session, tmp_path), calls(*_several(200)), say("done"))
        asyncio.run(agent.run())
        assert len(session.case.tasks) == 16
    told = results(model.requests[1])
    assert len(told) == 200
    assert sum("only 16 calls" in text for text in told) == 184


def test_a_report_without_a_look_or_with_invented_lines_is_marked(tmp_path: Path) -> None:
    finding = {"question": "1", "subject": "--x", "kind": "does", "text": "it does"}
    invented = {**finding, "path": "srt/server_args.py", "line": 3, "quote": "def made_up(): ..."}
    gone = {**finding, "path": "srt/no_such_file.py", "line": 1, "quote": "x"}

    async def report(home: Path, *steps: Reply) -> tuple[Reported, str]:
        tree = await source.obtain("0.5.9", cache=load_settings("playbook").cache)
        with session_in(home) as session:
            model = Scripted(*steps, calls(("report", {"findings": [invented, gone]})), say("done"))
            await Agent(session, model, researcher_toolbox(tree, session), "researcher", Limits()).run()
            return session.case.reports[session.id], results(model.requests[-1])[-1]

    lazy, told = asyncio.run(report(tmp_path / "lazy"))
    assert not lazy.verified
    assert [c.checked for finding in lazy.findings for c in finding.citations] == [False, False]
    assert "do not read as you quoted them" in told
    read, _ = asyncio.run(report(tmp_path / "read", calls(("flag", {"name": "--tp"}))))
    assert read.verified


def test_contradictions_are_listed_and_what_is_open_stays_open(tmp_path: Path) -> None:
    def found(kind: str, text: str) -> Finding:
        citation = Citation(id="S1", path="srt/a.py", line=1, quote="x", checked=True)
        row = {"question": "1", "subject": "--x", "kind": kind, "text": text, "citations": (citation,)}
        return Finding.model_validate(row)

    with session_in(tmp_path) as session:
        session.record(Reported(task="ses_1", findings=(found("does", "the pool grows"),), verified=True))
        session.record(Reported(task="ses_2", findings=(found("does_not", "the pool never grows"),), unanswered=("2",)))
        (listed,) = contradictions(session.case)
        told = shown(session.case.reports["ses_2"], "")
    assert "the pool grows" in listed
    assert "the pool never grows" in listed
    assert "- unanswered: 2" in told.splitlines()


def test_a_shortened_conversation_still_names_the_running_tasks(tmp_path: Path) -> None:
    async def work() -> None:
        gates = Gates(2)
        with session_in(tmp_path) as session:
            tasks = tasks_of(session, tmp_path, gates)
            agent, _ = main_agent(session, tasks, calls(("task", LATER), ("task", LATER)), say("waiting"))
            running = asyncio.ensure_future(agent.run())
            await asyncio.gather(*(begun.wait() for begun in gates.begun))
            shorten(session)
            told = json.dumps(messages("system", session.records))
            assert all(f"task_id: {task} (offload options): running" in told for task in session.case.tasks)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await tasks.cancel()

    asyncio.run(work())


def test_resuming_reads_the_transcript_once_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(20):
        session_in(tmp_path).close()
    with session_in(tmp_path) as session:
        identity = session.id
    opened: list[str] = []
    open_file = os.open

    def counted(path: Any, flags: int, *more: Any, **named: Any) -> int:
        opened.extend([str(path)] if flags & os.O_ACCMODE == os.O_RDONLY else [])
        return open_file(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", counted)
    with Session.open(Store(tmp_path), identity):
        pass
    assert [path for path in opened if identity not in path] == []
    assert len([path for path in opened if path.endswith(".jsonl")]) == 1


def test_a_run_that_reached_a_limit_is_no_success(tmp_path: Path) -> None:
    settings = Settings(tmp_path, load_settings("playbook").cache, "", "", "")

    async def work() -> int:
        with start(settings, {"kind": "bundle", "path": "x", "host": "x"}, "slow") as session:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(
                    "agent.run.make_model", lambda *_: Scripted(LimitReached("the limit is reached."), say(""))
                )
                run = Run.on(settings, session, lambda *_: None)
            with pytest.raises(LimitReached) as caught:
                await run.answer()
            assert session.case.concluded is not None
            assert session.case.concluded.exit == caught.value.exit_code
            return caught.value.exit_code

    assert asyncio.run(work()) == 5


@pytest.mark.parametrize(
    ("text", "status", "word"),
    [
        ("sh: 1: nvidia-smi: not found", 127, "missing"),
        ("cat: /x: No such file or directory", 1, "missing"),
        ("cat: /x: Permission denied", 1, "denied"),
        ("", 124, "timeout"),
        ("curl: (7) Failed to connect", 7, "refused"),
        ("", 1, "empty"),
        ("what it printed before it failed", 1, ""),
        ("fine", 0, ""),
    ],
)
def test_why_a_command_brought_nothing_is_told_apart(text: str, status: int, word: str) -> None:
    from tools.host.look import problem_of

    assert problem_of(text, status) == word
