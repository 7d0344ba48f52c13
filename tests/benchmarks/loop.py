"""The loop beside the thinnest openai script, in one run: `python -m tests.benchmarks.loop`.

One server in a process of its own answers both: a tool call for so many requests, then a word, at once or after a
delay. A step is the time from one request's arrival to the next. mini-swe-agent and deepagents are measured when the
interpreter of an environment that holds them is named (MINI_PYTHON, DEEPAGENTS_PYTHON).
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.benchmarks.main_job import measured
from tests.program import ROOT, environment

Row = tuple[str, float, str]
BARS = {
    "ms a step, first 50": 30.0,
    "ms a step, 450 to 500": 30.0,
    "ms to the first request, 300 records": 30.0,
    "ms to the first request, 5,000 records": 150.0,
    "one turn, times the thin script": 1.1,
    "MB with 4 running tasks": 120.0,
    "s for 100 tasks of 5 answers of 1 s": 7.0,
}
THIN_TURN = """
import asyncio, openai, sys
async def main():
    client = openai.AsyncOpenAI(base_url=sys.argv[1], api_key="k")
    stream = await client.chat.completions.create(model="m", stream=True, messages=[{"role": "user", "content": "hi"}])
    async for chunk in stream:
        pass
asyncio.run(main())
"""
DEEPAGENTS = """
import sys
from deepagents import create_deep_agent
from langchain_openai import ChatOpenAI
def echo(word: str) -> str:
    "Say it back."
    return word
model = ChatOpenAI(base_url=sys.argv[1], api_key="k", model="m", streaming=True)
create_deep_agent(model=model, tools=[echo]).invoke({"messages": [("user", "hi")]}, {"recursion_limit": 2000})
"""
MINI = """
import sys
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel
keys = {"api_base": sys.argv[1], "api_key": "k"}
model = LitellmModel(model_name="openai/m", model_kwargs=keys, cost_tracking="ignore_errors")
agent = DefaultAgent(model, LocalEnvironment(), system_template="s", instance_template="t", step_limit=20, cost_limit=0)
agent.run("x")
"""


def serve() -> None:
    """The server: `POST /STEPS/DELAY/v1/chat/completions`; a conversation with STEPS results gets the word."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                arrived = time.time()
                path = head.split()[1]
                length = next(
                    int(line.partition(":")[2])
                    for line in head.splitlines()
                    if line.lower().startswith("content-length")
                )
                asked = json.loads(await reader.readexactly(length))
                _, steps, delay, *_ = path.split("/")
                print(json.dumps([arrived, path]), flush=True)
                await asyncio.sleep(float(delay))
                done = sum(message["role"] == "tool" for message in asked["messages"])
                tool = "bash" if '"bash"' in json.dumps(asked.get("tools", "")) else "echo"
                writer.write(_answer(done, int(steps), tool, bool(asked.get("stream"))))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=1 << 26)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    asyncio.run(main())


