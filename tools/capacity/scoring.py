"""The score over a file of observed starts, as `eval kv` prints it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tools.capacity.observed import Comparison, compare
from tools.capacity.start_row import Row

GROUPS = ("size", "tokens", "host", "state", "draft", "auto_fraction", "running", "split")


def score(rows: Sequence[Row]) -> dict[str, Any]:
    """`{v, size: {n, inside_rounding, median, p90, max}, tokens: …, inferred: {size: …}, rows: […], unread: [id]}`.

    Errors are absolute fractions in the sums and signed in the rows; a group without a row has n 0 and null errors.
    """
    found, unread = compare(rows)
    known = [one for one in found if not one.inferred]
    fitted = [one for one in found if one.inferred]
    return {
        "v": 1,
        **{group: _summed([one for one in known if one.group == group]) for group in GROUPS},
        "inferred": {group: _summed([one for one in fitted if one.group == group]) for group in GROUPS},
        "rows": [
            {
                "id": one.id,
                "what": one.what,
                "want": one.want,
                "got": one.got,
                "error": one.error,
                "inside_rounding": one.inside_rounding,
            }
            for one in found
        ],
        "unread": unread,
    }


def _summed(group: list[Comparison]) -> dict[str, float | int | None]:
    errors = sorted(abs(one.error) for one in group)
    inside = sum(one.inside_rounding for one in group)
    if not errors:
        return {"n": 0, "inside_rounding": 0, "median": None, "p90": None, "max": None}
    half = len(errors) // 2
    middle = errors[half] if len(errors) % 2 else (errors[half - 1] + errors[half]) / 2
    ninth = errors[max(0, -(-9 * len(errors) // 10) - 1)]
    return {"n": len(errors), "inside_rounding": inside, "median": middle, "p90": ninth, "max": errors[-1]}
