"""What the weighing returns: plain frozen data, ready for a document, a model or a test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["supported", "refuted", "open"]
Kind = Literal["cause", "healthy", "abstain"]
Do = Literal["raise", "lower", "set", "remove", "upgrade"]
ChangeKind = Literal["flag", "env", "container", "host", "upgrade"]
Scalar = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that speaks for or against a hypothesis; `source` names the facts it was read from."""

    text: str
    source: tuple[str, ...]
    weight: float


@dataclass(frozen=True, slots=True)
class Question:
    """What would settle a hypothesis, and where to look: a log line, a command, a figure to ask for."""

    text: str
    look: str


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One explanation of the taxonomy, weighed. `observed` is the part of the weight that does not rest on claims."""

    label: str
    statement: str
    weight: float
    observed: float
    status: Status
    for_: tuple[Reason, ...]
    against: tuple[Reason, ...]
    would_settle: Question | None = None
    neighbours: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Assessment:
    """Every hypothesis with any weight, strongest first, and what follows from the ranking."""

    kind: Kind
    label: str
    certainty: float
    hypotheses: tuple[Hypothesis, ...]
    missing: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """One change. `from_` is None where nothing was typed; `to` is None where a flag goes or a version must rise."""

    kind: ChangeKind
    do: Do
    flag: str
    from_: Scalar | None
    to: Scalar | None
    unit: str
    why: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MustNot:
    """A change that looks near and does harm here, or does nothing, and why."""

    do: Do
    flag: str
    why: str


@dataclass(frozen=True, slots=True)
class Expectation:
    """What should be seen after the change, and where."""

    what: str
    where: str


@dataclass(frozen=True, slots=True)
class Watch:
    """A measure to compare before and after: what counts as better, what as worse, over how long."""

    metric: str
    window_s: int
    better: str
    worse: str


@dataclass(frozen=True, slots=True)
class Actions:
    """What to do about one cause; at most four changes, the most telling first."""

    changes: tuple[Proposal, ...] = ()
    must_not: tuple[MustNot, ...] = ()
    alternatives: tuple[tuple[str, str], ...] = ()
    expected: tuple[Expectation, ...] = ()
    verify: tuple[Watch, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """Something the operator said or took for granted, tested."""

    text: str
    verdict: Literal["supported", "contradicted", "untestable"]
    evidence: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Anchor:
    """A pattern to be searched in the source tree; the claim holds only where the pattern is found."""

    pattern: str
    path: str
    shows: str
    claim: str
    kind: Literal["does", "does_not", "needs", "constraint", "answer", "contradicts"] = "answer"


@dataclass(frozen=True, slots=True)
class ResearchQuestion:
    """What a researcher should establish in the source of the deployed version."""

    id: str
    text: str
    anchors: tuple[Anchor, ...]
    flags: tuple[str, ...] = ()
