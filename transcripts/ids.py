"""Ids of sessions and tasks: `ses_` and sixteen letters that sort by time."""

from __future__ import annotations

import re
import secrets
import time
from datetime import UTC, datetime
from typing import Final

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TIME_LETTERS: Final = 10
_RANDOM_LETTERS: Final = 6
_FORM: Final = re.compile(f"ses_[{_ALPHABET}]{{0,{_TIME_LETTERS + _RANDOM_LETTERS}}}")


def new_id() -> str:
    """A new id: ten letters of milliseconds, six of chance."""
    value = time.time_ns() // 1_000_000
    letters = []
    for _ in range(_TIME_LETTERS):
        value, digit = divmod(value, len(_ALPHABET))
        letters.append(_ALPHABET[digit])
    return "ses_" + "".join(reversed(letters)) + "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM_LETTERS))


def when(identity: str) -> str:
    """The time in an id, as records write it; empty where it is none."""
    letters = identity[4 : 4 + _TIME_LETTERS]
    if not is_id(identity) or len(letters) < _TIME_LETTERS:
        return ""
    value = 0
    for letter in letters:
        value = value * len(_ALPHABET) + _ALPHABET.index(letter)
    try:
        return datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return ""


def is_id(text: str) -> bool:
    """Whether the text has the form of an id, whole or a beginning of one."""
    return _FORM.fullmatch(text) is not None
