"""SSH by paramiko: one verified connection, at most eight channels, limits on everything.

paramiko alone would wait for a dead peer, stall small packets for 40 ms, read known_hosts in its own way and leave
remote processes running; each of those is mended here.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from tools.host.errors import (
    ConnectionLost,
    JumpFailed,
    KeyChanged,
    KeyRevoked,
    KeyUnknown,
    LoginRefused,
    NameUnknown,
    Refused,
    TimedOut,
)
from tools.host.known_hosts import fingerprint, keys_for
from tools.host.ssh_config import Route, SshOptions, resolve
from tools.host.transport import SHELL, in_thread
from transcripts.errors import HostError

if TYPE_CHECKING:
    import paramiko

CHANNELS: Final = 8  # OpenSSH allows 10 sessions; a closing one lingers for a moment
STEP_S: Final = 0.5
GRACE_S: Final = 2.0
KEEPALIVE_S: Final = 15


class SshTransport:
    """One connection to one host. Made by `SshTransport.connect`."""

    def __init__(self, route: Route, client: paramiko.Transport, behind: SshTransport | None = None) -> None:
        self._route = route
        self._client = client
        self._behind = behind
        self._slots = asyncio.Semaphore(CHANNELS)

    @classmethod
    async def connect(cls, target: str, options: SshOptions | None = None) -> SshTransport:
        """Connect and log in. Raises a HostError kind that says what went wrong and what to do."""
        options = options or SshOptions()
        route = await asyncio.to_thread(resolve, target, options)
        behind: SshTransport | None = None
        for jump in route.jumps:
            try:
                behind = await cls._hop(await asyncio.to_thread(resolve, jump, options), options, behind)
            except HostError as error:
                raise JumpFailed(jump, error.message) from error
        return await cls._hop(route, options, behind)

    @classmethod
    async def _hop(cls, route: Route, options: SshOptions, behind: SshTransport | None) -> SshTransport:
        attempt = in_thread(lambda: _connect(route, options, behind._client if behind else None))
        limit = options.connect_s * 3
        try:
            client = await asyncio.wait_for(attempt, limit)
        except TimeoutError as error:
            raise TimedOut(_where(route), "connecting", limit) from error
        return cls(route, client, behind)

    @property
    def name(self) -> str:
        return self._route.alias

    async def script(self, text: str, *, limit_s: float, limit_bytes: int) -> AsyncIterator[bytes]:
        """Run `sh -s` with this text; its output as it arrives."""
        async with self._slots:
            loop = asyncio.get_running_loop()
            pieces: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue()
            stop = threading.Event()

            def give(piece: bytes | BaseException | None) -> None:
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(pieces.put_nowait, piece)

            work = threading.Thread(
                target=self._pump, args=(text, time.monotonic() + limit_s, limit_bytes, give, stop), daemon=True
            )
            work.start()
            try:
                while (piece := await pieces.get()) is not None:
                    if isinstance(piece, BaseException):
                        raise self._named(piece, limit_s)
                    yield piece
            finally:
                stop.set()

    def _pump(self, text: str, deadline: float, limit_bytes: int, give: Any, stop: threading.Event) -> None:
        """In a thread: send the script, hand on what comes back, and end the remote side whatever happens."""
        channel = None
        try:
            channel = self._client.open_session(timeout=max(1.0, min(10.0, deadline - time.monotonic())))
            channel.set_combine_stderr(True)
            channel.settimeout(max(1.0, deadline - time.monotonic()))
            channel.exec_command(SHELL)
            channel.sendall(text.encode())
            channel.shutdown_write()
            self._receive(channel, deadline, limit_bytes, give, stop)
            give(None)
        except Exception as error:  # noqa: BLE001  named by the reader of the queue
            give(error)
        finally:
            if channel is not None:
                if not channel.exit_status_ready():
                    _signal(self._client, channel)
                channel.close()

    def _receive(self, channel: Any, deadline: float, limit_bytes: int, give: Any, stop: threading.Event) -> None:
        left = limit_bytes
        ended_at = 0.0
        channel.settimeout(STEP_S)
        while left > 0 and not stop.is_set():
            try:
                data = channel.recv(min(65_536, left))
            except TimeoutError:
                data = None
            if data == b"":
                return
            if data:
                left -= len(data)
                give(data)
            elif channel.exit_status_ready():
                # A child that outlives the shell holds the stream open: what it might say is not waited for.
                ended_at = ended_at or time.monotonic()
                if time.monotonic() - ended_at > GRACE_S:
                    return
            if time.monotonic() > deadline:
                raise TimeoutError
            if not self._client.is_active():
                raise EOFError

    def _named(self, error: BaseException, limit_s: float) -> HostError:
        if isinstance(error, HostError):
            return error
        if isinstance(error, TimeoutError):
            return TimedOut(self.name, "a command", limit_s)
        return ConnectionLost(self.name)

    async def close(self) -> None:
        """Leave the host and every jump on the way."""
        await in_thread(self._client.close)
        if self._behind is not None:
            await self._behind.close()


def host_key(target: str, options: SshOptions | None = None) -> tuple[Route, str, bytes]:
    """The key a host shows, without logging in: route, kind and key. For `sglscout trust`, which asks the operator."""
    options = options or SshOptions()
    route = resolve(target, options)
    client = _start(route, options, _socket(route, options), ())
    try:
        key = client.get_remote_server_key()
        return route, key.get_name(), key.asbytes()
    finally:
        client.close()


def _connect(route: Route, options: SshOptions, behind: paramiko.Transport | None) -> paramiko.Transport:
    known = keys_for(route.alias, route.port, route.known_hosts) or keys_for(route.host, route.port, route.known_hosts)
    sock = _socket(route, options) if behind is None else _through(route, options, behind)
    client = _start(route, options, sock, tuple(key.kind for key in known if not key.revoked))
    try:
        _verify(route, client, known)
        _log_in(route, options, client)
    except BaseException:
        client.close()
        raise
    client.set_keepalive(KEEPALIVE_S)
    return client


def _socket(route: Route, options: SshOptions) -> socket.socket:
    try:
        sock = socket.create_connection((route.host, route.port), timeout=options.connect_s)
    except socket.gaierror as error:
        raise NameUnknown(route.alias) from error
    except ConnectionRefusedError as error:
        raise Refused(_where(route)) from error
    except TimeoutError as error:
        raise TimedOut(_where(route), "connecting", options.connect_s) from error
    except OSError as error:
        raise HostError(f"{_where(route)} cannot be reached: {error.strerror}.", "Check the network.") from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or every command waits 40 ms for an acknowledgement
    return sock


def _through(route: Route, options: SshOptions, behind: paramiko.Transport) -> Any:
    import paramiko

    try:
        return behind.open_channel(
            "direct-tcpip", (route.host, route.port), ("127.0.0.1", 0), timeout=options.connect_s
        )
    except (paramiko.SSHException, EOFError) as error:
        raise JumpFailed(behind.getpeername()[0], f"{_where(route)} is not reached from there ({error})") from error


def _start(route: Route, options: SshOptions, sock: Any, kinds: tuple[str, ...]) -> paramiko.Transport:
    """Version and keys exchanged, nothing believed yet. Kinds of key that are known are asked for first."""
    import paramiko

    logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # its traces are no message for an operator
    client = paramiko.Transport(sock)
    client.banner_timeout = options.connect_s
    client.auth_timeout = options.connect_s
    if kinds:
        security = client.get_security_options()
        wanted = [name for name in security.key_types if _same_kind(name, kinds)]
        security.key_types = (*wanted, *(name for name in security.key_types if name not in wanted))
    try:
        client.start_client(timeout=options.connect_s)
        client.get_remote_server_key()  # a peer that stalls makes the line above return without a word
    except (paramiko.SSHException, EOFError, OSError) as error:
        client.close()
        text = str(error)
        if isinstance(error, TimeoutError) or any(word in text for word in ("imeout", "banner", "No existing")):
            raise TimedOut(_where(route), "no SSH greeting", options.connect_s) from error
        raise HostError(
            f"{_where(route)} does not speak SSH as we do: {text or 'it hung up'}.", "Try `ssh -v`."
        ) from error
    return client


def _same_kind(name: str, kinds: tuple[str, ...]) -> bool:
    return name in kinds or (name.startswith("rsa-sha2") and "ssh-rsa" in kinds)


def _verify(route: Route, client: paramiko.Transport, known: Any) -> None:
    """Raises unless the key shown is one that was remembered; never adds one."""
    shown = client.get_remote_server_key()
    key, kind = shown.asbytes(), shown.get_name()
    if any(each.revoked and each.key == key for each in known):
        raise KeyRevoked(route.alias)
    if any(each.key == key and not each.revoked for each in known):
        return
    others = [each for each in known if each.kind == kind and not each.revoked]
    name = route.alias if route.port == 22 else f"{route.alias}:{route.port}"
    if others:
        raise KeyChanged(name, fingerprint(key), fingerprint(others[0].key))
    raise KeyUnknown(name, fingerprint(key))


def _log_in(route: Route, options: SshOptions, client: paramiko.Transport) -> None:
    """Keys of the files, then of the agent. Raises LoginRefused with what was tried."""
    import paramiko

    tried: list[str] = []
    for name, key in _keys(route, tried):
        try:
            client.auth_publickey(route.user, key)
        except paramiko.BadAuthenticationType as error:
            raise LoginRefused(_where(route), f"it wants {', '.join(error.allowed_types)}") from error
        except paramiko.AuthenticationException:
            tried.append(name)
        except (paramiko.SSHException, EOFError) as error:
            raise LoginRefused(_where(route), f"it hung up after {', '.join(tried) or 'no key'} ({error})") from error
        if client.is_authenticated():
            return
    raise LoginRefused(_where(route), f"tried {', '.join(tried)}" if tried else "there is no key to offer")


def _keys(route: Route, tried: list[str]) -> Any:
    import paramiko

    for path in route.key_files:
        try:
            key = paramiko.PKey.from_path(path)
        except (paramiko.PasswordRequiredException, TypeError):  # the latter comes from the library below it
            key = _ask_for(path, tried)
        except (paramiko.SSHException, ValueError, OSError) as error:
            tried.append(f"{path.name} ({error})")
            continue
        if key is not None:
            certificate = path.with_name(f"{path.name}-cert.pub")
            if certificate.exists():
                key.load_certificate(str(certificate))
            yield path.name, key
    if route.agent:
        for key in paramiko.Agent().get_keys():
            yield f"agent key {key.get_fingerprint().hex()[:8]}", key


def _ask_for(path: Any, tried: list[str]) -> Any:
    """An encrypted key: its passphrase is asked for at a terminal, and never kept."""
    import getpass
    import sys

    import paramiko

    if not sys.stdin.isatty():
        tried.append(f"{path.name} (needs a passphrase; load it into ssh-agent)")
        return None
    try:
        return paramiko.PKey.from_path(path, getpass.getpass(f"Passphrase for {path}: "))
    except (paramiko.SSHException, ValueError) as error:
        tried.append(f"{path.name} ({error})")
        return None


def _signal(client: paramiko.Transport, channel: Any) -> None:
    """Ask the server to end what the channel runs: closing it alone would leave that running (OpenSSH >= 7.9)."""
    import paramiko
    from paramiko.common import cMSG_CHANNEL_REQUEST

    message = paramiko.Message()
    message.add_byte(cMSG_CHANNEL_REQUEST)
    message.add_int(channel.remote_chanid)
    message.add_string("signal")
    message.add_boolean(False)
    message.add_string("TERM")
    with suppress(Exception):
        client._send_user_message(message)  # type: ignore[attr-defined]


def _where(route: Route) -> str:
    return f"{route.user}@{route.alias}" + ("" if route.port == 22 else f":{route.port}")
