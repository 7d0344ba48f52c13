"""What can be wrong with a launch command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "note"]
Kind = Literal[
    "unknown",
    "foreign",
    "abbreviation",
    "ambiguous",
    "value",
    "missing",
    "deprecated",
    "repeated",
    "stray",
    "rule",
    "override",
    "pool",
    "unseen",
    "idle",
    "around",
]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something about a command. `at` and `quote` are the line of the tree that says so, empty if none does."""

    kind: Kind
    severity: Severity
    flag: str
    message: str
    instead: str = ""
    at: str = ""
    quote: str = ""

    def document(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("kind", "severity", "flag", "message", "instead", "at", "quote")}
