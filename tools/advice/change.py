"""A proposed change, a refusal, and what a check returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["flag", "env", "container", "host", "upgrade"]
Do = Literal["set", "raise", "lower", "remove", "upgrade"]
Scalar = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Valid:
    """Where the option stands in that version, and whether the rules of its code are kept."""

    version: str
    at: str
    rules: str

    def row(self) -> dict[str, str]:
        return {"in": self.version, "at": self.at, "rules": self.rules}


@dataclass(frozen=True, slots=True)
class Change:
    """One change. `from_` is None where nothing was typed; `to` is None for a switch, a removal, an open upgrade.

    `evidence` are ids as facts carry them (`E5`, `E5:88`, `S1`). `confirm_by` names the check that would confirm a
    change whose evidence does not.
    """

    kind: Kind
    do: Do
    flag: str
    from_: Scalar | None = None
    to: Scalar | None = None
    unit: str = ""
    why: str = ""
    evidence: tuple[str, ...] = ()
    valid: Valid | None = None
    confirmed: bool = False
    confirm_by: str = ""

    def row(self) -> dict[str, Any]:
        """The change as the diagnosis document has it."""
        row: dict[str, Any] = {
            "kind": self.kind,
            "do": self.do,
            "flag": self.flag,
            "from": self.from_,
            "to": self.to,
            "unit": self.unit,
            "valid": self.valid.row() if self.valid else None,
            "why": self.why,
            "evidence": list(self.evidence),
            "confirmed": self.confirmed,
        }
        return row if self.confirmed else {**row, "confirm_by": self.confirm_by}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A change that is not to be shown as advice, and why: text for whoever proposed it."""

    change: Change
    reason: str

    def row(self) -> dict[str, Any]:
        return {"change": self.change.row(), "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Checked:
    """What passed and what did not; together they are everything that was proposed.

    `standing` is what the version refuses in the launch command as it is, and goes on refusing after the changes.
    """

    accepted: tuple[Change, ...]
    refused: tuple[Refusal, ...]
    standing: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """What a rule of the code or a sum objects to; `at` is `path:line` or the figure's source."""

    text: str
    at: str = ""

    def __str__(self) -> str:
        return f"{self.text} ({self.at})" if self.at else self.text
