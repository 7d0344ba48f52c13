"""What decides the next message: the protocol that every model keeps, and what passes through it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent.case import Case
from transcripts.parts import Call, Usage

Message = dict[str, Any]


def unheard(_text: str) -> None:
    """For what nobody wants to hear."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model: the conversation so far, the tools at hand, and the case they are about.

    An endpoint gets `messages` and `tools` (the case is rendered into the messages); the playbook reads `case`.
    `coming` is told the text of an answer as it grows, which counts for nothing yet, and "" when it is over.
    """

    messages: list[Message]
    tools: list[dict[str, Any]]
    case: Case
    coming: Callable[[str], None] = unheard


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer: text, or tool calls, or both. `finish` is `stop`, `calls`, `length`, `unmarked` or `unanswered`.

    `window`: tokens that the model takes in all, 0 where that is not known, or not worth asking for yet.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage = field(default_factory=lambda: Usage(turns=1))
    model: str = ""
    finish: str = "stop"
    window: int = 0


class Model(Protocol):
    """Anything that answers a request. Raises EndpointError when it cannot."""

    @property
    def name(self) -> str: ...

    async def reply(self, request: Request) -> Reply: ...
