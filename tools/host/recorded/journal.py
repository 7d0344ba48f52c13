"""The journal of a recording: systemd's lines, SGLang's and the kernel's, in order, and journalctl over them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from tools.host.recorded.boot_log import boot_lines
from tools.host.recorded.figures import Figures
from tools.host.recorded.launch import Launch
from tools.host.recorded.load_log import load_lines
from tools.host.recorded.options import Options, Parsed, UsageMistake, parse
from tools.host.recorded.start import Start
from tools.host.recorded.traffic import Event

RUN_BEFORE_FAILURE_S = 0.8


@dataclass(frozen=True, slots=True)
class Entry:
    """One journal record. `unit` is empty for the kernel's."""

    at: datetime
    identifier: str
    pid: int
    text: str
    unit: str = ""
    priority: int = 6


def server_entries(figures: Figures, launch: Launch, start: Start, events: list[Event]) -> list[Entry]:
    """All entries of the unit, from the first recorded start to `now`."""
    server = start.server
    begins = [*server.earlier_starts, server.started]
    entries: list[Entry] = []
    for number, begin in enumerate(begins):
        last = number == len(begins) - 1
        pid = server.pid - 3117 * (len(begins) - 1 - number)
        entries.append(_systemd(begin, launch, f"Started {launch.unit} - {launch.value('Description')}."))
        lines = boot_lines(start, begin)
        if last and server.state == "running":
            lines += load_lines(start, events)
        entries += [Entry(line.at, "python3", pid, line.text, launch.unit) for line in lines if line.at <= figures.now]
        if not last or server.state != "running":
            following = None if last else begins[number + 1]
            entries += _ending(figures, launch, start, entries[-1].at, following, number)
    return sorted(entries, key=lambda entry: entry.at)


def _systemd(at: datetime, launch: Launch, text: str, priority: int = 6) -> Entry:
    return Entry(at, "systemd", 1, text, launch.unit, priority)


def _ending(
    figures: Figures, launch: Launch, start: Start, last_line: datetime, following: datetime | None, number: int
) -> Iterator[Entry]:
    """How systemd tells that a start ended: killed after a failure, or stopped by the operator."""
    server, unit = start.server, launch.unit
    failed = not start.succeeds
    if failed:
        at = last_line + timedelta(seconds=RUN_BEFORE_FAILURE_S)
        result = "oom-kill" if server.failure == "host_oom" else "signal"
        if server.failure == "host_oom":
            yield _systemd(at, launch, f"{unit}: A process of this unit has been killed by the OOM killer.")
        yield _systemd(at, launch, f"{unit}: Main process exited, code=killed, status=9/KILL", 5)
        yield _systemd(at, launch, f"{unit}: Failed with result '{result}'.", 4)
        if following is not None or server.state == "restarting":
            text = f"{unit}: Scheduled restart job, restart counter is at {number + 1}."
            yield _systemd(at + timedelta(seconds=15), launch, text)
        return
    at = following - timedelta(seconds=21) if following else (server.ended or figures.now)
    description = launch.value("Description")
    yield _systemd(at, launch, f"Stopping {unit} - {description}...")
    yield _systemd(at + timedelta(seconds=20), launch, f"{unit}: Deactivated successfully.")
    yield _systemd(at + timedelta(seconds=20), launch, f"Stopped {unit} - {description}.")


def kernel_entries(figures: Figures) -> list[Entry]:
    """Boot lines that agree with the machine, then what host.yaml records."""
    machine, booted = figures.machine, figures.machine.booted
    total_kib = round(figures.memory.total_gib * 1024 * 1024)
    texts = [
        f"Linux version {machine.kernel} (buildd@lcy02-amd64-091) #93-Ubuntu SMP PREEMPT_DYNAMIC",
        f"Command line: BOOT_IMAGE=/boot/vmlinuz-{machine.kernel} ro iommu=pt",
        f"Memory: {total_kib - 6_400_000}K/{total_kib + 9_000_000}K available",
    ]
    if figures.gpus:
        texts.append(f"NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  {figures.gpus.driver}  Release Build")
    entries = [Entry(booted + timedelta(seconds=0.2 * number), "kernel", 0, text) for number, text in enumerate(texts)]
    entries += [Entry(at, "kernel", 0, text, "", 4) for at, text in figures.kernel_log]
    return sorted(entries, key=lambda entry: entry.at)


