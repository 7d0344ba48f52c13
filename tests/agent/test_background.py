"""Tasks in the background, stops, the board after a restart, the operator's yes: what is on record and who is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.case import Case
from agent.model import Reply, Request
from agent.models.scripted import Scripted, Step, calls, say
from agent.reports import questions, shown
from agent.run import Run, start
from agent.session import Session
from agent.settings import Settings, load_settings
from tests.agent.research import ASK, LATER, Gates, delivered, main_agent, results, session_in, tasks_of
from transcripts.errors import Inconclusive, LimitReached
from transcripts.parts import Citation, Finding, Limits, Usage
from transcripts.records import Delivered, Reported, load
from transcripts.store import Store


def opening(door: int, gates: Callable[[], Gates], reply: Reply) -> Step:
    """A step of the main model in the middle of which a researcher is let go."""

    def step(_request: Request) -> Reply:
        gates().doors[door].set()
        return reply

    return step


def test_a_background_task_answers_at_once_and_its_result_follows_before_the_next_turn(tmp_path: Path) -> None:
    async def work() -> None:
        gates = Gates(1)
        with session_in(tmp_path) as session:
            tasks = tasks_of(session, tmp_path, gates)
            agent, model = main_agent(
                session, tasks, calls(("task", LATER)), opening(0, lambda: gates, say("meanwhile")), say("all told")
            )
            reply = await agent.run()
            (state,) = session.case.tasks.values()
            kinds = [record.type for record in session.records]
        assert reply.text == "all told"
        head = f"task_id: {state.id} (for resuming to continue this task if needed)"
        assert results(model.requests[1])[0].splitlines()[:2] == [head, "status: running"]
        assert delivered(model.requests[1]) == []
        (told,) = delivered(model.requests[2])
        assert head in told
        assert "status:" not in told
        assert "a (does): found [S1 srt/a.py:1]" in told
        assert kinds.index("delivered") < len(kinds) - 1 - kinds[::-1].index("replied")
        assert not state.undelivered
        model.finished()

    asyncio.run(work())


def test_a_parent_with_nothing_left_to_say_waits_for_each_of_its_tasks(tmp_path: Path) -> None:
    """Two results come one after the other: the model is woken for each, and ends after the last."""

    async def work() -> None:
        gates = Gates(2)
        with session_in(tmp_path) as session:
            tasks = tasks_of(session, tmp_path, gates)
            agent, model = main_agent(
                session,
                tasks,
                calls(("task", LATER), ("task", LATER)),
                opening(1, lambda: gates, say("waiting")),
                opening(0, lambda: gates, say("one is there")),
                say("both are there"),
            )
            reply = await agent.run()
            order = [record.task for record in session.records if isinstance(record, Delivered)]
            assert order == list(reversed(list(session.case.tasks)))
        assert reply.text == "both are there"
        assert [len(delivered(request)) for request in model.requests] == [0, 0, 1, 2]
        model.finished()

    asyncio.run(work())


def test_cancelling_one_by_id_leaves_the_others_and_each_says_what_it_is(tmp_path: Path) -> None:
    async def work() -> None:
        gates = Gates(2)
        with session_in(tmp_path) as session:
            tasks = tasks_of(session, tmp_path, gates)

            async def stop_the_first() -> None:
                await asyncio.gather(*(begun.wait() for begun in gates.begun))
                first, _ = session.case.tasks
                assert await tasks.cancel(first) == [first]
                gates.doors[1].set()

            agent, model = main_agent(
                session, tasks, calls(("task", LATER), ("task", LATER)), say("waiting"), say("one"), say("both")
            )
            await asyncio.gather(agent.run(), stop_the_first())
            first, second = session.case.tasks.values()
        assert (first.status, second.status) == ("cancelled", "completed")
        told = delivered(model.requests[-1])
        assert f"task_id: {first.id} " in told[0]
        assert "status: cancelled" in told[0]
        assert f"task_id: {second.id} " in told[1]

    asyncio.run(work())


def test_cancelling_all_ends_running_and_waiting_ones_and_every_id_can_be_resumed(tmp_path: Path) -> None:
    """Five tasks, three places: two of them never began, and are on record as interrupted like the rest."""

    async def work() -> None:
        gates = Gates(5)
        with session_in(tmp_path) as session:
            tasks = tasks_of(session, tmp_path, gates)
            agent, _ = main_agent(session, tasks, calls(*[("task", LATER)] * 5), say("waiting"))
            running = asyncio.ensure_future(agent.run())
            await asyncio.gather(*(begun.wait() for begun in gates.begun[:3]))
            assert len(await tasks.cancel()) == 5
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert [task.status for task in session.case.tasks.values()] == ["interrupted"] * 5
            again, model = main_agent(
                session,
                tasks_of(session, tmp_path, None, *[Scripted(say("went on")) for _ in range(5)]),
                calls(*[("task", {**ASK, "task_id": task}) for task in session.case.tasks]),
                say("done"),
            )
            again.inbox = None
            await again.run()
            assert {task.status for task in session.case.tasks.values()} == {"completed"}
            assert len(session.case.tasks) == 5
        assert all("went on" in text for text in results(model.requests[-1])[-5:])

    asyncio.run(work())


def test_one_cancelled_while_it_waits_for_its_turn_says_cancelled(tmp_path: Path) -> None:
    async def work() -> None:
        gates = Gates(4)
        with session_in(tmp_path) as session:
            tasks = tasks_of(session, tmp_path, gates)

            async def stop_the_last() -> None:
                await asyncio.gather(*(begun.wait() for begun in gates.begun[:3]))
                *_, last = session.case.tasks
                await tasks.cancel(last)
                for door in gates.doors:
                    door.set()

            agent, model = main_agent(session, tasks, calls(*[("task", ASK)] * 4), say("done"))
            await asyncio.gather(agent.run(), stop_the_last())
            assert [task.status for task in session.case.tasks.values()] == ["completed"] * 3 + ["cancelled"]
        assert "status: cancelled" in results(model.requests[1])[3]

    asyncio.run(work())


def test_the_board_after_a_restart_knows_every_task_and_tells_what_a_dead_process_left(tmp_path: Path) -> None:
    async def work() -> str:
        gates = Gates(2)
        with session_in(tmp_path) as session:
            tasks = tasks_of(session, tmp_path, gates)
            agent, _ = main_agent(session, tasks, calls(("task", LATER), ("task", LATER)), say("waiting"))
            running = asyncio.ensure_future(agent.run())
            await asyncio.gather(*(begun.wait() for begun in gates.begun))
            # A process that dies writes nothing more: what follows reads the records as they stand now.
            copy = tmp_path / "dead"
            for path in (tmp_path / "transcripts").rglob("*"):
                if path.is_file() and path.suffix != ".lock":
                    target = copy / path.relative_to(tmp_path)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(path.read_bytes())
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await tasks.cancel()
            return session.id

    identity = asyncio.run(work())
    dead = tmp_path / "dead"
    with Session.open(Store(dead), identity) as session:
        assert [task.status for task in session.case.tasks.values()] == ["running", "running"]
        tasks = tasks_of(session, dead)
        agent, model = main_agent(session, tasks, say("so they were cut off"))
        asyncio.run(agent.run())
        assert [task.status for task in session.case.tasks.values()] == ["interrupted", "interrupted"]
        told = delivered(model.requests[0])
        assert len(told) == 2
        assert all("status: interrupted" in text for text in told)
        again = Case.fold([record for stored in Store(dead).read(identity) if (record := load(stored)) is not None])
    assert {task.id: task.status for task in again.tasks.values()} == {
        task.id: task.status for task in session.case.tasks.values()
    }


def test_a_limit_of_the_parent_ends_its_tasks_and_keeps_their_ids(tmp_path: Path) -> None:
    async def work() -> None:
        gates = Gates(1)
        with session_in(tmp_path) as session:
            tasks = tasks_of(session, tmp_path, gates)
            agent, _ = main_agent(session, tasks, calls(("task", LATER)), say("summed up"), limits=Limits(turns=1))
            with pytest.raises(LimitReached):
                await agent.run()
            await tasks.cancel()
            (task,) = session.case.tasks.values()
            assert task.status == "interrupted"
            assert session.case.concluded is not None

    asyncio.run(work())


def test_what_a_parent_has_used_is_its_own_and_its_tasks_after_every_resume(tmp_path: Path) -> None:
    def answer(tokens: int) -> Reply:
        return Reply(text="so far", usage=Usage(turns=1, tokens_in=tokens, tokens_out=1))

    async def work() -> None:
        with session_in(tmp_path) as session:
            researchers = [Scripted(answer(10)), Scripted(answer(20)), Scripted(answer(30))]
            tasks = tasks_of(session, tmp_path, None, *researchers)
            agent, _ = main_agent(session, tasks, calls(("task", ASK)), answer(100))
            await agent.run()
            (identity,) = session.case.tasks
            for _ in range(2):
                more = calls(("task", {**ASK, "prompt": "go on", "task_id": identity}))
                agent, _ = main_agent(session, tasks, more, answer(100))
                await agent.run()
            own, spent = session.case.total_usage()
            assert (own.turns, own.tokens_in) == (6, 300)
            assert (spent.turns, spent.tokens_in, spent.tokens_out) == (3, 60, 3)
            assert own + spent == Usage(turns=9, tokens_in=360, tokens_out=6)
            identity = session.id
        with Session.open(Store(tmp_path), identity) as again:
            assert again.case.total_usage() == (own, spent)

    asyncio.run(work())


def test_a_task_without_a_tree_fails_under_its_id(tmp_path: Path) -> None:
    async def nowhere() -> dict[str, object]:
        raise Inconclusive("the version is not known.", "Pass --source PATH.")

    with session_in(tmp_path) as session:
        tasks = tasks_of(session, tmp_path)
        tasks.source = nowhere
        agent, model = main_agent(session, tasks, calls(("task", ASK)), say("so be it"))
        asyncio.run(agent.run())
        (task,) = session.case.tasks.values()
    assert task.status == "failed"
    text = results(model.requests[1])[0]
    assert text.startswith(f"task_id: {task.id} (for resuming to continue this task if needed)\nstatus: failed\n\n")
    assert "the version is not known" in text


def _finding(question: str, kind: str, *checked: bool) -> Finding:
    citations = tuple(
        Citation(id=f"S{n}", path="srt/a.py", line=n, quote="x", checked=held) for n, held in enumerate(checked, 1)
    )
    return Finding.model_validate(
        {"question": question, "subject": "--x", "kind": kind, "text": "it does", "citations": citations}
    )


@pytest.mark.parametrize(
    ("findings", "state", "references"),
    [
        ([_finding("1", "does", True)], "answered", ("S1",)),
        ([_finding("q1", "answer", True, True)], "answered", ("S1", "S2")),
        ([_finding("1", "does", False)], "unanswered", ()),
        ([_finding("1", "does", False, True)], "answered", ("S2",)),
        ([_finding("1", "contradicts", True)], "contradicted", ("S1",)),
        ([_finding("1", "contradicts", False)], "unanswered", ()),
        ([_finding("2", "does", True)], "unanswered", ()),
        ([_finding("11", "does", True)], "unanswered", ()),
        ([], "unanswered", ()),
    ],
    ids=["held", "two lines", "not in the tree", "one of two", "against", "against, unheld", "other", "eleven", "none"],
)
def test_a_question_comes_back_answered_unanswered_or_contradicted(
    findings: list[Finding], state: str, references: tuple[str, ...]
) -> None:
    report = Reported(task="ses_1", findings=tuple(findings), verified=True)
    (question,) = questions(report, ["1. What does --x do?"])
    assert (question.state, question.references) == (state, references)
    assert f"question 1: {state}" in shown(report, "", ["1. What does --x do?"])


COMMAND = "cat /root/sglang/start.sh"


@pytest.mark.parametrize("yes", [True, False], ids=["agreed", "refused"])
def test_a_command_that_needs_a_yes_is_shown_whole_and_runs_only_with_it(tmp_path: Path, yes: bool) -> None:
    asked: list[tuple[str, str]] = []

    async def approve(command: str, reason: str) -> bool:
        asked.append((command, reason))
        return yes

    ended, evidence = _run_command(tmp_path, approve, COMMAND)
    assert [command for command, _ in asked] == [COMMAND]
    assert "holds what people typed" in asked[0][1]
    assert (ended[0] != "refused") == yes
    assert evidence == ([COMMAND] if yes else [])


def test_without_anybody_to_ask_it_is_refused(tmp_path: Path) -> None:
    ended, evidence = _run_command(tmp_path, None, COMMAND)
    assert ended == ["refused"]
    assert evidence == []


def test_what_an_operator_is_asked_is_never_cut_and_hides_nothing(tmp_path: Path) -> None:
    """A long command is shown to its end; one with characters that hide is refused and never asked about."""
    asked: list[str] = []

    async def approve(command: str, _reason: str) -> bool:
        asked.append(command)
        return False

    long = "ls /root/" + "x" * 1500
    hiding = [f"ls '/root/a{char}b'" for char in "\u202e\u200b\x1b\x08\n\U000e0041\u0430"]
    ended, evidence = _run_command(tmp_path, approve, *hiding, long)
    assert asked == [long]
    assert ended == ["refused"] * (len(hiding) + 1)
    assert evidence == []


def test_two_commands_of_one_message_are_asked_about_one_after_the_other(tmp_path: Path) -> None:
    open_questions: list[str] = []

    async def approve(command: str, _reason: str) -> bool:
        assert not open_questions
        open_questions.append(command)
        await asyncio.sleep(0.3)  # long enough for the other to come as far, where nothing holds it back
        open_questions.remove(command)
        return True

    ended, evidence = _run_command(tmp_path, approve, COMMAND, "last -n 3", together=True)
    assert "refused" not in ended
    assert sorted(evidence) == sorted([COMMAND, "last -n 3"])


def _run_command(home: Path, approve: object, *commands: str, together: bool = False) -> tuple[list[str], list[str]]:
    """How each `run` ended, and the commands that brought evidence, on a recorded host."""
    settings = Settings(home, load_settings("playbook").cache, "", "", "")
    wanted = [("run", {"command": command}) for command in commands]
    steps = [calls(*wanted)] if together else [calls(each) for each in wanted]

    async def work() -> tuple[list[str], list[str]]:
        target = {"kind": "recorded", "recording": "slots", "host": "recorded:slots"}
        with start(settings, target, "slow") as session:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("agent.run.make_model", lambda *_: Scripted(*steps, say("done")))
                run = Run.on(settings, session, lambda *_: None)
            if approve is not None:
                run.bench.approve = approve  # type: ignore[assignment]
            async with run.bench:
                await run.answer()
            ended = [str(record.model_dump()["status"]) for record in session.records if record.type == "ended"]
            return ended, [item.command for item in session.case.evidence.values()]

    return asyncio.run(work())
