"""Search of a cached tree: what is asked for is checked here, done by one worker process that all searches share.

The dialect of one-line patterns is ripgrep's (Rust regex: no look-around, no back-references, braces escaped); across
lines it is Python's `re`, with `^` and `$` at every line.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import re
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tools.source.errors import PatternError, SearchTimeout, SourceUnavailable

SECONDS: Final = 20.0
PRUNE: Final = "Prune it and fetch it again."
NO_ROOM: Final = re.compile("No space left|quota|temporary directory|Read-only file system")
LIMIT: Final = 100
BYTES: Final = re.compile(r"\(\?[a-zA-Z]*-[a-zA-Z]*u.*\\x\{?[89a-fA-F][0-9a-fA-F]\}?", re.S)
EVERYTHING: Final = 1_000_000
NEWLINE: Final = re.compile(r"(?<!\\)(?:\\\\)*(?:\\n|\\x0[aA]|\\x\{0*[aA]\})|\n")
WORKER: Final = Path(__file__).with_name("search_worker.py")


@dataclass(frozen=True, slots=True)
class Hit:
    """A matching line (or lines, newline between them) with the lines around it. `path` is from the package root."""

    path: str
    line: int
    text: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Hits in order of path and line; `total` matches in `files` files, of which `hits` may be the first ones."""

    hits: tuple[Hit, ...]
    total: int
    files: int
    truncated: bool
    note: str = ""


class SearchProcess:
    """The worker: started when first asked, ended when a search outlasts its limit. Safe to share between threads."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """The worker's reply. Raises SearchTimeout, or SourceUnavailable when it cannot be run."""
        frame = json.dumps(request | {"seconds": seconds}).encode()
        with self._turn:
            for attempt in (1, 2):
                process = self._running()
                try:
                    return self._exchange(process, frame, seconds)
                except (EOFError, OSError) as error:
                    self.end()
                    if attempt == 2:
                        raise SourceUnavailable(f"the search process ended: {error}.", "Reinstall sglscout.") from error
        raise AssertionError("two attempts either return or raise")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            spec = importlib.util.find_spec("pyripgrep")
            if spec is None or not spec.submodule_search_locations:
                raise SourceUnavailable("ripgrep-python is not installed.", "Reinstall sglscout.")
            site = str(Path(next(iter(spec.submodule_search_locations))).parent)
            environment = {
                key: os.environ[key]
                for key in ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR")
                if key in os.environ
            }
            environment |= {"HOME": os.devnull, "XDG_CONFIG_HOME": os.devnull}  # no ignore rules of the user's
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(WORKER), site],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        return self._process

    def _exchange(self, process: subprocess.Popen[bytes], frame: bytes, seconds: float) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        deadline = time.monotonic() + seconds
        process.stdin.write(len(frame).to_bytes(4, "big") + frame)
        process.stdin.flush()
        out = process.stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(out, selectors.EVENT_READ)
            received = bytearray()
            while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4], "big"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    self.end()
                    raise SearchTimeout(
                        f"the search took longer than {seconds:g} s and was ended.", "Narrow the path or the pattern."
                    )
                piece = os.read(out, 1 << 20)
                if not piece:
                    raise EOFError("no answer")
                received += piece
        reply: dict[str, Any] = json.loads(bytes(received[4:]))
        return reply

    def end(self) -> None:
        """End the worker if it runs; the next search starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    try:
                        pipe.close()
                    except OSError:  # unsent bytes of a request that died with it
                        continue


SHARED: Final = SearchProcess()
atexit.register(SHARED.end)


def request_for(
    pattern: str,
    files: Sequence[str] | None,
    *,
    ignore_case: bool,
    literal: bool,
    multiline: bool,
    context: int,
    limit: int,
) -> dict[str, Any]:
    """The worker's request. Raises PatternError."""
    if not pattern:
        raise PatternError("the pattern is empty.", "Give a word or a regular expression; use `list` to see files.")
    written = re.escape(pattern) if literal else pattern
    if not multiline and NEWLINE.search(pattern if not literal else pattern.replace("\\", "")):
        raise PatternError("the pattern has a newline and lines are searched one by one.", "Pass multiline.")
    if not literal and BYTES.search(pattern):
        raise PatternError("the pattern looks for bytes, and text is searched.", "Write the character itself.")
    needs = _needed_texts(written, ignore_case) if multiline else []
    return {
        "pattern": written,
        "files": None if files is None else list(files),
        "ignore_case": ignore_case,
        "multiline": multiline,
        "needs": needs,
        "context": max(0, min(context, 50)),
        "limit": max(1, limit),
    }


