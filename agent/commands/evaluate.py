"""`sglscout eval cases`: recorded incidents, diagnosed and scored."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent.commands.options import exclusive
from agent.settings import FROM_HOST, PLAYBOOK, load_settings
from agent.views.words import visible
from transcripts.errors import UsageError

if TYPE_CHECKING:
    from agent.evaluate import Judge, Sources
    from tools.source import Source

Json = dict[str, Any]


@click.command("cases")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--model", default="playbook", help="Who decides: `playbook`, or a model at the endpoint.")
@click.option("--offline", is_flag=True, help="Read no source: flags are looked up in the lists that ship.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def eval_cases(folder: Path, model: str, offline: bool, as_json: bool) -> None:
    """Diagnose the incidents of FOLDER and score the verdicts against what they expect.

    One YAML file a case: complaint, launch_args, evidence, sglang_version, gpu, model; expected is for the score only.
    """
    from agent.evaluate import evaluate, load
    from agent.incident import assess

    judge: Judge = assess
    if model != PLAYBOOK:
        exclusive(("--model", model), ("--offline", offline), hint="A model reads the source of the version.")
        if model == FROM_HOST:
            raise UsageError("an incident has no server that could answer.", "Name a model at the endpoint.")
        from agent.by_model import by_model

        judge = by_model(load_settings(model))
    scored = evaluate(_told(load(folder)), _no_source if offline else _sources(), judge)
    if as_json:
        import json

        click.echo(json.dumps(scored, ensure_ascii=False))
    else:
        _table(scored)


def _told(cases: list[Json]) -> Iterator[Json]:
    """The cases, and on a terminal which of them is at hand: with a model each takes minutes."""
    for number, case in enumerate(cases, 1):
        if sys.stderr.isatty():
            click.echo(f"{number} of {len(cases)}: {visible(case['id'])}", err=True)
        yield case


def _no_source(_version: str) -> Source | None:
    return None


def _sources() -> Sources:
    """The cached or fetched tree of a version; versions that are not to be had are told once."""
    import asyncio

    from tools.source import obtain
    from transcripts.errors import ScoutError

    cache = load_settings("playbook").cache
    held: dict[str, Source | None] = {}

    def of(version: str) -> Source | None:
        if version not in held:
            try:
                held[version] = asyncio.run(obtain(version, cache=cache))
            except ScoutError as error:
                click.echo(f"the source of {version} is not read: {error}", err=True)
                held[version] = None
        return held[version]

    return of


def _table(scored: dict[str, Any]) -> None:
    for row in scored["cases"]:
        mark = "ok " if row["solved"] else "   "
        said = row["got"]["label"] if row["got"]["kind"] == "cause" else f"({row['got']['kind']}) {row['got']['label']}"
        harm = "  HARM" if row["harmed"] else ""
        click.echo(f"{mark} {visible(row['id'])[:44]:44} want {row['want']['label']:44} got {said}{harm}")
    shares = ("solved", "family", "leaf", "helped", "harmed", "abstained")
    for title, part in (("all", scored), ("without low", scored["without_low"])):
        click.echo(f"{title} ({part['n']}): " + ", ".join(f"{key} {part[key]:.1%}" for key in shares))
