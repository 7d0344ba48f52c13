"""The document as a terminal shows it, at 80 columns or more, with or without colour."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

Json = dict[str, Any]
STATUS_STYLE = {"supported": "green", "refuted": "red", "open": "yellow", "contradicted": "red", "untestable": "yellow"}


def render(document: Json) -> RenderableType:
    """Everything an operator reads after a diagnosis, most needed first."""
    parts = [
        _head(document),
        _answer(document),
        _changes(document),
        _after(document),
        _claims(document),
        _hypotheses(document),
        _options(document),
        _memory(document),
        _arithmetic(document),
        _tasks(document),
        _not_known(document),
        _next(document),
    ]
    return Group(*(part for part in parts if part is not None))


def part(document: Json, wanted: str) -> RenderableType | None:
    """One part of it: `hypotheses`, `options` or `changes`."""
    return {"hypotheses": _hypotheses, "options": _options, "changes": _changes}[wanted](document)


def console(*, stderr: bool = False) -> Console:
    """A console that is plain where it must be: piped, NO_COLOR, TERM=dumb."""
    return Console(stderr=stderr, highlight=False, soft_wrap=False)


def section(title: str, *body: RenderableType) -> RenderableType:
    return Group(Text(""), Text(title, style="bold"), *(Padding(part, (0, 0, 0, 2)) for part in body))


def table(columns: Iterable[tuple[str, Json]], rows: Iterable[Iterable[str | Text]]) -> Table:
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1), header_style="dim")
    for name, options in columns:
        grid.add_column(name, **options)
    for row in rows:
        grid.add_row(*row)
    return grid


def amount(value: object) -> str:
    """A figure as people read it: thousands apart, no false digits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.2f}" if abs(value) >= 1 else f"{value:.3f}".rstrip("0")


def _head(document: Json) -> RenderableType:
    target = document["target"]
    gpus = ", ".join(f"{gpu['count']} x {gpu['name']}, {gpu['memory_mib']:,} MiB" for gpu in target["gpus"])
    lines = [
        f"{target['host']}: SGLang {target['version'] or 'of unknown version'}"
        + (f" [{target['version_from']}]" if target["version_from"] else "")
        + (f", {target['model']}" if target["model"] else ""),
    ]
    if gpus:
        lines.append(f"{gpus} [{target['gpus'][0]['from']}]")
    if target["source"]:
        lines.append(f"source: {target['source'][:64]}")
    seen = [item for item in document["evidence"] if not item["problem"]]
    missed = [item for item in document["evidence"] if item["problem"]]
    lines.append(
        f"{len(seen)} looks brought evidence, {len(document['facts'])} facts were read"
        + (f"; nothing from {', '.join(item['probe'] for item in missed)}" if missed else "")
    )
    return section("Looked at", *(Text(line) for line in lines))


def _answer(document: Json) -> RenderableType | None:
    if not document["answer"]:
        return None
    lines = []
    for sentence in document["answer"]:
        text = Text(sentence["text"])
        if not sentence["supported"] and "(unsupported)" not in sentence["text"]:
            text.append(" (unsupported)", style="red")
        lines.append(text)
    diagnosis = document["diagnosis"]
    title = {"cause": f"Cause: {diagnosis['label']}", "healthy": "Nothing wrong found", "abstain": "Not decided yet"}
    head = f"{title[diagnosis['kind']]} (certainty {diagnosis['certainty']:.2f})"
    return section(
        "Answer", Text(head, style="bold green" if diagnosis["kind"] != "abstain" else "bold yellow"), *lines
    )


def _claims(document: Json) -> RenderableType | None:
    if not document["claims"]:
        return None
    rows = [
        [
            claim["text"],
            Text(claim["verdict"], style=STATUS_STYLE[claim["verdict"]]),
            _why(claim["why"], claim["evidence"]),
        ]
        for claim in document["claims"]
    ]
    return section("What was claimed", table([("claim", {"ratio": 3}), ("verdict", {}), ("why", {"ratio": 4})], rows))


