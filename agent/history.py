"""Records to messages: one pure pass, so that a request begins with the very bytes of the one before it."""

from __future__ import annotations

from collections.abc import Iterable

from agent.model import Message
from transcripts.records import Ended, Opened, Record, Replied, Said

CUT_CHARS = 16_000
CUT_HEAD = 10_000


def messages(system: str, records: Iterable[Record]) -> list[Message]:
    """The conversation as chat completions take it: system prompt, what was asked, answers, calls and their results."""
    out: list[Message] = [{"role": "system", "content": system}]
    for record in records:
        match record:
            case Opened() | Said():
                out.append({"role": "user", "content": record.text})
            case Replied():
                out.append(_assistant(record))
            case Ended():
                out.append({"role": "tool", "tool_call_id": record.call, "content": shortened(record.text)})
            case _:
                pass
    return out


def shortened(text: str) -> str:
    """A long result with its middle left out; how much is missing is said, and the whole stays in the transcript."""
    if len(text) <= CUT_CHARS:
        return text
    tail = CUT_CHARS - CUT_HEAD
    return f"{text[:CUT_HEAD]}\n… {len(text) - CUT_CHARS} characters left out …\n{text[-tail:]}"


def _assistant(record: Replied) -> Message:
    message: Message = {"role": "assistant", "content": record.text}
    if record.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in record.calls
        ]
    return message
