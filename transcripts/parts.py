"""What records are made of: what was spent, one call, one hypothesis, one finding with its citations."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """Base of what a record is made of."""

    # Built when first used: a process meets few of the types, and to build all of them slows its start.
    model_config = ConfigDict(frozen=True, populate_by_name=True, defer_build=True)


class Limits(Part):
    """What a run may spend; None is no limit."""

    turns: int | None = 60
    seconds: float | None = 900.0
    tokens: int | None = None
    cost: float | None = None
    price_in: float = 0.0
    price_out: float = 0.0

    def price(self, usage: Usage) -> float:
        """What that usage costs, in the currency of the prices, which are per million tokens."""
        return (usage.tokens_in * self.price_in + usage.tokens_out * self.price_out) / 1e6


class Usage(Part):
    turns: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            turns=self.turns + other.turns,
            tokens_in=self.tokens_in + other.tokens_in,
            tokens_out=self.tokens_out + other.tokens_out,
        )


class Call(Part):
    id: str
    name: str
    arguments: str


class ReasonRow(Part):
    text: str
    source: tuple[str, ...] = ()
    weight: float = 0.0


class HypothesisRow(Part):
    id: str
    label: str
    statement: str
    status: Literal["supported", "refuted", "open"]
    weight: float
    supporting: tuple[ReasonRow, ...] = ()
    against: tuple[ReasonRow, ...] = ()
    would_settle: str = ""


class ClaimRow(Part):
    id: str
    text: str
    verdict: Literal["supported", "contradicted", "untestable"]
    evidence: tuple[str, ...] = ()
    why: str = ""


class Citation(Part):
    id: str = ""
    path: str
    line: int
    quote: str
    version: str = ""
    checked: bool = False


class Finding(Part):
    """The one thing research brings back: what the code says about a subject."""

    question: str
    subject: str
    kind: Literal["does", "does_not", "needs", "constraint", "answer", "contradicts"]
    text: str
    citations: tuple[Citation, ...] = ()


class WordedRow(Part):
    """A paragraph of the write-up as it was, and as the model words it; `refused`: why the old one stays."""

    was: str
    text: str
    refused: str = ""