def _answer(done: int, steps: int, tool: str, stream: bool) -> bytes:
    wanted = {"word": str(done)} if tool == "echo" else {"command": f"echo {done}"}
    function = {"name": tool, "arguments": json.dumps(wanted)}
    call = {"index": 0, "id": f"call_{done}", "type": "function", "function": function}
    message: dict[str, Any] = {"role": "assistant", "content": "done" if done >= steps else ""}
    if done < steps:
        message["tool_calls"] = [call]
    finish = "stop" if done >= steps else "tool_calls"
    head = {
        "id": "c",
        "created": 1,
        "model": "m",
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    if stream:
        chunk = head | {"object": "chat.completion.chunk"}
        body = f"data: {json.dumps(chunk | {'choices': [{'index': 0, 'delta': message, 'finish_reason': finish}]})}\n\n"
        data, kind = (body + "data: [DONE]\n\n").encode(), "text/event-stream"
    else:
        whole = head | {
            "object": "chat.completion",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        }
        data, kind = json.dumps(whole).encode(), "application/json"
    return f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data


class Server:
    """The server in its process, and when each request arrived there."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._lines = process.stdout
        self.port = int(self._lines.readline())

    def url(self, steps: int, delay: float = 0) -> str:
        return f"http://127.0.0.1:{self.port}/{steps}/{delay:g}/v1"

    def arrivals(self, count: int) -> list[float]:
        return [float(json.loads(self._lines.readline())[0]) for _ in range(count)]


@contextmanager
def server() -> Iterator[Server]:
    words = [sys.executable, "-c", "from tests.benchmarks.loop import serve; serve()"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        yield Server(process)
    finally:
        process.terminate()
        process.wait()


def ours(url: str, home: Path, count: int = 1, pool: int = 3) -> None:
    """A session that works until the word; or, with a count above 1, that many tasks of one parent at once."""
    from agent.loop import Agent
    from agent.models.openai_compatible import OpenAICompatible
    from agent.models.scripted import Scripted, calls, say
    from agent.session import Session
    from agent.tasks import Tasks
    from tools.toolbox import Arguments, Emit, Tool, Toolbox
    from transcripts.ids import new_id
    from transcripts.parts import Limits
    from transcripts.records import Opened
    from transcripts.redaction import Redactor
    from transcripts.store import Store

    class Word(Arguments):
        word: str

    async def echo(arguments: Word, _emit: Emit) -> str:
        return arguments.word

    async def main() -> None:
        store, model = Store(home), OpenAICompatible("m", url, "k")
        box = Toolbox([Tool("echo", "Say it back.", Word, echo)])
        opened = Opened(id=new_id(), role="session", text="slow", model="m")
        limits = Limits(turns=None, seconds=None)
        with Session.create(store, opened, Redactor().redact) as session:
            if count == 1:
                await Agent(session, model, box, "system", limits).run()
                await model._client.close()
                return

            async def make(task: Session) -> Agent:
                return Agent(task, model, box, "researcher", limits)

            async def pinned() -> dict[str, object]:
                return {}

            tasks = Tasks(session, store, make, "m", pinned, pool=pool)
            asked = [("task", {"description": "d", "prompt": f"{n}. what?", "background": True}) for n in range(count)]
            rounds = [calls(*asked[first : first + 16]) for first in range(0, count, 16)]
            parent = Scripted(*rounds, *[say("waiting")] * (count + 1))
            await Agent(session, parent, Toolbox([tasks.tool("task")]), "main", limits, inbox=tasks).run()
            assert {task.status for task in session.case.tasks.values()} == {"completed"}
            await model._client.close()

    asyncio.run(main())


def thin(url: str) -> None:
    """The thinnest loop there is: history in a list, one tool."""
    import openai

    async def main() -> None:
        async with openai.AsyncOpenAI(base_url=url, api_key="k") as client:
            await talk(client)

    async def talk(client: Any) -> None:
        messages: list[Any] = [{"role": "user", "content": "slow"}]
        tools: list[Any] = [{"type": "function", "function": {"name": "echo", "parameters": {"type": "object"}}}]
        while True:
            text, call = "", None
            stream = await client.chat.completions.create(model="m", messages=messages, tools=tools, stream=True)
            async for chunk in stream:
                text += chunk.choices[0].delta.content or ""
                for part in chunk.choices[0].delta.tool_calls or ():
                    call = part
            if call is None or call.function is None:
                return
            function = {"name": "echo", "arguments": call.function.arguments}
            made = [{"id": call.id, "type": "function", "function": function}]
            messages.append({"role": "assistant", "content": text, "tool_calls": made})
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "x"})

    asyncio.run(main())


def steps_of(arrivals: list[float]) -> list[float]:
    return [1000 * (later - earlier) for earlier, later in itertools.pairwise(arrivals)]


def grown(home: Path, records: int) -> str:
    """A session of so many records, as a working model leaves it: answer, call, result."""
    from agent.session import Session
    from transcripts.ids import new_id
    from transcripts.parts import Call
    from transcripts.records import Ended, Opened, Replied, Started
    from transcripts.store import Store

    with Session.create(Store(home), Opened(id=new_id(), role="session", text="slow", model="m")) as session:
        for number in range(records // 3):
            call = Call(id=f"call_{number}", name="echo", arguments=json.dumps({"word": str(number)}))
            session.record(Replied(text="", calls=(call,)))
            session.record(Started(call=call.id, name=call.name, arguments=call.arguments))
            session.record(Ended(call=call.id, status="ok", text="what it said " * 20))
        return session.id


def first_request(url: str, home: Path, identity: str) -> float:
    """When work on resuming began, everything imported and a client made: what start-up costs is not counted."""
    from agent.cli import COLLECTED_AFTER
    from agent.loop import Agent
    from agent.models.openai_compatible import OpenAICompatible
    from agent.session import Session
    from tools.toolbox import Toolbox
    from transcripts.parts import Limits
    from transcripts.redaction import Redactor
    from transcripts.store import Store

    async def main() -> float:
        model = OpenAICompatible("m", url, "k")
        model._connect()
        gc.set_threshold(*COLLECTED_AFTER)  # as in the program
        began = time.time()
        with Session.open(Store(home), identity, Redactor().redact) as session:
            await Agent(session, model, Toolbox([]), "system", Limits(turns=None, seconds=None)).run()
        await model._client.close()
        return began

    return asyncio.run(main())


def _script(body: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", body, *map(str, arguments)]


def main() -> None:
    print(f"{'figure':<42} {'value':>8} {'bar':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for part in (_steps, _resume, _turn, _four_tasks, _hundred_tasks, _others):
            with server() as endpoint:
                for name, value, beside in part(endpoint, Path(folder)):
                    bar = BARS.get(name)
                    missed = "MISSED " if bar is not None and value > bar else ""
                    print(f"{name:<42} {value:>8.2f} {bar or '':>7}  {missed}{beside}".rstrip(), flush=True)


def _steps(endpoint: Server, home: Path) -> Iterator[Row]:
    """Beside each other over 50 steps, ours over 500; the package's own walk makes the thin script slow down."""
    thin(endpoint.url(5))
    endpoint.arrivals(6)
    used = time.process_time()
    thin(endpoint.url(50))
    bare, bare_cpu = steps_of(endpoint.arrivals(51)), time.process_time() - used
    used = time.process_time()
    ours(endpoint.url(500), home / "steps")
    own, own_cpu = steps_of(endpoint.arrivals(501)), time.process_time() - used
    beside = f"thin script {statistics.median(bare):.1f}"
    yield "ms a step, first 50", statistics.median(own[:50]), beside
    yield "ms a step, 450 to 500", statistics.median(own[450:]), ""
    yield "ms of processor a step, of 500", 2 * own_cpu, f"thin script, of 50: {20 * bare_cpu:.1f}"


def _resume(endpoint: Server, home: Path) -> Iterator[Row]:
    for count in (300, 5_000):
        identity = grown(home / "resume", count)
        waits: list[float] = []
        for _ in range(3):
            copy = home / f"resume{count}-{len(waits)}"
            shutil.copytree(home / "resume", copy)
            began = first_request(endpoint.url(0), copy, identity)
            waits.append(1000 * (endpoint.arrivals(1)[0] - began))
        yield f"ms to the first request, {count:,} records", statistics.median(waits), ""


def _four_tasks(endpoint: Server, home: Path) -> Iterator[Row]:
    words = "from pathlib import Path; import sys; from tests.benchmarks.loop import ours; "
    task = words + "ours(sys.argv[1], Path(sys.argv[2]), count=4, pool=4)"
    _, peak = measured(_script(task, endpoint.url(5, 0.5), home / "four"), home, 1)
    yield "MB with 4 running tasks", peak, ""


def _hundred_tasks(endpoint: Server, home: Path) -> Iterator[Row]:
    began = time.monotonic()
    ours(endpoint.url(4, 1.0), home / "hundred", count=100, pool=100)
    yield "s for 100 tasks of 5 answers of 1 s", time.monotonic() - began, "5.0 are the model's"


def _turn(endpoint: Server, home: Path) -> Iterator[Row]:
    """Whole processes: one diagnosis of a pasted log whose model answers at once, beside one streamed answer."""
    log = home / "server.log"
    log.write_text("[2026-02-10 03:20:00] Decode batch, #running-req: 48, #token: 9, token usage: 0.60\n")
    url = endpoint.url(0)
    words = [sys.executable, "-m", "agent", "diagnose", "slow", "--bundle", str(log), "--model", "m", "--json"]
    walls: dict[str, list[float]] = {"ours": [], "thin": []}
    subprocess.run(
        words, env=environment(home), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    )
    for _ in range(5):  # one after the other, so that a busy machine is busy for both
        for name, each in (("ours", words), ("thin", _script(THIN_TURN, url))):
            env = environment(home) | {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "k"}
            before = os.times()
            subprocess.run(each, env=env, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            after = os.times()
            walls[name].append(after.elapsed - before.elapsed)
            cpu = after.children_user + after.children_system - before.children_user - before.children_system
            walls.setdefault(f"{name} cpu", []).append(cpu)
    own, bare = (statistics.median(walls[name]) for name in ("ours", "thin"))
    own_cpu, bare_cpu = (statistics.median(walls[f"{name} cpu"]) for name in ("ours", "thin"))
    beside = f"{own:.2f} s and {bare:.2f} s; of processor {own_cpu:.2f} and {bare_cpu:.2f}"
    yield "one turn, times the thin script", own / bare, beside


def _others(endpoint: Server, _home: Path) -> Iterator[Row]:
    others = (("deepagents", "DEEPAGENTS_PYTHON", DEEPAGENTS), ("mini-swe-agent", "MINI_PYTHON", MINI))
    for name, variable, body in others:
        python, steps = os.environ.get(variable), 20
        if not python:
            print(f"{name} is not measured: {variable} names no interpreter that has it")
            continue
        # One is ended by a word after its last call, the other by its own limit on steps: 20 requests each.
        words = [python, "-c", body, endpoint.url(steps - 1 if name == "deepagents" else 2 * steps)]
        env = os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        done = subprocess.run(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False, text=True)
        if done.returncode:
            print(f"{name} is not measured: {done.stderr.strip().splitlines()[-1]}")
            continue
        yield f"ms a step, {name}", statistics.median(steps_of(endpoint.arrivals(steps))), ""


if __name__ == "__main__":
    main()
