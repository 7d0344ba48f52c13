"""Figures of a time before: `previous image: max_total_num_tokens=310882`. They are compared with, never in force."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tools.host.parsers.page import Page

_FORMER: Final = re.compile(
    r"\W*(?:previous(?:ly)?|before|earlier|old(?:er)?|last (?:week|month|release|version)|yesterday|baseline|prior)\b"
    r"[^:=\n]{0,40}: ",
    re.I,
)
_POOL: Final = re.compile(r"max_total_num_tokens=(\d+)")


def without_former(text: str) -> str:
    """The text with the lines of a former start emptied, so that lines keep their numbers."""
    if "max_total_num_tokens=" not in text:
        return text
    return "\n".join("" if _is_former(line) else line for line in text.split("\n"))


def read(page: Page, lines: Sequence[str]) -> None:
    """The pool of now over the one of before, where both are told."""
    pools: dict[bool, int] = {}
    for number, line in enumerate(lines, 1):
        if found := _POOL.search(line):
            pools[_is_former(line)] = int(found.group(1))
            if len(pools) == 2 and pools[True]:
                page.add("pool_ratio", round(pools[False] / pools[True], 3), number, scope="former")
                return


def _is_former(line: str) -> bool:
    return len(_POOL.findall(line)) == 1 and _FORMER.match(line) is not None
