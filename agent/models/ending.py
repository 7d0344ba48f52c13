"""What the openai package does not tell of a stream: whether it ended with `[DONE]`, and what came that was none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import httpx2

_DONE: Final = (b"data: [DONE]", b"data:[DONE]")
_LONGEST: Final = max(len(each) for each in _DONE)
_EVENT: Final = (b"data:", b"event:", b"id:", b"retry:", b":", b"\xef\xbb\xbf")
_KEPT: Final = 1 << 20  # bytes of a body


class Ending(httpx2.AsyncByteStream):
    """A response's bytes, passed on as they come; `marked` once the end was, `plain` the body that is no stream."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream
        self._line = b""
        self.marked = False
        self.plain = b""
        self._events = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._stream:
            *whole, last = (self._line + data).split(b"\n")
            self._events = self._events or any(line.startswith(_EVENT) for line in (*whole, last))
            self.plain = b"" if self._events else (self.plain + data)[:_KEPT]
            self._line = last[:_LONGEST]
            self.marked = self.marked or any(line.startswith(_DONE) for line in (*whole, last))
            yield data

    async def aclose(self) -> None:
        await self._stream.aclose()
