"""`sessions`, `tasks`, `show`, `forget`: what the transcripts hold."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import click

from agent.commands.options import exclusive
from agent.settings import load_home
from transcripts.ids import when
from transcripts.reading import StoreError
from transcripts.store import Store

Json = dict[str, Any]
SHOWN: Final = 50
_ENDED: Final = {0: "done", 3: "inconclusive", 5: "limit", 130: "stopped"}


@click.group(invoke_without_command=True)
@click.option("--search", metavar="TEXT", default="", help="Only those that hold TEXT: id, host, questions, answers.")
@click.option("--all", "everything", is_flag=True, help="All of them, not the newest 50.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def sessions(context: click.Context, search: str, everything: bool, as_json: bool) -> None:
    """List sessions, newest first."""
    if context.invoked_subcommand is None:
        _list("session", search, everything, as_json)


@click.command()
@click.option("--search", metavar="TEXT", default="", help="Only those that hold TEXT: id, session, prompt, report.")
@click.option("--all", "everything", is_flag=True, help="All of them, not the newest 50.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def tasks(search: str, everything: bool, as_json: bool) -> None:
    """List research tasks, newest first."""
    _list("task", search, everything, as_json)


def _list(role: str, search: str, everything: bool, as_json: bool) -> None:
    store = Store(load_home())
    chosen = (row for row in _rows(store, role) if not search or _holds(store, row, search.lower()))
    listed = list(chosen if everything else islice(chosen, SHOWN))
    if as_json:
        click.echo(json.dumps({"v": 1, f"{role}s": listed}))
        return
    if not listed:
        click.echo(
            f"no {role} holds {search!r}." if search else f"no {role}s yet; `sglscout demo` makes the first.", err=True
        )
    width = shutil.get_terminal_size().columns
    for row in listed:
        head = f"{row['id']}  {row['at'][:16].replace('T', ' ')}  {row['status']:<12}  {row['host']}"
        click.echo(_cut(head, width))
        click.echo(_cut(f"  {row['text']}", width))


def _rows(store: Store, role: str) -> Iterator[Json]:
    """What a list tells of each transcript; one that cannot be read stands among the sessions, with the reason."""
    for name in store.ids():
        try:
            first, last = store.ends(name)
        except StoreError as error:
            if role == "session":
                yield {"id": name, "at": when(name), "status": "unreadable", "host": "", "text": str(error)}
        else:
            if first.get("role") == role:
                yield _row(first, last)


def _row(first: Json, last: list[Json]) -> Json:
    turn = next((each for each in reversed(last) if each["type"] in ("concluded", "said", "resumed", "opened")), first)
    status = "open"
    if turn["type"] == "concluded":
        ended = turn.get("exit", 1) if turn.get("case_exit") is None else turn["case_exit"]
        status = "stopped" if turn.get("state") == "stopped" else _ENDED.get(ended, "failed")
    target = first.get("target") or {}
    return {
        "id": first["id"],
        "at": first["at"],
        "status": status,
        "host": target.get("host", "") or first.get("parent", ""),
        "text": " ".join(str(first.get("description") or first.get("text", "")).split()),
    }


def _holds(store: Store, row: Json, wanted: str) -> bool:
    """Whether the row, or a question or an answer of its transcript, holds the text."""
    told = " ".join(str(value) for value in row.values())
    if wanted in told.lower():
        return True
    said = ("opened", "said", "concluded", "reported")
    return any(
        wanted in str(record.get("text", "")).lower() for record in store.peek(row["id"]) if record["type"] in said
    )


def _cut(text: str, width: int) -> str:
    """One line no wider than the terminal, with nothing in it that a terminal would act on."""
    from agent.views.words import columns, visible

    whole = visible(text.replace("\n", " ")).rstrip()
    shown = whole[:width]
    if shown == whole and columns(shown) <= width:
        return shown
    while columns(shown) > width - 1:
        shown = shown[:-1]
    return f"{shown.rstrip()}…"


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
    from agent.commands.records import read, tasks_of
    from agent.document import document as make_document
    from agent.views import terminal, transcript

    exclusive(("--html", html), ("--json", as_json), hint="Give one of them, or use `sglscout writeup`.")
    exclusive(("--html", html), ("--document", document), hint="Use `sglscout writeup ID -o FILE.html`.")
    stored, records = read(identity)
    if as_json and not document:
        click.echo(json.dumps({"v": 1, "records": stored}))
    elif document:
        made = make_document(Case.fold(records))
        if as_json:
            click.echo(json.dumps(made))
        else:
            terminal.console().print(terminal.render(made, whole=True))
    elif html is not None:
        from agent.views.files import put
        from agent.views.html import transcript as page

        told = transcript.entries(records, tasks_of(identity, records))
        put(html, page(f"Transcript of {Case.fold(records).opened.id}", told))
        click.echo(f"written: {html}", err=True)
    else:
        terminal.console().print(transcript.terminal(records))


@click.command()
@click.argument("identity", metavar="ID")
def forget(identity: str) -> None:
    """Delete a session with its evidence and its tasks."""
    for gone in Store(load_home()).forget(identity):
        click.echo(f"deleted {gone}", err=True)


sessions.add_command(forget)
