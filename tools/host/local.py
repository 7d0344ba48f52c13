"""This machine as a host: the same script, in a process group of its own that is ended whole."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from pathlib import Path

from tools.host.errors import NoShell, TimedOut


class LocalTransport:
    """Runs scripts with this machine's `sh`."""

    name = "local"
    login_shell = False

    async def script(self, text: str, *, limit_s: float, limit_bytes: int) -> AsyncGenerator[bytes, None]:
        """Run `sh -s` with this text; its output as it arrives."""
        try:
            process = await asyncio.create_subprocess_exec(
                "sh",
                "-s",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise NoShell("this machine") from error
        feeding = asyncio.create_task(_feed(process, text))
        try:
            async with asyncio.timeout(limit_s):
                left = limit_bytes
                while (
                    left > 0 and process.stdout is not None and (data := await process.stdout.read(min(65_536, left)))
                ):
                    left -= len(data)
                    yield data
        except TimeoutError as error:
            raise TimedOut("this machine", "a command", limit_s) from error
        finally:
            feeding.cancel()
            _end_session(process.pid)
            await process.wait()

    async def close(self) -> None:
        return None


def _end_session(leader: int) -> None:
    """Kill everything of a session, until nothing is left: what runs under `timeout` has a process group of its own."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    while members := [pid for pid in _session(leader) if pid != leader]:
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _session(leader: int) -> Iterator[int]:
    """Living processes of a session (state, parent, group and session follow the name in `stat`)."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            pid = int(entry.name)
            words = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(words[3]) == leader and words[0] not in "ZX":
                yield pid


async def _feed(process: asyncio.subprocess.Process, text: str) -> None:
    if process.stdin is None:
        return
    with suppress(ConnectionError):
        process.stdin.write(text.encode())
        await process.stdin.drain()
        process.stdin.close()
