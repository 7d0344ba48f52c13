"""`plan` and `eval kv`: what fits, what each lever would change, and how the sums stand against observed starts."""

from __future__ import annotations

import asyncio
import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from transcripts.errors import UsageError

if TYPE_CHECKING:
    from tools.capacity import GpuBudget, Lever, Mix
    from transcripts.facts import Facts

# Settings that describe a start which does not run yet; everything else under --set is a lever.
_OF_A_START = (
    "tp-size",
    "pp-size",
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
_ALIASES = {"tp": "tp-size", "pp": "pp-size", "dp": "dp-size", "dcp": "dcp-size"}


@click.command()
@click.option("--host", help="USER@HOST[:PORT], a name of your SSH configuration, or `local`.")
@click.option("--bundle", type=click.Path(exists=True, path_type=Path), help="A bundle, folder, log or pasted text.")
@click.option("--config", type=click.Path(exists=True, path_type=Path), help="A model's config.json, or its folder.")
@click.option("--gpus", help="With --config: COUNTxSIZE, as 8x96.")
@click.option("--sglang-version", default="0.5.9", show_default=True, help="With --config: the version to plan for.")
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
    from tools.capacity import assume

    if sum(one is not None for one in (host, bundle, config)) != 1:
        raise UsageError("plan needs one of --host, --bundle and --config.", "`sglscout plan --help` shows the forms.")
    mix = _mix(mix_text)
    settings = _settings(wanted)
    if config is None:
        facts = asyncio.run(_seen(host, bundle))
        _print(_Plan(facts, settings, mix), everything, explain, svg_path, as_json)
        return 0
    if gpus is None:
        raise UsageError("--config needs --gpus.", "Write COUNTxSIZE, as --gpus 8x96 for 8 cards of 96 GB.")
    from tools.capacity import Cards

    shape, checkpoint = _config(config)
    start = {name.replace("-", "_"): settings.pop(name) for name in list(settings) if name in _OF_A_START}
    cards = Cards.parse(gpus)
    found = assume(shape, cards, sglang_version, start, checkpoint, weights_gib, ram_gib, mix)
    _print(_Plan(found.middle, settings, mix, found.worst, found.best), everything, explain, svg_path, as_json)
    return 0


class _Plan:
    """Everything that is printed, computed once."""

    def __init__(
        self,
        facts: Facts,
        settings: dict[str, str],
        mix: Mix | None,
        worst: Facts | None = None,
        best: Facts | None = None,
    ) -> None:
        from tools.capacity import Lever, bars, concurrency, gpu_budget, host_budget, levers, slots_for, what_if

        if mix is not None:
            from transcripts.facts import Fact

            held = mix.prompt_tokens + mix.output_tokens / 2
            facts = facts + [Fact("tokens_per_request", held, "tokens", "claimed", "operator")]
        self.facts = facts
        self.budget: GpuBudget = gpu_budget(facts)
        found = levers(facts)
        self.levers: list[Lever] = [lever for lever in found if isinstance(lever, Lever)]
        self.missing = [*self.budget.missing, *(one for one in found if not isinstance(one, Lever))]
        if settings:
            chosen = what_if(facts, settings)
            if isinstance(chosen, Lever):
                self.levers.insert(1, chosen)
        self.walls = concurrency(facts, mix)
        self.slots = slots_for(facts)
        self.host = host_budget(facts)
        ends = [levers(one) for one in (worst, best) if one is not None]
        self.ranges = {
            lever.name: [next((o.tokens for o in end if isinstance(o, Lever) and o.name == lever.name), 0) for end in ends]
            for lever in self.levers
        } if ends else {}  # fmt: skip
        shown = [lever for lever in self.levers[1:] if lever.frontier or lever.name == "as set"]
        self.bars = bars(self.budget, self.levers[0], shown[:6]) if self.levers else ()

    def as_json(self) -> dict[str, Any]:
        from tools.capacity import Concurrency, HostBudget, Slots

        document: dict[str, Any] = {
            "v": 1,
            "steps": [
                {
                    "name": step.name,
                    "gib": step.gib,
                    "left_gib": step.left_gib,
                    "grade": step.grade,
                    "from": step.source,
                    "why_not_spare": step.why_not_spare,
                }
                for step in self.budget.steps
            ],
            "largest_fraction": self.budget.largest_fraction,
            "headroom_gib": self.budget.headroom_gib,
            "levers": [self._lever(lever) for lever in self.levers],
            "arithmetic": [entry.as_json() for entry in self.sums()],
            "missing": [{"what": one.what, "facts": list(one.facts), "how": one.how} for one in self._lacking()],
        }
        if isinstance(self.slots, Slots):
            document["slots"] = {"value": self.slots.value, "per_pool": self.slots.per_rank, "wall": self.slots.wall}
        if isinstance(self.walls, Concurrency):
            document["concurrency"] = {
                "binds": self.walls.binds,
                "running": self.walls.running,
                "limits": {limit.name: limit.requests for limit in self.walls.limits},
            }
        if isinstance(self.host, HostBudget):
            document["host"] = _host_json(self.host)
        return document

    def _lever(self, lever: Lever) -> dict[str, Any]:
        found: dict[str, Any] = {
            "name": lever.name,
            "changes": [{"flag": flag, "from": before, "to": after} for flag, before, after in lever.changes],
            "tokens": lever.tokens,
            "longest_request": lever.longest_request,
            "running": lever.running,
            "binds": lever.binds,
            "prefix_tokens": lever.prefix_tokens,
            "host_gb": lever.host_gb,
            "factor": lever.factor,
            "running_factor": lever.running_factor,
            "prefix_factor": lever.prefix_factor,
            "restart": lever.restart,
            "risk": lever.risk,
            "fits": lever.fits,
            "frontier": lever.frontier,
            "gpu_free_gib": lever.gpu_free_gib,
            "why_not": lever.why_not,
        }
        if self.ranges.get(lever.name):
            found["tokens_range"] = self.ranges[lever.name]
        return found

    def sums(self) -> Iterable[Any]:
        from tools.capacity import Concurrency, HostBudget, Slots

        yield from self.budget.sums
        if isinstance(self.host, HostBudget):
            yield from self.host.sums
        if isinstance(self.slots, Slots):
            yield from self.slots.sums
            yield self.slots.reserve
        if isinstance(self.walls, Concurrency):
            yield from (limit.sum for limit in self.walls.limits)
        for lever in self.levers[1:]:
            yield from (entry for entry in lever.sums if lever.frontier and entry.name != "pool_budget")

    def _lacking(self) -> list[Any]:
        from tools.capacity import Missing

        found = list(self.missing)
        for one in (self.walls, self.slots, self.host):
            if isinstance(one, tuple):
                found += [entry for entry in one if isinstance(entry, Missing)]
        return list({entry.what: entry for entry in found}.values())

    def text(self, everything: bool, explain: bool) -> Iterable[str]:
        """The plan for a terminal."""
        from tools.capacity import terminal

        for step in self.budget.steps:
            yield f"{step.gib:9.2f} GiB  {step.name:<34} {step.grade:<9} {step.why_not_spare}"
        if self.levers:
            yield ""
            yield f"{'':2}{'lever':<58}{'tokens':>12}{'x':>7}{'running':>9}{'prefixes':>12}{'host GB':>9}  restart"
            for lever in self.levers:
                if everything or lever.frontier or lever.name in ("now", "as set") or " + " not in lever.name:
                    yield from self._row(lever)
            yield "* the sensible frontier: nothing that fits beats it at everything"
        for row in terminal(self.bars, 100):
            yield row
        for one in self._lacking():
            yield f"not known: {one.what}; to get it: {one.how}"
        if explain:
            yield ""
            yield from dict.fromkeys(entry.line() for entry in self.sums())

    def _row(self, lever: Lever) -> Iterable[str]:
        mark = "*" if lever.frontier else " "
        running = "-" if lever.running is None else str(lever.running)
        yield (
            f"{mark:2}{lever.name:<58}{lever.tokens:>12,}{lever.factor:>6.2f}x{running:>9}{lever.prefix_tokens:>12,}"
            f"{lever.host_gb:>9.1f}  {'yes' if lever.restart else 'no':<4}{'' if lever.fits else 'does not fit'}"
        )
        if self.ranges.get(lever.name):
            low, high = self.ranges[lever.name]
            yield f"    estimated: {low:,} to {high:,} tokens; weights and free memory of a start close the range"
        if lever.why_not:
            yield f"    but: {lever.why_not}"
        if lever.risk:
            yield f"    risk: {lever.risk}"


def _host_json(host: Any) -> dict[str, Any]:
    return {
        "ratio": host.ratio,
        "ranks": host.ranks,
        "per_rank_gb": host.per_rank_gb,
        "total_gb": host.total_gb,
        "total_gib": host.total_gib,
        "distinct_gb": host.distinct_bytes / 1e9,
        "limit_gb": host.limit_bytes / 1e9,
        "limit_from": host.limit_from,
        "fits": host.fits,
        "largest_ratio": host.largest_ratio,
        "largest_ratio_bare": host.largest_ratio_bare,
        "own_check": host.own_check,
        "own_check_passes": host.own_check_passes,
        "own_check_largest_ratio": host.own_check_largest_ratio,
        "prefix_tokens": host.prefix_tokens,
        "running_factor": host.running_factor,
        "numa": host.numa,
        "warnings": list(host.warnings),
    }


def _print(found: _Plan, everything: bool, explain: bool, svg_path: Path | None, as_json: bool) -> None:
    if svg_path is not None:
        from tools.capacity import svg

        if not found.bars:
            raise UsageError("there is no picture without the size of the card.", "nvidia-smi of the host says it.")
        try:
            svg_path.write_text(svg(found.bars))
        except OSError as error:
            raise UsageError(f"{svg_path} cannot be written: {error.strerror}.", "Name another file.") from error
        click.echo(f"picture in {svg_path}", err=True)
    if as_json:
        click.echo(json.dumps(found.as_json()))
        return
    for line in found.text(everything, explain):
        click.echo(line)


def _mix(text: str | None) -> Mix | None:
    from tools.capacity import Mix

    if text is None:
        return None
    try:
        numbers = [float(part) for part in text.split(":")]
    except ValueError:
        numbers = []
    if len(numbers) not in (2, 3) or min(numbers) < 0 or sum(numbers[:2]) <= 0:
        raise UsageError(f"--mix {text} is not PROMPT:OUTPUT[:MAX_NEW].", "As 2000:500, in tokens.")
    return Mix(numbers[0], numbers[1], int(numbers[2]) if len(numbers) == 3 else 0)


def _settings(wanted: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for one in wanted:
        name, equals, value = one.partition("=")
        name = name.strip().removeprefix("--").replace("_", "-")
        if not name:
            raise UsageError(f"--set {one} is not FLAG=VALUE.", "As --set kv-cache-dtype=fp8_e4m3.")
        found[_ALIASES.get(name, name)] = value.strip() if equals else "true"
    return found


def _config(path: Path) -> tuple[dict[str, Any], int | None]:
    """The config, and the checkpoint's bytes where an index of safetensors stands beside it."""
    file = path / "config.json" if path.is_dir() else path
    try:
        config = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read as JSON: {error}.", "Name a model's config.json.") from error
    if not isinstance(config, dict):
        raise UsageError(f"{file} is not a JSON object.", "Name a model's config.json.")
    index = file.parent / "model.safetensors.index.json"
    try:
        size = json.loads(index.read_text())["metadata"]["total_size"]
    except (OSError, ValueError, KeyError, TypeError):
        return config, None
    return config, int(size) if isinstance(size, int | float) else None


async def _seen(host: str | None, bundle: Path | None) -> Facts:
    """One look at the host or into the bundle, as facts."""
    from tools.host import connect, look, open_bundle
    from tools.host.parsers import parse
    from transcripts.facts import Evidence, Facts
    from transcripts.redaction import redact

    found: list[Any] = []
    opened = connect(host) if host is not None else open_bundle(bundle or Path())
    async with opened as target:
        number = 0
        async for seen in look(target, redact=redact):
            number += 1
            click.echo(f"E{number} {seen.probe}", err=True)
            found += parse(
                Evidence(
                    f"E{number}",
                    seen.probe,
                    seen.command,
                    seen.host,
                    seen.at,
                    seen.exit,
                    seen.text,
                    seen.truncated,
                    seen.seconds,
                    seen.problem,
                )  # fmt: skip
            )
    return Facts(found)


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
