"""SSH by paramiko: one verified connection, at most eight channels, limits on everything.

paramiko alone would wait for a dead peer, lose a session that the server is still closing and leave remote processes
running; each of those is mended here. How a connection comes about stands in `ssh_login`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from tools.host.errors import ConnectionLost, JumpFailed, TimedOut
from tools.host.ssh_config import Route, SshOptions, resolve
from tools.host.ssh_login import log_in, shown_key, where
from tools.host.transport import SHELL, in_thread
from transcripts.errors import HostError

if TYPE_CHECKING:
    import paramiko

CHANNELS: Final = 8  # OpenSSH allows 10 sessions; a closing one lingers for a moment
STEP_S: Final = 0.2
GRACE_S: Final = 2.0
QUIET_S: Final = 10.0  # so long without a byte, and the peer is asked whether it lives
ANSWER_S: Final = 5.0  # what it may take to answer that
OPEN_FAILED_CONNECT_FAILED: Final = 2  # what OpenSSH answers above its MaxSessions

Piece = bytes | BaseException | None
Give = Callable[[Piece], None]


class SshTransport:
    """One connection to one host. Made by `SshTransport.connect`."""

    login_shell = True

    def __init__(self, route: Route, client: paramiko.Transport, behind: SshTransport | None = None) -> None:
        self._route = route
        self._client = client
        self._behind = behind
        self._slots = asyncio.Semaphore(CHANNELS)
        self._pulse = _Pulse(client)

    @classmethod
    async def connect(cls, target: str, options: SshOptions | None = None) -> SshTransport:
        """Connect and log in. Raises a HostError kind that says what went wrong and what to do."""
        options = options or SshOptions()
        route = await asyncio.to_thread(resolve, target, options)
        behind = await cls._jumps(route, options)
        try:
            return await cls._hop(route, options, behind)
        except BaseException:
            if behind is not None:
                await behind.close()
            raise

    @classmethod
    async def host_key(cls, target: str, options: SshOptions | None = None) -> tuple[Route, str, bytes]:
        """The key a host shows, without logging in there (jumps are logged in to): route, kind, key."""
        options = options or SshOptions()
        route = await asyncio.to_thread(resolve, target, options)
        behind = await cls._jumps(route, options)
        try:
            kind, key = await in_thread(lambda: shown_key(route, options, behind._client if behind else None))
        finally:
            if behind is not None:
                await behind.close()
        return route, kind, key

    @classmethod
    async def _jumps(cls, route: Route, options: SshOptions) -> SshTransport | None:
        behind: SshTransport | None = None
        for jump in route.jumps:
            try:
                behind = await cls._hop(await asyncio.to_thread(resolve, jump, options), options, behind)
            except HostError as error:
                if behind is not None:
                    await behind.close()
                raise JumpFailed(jump, str(error)) from error
        return behind

    @classmethod
    async def _hop(cls, route: Route, options: SshOptions, behind: SshTransport | None) -> SshTransport:
        attempt = in_thread(lambda: log_in(route, options, behind._client if behind else None))
        limit = options.connect_s * 3
        try:
            async with asyncio.timeout(limit):
                client = await attempt
        except TimeoutError as error:
            raise TimedOut(where(route), "connecting", limit) from error
        return cls(route, client, behind)

    @property
    def name(self) -> str:
        return self._route.alias

    @property
    def client(self) -> paramiko.Transport:
        """The connection itself, for a direct channel to a port of the host."""
        return self._client

    async def script(self, text: str, *, limit_s: float, limit_bytes: int) -> AsyncGenerator[bytes, None]:
        """Run `sh -s` with this text; its output as it arrives."""
        async with self._slots:
            loop = asyncio.get_running_loop()
            pieces: asyncio.Queue[Piece] = asyncio.Queue()
            stop = threading.Event()

            def give(piece: Piece) -> None:
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(pieces.put_nowait, piece)

            deadline = time.monotonic() + limit_s
            work = threading.Thread(target=self._pump, args=(text, deadline, limit_bytes, give, stop), daemon=True)
            work.start()
            try:
                while (piece := await self._next(pieces, deadline)) is not None:
                    if isinstance(piece, BaseException):
                        raise self._named(piece, limit_s)
                    yield piece
            finally:
                stop.set()
                await in_thread(lambda: work.join(GRACE_S))  # the remote side is told to end before we go

    async def _next(self, pieces: asyncio.Queue[Piece], deadline: float) -> Piece:
        """The next piece; where paramiko itself waits for ever, the connection is given up."""
        try:
            # `wait_for` of Python 3.11 would drop a Ctrl-C that comes together with a piece.
            async with asyncio.timeout(max(0.0, deadline - time.monotonic()) + GRACE_S):
                return await pieces.get()
        except TimeoutError as error:
            await in_thread(self._client.close)
            return error

    def _pump(self, text: str, deadline: float, limit_bytes: int, give: Give, stop: threading.Event) -> None:
        """In a thread: send the script, hand on what comes back, and end the remote side whatever happens."""
        channel = None
        try:
            channel = self._session(deadline, stop)
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
                with suppress(Exception):  # the connection may have ended by now: what came was handed on already
                    channel.close()

    def _session(self, deadline: float, stop: threading.Event) -> Any:
        """A channel; tried again where the server still counts one that was just closed."""
        import paramiko

        pause = 0.05
        while True:
            try:
                return self._client.open_session(timeout=max(1.0, min(10.0, deadline - time.monotonic())))
            except paramiko.ChannelException as error:
                if error.code != OPEN_FAILED_CONNECT_FAILED or stop.is_set() or time.monotonic() + pause > deadline:
                    raise
                stop.wait(pause)
                pause = min(0.5, pause * 2)

    def _receive(self, channel: Any, deadline: float, limit_bytes: int, give: Give, stop: threading.Event) -> None:
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
                self._pulse.felt()
                give(data)
            elif channel.exit_status_ready():
                # A child that outlives the shell holds the stream open: what it might say is not waited for.
                ended_at = ended_at or time.monotonic()
                if time.monotonic() - ended_at > GRACE_S:
                    return
            if time.monotonic() > deadline:
                raise TimeoutError
            if not self._client.is_active() or not self._pulse.beats():
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


class _Pulse:
    """Whether the peer still answers: paramiko's own keep-alive asks for no answer and so never misses one."""

    def __init__(self, client: paramiko.Transport) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._last = time.monotonic()

    def felt(self) -> None:
        self._last = time.monotonic()

    def beats(self) -> bool:
        """True while bytes came lately or the peer answers a request; else the connection is closed."""
        with self._lock:  # paramiko holds one awaited answer a connection
            if time.monotonic() - self._last < QUIET_S:
                return True
            answered = threading.Event()
            threading.Thread(target=self._ask, args=(answered,), daemon=True).start()
            if answered.wait(ANSWER_S) and self._client.is_active():
                self.felt()
                return True
            self._client.close()
            return False

    def _ask(self, answered: threading.Event) -> None:
        with suppress(Exception):
            self._client.global_request("keepalive@openssh.com", wait=True)
            answered.set()


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
