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
from transcripts.facts import Facts

FIRST_TOKEN_S: Final = 60.0


@dataclass(slots=True)
class FromHost:
    """`reach` gives the local port that leads to a port of the host; `facts` are those of the session."""

    reach: Callable[[int], Awaitable[int]]
    facts: Callable[[], Facts]
    api_key: str
    notice: Callable[[str], None]
    back_off_s: float = 1.0
    name: str = "from-host"
    _playbook: Playbook = field(default_factory=Playbook)
    _endpoint: Model | None = None
    _failed: bool = False

    async def reply(self, request: Request) -> Reply:
        if self._failed or (self._endpoint is None and self.facts().number("port") is None):
            return await self._playbook.reply(request)
        try:
            return await (self._endpoint or await self._reached()).reply(request)
        except ContextTooLong:
            raise
        except (EndpointError, HostError, UsageError) as error:
            self._failed = True
            self.notice(f"the server itself does not answer as a model ({error.message}); the playbook goes on.")
            return await self._playbook.reply(request)

    async def _reached(self) -> Model:
        facts = self.facts()
        port = await self.reach(int(facts.number("port") or 0))
        served = facts.text("served_model") or facts.text("model_path") or "default"
        self._endpoint = OpenAICompatible(
            served,
            f"http://127.0.0.1:{port}/v1",
            self.api_key,
            first_token_s=FIRST_TOKEN_S,
            back_off_s=self.back_off_s,
            notice=self.notice,
        )
        return self._endpoint
