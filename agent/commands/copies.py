"""`fork`, `export`: copies of sessions."""

from __future__ import annotations

from pathlib import Path

import click

from agent.settings import load_home
from transcripts.store import Store


@click.command()
@click.argument("identity", metavar="ID")
@click.option("--at", metavar="ID", default="", help="Up to there only: a decision (D1), a record's number or id (E5).")
def fork(identity: str, at: str) -> None:
    """Copy session ID, or its beginning, into a new one that goes its own way; prints the new id."""
    from agent.commands.records import read
    from agent.decisions import number_of
    from transcripts.copies import fork as forked

    store = Store(load_home())
    name = store.resolve(identity)
    _, records = read(name)
    made = forked(store, name, number_of(records, at) if at else None)
    click.echo(made)
    click.echo(f'`sglscout resume {made} "…"` goes on with it; {name} stays as it is.', err=True)


@click.command()
@click.argument("identity", metavar="ID")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File; else ID.tar.gz here.")
@click.option("--share", is_flag=True, help="Hide hosts, addresses, users, serials and prompts as well.")
def export(identity: str, output: Path | None, share: bool) -> None:
    """Put session ID with its tasks and evidence into one file, which `show` and `writeup` read like an id."""
    from agent.case import Case
    from agent.commands.records import read
    from agent.document import document
    from agent.views.share import cleaner
    from transcripts.copies import pack

    store = Store(load_home())
    name = store.resolve(identity)
    _, records = read(name)
    target = output or Path(f"{name}.tar.gz")
    names = pack(store, name, target, cleaner(document(Case.fold(records))) if share else None)
    click.echo(f"written: {target} ({len(names) - 1} tasks); `sglscout show {target}` reads it.", err=True)
