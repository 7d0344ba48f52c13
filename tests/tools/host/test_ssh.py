"""SSH against a real OpenSSH server."""

from __future__ import annotations

import asyncio
import base64
import getpass
import hashlib
import hmac
import os
import secrets
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest

from tests.long import LONG
from tests.needs import needs
from tests.sshd import Sshd, _keygen, free_port, sshd
from tools.host import STANDARD, Host, Observation, Probe, SshOptions, connect, look, open_port
from tools.host.errors import (
    ConnectionLost,
    JumpFailed,
    KeyChanged,
    KeyRevoked,
    KeyUnknown,
    LoginRefused,
    NameUnknown,
    OtherShell,
    Refused,
    TimedOut,
)
from tools.host.ssh import SshTransport
from tools.host.ssh_config import resolve
from transcripts.errors import HostError, UsageError

ME = getpass.getuser()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


def _run(server: Sshd, command: str, **limits: float) -> tuple[int | None, str, bool]:
    async def work() -> tuple[int | None, str, bool]:
        async with connect(f"{ME}@127.0.0.1", server.options()) as host:
            seen = await host.run(command, **limits)  # type: ignore[arg-type]
            return seen.exit, seen.text, seen.truncated

    return asyncio.run(work())


def _connect(options: SshOptions, target: str = f"{ME}@127.0.0.1") -> None:
    async def work() -> None:
        async with connect(target, options):
            pass

    asyncio.run(work())


def test_a_command_with_its_exit_and_both_streams(server: Sshd) -> None:
    assert _run(server, "echo out; echo err >&2; exit 7") == (7, "out\nerr\n", False)


def test_all_probes_in_one_round_trip(server: Sshd) -> None:
    async def work() -> list[str]:
        async with connect(f"{ME}@127.0.0.1", server.options()) as host:
            return [seen.probe async for seen in look(host)]

    seen = asyncio.run(work())
    assert sorted(seen) == sorted([*(probe.name for probe in STANDARD), "discovery", "cost"])
    log = (server.folder / "log").read_text()
    assert log.count("Starting session: command") in (0, 1)


def test_what_was_answered_is_not_asked_again(server: Sshd) -> None:
    async def work() -> set[str]:
        skip = frozenset({"meminfo", "shm"})
        async with connect(f"{ME}@127.0.0.1", server.options()) as host:
            return {seen.probe async for seen in look(host, skip=skip)}

    assert not {"meminfo", "shm"} & asyncio.run(work())


def test_a_flood_is_cut_at_the_limit(server: Sshd) -> None:
    exit_status, text, truncated = _run(server, "yes flood", limit_bytes=1_000_000)
    assert (exit_status, truncated) == (None, True)
    assert 990_000 < len(text) <= 1_000_000


def test_a_command_that_ignores_term_leaves_nothing_running(server: Sshd) -> None:
    mark = f"61{secrets.randbelow(10**6):06d}"
    command = f"timeout -k 0.2 0.3 sh -c 'trap \"\" TERM; sleep {mark}; sleep {mark}'"
    for _ in range(3):
        assert _run(server, command)[0] in (124, 137)
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert f"sleep {mark}" not in listed


def test_a_command_over_its_time_is_an_error_and_is_ended(server: Sshd) -> None:
    mark = f"62{secrets.randbelow(10**6):06d}"
    with pytest.raises(TimedOut, match="a command"):
        _run(server, f"timeout -k 1 2 sleep {mark}", limit_s=0.5)
    for _ in range(100):
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        if f"sleep {mark}" not in listed:
            return
        threading.Event().wait(0.05)
    raise AssertionError("it still runs")


def test_fifty_commands_at_once(server: Sshd) -> None:
    async def work() -> list[str]:
        async with connect(f"{ME}@127.0.0.1", server.options()) as host:
            seen = await asyncio.gather(*(host.run(f"echo {number}") for number in range(50)))
            return [each.text for each in seen]

    assert asyncio.run(work()) == [f"{number}\n" for number in range(50)]


def test_small_commands_do_not_wait_for_acknowledgements(server: Sshd) -> None:
    async def work() -> int:
        async with connect(f"{ME}@127.0.0.1", server.options()) as host:
            sock: socket.socket = host.transport._client.sock  # type: ignore[attr-defined]
            return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    assert asyncio.run(work()) == 1


