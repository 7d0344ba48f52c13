"""What a transcript's file holds: the records its checksums vouch for, and in their places what is missing.

A place where something is missing is itself a record, made here and never stored:
`{"type":"damaged","seq":17,"text":"record 17 is damaged and was set aside: the checksum does not fit",…}`. So whoever
folds or shows the records learns of it without asking.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from transcripts.errors import UsageError
from transcripts.lines import VERSION, record_of

FILE: Final = "transcript.jsonl"
BLOBS: Final = "blobs"
DAMAGED: Final = "damaged"
TAIL_BYTES: Final = 65_536
Json = dict[str, Any]


class StoreError(UsageError):
    """The folder cannot be read or written as it must be."""


class UnreadableError(StoreError):
    """A transcript of which nothing can be made: no first record, a newer format, not a file."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a file holds. `torn` is what stands behind the last whole line, `next_seq` the number of the next record."""

    records: tuple[Json, ...]
    next_seq: int
    good_end: int
    torn: bytes


@dataclass(slots=True)
class _Reading:
    """The records so far, and the lines set aside since the last good one."""

    folder: Path
    records: list[Json] = field(default_factory=list)
    due: int = 1
    aside: list[str] = field(default_factory=list)

    def line(self, line: bytes) -> None:
        record, problem = record_of(line)
        if record is None:
            self.aside.append(problem)
            return
        if record["v"] > VERSION:
            raise UnreadableError(
                f"{self.folder.name} was written by a newer sglscout (format {record['v']}).", "Update sglscout."
            )
        if record["seq"] < self.due:
            self._missing(record["seq"], f"record {record['seq']} stands out of its place and was set aside")
            return
        if self.aside or record["seq"] > self.due:
            self._damage(record["seq"] - self.due)
        whole, lost = _with_blob(self.folder, record)
        self.records.append(whole)
        self.due = record["seq"] + 1
        if lost:
            self._missing(record["seq"], f"the text of record {record['seq']} is {lost}")

    def end(self) -> None:
        if self.aside:
            self._damage(len(self.aside))

    def _damage(self, missing: int) -> None:
        """So many records are not there, and the lines aside stand in their place."""
        first, lines = self.due, len(self.aside)
        reasons = ", ".join(dict.fromkeys(self.aside))
        if not missing:
            text = f"{_counted(lines, 'line')} before record {first} {_is(lines)} no record and {_was(lines)} set aside"
        elif not lines:
            text = f"{_named(first, missing)} {_is(missing)} missing"
        elif lines >= missing:
            text = f"{_named(first, missing)} {_is(missing)} damaged and {_was(missing)} set aside"
        else:
            text = f"{_named(first, missing)} are damaged or missing; {_counted(lines, 'line')} {_was(lines)} set aside"
        self._missing(first, f"{text}: {reasons}" if reasons else text)
        self.due += missing
        self.aside.clear()

    def _missing(self, seq: int, text: str) -> None:
        at = self.records[-1]["at"] if self.records else ""
        self.records.append({"v": VERSION, "seq": seq, "at": at, "type": DAMAGED, "text": text})


def read(folder: Path) -> Contents:
    """Everything in a transcript that its checksums vouch for, and what is missing.

    Raises UnreadableError where nothing can be made of it, StoreError where the file cannot be read.
    """
    data = _bytes(folder)
    reading = _Reading(folder)
    offset = 0
    while (end := data.find(b"\n", offset)) >= 0:
        reading.line(data[offset:end])
        offset = end + 1
    reading.end()
    first = reading.records[0] if reading.records else {"type": DAMAGED, "text": "it is empty"}
    if not _opens(first):
        what = first["text"] if first["type"] == DAMAGED else f"it begins with {first['type']!r}"
        raise UnreadableError(f"{folder.name} cannot be opened: {what}.", _put_back(folder))
    return Contents(tuple(reading.records), reading.due, offset, data[offset:])


def ends(folder: Path) -> tuple[Json, list[Json]]:
    """The first record, and the last ones in order, reading only the ends of the file. Raises as `read` does."""
    try:
        number = regular(folder / FILE, os.O_RDONLY)
        with os.fdopen(number, "rb") as file:
            first, _ = record_of(file.readline().rstrip(b"\n"))
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            lines = file.read().splitlines()
    except OSError as error:
        raise StoreError(f"{folder} cannot be read: {error.strerror}.", "Check its owner and mode.") from error
    if first is None or not _opens(first) or first["seq"] != 1:
        raise UnreadableError(f"{folder.name} cannot be opened: its first record is damaged.", _put_back(folder))
    last = [record for line in lines for record, _ in [record_of(line)] if record is not None]
    return _with_blob(folder, first)[0], last or [first]


def _opens(record: Json) -> bool:
    """Whether a transcript can begin with it."""
    return record["type"] == "opened" and "role" in record


def regular(path: Path, flags: int) -> int:
    """Open a file and nothing else: a pipe would wait for ever, a folder holds no records. Raises OSError."""
    number = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(None, "it is not a file")
    return number


def _bytes(folder: Path) -> bytes:
    try:
        with os.fdopen(regular(folder / FILE, os.O_RDONLY), "rb") as file:
            return file.read()
    except OSError as error:
        raise StoreError(f"{folder} cannot be read: {error.strerror}.", "Check its owner and mode.") from error


def _with_blob(folder: Path, record: Json) -> tuple[Json, str]:
    """The record with its text in place, and what became of the text if it is lost."""
    name = record.get("blob")
    if not name:
        return record, ""
    try:
        with os.fdopen(regular(folder / BLOBS / Path(str(name)).name, os.O_RDONLY), "rb") as file:
            data = file.read()
    except OSError as error:
        lost = "gone" if isinstance(error, FileNotFoundError) else f"not readable ({error.strerror})"
        return {**record, "text": f"(the stored text is {lost})"}, f"{lost} (file {name})"
    damaged = {**record, "text": "(the stored text is damaged)"}, f"damaged and was set aside (file {name})"
    if hashlib.sha256(data).hexdigest() != name:
        return damaged
    try:
        return {**record, "text": data.decode("utf-8", "surrogatepass")}, ""
    except UnicodeDecodeError:  # no text of ours, whatever its checksum
        return damaged


def _put_back(folder: Path) -> str:
    return f"Put {folder / FILE} back from a copy, or `sglscout forget {folder.name}`."


def _named(first: int, count: int) -> str:
    return f"record {first}" if count == 1 else f"records {first} to {first + count - 1}"


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}" + ("" if count == 1 else "s")


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _was(count: int) -> str:
    return "was" if count == 1 else "were"
