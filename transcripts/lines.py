"""One record, one line: `{"v":1,"seq":N,"at":"…Z","type":"…",…,"sum":"crc32"}` in ASCII, the sum over all before it."""

from __future__ import annotations

import json
import zlib
from typing import Any, Final

VERSION: Final = 1
MOST: Final = 1 << 53  # records of a transcript
Json = dict[str, Any]


def line_of(record: Json) -> bytes:
    """A record as its line, checksum and newline included."""
    body = json.dumps(record, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return f'{body[:-1]},"sum":"{zlib.crc32(body.encode()):08x}"}}\n'.encode()


def record_of(line: bytes) -> tuple[Json | None, str]:
    """The record of a line without its newline; None, and what is wrong with it, where the line cannot be believed."""
    head, mark, tail = line.rpartition(b',"sum":"')
    if not mark or len(tail) != 10 or not tail.endswith(b'"}'):
        return None, "no checksum"
    body = head + b"}"
    if f"{zlib.crc32(body):08x}".encode() != tail[:8]:
        return None, "the checksum does not fit"
    try:
        record = json.loads(body)
    except (ValueError, RecursionError):
        return None, "not JSON"
    if not isinstance(record, dict) or not {"v", "seq", "at", "type"} <= record.keys():
        return None, "not a record"
    if not all(isinstance(record[key], kind) for key, kind in (("v", int), ("seq", int), ("at", str), ("type", str))):
        return None, "not a record"
    if not 0 < record["seq"] < MOST:
        return None, "its number is none"
    return record, ""
