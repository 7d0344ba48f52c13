"""`trust` and `collect`: a host's key, and its evidence taken along."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import secrets
import sys
import tarfile
from pathlib import Path
from typing import Any, Literal

import click

from agent.commands.options import exclusive, one_host
from transcripts.errors import UsageError


@click.command()
@click.argument("host")
@click.option("--fingerprint", help="SHA256:… as the host's operator gave it; then nothing is asked.")
def trust(host: str, fingerprint: str | None) -> int:
    """Show the key that HOST ([USER@]HOST[:PORT]) presents, and remember it if you say so."""
    from tools.host import known_hosts
    from tools.host.ssh import SshTransport

    route, kind, key = asyncio.run(SshTransport.host_key(host))
    shown = known_hosts.fingerprint(key)
    click.echo(f"{route.alias} port {route.port}: {kind} {shown}")
    known = known_hosts.keys_for(route.known_as, route.port, route.known_hosts)
    if any(each.key == key and not each.revoked for each in known):
        click.echo("this key is known already.", err=True)
        return 0
    if any(each.kind == kind for each in known):
        raise UsageError(
            "another key of this kind is remembered.", f"Remove its line from {route.known_hosts[0]} first."
        )
    if fingerprint is not None and fingerprint != shown:
        raise UsageError(f"the host shows {shown}, not {fingerprint}.", "Do not connect; ask who runs the host.")
    if fingerprint is None:
        if not sys.stdin.isatty():
            raise UsageError(
                "nobody is here to compare the fingerprint.", f"Pass --fingerprint {shown} if it is right."
            )
        click.confirm("Is this the fingerprint that the host itself shows?", abort=True, err=True)
    known_hosts.remember(route.known_hosts[0], route.known_as[0], route.port, kind, key)
    click.echo(f"remembered in {route.known_hosts[0]}.", err=True)
    return 0


@click.command()
@one_host()
@click.option("--script", "as_script", is_flag=True, help="Print a script to run where nobody may log in.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="The bundle, a .tar.gz.")
@click.option("--profile", type=click.Choice(["llm", "share"]), default="llm", help="How much redaction hides.")
def collect(host: str | None, as_script: bool, output: Path | None, profile: Literal["llm", "share"]) -> int:
    """Collect the standard evidence of a host, redacted, into a bundle for `--bundle`."""
    if as_script:
        exclusive(("--script", as_script), ("--host", host))
        exclusive(("--script", as_script), ("-o", output), hint="Write `sglscout collect --script > FILE`.")
        click.echo(collection_script(), nl=False)
        return 0
    if not host or not output:
        raise UsageError(
            "collect needs --host and -o FILE.tar.gz.", "Or --script, for a box that nobody may log in to."
        )
    rows, members = asyncio.run(_collected(host, profile))
    _write(output, host, rows, members)
    click.echo(f"{len(rows)} looks, written to {output}", err=True)
    return 0


def collection_script() -> str:
    """A script that asks what `look` asks, and prints what `--bundle` reads. Its output is not redacted."""
    from tools.host import STANDARD
    from tools.host.framing import compose

    marker = secrets.token_hex(16)
    head = (
        "#!/bin/sh\n"
        "# Reads what a diagnosis needs and writes nothing but its standard output: sh collect.sh > collected.txt\n"
        "# Look through that file before you hand it on: it is not redacted until `sglscout --bundle` reads it.\n"
        f"printf 'sglscout-collected %s %s\\n' {marker} \"$(uname -n)\"\n"
    )
    return head + compose(STANDARD, marker)


async def _collected(host: str, profile: Literal["llm", "share"]) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    from tools.host import connect, look
    from transcripts.redaction import Redactor

    redactor = Redactor(profile)
    rows: list[dict[str, Any]] = []
    members: dict[str, bytes] = {}
    async with connect(host) as connected:
        async for seen in look(connected, redact=redactor.redact, learn=redactor.learn_from):
            name = f"{seen.probe}.txt"
            members[name] = seen.text.encode("utf-8", "replace")
            rows.append(
                {
                    "probe": seen.probe,
                    "command": seen.command,
                    "at": seen.at,
                    "exit": seen.exit,
                    "truncated": seen.truncated,
                    "seconds": seen.seconds,
                    "problem": seen.problem,
                    "file": name,
                    "sha256": hashlib.sha256(members[name]).hexdigest(),
                }
            )
    return rows, members


def _write(output: Path, host: str, rows: list[dict[str, Any]], members: dict[str, bytes]) -> None:
    manifest = {"v": 1, "host": host.rpartition("@")[2], "evidence": rows}
    members = {"manifest.json": json.dumps(manifest, indent=1).encode(), **members}
    try:
        with tarfile.open(output, "w:gz") as archive:
            for name, data in members.items():
                entry = tarfile.TarInfo(f"sglscout/{name}")
                entry.size = len(data)
                entry.mode = 0o600
                archive.addfile(entry, io.BytesIO(data))
        output.chmod(0o600)
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}.", "Give another file.") from error