_JOURNALCTL = Options(
    values={
        "u": "unit",
        "unit": "unit",
        "n": "lines",
        "lines": "lines",
        "o": "output",
        "output": "output",
        "g": "grep",
        "grep": "grep",
        "S": "since",
        "since": "since",
        "U": "until",
        "until": "until",
        "p": "priority",
        "priority": "priority",
        "t": "identifier",
        "identifier": "identifier",
        "case-sensitive": "case",
        "D": "directory",
        "facility": "facility",
    },
    switches={
        "k": "dmesg",
        "dmesg": "dmesg",
        "r": "reverse",
        "reverse": "reverse",
        "q": "quiet",
        "quiet": "quiet",
        "no-pager": "ignored",
        "a": "ignored",
        "all": "ignored",
        "x": "ignored",
        "l": "ignored",
        "e": "ignored",
        "no-full": "ignored",
        "full": "ignored",
        "no-hostname": "no_hostname",
        "utc": "ignored",
        "m": "ignored",
        "list-boots": "list_boots",
        "disk-usage": "disk_usage",
        "no-tail": "ignored",
        "system": "ignored",
    },
    optional={"b": "boot", "boot": "boot"},
)


def journalctl(entries: Iterable[Entry], figures: Figures, argv: list[str]) -> tuple[int, str, str]:
    """(exit, stdout, stderr) as journalctl of systemd 255 answers."""
    try:
        asked = parse(_JOURNALCTL, argv[1:])
        if asked.has("list_boots"):
            return 0, _list_boots(figures), ""
        if asked.has("disk_usage"):
            return 0, "Archived and active journals take up 1.2G in the file system.\n", ""
        chosen = list(_select(entries, figures, asked))
    except UsageMistake as mistake:
        return 1, "", f"{mistake}\n"
    except ValueError as error:
        return 1, "", f"Failed to parse timestamp: {error}\n"
    lines = asked.last("lines")
    if lines is not None and lines.lstrip("+").isdecimal():
        count = int(lines.lstrip("+"))
        chosen = chosen[:count] if lines.startswith("+") else chosen[len(chosen) - min(count, len(chosen)) :]
    if asked.has("reverse"):
        chosen.reverse()
    if not chosen:
        return (1 if asked.has("grep") else 0), "" if asked.has("quiet") else "-- No entries --\n", ""
    write = _FORMATS.get(asked.last("output") or "short")
    if write is None:
        return 1, "", f"Unknown output format '{asked.last('output')}'.\n"
    return 0, "".join(write(entry, figures) + "\n" for entry in chosen), ""


def _select(entries: Iterable[Entry], figures: Figures, asked: Parsed) -> Iterator[Entry]:
    units = {unit if "." in unit else f"{unit}.service" for unit in asked.all("unit")}
    since, until = (_moment(asked.last(name), figures.now) for name in ("since", "until"))
    pattern = _pattern(asked.last("grep"))
    least = _PRIORITIES.get(asked.last("priority") or "", asked.last("priority"))
    fields = dict(word.split("=", 1) for word in asked.operands if "=" in word)
    for entry in entries:
        if asked.has("dmesg") and entry.identifier != "kernel":
            continue
        if units and entry.unit not in units:
            continue
        if (since and entry.at < since) or (until and entry.at > until):
            continue
        if asked.all("identifier") and entry.identifier not in asked.all("identifier"):
            continue
        if least is not None and str(least).isdecimal() and entry.priority > int(least):
            continue
        if "_PID" in fields and str(entry.pid) != fields["_PID"]:
            continue
        if pattern is None or pattern.search(entry.text):
            yield entry


