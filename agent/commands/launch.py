"""`check` and `upgrade`: a launch command held against the code of a version or a host; what versions change."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent.commands.options import exclusive, one_host
from agent.commands.source import JSON, TREE, VERSION, known, print_document, say
from transcripts.errors import HostError, Inconclusive, UsageError

if TYPE_CHECKING:
    from agent.views.layout import Line
    from tools.source import FlagCatalogue, Rule, Source
    from tools.source.problem import Problem
    from tools.source.upgrade import Change, Upgrade
    from transcripts.facts import Facts


@dataclass(frozen=True, slots=True)
class Deployed:
    """What a host runs: its tree where it could be read, the version its files tell, its command line, and the
    architecture of its model where that is known.
    """

    source: Source | None
    version: str
    command: str
    architecture: str = ""


@click.command()
@click.argument("command", required=False)
@VERSION
@one_host("The tree that this host runs, [user@]host[:port] or `local`; and its command line.", "H")
@TREE
@click.option(
    "--model-config",
    "config",
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE",
    help="The model's config.json, or its folder: rules for its architecture are weighed, too.",
)
@JSON
def check(
    command: str | None, version: str | None, host: str | None, path: Path | None, config: Path | None, as_json: bool
) -> int:
    """Check the launch command COMMAND (quote it; `-` reads standard input) against a version.

    A unit, compose file, manifest or script may stand for it: `sglscout check - <FILE`. What rules ask of the
    platform is answered for NVIDIA GPUs, unless the command names another `--device`.

    Without COMMAND, what --host runs is checked against the tree it was started from, patched or not.
    """
    from agent.deployed import differs
    from tools.source import parse_launch
    from tools.source.check import check as checked
    from tools.source.serve import front_of
    from tools.source.translated import as_started, translated

    deployed = asyncio.run(_deployed(host, version, path)) if host is not None else None
    if deployed is not None and command is None:
        command = deployed.command
    if command is None:
        raise UsageError("there is no launch command to check.", "Give it in quotes, `-`, or --host H alone.")
    text = _text_of(command)
    if deployed is None and version is None and path is None:
        version = _named(text)
    catalogue, rules, source = _judge(deployed, version, path)
    other = as_started(text)
    words = _words(text) if other is None else other[1]
    launch = parse_launch(words, catalogue)
    front = front_of(source) if source is not None and launch.serve else None
    model = _architecture(config) if config is not None else deployed.architecture if deployed is not None else ""
    found = checked(launch, catalogue, rules, front, source, model)
    if other is not None:
        found = (translated(words, other[0], catalogue), *found)
    found = (*found, *_around(text))
    local = differs(source) if source is not None else ()
    if as_json:
        document: dict[str, Any] = {"version": catalogue.version, "problems": [each.document() for each in found]}
        if deployed is not None:
            origin = source.origin if source is not None else "release"
            document |= {"source": origin, "source_differs": list(local), "command": text}
        print_document(document)
    else:
        if deployed is not None and deployed.command == text:
            say(f"{host} runs: {text}")
        if local:
            say(f"the tree of {host} is not the release {catalogue.version}: {', '.join(local)}")
        _say_problems(found)
        if all(problem.severity == "note" for problem in found):
            say(f"sglang {catalogue.version} takes this command as it stands.")
    return 3 if any(problem.severity == "error" for problem in found) else 0


def _named(text: str) -> str | None:
    """The version that the text itself names, said as it is taken. Raises UsageError where it names several."""
    from tools.source import versions_named

    found = versions_named(text)
    if len(found) > 1:
        said = f"it names several versions of SGLang: {', '.join(found)}."
        raise UsageError(said, "Pass --version V or --source PATH.")
    if found:
        click.echo(f"checked against sglang {found[0]}, which the text names; --version V takes another.", err=True)
    return found[0] if found else None


def _text_of(command: str) -> str:
    """The command as typed, or what standard input holds. Raises UsageError for the path of a file."""
    if command == "-":
        return sys.stdin.read()
    if len(command.split()) == 1 and Path(command).is_file():
        raise UsageError(
            f"{command} is a file, no launch command.", f"Give what it holds: `sglscout check - < {command}`."
        )
    return command


def _around(text: str) -> Iterator[Problem]:
    """What stands around the command in its file and does not fit it."""
    from tools.advice import launch_in, surroundings
    from tools.source.problem import Problem

    launch = launch_in(text)
    for each in surroundings(launch) if launch is not None else ():
        yield Problem("around", "warning", each.about if each.about.startswith("--") else "", each.text)


def _words(text: str) -> str | tuple[str, ...]:
    """A command as typed; of a file that holds one (a unit, a compose file, a manifest, a script) its words."""
    from tools.advice import launch_in
    from tools.entry_point import ROUTER
    from tools.source.begun import begun_in, continued, lost_in

    text = continued(text)
    launch = None
    if lost_in(text):
        return text
    if "\n" in text.strip():
        launch = launch_in(text)
    else:
        try:
            begun_in(text)
        except UsageError:  # `docker run IMAGE --model-path …`, and what else only names its options
            launch = launch_in(text)
    if launch is None:
        return text
    begins = launch.words[launch.entry - 1].text if launch.entry else ""
    begins = begins if begins in ("serve", ROUTER) else "sglang.launch_server"
    return (*(f"{name}={value}" for name, value in launch.environment.items()), "sglang", begins, *launch.options)


def _judge(
    deployed: Deployed | None, version: str | None, path: Path | None
) -> tuple[FlagCatalogue, Sequence[Rule], Source | None]:
    """Flags, handler rules and tree to hold a command against: what was named, else what the host runs."""
    if deployed is None or version is not None or path is not None:
        return known(version, path)
    if deployed.source is not None:
        return deployed.source.catalogue(), deployed.source.handler_rules(), deployed.source
    return known(deployed.version, None)


async def _deployed(target: str, version: str | None, path: Path | None) -> Deployed:
    """One look at a host. Raises HostError, Inconclusive when it does not tell what runs there."""
    from agent.deployed import facts_of, tree_of
    from agent.settings import load_settings
    from agent.views.watching import download_progress
    from tools.host import connect
    from tools.source.architecture import named_in_text

    async with connect(target) as host:
        facts = await facts_of(host)
        tells, source = facts.text("version"), None
        if version is None and path is None:
            try:
                cache = load_settings("playbook").cache
                source = await tree_of(host, facts, tells, cache, download_progress(sys.stderr))
            except (Inconclusive, HostError) as error:
                click.echo(f"the tree on {target} was not read, the release is read instead: {error.message}", err=True)
            if source is None and not tells:
                raise Inconclusive(
                    f"which SGLang {target} runs was not found out.", "Pass --version V or --source PATH."
                )
    return Deployed(source, tells, _running(facts, target), named_in_text(facts.text("model_config", "")))


def _architecture(config: Path) -> str:
    """What a model's config.json names. Raises UsageError where it names nothing."""
    from agent.commands.capacity import config_in
    from tools.source.architecture import named_by_config

    found = named_by_config(config_in(config)[0])
    if not found:
        raise UsageError(f"{config} names no architecture.", "Give the config.json of the model that is served.")
    return found


