"""Sums of `tools.capacity` as rows of the document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tools.capacity import GraphGrowth, Missing, Sum

Json = dict[str, Any]
NOT_YET: Final = "That cannot be worked out yet"
CITED: Final = 6


LEVERS_TOGETHER: Final = "Together with others:"


def row(entry: Sum) -> Json:
    """One sum as the document's `arithmetic` has it; figures rounded to what is meant."""
    return {
        "name": entry.name,
        "expression": entry.expression,
        "inputs": {name: _rounded(value) for name, value in entry.inputs.items()},
        "value": _rounded(entry.value),
        "unit": entry.unit,
        "grade": entry.grade,
        "evidence": list(entry.sources),
        "limit": None if entry.limit is None else _rounded(entry.limit),
        "limit_from": entry.limit_from,
        "margin": None if entry.margin is None else round(entry.margin, 3),
        "range": None if entry.low is None or entry.high is None else [_rounded(entry.low), _rounded(entry.high)],
        "at": entry.source_line,
    }


def lacking(missing: tuple[Missing, ...]) -> str:
    """What a sum lacked, and how to get it."""
    return "; ".join(f"{each.what}: {each.how}" for each in missing)


def not_yet(missing: tuple[Missing, ...], otherwise: str = "") -> str:
    """That a sum lacks something, and how to get it."""
    return f"{NOT_YET}. Missing: {lacking(missing) or otherwise}"


def graphs_told(growth: GraphGrowth) -> str:
    """What graphs of larger batches take of a GPU's memory."""
    told = (
        f"graphs for batches of {growth.first} to {growth.last} take {growth.low_gib:.2f} to {growth.high_gib:.2f} GiB"
    )
    return told if growth.free_gib is None else f"{told} of the {growth.free_gib:.2f} GiB free"


def sources(entries: Iterable[Sum]) -> str:
    """The evidence that sums rest on, as it stands between brackets."""
    found = dict.fromkeys(source for entry in entries for source in entry.sources if source[:1] == "E")
    return ", ".join(list(found)[:CITED])


def _rounded(value: float) -> float | int:
    if float(value).is_integer():
        return int(value)
    return round(value, 2) if abs(value) >= 100 else round(value, 4)
