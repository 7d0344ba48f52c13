"""`sessions`, `tasks`, `show`, `forget`: what the transcripts hold."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import click

from agent.settings import load_home
from transcripts.store import Store

Json = dict[str, Any]
SHOWN = 50


@click.command()
@click.argument("query", required=False, default="")
@click.option("--all", "everything", is_flag=True, help="All of them, not the newest 50.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def sessions(query: str, everything: bool, as_json: bool) -> None:
    """List sessions, newest first; with QUERY only those whose complaint, host or id holds it."""
    _list("session", query, everything, as_json)


@click.command()
@click.argument("query", required=False, default="")
@click.option("--all", "everything", is_flag=True, help="All of them, not the newest 50.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def tasks(query: str, everything: bool, as_json: bool) -> None:
    """List research tasks, newest first; with QUERY only those whose description, parent or id holds it."""
    _list("task", query, everything, as_json)


def _list(role: str, query: str, everything: bool, as_json: bool) -> None:
    store = Store(load_home())
    rows = (_row(first, last) for first, last in store.heads() if first.get("role") == role)
    chosen = (row for row in rows if query.lower() in " ".join(str(value) for value in row.values()).lower())
    listed = list(chosen if everything else islice(chosen, SHOWN))
    if as_json:
        click.echo(json.dumps({"v": 1, f"{role}s": listed}))
        return
    if not listed:
        click.echo(
            f"no {role}s yet; `sglscout demo` makes the first." if not query else f"no {role} holds {query!r}.",
            err=True,
        )
    from agent.views.words import visible

    for row in listed:
        when = row["at"][:16].replace("T", " ")
        told = f"{row['id']}  {when}  {row['status']:<12} {row['host']:<12.12} {row['text'][:60]}"
        click.echo(visible(told).rstrip())


def _row(first: Json, last: Json) -> Json:
    status = "open"
    if last["type"] == "concluded":
        status = {0: "done", 3: "inconclusive", 5: "limit", 130: "stopped"}.get(last.get("exit", 1), "failed")
    target = first.get("target") or {}
    return {
        "id": first["id"],
        "at": first["at"],
        "status": status,
        "host": target.get("host", "") or first.get("parent", ""),
        "text": " ".join(str(first.get("description") or first.get("text", "")).split()),
    }


@click.command()
@click.argument("identity", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="The records, as one JSON document.")
@click.option(
    "--html", "html", type=click.Path(dir_okay=False, path_type=Path), help="The transcript as one HTML file."
)
@click.option("--document", is_flag=True, help="The diagnosis document instead of the conversation.")
def show(identity: str, as_json: bool, html: Path | None, document: bool) -> None:
    """Show the conversation of a session or task: what was asked, called, found and answered."""
    from agent.case import Case
    from agent.document import document as make_document
    from agent.views import terminal, transcript

    if as_json and not document:
        click.echo(json.dumps({"v": 1, "records": Store(load_home()).read(identity)}))
        return
    records = _records(identity)
    if document:
        made = make_document(Case.fold(records))
        if as_json:
            click.echo(json.dumps(made))
        else:
            terminal.console().print(terminal.render(made, whole=True))
    elif html is not None:
        from agent.views.files import put
        from agent.views.html import transcript as page

        put(html, page(f"Transcript of {records[0].id}", transcript.entries(records)))
        click.echo(f"written: {html}", err=True)
    else:
        terminal.console().print(transcript.terminal(records))


def _records(identity: str) -> list[Any]:
    """The records of a transcript that this version knows."""
    from transcripts.records import load

    return [record for each in Store(load_home()).read(identity) if (record := load(each)) is not None]


@click.command()
@click.argument("identity", metavar="ID")
def forget(identity: str) -> None:
    """Delete a session with its evidence and its tasks."""
    for gone in Store(load_home()).forget(identity):
        click.echo(f"deleted {gone}", err=True)
