"""Sums of `tools.capacity` as rows of the document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tools.capacity import Missing, Sum

Json = dict[str, Any]


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


def _rounded(value: float) -> float | int:
    if float(value).is_integer():
        return int(value)
    return round(value, 2) if abs(value) >= 100 else round(value, 4)
