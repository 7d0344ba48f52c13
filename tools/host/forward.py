"""One port of a host as a port of this machine, for the operator who chose that server as the model.

Only 127.0.0.1 on either side, only the port that was named, only while the context is open.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from tools.host.look import Host, ShellHost
from tools.host.ssh import SshTransport
from transcripts.errors import UsageError

if TYPE_CHECKING:
    import paramiko

OPEN_S: Final = 10.0
PIECE: Final = 65_536


@asynccontextmanager
async def open_port(host: Host, port: int) -> AsyncIterator[int]:
    """The local port that leads to `127.0.0.1:port` of the host; for this machine itself that port unchanged.

    Raises UsageError for a bundle, which has no ports.
    """
    if not isinstance(host, ShellHost):
        raise UsageError("a bundle has no server to ask.", "Use --host, or another model endpoint.")
    if not isinstance(host.transport, SshTransport):
        yield port
        return
    listener = socket.create_server(("127.0.0.1", 0))
    passages: list[Any] = []
    worker = threading.Thread(target=_accept, args=(listener, host.transport.client, port, passages), daemon=True)
    worker.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for end in passages:
            with suppress(OSError, EOFError):
                end.close()
        await asyncio.to_thread(worker.join, OPEN_S)


def _accept(listener: socket.socket, client: paramiko.Transport, port: int, passages: list[Any]) -> None:
    import paramiko

    while True:
        try:
            near, peer = listener.accept()
        except OSError:
            return
        try:
            far = client.open_channel("direct-tcpip", ("127.0.0.1", port), peer, timeout=OPEN_S)
        except (paramiko.SSHException, EOFError, OSError):
            near.close()  # the caller sees a connection that was refused over there
            continue
        passages += [near, far]
        for source, target in ((near, far), (far, near)):
            threading.Thread(target=_pass_on, args=(source, target), daemon=True).start()


def _pass_on(source: Any, target: Any) -> None:
    """Bytes one way until that side ends; then the other side is told."""
    with suppress(OSError, EOFError):
        while data := source.recv(PIECE):
            target.sendall(data)
    with suppress(OSError, EOFError):
        target.shutdown(socket.SHUT_WR)
