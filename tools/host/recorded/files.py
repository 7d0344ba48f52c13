"""The files of a recorded host: the real ones under its `root/`, a mounted SGLang tree, and those that are computed."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

Computed = Callable[[], str]


class Missing(Exception):
    """No such file or directory."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What `stat` knows of a path. `real` is set where a file on this machine stands behind it."""

    path: str
    is_dir: bool
    size: int
    modified: datetime
    target: str = ""
    real: Path | None = None

    @property
    def name(self) -> str:
        return posixpath.basename(self.path)


@dataclass(slots=True)
class Files:
    """Paths on the host. A file under `root/` wins over a computed one of the same name."""

    root: Path
    now: datetime
    computed: Mapping[str, Computed]
    links: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, Path] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    def read(self, path: str) -> str:
        """The file's text (bytes that are not UTF-8 survive). Raises Missing, IsADirectoryError."""
        path = self.resolve(path)
        real = self._real(path)
        if real is not None and real.is_file():
            return real.read_text(encoding="utf-8", errors="surrogateescape")
        if path in self.computed:
            return self.computed[path]()
        if self.is_dir(path):
            raise IsADirectoryError(path)
        if path in self.sizes:
            return ""
        raise Missing(path)

    def entry(self, path: str) -> Entry:
        """Raises Missing."""
        path = normal(path)
        if path in self.links:
            return Entry(path, False, len(self.links[path]), self.now, self.links[path])
        real = self._real(path)
        if real is not None and real.exists():
            modified = self.now.replace(minute=0, second=0, microsecond=0)
            size = 4096 if real.is_dir() else real.stat().st_size
            return Entry(path, real.is_dir(), size, modified, real=real)
        if path in self.sizes:
            return Entry(path, False, self.sizes[path], self.now)
        if path in self.computed:
            virtual = path.startswith(("/proc/", "/sys/"))
            return Entry(path, False, 0 if virtual else len(self.computed[path]().encode()), self.now)
        if self.is_dir(path):
            return Entry(path, True, 4096, self.now)
        raise Missing(path)

    def resolve(self, path: str) -> str:
        path = normal(path)
        for link, target in self.links.items():
            if path == link or path.startswith(link + "/"):
                return normal(posixpath.join(posixpath.dirname(link), target) + path[len(link) :])
        return path

    def is_dir(self, path: str) -> bool:
        path = normal(path)
        real = self._real(path)
        if real is not None and real.is_dir():
            return True
        prefix = path.rstrip("/") + "/"
        return any(name.startswith(prefix) for name in self._known())

    def names(self, path: str) -> list[str]:
        """Names in a folder, sorted. Raises Missing."""
        path = normal(path)
        if not self.is_dir(path):
            raise Missing(path)
        real = self._real(path)
        found = {item.name for item in real.iterdir()} if real is not None and real.is_dir() else set()
        prefix = path.rstrip("/") + "/"
        found |= {name[len(prefix) :].split("/")[0] for name in self._known() if name.startswith(prefix)}
        return sorted(found)

    def walk(self, path: str, depth: int = 64) -> Iterator[Entry]:
        """The path and everything below it, folders before what is in them."""
        here = self.entry(path)
        yield here
        if here.is_dir and depth > 0:
            for name in self.names(path):
                yield from self.walk(posixpath.join(normal(path), name), depth - 1)

    def glob(self, pattern: str) -> list[str]:
        """Paths that an absolute pattern of the shell matches, sorted."""
        import fnmatch

        found = ["/"]
        for part in [part for part in pattern.split("/") if part]:
            following = []
            for folder in found:
                if any(letter in part for letter in "*?["):
                    names = self.names(folder) if self.is_dir(folder) else []
                    hits = [name for name in names if fnmatch.fnmatchcase(name, part)]
                    following += [posixpath.join(folder, name) for name in hits if not name.startswith(".")]
                elif self._exists(posixpath.join(folder, part)):
                    following.append(posixpath.join(folder, part))
            found = following
        return found

    def _exists(self, path: str) -> bool:
        try:
            self.entry(path)
        except Missing:
            return False
        return True

    def _known(self) -> Iterator[str]:
        yield from self.computed
        yield from self.links
        yield from self.sizes
        yield from self.mounts

    def _real(self, path: str) -> Path | None:
        for mount, folder in self.mounts.items():
            if path == mount or path.startswith(mount + "/"):
                return _inside(folder, path[len(mount) :])
        return _inside(self.root, path)


def _inside(folder: Path, relative: str) -> Path | None:
    """A path below a folder of this machine, None when a link would lead out of it."""
    candidate = folder / relative.lstrip("/")
    if not candidate.exists():
        return candidate
    top, resolved = folder.resolve(), candidate.resolve()
    return candidate if resolved == top or top in resolved.parents else None


def normal(path: str) -> str:
    """An absolute path without `.`, `..` and doubled slashes; relative ones start in root's home."""
    absolute = path if path.startswith("/") else posixpath.join("/root", path)
    return posixpath.normpath(absolute).replace("//", "/")
