"""One script for all probes: composed here, answered on the host, split again as the answers arrive.

The script needs nothing but a POSIX sh and coreutils, writes no file, and runs the probes side by side, each under
`timeout -k`. An answer is framed by a random marker and its length in bytes, so that no output can pass for a frame:

    MARKER NAME LENGTH\n  LENGTH bytes  \n

The last line of those bytes is `MARKER EXIT [BEGUN ENDED]` (seconds of uptime); where it is missing the output
was cut at its limit. The last frame is `end`, with what the script cost. A probe is one line
`go NAME BYTES NEED timeout -k 2 SECONDS ARGV…` of the script, which is what `decompose` reads.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import resources
from typing import Final

from tools.host.probes import SLOTS, Probe

DISCOVERY: Final = "discovery"
TICKS_PER_S: Final = 100
_HEAD: Final = re.compile(rb"^([0-9a-f]{32}) ([a-z0-9_]+) (\d+)$")
_TAIL: Final = re.compile(rb"(\d{1,3})(?: (\d{1,12}(?:\.\d+)?) (\d{1,12}(?:\.\d+)?))?")
_SLOT: Final = re.compile(r"\$([A-Z]+)")
_GO: Final = "go "


@dataclass(frozen=True, slots=True)
class Answer:
    """One probe's output: bytes, exit status (None when cut or skipped), whether it was cut or skipped, seconds."""

    name: str
    output: bytes
    exit: int | None
    truncated: bool = False
    skipped: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Asked:
    """One probe as the script asks it: what a recorded host needs to answer. `argv` still holds slots as `$NAME`."""

    name: str
    limit_bytes: int
    needs: str
    limit_s: int
    argv: tuple[str, ...]


def compose(probes: Iterable[Probe], marker: str) -> str:
    """The script. `marker` is 32 hexadecimal digits of chance."""
    if not re.fullmatch(r"[0-9a-f]{32}", marker):
        raise ValueError("a marker is 32 hexadecimal digits")
    template = resources.files("tools.host").joinpath("probe.sh").read_text(encoding="utf-8")
    lines = [_line(probe) for probe in probes]
    return template.replace("@MARKER@", marker).replace("@PROBES@", "\n".join(lines))


def _line(probe: Probe) -> str:
    need = f'"${probe.needs}"' if probe.needs else "-"
    words = " ".join(_word(word) for word in probe.argv)
    return f"{_GO}{probe.name} {probe.limit_bytes} {need} timeout -k 2 {probe.limit_s} {words}"


def _word(word: str) -> str:
    """A word quoted for sh, with slots, and only slots, left to the shell inside double quotes."""
    parts: list[str] = []
    end = 0
    for found in _SLOT.finditer(word):
        if found[1] not in SLOTS:
            continue
        if found.start() > end:
            parts.append(shlex.quote(word[end : found.start()]))
        parts.append(f'"${{{found[1]}}}"')
        end = found.end()
    if end < len(word) or not parts:
        parts.append(shlex.quote(word[end:]))
    return "".join(parts)


def decompose(script: str) -> tuple[str, tuple[Asked, ...]]:
    """The marker and the probes of a script made by `compose`. Raises ValueError on any other text."""
    found = re.search(r"^M=([0-9a-f]{32})$", script, re.MULTILINE)
    if found is None:
        raise ValueError("no marker in the script")
    asked = []
    for line in script.splitlines():
        if not line.startswith(_GO):
            continue
        words = shlex.split(line.replace('"${', "'${").replace('}"', "}'"))
        name, limit_bytes, need, argv = words[1], int(words[2]), words[3], words[8:]
        slots = tuple(re.sub(r"\$\{([A-Z]+)\}", r"$\1", word) for word in argv)
        asked.append(Asked(name, limit_bytes, need.lstrip("$-"), int(words[7]), slots))
    return found[1], tuple(asked)


def fill(argv: Iterable[str], slots: dict[str, str]) -> list[str]:
    """A command with its slots filled in."""
    return [_SLOT.sub(lambda found: slots.get(found[1], found[0]), word) for word in argv]


def frame(marker: str, name: str, output: bytes, exit_status: int | None, limit: int) -> bytes:
    """An answer as the script prints it."""
    body = output.replace(b"\0", b"\n")
    tail = b"skip" if exit_status is None else str(exit_status).encode()
    whole = (body + (b"" if body.endswith(b"\n") or not body else b"\n") + marker.encode() + b" " + tail)[:limit]
    return b"%s %s %d\n%s\n" % (marker.encode(), name.encode(), len(whole), whole)


@dataclass(slots=True)
class Splitter:
    """Takes the stream as it arrives and gives whole answers; what stands before a frame (a banner) is dropped."""

    marker: str
    done: bool = False
    cpu_s: float | None = None
    _buffer: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> Iterator[Answer]:
        """Whole answers that these bytes complete."""
        self._buffer += data
        while not self.done:
            answer = self._next()
            if answer is None:
                return
            if answer.name == "end":
                self.done = True
                ticks = re.match(rb"cpu_ticks=(\d{1,9})\s", answer.output)
                self.cpu_s = int(ticks[1]) / TICKS_PER_S if ticks else None
            else:
                yield answer

    def _next(self) -> Answer | None:
        mark = self.marker.encode()
        while (end := self._buffer.find(b"\n")) >= 0:
            head = _HEAD.match(bytes(self._buffer[:end]))
            if head is None or head[1] != mark:
                del self._buffer[: end + 1]
                continue
            length = int(head[3])
            if len(self._buffer) < end + 1 + length + 1:
                return None
            body = bytes(self._buffer[end + 1 : end + 1 + length])
            del self._buffer[: end + 1 + length + 1]
            return _answer(mark, head[2].decode(), body)
        return None


def _answer(mark: bytes, name: str, body: bytes) -> Answer:
    start = body.rfind(mark + b" ")
    tail = body[start + len(mark) + 1 :] if start >= 0 else b""
    if tail == b"skip":
        return Answer(name, b"", None, skipped=True)
    found = _TAIL.fullmatch(tail)
    if found is None or (start > 0 and body[start - 1 : start] != b"\n"):
        return Answer(name, body, None, truncated=True)
    seconds = round(float(found[3]) - float(found[2]), 2) if found[2] else 0.0
    return Answer(name, body[:start], int(found[1]), seconds=max(0.0, seconds))
