"""The tree of one SGLang version, as everything else here reads it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final

from tools.source import search as searching
from tools.source.archive import taken_from_host
from tools.source.catalogue import FlagCatalogue
from tools.source.errors import PathError
from tools.source.globs import select
from tools.source.knowledge import Knowledge
from tools.source.rule import Rule
from tools.source.rules import Family
from tools.source.search import LIMIT, SECONDS, SearchResult
from tools.source.store import Origin, Placed, TreeStore
from tools.source.tree import Difference
from transcripts.errors import UsageError

READ_LIMIT: Final = 2_000


@dataclass(frozen=True)
class Source:
    """One tree. `root` contains srt/, paths are from there; `version` is empty for a checkout that does not say."""

    root: Path
    version: str
    origin: Origin
    digest: str
    placed: Placed = field(repr=False)
    difference: Difference | None = None

    @property
    def set_aside(self) -> tuple[tuple[str, str], ...]:
        """What the tree had and this does not: (path, why)."""
        return self.placed.manifest.set_aside

    async def search(
        self,
        pattern: str,
        path: str = "",
        *,
        globs: Sequence[str] = (),
        kind: str | None = None,
        ignore_case: bool = False,
        literal: bool = False,
        multiline: bool = False,
        context: int = 0,
        limit: int = LIMIT,
        seconds: float = SECONDS,
    ) -> SearchResult:
        """Lines that match, in order of path and line. Raises PatternError, PathError, SearchTimeout."""
        files: list[str] | None = None
        if path or globs or kind:
            files = self.files(*globs, path=path, kind=kind)
            if not files:
                return SearchResult((), 0, 0, truncated=False, note="no file of the tree is at that path or glob")
        request = searching.request_for(
            pattern, files, ignore_case=ignore_case, literal=literal, multiline=multiline, context=context, limit=limit
        )
        request |= {"root": str(self.root), "manifest": str(self.placed.folder / "manifest.json")}
        reply = await asyncio.to_thread(searching.SHARED.ask, request, seconds)
        return searching.result_of(reply)

    def files(self, *globs: str, path: str = "", kind: str | None = None) -> list[str]:
        """Paths of the tree, sorted. Raises PatternError, PathError."""
        asked = (globs, path, kind)
        if asked not in self._chosen:
            self._chosen[asked] = self._choose(globs, path, kind)
        return list(self._chosen[asked])

    @cached_property
    def _chosen(self) -> dict[tuple[tuple[str, ...], str, str | None], list[str]]:
        """Selections made before: the tree does not change, and researchers ask for the same few again and again."""
        return {}

    def _choose(self, globs: tuple[str, ...], path: str, kind: str | None) -> list[str]:
        paths: list[str] = list(self.placed.manifest.files)
        if path:
            inside = self.inside(path)
            paths = [each for each in paths if not inside or each == inside or each.startswith(inside + "/")]
            if not paths:
                raise self._no_path(path)
        return select(paths, globs, kind)

    def inside(self, path: str) -> str:
        """A path as given, from the package root. Raises PathError for one that leaves the tree."""
        plain = PurePosixPath(path.strip())
        if plain.is_absolute():
            try:
                plain = plain.relative_to(self.root.as_posix())
            except ValueError:
                plain = PurePosixPath(*plain.parts[1:])
        parts = [part for part in plain.parts if part != "."]
        if parts and parts[0] == "python":
            parts = parts[1:]
        if (
            parts
            and parts[0] == "sglang"
            and not any(each.startswith("sglang/") for each in self.placed.manifest.files)
        ):
            parts = parts[1:]
        if ".." in parts:
            raise PathError(f"{path!r} leaves the tree.", "Paths are from the package root, like srt/server_args.py.")
        return "/".join(parts)

    def text(self, path: str) -> str:
        """The whole text of a file. Raises PathError."""
        inside = self.inside(path)
        if inside not in self.placed.manifest.files:
            raise self._no_path(path)
        return (self.root / inside).read_bytes().decode("utf-8", "replace")

    def lines(self, path: str) -> list[str]:
        """The lines of a file, as search counts them. Raises PathError."""
        found = self.text(path).split("\n")
        if not found[-1]:
            found.pop()
        return found

    def read(self, path: str, first: int = 1, last: int | None = None) -> tuple[tuple[int, str], ...]:
        """Numbered lines `first` to `last`, both included, at most 2000. Raises PathError."""
        lines = self.lines(path)
        first = max(1, first)
        last = min(len(lines) if last is None else last, len(lines), first + READ_LIMIT - 1)
        return tuple((number, lines[number - 1].rstrip("\r")) for number in range(first, last + 1))

    def check_citation(self, path: str, line: int, quote: str) -> bool:
        """Whether that line of the tree says that, whitespace apart. A quote of several lines begins at `line`."""
        wanted = [" ".join(each.split()) for each in quote.strip().split("\n")]
        try:
            lines = self.lines(path)
        except PathError:
            return False
        there = [" ".join(each.split()) for each in lines[line - 1 : line - 1 + len(wanted)]] if line >= 1 else []
        return bool("".join(wanted)) and there == wanted

    def catalogue(self) -> FlagCatalogue:
        """The flags of this version; read once, then from the cache. Raises SourceUnavailable."""
        return self._knowledge.catalogue()

    def rules(self, flag: str) -> tuple[Rule, ...]:
        """What the code enforces or changes about a flag, nearest first. Raises UnknownFlag."""
        return self._knowledge.rules(flag)

    def family(self, flag: str) -> Family:
        """The flags that rules of a flag are about. Raises UnknownFlag."""
        return self._knowledge.family(flag)

    def handler_rules(self) -> list[Rule]:
        """Every rule in the handlers of this version, whichever flag it is about."""
        return self._knowledge.handlers()

    def usage(self, flag: str) -> str:
        """A short path through the code: where a flag is defined, handled and read. Raises UnknownFlag."""
        return self._knowledge.usage(flag)

    @cached_property
    def _knowledge(self) -> Knowledge:
        return Knowledge(self.placed, self.version)

    def _no_path(self, path: str) -> PathError:
        known = list(self.placed.manifest.files)
        name = path.rstrip("/").rpartition("/")[2]
        same = [each for each in known if each.rpartition("/")[2] == name][:3]
        near = same or get_close_matches(path, known, 3, 0.6)
        return PathError(
            f"{path!r} is not in the tree.", f"Near: {', '.join(near)}." if near else "List the folder above it."
        )


async def obtain(
    version: str | None = None,
    *,
    path: Path | None = None,
    archive: AsyncIterator[bytes] | None = None,
    cache: Path,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> Source:
    """The tree to read: of a host (`archive`, a tar stream of it), at a path, or the release of `version`.

    A release is fetched with the package client as the user configured it, once; other processes wait for it.
    Raises SourceUnavailable with what else can be done, UsageError.
    """
    stop = threading.Event()
    loop = asyncio.get_running_loop()

    def report(what: str, done: int, whole: int | None) -> None:
        if progress is not None and not stop.is_set():
            loop.call_soon_threadsafe(progress, what, done, whole)

    store = TreeStore.at(cache, report, stop)
    difference = None
    try:
        if archive is not None:
            placed, difference = await taken_from_host(archive, version or "", store)
        elif path is not None:
            placed = await asyncio.to_thread(store.local, path, version or "")
        elif version:
            placed = await asyncio.to_thread(store.release, version)
        else:
            raise UsageError("which SGLang to read is not known.", "Name a version or a tree.")
    except asyncio.CancelledError:
        stop.set()
        raise
    manifest = placed.manifest
    return Source(placed.root, manifest.version or version or "", placed.origin, manifest.digest, placed, difference)
