"""The records of a transcript, each a small pydantic model told apart by `type`.

    opened      what a session or task is: role, complaint or prompt, model, tools, limits, source
    said        words of the operator
    replied     one answer of the model: text and tool calls
    started     a tool call is about to run (the intent)          ended      how it went, with its text
    evidence    what one command or text said, and its facts      facts      values from elsewhere
    located     the source tree that was pinned                   weighed    hypotheses and verdict
    claimed     what the operator believes, judged                task       a task's state changed
    reported    a task's findings, citations checked              compared   options side by side
    advised     the change that passed the checks                 concluded  the answer, and why it ended
    verified    another look after the change, row by row
    reworded    paragraphs of the write-up as a model words them, what was not taken of it with the reason
    shortened   the conversation was cut down to the case         delivered  a background task's result
    resumed     a question that was stopped is taken up again     note       a line worth keeping
    forked      the session that this one was copied from         repaired   a torn end was cut off the file
    damaged     in the place of records that are lost or bad: made when a file is read, never stored

Unknown types are kept by the store and skipped here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

from pydantic import ConfigDict, Field, ValidationError

from transcripts.facts import Evidence, Fact, Grade
from transcripts.parts import Call, ClaimRow, Finding, HypothesisRow, Limits, Part, Usage, WordedRow

Json = dict[str, Any]


class Record(Part):
    """Base of all records; `seq` and `at` are given by the store."""

    model_config = ConfigDict(extra="ignore")

    type: str
    seq: int = 0
    at: str = ""


class Opened(Record):
    type: Literal["opened"] = "opened"
    id: str
    role: Literal["session", "task"]
    parent: str = ""
    text: str
    description: str = ""
    target: Json = Field(default_factory=dict)
    model: str = ""
    tools: tuple[str, ...] = ()
    limits: Limits = Limits()
    source: Json = Field(default_factory=dict)
    program: str = ""


class Said(Record):
    type: Literal["said"] = "said"
    text: str


class Replied(Record):
    type: Literal["replied"] = "replied"
    text: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage = Usage(turns=1)
    model: str = ""
    finish: str = ""


class Started(Record):
    type: Literal["started"] = "started"
    call: str
    name: str
    arguments: str


class Ended(Record):
    type: Literal["ended"] = "ended"
    call: str
    status: Literal["ok", "refused", "failed", "interrupted"]
    text: str


FactRow = tuple[str, bool | int | float | str, str, Grade, str, str, str]


def rows_of(facts: Iterable[Fact]) -> tuple[FactRow, ...]:
    """Facts as rows `[name, value, unit, grade, source, scope, at]`: a journal's worth of them stays small."""
    return tuple((f.name, f.value, f.unit, f.grade, f.source, f.scope, f.at) for f in facts)


class EvidenceTaken(Record):
    """One look, and the facts read from it: in one record, so that neither is ever there without the other."""

    type: Literal["evidence"] = "evidence"
    id: str
    probe: str
    command: str
    host: str
    taken: str
    exit: int | None
    text: str
    truncated: bool = False
    seconds: float = 0.0
    problem: str = ""
    rows: tuple[FactRow, ...] = ()

    @classmethod
    def of(cls, evidence: Evidence, facts: Iterable[Fact] = ()) -> EvidenceTaken:
        return cls(
            id=evidence.id,
            probe=evidence.probe,
            command=evidence.command,
            host=evidence.host,
            taken=evidence.at,
            exit=evidence.exit,
            text=evidence.text,
            truncated=evidence.truncated,
            seconds=evidence.seconds,
            problem=evidence.problem,
            rows=rows_of(facts),
        )

    def facts(self) -> tuple[Fact, ...]:
        return tuple(Fact(*row) for row in self.rows)

    def evidence(self) -> Evidence:
        return Evidence(
            self.id,
            self.probe,
            self.command,
            self.host,
            self.taken,
            self.exit,
            self.text,
            self.truncated,
            self.seconds,
            self.problem,
        )


class FactsRead(Record):
    """Facts from elsewhere: what the operator said, what was summed."""

    type: Literal["facts"] = "facts"
    rows: tuple[FactRow, ...]

    @classmethod
    def of(cls, facts: Iterable[Fact]) -> FactsRead:
        return cls(rows=rows_of(facts))

    def facts(self) -> tuple[Fact, ...]:
        return tuple(Fact(*row) for row in self.rows)


class Located(Record):
    type: Literal["located"] = "located"
    version: str
    origin: str
    digest: str
    root: str
    differs: tuple[str, ...] = ()
    note: str = ""


class Weighed(Record):
    type: Literal["weighed"] = "weighed"
    kind: Literal["cause", "healthy", "abstain"]
    label: str = ""
    certainty: float = 0.0
    missing: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    why: str = ""
    hypotheses: tuple[HypothesisRow, ...] = ()


class Claimed(Record):
    type: Literal["claimed"] = "claimed"
    claims: tuple[ClaimRow, ...]


