"""`plan` and `eval kv`: what fits, what each lever would change, and how the sums stand against observed starts."""

from __future__ import annotations

import asyncio
import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent.commands.options import one_host
from agent.views.words import visible
from transcripts.errors import Inconclusive, UsageError

if TYPE_CHECKING:
    from tools.capacity import Mix, Report
    from tools.source import FlagCatalogue
    from transcripts.facts import Facts

# Settings that describe a start which does not run yet; everything else under --set is a lever.
_OF_A_START = (
    "tp-size",
    "pp-size",
    "ep-size",
    "nnodes",
    "context-length",
    "page-size",
    "chunked-prefill-size",
    "speculative-algorithm",
    "speculative-num-draft-tokens",
    "swa-full-tokens-ratio",
    "mamba-full-memory-ratio",
    "max-mamba-cache-size",
    "disable-radix-cache",
)
SHOWN = 40  # characters of a wrong value that are said again
MOST_TOKENS = 1e9
ON = ("true", "1", "yes", "on")
_NO_RAM = "free host memory is not known, so no host copy is said to fit: --ram-gib gives it"
_ALIASES = {"tp": "tp-size", "pp": "pp-size", "dp": "dp-size", "dcp": "dcp-size", "ep": "ep-size"}


@click.command()
@one_host()
@click.option("--bundle", type=click.Path(exists=True, path_type=Path), help="A bundle, folder, log or pasted text.")
@click.option("--config", type=click.Path(exists=True, path_type=Path), help="A model's config.json, or its folder.")
@click.option("--gpus", help="With --config: COUNTxSIZE, as 8x96, 8x97887MiB.")
@click.option(
    "--sglang-version", "--version", default="0.5.9", show_default=True, help="With --config: the version to plan for."
)
@click.option("--weights-gib", type=float, help="With --config: weights of one GPU, from a `Load weight end` line.")
@click.option("--ram-gib", type=float, help="With --config: free host memory.")
@click.option("--mix", "mix_text", metavar="PROMPT:OUTPUT[:MAX_NEW]", help="Lengths of requests, tokens.")
@click.option("--set", "wanted", multiple=True, metavar="FLAG=VALUE", help="Settings to evaluate together.")
@click.option("--all", "everything", is_flag=True, help="Every combination, not only those worth a look.")
@click.option("--explain", is_flag=True, help="Formula, inputs, sources and source line of each figure.")
@click.option("--svg", "svg_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the picture there.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def plan(
    host: str | None,
    bundle: Path | None,
    config: Path | None,
    gpus: str | None,
    sglang_version: str,
    weights_gib: float | None,
    ram_gib: float | None,
    mix_text: str | None,
    wanted: tuple[str, ...],
    everything: bool,
    explain: bool,
    svg_path: Path | None,
    as_json: bool,
) -> int:
    """What each memory lever, and their combinations, would change: tokens, running requests, prefixes, host RAM."""
    from agent.commands.source import must_be_released
    from tools.capacity import Cards, Report, assume
    from tools.source.wheel import released

    if sum(one is not None for one in (host, bundle, config)) != 1:
        raise UsageError("plan needs one of --host, --bundle and --config.", "`sglscout plan --help` shows the forms.")
    mix = _mix(mix_text)
    settings = _settings(wanted)
    if config is None:
        for name, value in (("--gpus", gpus), ("--weights-gib", weights_gib), ("--ram-gib", ram_gib)):
            if value is not None:
                raise UsageError(f"{name} goes with --config.", "Leave it out: a host or a bundle says it itself.")
        facts = asyncio.run(_seen(host, bundle))
        flags = _flags_of(facts.text("version"))
        _check_values(settings, flags, levers=True)
        seen = Report(facts, settings, mix, catalogue_has=_has(flags))
        _print(seen, everything, explain, svg_path, as_json)
        return 0 if seen.levers or seen.budget.steps else 3
    if gpus is None:
        raise UsageError("--config needs --gpus.", "Write COUNTxSIZE, as --gpus 8x96 for 8 cards of 96 GB.")
    shape, checkpoint = config_in(config)
    start = {name.replace("-", "_"): settings.pop(name) for name in list(settings) if name in _OF_A_START}
    cards = Cards.parse(gpus)
    must_be_released(released(sglang_version))
    flags = _flags_of(released(sglang_version))
    _check_values(start, flags, levers=False)
    _check_values(settings, flags, levers=True)
    found = assume(shape, cards, sglang_version, start, checkpoint, weights_gib, ram_gib, mix)
    ends, said = (found.worst, found.best), (found.said, cards.said, *(() if ram_gib else (_NO_RAM,)))
    report = Report(found.middle, settings, mix, ends, _has(flags), said)
    _print(report, everything, explain, svg_path, as_json)
    return 0


def _flags_of(version: str) -> FlagCatalogue | None:
    """Flags of a version: those that ship, else its tree's; None where neither is to be had."""
    from agent.commands.source import known
    from tools.source.released import catalogue_of

    if not version:
        return None
    try:
        return catalogue_of(version) or known(version, None)[0]
    except Inconclusive as error:
        click.echo(f"{error.message} Which flags it has is not known; none is ruled out.", err=True)
        return None


def _has(flags: FlagCatalogue | None) -> Callable[[str], bool] | None:
    return None if flags is None else lambda flag: flags.find(flag) is not None


