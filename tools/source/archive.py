"""A tree that comes from a host as a tar stream, and how it differs from the release of its version.

Links, devices and names that leave the tree are not taken. The stream is spooled to a temporary file in the cache,
within the limit of a tree, so that nothing of it is held in memory.
"""

from __future__ import annotations

import asyncio
import tarfile
import tempfile
import zlib
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

from tools.source.errors import SourceUnavailable
from tools.source.store import Placed, TreeStore
from tools.source.tree import FILE_LIMIT_BYTES, PACKAGE, TREE_LIMIT_BYTES, Difference, Entry, difference_between
from transcripts.errors import UsageError


async def taken_from_host(
    archive: AsyncIterator[bytes], version: str, store: TreeStore
) -> tuple[Placed, Difference | None]:
    """The host's tree in the cache, with its difference from the release if that is to be had."""
    with tempfile.NamedTemporaryFile(prefix=".host-", suffix=".tar", dir=store.folder) as spool:
        received = 0
        async for piece in archive:
            received += len(piece)
            if received > TREE_LIMIT_BYTES:
                raise SourceUnavailable("the host's tree is larger than SGLang ever was.", "Name its version instead.")
            await asyncio.to_thread(spool.write, piece)
            store.progress("tree of the host", received, None)
        await asyncio.to_thread(spool.flush)
        placed = await asyncio.to_thread(store.host, _members(Path(spool.name)), version)
    released = await _release_of(placed.manifest.version, store)
    difference = None if released is None else difference_between(placed.manifest, released.manifest)
    return placed, difference


async def _release_of(version: str, store: TreeStore) -> Placed | None:
    try:
        return await asyncio.to_thread(store.release, version)
    except (SourceUnavailable, UsageError):
        return None


def _members(path: Path) -> Iterator[Entry]:
    """The regular files of the package in a tar, plain or compressed. Raises SourceUnavailable for a damaged one."""
    try:
        with tarfile.open(path, "r:*") as archive:
            for member in archive:
                name = _below_package(member.name)
                if member.isreg() and name:
                    yield Entry(name, member.size, partial(_content, archive, member))
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise SourceUnavailable(
            f"the archive from the host is damaged: {error}.", "Try again, or name its version."
        ) from error


def _below_package(name: str) -> str:
    """A member's path below the package root: archives start at the package, at its folder, or at its parent."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if PACKAGE in parts[:-1]:
        parts = parts[parts.index(PACKAGE) + 1 :]
    return "/".join(parts)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = archive.extractfile(member)
    if stream is None:
        raise OSError("not a file")
    try:
        return stream.read(FILE_LIMIT_BYTES + 1)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise SourceUnavailable(
            f"the archive from the host is damaged: {error}.", "Try again, or name its version."
        ) from error
