"""The server under diagnosis as the model: over a real SSH connection, and what happens when it does not answer."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import AsyncGenerator, Iterable, Iterator
from pathlib import Path

import pytest

from agent.case import Case
from agent.commands.doctor import host_checks
from agent.found import served_by
from agent.model import Reply, Request
from agent.models.from_host import FromHost
from agent.run import Run, start
from agent.settings import FROM_HOST, Settings, load_settings
from tests.endpoint import SAYS_HELLO, Answer, Endpoint, call_delta, chunk, endpoint, fails, streams
from tests.program import sglscout
from tests.sshd import Sshd, sshd
from tools.host import Observation, Probe, connect, open_port
from tools.host.framing import DISCOVERY
from tools.host.look import ShellHost
from transcripts.facts import Evidence, Fact
from transcripts.records import EvidenceTaken, Opened, Retried


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


def _port(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


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
            model = FromHost(reach, lambda: (_port(other.url), "kimi"), "", notices.append, back_off_s=0.001)
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

    model = FromHost(reach, lambda: None, "", lambda _text: None)
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


def _case(*evidence: tuple[Evidence, list[Fact]]) -> Case:
    opened = Opened(id="ses_0", role="session", text="slow")
    return Case.fold([opened, *(EvidenceTaken.of(item, facts) for item, facts in evidence)])


def test_only_the_look_says_which_port_is_opened() -> None:
    """A line of a log that names another service's port, or the operator's own words, open nothing."""
    line = "python -m sglang.launch_server --port 6379"
    said = Evidence(id="E1", probe="journal_boot", command="", host="gpu1", at="", exit=0, text=line)
    lying = (said, [Fact("port", 6379, "", "observed", "E1:1"), Fact("served_model", "kimi", "", "observed", "E1:1")])
    found = Evidence(id="E2", probe=DISCOVERY, command="", host="gpu1", at="", exit=0, text="pid=7\nport=30001\n")
    assert served_by(_case(lying)) is None
    assert served_by(_case((found, []), lying)) == (30001, "kimi")


class Found(ShellHost):
    """A host over real SSH on which a server was found at this port."""

    port = ""

    async def observe(self, probes: Iterable[Probe]) -> AsyncGenerator[Observation, None]:
        yield Observation(DISCOVERY, "", self.name, "", 0, f"pid=7\nport={self.port}\n")
        for probe in probes:
            if probe.name == "models":
                models = '{"object":"list","data":[{"id":"kimi","object":"model","max_model_len":8192}]}'
                yield Observation("models", "", self.name, "", 0, models)


def _diagnosed(server: Sshd, *answers: Answer) -> tuple[list[tuple[str, bool, str]], Endpoint]:
    async def work() -> tuple[list[tuple[str, bool, str]], Endpoint]:
        async with endpoint(*answers) as other, connect(f"{getpass.getuser()}@127.0.0.1", server.options()) as host:
            assert isinstance(host, ShellHost)
            found = Found(host.transport)
            found.port = str(_port(other.url)) if answers else ""
            return await host_checks(found, "k"), other

    return asyncio.run(work())


def test_doctor_asks_the_server_of_a_host_over_ssh(server: Sshd) -> None:
    one = streams(chunk(call_delta("weather", '{"city": "Oslo"}'), "tool_calls"))
    checks, other = _diagnosed(server, SAYS_HELLO, one, one)
    assert [(what, ok) for what, ok, _ in checks] == [
        ("server of the host", True), ("streamed answer", True), ("usage", True), ("tool call", True),
        ("calls at once", False),
    ]  # fmt: skip
    assert checks[0][2].startswith(f"kimi at port {_port(other.url)}")
    assert {request["model"] for request in other.requests} == {"kimi"}


def test_doctor_names_a_server_that_calls_no_tool(server: Sshd) -> None:
    checks, _ = _diagnosed(server, SAYS_HELLO)
    assert ("tool call", False, "none; check the server's --tool-call-parser") in checks


def test_doctor_says_when_no_server_runs_there(server: Sshd) -> None:
    checks, other = _diagnosed(server)
    assert [(what, ok) for what, ok, _ in checks] == [("server of the host", False)]
    assert other.requests == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("diagnose", "slow", "--bundle", "LOG", "--model-from-host"), "has no server to ask"),
        (("diagnose", "slow", "--host", "local", "--model", "m", "--model-from-host"), "exclude each other"),
        (("doctor", "--model-from-host"), "which host's server"),
        (("doctor", "--host", "gpu1"), "--host is for a model of that host"),
    ],
)
def test_where_there_is_no_server_to_ask(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    log = tmp_path / "x.log"
    log.write_text("x\n")
    done = sglscout(tmp_path, *(str(log) if word == "LOG" else word for word in words))
    assert done.exit == 2
    assert said in done.err


def test_a_chat_over_the_model_of_a_host(tmp_path: Path) -> None:
    """The session is opened with it; the recorded host opens no port, and the playbook answers."""
    done = sglscout(
        tmp_path, "chat", "--demo", "slots", "--model-from-host", stdin="/model\n/host gpu9\n/model playbook\n/model\n"
    )
    assert done.exit == 0
    told = [line for line in done.out.splitlines() if not line.startswith("sglscout>")]
    assert told[0] == FROM_HOST
    assert told[-1] == "playbook"
