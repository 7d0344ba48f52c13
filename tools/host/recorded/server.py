"""A recorded host as a real SSH server on 127.0.0.1, for as long as a context lasts.

Host key and client key are made anew each time. It takes public keys of one account, exec requests and nothing else:
no pty, no shell, no forwarding, no subsystem.
"""

from __future__ import annotations

import asyncio
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tools.host.recorded.recording import Recording, load
from tools.host.recorded.script import run_command, run_script

if TYPE_CHECKING:
    import paramiko

MAX_CONNECTIONS = 16
MAX_CHANNELS = 10
MAX_SCRIPT_BYTES = 1 << 20
CHANNEL_S = 60.0
LIFETIME_S = 3600.0
REPLY_S = 0.005


@dataclass(slots=True)
class Served:
    """Where the host listens and what a client needs to trust it and log in."""

    recording: Recording
    host: str
    port: int
    user: str
    host_key: str
    client_key: Path
    known_hosts: Path
    log: Path | None = None
    _asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def target(self) -> str:
        """`user@host:port`."""
        return f"{self.user}@{self.host}:{self.port}"

    @property
    def asked(self) -> Counter[str]:
        """How often each command line was answered since the server began."""
        with self._lock:
            counts = list(self._asked.items())
        found: Counter[str] = Counter()
        for (_, command), count in counts:
            if command:
                found[command] += count
        return found

    @property
    def probes(self) -> Counter[str]:
        """How often each probe was answered; single commands count as `command`."""
        with self._lock:
            counts = list(self._asked.items())
        found: Counter[str] = Counter()
        for (probe, _), count in counts:
            found[probe] += count
        return found

    def note(self, probe: str, command: str) -> None:
        """Count an answer, and write it down where a log was asked for, before it is sent."""
        with self._lock:
            self._asked[(probe, command)] += 1
            if self.log is not None:
                with self.log.open("a", encoding="utf-8") as log:
                    log.write(f"{probe}\t{command}\n".replace("\n", " ").rstrip() + "\n")


@asynccontextmanager
async def serve(
    where: str | Path | Recording, *, tree: Path | None = None, log: Path | None = None
) -> AsyncIterator[Served]:
    """Serve a recording (name, folder or loaded) until the block ends. Raises RecordingUnreadable before it listens.

    Each answer adds a line `probe TAB command` to `log`, so that counts outlive the process that served.
    """
    recording = where if isinstance(where, Recording) else load(where, tree=tree)
    with tempfile.TemporaryDirectory(prefix="sglscout-recorded-") as folder:
        server = await asyncio.to_thread(_Listener, recording, Path(folder))
        server.served.log = log
        server.start()
        try:
            yield server.served
        finally:
            await asyncio.to_thread(server.stop)


class _Listener:
    """The accepting thread and its connections."""

    def __init__(self, recording: Recording, folder: Path) -> None:
        import paramiko

        self._key = paramiko.ECDSAKey.generate()
        client = paramiko.ECDSAKey.generate()
        self._accepted = client.asbytes()
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=MAX_CONNECTIONS)
        self._socket.settimeout(0.5)
        port = int(self._socket.getsockname()[1])
        client_key, known = folder / "id_ecdsa", folder / "known_hosts"
        client.write_private_key_file(str(client_key))
        client_key.chmod(0o600)
        line = f"[127.0.0.1]:{port} {self._key.get_name()} {self._key.get_base64()}"
        known.write_text(line + "\n", encoding="utf-8")
        user = recording.figures.machine.user
        self.served = Served(recording, "127.0.0.1", port, user, line, client_key, known)
        self._transports: list[paramiko.Transport] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._accept, name="recorded-host", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        with suppress(OSError):
            self._socket.close()
        for transport in self._transports:
            transport.close()
        self._thread.join(timeout=2.0)

    def _accept(self) -> None:
        deadline = time.monotonic() + LIFETIME_S
        while not self._stopping.is_set() and time.monotonic() < deadline:
            try:
                connection, _ = self._socket.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            self._transports = [transport for transport in self._transports if transport.is_active()]
            if len(self._transports) >= MAX_CONNECTIONS:
                connection.close()
                continue
            self._greet(connection)

    def _greet(self, connection: socket.socket) -> None:
        import paramiko

        with suppress(paramiko.SSHException, EOFError, OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            transport = paramiko.Transport(connection)
            transport.local_version = "SSH-2.0-OpenSSH_9.6p1 Ubuntu-3ubuntu13.14"
            transport.add_server_key(self._key)
            self._transports.append(transport)
            # An event makes this return at once: a slow client must not keep the others waiting.
            transport.start_server(threading.Event(), _session_rules(self.served, self._accepted))


def _session_rules(served: Served, accepted: bytes) -> paramiko.ServerInterface:
    """The account and what it may do. A function, so that paramiko is imported only by who serves."""
    import paramiko
    from paramiko import common

    class Rules(paramiko.ServerInterface):
        def __init__(self) -> None:
            self._open = 0

        def get_allowed_auths(self, username: str) -> str:
            return "publickey"

        def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
            fits = username == served.user and key.asbytes() == accepted
            return int(common.AUTH_SUCCESSFUL if fits else common.AUTH_FAILED)

        def check_channel_request(self, kind: str, chanid: int) -> int:
            if kind != "session":
                return int(common.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED)
            if self._open >= MAX_CHANNELS:
                return int(common.OPEN_FAILED_CONNECT_FAILED)
            self._open += 1
            return int(common.OPEN_SUCCEEDED)

        def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
            # Answering inside this call would come before the reply to the request and break the channel.
            work = threading.Thread(target=self._run, args=(channel, command), daemon=True)
            work.start()
            return True

        def _run(self, channel: paramiko.Channel, command: bytes) -> None:
            try:
                time.sleep(REPLY_S)
                _serve_channel(served, channel, command.decode("utf-8", "replace"))
            finally:
                self._open -= 1

    return Rules()


def _serve_channel(served: Served, channel: paramiko.Channel, command: str) -> None:
    """One exec: answer, exit status, end of stream, close. A client that goes away ends it early."""
    import paramiko

    channel.settimeout(CHANNEL_S)
    try:
        if command.strip() in ("sh -s", "sh", "/bin/sh -s", "/bin/sh"):
            status = 0
            for piece in run_script(served.recording, _script(channel), served.note):
                channel.sendall(piece)
        else:
            reply = run_command(served.recording, command, served.note)
            channel.sendall(reply.stdout.encode("utf-8", "surrogateescape"))
            channel.sendall_stderr(reply.stderr.encode("utf-8", "surrogateescape"))
            status = reply.exit
        channel.send_exit_status(status)
        channel.shutdown_write()
    except (OSError, EOFError, paramiko.SSHException):
        pass
    finally:
        with suppress(OSError, EOFError, paramiko.SSHException):  # the client may be gone without a word
            channel.close()


def _script(channel: paramiko.Channel) -> str:
    """Everything on standard input, up to a limit."""
    data = b""
    while len(data) < MAX_SCRIPT_BYTES:
        piece = channel.recv(65_536)
        if not piece:
            break
        data += piece
    return data.decode("utf-8", "replace")
