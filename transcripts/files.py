"""What a transcript asks of the file system: whole files or none, what is on disk for good, one writer at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import Final

from transcripts.reading import StoreError

HOLDER_TRIES: Final = 200
HOLDER_PAUSE_S: Final = 0.005


class BusyError(StoreError):
    """Another process writes this transcript."""


def write_file(path: Path, data: bytes) -> None:
    """A whole file under its name or none, on disk, for its owner alone. Raises OSError and leaves nothing then."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        number = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            write_whole(number, data)
            os.fsync(number)
        finally:
            os.close(number)
        partial.rename(path)
        sync_folder(path.parent)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def write_whole(number: int, data: bytes) -> None:
    """All of it, however little one write takes. Raises OSError with a part written."""
    view = memoryview(data)
    while view:
        view = view[os.write(number, view) :]


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on disk. Raises OSError."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def locked(folder: Path) -> int:
    """The exclusive lock of a transcript. Raises BusyError naming who has it, OSError."""
    number = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = _holder(number)
        os.close(number)
        raise BusyError(
            f"{folder.name} is in use by process {holder or 'unknown'}.",
            "Wait for it, or end that process, then resume.",
        ) from error
    except OSError:
        os.close(number)
        raise
    with contextlib.suppress(OSError):  # whose it is serves the message alone: a full disk does not forbid the lock
        os.ftruncate(number, 0)
        os.pwrite(number, str(os.getpid()).encode(), 0)
    return number


def _holder(number: int) -> str:
    """The process that a lock names; one that has just got it needs a moment to say so, a dead one says nothing."""
    for _ in range(HOLDER_TRIES):
        holder = os.pread(number, 32, 0).decode(errors="replace").strip()
        if holder.isdigit() and Path(f"/proc/{holder}").exists():
            break
        time.sleep(HOLDER_PAUSE_S)
    return holder


def close(*numbers: int) -> None:
    """Give back the file descriptors that were opened; -1 stands for one that was not."""
    for number in numbers:
        if number >= 0:
            os.close(number)
