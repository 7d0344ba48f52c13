"""Where threads stood: frames of py-spy dumps, of `faulthandler` and of Python tracebacks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tools.host.parsers.page import Page
from transcripts.facts import Grade

# `evict (mem_cache/hiradix_cache.py:604)` of py-spy, also after `Thread ...:` on the same line
_PY_SPY: Final = re.compile(r"(?:^|[\s:|])([A-Za-z_<][\w<>.]*) \((?:\S*/)?([\w.-]+\.py):\d+\)")
# `File "/x/y.py", line 12, in name` of tracebacks; faulthandler has the same without a comma before `in`
_TRACEBACK: Final = re.compile(r"File \"(?:[^\"]*/)?([\w.-]+)\", line \d+,? in ([\w<>]+)")
_MOST: Final = 400


def is_frame(line: str) -> bool:
    """Whether a line is a frame of a stack: its words are names of functions, not statements."""
    return _TRACEBACK.search(line) is not None or _PY_SPY.search(line) is not None


def read(page: Page, told: Iterable[tuple[int, str]], grade: Grade) -> None:
    """Each function once a file, at its first line."""
    seen: set[tuple[str, str]] = set()
    for number, line in told:
        if ".py" not in line or len(line) > 4096:
            continue
        pairs = [(name, file) for name, file in _PY_SPY.findall(line)]
        pairs += [(name, file) for file, name in _TRACEBACK.findall(line)]
        for name, file in pairs:
            if (name, file) not in seen and len(seen) < _MOST:
                seen.add((name, file))
                page.add("stack_frame", name.rpartition(".")[2], number, scope=file, grade=grade)