def _check_values(given: Mapping[str, str], flags: FlagCatalogue | None, *, levers: bool) -> None:
    """Raises UsageError for a setting that the version would not take; which levers there are is said elsewhere."""
    from tools.capacity import NO_CAP
    from tools.source.values import range_problem, value_problem

    if flags is None:
        return
    for name, value in given.items():
        flag = flags.find(name)
        if flag is None and not levers:
            raise UsageError(f"SGLang {flags.version} has no --{name.replace('_', '-')}.", "Leave it out.")
        if flag is None or (name, value) == ("max-total-tokens", NO_CAP):
            continue
        values = [] if not flag.takes_value and value.lower() in ON else [value]
        wrong = value_problem(flag, values) or range_problem(flag, values)
        if wrong:
            wrong = wrong.replace(value, value[:SHOWN])
            raise UsageError(f"{wrong}.", f"As {flag.at} of {flags.version} reads it.")


def _print(found: Report, everything: bool, explain: bool, svg_path: Path | None, as_json: bool) -> None:
    if svg_path is not None:
        from tools.capacity import svg

        if not found.bars:
            if found.no_picture:
                raise UsageError(f"{found.no_picture}.", "Take more cards, larger ones, or leave out --svg.")
            raise UsageError("there is no picture without the size of the card.", "nvidia-smi of the host says it.")
        try:
            svg_path.write_text(svg(found.bars))
        except OSError as error:
            raise UsageError(f"{svg_path} cannot be written: {error.strerror}.", "Name another file.") from error
        click.echo(f"picture in {svg_path}", err=True)
    if as_json:
        click.echo(json.dumps(found.as_json()))
        return
    from agent.views.layout import NARROWEST, WIDEST
    from agent.views.terminal import console

    width = min(max(console().width, NARROWEST), WIDEST)
    for line in found.text(everything, explain, width):
        click.echo(visible(line))


def _mix(text: str | None) -> Mix | None:
    from tools.capacity import Mix

    if text is None:
        return None
    try:
        numbers = [float(part) for part in text.split(":")]
    except ValueError:
        numbers = []
    if len(numbers) not in (2, 3) or not all(0 <= one <= MOST_TOKENS for one in numbers) or sum(numbers[:2]) < 1:
        raise UsageError(f"--mix {text[:SHOWN]} is not PROMPT:OUTPUT[:MAX_NEW].", "As 2000:500, in tokens.")
    return Mix(numbers[0], numbers[1], int(numbers[2]) if len(numbers) == 3 else 0)


def _settings(wanted: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for one in wanted:
        name, equals, value = one.partition("=")
        name = name.strip().removeprefix("--").replace("_", "-")
        if not name or (equals and not value.strip()):
            raise UsageError(f"--set {one[:SHOWN]} is not FLAG=VALUE.", "As --set kv-cache-dtype=fp8_e4m3.")
        found[_ALIASES.get(name, name)] = value.strip() if equals else "true"
    return found


def config_in(path: Path) -> tuple[dict[str, Any], int | None]:
    """The config, and the checkpoint's bytes where an index of safetensors stands beside it."""
    file = path / "config.json" if path.is_dir() else path
    try:
        config = json.loads(file.read_text())
    except (OSError, ValueError, RecursionError) as error:
        where = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        why = f": {error.strerror}" if isinstance(error, OSError) else f" as JSON{where}"
        raise UsageError(f"{file} cannot be read{why}.", "Name a model's config.json.") from error
    if not isinstance(config, dict):
        raise UsageError(f"{file} is not a JSON object.", "Name a model's config.json.")
    index = file.parent / "model.safetensors.index.json"
    try:
        size = json.loads(index.read_text())["metadata"]["total_size"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return config, None
    return config, int(size) if isinstance(size, int | float) else None


async def _seen(host: str | None, bundle: Path | None) -> Facts:
    """One look at the host or into the bundle, as facts."""
    from agent.deployed import facts_of
    from tools.host import connect, open_bundle

    if host is None:
        async with open_bundle(bundle or Path()) as target:
            return await facts_of(target)
    async with connect(host) as target:
        return await facts_of(target, lambda probe: click.echo(probe, err=True))


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def eval_kv(file: Path, as_json: bool) -> int:
    """Memory arithmetic against observed server starts: FILE.csv with one start a row."""
    from tools.capacity import score

    try:
        with file.open(newline="", encoding="utf-8-sig") as opened:
            rows = list(csv.DictReader(opened))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{file} cannot be read as CSV: {error}.", "Give a file of observed starts.") from error
    if not rows:
        raise UsageError(f"{file} has no rows.", "Give a file of observed starts.")
    found = score(rows)
    for row in found["unread"]:
        click.echo(f"{visible(row)}: a figure cannot be read; what it tests is left out.", err=True)
    if as_json:
        click.echo(json.dumps(found))
        return 0
    click.echo(f"{'figure':<22}{'n':>5}{'inside':>8}{'median':>10}{'p90':>10}{'max':>10}")
    for label, groups in (("", found), ("fitted: ", found["inferred"])):
        for name, group in groups.items():
            if isinstance(group, dict) and group.get("n"):
                errors = "".join(f"{group[key]:>10.3%}" for key in ("median", "p90", "max"))
                click.echo(f"{label + name:<22}{group['n']:>5}{group['inside_rounding']:>8}{errors}")
    return 0
