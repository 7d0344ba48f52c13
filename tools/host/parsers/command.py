"""A launch command: flags as typed, from /proc/PID/cmdline, an ExecStart or `docker inspect`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

from tools.entry_point import options_begin, process_words
from tools.host.parsers.page import Page
from tools.host.parsers.server_args import is_secret

_LONGEST: Final = 65_536  # beyond it no shell took the line, and reading quotes letter by letter is slow
_FLAG: Final = re.compile(r"--[A-Za-z][\w.\-]*")


def words(text: str) -> list[str]:
    """A command line as words: parted as in /proc, else as a shell reads it, else at blanks."""
    parted = process_words(text)
    if parted is not None:
        return parted
    joined = text.replace("\\\n", " ").strip()
    if len(joined) > _LONGEST:
        return joined.split()
    try:
        return shlex.split(joined)
    except ValueError:
        return joined.split()


def is_server(argv: Sequence[str]) -> bool:
    """Whether the words start an SGLang server: `python -m sglang.launch_server`, `sglang serve`."""
    return options_begin(argv) is not None


def write(page: Page, argv: Sequence[str], line: int, *, form: str = "") -> None:
    """`launch_argv`, `flag` and what follows from them. Does nothing when the words start no server."""
    start = options_begin(argv)
    if start is None:
        return
    page.add("launch_argv", shlex.join(_without_secrets(argv)), line)
    if form:
        page.add("launch_form", form, line)
    flags = read_flags(argv[start:])
    for flag, value in flags.items():
        page.add("flag", value, line, scope=flag)
    model = flags.get("--model-path") or flags.get("--model") or _positional(argv, start)
    if model:
        page.add("model_path", model, line)
    port = flags.get("--port", "")
    if port.isdecimal():
        page.add("port", int(port), line)


def read_flags(argv: Sequence[str]) -> dict[str, str]:
    """Flag -> value as typed; `true` for a switch, several values joined by blanks, the last repetition wins."""
    found: dict[str, str] = {}
    index = 0
    while index < len(argv):
        word = argv[index]
        index += 1
        match = _FLAG.match(word)
        if match is None:
            continue
        flag, sign, value = word.partition("=")
        values = [value] if sign else []
        while not sign and index < len(argv) and not _FLAG.match(argv[index]):
            values.append(argv[index])
            index += 1
        if not is_secret(flag.lstrip("-").replace("-", "_")):
            found.pop(flag, None)
            found[flag] = " ".join(values) if values else "true"
    return found


def _positional(argv: Sequence[str], start: int) -> str:
    """The model of `sglang serve MODEL`."""
    if start < len(argv) and not argv[start].startswith("-") and argv[start - 1] == "serve":
        return argv[start]
    return ""


def _without_secrets(argv: Sequence[str]) -> list[str]:
    kept: list[str] = []
    hide = False
    for word in argv:
        flag, sign, _ = word.partition("=")
        if hide and not _FLAG.match(word):
            kept.append("[redacted]")
            continue
        secret = bool(_FLAG.match(word)) and is_secret(flag.lstrip("-").replace("-", "_"))
        hide = secret and not sign
        kept.append(f"{flag}=[redacted]" if secret and sign else word)
    return kept