_PRIORITIES = {
    name: str(number)
    for number, name in enumerate(("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"))
}


def _pattern(text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    return re.compile(text, 0 if any(letter.isupper() for letter in text) else re.IGNORECASE)


_UNITS = {"s": 1, "sec": 1, "second": 1, "min": 60, "m": 60, "minute": 60, "h": 3600, "hr": 3600, "hour": 3600}
_UNITS |= {"d": 86400, "day": 86400, "w": 604800, "week": 604800}


def _moment(text: str | None, now: datetime) -> datetime | None:
    """A time as systemd.time writes it: relative (`-1h`, `15 min ago`), a word, or a date."""
    if text is None:
        return None
    text = text.strip()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    words = {"now": now, "today": midnight, "yesterday": midnight - timedelta(days=1)}
    if text in words:
        return words[text]
    if text.startswith("@"):
        return datetime.fromtimestamp(float(text[1:]), now.tzinfo)
    spans = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text.removesuffix("ago").lower())
    if spans and (text.startswith(("-", "+")) or text.endswith("ago")):
        seconds = 0.0
        for amount, unit in spans:
            kind = unit if unit in _UNITS else unit.rstrip("s")
            if kind not in _UNITS:
                raise ValueError(text)
            seconds += float(amount) * _UNITS[kind]
        return now + timedelta(seconds=seconds if text.startswith("+") else -seconds)
    found = datetime.fromisoformat(text.removesuffix(" UTC"))
    return found if found.tzinfo else found.replace(tzinfo=now.tzinfo)


def _source(entry: Entry) -> str:
    return entry.identifier if entry.identifier == "kernel" else f"{entry.identifier}[{entry.pid}]"


def _iso(entry: Entry, *, precise: bool) -> str:
    return entry.at.isoformat(timespec="microseconds" if precise else "seconds")


def _lines(entry: Entry, figures: Figures, stamp: str) -> str:
    return f"{stamp} {figures.machine.hostname} {_source(entry)}: {entry.text}"


def _as_json(entry: Entry, figures: Figures) -> str:
    record = {
        "__REALTIME_TIMESTAMP": str(round(entry.at.timestamp() * 1_000_000)),
        "_HOSTNAME": figures.machine.hostname,
        "SYSLOG_IDENTIFIER": entry.identifier,
        "_PID": str(entry.pid),
        "PRIORITY": str(entry.priority),
        "_SYSTEMD_UNIT": entry.unit,
        "_TRANSPORT": "kernel" if entry.identifier == "kernel" else "stdout",
        "MESSAGE": entry.text,
    }
    return json.dumps({key: value for key, value in record.items() if value})


_FORMATS = {
    "short": lambda entry, figures: _lines(entry, figures, entry.at.strftime("%b %d %H:%M:%S")),
    "short-iso": lambda entry, figures: _lines(entry, figures, _iso(entry, precise=False)),
    "short-iso-precise": lambda entry, figures: _lines(entry, figures, _iso(entry, precise=True)),
    "short-precise": lambda entry, figures: _lines(entry, figures, entry.at.strftime("%b %d %H:%M:%S.%f")),
    "short-full": lambda entry, figures: _lines(entry, figures, entry.at.strftime("%a %Y-%m-%d %H:%M:%S UTC")),
    "short-unix": lambda entry, figures: _lines(entry, figures, f"{entry.at.timestamp():.6f}"),
    "with-unit": lambda entry, figures: _lines(entry, figures, entry.at.strftime("%a %Y-%m-%d %H:%M:%S UTC")),
    "cat": lambda entry, figures: entry.text,
    "json": _as_json,
}


def _list_boots(figures: Figures) -> str:
    first, last = (at.strftime("%a %Y-%m-%d %H:%M:%S UTC") for at in (figures.machine.booted, figures.now))
    return (
        "IDX BOOT ID                          FIRST ENTRY                 LAST ENTRY\n"
        f"  0 5b0a4fc0b1d84c6f9d0c33ea5c1fbd3e {first} {last}\n"
    )
