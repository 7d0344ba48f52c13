"""The server under diagnosis as the model: over a real SSH connection, and what happens when it does not answer."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.case import Case
from agent.model import Reply, Request
from agent.models.from_host import FromHost
from agent.run import FROM_HOST, Run, start
from agent.settings import Settings, load_settings
from tests.endpoint import SAYS_HELLO, Answer, Endpoint, endpoint, fails
from tests.program import sglscout
from tests.sshd import Sshd, sshd
from tools.host import connect, open_port
from transcripts.facts import Fact, Facts
from transcripts.records import Opened, Retried


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


def _facts(url: str) -> Facts:
    port = int(url.rpartition(":")[2].partition("/")[0])
    return Facts([Fact("port", port, "", "observed", "E1:1"), Fact("served_model", "kimi", "", "observed", "E1:2")])


def _request() -> Request:
    case = Case(Opened(id="ses_0", role="session", text="slow"))
    return Request([{"role": "user", "content": "u"}], [], case)


def _asked(server: Sshd, *answers: Answer, turns: int = 1) -> tuple[list[Reply], Endpoint, list[int], list[str]]:
    """Replies of a model that is reached over SSH; which ports of the host were opened, and what was noticed."""
    opened: list[int] = []
    notices: list[str] = []

    async def work() -> tuple[list[Reply], Endpoint]:
        async with endpoint(*answers) as other, connect(f"{getpass.getuser()}@127.0.0.1", server.options()) as host:

            async def reach(port: int) -> int:
                opened.append(port)
                passage = open_port(host, port)
                passages.append(passage)
                return await passage.__aenter__()

            passages: list[object] = []
            model = FromHost(reach, lambda: _facts(other.url), "", notices.append, back_off_s=0.001)
            replies = [await model.reply(_request()) for _ in range(turns)]
            for passage in passages:
                await passage.__aexit__(None, None, None)  # type: ignore[attr-defined]
            return replies, other

    replies, other = asyncio.run(work())
    return replies, other, opened, notices


def test_it_is_asked_through_the_connection_under_its_own_name_and_port(server: Sshd) -> None:
    replies, other, opened, notices = _asked(server, SAYS_HELLO, turns=2)
    assert [reply.text for reply in replies] == ["hello", "hello"]
    assert [request["model"] for request in other.requests] == ["kimi", "kimi"]
    assert len(opened) == 1
    assert other.url.endswith(f":{opened[0]}/v1")
    assert notices == []


def test_when_it_fails_the_playbook_goes_on_and_it_is_not_asked_again(server: Sshd) -> None:
    replies, other, _, notices = _asked(server, fails(503, "loading"), turns=2)
    assert [[call.name for call in reply.calls] for reply in replies] == [["look"], ["look"]]
    assert len(other.requests) == 5
    assert "the playbook goes on" in notices[-1]


def test_before_its_port_is_known_the_playbook_decides_and_nothing_is_opened() -> None:
    async def reach(_port: int) -> int:
        raise AssertionError("nothing to reach yet")

    model = FromHost(reach, Facts, "", lambda _text: None)
    assert [call.name for call in asyncio.run(model.reply(_request())).calls] == ["look"]


def test_a_diagnosis_comes_to_its_change_though_the_server_is_no_model(tmp_path: Path) -> None:
    """A recorded host opens no port: the first fault is on record, and the answer is the playbook's."""
    settings = Settings(tmp_path, load_settings("playbook").cache, FROM_HOST, "", "")

    async def work() -> None:
        target = {"kind": "recorded", "recording": "slots", "host": "recorded:slots"}
        with start(settings, target, "low on max parallel requests") as session:
            run = Run.on(settings, session, lambda *_: None)
            run.model.back_off_s = 0.001  # type: ignore[attr-defined]
            async with run.bench:
                made = await run.answer()
            faults = [record.text for record in session.records if isinstance(record, Retried)]
        assert [change["flag"] for change in made["changes"]] == ["--max-running-requests"]
        assert "the playbook goes on" in faults[-1]
        assert session.case.opened.model == FROM_HOST

    asyncio.run(work())


def test_a_bundle_has_no_server_to_ask(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("x\n")
    done = sglscout(tmp_path, "diagnose", "slow", "--bundle", str(log), "--model-from-host")
    assert done.exit == 2
    assert "has no server to ask" in done.err
