"""A model endpoint for tests: an HTTP server on loopback that sends any bytes at any pace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Answer = Callable[["Connection"], Any]


@dataclass(slots=True)
class Connection:
    """One request as it arrived, and the way back."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    writer: asyncio.StreamWriter

    async def send(self, data: bytes | str) -> None:
        self.writer.write(data.encode() if isinstance(data, str) else data)
        await self.writer.drain()

    async def head(self, status: int = 200, kind: str = "text/event-stream", **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} X", f"content-type: {kind}", "connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join(lines) + "\r\n\r\n")


@dataclass(slots=True)
class Endpoint:
    """Where it listens, what it was asked, and what it answers next (the last answer stays)."""

    url: str = ""
    answers: list[Answer] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def endpoint(*answers: Answer) -> AsyncIterator[Endpoint]:
    server_state = Endpoint(answers=list(answers))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = head.split("\r\n")
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            connection = Connection(lines[0].split()[1], headers, json.loads(body or b"{}"), writer)
            server_state.requests.append(connection.body)
            server_state.headers.append(headers)
            answers = server_state.answers
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            await answer(connection)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            server_state.gone.set()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    server_state.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield server_state
    finally:
        server.close()


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choices = [{"index": 0, "delta": delta or {}, "finish_reason": finish}]
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, **more}


def call_delta(name: str, arguments: str, index: int | None = 0, identity: str | None = "call_1") -> dict[str, Any]:
    part: dict[str, Any] = {"type": "function", "function": {"name": name, "arguments": arguments}}
    if index is not None:
        part["index"] = index
    if identity is not None:
        part["id"] = identity
    return {"tool_calls": [part]}


def events(chunks: Sequence[dict[str, Any]], done: bool = True) -> bytes:
    text = "".join(f"data: {json.dumps(each)}\n\n" for each in chunks) + ("data: [DONE]\n\n" if done else "")
    return text.encode()


def streams(*chunks: dict[str, Any], done: bool = True) -> Answer:
    async def answer(connection: Connection) -> None:
        await connection.head()
        await connection.send(events(chunks, done))

    return answer


def raw(data: bytes, status: int = 200, kind: str = "text/event-stream", **headers: str) -> Answer:
    async def answer(connection: Connection) -> None:
        await connection.head(status, kind, **headers)
        await connection.send(data)

    return answer


def fails(status: int, message: str = "no", **headers: str) -> Answer:
    return raw(json.dumps({"error": {"message": message}}).encode(), status, "application/json", **headers)


SAYS_HELLO = streams(
    chunk({"role": "assistant", "content": "hel"}),
    chunk({"content": "lo"}, "stop"),
    {**chunk(), "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}},
)