def test_an_unknown_key_names_the_fingerprint_and_the_way_on(server: Sshd, tmp_path: Path) -> None:
    shown = subprocess.run(
        ["ssh-keygen", "-lf", str(server.folder / "host.pub")], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    with pytest.raises(KeyUnknown) as caught:
        _connect(server.options(known_hosts=(tmp_path / "none",)))
    assert shown in str(caught.value)
    assert f"sglscout trust 127.0.0.1:{server.port}" in str(caught.value)


def test_a_changed_key_is_refused(server: Sshd, tmp_path: Path) -> None:
    _keygen(tmp_path / "other")
    kind, key = (tmp_path / "other.pub").read_text().split()[:2]
    known = tmp_path / "known"
    known.write_text(f"[127.0.0.1]:{server.port} {kind} {key}\n")
    with pytest.raises(KeyChanged, match="has changed"):
        _connect(server.options(known_hosts=(known,)))


def test_a_revoked_key_is_refused_though_it_is_known(server: Sshd, tmp_path: Path) -> None:
    line = server.known_hosts.read_text()
    known = tmp_path / "known"
    known.write_text(line + "@revoked " + line)
    with pytest.raises(KeyRevoked):
        _connect(server.options(known_hosts=(known,)))


@pytest.mark.parametrize("form", ["hashed", "wildcard", "list", "after a certificate authority", "after rubbish"])
def test_forms_of_known_hosts(server: Sshd, tmp_path: Path, form: str) -> None:
    name, kind, key = server.known_hosts.read_text().split()
    salt = secrets.token_bytes(20)
    digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    hashed = f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"
    text = {
        "hashed": f"{hashed} {kind} {key}",
        "wildcard": f"[127.0.*]:{server.port} {kind} {key}",
        "list": f"gpu1,{name} {kind} {key}",
        "after a certificate authority": f"@cert-authority *.example {kind} {key}\n{name} {kind} {key}",
        "after rubbish": f"what is this\n\n# {name}\n{name} {kind} !!\n{name} {kind} {key}",
    }[form]
    known = tmp_path / "known"
    known.write_text(text + "\n")
    _connect(server.options(known_hosts=(known,)))


def test_a_wrong_key_is_a_login_refused(server: Sshd, tmp_path: Path) -> None:
    _keygen(tmp_path / "stranger")
    with pytest.raises(LoginRefused, match="tried stranger"):
        _connect(server.options(key_files=(tmp_path / "stranger",)))


def test_an_encrypted_key_without_a_terminal_says_what_to_do(server: Sshd, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "word", "-f", str(tmp_path / "locked")], check=True)
    with pytest.raises(LoginRefused, match="ssh-agent"):
        _connect(server.options(key_files=(tmp_path / "locked",)))


def test_a_certificate_logs_in(server: Sshd, tmp_path: Path) -> None:
    _keygen(tmp_path / "ca")
    _keygen(tmp_path / "user")
    subprocess.run(
        ["ssh-keygen", "-q", "-s", str(tmp_path / "ca"), "-I", "me", "-n", ME, str(tmp_path / "user.pub")], check=True
    )
    with sshd(tmp_path / "server", f"TrustedUserCAKeys {tmp_path}/ca.pub") as certified:
        _connect(certified.options(key_files=(tmp_path / "user",)))


@pytest.mark.parametrize(
    ("target", "kind"), [("nobody@no-such-host.invalid", NameUnknown), (f"{ME}@127.0.0.1", Refused)]
)
def test_no_host_there(server: Sshd, target: str, kind: type[HostError]) -> None:
    with pytest.raises(kind):
        _connect(server.options(port=free_port()), target)


@pytest.mark.parametrize("target", ["-oProxyCommand=x", "a b", "root@", "", "root@h;id", "h:70:80"])
def test_what_is_no_target_is_refused_before_anything_runs(target: str) -> None:
    with pytest.raises(UsageError, match="is no host"):
        _connect(SshOptions(), target)


@pytest.mark.parametrize("greeting", [b"", b"hello\r\n", b"SSH-2.0-Slow\r\n"])
def test_a_server_that_stalls_does_not_hold_us(server: Sshd, greeting: bytes) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        accepted, _ = listener.accept()
        accepted.sendall(greeting)
        accepted.settimeout(20)
        try:
            while accepted.recv(1000):
                pass
        except OSError:
            pass

    threading.Thread(target=serve, daemon=True).start()
    with pytest.raises(HostError):
        _connect(server.options(port=listener.getsockname()[1], connect_s=1.0))
    listener.close()


