"""Records to messages: one pure pass, so that a request begins with the very bytes of the one before it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from agent.board import board
from agent.model import Message
from agent.session import Session
from agent.views.words import visible
from prompts import prompt
from transcripts.records import Call, Delivered, Ended, Opened, Record, Replied, Resumed, Said, Shortened

CUT_CHARS = 16_000
CUT_HEAD = 10_000


def messages(system: str, records: Sequence[Record]) -> list[Message]:
    """The conversation as chat completions take it: system prompt, what was asked, answers, calls and their results.

    Results stand in the order of their calls, whichever came first: many chat templates go by nothing else.
    """
    out: list[Message] = [{"role": "system", "content": system}]
    mark = _mark(records)
    ended = {record.call: record for record in records if isinstance(record, Ended)}
    for record in records:
        match record:
            case Shortened():
                out[1:] = [{"role": "user", "content": record.text}]
            case Opened() | Said() | Resumed():
                out.append({"role": "user", "content": record.text})
            case Delivered():
                out.append({"role": "user", "content": prompt("delivered", report=told(record.text, mark, "task"))})
            case Replied():
                calls = [call for call in record.calls if call.id in ended]
                out.append(_assistant(record.text, calls))
                for call in calls:
                    text = told(ended[call.id].text, mark, call.name)
                    out.append({"role": "tool", "tool_call_id": call.id, "content": text})
            case _:
                pass
    return out


def shorten(session: Session) -> None:
    """Begin the conversation anew with the question and the case as it stands; the records stay."""
    case = session.case
    known = _fenced(visible(board(case)), _mark(session.records))
    session.record(Shortened(text=f"{case.question}\n\nWhat is known so far:\n\n{known}"))


def size(session: Session) -> int:
    """Characters of the conversation as it would be sent now, without the system prompt and the tools."""
    return sum(len(str(message)) for message in messages("", session.records))


def told(text: str, mark: str, tool: str) -> str:
    """A tool's result as data: nothing in it is hidden, and it stands between marks that it cannot write itself.

    The id and the status that a task's outcome begins with are this program's words and stand before the fence.
    """
    head, body = "", visible(text)
    if tool == "task" and body.startswith("task_id: "):
        head, blank, body = body.partition("\n\n")
        head += blank
    return head + _fenced(shortened(body), mark)


def bare(text: str) -> str:
    """A result as it was before `told` put marks around it."""
    return _MARKS.sub("", text)


_MARKS: Final = re.compile(r"\A<data [^>\n]*>\n|\n</data [^>\n]*>\Z")


def _fenced(text: str, mark: str) -> str:
    return f"<data {mark}>\n{text.replace(f'data {mark}', 'data')}\n</data {mark}>"


def _mark(records: Sequence[Record]) -> str:
    """The letters of chance that this session's id ends with: no host, file or log can know them."""
    return next((record.id[-6:] for record in records if isinstance(record, Opened)), "")


def shortened(text: str) -> str:
    """A long result with its middle left out; how much is missing is said, and the whole stays in the transcript."""
    if len(text) <= CUT_CHARS:
        return text
    tail = CUT_CHARS - CUT_HEAD
    return f"{text[:CUT_HEAD]}\n… {len(text) - CUT_CHARS} characters left out …\n{text[-tail:]}"


def _assistant(text: str, calls: Sequence[Call]) -> Message:
    """An answer with those of its calls that have a result; endpoints refuse a call without one."""
    message: Message = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
    return message
