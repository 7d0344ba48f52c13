"""`writeup`: the incident of a session as a document one can send."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from agent.commands.options import exclusive
from transcripts.errors import UsageError

SHARED = (
    "hosts, addresses, users, serials and prompts are hidden; a person or a customer named in somebody's own words "
    "cannot be told from other words: read it before you send it"
)


@click.command()
@click.argument("identity", metavar="ID")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File; standard output without.")
@click.option("--format", "form", type=click.Choice(["md", "html", "json"]), help="Else by the file's suffix, else md.")
@click.option("--share", is_flag=True, help="Hide hosts, addresses, users, serials and prompts as well.")
@click.option("--at", metavar="ID", default="", help="One decision of a long session: D2, or an id recorded before it.")
@click.option(
    "--improve", is_flag=True, help="Have a model word the prose better; figures and references stay as they are."
)
def writeup(identity: str, output: Path | None, form: str | None, share: bool, at: str, improve: bool) -> None:
    """Write the incident of a session up, from its transcript alone."""
    from agent.case import Case
    from agent.commands.records import read
    from agent.decisions import up_to
    from agent.document import document
    from agent.views import files
    from agent.views.share import shared

    exclusive(("--improve", improve), ("--at", at), hint="The prose of a decision of before stays as it was.")
    if improve:
        _improve(identity)
    _, records = read(identity)
    made = document(Case.fold(up_to(records, at) if at else records), latest=bool(at))
    if share:
        made = shared(made)
        click.echo(f"sglscout: {SHARED}", err=True)
    if output is not None:
        files.write_up(output, made, form or "")
        click.echo(f"written: {output}", err=True)
    elif form is None and sys.stdout.isatty():
        from agent.views import paper, terminal

        terminal.console().print(paper.page(made))
    else:
        click.echo(files.dressed(made, form or "md"), nl=False)


def _improve(identity: str) -> None:
    """One recorded step of a model over the prose, and a word on standard error what came of it."""
    from agent.commands.records import is_file
    from agent.run import Run, take_up
    from agent.settings import load_settings
    from agent.views.words import visible, wording

    if is_file(identity):
        raise UsageError(f"{identity} is a copy, and takes no more records.", "Give the id of a session of your own.")
    settings = load_settings()
    with take_up(settings, identity) as session:
        record = asyncio.run(Run.on(settings, session, lambda *_: None).reword())
    click.echo(f"sglscout: {visible(wording(record))}", err=True)