def result_of(reply: dict[str, Any]) -> SearchResult:
    """The worker's reply as a result. Raises PatternError with what to write instead."""
    if "refused" in reply:
        raise PatternError(_plain_refusal(reply["refused"]), _instead(reply["refused"]))
    if "failed" in reply:
        room = NO_ROOM.search(reply["failed"])
        hint = "Make room in the folder for temporary files, or name another in TMPDIR." if room else PRUNE
        raise SourceUnavailable(f"the tree could not be searched: {reply['failed'].rstrip('.')}.", hint)
    hits = tuple(
        Hit(path, line, text, tuple(before), tuple(after)) for path, line, text, before, after in reply["hits"]
    )
    notes = []
    if reply["stopped"]:
        notes.append(f"stopped after {reply['total']} matches; narrow the pattern or the path")
    return SearchResult(hits, reply["total"], reply["files"], len(hits) < reply["total"], "; ".join(notes))


def _plain_refusal(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    reason = next((line.removeprefix("error: ") for line in lines if line.startswith("error:")), lines[0])
    return f"the pattern cannot be searched for: {reason}."


def _instead(said: str) -> str:
    for sign, advice in (
        ("look-around", "Leave look-around out, or pass multiline (Python's re has it)."),
        ("backreferences", "Leave back-references out, or pass multiline (Python's re has them)."),
        ("repetition", "Escape braces and stars that stand for themselves (\\{ \\*), or pass literal."),
        ("unclosed", "Escape brackets that stand for themselves (\\( \\[), or pass literal."),
        ("unopened", "Escape brackets that stand for themselves (\\) \\]), or pass literal."),
        ("escape sequence", "Use \\z for the end of text, [ \\t] for blanks; or pass literal."),
    ):
        if sign in said:
            return advice
    return "Pass literal to search for the text as it stands."


def _needed_texts(pattern: str, ignore_case: bool) -> list[str]:
    """Texts that every match must hold, longest first; none if none is certain."""
    from re import _parser as parser  # type: ignore[attr-defined]

    try:
        parsed = parser.parse(pattern, re.IGNORECASE if ignore_case else 0)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(
            f"the pattern cannot be read: {error} (across lines the dialect is Python's re).",
            "Pass literal to search for the text as it stands.",
        ) from error
    if parsed.state.flags & re.IGNORECASE and not ignore_case:
        return []
    runs: list[str] = [""]
    for operation, argument in _required(parsed):
        if operation == "LITERAL":
            runs[-1] += chr(argument)
        else:
            runs.append("")
    return sorted({run for run in runs if run and (run.isascii() or not ignore_case)}, key=len, reverse=True)


def _required(parsed: Any) -> list[tuple[str, Any]]:
    """The parts that every match passes through, groups opened."""
    parts: list[tuple[str, Any]] = []
    for operation, argument in parsed:
        name = str(operation)
        if name == "SUBPATTERN" and not (argument[1] or argument[2]):
            parts.extend(_required(argument[3]))
        elif name in ("MAX_REPEAT", "MIN_REPEAT") and argument[0] >= 1:
            parts.append(("BREAK", None))
            parts.extend(_required(argument[2]))
            parts.append(("BREAK", None))
        else:
            parts.append((name, argument))
    return parts