class TaskChanged(Record):
    """In the parent's transcript: a task was opened, and what it was `asked`; or it reached a status."""

    type: Literal["task"] = "task"
    id: str
    call: str = ""
    description: str = ""
    asked: str = ""
    status: Literal["opened", "running", "completed", "failed", "cancelled", "limit", "interrupted"]
    turns: int = 0
    citations: int = 0
    citations_checked: int = 0
    usage: Usage = Usage()
    background: bool = False
    reason: str = ""


class Delivered(Record):
    """The result of a background task, as the model is told it before its next turn."""

    type: Literal["delivered"] = "delivered"
    task: str
    text: str


class Reported(Record):
    """A task's report; in the task's transcript, and again in its parent's with citation ids.

    `looks`: what only the host can show, which the task asks its parent to look at.
    """

    type: Literal["reported"] = "reported"
    task: str
    findings: tuple[Finding, ...] = ()
    unanswered: tuple[str, ...] = ()
    looks: tuple[str, ...] = ()
    verified: bool = False
    text: str = ""


class Compared(Record):
    type: Literal["compared"] = "compared"
    options: tuple[Json, ...]
    arithmetic: tuple[Json, ...] = ()
    memory: tuple[Json, ...] = ()


class Advised(Record):
    type: Literal["advised"] = "advised"
    changes: tuple[Json, ...] = ()
    refused: tuple[Json, ...] = ()
    arithmetic: tuple[Json, ...] = ()
    launch: Json = Field(default_factory=dict)
    expected: tuple[Json, ...] = ()
    verify: tuple[Json, ...] = ()
    rollback: Json = Field(default_factory=dict)
    alternatives: tuple[Json, ...] = ()
    must_not: tuple[Json, ...] = ()
    stages: tuple[Json, ...] = ()
    walls: tuple[Json, ...] = ()


class Verified(Record):
    """Another look after a change: each expectation with what came of it, the figures before and after, and why."""

    type: Literal["verified"] = "verified"
    rows: tuple[Json, ...]


class Reworded(Record):
    """One step of a model over the prose of the write-up; `failed`: why there is no wording, such as a silent model."""

    type: Literal["reworded"] = "reworded"
    model: str
    rows: tuple[WordedRow, ...] = ()
    failed: str = ""
    usage: Usage = Usage()


ANSWERED: Final = frozenset({0, 3})


class Concluded(Record):
    """How a question ended. `state` is that of the diagnosis: a follow-up may be answered while it stays stopped.

    `case_exit`: how the case stands whatever became of this question, 0 decided or 3 not; None where nobody says.
    """

    type: Literal["concluded"] = "concluded"
    text: str
    exit: int
    case_exit: int | None = None
    reason: str = ""
    state: Literal["concluded", "stopped"] = "concluded"

    @property
    def answered(self) -> bool:
        """Whether the question was answered, be it with an honest “not decided”; else it was stopped."""
        return self.exit in ANSWERED

    @property
    def decides(self) -> bool:
        """Whether something was said: an answer, or at a limit the sum of what was found."""
        return self.answered or bool(self.text)


class Resumed(Record):
    """A question that was stopped, put to the model again."""

    type: Literal["resumed"] = "resumed"
    text: str


class Forked(Record):
    """From here on the session goes its own way; `seq` before this is that of the session it was copied from."""

    type: Literal["forked"] = "forked"
    session: str
    upto: int


class Shortened(Record):
    """From here on the conversation begins with this text instead of the records before it."""

    type: Literal["shortened"] = "shortened"
    text: str


class Repaired(Record):
    type: Literal["repaired"] = "repaired"
    torn_bytes: int = 0


class Damaged(Record):
    """What is missing in this place, as the reader of the file found it."""

    type: Literal["damaged"] = "damaged"
    text: str


class Retried(Record):
    """The model's endpoint did not answer as it should, or another model answers there now."""

    type: Literal["retried"] = "retried"
    text: str


class Note(Record):
    type: Literal["note"] = "note"
    text: str


_KINDS: Final = {str(each.model_fields["type"].default): each for each in Record.__subclasses__()}


def records_of(stored: Iterable[Json]) -> list[Record]:
    """Stored dictionaries as records; of a known type in a shape that this version cannot read, `damaged`."""
    return [record for each in stored if (record := _record_of(each)) is not None]


def _record_of(stored: Json) -> Record | None:
    record = load(stored)
    if record is None and stored["type"] in _KINDS:
        text = f"record {stored['seq']} ({stored['type']}) has a shape this version cannot read and was set aside"
        return Damaged(seq=stored["seq"], at=stored["at"], text=text)
    return record


def load(stored: Json) -> Record | None:
    """A stored dictionary as its record; None when this version knows no such type or shape."""
    kind = _KINDS.get(str(stored.get("type")))
    try:
        return kind.model_validate(stored) if kind else None
    except ValidationError:
        return None


def dump(record: Record) -> Json:
    """A record as the store takes it: JSON values, without what the store gives."""
    return record.model_dump(mode="json", by_alias=True, exclude={"seq", "at"})
