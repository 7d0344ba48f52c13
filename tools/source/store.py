"""Trees by content, in the cache: fetched once, shared by all processes, listed and pruned.

CACHE/source/trees/DIGEST/          a tree (see tree.py) with its catalogue beside it
CACHE/source/versions/VERSION.json  which tree is the released version
CACHE/source/paths/KEY.json         which tree a folder was, when its files had these sizes and times
CACHE/source/locks/KEY.lock         held while one process fetches; others wait
CACHE/source/locks/tree-DIGEST.lock shared by those that read a tree: it is not pruned under them
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Literal

from tools.source import wheel
from tools.source.errors import SourceUnavailable
from tools.source.tree import PACKAGE, Entry, Manifest, build, load_manifest, walk
from transcripts.errors import UsageError
from transcripts.paths import at_home

Origin = Literal["wheel", "host", "path"]
Progress = Callable[[str, int, int | None], None]
STALE_SECONDS: Final = 24 * 3600
_READ: Final[dict[Path, IO[str]]] = {}  # locks of the trees that this process has opened, held until it ends


@dataclass(frozen=True, slots=True)
class Placed:
    """A tree in the cache."""

    folder: Path
    manifest: Manifest
    origin: Origin

    @property
    def root(self) -> Path:
        return self.folder / PACKAGE


@dataclass(slots=True)
class TreeStore:
    """The cache's source folder. `stop` ends a fetch from another thread."""

    folder: Path
    progress: Progress
    stop: threading.Event

    @classmethod
    def at(cls, cache: Path, progress: Progress | None = None, stop: threading.Event | None = None) -> TreeStore:
        """Opens the store below a cache folder. Raises UsageError when it cannot be written."""
        folder = cache / "source"
        try:
            for name in ("trees", "versions", "paths", "locks"):
                (folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{folder} cannot be written: {error.strerror}.", "Set SGLSCOUT_CACHE.") from error
        return cls(folder, progress or (lambda _what, _done, _whole: None), stop or threading.Event())

    def release(self, version: str) -> Placed:
        """The released tree of a version, fetched if it is not here. Raises SourceUnavailable, UsageError."""
        name = wheel.released(version)
        pointer = self.folder / "versions" / f"{name}.json"
        placed = self._pointed(pointer, "wheel")
        if placed is None:
            with self._locked(f"version-{name}", f"sglang {name}"):
                placed = self._pointed(pointer, "wheel") or self._fetch(name, pointer)
        return placed

    def _fetch(self, version: str, pointer: Path) -> Placed:
        self._sweep()
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=self.folder) as folder:
            found = wheel.download(version, Path(folder), self.progress, self.stop)
            self.progress(f"unpack sglang {version}", 0, None)
            placed = self._take(wheel.entries(found), version, "wheel")
        _replace(pointer, {"digest": placed.manifest.digest})
        return placed

    def local(self, path: Path, version: str = "") -> Placed:
        """The tree at a path: a checkout, an installed package, the folder with srt/ in it, or a wheel file."""
        path = at_home(path)
        if path.is_file() and path.suffix == ".whl":
            return self._take(wheel.entries(path), version or wheel.wheel_version(path), "path")
        root = package_root(path)
        found = list(walk(root))
        signature = hashlib.sha256()
        for entry in sorted(found, key=lambda entry: entry.path):
            changed = (root / entry.path).lstat().st_mtime_ns
            signature.update(f"{entry.path}\0{entry.size_bytes}\0{changed}\n".encode("utf-8", "surrogateescape"))
        key = hashlib.sha256(str(root.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:32]
        pointer = self.folder / "paths" / f"{key}.json"
        placed = self._pointed(pointer, "path", signature.hexdigest())
        if placed is None:
            self.progress(f"read {root}", 0, None)
            placed = self._take(iter(found), "", "path")
            _replace(pointer, {"digest": placed.manifest.digest, "signature": signature.hexdigest()})
        return placed

    def host(self, entries: Iterator[Entry], version: str) -> Placed:
        """A tree that came from a host."""
        return self._take(entries, version, "host")

    def _take(self, entries: Iterator[Entry], version: str, origin: Origin) -> Placed:
        def stoppable() -> Iterator[Entry]:
            for entry in entries:
                if self.stop.is_set():
                    raise SourceUnavailable("the fetch was stopped.")
                yield entry

        try:
            manifest = build(stoppable(), version, self.folder / "trees")
        except OSError as error:
            raise SourceUnavailable(
                f"the tree could not be stored: {error.strerror}.", "Free some space, or run `sglscout source prune`."
            ) from error
        self._read(manifest.digest)
        return Placed(self.folder / "trees" / manifest.digest, manifest, origin)

    def _read(self, digest: str) -> None:
        """Keep a tree from being pruned while this process reads it; waits for a prune of it to end."""
        lock = self._lock_of(digest)
        if lock not in _READ:
            _READ[lock] = lock.open("w")
            fcntl.flock(_READ[lock], fcntl.LOCK_SH)

    def _lock_of(self, digest: str) -> Path:
        return self.folder / "locks" / f"tree-{digest}.lock"

    def _pointed(self, pointer: Path, origin: Origin, signature: str = "") -> Placed | None:
        try:
            document = json.loads(pointer.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if document.get("signature", "") != signature:
            return None
        digest = str(document.get("digest", "-"))
        folder = self.folder / "trees" / digest
        if not folder.is_dir():
            return None
        self._read(digest)
        manifest = load_manifest(folder)
        return None if manifest is None else Placed(folder, manifest, origin)

    @contextmanager
    def _locked(self, key: str, what: str) -> Iterator[None]:
        """One process at a time; the others wait and say so."""
        with (self.folder / "locks" / f"{key}.lock").open("w") as handle:
            said = False
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if not said:
                        self.progress(f"wait for another process to fetch {what}", 0, None)
                        said = True
                    if self.stop.wait(0.1):
                        raise SourceUnavailable("the fetch was stopped.") from None
            yield

    def _sweep(self) -> None:
        """Remove what processes that were killed left behind."""
        left = [*self.folder.glob(".fetching-*"), *(self.folder / "trees").glob(".building-*")]
        for path in left:
            try:
                if time.time() - path.stat().st_mtime > STALE_SECONDS:
                    shutil.rmtree(path, ignore_errors=True)
            except OSError:
                continue

    def trees(self) -> list[dict[str, Any]]:
        """What is cached: digest, version, released as, files, bytes."""
        names: dict[str, list[str]] = {}
        for pointer in sorted((self.folder / "versions").glob("*.json")):
            try:
                names.setdefault(json.loads(pointer.read_text())["digest"], []).append(pointer.stem)
            except (OSError, ValueError, KeyError):
                continue
        found = []
        for folder in sorted((self.folder / "trees").iterdir()):
            manifest = load_manifest(folder)
            if manifest is not None:
                found.append(
                    {
                        "digest": manifest.digest,
                        "version": manifest.version,
                        "released_as": names.get(manifest.digest, []),
                        "files": len(manifest.files),
                        "bytes": sum(size for size, _ in manifest.files.values()),
                    }
                )
        return sorted(found, key=lambda tree: (wheel.version_key(tree["version"]), tree["digest"]))

    def prune(self, keep: set[str]) -> list[dict[str, Any]]:
        """Remove every tree whose version and digest are not in `keep` and that nobody reads; returns them."""
        unwanted = [tree for tree in self.trees() if tree["version"] not in keep and tree["digest"] not in keep]
        return [tree for tree in unwanted if self._remove(tree["digest"])]

    def _remove(self, digest: str) -> bool:
        """False where another process reads the tree."""
        lock = self._lock_of(digest)
        if (own := _READ.pop(lock, None)) is not None:
            own.close()
        with lock.open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            folder = self.folder / "trees" / digest
            (folder / "manifest.json").unlink(missing_ok=True)  # first: a half-removed tree is no tree
            shutil.rmtree(folder, ignore_errors=True)
        return True


def package_root(path: Path) -> Path:
    """The folder that contains srt/. Raises SourceUnavailable, naming what was looked for."""
    for candidate in (path, path / PACKAGE, path / "python" / PACKAGE):
        if (candidate / "srt").is_dir():
            return candidate
    raise SourceUnavailable(f"{path} is no SGLang tree: no srt/ in it.", "Pass the folder `sglang` that contains srt/.")


def _replace(path: Path, document: dict[str, Any]) -> None:
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", delete=False, encoding="utf-8") as handle:
        json.dump(document, handle)
    Path(handle.name).replace(path)