def _hypotheses(document: Json) -> RenderableType | None:
    if not document["hypotheses"]:
        return None
    rows = []
    for row in [row for row in document["hypotheses"] if row["status"] != "refuted" or row["reasons_for"]][:6]:
        spoken = [f"+ {_why(reason['text'], reason['source'])}" for reason in row["reasons_for"]]
        spoken += [f"- {_why(reason['text'], reason['source'])}" for reason in row["reasons_against"]]
        if row["would_settle"]:
            spoken.append(f"? {row['would_settle']}")
        name = Text(f"{row['id']} {row['label'].rpartition('.')[2]}\n")
        name.append(f"{row['status']} {row['weight']:+.1f}", style=STATUS_STYLE[row["status"]])
        rows.append([name, Text("\n".join(spoken[:5]))])
    return section(
        "Hypotheses",
        table([("hypothesis", {"ratio": 2}), ("for (+), against (-), would settle (?)", {"ratio": 5})], rows),
    )


def _tasks(document: Json) -> RenderableType | None:
    if not document["tasks"]:
        return None
    rows = [
        [task["id"], task["description"], task["status"], f"{task['citations_checked']} of {task['citations']}"]
        for task in document["tasks"]
    ]
    columns: list[tuple[str, Json]] = [
        ("task", {"no_wrap": True}),
        ("about", {}),
        ("status", {}),
        ("citations hold", {}),
    ]
    return section("Research in the source", table(columns, rows))


def _memory(document: Json) -> RenderableType | None:
    if not document["memory"]:
        return None
    rows = [
        [
            step["name"],
            Text(f"{step['gib']:.2f}", justify="right"),
            step["grade"],
            _why(step["why_not_spare"], [step["source"]]),
        ]
        for step in document["memory"]
    ]
    columns: list[tuple[str, Json]] = [
        ("one GPU", {"ratio": 2}),
        ("GiB", {"justify": "right"}),
        ("known", {}),
        ("", {"ratio": 4}),
    ]
    return section("Memory of one GPU, step by step", table(columns, rows))


OPTIONS_SHOWN = 9


def _options(document: Json) -> RenderableType | None:
    """The options that matter side by side; what each risks stands under the table, where there is room for it."""
    if not document["options"]:
        return None
    measured = [option for option in document["options"] if option.get("running_factor") is not None]
    told = [option for option in document["options"] if option.get("running_factor") is None]
    shown = sorted(measured, key=lambda option: (bool(option.get("combined")), not option.get("answers")))[
        :OPTIONS_SHOWN
    ]
    rows = [
        [
            Text(option["name"], style="" if option.get("fits", True) else "dim"),
            _factor(option.get("running_factor")),
            amount(option["running"]) if option.get("running") else "",
            amount(option["prefix_tokens"]) if option.get("prefix_tokens") else "",
            amount(option["host_gb"]) if option.get("host_gb") else "",
            "no" if option.get("fits") is False else ("restart" if option.get("restart") else "live"),
        ]
        for option in shown
    ]
    columns: list[tuple[str, Json]] = [
        ("option", {"ratio": 1}),
        ("pool", {"justify": "right"}),
        ("running", {"justify": "right"}),
        ("prefix tokens", {"justify": "right"}),
        ("host GB", {"justify": "right"}),
        ("takes", {}),
    ]
    parts: list[RenderableType] = [table(columns, rows)]
    if len(measured) > len(shown):
        parts.append(Text(f"and {len(measured) - len(shown)} combinations: see --json", style="dim"))
    for option in shown:
        said = "; ".join(option[key] for key in ("why_not", "risk") if option.get(key))
        if said:
            parts.append(_item(f"{option['name']}: {said}"))
    parts += [
        _item(f"{option['name']}: {option['does']}" + (f"; {option['risk']}" if option["risk"] else ""))
        for option in told
    ]
    parts += [Text(f"contradiction: {text}", style="red") for text in document["contradictions"]]
    return section("Options", *parts)


def _item(text: str) -> RenderableType:
    """A line of a list, later lines under the first."""
    grid = Table.grid(padding=(0, 1))
    grid.add_row(Text("-"), Text(text))
    return grid


