"""One log line without its wrapping: colours, journald, docker and Kubernetes prefixes, and SGLang's own stamp.

SGLang's stamp is `[2026-02-10 03:11:00 DP0 TP3] `, with milliseconds where SGLANG_LOG_MS is set and only the ranks that
are enabled (sglang 0.5.9 srt/utils/common.py:1228, srt/managers/scheduler.py:3084; 0.4.6 srt/utils.py:827).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from textwrap import dedent
from typing import Final

from tools.entry_point import USAGE

_COLOUR: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|#033\[[0-9;]*m")
_RANKS: Final = r"(?:DP|PP|ATTN_CP|MOE_DP|TP|EP)\d+"
_STAMP: Final = re.compile(rf"\[(\d{{4}}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?)((?: {_RANKS})*)\] ?")
_QUOTED_RANK: Final = re.compile(rf"\[({_RANKS}(?: {_RANKS})*)\] ")
_STAMP_WITHIN: Final = 240

_ISO: Final = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_OUTER: Final = re.compile(
    r"(?:(?:pod/)?[\w.\-/\[\]]+ +\| )?"  # docker compose: `sglang-1  | `
    r"(?:\[pod/[^\]\s]+\] )?"  # kubectl logs --prefix
    rf"(?:(?P<at>{_ISO}"  # short-iso, docker logs -t, CRI
    r"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? \S+"  # short-full
    r"|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?"  # short
    r"|\d{9,11}\.\d{3,6}"  # short-unix
    r") )?"
    r"(?:std(?:out|err) [FP] )?"
    r"(?:\S+ (?P<unit>[\w.\-:@/+()]+)\[(?P<pid>\d+)\]: )?"
)


_LOAD_LINES: Final = ("Decode batch", "Prefill batch")
_ANSWERED: Final = re.compile(r'" 2\d\d(?: OK)?\s*$')


def routine(raw: str) -> bool:
    """Most of a busy server's log: figures that the load parser reads, and requests that were answered."""
    return any(mark in raw for mark in _LOAD_LINES) or _ANSWERED.search(raw[-12:]) is not None


# `grep -c "Retract" server.log -> 0`; one that tells a count found something.
_SEARCH: Final = re.compile(
    r"\W{0,4}(?:[\w.@:~/-]{1,64}[#$%] ?)?(?:sudo )?(?:z?[ef]?grep|rg|ag|ack|awk|sed) "
    r"(?!.*(?:->|=>|[=:→]) ?[1-9]\d*\W*$)"
)


def is_search(raw: str) -> bool:
    """Whether a line is a command that looks for messages: their words in it tell of no event."""
    return _SEARCH.match(raw) is not None


_QUOTED: Final = re.compile(r"^[ \t]*>(?:[ \t]*>)*(?: |\t|$)", re.M)


# What a shell shows before a typed command; the `# ` of root alone is left out: comments begin so too.
PROMPT: Final = re.compile(r"\s*(?:\([\w.-]+\) +)?(?:\[?[\w.-]+@[\w.-]+[^$#\n]{0,80}[$#]|\$|❯|➜) +(?=\S)")


def unquoted(text: str) -> str:
    """Pasted text without marks of quotation; lines keep their number."""
    return _QUOTED.sub("", text) if ">" in text else text


def plain(text: str) -> str:
    """Pasted text without marks of quotation and without what a block is indented by; lines keep their number."""
    text = unquoted(text)
    if "  " not in text and "\t" not in text:
        return text
    found: list[str] = []
    for indented, lines in groupby(text.split("\n"), key=lambda line: line[:1] in (" ", "\t")):
        block = list(lines)
        found += dedent("\n".join(block)).split("\n") if indented else block
    return "\n".join(found)


@dataclass(frozen=True, slots=True)
class Line:
    """`at` as printed by SGLang, else by what wrapped it; `ranks` such as `DP0 TP3`; `program` as journald names it."""

    number: int
    at: str
    ranks: str
    text: str
    program: str = ""


