"""Several hosts of one server: the first is diagnosed, the others are looked at, compared, and said to be that."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from agent.case import Case
from agent.roles.main import main_toolbox
from agent.run import Run, start
from agent.settings import load_settings
from tools import host as hosts
from tools.host import Host, SshOptions, recorded
from tools.host.recorded.server import Served
from transcripts.facts import Facts

NOWHERE = "root@nowhere.invalid"


def _ways(served: dict[str, Served], monkeypatch: pytest.MonkeyPatch) -> None:
    real = hosts.connect

    def connect(target: str, options: SshOptions | None = None) -> AbstractAsyncContextManager[Host]:
        at = served.get(target)
        if at is None:
            return real(target, options)
        way = SshOptions(config_file=None, known_hosts=(at.known_hosts,), key_files=(at.client_key,), port=at.port)
        return real(f"{at.user}@{at.host}", way)

    monkeypatch.setattr(hosts, "connect", connect)


def _looked(home: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Case, Facts]:
    """The case after a look at one host with another beside it, one of them twice; and the facts of the first alone."""
    settings = load_settings()

    async def work() -> tuple[Case, Facts]:
        async with recorded.serve("slots") as first, recorded.serve("story") as second:
            _ways({"gpu1": first, "root@gpu2": second}, monkeypatch)
            session = start(settings, {"kind": "ssh", "host": "gpu1", "beside": ["root@gpu2", NOWHERE]}, "slow")
            run = Run.on(settings, session, lambda *_: None)
            async with run.bench:
                toolbox = main_toolbox(run.bench, run.tasks)
                await toolbox.call("look", "{}", session.record)
                alone = session.case.facts
                await toolbox.call("look", "{}", session.record)
            session.close()
            return session.case, alone

    monkeypatch.setenv("SGLSCOUT_HOME", str(home))
    return asyncio.run(work())


def test_the_others_are_looked_at_and_compared_and_stay_out_of_the_sums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, facts = _looked(tmp_path, monkeypatch)
    beside = [item for item in case.evidence.values() if item.host == "gpu2"]
    assert {"gpu2:process", "gpu2:journal_boot", "gpu2:gpus"} <= {item.probe for item in beside}
    assert len({item.probe for item in beside}) == len(beside)  # once in a session
    assert not {fact.source.partition(":")[0] for fact in facts} & {item.id for item in beside}
    assert facts.number("running_p95") == 48
    told = [note for note in case.notes if note.startswith("root@gpu2 was looked at beside it")]
    assert len(told) == 1
    assert "running requests (p95) 0 there, 48 here" in told[0]
    assert "no cause is weighed there" in told[0]
    assert any(note.startswith(f"{NOWHERE} was named too and is not seen") for note in case.notes)
