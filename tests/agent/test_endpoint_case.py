"""A diagnosis decided by a model at an HTTP endpoint, on a recorded host: what goes over the wire."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from agent.chat import Chat
from agent.run import Run, start, take_up
from agent.settings import Settings, load_settings
from tests.endpoint import Answer, Connection, Endpoint, call_delta, chunk, endpoint, events, fails, streams
from transcripts.errors import EndpointError

Json = dict[str, Any]
COMPLAINT = "low on max parallel requests, what options are there for ram offload of kv cache?"
USAGE = {**chunk(), "choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}}


def calls(*wanted: tuple[str, Json]) -> Answer:
    deltas = [
        chunk(call_delta(name, json.dumps(arguments), index, f"c{index}_{name}"))
        for index, (name, arguments) in enumerate(wanted)
    ]
    return streams(*deltas, chunk({}, "tool_calls"), USAGE)


def says(text: str) -> Answer:
    return streams(chunk({"content": text}, "stop"), USAGE)


def _task(question: str) -> tuple[str, Json]:
    return "task", {"description": question[:40], "prompt": f"1. {question}"}


def _propose(flag: str, to: str, *evidence: str) -> Answer:
    return calls(("propose", {"changes": [{"flag": flag, "to": to, "why": "w", "evidence": list(evidence)}]}))


def _settings(home: Path, server: Endpoint) -> Settings:
    return Settings(home, load_settings("playbook").cache, "m", server.url, "k")


async def diagnosed_by(home: Path, server: Endpoint) -> Json:
    target = {"kind": "recorded", "recording": "slots", "host": "recorded:slots"}
    with start(_settings(home, server), target, COMPLAINT) as session:
        run = Run.on(_settings(home, server), session, lambda *_: None)
        async with run.bench:
            return await run.answer()


def _researcher(request: Json) -> bool:
    return any(tool["function"]["name"] == "report" for tool in request.get("tools", ()))


def two_minds(main: list[Answer], research: list[Answer]) -> Answer:
    """One endpoint, two roles: what it answers depends on the tools that the request brings."""

    async def answer(connection: Any) -> None:
        steps = research if _researcher(connection.body) else main
        await (steps.pop(0) if len(steps) > 1 else steps[0])(connection)

    return answer


FLAG = calls(("flag", {"name": "--max-running-requests"}))
REPORT = calls(
    ("report", {"findings": [], "unanswered": ["1"]}),
)


@pytest.fixture(scope="module")
def diagnosed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Json, list[Json], list[Json]]:
    """The document, and the requests of the main agent and of the researchers."""
    main = [
        calls(("look", {})),
        calls(("weigh", {})),
        calls(_task("What is --max-running-requests when it is not set?"), _task("What does HiCache need?")),
        calls(("compare", {})),
        _propose("--made-up-flag", "1", "E20"),
        calls(("propose", {"changes": []})),
        says("The limit of 48 is what binds [E20]. It will be twice as fast."),
    ]
    research = [FLAG, FLAG, REPORT, REPORT, says("done")]

    async def work() -> tuple[Json, list[Json]]:
        async with endpoint(says("unused")) as server:
            server.answers[:] = [two_minds(main, research)]
            return await diagnosed_by(tmp_path_factory.mktemp("case"), server), server.requests

    document, requests = asyncio.run(work())
    own = [request for request in requests if not _researcher(request)]
    return document, own, [request for request in requests if _researcher(request)]


def test_it_comes_to_a_checked_change_with_two_tasks(diagnosed: tuple[Json, list[Json], list[Json]]) -> None:
    document, _, _ = diagnosed
    assert [change["flag"] for change in document["changes"]] == ["--max-running-requests"]
    assert [task["status"] for task in document["tasks"]] == ["completed", "completed"]


def test_a_sentence_that_rests_on_nothing_is_marked(diagnosed: tuple[Json, list[Json], list[Json]]) -> None:
    document, _, _ = diagnosed
    assert [(row["supported"], row["text"][:9]) for row in document["answer"]] == [
        (True, "The limit"),
        (False, "It will b"),
    ]


def test_a_refused_proposal_goes_back_with_its_reason(diagnosed: tuple[Json, list[Json], list[Json]]) -> None:
    _, own, _ = diagnosed
    results = [message["content"] for message in own[-1]["messages"] if message["role"] == "tool"]
    assert any("--made-up-flag" in text and "refused" in text for text in results)


def test_the_first_request_and_the_task_tool_are_small(diagnosed: tuple[Json, list[Json], list[Json]]) -> None:
    _, own, _ = diagnosed
    assert len(json.dumps(own[0])) <= 10_000
    (task,) = [tool for tool in own[0]["tools"] if tool["function"]["name"] == "task"]
    assert len(json.dumps(task)) <= 1_500


def test_over_the_wire_each_request_begins_as_the_one_before(diagnosed: tuple[Json, list[Json], list[Json]]) -> None:
    _, own, _ = diagnosed
    sent = [json.dumps(request["messages"])[:-1] for request in own]
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(sent))
    assert len({json.dumps(request["tools"]) for request in own}) == 1


def test_a_researcher_has_no_host(diagnosed: tuple[Json, list[Json], list[Json]]) -> None:
    _, _, research = diagnosed
    names = {tool["function"]["name"] for request in research for tool in request["tools"]}
    assert names.isdisjoint({"look", "run", "task", "propose"})


def test_every_task_outcome_begins_with_its_id(diagnosed: tuple[Json, list[Json], list[Json]]) -> None:
    document, own, _ = diagnosed
    results = [m["content"] for m in own[-1]["messages"] if m["role"] == "tool" and m["content"].startswith("task_id")]
    begin = re.compile(r"task_id: (ses_\w+) \(for resuming to continue this task if needed\)\n")
    named = [found[1] for text in results if (found := begin.match(text))]
    assert sorted(named) == sorted(task["id"] for task in document["tasks"])


def test_an_endpoint_that_dies_in_the_middle_ends_with_6_and_the_session_goes_on(tmp_path: Path) -> None:
    async def work() -> Json:
        async with endpoint(calls(("look", {})), fails(401, "key revoked")) as server:
            with pytest.raises(EndpointError) as caught:
                await diagnosed_by(tmp_path, server)
            assert caught.value.exit_code == 6
            (identity,) = [path.name for path in (tmp_path / "transcripts").iterdir()]
            server.answers[:] = [calls(("weigh", {})), calls(("propose", {"changes": []})), says("It is 48 [E20].")]
            with take_up(_settings(tmp_path, server), identity) as session:
                looked = len(session.case.evidence)
                run = Run.on(_settings(tmp_path, server), session, lambda *_: None)
                async with run.bench:
                    document = await run.answer("go on")
                assert len(session.case.evidence) == looked
            return document

    document = asyncio.run(work())
    assert document["changes"]


def test_an_answer_that_is_still_coming_shows_below_the_prompt_and_counts_for_nothing_yet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then its endpoint cuts it off, each time it is gone on with, and the answer says so; the chat shows it whole."""

    async def work() -> tuple[str, list[str], str, str]:
        seen, more = asyncio.Event(), asyncio.Event()

        async def slow(connection: Connection) -> None:
            await connection.head()
            await connection.send(events([chunk({"content": "The pool\x1b is not the limit"})], done=False))
            seen.set()
            await more.wait()
            await connection.send(events([chunk({}, "length"), USAGE]))

        async with endpoint(slow, streams(chunk({"content": " and so on"}, "length"), USAGE)) as server:
            chat = Chat(_settings(tmp_path, server), {"kind": "bundle", "path": str(_log(tmp_path)), "host": "x.log"})
            chat.ask("slow")
            await seen.wait()
            while "…" not in chat.status:  # noqa: ASYNC110  a prompt asks for it in the same way
                await asyncio.sleep(0)
            assert chat.session is not None
            during, recorded = chat.status, [record.type for record in chat.session.records]
            more.set()
            assert chat.turn is not None
            await chat.turn
            concluded, after = chat.session.case.concluded, chat.status
            assert concluded is not None
            await chat.close()
            return during, recorded, after, concluded.text

    during, recorded, after, text = asyncio.run(work())
    assert "… he pool\\u001b is not the limit |" in during
    assert recorded == ["opened"]
    assert "…" not in after
    assert text.endswith("The model's answer was cut off here by its endpoint.")
    assert "is not the limit and so on" in capsys.readouterr().out


def _log(folder: Path) -> Path:
    log = folder / "x.log"
    log.write_text("Decode batch, #running-req: 48, #token: 9, token usage: 0.60\n")
    return log
