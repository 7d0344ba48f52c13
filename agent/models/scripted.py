"""A model that says what its script says, for tests of anything that talks to a model.

    model = Scripted(calls(("look", {})), say("done"))
    ...
    model.finished()      # fails when steps are left

A step is a Reply, an exception to raise, or a function of the request that gives either. A request beyond the script
fails.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from itertools import count
from typing import Any

from agent.model import Reply, Request
from transcripts.parts import Call, Usage

Step = Reply | Exception | Callable[[Request], "Reply | Exception"]
_numbers = count(1)


class Scripted:
    """Answers request after request from its script; `requests` keeps what was asked."""

    name = "scripted"

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.requests: list[Request] = []

    async def reply(self, request: Request) -> Reply:
        self.requests.append(request)
        await asyncio.sleep(0)
        if not self.steps:
            raise AssertionError(f"request {len(self.requests)} is beyond the script: {request.messages[-1]}")
        step = self.steps.pop(0)
        result = step if isinstance(step, Reply | Exception) else step(request)
        if isinstance(result, Exception):
            raise result
        return result

    def finished(self) -> None:
        """Raises AssertionError when steps of the script were never asked for."""
        if self.steps:
            raise AssertionError(f"{len(self.steps)} steps of the script were not used")


def say(text: str, tokens: int = 0) -> Reply:
    return Reply(text=text, usage=Usage(turns=1, tokens_out=tokens))


def calls(*wanted: tuple[str, dict[str, Any]], text: str = "") -> Reply:
    """A reply that calls tools, each given as name and arguments."""
    made = tuple(Call(id=f"call_{next(_numbers)}", name=name, arguments=json.dumps(args)) for name, args in wanted)
    return Reply(text=text, calls=made, finish="calls")
