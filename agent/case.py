"""The case: what a transcript folds to. Nothing is kept that could not be folded again from the records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from agent.views.words import typed
from transcripts.facts import Evidence, Fact, Facts
from transcripts.parts import Citation, ClaimRow, Finding, Usage
from transcripts.reading import UnreadableError
from transcripts.records import (
    Advised,
    Claimed,
    Compared,
    Concluded,
    Damaged,
    Delivered,
    Ended,
    EvidenceTaken,
    FactsRead,
    Forked,
    Located,
    Note,
    Opened,
    Record,
    Replied,
    Reported,
    Resumed,
    Reworded,
    Said,
    Started,
    TaskChanged,
    Verified,
    Weighed,
)

_WEIGHED: Final = {"cause": "cause", "healthy": "nothing wrong found", "abstain": "undecided"}
COMPLAINT: Final = "complaint"  # the probe whose evidence is what the operator said


@dataclass(slots=True)
class TaskState:
    """One task as its parent's records tell it."""

    id: str
    call: str
    description: str
    status: str
    asked: str = ""
    turns: int = 0
    citations: int = 0
    citations_checked: int = 0
    usage: Usage = field(default_factory=Usage)
    undelivered: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the timeline: when it was recorded, what happened, and what it refers to."""

    at: str
    text: str
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """One answer of the session and what it answers; `whole` when the case was weighed for it, not only asked about."""

    id: str
    at: str
    question: str
    text: str
    whole: bool


@dataclass(slots=True)
class Case:
    """Evidence, facts, hypotheses, tasks, findings and advice of one session, or of one task.

    `diagnosed`: the complaint was answered; `asked`: the question being worked on, or the last one; `follow_up`: a
    later question that has no answer yet; `damage`: what is missing of the transcript; `worded`: paragraphs of the
    write-up, as they were, and how a model words them.
    """

    opened: Opened
    said: list[Said] = field(default_factory=list)
    evidence: dict[str, Evidence] = field(default_factory=dict)
    located: Located | None = None
    weighed: Weighed | None = None
    claims: tuple[ClaimRow, ...] = ()
    tasks: dict[str, TaskState] = field(default_factory=dict)
    reports: dict[str, Reported] = field(default_factory=dict)
    citations: dict[str, Citation] = field(default_factory=dict)
    compared: Compared | None = None
    advised: Advised | None = None
    concluded: Concluded | None = None
    decisions: list[Decision] = field(default_factory=list)
    verified: Verified | None = None
    worded: dict[str, str] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    usage_of_question: Usage = field(default_factory=Usage)
    dangling: dict[str, Started] = field(default_factory=dict)
    unanswered: dict[str, str] = field(default_factory=dict)
    tried: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    diagnosed: bool = False
    asked: str = ""
    follow_up: str = ""
    events: list[Event] = field(default_factory=list)
    last_seq: int = 0
    fresh: dict[str, int] = field(default_factory=dict)
    facts_weighed: int = 0
    evidence_weighed: int = 0
    _decided: int = 0
    _facts: list[Fact] = field(default_factory=list)
    _folded: Facts | None = None

    @classmethod
    def fold(cls, records: Iterable[Record]) -> Case:
        """The case of a transcript's records, the first of which opens it. Raises UnreadableError where it does not."""
        stream = iter(records)
        opened = next(stream)
        if not isinstance(opened, Opened):
            what = opened.text if isinstance(opened, Damaged) else f"it begins with {opened.type!r}"
            raise UnreadableError(f"nothing can be made of these records: {what}.", "Update sglscout.")
        case = cls(opened, asked=opened.text)
        if opened.target.get("version"):
            case._add_facts((Fact("version", str(opened.target["version"]), "", "claimed", "operator"),))
        case.events.append(Event(opened.at, f"complaint: {opened.text}"))
        for record in stream:
            case.apply(record)
        return case

    @property
    def facts(self) -> Facts:
        if self._folded is None:
            self._folded = Facts(self._facts)
        return self._folded

    @property
    def seen(self) -> tuple[dict[str, Evidence], Facts]:
        """What the verdict was weighed by; all there is before one. Later looks tell of other days."""
        if self.weighed is None:
            return self.evidence, self.facts
        return dict(islice(self.evidence.items(), self.evidence_weighed)), Facts(self._facts[: self.facts_weighed])

    @property
    def seen_since(self) -> tuple[dict[str, Evidence], Facts]:
        """What was looked at after the verdict, to verify a change or for a later question."""
        if self.weighed is None:
            return {}, Facts()
        return dict(islice(self.evidence.items(), self.evidence_weighed, None)), Facts(
            self._facts[self.facts_weighed :]
        )

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(finding for report in self.reports.values() for finding in report.findings)

    @property
    def complaint(self) -> str:
        return self.opened.text

    @property
    def question(self) -> str:
        """What is being answered, or was answered last: the complaint or a follow-up."""
        return self.asked

    @property
    def stopped(self) -> str:
        """The question that has no answer yet: a follow-up, else the complaint; empty when all are answered."""
        return self.follow_up or ("" if self.diagnosed else self.opened.text)

    def next_evidence(self) -> str:
        """The id after the highest: of a damaged transcript some are missing, and none may be given twice."""
        return f"E{max((int(name[1:]) for name in self.evidence if name[1:].isdigit()), default=0) + 1}"

    def probes_answered(self) -> frozenset[str]:
        """Probes that need not be asked again: those that ran, whatever they said."""
        return frozenset(item.probe for item in self.evidence.values())

    def total_usage(self) -> tuple[Usage, Usage]:
        """Own usage, and that of all tasks."""
        tasks = Usage()
        for task in self.tasks.values():
            tasks += task.usage
        return self.usage, tasks

    def apply(self, record: Record) -> None:
        """Fold one more record in."""
        self.last_seq = record.seq or self.last_seq
        self.fresh[record.type] = self.last_seq
        self._note_event(record)
        match record:
            case Said() | Resumed():
                self._ask(record)
            case Replied():
                self.usage += record.usage
                self.usage_of_question += record.usage
                self.unanswered.update({call.id: call.name for call in record.calls})
            case Started():
                self.dangling[record.call] = record
            case Ended():
                self.dangling.pop(record.call, None)
                name = self.unanswered.pop(record.call, "")
                if record.status != "interrupted":
                    self.tried[name] = self.last_seq
            case EvidenceTaken():
                self.evidence[record.id] = record.evidence()
                self._add_facts(record.facts())
            case FactsRead():
                self._add_facts(record.facts())
            case TaskChanged():
                self._apply_task(record)
            case Delivered():
                if record.task in self.tasks:
                    self.tasks[record.task].undelivered = False
            case Reported():
                self._apply_report(record)
            case _:
                self._apply_outcome(record)

    def _add_facts(self, facts: tuple[Fact, ...]) -> None:
        self._facts.extend(facts)
        self._folded = None

    def _apply_outcome(self, record: Record) -> None:
        match record:
            case Located():
                self.located = record
            case Weighed():
                self.weighed = record
                self.facts_weighed, self.evidence_weighed = len(self._facts), len(self.evidence)
            case Claimed():
                self.claims = record.claims
            case Compared():
                self.compared = record
            case Advised():
                self.advised = record
            case Note():
                self.notes.append(record.text)
            case Verified():
                self.verified = record
            case Reworded():
                self.worded |= {row.was: row.text for row in record.rows if not row.refused}
                self.usage += record.usage
                self.usage_of_question += record.usage
            case Damaged():
                self.damage.append(record.text)
            case Concluded():
                self._conclude(record)
            case _:
                pass

    def _ask(self, record: Said | Resumed) -> None:
        """A question is worked on from here on, with all that one question may spend."""
        self.asked = record.text
        self.usage_of_question = Usage()
        if isinstance(record, Said):
            self.said.append(record)
            self.follow_up = record.text

    def _conclude(self, record: Concluded) -> None:
        """A question is answered, or stopped; a stop without words leaves the answer of before where it is."""
        if record.decides or self.concluded is None:
            self.concluded = record
        if record.decides:
            self._decide(record)
        self.diagnosed = self.diagnosed or (record.answered and record.state == "concluded")
        if record.answered:
            self.follow_up = ""

    def _decide(self, record: Concluded) -> None:
        """The first answer to the complaint is a whole one; later ones when the case was weighed anew for them."""
        weighed = not self.diagnosed or self.fresh.get("weighed", 0) > self._decided
        name = f"D{len(self.decisions) + 1}"
        whole = record.state == "concluded" and weighed
        self.decisions.append(Decision(name, record.at, self.question, record.text, whole))
        self._decided = self.last_seq

    def _note_event(self, record: Record) -> None:
        match record:
            case Said():
                self.events.append(Event(record.at, f"operator: {record.text}"))
            case Forked():
                self.events.append(Event(record.at, f"copied from {record.session} up to its record {record.upto}"))
            case Damaged():
                self.events.append(Event(record.at, record.text))
            case EvidenceTaken():
                self._note_look(record)
            case Weighed():
                leading = record.hypotheses[0].supporting if record.label and record.hypotheses else ()
                text = f"weighed: {_WEIGHED[record.kind]} {record.label}".rstrip()
                self.events.append(
                    Event(record.at, text, _leading(source for reason in leading for source in reason.source))
                )
            case TaskChanged() if record.status != "running":
                known = self.tasks.get(record.id)
                about = record.description or (known.description if known else "")
                self._note_task(record.at, f"research {record.status}: ", about or record.id)
            case Advised():
                cited = _leading(source for change in record.changes for source in change["evidence"])
                self.events.append(Event(record.at, f"recommended: {typed(record.changes) or 'no change'}", cited))
            case Verified():
                met = sum(row["outcome"] == "met" for row in record.rows)
                unseen = sum(row["outcome"] == "not yet visible" for row in record.rows)
                left = f", {unseen} not yet visible" if unseen else ""
                self.events.append(Event(record.at, f"verified: {met} of {len(record.rows)} expectations met{left}"))
            case Concluded():
                told = "answered" if record.decides else "stopped"
                self.events.append(Event(record.at, f"{told} (exit {record.exit}) {record.reason}".rstrip()))
            case _:
                pass

    def _note_task(self, at: str, head: str, about: str) -> None:
        """Tasks that come to the same status one after the other are one event."""
        last = self.events[-1]
        if last.text.startswith(head):
            self.events[-1] = Event(last.at, f"{last.text}; {about}")
        else:
            self.events.append(Event(at, f"{head}{about}"))

    def _note_look(self, record: EvidenceTaken) -> None:
        """Looks that follow each other are one event: when the first came, how many, which brought nothing.

        What the operator said is kept as evidence too, and is no look: the event of its saying refers to it.
        """
        if record.probe == COMPLAINT:
            said = (f"complaint: {record.text}", f"operator: {record.text}")
            for at, event in enumerate(self.events):
                if event.text in said and not event.references:
                    self.events[at] = replace(event, references=(record.id,))
            return
        last = self.events[-1]
        together = last.text.startswith("looked at ")
        seen = (*(last.references if together else ()), record.id)
        nothing = [item.probe for name in seen if (item := self.evidence.get(name)) is not None and item.problem]
        nothing += [record.probe] if record.problem else []
        counted = f"{len(seen)} answers" if len(seen) > 1 else "1 answer"
        text = f"looked at {record.host}: {counted}" + (f", nothing from {', '.join(nothing)}" if nothing else "")
        event = Event(last.at if together else record.at, text, seen)
        self.events[-1 if together else len(self.events) :] = [event]

    def _apply_task(self, record: TaskChanged) -> None:
        known = self.tasks.get(record.id)
        if known is None:
            known = self.tasks[record.id] = TaskState(
                record.id, record.call, record.description, record.status, record.asked
            )
        known.status = record.status
        known.reason = record.reason
        known.undelivered = record.background or known.undelivered
        known.call = record.call or known.call
        known.turns = max(known.turns, record.turns)
        known.citations = record.citations or known.citations
        known.citations_checked = record.citations_checked or known.citations_checked
        if record.usage.turns >= known.usage.turns:
            known.usage = record.usage

    def _apply_report(self, record: Reported) -> None:
        self.reports[record.task] = record
        for finding in record.findings:
            for citation in finding.citations:
                if citation.id:
                    self.citations[citation.id] = citation


def _leading(sources: Iterable[str]) -> tuple[str, ...]:
    """As many different sources as an event names."""
    return tuple(dict.fromkeys(source for source in sources if source))[:3]
