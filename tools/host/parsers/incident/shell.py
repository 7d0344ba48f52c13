"""Commands that stand in pasted text before what they printed: words of the operator, never output of a machine."""

from __future__ import annotations

import re
from typing import Final

from tools.host.parsers.incident import messages
from tools.host.parsers.lines import PROMPT
from tools.host.parsers.page import Page

_LAUNCH: Final = re.compile(
    r"\bpython[\d.]*\b.*\blaunch_server\b|\bsglang (?:serve|launch)\b|\b(?:docker|podman|nerdctl) run\b|\bExecStart="
)
_COUNT: Final = re.compile(r"\bz?grep\b(?=.* -\w*c|.*--count)[^'\"]*(['\"])(.+?)\1|\bz?grep\b.* -\w*c\w* (\S+)()")
_WHOLE: Final = re.compile(r"\d{1,9}")


def without_commands(text: str) -> str:
    """The text with typed commands emptied, so that lines keep their numbers; a launch of the server stays."""
    if "$" not in text and "#" not in text and "❯" not in text and "➜" not in text:
        return text
    return "\n".join(line if _command(line) is None else "" for line in text.split("\n"))


def _command(line: str) -> str | None:
    """What was typed, None for a line that no prompt begins or that starts the server."""
    found = PROMPT.match(line)
    if found is None or _LAUNCH.search(line):
        return None
    return line[found.end() :]


def read_counts(page: Page, text: str) -> None:
    """What `grep -c` counted: a message that was found so often; for retractions the count itself, none included."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        command = _command(line)
        counted = None if command is None else _COUNT.search(command)
        if counted is None or number >= len(lines) or not _WHOLE.fullmatch(lines[number].strip()):
            continue
        count, wanted = int(lines[number]), counted[2] or counted[3]
        if "retract" in wanted.lower():
            page.add("retractions", count, number + 1)
        elif count:
            messages.read(page, wanted, number + 1, "observed")
