"""Placeholders: typed, and the same for the same value throughout one redactor's life.

`«secret:api_key#1»`, `«host#2»`, `«prompt:text#1 32 chars»`. Values are kept only as keyed digests in memory.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import Final

PLACEHOLDER: Final = re.compile(r"«[a-z]+(?::[a-z0-9_]+)?#\d+(?: \d+ chars)?»")
_LOOKS: Final = re.compile(r"«\s*[A-Za-z]+\s*[:#][^»]{0,80}»?")


def has_placeholder(text: str) -> bool:
    """Does the text hold a placeholder, or something that tries to be one? Such text is never an argument."""
    return _LOOKS.search(text) is not None


class Placeholders:
    """Numbers values by kind; the same value keeps its first placeholder."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._named: dict[bytes, str] = {}
        self._counts: dict[str, int] = {}

    def name(self, value: str, kind: str) -> str:
        """The placeholder of a value. `kind` is its type, such as `secret:api_key`."""
        digest = hmac.digest(self._key, value.encode("utf-8", "surrogatepass"), hashlib.sha256)
        known = self._named.get(digest)
        if known is None:
            number = self._counts[kind] = self._counts.get(kind, 0) + 1
            size = f" {len(value)} chars" if kind.startswith("prompt") else ""
            known = self._named[digest] = f"«{kind}#{number}{size}»"
        return known
