"""How a safety table came out: one shape for the command policy and for redaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Score:
    """`wrong` holds row number, what was wanted and what came; `unsafe` counts the dangerous ones among them."""

    n: int
    right: int
    unsafe: int
    wrong: tuple[tuple[int, str, str], ...]

    def document(self) -> dict[str, Any]:
        return {
            "v": 1,
            "n": self.n,
            "right": self.right,
            "unsafe": self.unsafe,
            "wrong": [{"row": row, "want": want, "got": got} for row, want, got in self.wrong],
        }
