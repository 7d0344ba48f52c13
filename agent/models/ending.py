"""Whether a stream ended as the protocol ends it, with `[DONE]`: the openai package tells it from no other end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import httpx2

_DONE: Final = (b"data: [DONE]", b"data:[DONE]")
_LONGEST: Final = max(len(each) for each in _DONE)


class Ending(httpx2.AsyncByteStream):
    """A response's bytes, passed on as they come; `marked` once the end was."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream
        self._line = b""
        self.marked = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._stream:
            *whole, last = (self._line + data).split(b"\n")
            self._line = last[:_LONGEST]
            self.marked = self.marked or any(line.startswith(_DONE) for line in (*whole, last))
            yield data

    async def aclose(self) -> None:
        await self._stream.aclose()
