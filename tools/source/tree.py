"""A tree brought into the cache: text files only, names that can be printed, nothing that points elsewhere.

    trees/DIGEST/manifest.json      what is in it, and what was set aside and why; written last
    trees/DIGEST/sglang/srt/...     the package root

A tree is built beside its place and renamed into it, so that a kill leaves nothing half. Files are stored as UTF-8:
other bytes become U+FFFD, so every reader of the tree sees the same text. Nothing in it is ever imported or run.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tools.source.errors import SourceUnavailable

FORMAT: Final = 1
FILE_LIMIT_BYTES: Final = 10 << 20
TREE_LIMIT_BYTES: Final = 1 << 30
FILES_LIMIT: Final = 60_000
DEPTH_LIMIT: Final = 32
NAME_LIMIT: Final = 200
PACKAGE: Final = "sglang"


@dataclass(frozen=True, slots=True)
class Entry:
    """One regular file on its way in: path below the package root, size in bytes, and how to get its bytes."""

    path: str
    size_bytes: int
    read: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a cached tree holds. `files` maps path to (size in bytes, sha256 of the stored text)."""

    version: str
    digest: str
    files: dict[str, tuple[int, str]]
    set_aside: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """What sets a tree apart from the release of its version: paths from the package root."""

    changed: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.changed or self.added or self.removed)


def difference_between(tree: Manifest, release: Manifest) -> Difference:
    """Which files of a tree are not as released. Compiled and hidden files never count."""
    mine, theirs = tree.files, release.files
    return Difference(
        changed=tuple(path for path in mine if path in theirs and mine[path][1] != theirs[path][1]),
        added=tuple(path for path in mine if path not in theirs),
        removed=tuple(path for path in theirs if path not in mine),
    )


@dataclass(slots=True)
class _Intake:
    root: Path
    files: dict[str, tuple[int, str]] = field(default_factory=dict)
    set_aside: list[tuple[str, str]] = field(default_factory=list)
    bytes_in: int = 0

    def take(self, entry: Entry) -> None:
        path = printable(entry.path)
        reason = unfit(path, entry.size_bytes)
        if reason:
            if reason != "hidden":
                self.set_aside.append((path, reason))
            return
        try:
            data = entry.read()
        except OSError as error:
            self.set_aside.append((path, error.strerror or "unreadable"))
            return
        text = as_text(data)
        if text is None:
            self.set_aside.append((path, "binary"))
            return
        self.bytes_in += len(text)
        if self.bytes_in > TREE_LIMIT_BYTES or len(self.files) >= FILES_LIMIT:
            raise SourceUnavailable("the tree is larger than SGLang ever was.", "Pass the folder that contains srt/.")
        target = self.root / path
        if path in self.files or target.exists() or any(parent in self.files for parent in _parents(path)):
            self.set_aside.append((path, "its name is taken"))
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text)
        self.files[path] = (len(text), hashlib.sha256(text).hexdigest())


def printable(path: str) -> str:
    """The path with what cannot be printed or encoded replaced by U+FFFD."""
    plain = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return "".join(character if character.isprintable() else "�" for character in plain)


def unfit(path: str, size_bytes: int) -> str:
    """Why a file is not taken in; empty if it is."""
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "its path leaves the tree"
    if any(part.startswith(".") or part == "__pycache__" for part in parts) or path.endswith(".pyc"):
        return "hidden"
    if len(parts) > DEPTH_LIMIT:
        return "nested too deep"
    if any(len(part.encode()) > NAME_LIMIT for part in parts):
        return "its name is too long"
    if size_bytes > FILE_LIMIT_BYTES:
        return f"larger than {FILE_LIMIT_BYTES >> 20} MiB"
    return ""


def as_text(data: bytes) -> bytes | None:
    """The bytes as UTF-8 without a mark at the start; None for what is no text."""
    if data.startswith(codecs.BOM_UTF8):
        data = data[len(codecs.BOM_UTF8) :]
    elif data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace").encode("utf-8", "replace")
    if b"\0" in data:
        return None
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace").encode("utf-8")
    return data


def _parents(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def build(entries: Iterator[Entry], version: str, trees: Path) -> Manifest:
    """Take the entries in and put the tree in its place under `trees`. Raises SourceUnavailable.

    `version` is what the caller knows; the tree's own `version.py` is believed if that is empty.
    """
    trees.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=".building-", dir=trees))
    try:
        intake = _Intake(building / PACKAGE)
        intake.root.mkdir()
        for entry in entries:
            intake.take(entry)
        if not any(path.startswith("srt/") and path.endswith(".py") for path in intake.files):
            raise SourceUnavailable(
                "that is no SGLang tree: no srt/*.py in it.", "Pass the folder `sglang` that contains srt/."
            )
        files = dict(sorted(intake.files.items()))
        manifest = Manifest(
            version=version or version_in(intake.root),
            digest=digest_of(files),
            files=files,
            set_aside=tuple(sorted(intake.set_aside)),
        )
        _write_manifest(manifest, building)
        place = trees / manifest.digest
        if not (place / "manifest.json").exists():
            shutil.rmtree(place, ignore_errors=True)
            building.rename(place)
        return manifest
    finally:
        shutil.rmtree(building, ignore_errors=True)


def digest_of(files: dict[str, tuple[int, str]]) -> str:
    """One digest for names and contents together; the same tree has the same digest wherever it came from."""
    summed = hashlib.sha256()
    for path, (_, sha256) in sorted(files.items()):
        summed.update(f"{path}\0{sha256}\n".encode())
    return summed.hexdigest()[:32]


def version_in(root: Path) -> str:
    """The version a tree says it is, read from its own files; empty if it does not say."""
    for name in ("version.py", "_version.py"):
        path = root / name
        if path.is_file():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                left, equals, right = line.partition("=")
                if equals and left.split(":")[0].strip() in ("__version__", "version"):
                    value = right.split("=")[-1].strip().strip("'\"")
                    if value and value[0].isdigit():
                        return value
    return ""


def _write_manifest(manifest: Manifest, folder: Path) -> None:
    document = {
        "v": FORMAT,
        "version": manifest.version,
        "digest": manifest.digest,
        "set_aside": manifest.set_aside,
        "files": [[path, size, sha256] for path, (size, sha256) in manifest.files.items()],
    }
    (folder / "manifest.json").write_text(json.dumps(document, separators=(",", ":")), encoding="utf-8")


def load_manifest(folder: Path) -> Manifest | None:
    """The manifest of a cached tree; None where there is none that this program can read."""
    try:
        document = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if document.get("v") != FORMAT:
        return None
    return Manifest(
        version=document["version"],
        digest=document["digest"],
        files={path: (size, sha256) for path, size, sha256 in document["files"]},
        set_aside=tuple((path, reason) for path, reason in document["set_aside"]),
    )


def walk(root: Path) -> Iterator[Entry]:
    """The regular files below a folder; links are not followed, what cannot be read is left out."""
    pending = [root]
    while pending:
        folder = pending.pop()
        try:
            items = sorted(os.scandir(folder), key=lambda item: item.name)
        except OSError:
            continue
        for item in items:
            if item.is_dir(follow_symlinks=False):
                if not item.name.startswith(".") and item.name != "__pycache__":
                    pending.append(Path(item.path))
            elif item.is_file(follow_symlinks=False):
                path = Path(item.path)
                yield Entry(
                    path.relative_to(root).as_posix(), item.stat(follow_symlinks=False).st_size, path.read_bytes
                )
