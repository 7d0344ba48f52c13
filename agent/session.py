"""One open transcript with its case: every record goes to disk, then into the case, then to those who watch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel

from agent.case import Case
from transcripts.reading import StoreError
from transcripts.records import Ended, Opened, Record, dump, load, records_of
from transcripts.store import Store, Transcript

DAMAGE_TOLD: Final = 4
Watcher = Callable[[Record], None]


@dataclass(slots=True)
class Session:
    """A session or a task being worked on. Close it, or use it as a context manager."""

    transcript: Transcript
    records: list[Record]
    case: Case
    watchers: list[Watcher] = field(default_factory=list)
    learn: Callable[[str], None] | None = None

    @classmethod
    def create(cls, store: Store, opened: Opened, redact: Callable[[str], str] | None = None) -> Session:
        transcript = store.create(opened.id, dump(opened), redact)
        records = records_of(transcript.records)
        return cls(transcript, records, Case.fold(records))

    @classmethod
    def open(cls, store: Store, identity: str, redact: Callable[[str], str] | None = None) -> Session:
        """Open for continuing; what is dangling stays so until `answer_dangling`. Raises StoreError, UnknownIdError."""
        transcript = store.open(identity, redact)
        try:
            records = records_of(transcript.records)
            return cls(transcript, records, Case.fold(records))
        except StoreError:
            transcript.close()
            raise

    @property
    def id(self) -> str:
        return self.transcript.id

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.transcript.close()

    def record(self, record: BaseModel) -> None:
        """On disk first, then folded and shown. Raises StoreError, and then nothing of it is shown."""
        if not isinstance(record, Record):
            raise TypeError(f"{type(record).__name__} is not a record")
        stored = load(self.transcript.append(dump(record)))
        if stored is None:
            raise TypeError(f"{record.type} does not read back as it was written")
        self.records.append(stored)
        self.case.apply(stored)
        for watch in self.watchers:
            watch(stored)

    def answer_dangling(self, answer: Callable[[str, str], str]) -> None:
        """Answer every call that has no answer, by `answer(call id, tool name)`; a second time does nothing."""
        for call, name in list(self.case.unanswered.items()):
            self.record(Ended(call=call, status="interrupted", text=answer(call, name)))


def damage_told(identity: str, damage: list[str]) -> str:
    """One line: what is missing of a transcript."""
    left = len(damage) - DAMAGE_TOLD
    shown = [*damage[:DAMAGE_TOLD], f"{left} more places"] if left > 0 else damage
    return f"{identity} is damaged: {'; '.join(shown)}. What rests on it is missing from what follows."
