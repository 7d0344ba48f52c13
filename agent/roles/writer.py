"""The writer: one question to a model, whether the prose of a write-up can be worded better.

Only paragraphs of prose are offered; tables, lists, commands and quotations of evidence never are. What comes back is
checked paragraph by paragraph (`agent/rewording.py`); where it is refused, and where the model is down, slow or talks
nonsense, the text that was there stays. The answer is a record: the write-up follows from the transcript alone.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from typing import Final

from agent.document import document
from agent.history import fenced
from agent.limits import Meter
from agent.model import Model, Request
from agent.rewording import refusal
from agent.session import Session
from agent.views.sections.blocks import Paragraph
from agent.views.words import without_references
from agent.views.writeup import prose
from prompts import prompt
from transcripts.errors import EndpointError, LimitReached
from transcripts.parts import WordedRow
from transcripts.records import Reworded

ANSWER_S: Final = 180.0
_LINE: Final = re.compile(r"^\s*P(\d+): *(.*\S)\s*$")


async def reword(session: Session, model: Model, answer_s: float = ANSWER_S) -> Reworded:
    """Ask once and record what came of it. Raises StoreError alone: all else that goes wrong is in the record."""
    offered = [each for each in prose(document(session.case)) if each.text not in session.case.worded]
    session.record(await _asked(session, model, offered, answer_s))
    record = session.records[-1]
    assert isinstance(record, Reworded)
    return record


async def _asked(session: Session, model: Model, offered: Sequence[Paragraph], answer_s: float) -> Reworded:
    def none(why: str) -> Reworded:
        return Reworded(model=model.name, failed=why)

    if not offered:
        return none("every paragraph is worded already.")
    case = session.case
    limits = case.opened.limits
    lines = "\n".join(f"P{number}: {_marked(each)}" for number, each in enumerate(offered, 1))
    content = fenced(lines, session.records)
    messages = [{"role": "system", "content": prompt("writer")}, {"role": "user", "content": content}]
    try:
        Meter(limits, case.usage_of_question, tasks_cost=lambda: limits.price(case.total_usage()[1])).check()
        async with asyncio.timeout(answer_s):
            reply = await model.reply(Request(messages, [], case))
    except LimitReached as reached:
        return none(reached.message)
    except TimeoutError:
        return none(f"no answer within {answer_s:g} s.")
    except EndpointError as error:
        return none(error.message)
    usage = reply.usage.model_copy(update={"turns": 0})
    rows = tuple(_rows(reply.text, offered))
    failed = "" if rows else "the answer holds no paragraph of the write-up."
    return Reworded(model=reply.model or model.name, rows=rows, failed=failed, usage=usage)


def _marked(paragraph: Paragraph) -> str:
    marks = f" [{', '.join(paragraph.references)}]" if paragraph.references else ""
    return " ".join(paragraph.text.split()) + marks


def _rows(answer: str, offered: Sequence[Paragraph]) -> Iterator[WordedRow]:
    """What the answer says of each paragraph that was offered; what it leaves as it is is no row."""
    found: dict[int, list[str]] = {}
    for line in answer.splitlines():
        if named := _LINE.match(line):
            found.setdefault(int(named[1]), []).append(named[2])
    for number, texts in sorted(found.items()):
        if not 1 <= number <= len(offered):
            continue
        old = offered[number - 1]
        text = texts[0]
        if text in (old.text, _marked(old)):
            continue
        why = refusal(old.text, old.references, text) if len(texts) == 1 else f"it came {len(texts)} times"
        yield WordedRow(was=old.text, text=without_references(text).strip(), refused=why)
