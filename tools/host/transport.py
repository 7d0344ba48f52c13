"""How a script reaches a shell: one method, whatever carries it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Protocol, TypeVar

T = TypeVar("T")
SHELL = "sh -s"  # plain words, so that every login shell starts it; all quoting is read by sh alone


class Transport(Protocol):
    """Carries one script to `sh` and its output, both streams together, back."""

    @property
    def name(self) -> str: ...

    @property
    def login_shell(self) -> bool:
        """Whether a login shell of the host's choosing starts `sh`."""
        ...

    def script(self, text: str, *, limit_s: float, limit_bytes: int) -> AsyncGenerator[bytes, None]:
        """Output as it arrives, cut at `limit_bytes`. Raises HostError; TimedOut when `limit_s` is over."""
        ...

    async def close(self) -> None: ...


async def in_thread(work: Callable[[], T]) -> T:
    """Run blocking work in a thread of its own that may be left behind: a stalled peer then holds up nothing."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(value)  # type: ignore[arg-type]

    def body() -> None:
        value: T | None = None
        error: BaseException | None = None
        try:
            value = work()
        except BaseException as caught:  # noqa: BLE001  it is handed to the caller, whatever it is
            error = caught
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:
            return  # the loop is gone: nobody waits any more

    threading.Thread(target=body, daemon=True).start()
    return await done
