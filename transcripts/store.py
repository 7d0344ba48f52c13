"""Transcripts on disk: append-only, checked line by line, one writer each.

A transcript is a folder `SGLSCOUT_HOME/transcripts/ses_…` with `transcript.jsonl`, `blobs/` (large texts by hash) and
`lock`. `append` returns when the line is on disk; a text too large for a line is on disk before the line that names
it. A folder has its name only once its first record is on disk. Records are plain dictionaries here, so that listing
costs no import of their types (`transcripts/records.py`); lines are told in `transcripts/lines.py`, and what a file
holds, damage included, in `transcripts/reading.py`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from transcripts.errors import DISK_FULL, UsageError
from transcripts.files import close, locked, sync_folder, write_file, write_whole
from transcripts.ids import is_id
from transcripts.lines import VERSION, line_of
from transcripts.paths import made_own
from transcripts.reading import BLOBS, FILE, StoreError, ends, read, regular

BLOB_OVER: Final = 8_192
Json = dict[str, Any]


class DiskFullError(StoreError):
    """There is no room for what was to be kept; everything acknowledged before is on disk."""


class UnknownIdError(UsageError):
    """No transcript has this id."""


@dataclass(slots=True)
class Transcript:
    """One open transcript. Made by `Store.create` and `Store.open`; use as a context manager."""

    folder: Path
    records: list[Json]
    _file: int
    _lock: int
    _end: int
    _next: int
    redact: Callable[[str], str] = field(default=lambda text: text)
    _broken: str = ""

    @property
    def id(self) -> str:
        return self.folder.name

    def __enter__(self) -> Transcript:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the transcript back; a second call does nothing."""
        if self._lock >= 0:
            with contextlib.suppress(OSError):
                os.ftruncate(self._lock, 0)
        close(self._file, self._lock)
        self._file = self._lock = -1

    def append(self, record: Json) -> Json:
        """Write one record and return it as stored. Raises StoreError; nothing of a refused record remains."""
        if self._broken or self._file < 0:
            raise StoreError(f"{self.id} takes no more records: {self._broken or 'it is closed'}.", "Resume it anew.")
        # Evidence was redacted where it was taken, before anything was read from it: not twice over a whole journal.
        body = record if record["type"] == "evidence" else _redacted(record, self.redact)
        kept = self._write({"v": VERSION, "seq": self._next, "at": _now(), **body})
        self.records.append(kept)
        return kept

    def _write(self, stored: Json) -> Json:
        text = stored.get("text")
        if isinstance(text, str) and len(text) > BLOB_OVER:
            stored = {**stored, "text": "", "blob": self._write_blob(text), "blob_chars": len(text)}
        line = line_of(stored)
        try:
            if os.fstat(self._file).st_size != self._end:
                self._broken = "somebody else wrote into it"
                raise StoreError(f"{self.id}: {self._broken}.", "Close the other program and resume.")
            write_whole(self._file, line)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._end)
            raise _unwritten(self.folder, error) from error
        try:
            os.fdatasync(self._file)
        except OSError as error:  # what a failed flush left on disk is unknown: never try again
            self._broken = f"the disk refused to flush ({error.strerror})"
            raise StoreError(f"{self.id}: {self._broken}.", "Check the disk, then resume.") from error
        self._end += len(line)
        self._next = stored["seq"] + 1
        return stored if "blob" not in stored else {**stored, "text": text}

    def put_beside(self, name: str, text: str) -> None:
        """A file beside the transcript that could be made again from it. Raises StoreError."""
        try:
            write_file(self.folder / name, text.encode("utf-8", "replace"))
        except OSError as error:
            raise _unwritten(self.folder, error) from error

    def _write_blob(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        name = hashlib.sha256(data).hexdigest()
        folder = self.folder / BLOBS
        if (folder / name).exists():
            return name
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            write_file(folder / name, data)
        except OSError as error:
            raise _unwritten(self.folder, error) from error
        return name


@dataclass(frozen=True, slots=True)
class Store:
    """All transcripts below one home folder."""

    home: Path

    @property
    def folder(self) -> Path:
        return self.home / "transcripts"

    def create(self, identity: str, opened: Json, redact: Callable[[str], str] | None = None) -> Transcript:
        """A new transcript whose first record is on disk. Raises StoreError when the folder cannot be written."""
        transcript = self._begin(identity)
        if redact is not None:
            transcript.redact = redact
        return self._named(transcript, identity, lambda: transcript.append(opened))

    def copy(self, identity: str, records: Iterable[Json]) -> None:
        """A new transcript of records that were stored before, numbered anew; whole or not there. Raises StoreError."""
        transcript = self._begin(identity)

        def write() -> None:
            for number, record in enumerate(records, 1):
                whole = {key: value for key, value in record.items() if key not in ("blob", "blob_chars")}
                transcript._write(whole | {"v": VERSION, "seq": number})

        self._named(transcript, identity, write).close()

    def _begin(self, identity: str) -> Transcript:
        """A transcript that has no record and no name yet."""
        making = self.folder / f".{identity}"  # what a process left here that died had not begun
        try:
            shutil.rmtree(making, ignore_errors=True)
            made_own(self.home, self.folder)
            making.mkdir(mode=0o700)
            lock = locked(making)
            number = os.open(making / FILE, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_EXCL, 0o600)
        except OSError as error:
            if error.errno in DISK_FULL:
                raise _unwritten(making, error) from error
            raise StoreError(
                f"{self.home} cannot be written: {error.strerror}.", "Set SGLSCOUT_HOME to a folder of your own."
            ) from error
        return Transcript(making, [], number, lock, 0, 1)

    def _named(self, transcript: Transcript, identity: str, write: Callable[[], object]) -> Transcript:
        """The same transcript under its name, once what belongs into it is on disk."""
        try:
            write()
            sync_folder(transcript.folder)
            transcript.folder = transcript.folder.rename(self.folder / identity)
            sync_folder(self.folder)
        except OSError as error:
            transcript.close()
            raise _unwritten(self.folder, error) from error
        except StoreError:
            transcript.close()
            raise
        return transcript

    def open(self, identity: str, redact: Callable[[str], str] | None = None) -> Transcript:
        """Open for writing: locked, a torn end cut off and kept aside. Raises StoreError of every kind."""
        folder = self.folder / self.resolve(identity)
        lock = number = -1
        try:
            lock = locked(folder)
            number = regular(folder / FILE, os.O_RDWR | os.O_APPEND)
            contents = read(folder)
            transcript = Transcript(folder, list(contents.records), number, lock, contents.good_end, contents.next_seq)
            if redact is not None:
                transcript.redact = redact
            if contents.torn:
                _cut(transcript, contents.torn)
        except OSError as error:
            close(number, lock)
            if error.errno in DISK_FULL:
                raise _unwritten(folder, error) from error
            raise StoreError(f"{folder} cannot be written: {error.strerror}.", "Check its owner and mode.") from error
        except StoreError:
            close(number, lock)
            raise
        return transcript

    def read(self, identity: str) -> list[Json]:
        """The records of a transcript and what is missing of it, without locking it. Raises as `open` does."""
        return list(read(self.folder / self.resolve(identity)).records)

    def peek(self, identity: str) -> list[Json]:
        """The same; empty where there is no such transcript, or nothing can be made of it."""
        if not self.holds(identity):
            return []
        try:
            return list(read(self.folder / identity).records)
        except StoreError:
            return []

    def holds(self, identity: str) -> bool:
        """Whether a transcript has this very id."""
        return is_id(identity) and (self.folder / identity).exists()

    def resolve(self, prefix: str) -> str:
        """The id that begins so. Raises UnknownIdError, with what there is, when none or several do."""
        if self.holds(prefix):
            return prefix
        matches = [name for name in self.ids() if len(prefix) > 4 and name.startswith((prefix, f"ses_{prefix}"))]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise UnknownIdError(f"{prefix} is the beginning of {len(matches)} ids.", "Give more letters.")
        raise UnknownIdError(
            f"no session or task has the id {prefix!r}.",
            "Give an id, or five letters of its beginning: see `sglscout sessions` and `sglscout tasks`.",
        )

    def ids(self) -> list[str]:
        """All ids, newest first."""
        try:
            with os.scandir(self.folder) as entries:
                names = [entry.name for entry in entries]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"{self.folder} cannot be read: {error.strerror}.", "Check SGLSCOUT_HOME.") from error
        return sorted((name for name in names if is_id(name)), reverse=True)

    def ends(self, identity: str) -> tuple[Json, list[Json]]:
        """First record, and last ones in order, of one transcript. Raises StoreError."""
        return ends(self.folder / identity)

    def heads(self) -> Iterator[tuple[Json, list[Json]]]:
        """`ends` of each transcript, newest first; one that cannot be read is passed over."""
        for name in self.ids():
            with contextlib.suppress(StoreError):
                yield self.ends(name)

    def forget(self, identity: str) -> list[str]:
        """Delete a session with its evidence and its tasks; the ids that are gone. Raises BusyError, StoreError."""
        name = self.resolve(identity)
        named = {record["id"] for record in self.peek(name) if record["type"] == "task"}
        children = {first["id"] for first, _ in self.heads() if first.get("parent") == name}
        gone = [name, *sorted((named | children) - {name})]
        for each in [each for each in gone if self.holds(each)]:
            self._delete(each)
        return gone

    def _delete(self, identity: str) -> None:
        folder = self.folder / identity
        lock = -1
        try:
            if folder.is_dir():
                lock = locked(folder)
                shutil.rmtree(folder)
            else:
                folder.unlink()
        except OSError as error:
            raise StoreError(f"{identity} cannot be deleted: {error.strerror}.", "Check its owner and mode.") from error
        finally:
            close(lock)


