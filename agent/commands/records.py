"""The records of a session for a command that reads them, and a word on standard error where some are missing."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from agent.session import damage_told
from agent.settings import load_home
from agent.views.words import visible
from transcripts.copies import unpack
from transcripts.records import Damaged, Record, TaskChanged, records_of
from transcripts.store import Store

Json = dict[str, Any]


def read(identity: str) -> tuple[list[Json], list[Record]]:
    """A transcript as stored, and as types: by its id, or from a file of `export`. Raises UsageError."""
    with _found(identity) as (store, name):
        stored = store.read(name)
    records = records_of(stored)
    warn_of_damage(name, [record.text for record in records if isinstance(record, Damaged)])
    return stored, records


def tasks_of(identity: str, records: Iterable[Record]) -> dict[str, list[Record]]:
    """The transcripts of a session's tasks by their ids, as far as they are there."""
    names = dict.fromkeys(record.id for record in records if isinstance(record, TaskChanged))
    with _found(identity) as (store, _):
        return {name: records_of(stored) for name in names if (stored := store.peek(name))}


@contextmanager
def _found(identity: str) -> Iterator[tuple[Store, str]]:
    """The store that holds what is named, and its id there."""
    if is_file(identity):
        with tempfile.TemporaryDirectory(prefix="sglscout-") as folder:
            yield unpack(Path(identity), Path(folder))
    else:
        store = Store(load_home())
        yield store, store.resolve(identity)


def is_file(identity: str) -> bool:
    """Whether what stands for an id is a file."""
    try:
        return not identity.startswith("ses_") and Path(identity).is_file()
    except OSError:  # too long for a name
        return False


def warn_of_damage(identity: str, damage: list[str]) -> None:
    """One line on standard error where a transcript is not whole."""
    if damage:
        click.echo(f"sglscout: {visible(damage_told(identity, damage))}", err=True)
