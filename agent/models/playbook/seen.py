"""Answers from what was seen: facts by name, lines of evidence, how it runs, since when, and what terms mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from agent.case import Case
from agent.document import document
from agent.models.playbook.answer import cited
from agent.models.playbook.operating import looks
from agent.models.playbook.terms import meaning as meant
from agent.views.words import IMPACT, amount, measured
from transcripts.facts import Fact

Json = dict[str, Any]
Handler = Callable[[Case, re.Match[str]], str]
LINES_SHOWN: Final = 6
LISTED: Final = 8
VALUES_SHOWN: Final = 4
NOT_TOLD: Final = "Nothing that was looked at tells"


def fact(*names: str) -> Handler:
    """The facts of these names as they are known; a fact that was never seen is said to be missing."""

    def handler(case: Case, _found: re.Match[str]) -> str:
        lines = [line for name in names for line in said_of(case, name)]
        if lines:
            return "\n".join(lines)
        looked = ", ".join(name.replace("_", " ") for name in names)
        return cited(f"{NOT_TOLD} {looked}", looks(case), case)

    return handler


def latency(case: Case, _found: re.Match[str]) -> str:
    """How long users wait for tokens, which no log of the server tells."""
    at = "/metrics has it where --enable-metrics is typed (sglang:time_to_first_token_seconds), as does a log of yours"
    return cited(f"{NOT_TOLD} how long users wait for a token; {at}", looks(case), case)


def said_of(case: Case, name: str) -> Iterator[str]:
    """The values of a fact, latest first; scopes that share one are told together."""
    values: dict[object, dict[str, Fact]] = {}
    for fact in reversed(case.facts.all(name)):
        values.setdefault(fact.value, {}).setdefault(fact.scope, fact)
    for alike in list(values.values())[:VALUES_SHOWN]:
        yield cited(_worded(list(alike.values())), [fact.source for fact in alike.values()], case)


def _worded(facts: list[Fact]) -> str:
    fact = facts[0]
    scopes = [each.scope for each in facts if each.scope]
    of = f" ({scopes[-1]} to {scopes[0]}, {len(scopes)} alike)" if len(scopes) > 2 else f" ({', '.join(scopes)})"
    scope = of if scopes else ""
    name, value = measured(fact.name, fact.value, fact.unit)
    return f"{name}{scope} is {value}, {fact.grade}"


def is_running(case: Case, _found: re.Match[str]) -> str:
    """Whether a server runs there, as process, unit and endpoint tell."""
    process, unit = case.facts.get("running"), case.facts.get("unit_name")
    lines = []
    if process is not None and process.value is True:
        pid, started = case.facts.get("pid"), case.facts.get("started_at")
        text = "Yes: a server process is there" + (f", PID {pid.value}" if pid else "")
        text += f", started {started.value}" if started else ""
        lines.append(cited(text, [each.source for each in (process, pid, started) if each], case))
    elif process is not None:
        lines.append(cited("No: no server process was there when it was looked at", [process.source], case))
    if unit is not None:
        state = " ".join(case.facts.text(name) for name in ("unit_state", "unit_substate")).strip()
        lines.append(cited(f"{unit.value} is {state or 'of unknown state'}", [unit.source], case))
    running = case.facts.get("running_max")
    if running is not None:
        lines.append(cited(f"it has decoded with up to {amount(running.value)} requests", [running.source], case))
    return "\n".join(lines) or cited("What was looked at does not tell whether a server runs", looks(case), case)


def since_when(case: Case, _found: re.Match[str]) -> str:
    """Moments by the clock of the host's log."""
    rows = [row for row in document(case)["timeline"] if row["clock"] == "log"]
    return "\n".join(
        cited(f"{row['at'].replace('T', ' ')[:19]}: {row['text']}", row["references"], case)
        for row in rows[-LINES_SHOWN:]
    )


def affected(case: Case, _found: re.Match[str]) -> str:
    """How far it is felt, in the figures there are; who felt it stands in no log."""
    lines = []
    for name, meaning in IMPACT.items():
        fact = case.facts.get(name, "")
        if fact is not None:
            lines.append(cited(f"{meaning}: {amount(fact.value)} {fact.unit}", [fact.source], case))
    whom = "Which users or requests felt it does not stand in what was looked at; a log of your gateway would tell"
    return "\n".join([*lines[:LINES_SHOWN], cited(whom, looks(case), case)])


def evidence(case: Case, found: re.Match[str]) -> str:
    """The lines of one look, or the very line that was named."""
    item = case.evidence.get(found[1].upper())
    if item is None:
        return cited(f"No evidence is {found[1].upper()}; there are {len(case.evidence)} looks", looks(case), case)
    lines = item.text.splitlines()
    if found[2]:
        number = int(found[2])
        if not 1 <= number <= len(lines):
            return cited(f"{item.id} ({item.probe}) has {len(lines)} lines", [item.id], case)
        return f"{item.probe}, line {number}: “{_quoted(lines[number - 1])}” [{item.id}:{number}]."
    brought = item.problem or f"{len(lines)} lines"
    head = cited(f"{item.id} is {item.probe}, `{item.command}`: {brought}", [item.id], case)
    shown = [
        f"“{_quoted(line)}” [{item.id}:{number}]." for number, line in enumerate(lines[:LINES_SHOWN], 1) if line.strip()
    ]
    return "\n".join([head, *shown])