def test_a_connection_that_breaks_in_the_middle_keeps_what_had_come(tmp_path: Path) -> None:
    async def work() -> tuple[list[str], type[BaseException] | None]:
        got: list[str] = []
        with sshd(tmp_path / "server") as server:
            async with connect(f"{ME}@127.0.0.1", server.options()) as host:
                try:
                    async for seen in look(host):
                        if not got:  # what came with it is still to be read
                            host.transport._client.sock.shutdown(socket.SHUT_RDWR)  # type: ignore[attr-defined]
                        got.append(seen.probe)
                except HostError as error:
                    return got, type(error)
        return got, None

    got, kind = asyncio.run(work())
    assert got
    assert kind in (ConnectionLost, None)


def test_a_connection_that_ends_as_a_channel_is_left_says_nothing_on_the_terminal(
    server: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(channel: paramiko.Channel) -> None:
        left.append(channel.get_id())
        raise EOFError  # what paramiko raises where the connection went before the word "close" was sent

    left: list[int] = []
    shouted: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(paramiko.Channel, "close", ended)
    monkeypatch.setattr(threading, "excepthook", shouted.append)

    assert _run(server, "echo here") == (0, "here\n", False)
    assert (bool(left), shouted) == (True, [])


def test_a_stop_that_comes_together_with_output_is_not_lost() -> None:
    async def work() -> None:
        transport = SshTransport(resolve("nobody@127.0.0.1", SshOptions()), paramiko.Transport(socket.socketpair()[0]))
        pieces: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue()
        waits = asyncio.ensure_future(transport._next(pieces, time.monotonic() + 60))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        pieces.put_nowait(b"a piece")
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits

    asyncio.run(work())


def test_jump_host_by_configuration_with_the_same_rules(server: Sshd, tmp_path: Path) -> None:
    with sshd(tmp_path / "inner") as inner:
        known = tmp_path / "known"
        lines = server.known_hosts.read_text().replace("[127.0.0.1]", "[jump]")
        known.write_text(lines + inner.known_hosts.read_text().replace("[127.0.0.1]", "[gpu]"))
        included = tmp_path / "included"
        included.write_text(
            f"Host jump\n  HostName 127.0.0.1\n  Port {server.port}\n  IdentityFile {server.key}\n"
            f"Host gpu\n  HostName 127.0.0.1\n  Port {inner.port}\n  IdentityFile {inner.key}\n  ProxyJump jump\n"
        )
        config = tmp_path / "config"
        config.write_text(
            f"Include {included}\nHost *\n  User {ME}\n  UserKnownHostsFile {known}\n  IdentitiesOnly yes\n"
        )
        options = SshOptions(config_file=config)

        async def who() -> str:
            async with connect("gpu", options) as host:
                return (await host.run("echo $SSH_CONNECTION")).text

        assert asyncio.run(who()).split()[3] == str(inner.port)
        known.write_text(inner.known_hosts.read_text().replace("[127.0.0.1]", "[gpu]"))
        with pytest.raises(JumpFailed, match="unknown"):
            asyncio.run(who())


def test_banner_noise_is_not_an_answer(tmp_path: Path) -> None:
    (tmp_path / "banner").write_text("Authorised use only.\n" * 20)
    rc = tmp_path / "rc"
    rc.write_text("#!/bin/sh\necho noise on every login\necho more >&2\n")
    rc.chmod(0o755)

    async def work(host: Host) -> set[str]:
        return {seen.probe async for seen in look(host)}

    async def connected(server: Sshd) -> set[str]:
        async with connect(f"{ME}@127.0.0.1", server.options()) as host:
            return await work(host)

    with sshd(tmp_path / "server", f"Banner {tmp_path}/banner") as server:
        assert len(asyncio.run(connected(server))) == len(STANDARD) + 2


def test_nothing_is_written_on_the_host(server: Sshd, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in Path("/tmp").iterdir() if os.access(path, os.R_OK)}

    async def work() -> None:
        async with connect(f"{ME}@127.0.0.1", server.options()) as host:
            async for _ in look(host):
                pass

    asyncio.run(work())
    new = {path.name for path in Path("/tmp").iterdir()} - {path.name for path in before}
    assert not [name for name in new if "sglscout" in name]


def test_a_look_that_is_left_leaves_nothing_running(server: Sshd) -> None:
    mark = f"63{secrets.randbelow(10**6):06d}"
    slow = Probe("slow", f"/usr/bin/sleep {mark}", "stands in for a program that hangs", limit_s=500)

    async def work() -> None:
        async with connect(f"{ME}@127.0.0.1", server.options()) as host, aclosing(host.observe([slow])) as stream:
            async for _ in stream:
                return

    asyncio.run(work())
    for _ in range(200):
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        if f"sleep {mark}" not in listed:
            return
        threading.Event().wait(0.05)
    raise AssertionError("it still runs")


def test_a_probe_that_ignores_term_ends_at_its_limit(server: Sshd) -> None:
    """The long form runs it 200 times."""
    mark = f"64{secrets.randbelow(10**6):06d}"
    stubborn = Probe(
        "stubborn", f"sh -c 'trap \"\" TERM; sleep {mark} & wait; sleep {mark}'", "a program that hangs", limit_s=1
    )

    async def work(times: int) -> list[Observation]:
        async with connect(f"{ME}@127.0.0.1", server.options()) as host:
            return [
                seen
                for _ in range(times)
                async for seen in host.observe([replace(stubborn, name=f"s{number}") for number in range(20)])
                if seen.probe.startswith("s")
            ]

    times = 10 if LONG else 1
    seen = asyncio.run(work(times))
    assert [one.problem for one in seen] == ["timeout"] * 20 * times
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert f"sleep {mark}" not in listed


@pytest.mark.parametrize("shell", ["/usr/bin/fish", "/bin/tcsh"])
def test_a_login_shell_that_quotes_otherwise_is_refused_by_name(tmp_path: Path, shell: str) -> None:
    async def work(server: Sshd) -> None:
        async with connect(f"{ME}@127.0.0.1", server.options()) as host:
            async for _ in look(host):
                raise AssertionError("something was shown")

    with (
        sshd(tmp_path / "server", f"SetEnv SHELL={shell}") as server,
        pytest.raises(OtherShell, match=Path(shell).name),
    ):
        asyncio.run(work(server))


def test_a_peer_that_died_is_noticed(server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.host.ssh.QUIET_S", 0.5)
    monkeypatch.setattr("tools.host.ssh.ANSWER_S", 1.0)
    with _relay(server.port) as (port, freeze):
        known = tmp_path / "known"
        known.write_text(server.known_hosts.read_text().replace(str(server.port), str(port)))

        async def work() -> None:
            async with connect(f"{ME}@127.0.0.1", server.options(port=port, known_hosts=(known,))) as host:
                assert (await host.run("sleep 2; echo slow, and alive")).text == "slow, and alive\n"
                freeze.set()
                await host.run("echo never comes", limit_s=60)

        with pytest.raises((ConnectionLost, TimedOut)):
            asyncio.run(asyncio.wait_for(work(), 40))


def test_a_server_that_never_answers_an_exec_is_given_up(server: Sshd, tmp_path: Path) -> None:
    with _relay(server.port) as (port, freeze):
        known = tmp_path / "known"
        known.write_text(server.known_hosts.read_text().replace(str(server.port), str(port)))

        async def work() -> None:
            async with connect(f"{ME}@127.0.0.1", server.options(port=port, known_hosts=(known,))) as host:
                freeze.set()
                await host.run("echo never comes", limit_s=1)

        with pytest.raises((ConnectionLost, TimedOut)):
            asyncio.run(asyncio.wait_for(work(), 40))


@contextmanager
def _relay(port: int) -> Iterator[tuple[int, threading.Event]]:
    """A port that passes bytes on both ways until it is frozen: then it swallows them and stays open."""
    frozen = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    ends: list[socket.socket] = []

    def pass_on(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                if not frozen.is_set():
                    target.sendall(data)
        except OSError:
            return

    def accept() -> None:
        try:
            near, _ = listener.accept()
        except OSError:
            return
        far = socket.create_connection(("127.0.0.1", port))
        ends.extend((near, far))
        threading.Thread(target=pass_on, args=(near, far), daemon=True).start()
        pass_on(far, near)

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1], frozen
    finally:
        for end in (listener, *ends):
            end.close()


def test_more_logins_at_once_than_the_server_takes(tmp_path: Path) -> None:
    async def work(server: Sshd) -> list[str]:
        async def one(number: int) -> str:
            async with connect(f"{ME}@127.0.0.1", server.options()) as host:
                return (await host.run(f"echo {number}")).text

        return await asyncio.gather(*(one(number) for number in range(8)))

    with sshd(tmp_path / "server", "MaxStartups 4:50:20") as server:
        assert asyncio.run(work(server)) == [f"{number}\n" for number in range(8)]


def test_a_server_that_allows_few_sessions(tmp_path: Path) -> None:
    async def work(server: Sshd) -> list[str]:
        async with connect(f"{ME}@127.0.0.1", server.options()) as host:
            seen = await asyncio.gather(*(host.run(f"echo {number}") for number in range(12)))
            return [each.text for each in seen]

    with sshd(tmp_path / "server", "MaxSessions 7") as server:
        assert asyncio.run(work(server)) == [f"{number}\n" for number in range(12)]


def test_a_proxy_command_is_not_run(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(f"Host gpu\n  ProxyCommand touch {tmp_path}/ran\n")
    with pytest.raises(UsageError, match="ProxyJump"):
        _connect(SshOptions(config_file=config), "gpu")
    assert not (tmp_path / "ran").exists()


def test_nothing_is_forwarded(server: Sshd, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        f"Host gpu\n  HostName 127.0.0.1\n  Port {server.port}\n  User {ME}\n  IdentityFile {server.key}\n"
        f"  UserKnownHostsFile {server.known_hosts}\n  ForwardAgent yes\n  ForwardX11 yes\n"
        f"  RemoteForward 127.0.0.1:{free_port()} 127.0.0.1:22\n  SendEnv *\n  RemoteCommand touch {tmp_path}/ran\n"
        f"  LocalCommand touch {tmp_path}/ran\n  PermitLocalCommand yes\n  StrictHostKeyChecking no\n"
    )

    async def work() -> str:
        async with connect("gpu", SshOptions(config_file=config)) as host:
            return (await host.run("echo agent=$SSH_AUTH_SOCK display=$DISPLAY")).text

    assert asyncio.run(work()) == "agent= display=\n"
    assert not (tmp_path / "ran").exists()
    strange = tmp_path / "strange"
    config.write_text(config.read_text().replace(str(server.known_hosts), str(strange)))
    with pytest.raises(KeyUnknown):
        asyncio.run(work())
    assert not strange.exists()


def test_a_port_of_the_host_is_opened_only_while_it_is_used(server: Sshd) -> None:
    echo = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                accepted, _ = echo.accept()
                while data := accepted.recv(65_536):
                    accepted.sendall(data.upper())
                accepted.close()

    threading.Thread(target=serve, daemon=True).start()
    sent = b"a" * 300_000

    def send(sock: socket.socket) -> None:
        sock.sendall(sent)
        sock.shutdown(socket.SHUT_WR)

    def ask(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
            threading.Thread(target=send, args=(sock,), daemon=True).start()
            got = b""
            while data := sock.recv(65_536):
                got += data
            return got

    async def work() -> tuple[list[bytes], int]:
        async with connect(f"{ME}@127.0.0.1", server.options()) as host:
            async with open_port(host, echo.getsockname()[1]) as port:
                answers = [await asyncio.to_thread(ask, port) for _ in range(2)]
            return answers, port

    answers, port = asyncio.run(work())
    echo.close()
    assert answers == [sent.upper(), sent.upper()]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


@pytest.mark.parametrize("held", ["a key of a file that is locked", "a key that is only in the agent"])
def test_keys_of_an_agent(server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: str) -> None:
    agent, add = needs("ssh-agent", apt="openssh-client"), needs("ssh-add", apt="openssh-client")
    address = tmp_path / "agent"
    process = subprocess.Popen([agent, "-D", "-a", str(address)], stdout=subprocess.DEVNULL)
    try:
        while not address.exists():
            assert process.poll() is None
        monkeypatch.setenv("SSH_AUTH_SOCK", str(address))
        subprocess.run([add, "-q", str(server.key)], check=True, stderr=subprocess.DEVNULL)
        config = tmp_path / "config"
        lines = f"Host gpu\n  HostName 127.0.0.1\n  Port {server.port}\n  User {ME}\n"
        lines += f"  UserKnownHostsFile {server.known_hosts}\n"
        if held.startswith("a key of a file"):
            locked = tmp_path / "locked"
            shutil.copy(server.key, locked)
            locked.chmod(0o600)
            shutil.copy(server.folder / "client.pub", tmp_path / "locked.pub")
            subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "word", "-f", str(locked)], check=True)
            lines += f"  IdentityFile {locked}\n  IdentitiesOnly yes\n"
        else:
            lines += f"  IdentityFile {tmp_path}/none\n"
        config.write_text(lines)
        _connect(SshOptions(config_file=config), "gpu")
    finally:
        process.terminate()
        process.wait()
