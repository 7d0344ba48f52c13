"""`policy` and `redact`, and their evaluations: what may run on a host, and what may leave it."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from transcripts.errors import UsageError

if TYPE_CHECKING:
    from transcripts.score import Score

CHUNK_BYTES = 65_536


@click.command()
@click.argument("command")
@click.option("--user", default="root", show_default=True, help="The login that it would run as.")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=30000,
    show_default=True,
    help="The port at which the server listens.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def policy(command: str, user: str, port: int, as_json: bool) -> None:
    """Explain whether COMMAND may run on a host: allow runs, ask needs your yes, deny never runs. Nothing is run."""
    from tools.host.policy import judge

    verdict = judge(command, user=user, ports=frozenset({port}))
    if as_json:
        document = {
            "v": 1,
            "verdict": verdict.kind,
            "reason": verdict.reason,
            "position": verdict.position,
            "stages": [list(stage) for stage in verdict.stages],
            "command": verdict.command,
            "privacy": verdict.privacy,
        }
        click.echo(json.dumps(document))
        return
    click.echo(f"{verdict.kind}: {verdict.reason}")
    if verdict.position is not None:
        shown = "".join(mark if " " <= mark <= "~" else "?" for mark in command)
        start = max(0, verdict.position - 40)
        click.echo(f"  {shown[start : verdict.position + 30]}\n  {' ' * (verdict.position - start)}^")
    if verdict.command:
        click.echo(f"sent as: {verdict.command}")
    if verdict.paths:
        click.echo(f"looked up on the host and judged again first: {' '.join(verdict.paths)}")


@click.command()
@click.option(
    "--profile",
    type=click.Choice(["llm", "share"]),
    default="llm",
    show_default=True,
    help="llm hides secrets and prompts, share hosts and people too.",
)
@click.option(
    "--known",
    "known",
    type=click.Path(path_type=Path),
    help="A file of secrets, one a line, to hide wherever they stand.",
)
def redact(profile: str, known: Path | None) -> None:
    """Redact text from standard input."""
    from transcripts.redaction import Redactor

    redactor = Redactor("share" if profile == "share" else "llm")
    for value in _lines(known) if known else ():
        redactor.learn(value, "known")
    stream = redactor.stream()
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    while chunk := sys.stdin.buffer.read(CHUNK_BYTES):
        _write(stream.feed(decoder.decode(chunk)))
    _write(stream.feed(decoder.decode(b"", final=True)))
    _write(stream.finish())


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def eval_policy(file: Path, as_json: bool) -> None:
    """Score the command policy on FILE: command, verdict, reason, tab-separated."""
    from tools.host.policy import score

    _report(_scored(file, score), as_json)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def eval_redaction(file: Path, as_json: bool) -> None:
    """Score redaction on FILE: input, masked, kept, profile, tab-separated."""
    from transcripts.redaction import score

    _report(_scored(file, score), as_json)


def _scored(file: Path, score: Callable[[list[str]], Score]) -> Score:
    try:
        return score(_lines(file))
    except ValueError as error:
        raise UsageError(f"{file}: {error}.", "The columns are tab-separated, without a header.") from error


def _report(result: Score, as_json: bool) -> None:
    document = result.document()
    if as_json:
        click.echo(json.dumps(document))
        return
    click.echo(f"{result.right} of {result.n} right, {result.unsafe} unsafe")
    for wrong in document["wrong"]:
        click.echo(f"row {wrong['row']}: want {wrong['want']}, got {wrong['got']}")


def _lines(file: Path) -> list[str]:
    """The lines of a file that are not empty."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}.", "Give a text file in UTF-8.") from error
    return [line for line in text.split("\n") if line]


def _write(text: str) -> None:
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()
