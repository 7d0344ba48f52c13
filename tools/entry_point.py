"""Where the options of an SGLang server begin in a command: one answer for what is read and for what is written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

ROUTER: Final = "sglang_router.launch_server"
_MODULES: Final = ("sglang.launch_server", ROUTER)
_ENTRY: Final = re.compile(r"(?:^|/)(?:launch_server(?:\.py)?|sglang)$")


# What argparse prints of all that may be typed, with its indented lines: no command, and nothing that was typed.
USAGE: Final = r"^[^\n]*\busage: [^\n]*\[-h\][^\n]*(?:\n(?:[ \t]+|\[-)[^\n]*)*"


def options_begin(argv: Sequence[str]) -> int | None:
    """Index of the word after `-m sglang.launch_server`, `…/launch_server.py` or `sglang serve`; None without one."""
    for index, word in enumerate(argv):
        if word in _MODULES or (_ENTRY.search(word) and "launch_server" in word):
            return index + 1
        if _ENTRY.search(word) and index + 1 < len(argv) and argv[index + 1] == "serve":
            return index + 2
    return None


def process_words(text: str) -> list[str] | None:
    """The words of `/proc/PID/cmdline`, parted by NUL, or by line breaks as a probe brings it; None for other text."""
    if "\0" in text:
        return text.rstrip("\n").removesuffix("\0").split("\0")
    lines = text.removesuffix("\n").split("\n")
    return lines if len(lines) > 1 and options_begin(lines) is not None else None
