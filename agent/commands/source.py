"""`flags`, `rules`, `source`: what the code of an SGLang version says, with no model."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent.commands.options import once
from agent.views.words import plural
from transcripts.errors import UsageError

if TYPE_CHECKING:
    from tools.source import FlagCatalogue, Rule, Source

VERSION = click.option(
    "--version",
    "--sglang-version",
    "version",
    metavar="V",
    multiple=True,
    callback=once,
    help="Version of SGLang, like 0.5.9.",
)
TREE = click.option(
    "--source", "path", type=click.Path(path_type=Path), help="A tree or a .whl file instead of a release."
)
JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document.")


def print_document(document: dict[str, Any]) -> None:
    click.echo(json.dumps({"v": 1, **document}, ensure_ascii=False))


def say(text: str) -> None:
    """Text for a person, folded at the width of the terminal."""
    from agent.views.terminal import console

    console().print(text)


async def open_source(version: str | None, path: Path | None) -> Source:
    """The tree of a version or at a path. Raises Inconclusive, UsageError."""
    from agent.deployed import named_by
    from agent.settings import load_settings
    from agent.views.watching import download_progress
    from tools import source

    if version is None and path is None:
        raise UsageError("which SGLang to read is not known.", "Pass --version V or --source PATH.")
    with named_by("--version V or --source PATH"):
        return await source.obtain(
            version, path=path, cache=load_settings("playbook").cache, progress=download_progress(sys.stderr)
        )


def known(version: str | None, path: Path | None) -> tuple[FlagCatalogue, Sequence[Rule], Source | None]:
    """Flags and handler rules of a version; where the source is not to be had, those that ship, and a word of it."""
    from tools.source.released import catalogue_of
    from transcripts.errors import Inconclusive

    try:
        source = asyncio.run(open_source(version, path))
    except Inconclusive as error:
        shipped = catalogue_of(version) if version and path is None else None
        if shipped is None:
            raise
        click.echo(f"{error.message} Flags are from the catalogue that ships; help and rules are missing.", err=True)
        return shipped, (), None
    return source.catalogue(), source.handler_rules(), source


def must_be_released(version: str) -> None:
    """Raises NoSuchRelease for a version that the package index knows not to be; builds of one's own pass, and so does
    every version where no index is reached.
    """
    from tools.source.errors import NoSuchRelease, SourceUnavailable
    from tools.source.released import catalogue_of

    if ".dev" in version or "+" in version or catalogue_of(version) is not None:
        return
    try:
        asyncio.run(open_source(version, None))
    except NoSuchRelease:
        raise
    except SourceUnavailable:
        return


@click.command()
@click.argument("query", nargs=-1)
@VERSION
@TREE
@JSON
def flags(query: tuple[str, ...], version: str | None, path: Path | None, as_json: bool) -> int:
    """List the flags of a version, or those that QUERY is found in."""
    from tools.source.renames import by_help, by_name
    from tools.source.toolset import describe

    catalogue = known(version, path)[0]
    words = " ".join(query)
    named = by_name(words, catalogue) if words else list(catalogue.flags)
    mentioned = by_help(words, catalogue) if words else []
    found = [*named, *mentioned]
    if as_json:
        print_document({"version": catalogue.version, "flags": [flag.document() for flag in found]})
    elif not found:
        near = ", ".join(catalogue.nearest(words))
        say(f"no flag of sglang {catalogue.version} is about {words!r}." + (f" Nearest: {near}." if near else ""))
    elif words:
        said = [describe(flag) for flag in named or found]
        if named and mentioned:
            said.append("in the help text of: " + ", ".join(f"{flag.name} ({flag.at})" for flag in mentioned))
        say("\n".join(said))
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
@click.option("--all", "full", is_flag=True, help="Spell out what is not about FLAG itself, too.")
@JSON
def rules(flag: str, version: str | None, path: Path | None, full: bool, as_json: bool) -> int:
    """Show what the code of a version enforces or changes about FLAG, nearest first."""
    from tools.source.toolset import rules_text
    from tools.source.words import worded

    source = asyncio.run(open_source(version, path))
    found = source.rules(flag)
    if as_json:
        family, catalogue = source.family(flag), source.catalogue()
        rows = [
            {
                "kind": rule.kind,
                "condition": rule.condition,
                "where": list(rule.terms),
                "effect": worded(rule, catalogue),
                "flags": list(rule.flags),
                "source": rule.at,
                "quote": rule.quote,
                "also": list(rule.also),
                "own": family.flag in rule.flags,
            }
            for rule in found
        ]
        print_document({"version": source.version, "flag": catalogue.get(flag).name, "rules": rows})
    else:
        say(rules_text(found, source, flag, limit=len(found), full=full))
        if not full and any(source.family(flag).distance(rule) for rule in found):
            click.echo("--all spells every rule out, --json has them too.", err=True)
    return 0


@click.group()
def source() -> None:
    """List, fetch and prune cached SGLang trees."""


@source.command("list")
@JSON
def list_trees(as_json: bool) -> int:
    """List the cached trees."""
    trees = _store().trees()
    if as_json:
        print_document({"trees": trees})
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
            fetched = await open_source(version, None)
            fetched.catalogue()
            click.echo(f"{fetched.version} {fetched.digest}")

    asyncio.run(each())
    return 0


@source.command("prune")
@click.option("--keep", multiple=True, metavar="V", help="A version or digest to keep; may be repeated.")
@JSON
def prune_trees(keep: tuple[str, ...], as_json: bool) -> int:
    """Remove cached trees; a release that is needed again is fetched again."""
    store = _store()
    removed = store.prune(set(keep))
    if as_json:
        print_document({"removed": removed})
    else:
        freed = sum(tree["bytes"] for tree in removed) / (1 << 20)
        read = [tree for tree in store.trees() if not {tree["version"], tree["digest"]} & set(keep)]
        left = f" {plural(len(read), 'tree')} stay: another process reads them." if read else ""
        click.echo(f"{plural(len(removed), 'tree')} removed, {freed:.1f} MiB.{left}")
    return 0


def _store() -> Any:
    from agent.settings import load_settings
    from tools.source import TreeStore

    return TreeStore.at(load_settings("playbook").cache)
