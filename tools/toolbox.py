"""A tool: typed arguments, an async function, and text for whoever called it.

What a tool learns goes into the transcript through `emit`, record by record, before its text is returned; a tool that
is killed half-way has lost nothing it emitted.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from transcripts.errors import ScoutError

Emit = Callable[[BaseModel], None]


class Arguments(BaseModel):
    """Base of every tool's arguments: nothing unknown, nothing coerced."""

    model_config = ConfigDict(extra="forbid", strict=True)


A = TypeVar("A", bound=Arguments)


class ToolRefused(ScoutError):
    """The call was understood and is not carried out; the text says why and what would be."""


class NotACall(ToolRefused):
    """No such tool, or arguments that do not fit: nothing was tried."""


@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    """One thing that can be done. `run` returns the text for the caller; it may raise ToolRefused."""

    name: str
    description: str
    arguments: type[A]
    run: Callable[[A, Emit], Awaitable[str]]

    def schema(self) -> dict[str, Any]:
        """The tool as chat completions take it."""
        parameters = self.arguments.model_json_schema()
        parameters.pop("title", None)
        for field in parameters.get("properties", {}).values():
            field.pop("title", None)
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": parameters},
        }


class Toolbox:
    """The tools of one role, called by name with JSON text."""

    def __init__(self, tools: Iterable[Tool[Any]]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._schemas = [tool.schema() for tool in self._tools.values()]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def schemas(self) -> list[dict[str, Any]]:
        return self._schemas

    async def call(self, name: str, arguments: str, emit: Emit) -> str:
        """Run a tool. Raises ToolRefused with text the caller can act on when name or arguments do not fit."""
        tool = self._tools.get(name)
        if tool is None:
            raise NotACall(f"no tool is named {name!r}.", f"There are: {', '.join(self._tools)}.")
        try:
            parsed = tool.arguments.model_validate(_strict_json(arguments))
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(str(part) for part in item['loc']) or 'arguments'}: {item['msg']}"
                for item in error.errors()
            )
            raise NotACall(f"{name}: {problems}.") from error
        return await tool.run(parsed, emit)


def _strict_json(text: str) -> Any:
    """JSON as the standard has it: no NaN, no duplicate keys, no text over 1 MiB."""
    if len(text) > 1 << 20:
        raise NotACall("arguments are larger than 1 MiB.")
    try:
        loaded = _loaded(text or "{}")
        return _loaded(loaded) if isinstance(loaded, str) else loaded  # some models write the object as a text of JSON
    except (ValueError, RecursionError) as error:
        raise NotACall(f"arguments are not valid JSON: {error}.") from error


def _loaded(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant, strict=False)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen = dict(pairs)
    if len(seen) != len(pairs):
        raise ValueError("a key stands twice")
    return seen


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
