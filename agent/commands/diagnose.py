"""`demo`, `diagnose`, `resume`, `chat`, `verify`: working on a case."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent.commands.options import HOST_NAMED, exclusive, model_of, model_options
from agent.settings import Settings, load_settings
from transcripts.errors import UsageError

if TYPE_CHECKING:
    from agent.views.watching import Watching

Json = dict[str, Any]
COMPLAINT = (
    "seems like I'm kinda low on max parallel request context, what options do we have for ram offload of kv cache?"
)

HOSTS = f"{HOST_NAMED}; again for nodes beside the first."


def case_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What every command that works on a case takes."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="The diagnosis as one JSON document on standard output."),
        click.option("--events", is_flag=True, help="Every record as a JSON line on standard output."),
        model_options,
        click.option("--source", type=click.Path(exists=True, path_type=Path), help="An SGLang tree of your own."),
        click.option("--sglang-version", "--version", help="Version to read where the host does not tell."),
        click.option("--writeup", type=click.Path(file_okay=False, path_type=Path), help="Folder for the write-up."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("name", required=False)
@click.option("--list", "listing", is_flag=True, help="Name the recorded hosts.")
@click.option(
    "--recorded", type=click.Path(exists=True, file_okay=False, path_type=Path), help="A recording of your own."
)
@click.option("--complaint", default=COMPLAINT, help="What the operator says.")
@case_options
def demo(name: str | None, listing: bool, recorded: Path | None, complaint: str, **options: Any) -> int:
    """Serve a recorded host over SSH on loopback and diagnose it like any other (default: slots)."""
    from tools.host import recorded as recordings

    exclusive(("--list", listing), ("NAME", name), ("--recorded", recorded))
    if listing:
        exclusive(("--list", listing), ("--events", options["events"]))
        if options["as_json"]:
            hosts = [{"name": each, "title": title} for each, title in recordings.names()]
            click.echo(json.dumps({"v": 1, "hosts": hosts}, ensure_ascii=False))
            return 0
        for each, title in recordings.names():
            click.echo(f"{each:<8} {title}")
        return 0
    if recorded:
        target = {"kind": "recorded", "recording": str(recorded.resolve()), "host": f"recorded:{recorded.name}"}
        return _start(target, complaint, options)
    return _start(_recorded(name or "slots"), complaint, options)


def _recorded(name: str) -> Json:
    """A recorded host that ships with the program, as a target. Raises UsageError for a name that none has."""
    from tools.host import recorded as recordings

    names = [each for each, _ in recordings.names()]
    if name not in names:
        raise UsageError(f"no recorded host is named {name!r}.", f"There are: {', '.join(names)}.")
    return {"kind": "recorded", "recording": name, "host": f"recorded:{name}"}


@click.command()
@click.argument("complaint")
@click.option("--host", "hosts", multiple=True, help=HOSTS)
@click.option(
    "--bundle", type=click.Path(exists=True, path_type=Path), help="A bundle, folder, log or collected output."
)
@case_options
def diagnose(complaint: str, hosts: tuple[str, ...], bundle: Path | None, **options: Any) -> int:
    """Find the cause of COMPLAINT on a host, and the change that helps."""
    return _start(_target(hosts, bundle), complaint, options)


@click.command()
@click.argument("identity", metavar="ID")
@click.argument("follow_up", required=False, default="")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.option("--events", is_flag=True, help="Every record as a JSON line on standard output.")
@click.option("--writeup", type=click.Path(file_okay=False, path_type=Path), help="Folder for the write-up.")
def resume(identity: str, follow_up: str, **options: Any) -> int:
    """Continue a session or a task by its ID, with FOLLOW_UP as the next question if given."""
    from agent.run import Run, take_up

    _one_form(options)
    settings = load_settings()
    with take_up(settings, identity) as session:
        if session.case.opened.role == "session":
            return _work(settings, session, follow_up, options)
        if options["writeup"]:
            raise UsageError(f"{session.id} is a task, and has no write-up of its own.", "Leave --writeup out.")

        _warn_of_damage(session.id, session.case.damage)
        watching = _watching(options)
        session.watchers.append(lambda record: watching.task(session.id, record))

        async def research() -> tuple[str, int]:
            run = Run.on(settings, session, _progress(options))
            async with run.bench:
                return await run.research(follow_up)

        text, code = asyncio.run(research())
        if options["events"]:
            return code
        if options["as_json"]:
            click.echo(json.dumps({"v": 1, "task": session.id, "text": text}))
        else:
            from agent.views import terminal

            terminal.console().print(terminal.spoken(text, ()))
    return code


@click.command()
@click.argument("identity", metavar="ID")
@click.option(
    "--bundle",
    type=click.Path(exists=True, path_type=Path),
    help="A newer bundle, folder or log, in place of the host.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def verify(identity: str, bundle: Path | None, as_json: bool) -> int:
    """Look again at the host of session ID: what its advice expected, and what is there now."""
    from agent.run import Run, take_up

    settings = load_settings()
    with take_up(settings, identity) as session:
        _warn_of_damage(session.id, session.case.damage)
        if session.case.advised is None or not session.case.advised.changes:
            raise UsageError(
                f"{session.id} recommended no change, so there is nothing to verify.", "See `sglscout show`."
            )

        async def look_again() -> list[Json]:
            run = Run.on(settings, session, _progress({}))
            async with run.bench:
                if bundle is not None:
                    await run.bench.look_at(bundle)
                return await run.verify()

        rows = asyncio.run(look_again())
    if as_json:
        click.echo(json.dumps({"v": 1, "session": session.id, "expectations": rows}))
    else:
        from agent.views import terminal

        terminal.console().print(terminal.verification(rows))
    return 0 if rows and all(row["outcome"] == "met" for row in rows) else 3


@click.command()
@click.option("--host", "hosts", multiple=True, help=HOSTS)
@click.option("--bundle", type=click.Path(exists=True, path_type=Path), help="A bundle, folder or log.")
@click.option("--demo", "recording", help="A recorded host that ships with the program.")
@click.option("--resume", "identity", metavar="ID", help="Continue an earlier session.")
@click.option("--complaint", default="", help="What the case is about, when the first line asks something else.")
@model_options
def chat(
    hosts: tuple[str, ...],
    bundle: Path | None,
    recording: str | None,
    identity: str | None,
    complaint: str,
    model: str | None,
    model_from_host: bool,
) -> int:
    """Ask, answer, follow up; `/help` names the commands."""
    from agent.repl import talk

    exclusive(("--host", any(hosts)), ("--bundle", bundle), ("--demo", recording), ("--resume", identity))
    named = model_of(model, model_from_host)
    exclusive(
        ("--resume", identity),
        ("--complaint", complaint),
        ("--model-from-host" if model_from_host else "--model", named),
        hint="A session goes on as it was opened: leave it out.",
    )
    settings = load_settings(named)
    target: Json | None = None
    if recording:
        target = _recorded(recording)
        complaint = complaint or COMPLAINT
    elif identity is None:
        target = _target(hosts, bundle, "--demo NAME (such as slots)", "--resume ID")
    return asyncio.run(talk(settings, target, identity, complaint))


def _target(hosts: tuple[str, ...], bundle: Path | None, *others: str) -> Json:
    """The host under diagnosis, which is the first, and those named beside it; or the bundle.

    Raises UsageError without either, naming the `others` that the command takes.
    """
    exclusive(("--host", hosts), ("--bundle", bundle))
    if bundle:
        from tools.host import check_bundle

        check_bundle(bundle)  # before a session is made of it
        return {"kind": "bundle", "path": str(bundle.resolve()), "host": bundle.name}
    if not any(hosts):
        known = ", ".join(["--host USER@HOST", "--host local", "--bundle PATH", *others])
        raise UsageError("no host is given.", f"Pass one of {known}; or try `sglscout demo`.")
    host, *beside = dict.fromkeys(hosts)
    return {"kind": "local" if host == "local" else "ssh", "host": host, **({"beside": beside} if beside else {})}


def _start(target: Json, complaint: str, options: Json) -> int:
    from agent.commands.source import must_be_released
    from agent.run import start

    _one_form(options)
    if not complaint.strip():
        raise UsageError("the complaint is empty.", "Say in a sentence what hurts.")
    settings = load_settings(model_of(options["model"], options["model_from_host"]))
    if options["source"]:
        target["source"] = str(options["source"].resolve())
    if options["sglang_version"]:
        if not options["source"]:
            must_be_released(options["sglang_version"])
        target["version"] = options["sglang_version"]
    with start(settings, target, complaint) as session:
        return _work(settings, session, "", options)


def _work(settings: Settings, session: Any, follow_up: str, options: Json) -> int:
    from agent.run import Run, exit_code

    async def work() -> Json:
        run = Run.on(settings, session, _progress(options))
        watching = _watching(options)
        session.watchers.append(watching.session)
        run.tasks.watchers.append(watching.task)
        async with run.bench:
            with watching:
                return await run.answer(follow_up)

    click.echo(f"session {session.id}", err=True)
    _warn_of_damage(session.id, session.case.damage)
    made = asyncio.run(work())
    _print(made, session, follow_up, options)
    if session.case.stopped:
        click.echo(f"The diagnosis itself is still stopped: `sglscout resume {session.id}` goes on with it.", err=True)
    return session.case.concluded.exit if follow_up else exit_code(session)


def _print(made: Json, session: Any, follow_up: str, options: Json) -> None:
    if options["writeup"]:
        from agent.views.files import put_into

        put_into(options["writeup"], session.id, made)
    if options["events"]:
        return
    if options["as_json"]:
        click.echo(json.dumps(made))
        return
    from agent.grounding import commands_of
    from agent.views import terminal

    case = session.case
    if follow_up and not case.decisions[-1].whole:
        terminal.console().print(terminal.spoken(case.decisions[-1].text, commands_of(case)))
    else:
        terminal.console().print(terminal.render(made))
        click.echo(f"write-up, and as HTML beside it:\n{session.transcript.folder / 'writeup.md'}", err=True)


def _one_form(options: Json) -> None:
    """What is read from standard output is one document, or one record a line."""
    exclusive(("--json", options["as_json"]), ("--events", options["events"]))


def _watching(options: Json) -> Watching:
    from agent.views.watching import Watching

    return Watching(sys.stderr, events=sys.stdout if options["events"] else None)


def _progress(options: Json) -> Callable[[str, int, int | None], None]:
    from agent.views.watching import download_progress

    return download_progress(sys.stderr)


def _warn_of_damage(identity: str, damage: list[str]) -> None:
    from agent.commands.records import warn_of_damage

    warn_of_damage(identity, damage)
