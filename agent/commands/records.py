"""The records of a session for a command that reads them, and a word on standard error where some are missing."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click

from agent.session import damage_told
from agent.settings import load_home
from agent.views.words import visible
from transcripts.copies import unpack
from transcripts.records import Damaged, Record, records_of
from transcripts.store import Store

Json = dict[str, Any]


def read(identity: str) -> tuple[list[Json], list[Record]]:
    """A transcript as stored, and as types: by its id, or from a file of `export`. Raises UsageError."""
    if is_file(identity):
        with tempfile.TemporaryDirectory(prefix="sglscout-") as folder:
            store, name = unpack(Path(identity), Path(folder))
            stored = store.read(name)
    else:
        store = Store(load_home())
        name = store.resolve(identity)
        stored = store.read(name)
    records = records_of(stored)
    warn_of_damage(name, [record.text for record in records if isinstance(record, Damaged)])
    return stored, records


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
