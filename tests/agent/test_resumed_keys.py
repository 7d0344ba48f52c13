"""A session taken up by another process knows the keys of the server before it brings any more of the host's text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path

from pydantic import BaseModel

from agent.roles.main import main_toolbox
from agent.run import Run, start, take_up
from agent.settings import Settings
from tools.host import Observation, Probe

KEY = "opensesame"  # a common word: only the server's start tells that it is a key


class Started:
    """A host whose server was started with the key, and whose commands tell it in no context."""

    name = "gpu1"

    async def observe(self, probes: Iterable[Probe]) -> AsyncGenerator[Observation, None]:
        for probe in probes:
            if probe.name == "process":
                yield Observation(
                    probe.name, "", self.name, "", 0, f"python3\nsglang.launch_server\n--api-key\n{KEY}\n"
                )

    async def run(self, command: str, *, limit_s: float = 20.0, limit_bytes: int = 0) -> Observation:
        return Observation("command", command, self.name, "", 0, f"rejected {KEY}\n")

    async def close(self) -> None:
        return None


def test_a_command_of_a_resumed_session_shows_no_key_of_the_start(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "home", tmp_path / "cache", "", "", "")
    opened = start(settings, {"kind": "ssh", "host": "gpu1"}, "it hangs")
    opened.close()
    session = take_up(settings, opened.case.opened.id)
    run = Run.on(settings, session, lambda *_: None)
    run.bench._host = Started()
    kept: list[BaseModel] = []

    async def work() -> str:
        toolbox = main_toolbox(run.bench, run.tasks)
        return await toolbox.call("run", json.dumps({"command": "uptime"}), kept.append)

    answer = asyncio.run(work())
    session.close()
    assert "rejected «secret:" in answer
    assert KEY not in answer
    assert KEY not in "".join(record.model_dump_json() for record in kept)
