"""What runs on a host, for commands that keep no session: the facts of one look, and the tree that is deployed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from transcripts.errors import Inconclusive
from transcripts.facts import Fact, Facts

if TYPE_CHECKING:
    from tools.host import Host
    from tools.source import Source

Progress = Callable[[str, int, int | None], None]


async def facts_of(host: Host, told: Callable[[str], None] | None = None) -> Facts:
    """The facts of one look at a host, or into a bundle; `told` hears of each probe. Raises HostError."""
    from tools.host import look
    from tools.host.parsers import parse
    from transcripts.redaction import Redactor

    found: list[Fact] = []
    number = 0
    redactor = Redactor()
    async for seen in look(host, redact=redactor.redact, learn=redactor.learn_from):
        number += 1
        if told is not None:
            told(f"E{number} {seen.probe}")
        found += parse(seen.evidence(f"E{number}"))
    return Facts(found)


async def tree_of(host: Host, facts: Facts, version: str, cache: Path, progress: Progress) -> Source | None:
    """The tree that the host runs, brought over as text; None where it is not known to have one.

    `version` is what it is taken for where its files do not say.
    Raises HostError, Inconclusive.
    """
    from tools import source as sources
    from tools.host import fetch_tree

    folder = facts.text("install_path")
    if not folder:
        return None
    archive = fetch_tree(host, folder)
    return await sources.obtain(version or None, archive=archive, cache=cache, progress=progress)


def differs(source: Source) -> tuple[str, ...]:
    """Files in which a host's tree is not the release; of files that are not brought over only code counts as gone."""
    difference = source.difference
    if difference is None:
        return ()
    gone = tuple(path for path in difference.removed if path.endswith(".py"))
    kinds = (("changed", difference.changed), ("added", difference.added), ("removed", gone))
    return tuple(f"{kind} {path}" for kind, paths in kinds for path in paths)[:50]


@contextmanager
def named_by(options: str) -> Iterator[None]:
    """Add to an error about a tree that is not to be had how the command at hand names another one."""
    try:
        yield
    except Inconclusive as error:
        error.hint = f"{error.hint} Here that is {options}.".lstrip()
        raise
