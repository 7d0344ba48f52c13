"""What the policy says, and the small findings that add up to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["allow", "ask", "deny"]
Privacy = Literal["plain", "redact", "ask"]

_RANK: Final[dict[Kind, int]] = {"allow": 0, "ask": 1, "deny": 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason against silent running: `tag` is its class in one word, `why` a sentence for a person."""

    kind: Kind
    tag: str
    why: str


def deny(tag: str, why: str) -> Finding:
    return Finding("deny", tag, why)


def ask(tag: str, why: str) -> Finding:
    return Finding("ask", tag, why)


def worst(findings: Iterable[Finding]) -> Finding | None:
    """The first of the gravest findings; None when there are none."""
    gravest: Finding | None = None
    for finding in findings:
        if gravest is None or _RANK[finding.kind] > _RANK[gravest.kind]:
            gravest = finding
    return gravest


@dataclass(frozen=True, slots=True)
class Stage:
    """One judged program call: argv with absolute program, and whether its stderr is dropped or merged.

    `joined` is how it hangs on the stage before: "" (first), "|", "&&", "||" or ";".
    """

    argv: tuple[str, ...]
    joined: str = ""
    stderr: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """allow runs, ask needs the operator's yes, deny never runs.

    `reason` begins with its class in brackets. `position` is the byte of `asked` at which the grammar gave up, else
    None. `stages` are the argv tuples that were judged. `command` is the string to send, "" for deny. `privacy` says
    how careful the output is to be treated: every output is redacted, "redact" marks command lines and logs that
    commonly hold keys. `paths` are the words to look up on the host before running (see `resolve`), `globs` those of
    them that name several files. `ports` are those of the server that the verdict was given for.
    """

    kind: Kind
    reason: str
    position: int | None
    stages: tuple[tuple[str, ...], ...]
    command: str
    privacy: Privacy
    asked: str = ""
    user: str = "root"
    plan: tuple[Stage, ...] = ()
    paths: tuple[str, ...] = ()
    globs: tuple[str, ...] = ()
    ports: frozenset[int] = frozenset()
