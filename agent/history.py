"""Records to messages: one pure pass, so that a request begins with the very bytes of the one before it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from agent.board import board
from agent.model import Message
from agent.session import Session
from agent.views.words import visible
from prompts import prompt
from transcripts.parts import Call
from transcripts.records import Delivered, Ended, Opened, Record, Replied, Resumed, Said, Shortened

CUT_CHARS = 16_000
CUT_HEAD = 10_000


class Conversation:
    """The messages of a growing list of records; what was worked out for one request is kept for the next."""

    def __init__(self, system: str) -> None:
        self._kept: list[Message] = [{"role": "system", "content": system}]
        self._read = 0
        self._mark = ""

    def messages(self, records: Sequence[Record]) -> list[Message]:
        """The conversation as chat completions take it: system prompt, what was asked, answers, calls and results.

        Results stand in the order of their calls, whichever came first: many chat templates go by nothing else.
        """
        fresh = records[self._read :]
        self._mark = self._mark or _mark(records)
        ended = {record.call: record for record in fresh if isinstance(record, Ended)}
        # The last answer is read again next time: results of its calls may still come.
        last = max((place for place, record in enumerate(fresh) if isinstance(record, Replied)), default=0)
        for record in fresh[:last]:
            self._take(self._kept, record, ended)
        self._read += last
        out = list(self._kept)
        for record in fresh[last:]:
            self._take(out, record, ended)
        return out

    def _take(self, out: list[Message], record: Record, ended: Mapping[str, Ended]) -> None:
        match record:
            case Shortened():
                out[1:] = [{"role": "user", "content": record.text}]
            case Opened() | Said() | Resumed():
                out.append({"role": "user", "content": record.text})
            case Delivered():
                report = told(record.text, self._mark, "task")
                out.append({"role": "user", "content": prompt("delivered", report=report)})
            case Replied():
                calls = [call for call in record.calls if call.id in ended]
                out.append(_assistant(record.text, calls))
                for call in calls:
                    text = told(ended[call.id].text, self._mark, call.name)
                    out.append({"role": "tool", "tool_call_id": call.id, "content": text})
            case _:
                pass


def messages(system: str, records: Sequence[Record]) -> list[Message]:
    """The whole conversation at once."""
    return Conversation(system).messages(records)


def shorten(session: Session) -> None:
    """Begin the conversation anew with the question and the case as it stands; the records stay."""
    case = session.case
    known = fenced(board(case), session.records)
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


def fenced(text: str, records: Sequence[Record]) -> str:
    """Text as data of the session with these records: nothing in it is hidden, nor can it write its own end."""
    return _fenced(visible(text), _mark(records))


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
