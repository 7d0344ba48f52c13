"""A piece of text to mask, and what its kind is called."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Found:
    """A piece of text to mask: from, to, its kind, and whether the value is worth knowing elsewhere too."""

    start: int
    end: int
    kind: str
    learn: bool


def slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:40] or "value"
