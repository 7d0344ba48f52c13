"""Every error a person may see.

    ScoutError                   exit 1  (a bug, if nothing below fits)
    ├── UsageError               exit 2  wrong words, unknown id, unreadable bundle, unwritable folder, busy session
    ├── Inconclusive             exit 3  source not to be had, nothing decided, verification not met
    ├── HostError                exit 4  the host was not reached (its kinds stand in tools/host/errors.py)
    ├── LimitReached             exit 5  turns, time, tokens
    └── EndpointError            exit 6  the model endpoint failed

Each says in one line what happened and, in `hint`, what to do next. Packages add their own kinds below these. Ctrl-C is
none of them: the program leaves with 130.
"""

from __future__ import annotations

import errno
from typing import ClassVar, Final

DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class ScoutError(Exception):
    """One line for a person, what to do next, and the exit code of the program."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class UsageError(ScoutError):
    exit_code = 2


class Inconclusive(ScoutError):
    exit_code = 3


class HostError(ScoutError):
    exit_code = 4


class LimitReached(ScoutError):
    exit_code = 5


class EndpointError(ScoutError):
    exit_code = 6
