"""The recorded host over real SSH: what a look brings, counts of what was asked, refusals, and its end."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import paramiko
import pytest

from tests.tools.host.recorded.hosts import out
from tools.host import STANDARD, Host, Observation, SshOptions, connect, look
from tools.host.recorded import RecordingUnreadable, Served, load, serve
from transcripts.errors import HostError


def login(served: Served, key: Path | None = None, known_hosts: Path | None = None) -> SshOptions:
    """What a client needs to get in."""
    files = (known_hosts or served.known_hosts,)
    return SshOptions(config_file=None, known_hosts=files, key_files=(key or served.client_key,))


async def seen(host: Host, skip: frozenset[str] = frozenset()) -> dict[str, Observation]:
    return {found.probe: found async for found in look(host, skip=skip)}


@pytest.mark.parametrize("name", ["slots", "story"])
def test_a_look_brings_what_the_host_answers(name: str) -> None:
    async def run() -> None:
        recording = load(name)
        async with serve(recording) as served:
            async with connect(served.target, login(served)) as host:
                found = await seen(host)
            assert set(found) == {probe.name for probe in STANDARD} | {"discovery"}
            assert found["discovery"].text.splitlines()[0] == f"pid={recording.discovery()['PID']}"
            for probe, command in (
                ("gpus", STANDARD[0].command),
                ("meminfo", "cat /proc/meminfo"),
                ("unit_files", "systemctl cat --no-pager sglang-kimi.service"),
                ("model_config", "cat /models/Kimi-K2.5/config.json"),
            ):
                assert found[probe].text.rstrip("\n") == out(recording, command).rstrip("\n")
                assert (found[probe].exit, found[probe].truncated) == (0, False)
            assert (found["gpus_rocm"].exit, found["gpus_rocm"].problem) == (127, "missing")
            assert found["tree"].problem == "skipped"
            assert set(served.probes.values()) == {1}

    asyncio.run(run())


def test_what_was_answered_is_not_asked_again() -> None:
    async def run() -> None:
        async with serve("slots") as served:
            async with connect(served.target, login(served)) as host:
                first = await seen(host)
                await seen(host, skip=frozenset(first))
            assert max(served.probes[name] for name in first if name != "discovery") == 1
            assert served.asked["cat /proc/meminfo"] == 1

    asyncio.run(run())


def test_the_log_outlives_the_server(tmp_path: Path) -> None:
    async def run() -> None:
        for command in ("uptime", "free -b"):
            async with serve("story", log=tmp_path / "asked") as served, connect(served.target, login(served)) as host:
                await host.run(command)

    asyncio.run(run())
    assert (tmp_path / "asked").read_text(encoding="utf-8") == "command\tuptime\ncommand\tfree -b\n"


def test_single_commands_with_exit_and_both_streams() -> None:
    async def run() -> None:
        async with serve("kv") as served:
            async with connect(served.target, login(served)) as host:
                good = await host.run("grep MemAvailable /proc/meminfo")
                bad = await host.run("cat /nowhere")
            assert (good.exit, good.text) == (0, out(served.recording, "grep MemAvailable /proc/meminfo"))
            assert (bad.exit, bad.problem) == (1, "missing")
            assert served.probes["command"] == 2

    asyncio.run(run())


async def ask(served: Served, number: int) -> list[str]:
    """Six commands at once over one connection."""
    async with connect(served.target, login(served)) as host:
        found = await asyncio.gather(*(host.run(f"echo {number}-{turn}") for turn in range(6)))
    return [answer.text.strip() for answer in found]


def test_several_connections_and_commands_at_once() -> None:
    async def run() -> None:
        async with serve("slots") as served:
            answers = await asyncio.gather(*(ask(served, number) for number in range(6)))
            assert answers == [[f"{number}-{turn}" for turn in range(6)] for number in range(6)]

    asyncio.run(run())


def test_another_key_and_an_unknown_host_key_are_refused(tmp_path: Path) -> None:
    async def run() -> None:
        other = tmp_path / "other"
        paramiko.ECDSAKey.generate().write_private_key_file(str(other))
        empty = tmp_path / "known"
        empty.write_text("", encoding="utf-8")
        async with serve("slots") as served:
            for options, said in ((login(served, key=other), "log"), (login(served, known_hosts=empty), "host key")):
                with pytest.raises(HostError, match=said):
                    async with connect(served.target, options):
                        raise AssertionError

    asyncio.run(run())


def test_it_offers_commands_and_nothing_else() -> None:
    async def run() -> None:
        async with serve("slots") as served:
            await asyncio.to_thread(refusals, served)

    asyncio.run(run())


def refusals(served: Served) -> None:
    transport = paramiko.Transport(socket.create_connection((served.host, served.port)))
    transport.connect(username=served.user, pkey=paramiko.PKey.from_path(served.client_key))
    try:
        with pytest.raises(paramiko.ChannelException):
            transport.open_channel("direct-tcpip", ("127.0.0.1", 22), ("127.0.0.1", 0), timeout=5)
        for request in ("get_pty", "invoke_shell", "invoke_subsystem"):
            channel = transport.open_session(timeout=5)
            arguments = ("sftp",) if request == "invoke_subsystem" else ()
            with pytest.raises(paramiko.SSHException):
                getattr(channel, request)(*arguments)
            channel.close()
    finally:
        transport.close()


def test_it_stops_listening_when_the_block_ends() -> None:
    async def run() -> tuple[str, int, Path]:
        async with serve("story") as served:
            assert served.client_key.exists()
            return served.host, served.port, served.client_key

    host, port, key = asyncio.run(run())
    assert not key.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, port), timeout=5)


def test_a_folder_that_is_no_recording_is_told_before_it_listens(tmp_path: Path) -> None:
    async def run() -> None:
        async with serve(tmp_path):
            raise AssertionError

    with pytest.raises(RecordingUnreadable):
        asyncio.run(run())
