"""The decisions of a session: each answer it came to, with the question before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from transcripts.records import Concluded, EvidenceTaken, Record, Reported, TaskChanged
from transcripts.store import UnknownIdError


def up_to(records: Sequence[Record], identity: str) -> list[Record]:
    """The records up to one decision: `D2`, or the first after what is named: evidence, a citation or a task.

    Raises UnknownIdError where the session has no such decision.
    """
    ends = [number for number, record in enumerate(records) if isinstance(record, Concluded) and record.decides]
    known = {f"D{number}": end for number, end in enumerate(ends, 1)}
    end = known.get(identity.upper())
    if end is None:
        named = next((number for number, record in enumerate(records) if identity in _ids(record)), None)
        end = None if named is None else next((each for each in ends if each > named), None)
    if end is None:
        there = f"It has {', '.join(known)}." if known else "It has come to no answer yet."
        raise UnknownIdError(f"the session has no decision {identity}.", there)
    return list(records[: end + 1])


def number_of(records: Sequence[Record], identity: str) -> int:
    """The number of the record that is named: by its number, as a decision, or by the id it gave first.

    Raises UnknownIdError where the session has none of that name.
    """
    if identity.upper().startswith("D"):
        return up_to(records, identity)[-1].seq
    for record in records:
        if identity in (str(record.seq), *_ids(record)):
            return record.seq
    raise UnknownIdError(
        f"the session has no record {identity}.", f"Give a number up to {records[-1].seq}, or an id: D1, E5, S2, ses_…."
    )


def _ids(record: Record) -> Iterable[str]:
    match record:
        case EvidenceTaken():
            return (record.id,)
        case TaskChanged():
            return (record.id,)
        case Reported():
            return tuple(citation.id for finding in record.findings for citation in finding.citations)
        case _:
            return (str(record.seq),)
