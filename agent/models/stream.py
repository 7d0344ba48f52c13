"""Chunks of a streamed answer put together, and judged: whole, cut, empty, or an error in disguise.

What servers do differently is handled here once: reasoning in `reasoning_content` (SGLang) or `reasoning` (vLLM), usage
missing or in a chunk without choices, parallel calls that all say index 0, ids only in the first delta, or none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from agent.model import unheard

MAX_TEXT: Final = 400_000
MAX_ARGUMENTS: Final = 1_000_000
MAX_CALLS: Final = 256
_LOOKED_AT: Final = 2_000  # characters at the end of a text in which nothing but one short piece is a loop
_PIECE: Final = 80
_CALLS_AS_TEXT: Final = re.compile(
    r"<tool_call>|<function=|<\|tool_calls?(?:_section)?_begin\|>|\[TOOL_CALLS\]|<\|python_tag\|>|<｜tool▁calls▁begin｜>"
)
_LONE: Final = re.compile("[\ud800-\udfff]")


class Faulty(Exception):
    """This attempt is worth nothing; another may be. `status` is an HTTP status where the stream named one."""

    def __init__(self, reason: str, status: int | None = None, *, empty: bool = False) -> None:
        super().__init__(reason)
        self.empty = empty
        self.reason = reason
        self.status = status


@dataclass(slots=True)
class PartialCall:
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class Assembly:
    """One answer growing chunk by chunk; `coming` is told the text so far."""

    coming: Callable[[str], None] = unheard
    text: str = ""
    reasoning: str = ""
    finish: str = ""
    model: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    calls: list[PartialCall] = field(default_factory=list)
    begun: bool = False
    heard: int = 0  # characters of text, reasoning and calls: what a stream that goes on and on must make grow
    _looked: int = 0
    _by_index: dict[str, PartialCall] = field(default_factory=dict)

    def add(self, chunk: Any) -> None:
        """Take one parsed chunk. Raises Faulty on what is no chunk of an answer."""
        self.begun = True
        if not isinstance(chunk, dict):
            raise Faulty(f"the stream held {type(chunk).__name__} where a chunk belongs")
        error = chunk.get("error") or (chunk if chunk.get("object") == "error" else None)
        if error:
            raise _stream_error(error)
        self.model = _name(chunk.get("model")) or self.model
        if isinstance(used := chunk.get("usage"), dict):
            self.tokens_in, self.tokens_out = _count(used.get("prompt_tokens")), _count(used.get("completion_tokens"))
        choices = chunk.get("choices")
        if choices is None and (told := chunk.get("message") or chunk.get("detail")):
            raise _stream_error(chunk | {"message": told})
        for choice in _dicts(choices, "choices"):
            if str(choice.get("index") or 0) == "0":
                self._add_choice(choice)

    def _add_choice(self, choice: dict[str, Any]) -> None:
        for delta in _dicts(choice.get("delta") or choice.get("message"), "deltas"):
            if said := _text(delta.get("content")):
                self.text += said
                self.coming(self.text)
            thought = _text(delta.get("reasoning_content")) or _text(delta.get("reasoning"))
            self.reasoning += thought
            self.heard += len(said) + len(thought)
            for part in _dicts(delta.get("tool_calls"), "tool calls"):
                self._add_call(part)
        self.finish = _name(choice.get("finish_reason")) or self.finish
        if len(self.text) > MAX_TEXT or len(self.reasoning) > 4 * MAX_TEXT:
            raise Faulty("the answer does not end")
        if self.heard - self._looked > _LOOKED_AT:
            self._looked = self.heard
            ends = (
                text[-_LOOKED_AT:] for text in (self.text, self.reasoning, *(call.arguments for call in self.calls))
            )
            if any(_circles(end) for end in ends if len(end) == _LOOKED_AT):
                raise Faulty("the answer goes round in circles")

    def _add_call(self, part: dict[str, Any]) -> None:
        function = next(_dicts(part.get("function"), "functions"), {})
        identity = _name(part.get("id"))
        index = str(part["index"]) if part.get("index") is not None else None
        call = self._by_index.get(index) if index is not None else (self.calls[-1] if self.calls else None)
        # A new id under a known index is a new call: some servers number every call 0.
        starts_anew = call is not None and identity and call.id and identity != call.id
        if call is None or starts_anew:
            call = PartialCall()
            self.calls.append(call)
            if index is not None:
                self._by_index[index] = call
        call.id = call.id or identity
        call.name = call.name or _name(function.get("name"))
        given = function.get("arguments")
        brought = json.dumps(given) if isinstance(given, dict) else _text(given)
        call.arguments += brought
        self.heard += len(brought)
        if len(call.arguments) > MAX_ARGUMENTS or len(self.calls) > MAX_CALLS:
            raise Faulty("a tool call does not end")

    def judged(self, *, done: bool = False) -> str:
        """`stop`, `calls` or `length` for an answer that may be used. Raises Faulty for one that may not.

        `done`: the stream was ended by its mark. Text so ended counts though no reason was given for it, as `unmarked`.
        """
        if self.finish in ("content_filter", "abort"):
            raise Faulty(f"the endpoint ended the answer: {self.finish}", 0)
        if self.finish == "error":
            raise Faulty("the endpoint ended the answer with an error")
        if not self.finish and done and not self.calls and self.text.strip():
            return "unmarked"
        if not self.finish:
            raise Faulty("the stream ended in the middle")
        cut = self.finish == "length"
        if self.calls:
            at_limit = cut or any(not _whole(call.arguments) for call in self.calls)
            return "length" if at_limit else "calls"
        if not self.text.strip():
            raise Faulty("an empty answer", empty=True)
        return "length" if cut else "stop"


def holds_call(text: str) -> bool:
    """Whether a text holds a tool call that the server should have taken out of it."""
    return _CALLS_AS_TEXT.search(text) is not None


def _dicts(value: object, what: str) -> Iterator[dict[str, Any]]:
    """The objects of a list, or one that stands alone. Raises Faulty on anything else but nothing."""
    for each in value if isinstance(value, list) else [value] if value is not None else ():
        if not isinstance(each, dict):
            raise Faulty(f"the stream held {type(each).__name__} where {what} belong")
        yield each


def _text(value: object) -> str:
    """A text, or the texts of its parts put together. Raises Faulty on what is neither."""
    if value is None or isinstance(value, str):
        return _LONE.sub("\ufffd", value or "")
    if isinstance(value, list):
        return "".join(_text(part.get("text") if isinstance(part, dict) else part) for part in value)
    raise Faulty(f"the stream held {type(value).__name__} where text belongs")


def _name(value: object) -> str:
    """A name or an id; SGLang's own servers put a reason to end into an object, as its type."""
    if isinstance(value, dict):
        value = value.get("type")
    return _LONE.sub("\ufffd", str(value)) if isinstance(value, str | int) else ""


def _count(value: object) -> int:
    """A number of tokens, 0 for what is none."""
    try:
        return max(0, int(float(str(value))))
    except (ValueError, OverflowError):
        return 0


def _circles(text: str) -> bool:
    """Whether a text is one short piece over and over, or nothing but blanks; rules alone are no piece."""
    return not text.strip() or any(
        text.strip("-=_. \n") and text[size:] == text[:-size] for size in range(1, _PIECE + 1)
    )


def _whole(arguments: str) -> bool:
    try:
        json.loads(arguments or "{}", strict=False)
    except (ValueError, RecursionError):
        return False
    return True


def _stream_error(error: Any) -> Faulty:
    if isinstance(error, dict):
        code = error.get("code") or error.get("status_code")
        status = code if isinstance(code, int) else None
        return Faulty(str(error.get("message") or "an error in the stream")[:500], status)
    return Faulty(str(error)[:500])
