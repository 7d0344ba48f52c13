"""Commands that run another one. Few are looked through; the rest stand in `refused`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tools.host.policy.verdict import Finding, ask

Argv = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wrapper:
    """`inner` gives the wrapped argv, empty when the arguments are not exactly of the known form."""

    path: str
    inner: Callable[[Argv], Argv]
    finding: Finding | None = None


def _behind(pattern: str) -> Callable[[Argv], Argv]:
    """The words behind a head that the whole pattern fits, the longest head first; at most five words of it."""
    compiled = re.compile(pattern)

    def inner(arguments: Argv) -> Argv:
        for size in range(min(5, len(arguments) - 1), -1, -1):
            rest = arguments[size:]
            if (
                compiled.fullmatch(" ".join(arguments[:size]))
                and rest
                and not rest[0].startswith("-")
                and "=" not in rest[0]
            ):
                return rest
        return ()

    return inner


WRAPPERS: Final = {
    "timeout": Wrapper(
        "/usr/bin/timeout", _behind(r"((-k|--kill-after) \d{1,3}s? |(-s|--signal) (TERM|KILL|INT) )*\d{1,3}s?")
    ),
    "nice": Wrapper("/usr/bin/nice", _behind(r"(-n ?\d{1,2}|-\d{1,2}|--adjustment=\d{1,2})?")),
    "ionice": Wrapper("/usr/bin/ionice", _behind(r"-c ?[23]( -n ?[0-7])?")),
    "sudo": Wrapper(
        "/usr/bin/sudo", _behind(r"(-n|--non-interactive)?"), ask("priv", "a change of rights is never silent")
    ),
}