def _changes(document: Json) -> RenderableType | None:
    lines: list[RenderableType] = []
    for change in document["changes"]:
        lines.append(Text(change_line(change), style="bold"))
        valid = change.get("valid")
        proof = (
            f"{valid['at']} of {valid['in']}, rules {valid['rules']}" if valid else "checked as far as its kind can be"
        )
        lines.append(Text(f"  {_why(change['why'], change['evidence'])}"))
        lines.append(
            Text(f"  {proof}" + ("" if change["confirmed"] else "; NOT CONFIRMED on a live host"), style="dim")
        )
    lines += [Text(f"refused: {item['what']}: {item['reason']}", style="dim") for item in document["refused"]]
    return section("The change", *lines) if lines else None


def change_line(change: Json) -> str:
    """`set --max-running-requests: (not set) -> 72 requests`; a switch has no value, an upgrade may have no target."""
    before = "(not set)" if change["from"] is None else change["from"]
    without = {"set": "on", "remove": "(removed)", "upgrade": "a newer version"}
    after = without.get(change["do"], "?") if change["to"] is None else change["to"]
    return f"{change['do']} {change['flag']}: {before} -> {after} {change['unit'] or ''}".rstrip()


def _arithmetic(document: Json) -> RenderableType | None:
    """One line a sum: name = formula = value, with its inputs and where they stand."""
    lines: list[RenderableType] = []
    for item in document["arithmetic"]:
        inputs = ", ".join(f"{name} {amount(value)}" for name, value in item["inputs"].items())
        text = Text(f"{item['name']} = {item['expression']} = ")
        text.append(f"{amount(item['value'])} {item['unit']}", style="bold")
        limit = f"; limit {amount(item['limit'])} from {item['limit_from']}" if item.get("limit") is not None else ""
        span = f"; {amount(item['range'][0])} to {amount(item['range'][1])}" if item.get("range") else ""
        found = f" [{', '.join(item['evidence'])}]" if item.get("evidence") else ""
        text.append(f" ({item['grade']}: {inputs}{span}{limit}){found}", style="dim")
        grid = Table.grid(padding=(0, 1))
        grid.add_row(Text("-"), text)
        lines.append(grid)
    return section("Arithmetic", *lines) if lines else None


def _after(document: Json) -> RenderableType | None:
    parts: list[RenderableType] = []
    for number, stage in enumerate(document["stages"], 1):
        parts.append(Text(f"{number}. {stage['title']}."))
        if stage["cost"]:
            parts.append(Text(f"   {stage['cost']}", style="dim"))
        parts += [
            Text(f"   {line}", no_wrap=True, overflow="fold")
            for each in stage["commands"]
            for line in each.splitlines()
        ]
    parts += [_item(f"expect {item['what']} ({item['where']})") for item in document["expected"]]
    parts += [
        _item(
            f"watch {item['metric']} for {item['window_s'] // 60} min: better {item['better']}; worse {item['worse']}"
        )
        for item in document["verify"]
    ]
    rollback = document["rollback"]
    if rollback.get("commands"):
        parts.append(Text(f"Roll back when: {'; or '.join(rollback['when'])}"))
        parts += [Text(f"   {line}") for command in rollback["commands"] for line in command.splitlines()]
    parts += [_item(f"do not {item['do']} {item['flag']}: {item['why']}") for item in document["must_not"]]
    parts += [_item(f"not chosen: {item['what']}: {item['why_not']}") for item in document["alternatives"]]
    return section("How to apply it, verify it, roll it back", *parts) if parts else None


def _not_known(document: Json) -> RenderableType | None:
    diagnosis = document["diagnosis"]
    lines = [f"missing: {text}" for text in diagnosis["missing"] if diagnosis["kind"] == "abstain"]
    lines += [f"not checked: {text}" for text in diagnosis["not_checked"]]
    return section("Not known", *(_item(line) for line in lines)) if lines else None


def _next(document: Json) -> RenderableType:
    ids = document["ids"]
    lines = [f"session {ids['session']}", f"ask more:  {ids['ask']}", f"write up:  {ids['writeup']}"]
    lines += [f"one task:  {command}" for command in ids["resume_task"]]
    return section("Go on", *(Text(line) for line in lines))


def _why(text: str, sources: Iterable[str]) -> str:
    named = [source for source in sources if source]
    return f"{text} [{', '.join(named)}]" if named else text


def _factor(value: object) -> str:
    return f"{value:.2f}x" if isinstance(value, int | float) else ""
