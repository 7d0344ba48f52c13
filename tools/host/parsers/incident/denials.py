"""What a text says has not happened, or only might: taken out before its words are read as an event."""

from __future__ import annotations

import re
from typing import Final

_SHORTAGE: Final = r"(?:ooms?|out[ -]of[ -]memory)"
# `no OOM so far`, `it never hangs`, `zero CUDA out of memory`: what did not befall them is told by its own word.
_BEFELL_NOT: Final = re.compile(
    r"\b(?:no|not|never|without|zero|isn't|wasn't|didn't|doesn't|don't)(?: (?:an?|any|a single|yet|see|seen|had|have))*"
    rf" (?:\w+ )?(?:{_SHORTAGE}|hangs?|hanging|hung|deadlock\w*|leak\w*|crash\w*|retract\w*|evictions?)\b"
    r"(?! (?:but|, it))",
    re.IGNORECASE,
)
# `retractions: 0`, `evictions none`
_COUNTED_NONE: Final = re.compile(
    rf"\b(?:{_SHORTAGE}|hangs|crashes|retract\w*|evictions?)(?: lines| events| per hour)?"
    r"[:=]? ?(?:are |is )?(?:0|none|zero)\b(?![.\d])",
    re.IGNORECASE,
)
# What advice and guesses name has not happened: "if it is an OOM problem", "(e.g., OOM)", "to avoid CUDA OOM". The last
# request that a full KV pool sends away is told as OOM too, and no GPU memory ran out.
_SUPPOSED: Final = re.compile(
    r"(?:\bif (?:it is|you|there is)\b|\bavoid|\bprevent|\bguards? against\b|\be\.g\.|\b(?:may|might|could) cause\b"
    rf"|\blikely due to\b|aborted last request)[^.;:\n]{{0,60}}?\b{_SHORTAGE}\b",
    re.IGNORECASE,
)


def without_denied(text: str) -> str:
    """The text without what it denies."""
    return _COUNTED_NONE.sub(" ", _BEFELL_NOT.sub(" ", text))


def happened(line: str) -> str:
    """The line without the shortages of memory that it only supposes or denies."""
    return _SUPPOSED.sub("", without_denied(line))
