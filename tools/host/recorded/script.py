"""What a login shell of the recorded host does with the text it is sent: the probe script, or one framed command.

The probe script is taken apart by `tools.host.framing` and each probe is computed; nothing is run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator

from tools.host.framing import DISCOVERY, Asked, decompose, fill, frame
from tools.host.recorded.recording import Recording
from tools.host.recorded.shell import Reply

Note = Callable[[str, str], None]

_ONE = re.compile(
    r"exec 2>&1\n(?:echo (?P<opening>[0-9a-f]{32})\n)?\( (?P<command>.*) \) </dev/null; code=\$\?; "
    r"printf '\\n(?P<marker>[0-9a-f]{32}) %s\\n' \"\$code\"\n",
    re.DOTALL,
)
_SLOT_OF_NEED = re.compile(r"^[A-Z]+$")


def run_script(recording: Recording, text: str, note: Note) -> Iterator[bytes]:
    """Output of a script, piece by piece as it comes. `note(probe, command)` is called for each command answered."""
    one = _ONE.fullmatch(text)
    if one is not None:
        note("command", one["command"])
        reply = recording.answer(one["command"])
        yield f"{one['opening']}\n".encode() if one["opening"] else b""
        yield _bytes(reply.stderr + reply.stdout)
        yield f"\n{one['marker']} {reply.exit}\n".encode()
        return
    try:
        marker, probes = decompose(text)
    except ValueError:
        note("script", text[:200])
        reply = recording.answer(text.strip())
        yield _bytes(reply.stdout + reply.stderr)
        return
    yield from _probes(recording, text, marker, probes, note)


def _probes(recording: Recording, text: str, marker: str, probes: tuple[Asked, ...], note: Note) -> Iterator[bytes]:
    slots = recording.discovery()
    note(DISCOVERY, "")
    yield frame(marker, DISCOVERY, _discovery(recording, text, slots).encode(), 0, 1 << 16)
    for probe in probes:
        if _SLOT_OF_NEED.match(probe.needs) and not slots.get(probe.needs):
            yield frame(marker, probe.name, b"", None, probe.limit_bytes)
            continue
        argv = fill(probe.argv, slots)
        note(probe.name, shlex.join(argv))
        reply = recording.answer([["timeout", "-k", "2", str(probe.limit_s), *argv]])
        # The script ends every answer with one line break of its own.
        output = _bytes(reply.stderr + reply.stdout) + b"\n"
        yield frame(marker, probe.name, output, reply.exit, probe.limit_bytes)
    yield frame(marker, "end", b"", 0, 1 << 10)


def _discovery(recording: Recording, script: str, slots: dict[str, str]) -> str:
    """`key=value` lines for the keys that this script prints, in its order; what is not there stays empty."""
    _, _, printed = script.partition("emit discovery")
    keys = re.findall(r"""(?:"|'|\\n)([a-z_]+)=(?=[%$])""", printed.partition("\n}")[0].partition("\ngo ")[0])
    values = {key.lower(): value for key, value in slots.items()}
    values |= {"user": recording.figures.machine.user, "shell": "/bin/bash"}
    if "PID" in slots:
        values |= {"all_pids": f" {slots['PID']}", "output": "journal"}
    return "".join(f"{key}={values.get(key, '')}\n" for key in keys)


def run_command(recording: Recording, command: str, note: Note) -> Reply:
    """A command line given to exec without a script."""
    note("command", command)
    return recording.answer(command)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
