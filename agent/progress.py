"""How one task is getting on, from its own transcript: its last step, for how long, silent for how long, cost."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agent.case import TaskState
from transcripts.store import Store

Json = dict[str, Any]
LAST_STEPS = 8


@dataclass(frozen=True, slots=True)
class Progress:
    """`doing` is the last step; times in seconds, `silent_s` None for a task that does not run."""

    doing: str
    for_s: float
    silent_s: float | None
    tokens: int

    @property
    def times(self) -> str:
        return f"{self.for_s:.0f} s" + (f" / {self.silent_s:.0f} s" if self.silent_s is not None else "")


def progress(store: Store, identity: str, running: bool) -> Progress:
    """Of one task; a task that has no transcript yet waits for its turn."""
    records = store.peek(identity)
    if not records:
        return Progress("waiting", 0.0, None, 0)
    first, last = _when(records[0]), _when(records[-1])
    now = datetime.now(UTC)
    usage = [record["usage"] for record in records if record["type"] == "replied"]
    return Progress(
        doing=next((step for record in reversed(records) if (step := _step(record))), "opened"),
        for_s=((now if running else last) - first).total_seconds(),
        silent_s=(now - last).total_seconds() if running else None,
        tokens=sum(each.get("tokens_in", 0) + each.get("tokens_out", 0) for each in usage),
    )


def told(task: TaskState, store: Store, running: bool) -> str:
    """One task in lines: what it was asked, its last steps, what it may still spend."""
    head = f"{task.id}: {task.description}\n{'running' if running else task.status}, {task.turns} turns"
    records = store.peek(task.id)
    if not records:
        return f"{head}; it has not begun."
    limits, turns = records[0].get("limits", {}), sum(record["type"] == "replied" for record in records)
    seen = progress(store, task.id, running)
    left = f"; {limits['turns'] - turns} of {limits['turns']} turns left" if limits.get("turns") else ""
    asked = [f"  {line}" for record in records if record["type"] in ("opened", "said") for line in _lines(record)]
    steps = [f"  {step}" for record in records if (step := _step(record))][-LAST_STEPS:]
    spent = f"{seen.times}, {seen.tokens:,} tokens{left}"
    return "\n".join([head, spent, "asked:", *asked, "last steps:", *steps])


def _lines(record: Json) -> list[str]:
    return str(record["text"]).splitlines()


def _step(record: Json) -> str:
    """A record as a step worth showing, else empty."""
    match record["type"]:
        case "started":
            return f"{record['name']} {_worded(record['arguments'])}".rstrip()[:70]
        case "reported":
            return f"reported {len(record['findings'])} findings"
        case "concluded":
            return str(record.get("reason") or "done")[:70]
        case "replied" if record["text"]:
            return f"said: {' '.join(str(record['text']).split())}"[:70]
        case _:
            return ""


def _worded(arguments: str) -> str:
    """The values of a call without the braces and names around them; as they stand where they are no object."""
    try:
        values = json.loads(arguments)
    except ValueError:
        return arguments
    return " ".join(str(value) for value in values.values()) if isinstance(values, dict) else arguments


def _when(record: Json) -> datetime:
    return datetime.fromisoformat(record["at"])
