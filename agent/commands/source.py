"""`flags`, `rules`, `check`, `upgrade`, `source`: what the code of an SGLang version says, with no model."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tools.source import FlagCatalogue, Rule, Source
    from tools.source.launch import Problem

VERSION = click.option("--version", "version", metavar="V", help="Version of SGLang, like 0.5.9.")
TREE = click.option(
    "--source", "path", type=click.Path(path_type=Path), help="A tree or a .whl file instead of a release."
)
HOST = click.option("--host", metavar="H", help="The version that runs on this host, [user@]host[:port].")
JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document.")


def _print(document: dict[str, Any]) -> None:
    click.echo(json.dumps({"v": 1, **document}, ensure_ascii=False))


def _progress() -> Callable[[str, int, int | None], None]:
    """Lines on standard error, rewritten in place on a terminal."""
    shown: set[str] = set()

    def report(what: str, done: int, whole: int | None) -> None:
        if sys.stderr.isatty() and whole:
            end = "\n" if done >= whole else ""
            click.echo(f"\r{what}: {done * 100 // whole} %{end}", err=True, nl=False)
        elif what not in shown:
            shown.add(what)
            click.echo(what, err=True)

    return report


async def _open(version: str | None, path: Path | None, host: str | None = None) -> Source:
    from agent.settings import load_settings
    from tools import source

    cache = load_settings("playbook").cache
    if host is not None and version is None and path is None:
        version = await _version_on(host)
    return await source.obtain(version, path=path, cache=cache, progress=_progress())


async def _version_on(target: str) -> str:
    """The version that a host runs, from its files. Raises HostError, Inconclusive."""
    from tools import host as hosts
    from tools.host.parsers import parse
    from transcripts.errors import Inconclusive
    from transcripts.facts import Fact, Facts

    facts: list[Fact] = []
    async with hosts.connect(target) as host:
        async for seen in hosts.look(host):
            facts += parse(seen.evidence("E1"))
    version = Facts(facts).text("version")
    if not version:
        raise Inconclusive(f"which SGLang {target} runs was not found out.", "Pass --version V or --source PATH.")
    return version


def _known(
    version: str | None, path: Path | None, host: str | None = None
) -> tuple[FlagCatalogue, Sequence[Rule], Source | None]:
    """Flags and handler rules of a version; where the source is not to be had, those that ship, and a word of it."""
    from tools.source.released import catalogue_of
    from transcripts.errors import Inconclusive

    try:
        source = asyncio.run(_open(version, path, host))
    except Inconclusive as error:
        shipped = catalogue_of(version) if version and path is None else None
        if shipped is None:
            raise
        click.echo(f"{error.message} Flags are from the catalogue that ships; help and rules are missing.", err=True)
        return shipped, (), None
    return source.catalogue(), source.handler_rules(), source


@click.command()
@click.argument("query", nargs=-1)
@VERSION
@TREE
@JSON
def flags(query: tuple[str, ...], version: str | None, path: Path | None, as_json: bool) -> int:
    """List the flags of a version, or those that QUERY is found in."""
    from tools.source.toolset import describe

    catalogue = _known(version, path)[0]
    words = " ".join(query)
    found = catalogue.matching(words) if words else list(catalogue.flags)
    if as_json:
        _print({"version": catalogue.version, "flags": [flag.document() for flag in found]})
    elif not found:
        near = ", ".join(catalogue.nearest(words))
        click.echo(
            f"no flag of sglang {catalogue.version} is about {words!r}." + (f" Nearest: {near}." if near else "")
        )
    elif words:
        click.echo("\n".join(describe(flag) for flag in found))
    else:
        width = max(len(flag.name) for flag in found)
        for flag in found:
            kind = flag.type if flag.takes_value else "switch"
            click.echo(f"{flag.name:{width}}  {kind:8} {flag.at}{'  deprecated' if flag.deprecated else ''}")
    return 0 if found else 3


@click.command()
@click.argument("flag")
@VERSION
@TREE
@JSON
def rules(flag: str, version: str | None, path: Path | None, as_json: bool) -> int:
    """Show what the code of a version enforces or changes about FLAG, nearest first."""
    from tools.source.toolset import rules_text

    source = asyncio.run(_open(version, path))
    found = source.rules(flag)
    if as_json:
        family = source.family(flag)
        rows = [
            {
                "kind": rule.kind,
                "condition": rule.condition,
                "where": list(rule.terms),
                "effect": rule.effect,
                "flags": list(rule.flags),
                "source": rule.at,
                "quote": rule.quote,
                "own": family.flag in rule.flags,
            }
            for rule in found
        ]
        _print({"version": source.version, "flag": source.catalogue().get(flag).name, "rules": rows})
    else:
        click.echo(rules_text(found, source, flag, limit=len(found)))
    return 0


@click.command()
@click.argument("command")
@VERSION
@HOST
@TREE
@JSON
def check(command: str, version: str | None, host: str | None, path: Path | None, as_json: bool) -> int:
    """Check the launch command COMMAND (quote it; `-` reads standard input) against a version."""
    from tools.source import parse_launch
    from tools.source.launch import check as checked

    text = sys.stdin.read() if command == "-" else command
    catalogue, rules_of_handlers, _ = _known(version, path, host)
    found = checked(parse_launch(text, catalogue), catalogue, rules_of_handlers)
    if as_json:
        _print({"version": catalogue.version, "problems": [problem.document() for problem in found]})
    else:
        _say(found, f"sglang {catalogue.version} takes this command as it stands.")
    return 3 if any(problem.severity == "error" for problem in found) else 0


def _say(problems: tuple[Problem, ...], otherwise: str) -> None:
    for problem in problems:
        click.echo(f"{problem.severity:7} {problem.flag}: {problem.message}")
        if problem.instead:
            click.echo(f"        use {problem.instead}")
        if problem.at:
            click.echo(f"        {problem.at}{': ' + problem.quote if problem.quote else ''}")
    if not problems:
        click.echo(otherwise)


@click.command()
@click.argument("before")
@click.argument("after")
@click.option("--for", "command", metavar="COMMAND", help="What happens to this launch command.")
@JSON
def upgrade(before: str, after: str, command: str | None, as_json: bool) -> int:
    """Show what changes from version BEFORE to version AFTER, for all flags or for one command."""
    from tools.source import parse_launch
    from tools.source.pools import pool_notes
    from tools.source.upgrade import compare, for_command

    old, _, old_source = _known(before, None)
    new, new_rules, new_source = _known(after, None)
    result = compare(old, new)
    problems: tuple[Problem, ...] = ()
    if command is not None:
        _, problems = for_command(command, old, new, result, new_rules)
        if old_source is not None and new_source is not None:
            problems += asyncio.run(pool_notes(parse_launch(command, old), old_source, new_source))
    if as_json:
        _print(
            {
                "before": result.before,
                "after": result.after,
                "added": [flag.document() for flag in result.added],
                "removed": [flag.document() for flag in result.removed],
                "renamed": [change.document() for change in result.renamed],
                "changed": [change.document() for change in result.changed],
                "problems": [problem.document() for problem in problems],
            }
        )
    elif command is not None:
        _say(problems, f"nothing happens to this command from {before} to {after}.")
    else:
        click.echo(f"removed ({len(result.removed)}): {', '.join(flag.name for flag in result.removed) or 'none'}")
        for change in result.renamed:
            click.echo(f"renamed  {change.before} -> {change.after}  ({change.at})")
        for change in result.changed:
            row = change.document()
            click.echo(
                f"{change.what:8} {change.flag}: {_short(row['before'])} -> {_short(row['after'])}  ({change.at})"
            )
        click.echo(f"added ({len(result.added)}): {', '.join(flag.name for flag in result.added) or 'none'}")
    return 3 if any(problem.severity == "error" for problem in problems) else 0


def _short(value: Any) -> str:
    text = ", ".join(str(each) for each in value) if isinstance(value, list) else repr(value)
    return text if len(text) <= 160 else text[:157] + "..."


@click.group()
def source() -> None:
    """List, fetch and prune cached SGLang trees."""


@source.command("list")
@JSON
def list_trees(as_json: bool) -> int:
    """List the cached trees."""
    trees = _store().trees()
    if as_json:
        _print({"trees": trees})
        return 0
    for tree in trees:
        mib = tree["bytes"] / (1 << 20)
        kind = "released" if tree["released_as"] else "local"
        click.echo(f"{tree['version'] or '?':14} {tree['digest']}  {tree['files']:5} files {mib:6.1f} MiB  {kind}")
    if not trees:
        click.echo("no tree is cached.")
    return 0


@source.command("fetch")
@click.argument("versions", nargs=-1, required=True)
def fetch_trees(versions: tuple[str, ...]) -> int:
    """Fetch the releases VERSIONS, for work without a package index."""

    async def each() -> None:
        for version in versions:
            fetched = await _open(version, None)
            fetched.catalogue()
            click.echo(f"{fetched.version} {fetched.digest}")

    asyncio.run(each())
    return 0


@source.command("prune")
@click.option("--keep", multiple=True, metavar="V", help="A version or digest to keep; may be repeated.")
@JSON
def prune_trees(keep: tuple[str, ...], as_json: bool) -> int:
    """Remove cached trees; a release that is needed again is fetched again."""
    removed = _store().prune(set(keep))
    if as_json:
        _print({"removed": removed})
    else:
        freed = sum(tree["bytes"] for tree in removed) / (1 << 20)
        click.echo(f"{len(removed)} trees removed, {freed:.1f} MiB.")
    return 0


def _store() -> Any:
    from agent.settings import load_settings
    from tools.source import TreeStore

    return TreeStore.at(load_settings("playbook").cache)
