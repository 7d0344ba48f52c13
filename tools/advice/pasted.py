"""What was typed in pasted text: the line that starts a server, without its prompt and without what it printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tools.advice.command import ENGINE_RUN, HINT
from tools.host.parsers.lines import PROMPT, unquoted, unwrap

# SGLang's own stamp, or the head of a traceback: what a program said.
_PRINTED: Final = re.compile(r"\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d|^\s*Traceback \(", re.M)
_TRACED: Final = re.compile(r"^\++ +(?=\S)")  # `set -x`
_COMMENT: Final = re.compile(r"^\s*# *(?=\S)")  # a comment, or the prompt of root
_SETTING: Final = re.compile(r"\s*(?:(?:export|declare|set|unset|source|cd|ulimit|\.)\s|[A-Za-z_]\w*\+?=)")
_CLOSES: Final = re.compile(r"\s*(?:(?:done|else|elif|fi|esac)\b|[})]|\w+\) |;;)")
_SHELL_OPENS: Final = re.compile(r"\s-\w*c\s+(['\"])(?:(?!\1).)*$")
_QUOTE: Final = re.compile(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"", re.S)
# Words in brackets behind a command are said of it: a shell would refuse them there.
_REMARK: Final = re.compile(r"(?<=[\w./'\"])[ \t]+\([^()'\"]*\)[ \t]*$")
_CONTINUED: Final = re.compile(r"(?<!\\)(?:\\\\)*\\\r?$")


def printed(text: str) -> bool:
    """Whether something stands in the text that a program printed."""
    return _PRINTED.search(text) is not None


def typed(text: str) -> Iterator[str]:
    """Each command that may start a server, the last first, with the settings that stand directly above it.

    It ends where its line ends, continued lines and open quotes aside. Of a script, one that a loop or a function
    closes around is left to who reads the whole; one behind `#` comes after all others: a comment, or what root typed.
    """
    lines = [unwrap(0, line).text for line in unquoted(text).split("\n")]
    said = [printed(line) for line in text.split("\n")]
    starts = [at for at, line in enumerate(lines) if not said[at] and (HINT.search(line) or ENGINE_RUN.search(line))]
    for commented in (False, True):
        for at in reversed(starts):
            first = _first(lines, at)
            if (_COMMENT.match(lines[first]) is not None) != commented:
                continue
            last = max(_last(lines, first), at)
            follows = next((line for line in lines[last + 1 :] if line.strip()), "")
            if _CLOSES.match(follows) and not any(said):
                return
            lines[last] = _REMARK.sub("", lines[last])
            found = [*_settings(lines, first), *lines[first : last + 1]]
            margin = len(found[0]) - len(found[0].lstrip())
            found = [line[margin:] if not line[:margin].strip() else line for line in found]
            head = len(found) - (last - first)
            yield "\n".join([*(_COMMENT.sub("", _bare(line)) for line in found[:head]), *found[head:]]) + "\n"


def _bare(line: str) -> str:
    return _TRACED.sub("", PROMPT.sub("", line))


def _first(lines: list[str], at: int) -> int:
    opened = next((up for up in range(at - 1, max(at - 20, -1), -1) if _SHELL_OPENS.search(lines[up])), None)
    if opened is not None and _last(lines, opened) > at:
        at = opened
    while at and _CONTINUED.search(lines[at - 1]):
        at -= 1
    return at


def _last(lines: list[str], at: int) -> int:
    """The line where the command ends; a quote that nothing closes is none."""
    end = at
    while end + 1 < len(lines) and _CONTINUED.search(lines[end]):
        end += 1
    for later in range(end, min(end + 60, len(lines))):
        if not re.search(r"['\"]", _QUOTE.sub("", "\n".join(lines[at : later + 1]))):
            return later
    return end


def _settings(lines: list[str], first: int) -> list[str]:
    at = first
    while at and _SETTING.match(_bare(lines[at - 1])):
        at -= 1
    return [_bare(line) for line in lines[at:first]]
