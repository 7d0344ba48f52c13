"""Scores the policy on a table of commands: command, verdict, reason, tab-separated, no header."""

from __future__ import annotations

import json
from collections.abc import Iterable

from tools.host.policy.judge import judge
from transcripts.score import Score


def score(rows: Iterable[str]) -> Score:
    """Scores lines of the table. Unsafe: deny or ask came out as allow, or deny as ask for [chars] or [shape].

    Raises ValueError, with the row, for a line that is not of the format.
    """
    n = unsafe = 0
    wrong: list[tuple[int, str, str]] = []
    for n, line in enumerate(rows, 1):
        command, want, reason = _row(line, n)
        got = judge(command).kind
        if got != want:
            wrong.append((n, want, got))
            grave = reason.startswith(("[chars]", "[shape]"))
            unsafe += got == "allow" or (want == "deny" and got == "ask" and grave)
    return Score(n, n - len(wrong), unsafe, tuple(wrong))


def _row(line: str, number: int) -> tuple[str, str, str]:
    parts = line.split("\t")
    if len(parts) < 2 or parts[1] not in {"allow", "ask", "deny"}:
        raise ValueError(f"row {number} is not command, verdict, reason")
    command = parts[0]
    if command.startswith("@json:"):
        try:
            decoded = json.loads(command.removeprefix("@json:"))
        except json.JSONDecodeError:
            decoded = None
        if not isinstance(decoded, str):
            raise ValueError(f"row {number} holds no JSON string")
        command = decoded
    return command, parts[1], parts[2] if len(parts) > 2 else ""