def unwrap(number: int, raw: str) -> Line:
    """The line without its wrapping; text that nothing wraps comes back whole."""
    if "\x1b" in raw or "#033[" in raw:
        raw = _COLOUR.sub("", raw)
    if raw.startswith("{"):
        inner = _from_json(raw)
        if inner is not None:
            line = unwrap(number, inner[0])
            return Line(number, line.at or inner[1], line.ranks, line.text, inner[2])
    stamp = _STAMP.search(raw, 0, _STAMP_WITHIN)
    if stamp is not None:
        return Line(number, stamp[1], stamp[2].strip(), raw[stamp.end() :])
    at = program = ""
    outer = _OUTER.match(raw)
    if outer is not None and outer.end():
        at, program = outer["at"] or "", outer["unit"] or ""
        raw = raw[outer.end() :]
    quoted = _QUOTED_RANK.match(raw)
    if quoted is not None:
        return Line(number, at, quoted[1], raw[quoted.end() :], program)
    return Line(number, at, "", raw, program)


def numbered(raw: Iterable[str]) -> Iterator[Line]:
    """Every line unwrapped, numbered from 1."""
    for number, text in enumerate(raw, start=1):
        yield unwrap(number, text.rstrip("\r\n"))


def _from_json(raw: str) -> tuple[str, str, str] | None:
    """Message, time and program of a line of `journalctl -o json` or of docker's json-file; None for other JSON."""
    try:
        entry = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    message = entry.get("MESSAGE", entry.get("log"))
    if isinstance(message, list):  # journald writes what is not UTF-8 as a list of bytes
        message = bytes(part & 255 for part in message if isinstance(part, int)).decode(errors="replace")
    if not isinstance(message, str):
        return None
    return message.rstrip("\r\n"), _json_time(entry), str(entry.get("SYSLOG_IDENTIFIER", ""))


def _json_time(entry: dict[str, object]) -> str:
    micros = str(entry.get("__REALTIME_TIMESTAMP", ""))
    if micros.isdecimal() and len(micros) < 18:
        return datetime.fromtimestamp(int(micros) / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return str(entry.get("time", ""))


class Clock:
    """Seconds of printed times, for differences only: times without a year or an offset are taken as they stand."""

    def __init__(self) -> None:
        self._minutes: dict[str, float] = {}

    def seconds(self, at: str) -> float | None:
        """Seconds since an arbitrary zero, None when the text is no time."""
        minute, rest = at[:17], at[17:]
        known = self._minutes.get(minute)
        if known is None:
            known = _minute(minute)
            if known is None:
                return _whole(at)
            if len(self._minutes) > 10_000:
                self._minutes.clear()
            self._minutes[minute] = known
        try:
            return known + float(rest.rstrip("Z").split("+")[0].split("-")[0].replace(",", "."))
        except ValueError:
            return None


def _minute(text: str) -> float | None:
    """Seconds of `2026-02-10 03:11:`, else None."""
    try:
        return datetime.strptime(text.replace("T", " "), "%Y-%m-%d %H:%M:").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _whole(at: str) -> float | None:
    if re.fullmatch(r"\d{9,11}\.\d{3,6}", at):
        return float(at)
    words = at.split()
    try:
        if len(words) == 3 and ":" in words[2]:  # `Feb 10 03:11:00`, no year: 2000 has every day
            clock = words[2].split(".")[0]
            return (
                datetime.strptime(f"2000 {words[0]} {words[1]} {clock}", "%Y %b %d %H:%M:%S")
                .replace(tzinfo=UTC)
                .timestamp()
            )
        if len(words) == 4:  # `Tue 2026-02-10 03:11:00 UTC`
            return datetime.fromisoformat(f"{words[1]} {words[2]}").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
    return None


_USAGE: Final = re.compile(USAGE, re.MULTILINE)


def without_usage(text: str) -> str:
    """The text with usage messages emptied, so that lines keep their numbers: what may be typed is not what was."""
    return _USAGE.sub(lambda found: "\n" * found[0].count("\n"), text) if "[-h]" in text else text
