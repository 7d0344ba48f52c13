"""Transcripts on disk: append-only, checked line by line, one writer each.

A transcript is a folder `SGLSCOUT_HOME/transcripts/ses_…` with `transcript.jsonl`, `blobs/` (large texts by hash) and
`lock`. A line is `{"v":1,"seq":N,"at":"…Z","type":"…",…,"sum":"crc32"}` in ASCII. `append` returns when the line is on
disk; a text too large for a line is on disk before the line that names it. Records are plain dictionaries here, so
that listing costs no import of their types (`transcripts/records.py`).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from transcripts.errors import UsageError
from transcripts.ids import is_id

VERSION: Final = 1
BLOB_OVER: Final = 8_192
Json = dict[str, Any]


class StoreError(UsageError):
    """The folder cannot be read or written as it must be."""


class BusyError(StoreError):
    """Another process writes this transcript."""


class UnknownIdError(UsageError):
    """No transcript has this id."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a file holds: good records, and what was wrong with the rest (offset and reason)."""

    records: tuple[Json, ...]
    bad: tuple[tuple[int, str], ...]
    good_end: int
    torn: bytes


@dataclass(slots=True)
class Transcript:
    """One open transcript. Made by `Store.create` and `Store.open`; use as a context manager."""

    folder: Path
    records: list[Json]
    _file: int
    _lock: int
    _end: int
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
        for number in (self._file, self._lock):
            if number >= 0:
                os.close(number)
        self._file = self._lock = -1

    def append(self, record: Json) -> Json:
        """Write one record and return it as stored. Raises StoreError; nothing of a refused record remains."""
        if self._broken or self._file < 0:
            raise StoreError(f"{self.id} takes no more records: {self._broken or 'it is closed'}.", "Resume it anew.")
        # Evidence was redacted where it was taken, before anything was read from it: not twice over a whole journal.
        body = record if record["type"] == "evidence" else _redacted(record, self.redact)
        text = body.get("text")
        if isinstance(text, str) and len(text) > BLOB_OVER:
            body = {**body, "text": "", "blob": self._write_blob(text), "blob_chars": len(text)}
        seq = self.records[-1]["seq"] + 1 if self.records else 1
        stored = {"v": VERSION, "seq": seq, "at": _now(), **body}
        line = _line(stored)
        try:
            if os.fstat(self._file).st_size != self._end:
                self._broken = "somebody else wrote into it"
                raise StoreError(f"{self.id}: {self._broken}.", "Close the other program and resume.")
            _write_whole(self._file, line)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._end)
            raise StoreError(
                f"{self.folder} cannot be written: {error.strerror}.", "Free some space, then resume."
            ) from error
        try:
            os.fdatasync(self._file)
        except OSError as error:  # what a failed flush left on disk is unknown: never try again
            self._broken = f"the disk refused to flush ({error.strerror})"
            raise StoreError(f"{self.id}: {self._broken}.", "Check the disk, then resume.") from error
        self._end += len(line)
        kept = stored if "blob" not in stored else {**stored, "text": text}
        self.records.append(kept)
        return kept

    def _write_blob(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        name = hashlib.sha256(data).hexdigest()
        folder = self.folder / "blobs"
        target = folder / name
        if target.exists():
            return name
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            partial = folder / f".{name}.{os.getpid()}"
            number = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                _write_whole(number, data)
                os.fsync(number)
            finally:
                os.close(number)
            partial.rename(target)
            _sync_folder(folder)
        except OSError as error:
            raise StoreError(
                f"{folder} cannot be written: {error.strerror}.", "Free some space, then resume."
            ) from error
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
        folder = self.folder / identity
        try:
            folder.mkdir(mode=0o700, parents=True)
            lock = _lock(folder)
            number = os.open(folder / "transcript.jsonl", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_EXCL, 0o600)
        except OSError as error:
            raise StoreError(
                f"{self.home} cannot be written: {error.strerror}.", "Set SGLSCOUT_HOME to a folder of your own."
            ) from error
        transcript = Transcript(folder, [], number, lock, 0)
        if redact is not None:
            transcript.redact = redact
        try:
            transcript.append(opened)
            _sync_folder(folder)
            _sync_folder(self.folder)
        except StoreError:
            transcript.close()
            raise
        return transcript

    def open(self, identity: str, redact: Callable[[str], str] | None = None) -> Transcript:
        """Open for writing: locked, a torn end cut off and kept aside, bad lines reported in a `repaired` record."""
        folder = self.folder / self.resolve(identity)
        try:
            lock = _lock(folder)
            number = os.open(folder / "transcript.jsonl", os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise StoreError(f"{folder} cannot be written: {error.strerror}.", "Check its owner and mode.") from error
        try:
            contents = read(folder)
        except StoreError:
            os.close(number)
            os.close(lock)
            raise
        transcript = Transcript(folder, list(contents.records), number, lock, contents.good_end)
        if redact is not None:
            transcript.redact = redact
        _repair(transcript, contents)
        return transcript

    def read(self, identity: str) -> list[Json]:
        """The good records of a transcript, without locking it."""
        return list(read(self.folder / self.resolve(identity)).records)

    def resolve(self, prefix: str) -> str:
        """The id that begins so. Raises UnknownIdError, with what there is, when none or several do."""
        matches = [name for name in self.ids() if name == prefix] or [
            name for name in self.ids() if is_id(prefix) and len(prefix) > 4 and name.startswith(prefix)
        ]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise UnknownIdError(f"{prefix} is the beginning of {len(matches)} ids.", "Give more letters.")
        raise UnknownIdError(
            f"no session or task has the id {prefix!r}.", "See `sglscout sessions` and `sglscout tasks`."
        )

    def ids(self) -> list[str]:
        """All ids, newest first."""
        try:
            names = [path.name for path in self.folder.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"{self.folder} cannot be read: {error.strerror}.", "Check SGLSCOUT_HOME.") from error
        return sorted((name for name in names if is_id(name)), reverse=True)

    def heads(self) -> Iterator[tuple[Json, Json]]:
        """First and last record of each transcript, newest first; one that cannot be read is passed over."""
        for name in self.ids():
            path = self.folder / name / "transcript.jsonl"
            with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
                yield _ends(path)

    def forget(self, identity: str) -> list[str]:
        """Delete a session with its evidence and its tasks; the ids that are gone."""
        import shutil

        name = self.resolve(identity)
        gone = [name, *(first["id"] for first, _ in self.heads() if first.get("parent") == name)]
        for each in gone:
            lock = _lock(self.folder / each)
            try:
                shutil.rmtree(self.folder / each)
            except OSError as error:
                raise StoreError(f"{each} cannot be deleted: {error.strerror}.", "Check its owner and mode.") from error
            finally:
                os.close(lock)
        return gone


def read(folder: Path) -> Contents:
    """Everything in a transcript that its checksums vouch for. Raises StoreError on a newer format."""
    try:
        data = (folder / "transcript.jsonl").read_bytes()
    except OSError as error:
        raise StoreError(f"{folder} cannot be read: {error.strerror}.", "Check its owner and mode.") from error
    records: list[Json] = []
    bad: list[tuple[int, str]] = []
    offset = 0
    while (end := data.find(b"\n", offset)) >= 0:
        record, problem = _parse(data[offset:end])
        if record is None:
            bad.append((offset, problem))
        elif record["v"] > VERSION:
            raise StoreError(
                f"{folder.name} was written by a newer sglscout (format {record['v']}).", "Update sglscout."
            )
        elif records and record["seq"] <= records[-1]["seq"]:
            bad.append((offset, f"record {record['seq']} stands again"))
        else:
            records.append(_with_blob(folder, record))
        offset = end + 1
    return Contents(tuple(records), tuple(bad), offset, data[offset:])


def _repair(transcript: Transcript, contents: Contents) -> None:
    """Cut a torn end (kept in a file beside), and say once which lines are bad."""
    reported = {tuple(pair) for record in contents.records if record["type"] == "repaired" for pair in record["bad"]}
    bad = [list(pair) for pair in contents.bad if pair not in reported]
    if contents.torn:
        aside = transcript.folder / f"torn-{contents.good_end}"
        aside.write_bytes(contents.torn)
        aside.chmod(0o600)
        os.ftruncate(transcript._file, contents.good_end)
    if bad or contents.torn:
        transcript.append({"type": "repaired", "bad": bad, "torn_bytes": len(contents.torn)})


def _with_blob(folder: Path, record: Json) -> Json:
    name = record.get("blob")
    if not name:
        return record
    try:
        data = (folder / "blobs" / name).read_bytes()
    except OSError:
        return {**record, "text": "(the stored text is gone)", "blob_lost": True}
    if hashlib.sha256(data).hexdigest() != name:
        return {**record, "text": "(the stored text is damaged)", "blob_lost": True}
    return {**record, "text": data.decode("utf-8", "surrogatepass")}


def _line(record: Json) -> bytes:
    body = json.dumps(record, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return f'{body[:-1]},"sum":"{zlib.crc32(body.encode()):08x}"}}\n'.encode()


def _parse(line: bytes) -> tuple[Json | None, str]:
    head, mark, tail = line.rpartition(b',"sum":"')
    if not mark or len(tail) != 10 or not tail.endswith(b'"}'):
        return None, "no checksum"
    body = head + b"}"
    if f"{zlib.crc32(body):08x}".encode() != tail[:8]:
        return None, "the checksum does not fit"
    try:
        record = json.loads(body)
    except (ValueError, RecursionError):
        return None, "not JSON"
    if not isinstance(record, dict) or not {"v", "seq", "at", "type"} <= record.keys():
        return None, "not a record"
    return record, ""


def _ends(path: Path) -> tuple[Json, Json]:
    """First and last good record, reading only the ends of the file."""
    with path.open("rb") as file:
        first, _ = _parse(file.readline().rstrip(b"\n"))
        file.seek(0, os.SEEK_END)
        size = file.tell()
        file.seek(max(0, size - 65_536))
        lines = file.read().splitlines()
    if first is None:
        raise ValueError(path.parent.name)
    for line in reversed(lines):
        last, _ = _parse(line)
        if last is not None:
            return first, last
    return first, first


def _lock(folder: Path) -> int:
    number = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(number, 32, 0).decode(errors="replace").strip()
        os.close(number)
        raise BusyError(
            f"{folder.name} is in use by process {holder or 'unknown'}.",
            "Wait for it, or end that process, then resume.",
        ) from error
    os.ftruncate(number, 0)
    os.pwrite(number, str(os.getpid()).encode(), 0)
    return number


def _redacted(value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: _redacted(item, redact) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(item, redact) for item in value]
    return value


def _write_whole(number: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(number, view) :]


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
