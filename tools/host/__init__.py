"""Looking at hosts: transports, the one probe script, parsers of what comes back, and the policy on single commands.

Nothing here weighs what was seen, and nothing here writes to a host.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tools.host.bundle import open_bundle_file
from tools.host.forward import open_port
from tools.host.look import STARTED_WITH, Host, Observation, ShellHost, learn_start, look
from tools.host.probes import STANDARD, Probe, least_rights
from tools.host.ssh_config import SshOptions
from tools.host.transport import Transport
from tools.host.tree import fetch_tree

__all__ = [
    "STANDARD",
    "STARTED_WITH",
    "Host",
    "Observation",
    "Probe",
    "SshOptions",
    "check_bundle",
    "check_target",
    "connect",
    "fetch_tree",
    "learn_start",
    "least_rights",
    "look",
    "open_bundle",
    "open_port",
]


@asynccontextmanager
async def connect(target: str, options: SshOptions | None = None) -> AsyncIterator[Host]:
    """`[user@]host[:port]` over SSH, or `local`. Raises a kind of HostError, or UsageError for no such form."""
    host = ShellHost(await _transport(target, options))
    try:
        yield host
    finally:
        await host.close()


async def _transport(target: str, options: SshOptions | None) -> Transport:
    if target == "local":
        from tools.host.local import LocalTransport

        return LocalTransport()
    from tools.host.ssh import SshTransport

    return await SshTransport.connect(target, options)


@asynccontextmanager
async def open_bundle(path: Path) -> AsyncIterator[Host]:
    """A bundle, log or folder as a host that runs nothing. Raises UsageError when it cannot be read."""
    yield open_bundle_file(path)


def check_bundle(path: Path) -> None:
    """Raises UsageError when there is nothing to read at the path."""
    open_bundle_file(path)


def check_target(target: str) -> None:
    """Raises UsageError when no host can be meant by it; nothing is connected."""
    if target != "local":
        from tools.host.ssh_config import resolve

        resolve(target, SshOptions())
