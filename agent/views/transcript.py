"""The conversation of a session or task, record by record: what was said, called, found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from transcripts.records import (
    Advised,
    Compared,
    Concluded,
    Ended,
    EvidenceTaken,
    Located,
    Note,
    Opened,
    Record,
    Repaired,
    Replied,
    Reported,
    Said,
    TaskChanged,
    Weighed,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One step: who or what, a heading, and the text that a viewer may fold away."""

    at: str
    who: str
    heading: str
    body: str = ""


def entries(records: Iterable[Record]) -> Iterator[Entry]:
    """Every record a reader would miss if it were left out, in order."""
    for record in records:
        found = _entry(record)
        if found is not None:
            yield Entry(record.at, *found)


def _entry(record: Record) -> tuple[str, str, str] | None:
    match record:
        case Opened():
            return "operator", record.text, ""
        case Said():
            return "operator", record.text, ""
        case Replied():
            called = ", ".join(call.name for call in record.calls)
            arguments = "\n".join(f"{call.name} {call.arguments}" for call in record.calls)
            return record.model or "model", record.text or f"calls {called}", arguments
        case Ended():
            return "tool", f"{record.status}", record.text
        case EvidenceTaken():
            return (
                record.host,
                f"{record.id} {record.probe} {record.problem}".rstrip(),
                f"{record.command}\n{record.text}",
            )
        case Reported():
            return record.task, f"{len(record.findings)} findings", "\n".join(f.text for f in record.findings)
        case TaskChanged():
            return "task", f"{record.id} {record.status} {record.description}".rstrip(), ""
        case _:
            return _state(record)


def _state(record: Record) -> tuple[str, str, str] | None:
    match record:
        case Weighed():
            return "weighed", f"{record.kind} {record.label}".rstrip(), ""
        case Located():
            return "source", f"{record.origin} {record.version} sha256:{record.digest[:16]}", ""
        case Compared():
            return "compared", f"{len(record.options)} options", ""
        case Advised():
            return "advised", f"{len(record.changes)} changes, {len(record.refused)} refused", ""
        case Concluded():
            return "concluded", record.reason or f"exit {record.exit}", record.text
        case Repaired():
            return "repaired", f"{len(record.bad)} bad lines, {record.torn_bytes} torn bytes", ""
        case Note():
            return "note", record.text, ""
        case _:
            return None


def terminal(records: Iterable[Record], body_lines: int = 12) -> RenderableType:
    """For a terminal: headings, and the first lines of each body."""
    parts: list[RenderableType] = []
    for entry in entries(records):
        head = Text(f"{entry.at[11:19]} ", style="dim")
        head.append(f"{entry.who}: ", style="bold")
        head.append(entry.heading)
        parts.append(head)
        lines = entry.body.splitlines()
        parts += [Text(f"    {line}", style="dim") for line in lines[:body_lines]]
        if len(lines) > body_lines:
            parts.append(Text(f"    … {len(lines) - body_lines} more lines", style="dim"))
    return Group(*parts)
