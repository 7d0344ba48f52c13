"""What lies in a bundle: read without following anything out of it, and without believing any size.

Only regular files are read, links inside a folder or an archive never are, and every amount has a limit: of text that
is taken, of members, and of what an archive may swell to. Nothing is written.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from transcripts.errors import UsageError

LIMIT_BYTES: Final = 64 << 20
LIMIT_MEMBERS: Final = 2_000
LIMIT_UNPACKED: Final = 256 << 20
_HEAD_SHARE: Final = 4  # of a text that is too long, a quarter comes from its beginning, the rest from its end
_SAMPLE: Final = 65_536
_HEADER: Final = 512
_GZIP: Final = b"\x1f\x8b"
_KINDS: Final = {
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
}


@dataclass(frozen=True, slots=True)
class Member:
    """One file of a bundle. `problem` says in a few words why it was not read, `left_out` how many bytes were cut."""

    name: str
    data: bytes = b""
    problem: str = ""
    left_out: int = 0


def unreadable(name: str, why: str, hint: str) -> UsageError:
    """The one error for every bundle that cannot be used."""
    return UsageError(f"unreadable bundle {name}: {why}.", hint)


def is_archive(data: bytes) -> bool:
    """A tar file, packed by gzip or not."""
    return data[:2] == _GZIP or data[257:262] == b"ustar"


def read_file(path: Path) -> Member:
    """A file that was named by the operator, who may name it through a link. Raises UsageError."""
    try:
        return _read(path.name, path, None, LIMIT_BYTES)
    except _NotRead as error:
        raise unreadable(str(path), str(error), "Give a bundle, a log file or a folder of them.") from error


def read_folder(path: Path) -> list[Member]:
    """The files of a folder by name; what is below its folders is not read. Raises UsageError."""
    members: list[Member] = []
    left = LIMIT_BYTES
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            names = sorted(os.listdir(folder))  # noqa: PTH208  (below an open folder, which no rename can move)
            if len(names) > LIMIT_MEMBERS:
                raise unreadable(str(path), f"it holds {len(names)} files", f"Give at most {LIMIT_MEMBERS} of them.")
            for name in names:
                try:
                    member = _read(name, Path(name), folder, left)
                except _NotRead as error:
                    if str(error) == "a folder":
                        continue
                    member = Member(name, problem=str(error))
                left -= len(member.data)
                members.append(member)
        finally:
            os.close(folder)
    except OSError as error:
        raise unreadable(str(path), error.strerror or "it cannot be read", "Check the path and its mode.") from error
    return members


def read_archive(path: Path) -> list[Member]:
    """Members of an archive by their last name, or the one file that gzip packed, as logrotate leaves it.

    Raises UsageError when it is torn or swells beyond the limit.
    """
    members: list[Member] = []
    try:
        with _opened(path, None) as raw:
            packed = raw.read(2) == _GZIP
            raw.seek(0)
            source = gzip.GzipFile(fileobj=raw) if packed else raw
            if packed and not is_archive(source.read(_HEADER)):
                source.seek(0)
                return [_cut(path.stem, _Counted(source).read(), LIMIT_BYTES)]
            source.seek(0)
            # As a stream: nothing is sought, so that the bytes counted are all that were unpacked.
            with tarfile.open(fileobj=_Counted(source), mode="r|") as archive:
                members.extend(_members(archive))
    except _NotRead as error:
        raise unreadable(str(path), str(error), "Collect it again.") from error
    except (tarfile.TarError, EOFError, OSError, zlib.error, ValueError, OverflowError, RecursionError) as error:
        raise unreadable(str(path), f"no whole archive ({error})", "Collect it again.") from error
    return members


def text_of(data: bytes) -> str | None:
    """The text, or None for what is none: pictures, archives of another kind, noise, emptiness."""
    if data[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        text = data.decode("utf-16", "replace")
    else:
        text = data.decode("utf-8", "replace")
    sample = text[:_SAMPLE]
    odd = sum(mark == "\ufffd" or (mark < " " and mark not in "\t\n\r\x1b\b\f\0") for mark in sample)
    if not text.strip() or odd * 8 > len(sample) or sample.count("\0") * 4 > len(sample):
        return None
    return text


class _NotRead(Exception):
    """In a few words why."""


class _Counted(io.RawIOBase):
    """Passes on what it reads, up to the limit of what an archive may swell to."""

    def __init__(self, source: IO[bytes] | gzip.GzipFile) -> None:
        super().__init__()
        self._source = source
        self._left = LIMIT_UNPACKED

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size if 0 <= size < self._left else self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise _NotRead(f"it swells to more than {LIMIT_UNPACKED >> 20} MB")
        return data


def _members(archive: tarfile.TarFile) -> Iterator[Member]:
    left = LIMIT_BYTES
    for number, entry in enumerate(archive):
        name = Path(entry.name).name or "?"
        if number >= LIMIT_MEMBERS:
            raise _NotRead(f"it holds more than {LIMIT_MEMBERS} files")
        if entry.isdir():
            continue
        if not entry.isfile() or entry.issparse():
            yield Member(name, problem="a link" if entry.issym() or entry.islnk() else "no plain file")
        elif entry.size > left:
            yield Member(name, problem=f"{entry.size} bytes are too many")
        else:
            file = archive.extractfile(entry)
            data = file.read() if file else b""
            left -= len(data)
            yield Member(name, data)


def _opened(path: Path, folder: int | None) -> IO[bytes]:
    """The file, if it is a plain one. Looked at before it is opened, since opening a device can set it off."""
    inside = folder is not None
    try:
        _plain(os.stat(path, dir_fd=folder, follow_symlinks=not inside).st_mode)
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_NOFOLLOW if inside else 0)
        number = os.open(path, flags, dir_fd=folder)
    except OSError as error:
        raise _NotRead(error.strerror or "it cannot be read") from error
    try:
        _plain(os.fstat(number).st_mode)
    except _NotRead:
        os.close(number)
        raise
    return os.fdopen(number, "rb")


def _plain(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise _NotRead(_KINDS.get(stat.S_IFMT(mode), "no plain file"))


def _read(name: str, path: Path, folder: int | None, limit: int) -> Member:
    """The file, or of a longer text its beginning and its end, which tell most."""
    with _opened(path, folder) as file:
        try:
            data = file.read(limit + 1)
            if len(data) <= limit or is_archive(data):
                return Member(name, data[:limit])
            size = max(os.fstat(file.fileno()).st_size, len(data))
            head = data[: data.rfind(b"\n", 0, limit // _HEAD_SHARE) + 1]
            file.seek(size - (limit - len(head)))
            tail = file.read(limit - len(head))
        except OSError as error:
            raise _NotRead(error.strerror or "it cannot be read") from error
    return _shortened(name, head, tail, size)


def _cut(name: str, data: bytes, limit: int) -> Member:
    """The same of what was read already."""
    if len(data) <= limit:
        return Member(name, data)
    head = data[: data.rfind(b"\n", 0, limit // _HEAD_SHARE) + 1]
    return _shortened(name, head, data[len(data) - (limit - len(head)) :], len(data))


def _shortened(name: str, head: bytes, tail: bytes, size: int) -> Member:
    tail = tail[tail.find(b"\n") + 1 :]
    left_out = size - len(head) - len(tail)
    return Member(name, head + b"(sglscout left out %d bytes here)\n" % left_out + tail, left_out=left_out)
