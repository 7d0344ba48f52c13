"""What the dying program talks to: a recorded host over SSH and a scripted endpoint, both in this process.

The script is a function of the request alone: whatever a killed run had done stands in the messages of the next.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.endpoint import call_delta, chunk, endpoint, events
from tests.needs import needs
from tools.host import recorded
from tools.host.recorded.server import Served

Json = dict[str, Any]
COMMAND: Final = "cat /proc/loadavg"
QUESTIONS: Final = ("What is max_running_requests when it is not set?", "What does hicache_ratio multiply?")
WORDS: Final = ("max_running_requests", "hicache_ratio")
ANSWER: Final = "The limit on running requests binds [E1]."
_TASK_ID: Final = re.compile(r"^task_id: (ses_\w+)", re.MULTILINE)
_FENCE: Final = re.compile(r"^</?data \w+>\n?", re.MULTILINE)
_HIT: Final = re.compile(r"^(?P<path>[^\s:]+\.py):(?P<line>\d+): ?(?P<text>.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class World:
    url: str
    host: Served


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """Both servers, listening on loopback; `folder / "bin"` gets an ssh whose configuration knows the host as gpu1."""
    ready = threading.Event()
    made: list[World] = []
    ends: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        async with recorded.serve("story") as host, endpoint(_answer) as model:
            _ssh_with_the_way_to(host, folder)
            made.append(World(model.url, host))
            over = asyncio.Event()
            ends.append((asyncio.get_running_loop(), over))
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield made[0]
    finally:
        loop, over = ends[0]
        loop.call_soon_threadsafe(over.set)
        thread.join(10)


def _ssh_with_the_way_to(host: Served, folder: Path) -> None:
    """The operator's configuration is found by login, not by HOME, so it is given to ssh by a word."""
    config = folder / "ssh_config"
    lines = ["Host gpu1", "HostName 127.0.0.1", f"Port {host.port}", f"User {host.user}"]
    lines += [f"IdentityFile {host.client_key}", f"UserKnownHostsFile {host.known_hosts}"]
    config.write_text("\n".join(lines) + "\n")
    ssh = folder / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(f'#!/bin/sh\nexec {needs("ssh", "openssh-client")} -F {config} "$@"\n')
    ssh.chmod(0o755)


async def _answer(connection: Any) -> None:
    body = connection.body
    names = {tool["function"]["name"] for tool in body.get("tools", ())}
    wanted = (_research if "report" in names else _lead)(_Conversation(body["messages"]))
    usage = {**chunk(), "choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}}
    if isinstance(wanted, str):
        parts = [chunk({"content": wanted}, "stop"), usage]
    else:
        turn = len(body["messages"])
        deltas = [call_delta(n, json.dumps(a), i, f"c{turn}_{i}_{n}") for i, (n, a) in enumerate(wanted)]
        parts = [*(chunk(each) for each in deltas), chunk({}, "tool_calls"), usage]
    await connection.head()
    await connection.send(events(parts))


class _Conversation:
    """Results of calls as a request tells them, by the tool that was called."""

    def __init__(self, messages: list[Json]) -> None:
        self.messages = messages
        called = {c["id"]: c["function"] for m in messages for c in m.get("tool_calls") or ()}
        self.results = [
            (called[message["tool_call_id"]], _FENCE.sub("", str(message["content"])))
            for message in messages
            if message["role"] == "tool"
        ]

    def done(self, name: str) -> bool:
        return any(call["name"] == name and not text.startswith("interrupted") for call, text in self.results)


def _lead(seen: _Conversation) -> str | list[tuple[str, Json]]:
    for name in ("look", "weigh"):
        if not seen.done(name):
            return [(name, {})]
    if tasks := list(_tasks(seen)):
        return tasks
    for name, arguments in (("run", {"command": COMMAND}), ("compare", {}), ("propose", {"changes": []})):
        if not seen.done(name):
            return [(name, arguments)]
    return ANSWER


def _tasks(seen: _Conversation) -> Iterator[tuple[str, Json]]:
    """Each question as a task; one that was cut off is continued by the id that its outcome begins with."""
    for question in QUESTIONS:
        outcomes = [text for call, text in seen.results if call["name"] == "task" and question in call["arguments"]]
        if any("status:" not in text.splitlines()[1] for text in outcomes if _TASK_ID.match(text)):
            continue
        ids = [found[1] for text in outcomes if (found := _TASK_ID.match(text))]
        arguments = {"description": question[:40], "prompt": f"1. {question}"}
        yield "task", arguments | ({"task_id": ids[-1]} if ids else {})


def _research(seen: _Conversation) -> str | list[tuple[str, Json]]:
    asked = str(seen.messages[1]["content"])
    word = next(word for question, word in zip(QUESTIONS, WORDS, strict=True) if question in asked)
    hits = [hit for call, text in seen.results if call["name"] == "search" for hit in _HIT.finditer(text)]
    if not hits:
        return [("search", {"pattern": f"{word}:", "path": "srt/server_args.py"})]
    if not seen.done("flag"):
        return [("flag", {"name": f"--{word.replace('_', '-')}"})]
    if not seen.done("report"):
        hit = hits[0]
        finding = {
            "question": "1", "subject": word, "kind": "does", "text": f"{word} is declared here.",
            "path": hit["path"], "line": int(hit["line"]), "quote": hit["text"],
        }  # fmt: skip
        return [("report", {"findings": [finding], "unanswered": []})]
    return "One finding, its line quoted."
