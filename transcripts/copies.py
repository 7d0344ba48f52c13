"""Copies of sessions: one that goes its own way, and one in a single file for somebody else.

A file is a gzipped tar of `ses_…/transcript.jsonl` and `ses_…/blobs/…`, of the session and of its tasks. It is read in
a store of its own and never becomes one of the operator's sessions: what it says of hosts was written elsewhere.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from transcripts.errors import UsageError
from transcripts.files import write_file
from transcripts.ids import new_id
from transcripts.reading import BLOBS, DAMAGED, FILE
from transcripts.store import Store

LIMIT_BYTES: Final = 512 << 20
_MEMBER: Final = re.compile(rf"(ses_[0-9A-Z]+)/({re.escape(FILE)}|{BLOBS}/[0-9a-f]{{64}})")
_ASK: Final = "Ask for a file of `sglscout export`."
Json = dict[str, Any]
Clean = Callable[[Json], Json]


def fork(store: Store, identity: str, upto: int | None = None) -> str:
    """A new session with the records of this one, up to one of them, and its tasks as they were then; the new id.

    Every copy has an id of its own, which stands wherever the old one stood. Raises UsageError for a task.
    """
    records = store.read(identity)
    if records[0]["role"] != "session":
        raise UsageError(f"{identity} is a task; a fork is made of a session.", f"Fork {records[0]['parent']}.")
    kept = [record for record in records if upto is None or record["seq"] <= upto]
    until = kept[-1]["at"]
    tasks = {task: [r for r in store.peek(task) if r["at"] <= until] for task in _tasks(kept)}
    begun = {task: told for task, told in tasks.items() if told}
    names = {identity: new_id()} | {task: new_id() for task in begun}
    for task, told in begun.items():
        store.copy(names[task], _renamed(told, names))
    forked = {"type": "forked", "session": identity, "upto": kept[-1]["seq"], "at": until}
    store.copy(names[identity], [*_renamed(kept, names), forked])
    return names[identity]


def pack(store: Store, identity: str, target: Path, clean: Clean | None = None) -> list[str]:
    """A session and its tasks in one file, each text cleaned if asked; the ids in it. Raises UsageError."""
    records = store.read(identity)
    names = [identity, *(task for task in _tasks(records) if store.peek(task))]
    data = io.BytesIO()
    with gzip.GzipFile(fileobj=data, mode="wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for name in names:
            for path in _files(store, name, clean):
                archive.addfile(*path)
    try:
        write_file(target, data.getvalue())
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}.", "Give another file.") from error
    return names


def unpack(source: Path, home: Path) -> tuple[Store, str]:
    """The sessions of a file in a store of their own below `home`, and the id of the session. Raises UsageError."""
    store = Store(home)
    left = LIMIT_BYTES
    try:
        with tarfile.open(source, "r:gz") as archive:
            for member in archive:
                found = _MEMBER.fullmatch(member.name)
                if found is None or not member.isfile() or member.size > left:
                    raise UsageError(f"{source} holds more than a session.", _ASK)
                left -= member.size
                file = archive.extractfile(member)
                path = store.folder / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.read() if file is not None else b"")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise UsageError(f"{source} is no exported session: {error}.", _ASK) from error
    for first, _ in store.heads():
        if first["role"] == "session":
            return store, str(first["id"])
    raise UsageError(f"{source} holds no session that can be read.", _ASK)


def _tasks(records: Iterable[Json]) -> list[str]:
    return list(dict.fromkeys(str(record["id"]) for record in records if record["type"] == "task"))


def _renamed(records: Iterable[Json], names: dict[str, str]) -> Iterator[Json]:
    """The records with every id replaced."""
    for record in records:
        text = json.dumps(record)
        for old, new in names.items():
            text = text.replace(old, new)
        yield _storable(json.loads(text))


def _storable(record: Json) -> Json:
    """A record as a copy keeps it: what is missing of the first is a note in the second."""
    return record | {"type": "note"} if record["type"] == DAMAGED else record


def _files(store: Store, name: str, clean: Clean | None) -> Iterator[tuple[tarfile.TarInfo, io.BytesIO]]:
    """The files of one transcript as members of an archive; cleaned ones are written anew in a store for a moment."""
    if clean is not None:
        with tempfile.TemporaryDirectory() as folder:
            cleaned = Store(Path(folder))
            cleaned.copy(name, (clean(_storable(record)) for record in store.read(name)))
            yield from _files(cleaned, name, None)
        return
    folder_of = store.folder / name
    for path in (folder_of / FILE, *sorted((folder_of / BLOBS).glob("[0-9a-f]*"))):
        data = path.read_bytes()
        member = tarfile.TarInfo(f"{name}/{path.relative_to(folder_of).as_posix()}")
        member.size, member.mode = len(data), 0o600
        yield member, io.BytesIO(data)