def _running(facts: Facts, target: str) -> str:
    """The command line that a host's server was started with. Raises Inconclusive."""
    command = facts.text("launch_argv")
    if not command:
        raise Inconclusive(f"no SGLang server runs on {target}.", "Give the launch command to check.")
    return command


def _say_problems(problems: Sequence[Problem]) -> None:
    from agent.views.layout import Page
    from agent.views.terminal import console

    if problems:
        console().print(Page(lambda width: [line for each in problems for line in _problem(each, width)]))


def _problem(problem: Problem, width: int) -> Iterator[Line]:
    from agent.views.layout import paragraph

    said = problem.message if problem.message.startswith(problem.flag) else f"{problem.flag}: {problem.message}"
    yield from paragraph(f"{problem.severity:7} {said}", width, hanging=8)
    if problem.kind == "abbreviation":
        return
    if problem.instead:
        yield from paragraph(f"use {problem.instead}", width, 8)
    if problem.at:
        yield from paragraph(f"{problem.at}{': ' + problem.quote if problem.quote else ''}", width, 8, 2)


@click.command()
@click.argument("before")
@click.argument("after")
@click.argument("command", required=False)
@click.option("--for", "asked", metavar="COMMAND", help="The same as COMMAND.")
@click.option(
    "--model-config",
    "config",
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE",
    help="The model's config.json, or its folder: rules for its architecture are weighed, too.",
)
@JSON
def upgrade(before: str, after: str, command: str | None, asked: str | None, config: Path | None, as_json: bool) -> int:
    """Show what changes from version BEFORE to version AFTER: for all flags, or for the launch command COMMAND (quote
    it; `-` reads standard input).
    """
    from tools.source import parse_launch
    from tools.source.pools import pool_notes
    from tools.source.upgrade import Known, compare, for_command

    exclusive(("COMMAND", command), ("--for", asked))
    command = command or asked
    if command is None and config is not None:
        raise UsageError("--model-config goes with a launch command.", "Give it in quotes, as third argument.")
    model = _architecture(config) if config is not None else ""
    old, new = Known(*known(before, None)), Known(*known(after, None))
    result = compare(old.catalogue, new.catalogue)
    problems: tuple[Problem, ...] = ()
    if command is not None:
        words = _words(_text_of(command))
        _, problems = for_command(words, old, new, result, model)
        if old.source is not None and new.source is not None:
            problems += asyncio.run(pool_notes(parse_launch(words, old.catalogue), old.source, new.source))
    if as_json:
        print_document(
            {
                "before": result.before,
                "after": result.after,
                "direction": result.direction,
                "added": [flag.document() for flag in result.added],
                "removed": [flag.document() for flag in result.removed],
                "renamed": [change.document() for change in result.renamed],
                "changed": [change.document() for change in result.changed],
                "problems": [problem.document() for problem in problems],
            }
        )
    else:
        say(f"{result.direction} from sglang {result.before} to {result.after}")
        if command is not None:
            _say_problems(problems)
            if not problems:
                say("nothing happens to this command.")
        else:
            _say_changes(result)
    return 3 if any(problem.severity == "error" for problem in problems) else 0


