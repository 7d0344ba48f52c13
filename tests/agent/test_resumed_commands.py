"""A session taken up by another process: it knows the server's keys before it brings more of the host's text, and what
a command had brought when the first process died is not asked for again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path

from pydantic import BaseModel

from agent.models.scripted import Scripted, say
from agent.roles.main import main_toolbox
from agent.run import Run, start, take_up
from agent.settings import Settings
from tests.agent.research import results
from tools.host import Observation, Probe
from transcripts.parts import Call
from transcripts.records import EvidenceTaken, Replied, Started

KEY = "opensesame"  # a common word: only the server's start tells that it is a key


class Host:
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
    run.bench._host = Host()
    kept: list[BaseModel] = []

    async def work() -> str:
        toolbox = main_toolbox(run.bench, run.tasks)
        return await toolbox.call("run", json.dumps({"command": "uptime"}), kept.append)

    answer = asyncio.run(work())
    session.close()
    assert "rejected «secret:" in answer
    assert KEY not in answer
    assert KEY not in "".join(record.model_dump_json() for record in kept)


def test_a_command_whose_answer_is_on_record_is_not_asked_again(tmp_path: Path) -> None:
    """The process died between the evidence and the end of the call; of another such call nothing was there yet."""
    settings = Settings(tmp_path / "home", tmp_path / "cache", "", "", "")
    commands = ("cat /proc/loadavg", "uptime")
    asked = [Call(id=f"c{n}", name="run", arguments=json.dumps({"command": c})) for n, c in enumerate(commands)]
    with start(settings, {"kind": "ssh", "host": "gpu1"}, "it hangs") as opened:
        opened.record(Replied(calls=tuple(asked)))
        for call in asked:
            opened.record(Started(call=call.id, name=call.name, arguments=call.arguments))
        seen = Observation("command", commands[0], "gpu1", "", 0, "0.5 0.4 0.3 1/9 7")
        opened.record(EvidenceTaken.of(seen.evidence(opened.case.next_evidence())))
    with take_up(settings, opened.id) as session:
        run = Run.on(settings, session, lambda *_: None)
        run.model = model = Scripted(say("done [E1]."))
        asyncio.run(run.answer("go on"))
    kept, lost = results(model.requests[0])
    assert "E1, exit 0:\n0.5 0.4 0.3 1/9 7" in kept
    assert "interrupted; call run again" in lost
