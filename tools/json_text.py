"""Whether a text is JSON."""

from __future__ import annotations

import json


def is_json(text: str) -> bool:
    """True for one JSON value; a text that nests without end is none."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