def _say_changes(result: Upgrade) -> None:
    from agent.views.layout import Page, paragraph
    from agent.views.terminal import console

    def lines(width: int) -> Iterator[Line]:
        removed = ", ".join(flag.name for flag in result.removed) or "none"
        yield from paragraph(f"removed ({len(result.removed)}): {removed}", width, hanging=9)
        for change in result.renamed:
            yield from paragraph(f"renamed  {change.before} -> {change.after}  ({change.at})", width, hanging=9)
        for change in result.changed:
            what = _changed_to(change)
            yield from paragraph(f"{change.what:8} {change.flag}: {what}  ({change.at})", width, hanging=9)
        added = ", ".join(flag.name for flag in result.added) or "none"
        yield from paragraph(f"added ({len(result.added)}): {added}", width, hanging=9)

    console().print(Page(lines))


def _changed_to(change: Change) -> str:
    """What a change is from and to; of lists of choices what came and what went."""
    row = change.document()
    before, after = row["before"], row["after"]
    if change.what != "choices":
        return f"{_short(before)} -> {_short(after)}"
    if before is None or after is None:
        return "any value -> one of " + ", ".join(map(str, after)) if after else "any value; no list any more"
    came = ", ".join(str(each) for each in after if each not in before)
    gone = ", ".join(str(each) for each in before if each not in after)
    return "; ".join([f"+ {came}"] * bool(came) + [f"- {gone}"] * bool(gone))


def _short(value: Any) -> str:
    text = ", ".join(str(each) for each in value) if isinstance(value, list) else repr(value)
    return text if len(text) <= 160 else text[:157] + "..."
