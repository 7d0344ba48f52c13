"""Where a server's own arguments begin and end in a launch command, wrapped or not."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tools.entry_point import ROUTER, options_begin
from tools.source.serve import MODEL
from transcripts.errors import UsageError

ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=.*", re.S)
NESTING: Final = 4
# What a shell or a template fills in, blanks and all: `$(nvidia-smi -L | wc -l)`, `{{ .Values.extra }}`.
FILLED_IN: Final = re.compile(r"\$\((?:[^()]|\([^()]*\))*\)|\{\{.*?\}\}|`[^`]*`", re.S)
# Lines that PowerShell (`) and cmd (^) continue.
ELSEWHERE: Final = re.compile(r"(?<=[ \t])[`^][ \t]*(?=\r?\n)")
COMMENT: Final = re.compile(r"\\\r?\n[ \t]*#[^\n]*")
UNIT: Final = re.compile(r"^[ \t]*(?:\[\w+\]|Exec\w*=)", re.M)
KEPT: Final = re.compile("\ue000(\\d+)\ue000")


@dataclass(frozen=True, slots=True)
class Begun:
    """A server's arguments, whether `sglang serve` starts it, the model that it is given by its place, whether a router
    is started with it, options that a comment keeps from it, and the variables that are set before it.
    """

    arguments: tuple[str, ...]
    serve: bool = False
    positional: str = ""
    router: bool = False
    lost: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


def begun_in(command: str | Sequence[str]) -> Begun:
    """The server's own arguments in a command line: what follows `sglang.launch_server` or `sglang serve`.

    Options alone are taken as they are. Raises UsageError for text that a shell could not split, and for a command
    that starts something else.
    """
    words = _split(command) if isinstance(command, str) else list(command)
    found = _server_words(words)
    if found is not None:
        return replace(found, lost=lost_in(command)) if isinstance(command, str) else found
    first = next((place for place, word in enumerate(words) if word.startswith("-")), len(words))
    if first == len(words) or any(ASSIGNMENT.fullmatch(word) is None for word in words[:first]):
        said = f"{' '.join(words[:2])!r} starts something else" if words else "it is empty"
        raise UsageError(
            f"no SGLang command in it; {said}.",
            "Give `python3 -m sglang.launch_server …`, `sglang serve …`, or the options of one alone.",
        )
    return Begun(tuple(_until_shell(words[first:])), environment=_set_in(words[:first]))


def continued(text: str) -> str:
    """A text in which every continued line ends as a POSIX shell has it, whichever shell it was typed for."""
    return ELSEWHERE.sub(r"\\", text)


def lost_in(text: str) -> tuple[str, ...]:
    """Options after a comment that stands between continued lines: a shell ends the command there; systemd does not."""
    found = COMMENT.search(continued(text))
    if found is None or UNIT.search(text):
        return ()
    lost: list[str] = []
    for line in continued(text)[found.end() :].strip().splitlines():
        words = line.split()
        if words and words[0].startswith("#"):
            continue
        if not words or not words[0].startswith("-"):
            break
        lost += [word for word in words if word.startswith("--")]
    return tuple(lost)


def _split(text: str) -> list[str]:
    kept: list[str] = []

    def keep(found: re.Match[str]) -> str:
        kept.append(found[0])
        return f"\ue000{len(kept) - 1}\ue000"

    try:
        words = shlex.split(FILLED_IN.sub(keep, continued(text).replace("\\\r\n", " ").replace("\\\n", " ")))
        return [KEPT.sub(lambda place: kept[int(place[1])], word) for word in words]
    except ValueError as error:
        raise UsageError(f"the command cannot be split: {error}.", "Check its quotes.") from error


def _server_words(words: Sequence[str], depth: int = 0) -> Begun | None:
    """The server's arguments, also in the text that a word carries (`bash -lc "…"`); None where no server is started.

    A positional model of `sglang serve MODEL` is given its option (sglang 0.5.23 cli/serve.py).
    """
    begin = options_begin(words)
    if begin is not None:
        own = _until_shell(list(words[begin:]))
        serve = words[begin - 1] == "serve"
        positional = own[0] if own and serve and not own[0].startswith(("-", "$")) else ""
        router = words[begin - 1] == ROUTER
        arguments = (MODEL, *own) if positional else tuple(own)
        return Begun(arguments, serve, positional, router, environment=_set_in(words[:begin]))
    for word in words if depth < NESTING else ():
        if " " in word and "sglang" in word:
            try:
                inner = _server_words(_split(word), depth + 1)
            except UsageError:
                continue
            if inner is not None:
                return replace(inner, environment=(*_set_in(words), *inner.environment))
    return None


def _set_in(words: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The variables that words set: `X=1 python3 …`, `env X=1 …`, `docker run -e X=1 …`, `export X=1; …`."""
    found = [word.removeprefix("--env=").removesuffix(";") for word in words]
    parts = [word.partition("=") for word in found if ASSIGNMENT.fullmatch(word)]
    return tuple((name, value) for name, _, value in parts if FILLED_IN.search(value) is None and "$" not in value)


def _until_shell(words: list[str]) -> list[str]:
    """The words before the shell takes over again, or a comment begins."""
    for place, word in enumerate(words):
        if word in ("&&", "||", "|", ";", "&", ">", ">>", "2>&1", "2>", "&>") or word.startswith("#"):
            return words[:place]
        if word.endswith(";") and "=" not in word:
            return [*words[:place], word[:-1]]
    return words
