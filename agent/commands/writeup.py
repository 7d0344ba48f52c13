"""`writeup`: the incident of a session as a document one can send."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command()
@click.argument("identity", metavar="ID")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File; standard output without.")
@click.option("--format", "form", type=click.Choice(["md", "html", "json"]), help="Else by the file's suffix, else md.")
@click.option("--share", is_flag=True, help="Hide hosts, addresses, users, serials and prompts as well.")
@click.option("--at", metavar="ID", default="", help="One decision of a long session: D2, or an id recorded before it.")
def writeup(identity: str, output: Path | None, form: str | None, share: bool, at: str) -> None:
    """Write the incident of a session up, from its transcript alone."""
    from agent.case import Case
    from agent.commands.records import read
    from agent.decisions import up_to
    from agent.document import document
    from agent.views import files
    from agent.views.share import shared

    _, records = read(identity)
    made = document(Case.fold(up_to(records, at) if at else records), latest=bool(at))
    if share:
        made = shared(made)
    if output is not None:
        files.write_up(output, made, form or "")
        click.echo(f"written: {output}", err=True)
    elif form is None and sys.stdout.isatty():
        from agent.views import paper, terminal

        terminal.console().print(paper.page(made))
    else:
        click.echo(files.dressed(made, form or "md"), nl=False)