def _cut(transcript: Transcript, torn: bytes) -> None:
    """Cut a torn end, which is kept in a file beside, and say so once."""
    write_file(transcript.folder / f"torn-{transcript._end}", torn)
    os.ftruncate(transcript._file, transcript._end)
    transcript.append({"type": "repaired", "torn_bytes": len(torn)})


def _unwritten(folder: Path, error: OSError) -> StoreError:
    """What to tell of a write that failed: whether the disk is full, and what to do then."""
    name = folder.name.removeprefix(".")
    if error.errno in DISK_FULL:
        return DiskFullError(
            f"disk full: {folder.parent} takes no more of {name} ({error.strerror}); what was shown is kept.",
            f"Free some space, then `sglscout resume {name}`." if is_id(name) else "Free some space, then try again.",
        )
    return StoreError(f"{folder} cannot be written: {error.strerror}.", "Check its owner and mode.")


def _redacted(value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {
            key: _redacted_arguments(item, redact) if key == "arguments" else _redacted(item, redact)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_redacted(item, redact) for item in value]
    return value


def _redacted_arguments(text: Any, redact: Callable[[str], str]) -> Any:
    """Arguments of a call are JSON in a string: each text by itself, since a task's `prompt` is no user's prompt."""
    try:
        given = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return _redacted(text, redact)
    cleaned = _redacted(given, redact)
    return text if cleaned == given else json.dumps(cleaned)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