def evidence_listed(case: Case, _found: re.Match[str]) -> str:
    """What was looked at, and how to see one look or one line of it."""
    brought = [item for item in case.evidence.values() if not item.problem]
    lines = [
        cited(f"{item.id} {item.probe}: {len(item.text.splitlines())} lines", [item.id], case)
        for item in brought[:LISTED]
    ]
    some = brought[0].id if brought else "E1"
    left = f"{len(brought)} looks in all; `show {some}` shows one, `{some}:1` one line, /evidence in the chat lists all"
    return "\n".join([*lines, cited(left, looks(case), case)])


def worst_gpu(case: Case, _found: re.Match[str]) -> str:
    """The GPU with least memory free, beside the others."""
    free = {fact.scope: fact for fact in case.facts.all("gpu_free_mib") if isinstance(fact.value, int | float)}
    if not free:
        return cited("What is free on each GPU was not seen", looks(case), case)
    rows = sorted(free.values(), key=lambda fact: float(fact.value))
    text = f"{rows[0].scope} is the fullest: {amount(rows[0].value)} MiB free; the emptiest, {rows[-1].scope}, has "
    text += f"{amount(rows[-1].value)} MiB"
    lines = [cited(text, [rows[0].source, rows[-1].source], case)]
    busy = {fact.scope: fact for fact in case.facts.all("gpu_utilization") if isinstance(fact.value, int | float)}
    if busy:
        used = sorted(busy.values(), key=lambda fact: float(fact.value))
        least, most = amount(used[0].value), amount(used[-1].value)
        spread = f"GPU utilization is {least if least == most else f'{least} to {most}'} %"
        lines.append(cited(spread, [used[0].source, used[-1].source], case))
    return "\n".join(lines)


def gpu_health(case: Case, _found: re.Match[str]) -> str:
    """Whether a GPU is missing or told of an error: how many answer, how many the server is started over, Xid."""
    count, ranks = case.facts.get("gpu_count"), case.facts.get("server_arg", "tp_size")
    lines = []
    if count is not None:
        text = f"{amount(count.value)} GPUs answered nvidia-smi"
        text += f"; the server is started with --tp-size {amount(ranks.value)}" if ranks is not None else ""
        lines.append(cited(text, [fact.source for fact in (count, ranks) if fact is not None], case))
    errors = case.facts.all("xid")
    lines += [
        cited(f"Xid {each.value} of {each.scope} stands in the kernel log", [each.source], case)
        for each in errors[-LINES_SHOWN:]
    ]
    read = [item.id for item in case.evidence.values() if item.probe == "kernel_log" and not item.problem]
    if not errors and read:
        lines.append(cited("No Xid error stands in the kernel log that was read", read, case))
    elif not errors:
        lines.append(cited("The kernel log was not seen: whether a GPU told of an Xid error is not known", looks(case),
                           case))  # fmt: skip
    return "\n".join([*lines, *worst_gpu(case, _found).splitlines()])


def retractions(case: Case, found: re.Match[str]) -> str:
    """Retractions as they are known; where decode lines were read and none is told, that is said."""
    load = case.facts.get("decode_lines")
    if case.facts.get("retractions") is None and load is not None:
        text = f"No retraction stands in the log that was read, beside {amount(load.value)} decode lines"
        return cited(text, [load.source], case)
    return fact("retractions", "retracted_requests", "retraction_gain_p50")(case, found)


def argument(case: Case, found: re.Match[str]) -> str:
    """A setting of the server named as words or as a flag, with the value in force; empty where none is named."""
    words = re.findall(r"[a-z][a-z0-9]*", found.string.replace("-", " ").replace("_", " "))
    scopes = {fact.scope: fact for fact in case.facts.all("server_arg")}
    for length in (5, 4, 3, 2):
        for first in range(len(words) - length + 1):
            fact = scopes.get("_".join(words[first : first + length]))
            if fact is not None and fact.value != "None":
                text = f"--{fact.scope.replace('_', '-')} is {amount(fact.value)}, as the server runs"
                return cited(text, [fact.source], case)
    return ""


def _quoted(line: str) -> str:
    return line.strip().replace("“", "'").replace("”", "'")[:300]


def tasks(case: Case, _found: re.Match[str]) -> str:
    """Research tasks with their ids, and how to go on with one."""
    return "\n".join(
        cited(f'`sglscout resume {task.id} "…"` goes on with: {task.description} ({task.status})', looks(case), case)
        for task in case.tasks.values()
    )


def term(case: Case, found: re.Match[str]) -> str:
    """What a term means, and where this case shows it."""
    told = meant(found[1].strip())
    if not told:
        return ""
    shown = next((fact for name in _SHOWS if name[0] in found[1] and (fact := case.facts.get(name[1]))), None)
    here = f"; here: {' '.join(measured(shown.name, shown.value, shown.unit))}" if shown is not None else ""
    return cited(f"{told}{here}", [shown.source] if shown is not None else looks(case), case)


_SHOWS: Final = (
    ("usage", "usage_p95"), ("retract", "retractions"), ("specul", "spec_default_reset"), ("eagle", "accept_len_p50"),
    ("graph", "graphs_gib"), ("limit", "running_limit"), ("kv", "kv_pool"), ("pool", "kv_pool"),
)  # fmt: skip
