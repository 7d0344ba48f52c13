"""`sessions`, `tasks`, `show`, `writeup`, `forget`: what the transcripts hold."""

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
    for row in listed:
        when = row["at"][:16].replace("T", " ")
        click.echo(f"{row['id']}  {when}  {row['status']:<12} {row['host']:<12.12} {row['text'][:60]}")


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
    from transcripts.records import load

    store = Store(load_home())
    stored = store.read(identity)
    if as_json and not document:
        click.echo(json.dumps({"v": 1, "records": stored}))
        return
    records = [record for each in stored if (record := load(each)) is not None]
    if document:
        made = make_document(Case.fold(records))
        if as_json:
            click.echo(json.dumps(made))
        else:
            terminal.console().print(terminal.render(made))
    elif html is not None:
        from agent.views.html import transcript as page

        html.write_text(page(f"Transcript of {identity}", transcript.entries(records)), encoding="utf-8")
        click.echo(f"written: {html}", err=True)
    else:
        terminal.console().print(transcript.terminal(records))


@click.command()
@click.argument("identity", metavar="ID")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File; standard output without.")
@click.option("--format", "form", type=click.Choice(["md", "html", "json"]), help="Else by the file's suffix, else md.")
@click.option("--share", is_flag=True, help="Hide hosts, addresses, users, serials and prompts as well.")
def writeup(identity: str, output: Path | None, form: str | None, share: bool) -> None:
    """Write the incident of a session up, from its transcript alone."""
    from agent.case import Case
    from agent.document import document as make_document
    from agent.views.html import html
    from agent.views.markdown import markdown
    from transcripts.errors import UsageError
    from transcripts.records import load

    records = [record for each in Store(load_home()).read(identity) if (record := load(each)) is not None]
    made = make_document(Case.fold(records))
    if share:
        made = _shared(made)
    suffix = output.suffix.lstrip(".") if output else ""
    form = form or (suffix if suffix in ("html", "json") else "md")
    text = json.dumps(made, indent=1) + "\n" if form == "json" else (html if form == "html" else markdown)(made)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}.", "Give another file.") from error
    click.echo(f"written: {output}", err=True)


def _shared(value: Any) -> Any:
    """The document with every text redacted for people outside."""
    from transcripts.redaction import Redactor

    redactor = Redactor("share")

    def hidden(each: Any) -> Any:
        if isinstance(each, str):
            return redactor.redact(each)
        if isinstance(each, dict):
            return {key: hidden(item) for key, item in each.items()}
        return [hidden(item) for item in each] if isinstance(each, list) else each

    return hidden(value)


@click.command()
@click.argument("identity", metavar="ID")
def forget(identity: str) -> None:
    """Delete a session with its evidence and its tasks."""
    for gone in Store(load_home()).forget(identity):
        click.echo(f"deleted {gone}", err=True)
