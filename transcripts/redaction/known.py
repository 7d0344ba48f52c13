"""Values that are known to be secret, found again however they are written: 12 encodings, and wrapped over lines."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, quote_plus

SHORTEST: Final = 6
_BASE64: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_")
_WRAP: Final = r"(?:\\?\r?\n[ \t]*|\\n)?"
_PERCENT: Final = re.compile(r"%[0-9A-Fa-f]{2}%[0-9A-Fa-f]{2}%")
_SHORT_VARIANT: Final = 6
_MANY: Final = 2_000


def variants(value: str) -> frozenset[str]:
    """The ways a value is commonly written, each at least six characters long."""
    data = value.encode("utf-8", "surrogatepass")
    percent = "".join(f"%{byte:02X}" for byte in data)
    url = quote(value, safe="", errors="surrogatepass")
    written = {
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(value)[1:-1])[1:-1],
        repr(value)[1:-1],
        value.replace("'", "'\\''"),
        value.replace("'", "'\"'\"'"),
        re.sub(r"([^\w@%+=:,./-])", r"\\\1", value),
        re.sub(r'(["\\$`])', r"\\\1", value),
        url,
        re.sub(r"%[0-9A-F]{2}", lambda found: found.group().lower(), url),
        quote(url, safe=""),
        quote(value, errors="surrogatepass"),
        quote_plus(value, errors="surrogatepass"),
        percent,
        percent.lower(),
        html.escape(value),
        html.escape(value, quote=False),
        data.hex(),
        data.hex().upper(),
        "".join(f"\\x{byte:02x}" for byte in data),
    }
    return frozenset(text for text in written if len(text) >= _SHORT_VARIANT) | frozenset(_base64(data))


def _base64(data: bytes) -> Iterator[str]:
    """What of the value is sure to show in base64, at each of the three offsets it may have in a longer text."""
    for offset in range(3):
        text = base64.b64encode(b"\0" * offset + data).decode()
        inner = text[-(-offset * 8 // 6) : (offset + len(data)) * 8 // 6]
        if len(inner) >= 8:
            yield inner
            yield inner.replace("+", "-").replace("/", "_")


class Known:
    """A set of known values; `find` gives where any of them stands in a text."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[str, str, bool]] = {}

    def __len__(self) -> int:
        return len(self._kinds)

    def add(self, value: str, kind: str) -> bool:
        """Learn a value. False when it is too short to be looked for outside its own context."""
        if len(value) < SHORTEST:
            return False
        encoded = frozenset(_base64(value.encode("utf-8", "surrogatepass")))
        for text in variants(value):
            self._kinds.setdefault(text, (value, kind, text in encoded and text != value))
        return True

    def find(self, text: str) -> Iterator[tuple[int, int, str, str]]:
        """Start, end, the value itself, its kind; in no order, overlaps possible."""
        percent, escaped = _PERCENT.search(text) is not None, "\\x" in text
        broken = "\n" in text or "\\n" in text
        for written, (value, kind, encoded) in self._kinds.items():
            if (_PERCENT.match(written) and not percent) or (written.startswith("\\x") and not escaped):
                continue
            at = text.find(written)
            while at >= 0:
                start, end = (at, at + len(written)) if not encoded else _whole_run(text, at, at + len(written))
                yield start, end, value, kind
                at = text.find(written, end)
            if broken and (encoded or written == value):
                yield from ((start, end, value, kind) for start, end in _wrapped(text, written))


def _whole_run(text: str, start: int, end: int) -> tuple[int, int]:
    """Take in the rest of an encoded run, at most 8 characters on each side."""
    low, high = max(0, start - 8), min(len(text), end + 8)
    while start > low and text[start - 1] in _BASE64:
        start -= 1
    while end < high and text[end] in _BASE64:
        end += 1
    return start, end


def _wrapped(text: str, written: str) -> Iterator[tuple[int, int]]:
    """Where the value is broken over lines; its first or its last characters stand together."""
    if len(written) > 4_096:
        return
    head, tail = written[:5], written[-5:]
    pattern: re.Pattern[str] | None = None
    reach = len(written) * 4 + 40
    for piece, from_end in ((head, False), (tail, True)):
        at, tries = text.find(piece), 0
        while at >= 0 and tries < _MANY:
            tries += 1
            low = max(0, at - reach) if from_end else at
            high = min(len(text), at + len(piece) if from_end else at + reach)
            if "\n" in text[low:high] or "\\n" in text[low:high]:
                pattern = pattern or re.compile(_WRAP.join(map(re.escape, written)))
                for found in pattern.finditer(text, low, high):
                    yield found.span()
            at = text.find(piece, at + len(piece))
