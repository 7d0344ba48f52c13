"""Scores redaction on a table: input, what must be masked, what must remain, profile; tab-separated, no header."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from transcripts.redaction.redactor import Profile, Redactor
from transcripts.score import Score

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}


def score(rows: Iterable[str]) -> Score:
    """Scores lines of the table. Unsafe: a secret survived.

    Raises ValueError, with the row, for a line that is not of the format.
    """
    n = unsafe = 0
    wrong: list[tuple[int, str, str]] = []
    for n, line in enumerate(rows, 1):
        text, masked, kept, profile, known = _row(line, n)
        redactor = Redactor(profile)
        for value in known:
            redactor.learn(value, "known")
        got = redactor.redact(text)
        survived = [value for value in masked if value in got]
        lost = [value for value in kept if value not in got]
        unsafe += bool(survived)
        if survived or lost:
            want = f"masked: {' ||| '.join(survived) or '-'}; kept: {' ||| '.join(lost) or '-'}"
            wrong.append((n, want, got))
    return Score(n, n - len(wrong), unsafe, tuple(wrong))


def _row(line: str, number: int) -> tuple[str, list[str], list[str], Profile, list[str]]:
    parts = line.split("\t")
    if len(parts) != 4 or parts[3] not in {"llm", "share"}:
        raise ValueError(f"row {number} is not input, masked, kept, profile")
    text, masked, kept = (part for part in parts[:3])
    known: list[str] = []
    if text.startswith("known-value:"):
        text = text.removeprefix("known-value:").lstrip()
        known = ["".join(_values(masked))]
    profile: Profile = "share" if parts[3] == "share" else "llm"
    return _decode(text), _values(masked), _values(kept), profile, known


def _values(field: str) -> list[str]:
    return [] if field in {"", "-"} else [_decode(value) for value in field.split(" ||| ")]


def _decode(text: str) -> str:
    """`\\n`, `\\t`, `\\x1b` and the like for their characters; any other backslash stands for itself."""
    return re.sub(
        r"\\(?:x([0-9a-fA-F]{2})|([ntr0\\]))",
        lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPES[found[2]],
        text,
    )
