"""Records to messages: one pure pass, so that a request begins with the very bytes of the one before it."""

from __future__ import annotations

from collections.abc import Sequence

from agent.board import board
from agent.model import Message
from agent.session import Session
from prompts import prompt
from transcripts.records import Delivered, Ended, Opened, Record, Replied, Said, Shortened

CUT_CHARS = 16_000
CUT_HEAD = 10_000


def messages(system: str, records: Sequence[Record]) -> list[Message]:
    """The conversation as chat completions take it: system prompt, what was asked, answers, calls and their results."""
    out: list[Message] = [{"role": "system", "content": system}]
    answered = {record.call for record in records if isinstance(record, Ended)}
    called: set[str] = set()
    for record in records:
        match record:
            case Shortened():
                out[1:] = [{"role": "user", "content": record.text}]
                called.clear()
            case Opened() | Said():
                out.append({"role": "user", "content": record.text})
            case Delivered():
                out.append({"role": "user", "content": prompt("delivered", report=shortened(record.text))})
            case Replied():
                out.append(_assistant(record, answered))
                called.update(call.id for call in record.calls)
            case Ended() if record.call in called:
                out.append({"role": "tool", "tool_call_id": record.call, "content": shortened(record.text)})
            case _:
                pass
    return out


def shorten(session: Session) -> None:
    """Begin the conversation anew with the question and the case as it stands; the records stay."""
    case = session.case
    session.record(Shortened(text=f"{case.question}\n\nWhat is known so far:\n\n{board(case)}"))


def size(session: Session) -> int:
    """Characters of the conversation as it would be sent now, without the system prompt and the tools."""
    return sum(len(str(message)) for message in messages("", session.records))


def shortened(text: str) -> str:
    """A long result with its middle left out; how much is missing is said, and the whole stays in the transcript."""
    if len(text) <= CUT_CHARS:
        return text
    tail = CUT_CHARS - CUT_HEAD
    return f"{text[:CUT_HEAD]}\n… {len(text) - CUT_CHARS} characters left out …\n{text[-tail:]}"


def _assistant(record: Replied, answered: set[str]) -> Message:
    """An answer with those of its calls that have a result; endpoints refuse a call without one."""
    message: Message = {"role": "assistant", "content": record.text}
    calls = [call for call in record.calls if call.id in answered]
    if calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
    return message
