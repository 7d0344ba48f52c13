"""The server under diagnosis as the model, through the SSH connection that is there anyway; the playbook when it fails.

Until its port is known, which the first look tells, and from its first fault on, the playbook decides: a server that
is being diagnosed may well not answer, and the case goes on all the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from agent.model import Model, Reply, Request
from agent.models.errors import ContextTooLong
from agent.models.openai_compatible import OpenAICompatible
from agent.models.playbook import Playbook
from transcripts.errors import EndpointError, HostError, UsageError

FIRST_TOKEN_S: Final = 60.0


@dataclass(slots=True)
class FromHost:
    """`reach` gives the local port that leads to a port of the host; `served`: the server's port and model name."""

    reach: Callable[[int], Awaitable[int]]
    served: Callable[[], tuple[int, str] | None]
    api_key: str
    notice: Callable[[str], None]
    back_off_s: float = 1.0
    name: str = "from-host"
    _playbook: Playbook = field(default_factory=Playbook)
    _endpoint: Model | None = None
    _failed: bool = False

    async def reply(self, request: Request) -> Reply:
        served = self.served()
        if self._failed or served is None:
            return await self._playbook.reply(request)
        try:
            return await (self._endpoint or await self._reached(*served)).reply(request)
        except ContextTooLong:
            raise
        except (EndpointError, HostError, UsageError) as error:
            self._failed = True
            self.notice(f"the server itself does not answer as a model ({error.message}); the playbook goes on.")
            return await self._playbook.reply(request)

    async def _reached(self, port: int, name: str) -> Model:
        endpoint = endpoint_at(await self.reach(port), name, self.api_key, self.notice)
        endpoint.back_off_s = self.back_off_s
        self._endpoint = endpoint
        return endpoint


def endpoint_at(
    port: int, name: str, api_key: str, notice: Callable[[str], None] = lambda _what: None
) -> OpenAICompatible:
    """The model behind a port of this machine that leads to the server of a host."""
    base_url = f"http://127.0.0.1:{port}/v1"
    return OpenAICompatible(name, base_url, api_key, first_token_s=FIRST_TOKEN_S, notice=notice)
