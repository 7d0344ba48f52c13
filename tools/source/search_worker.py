"""The process that searches: started by path, importing ripgrep-python and nothing else of this program.

ripgrep-python holds the interpreter lock for a whole search and cannot be interrupted, so it lives here and is ended
when it takes too long. It walks folders on one thread, hides files by the ignore rules above them, knows one form of
glob and compiles the pattern anew for each path; so it is given few paths: the files asked for, joined in their order.
Of what it prints only the line's number is believed; which file that is in, limit and context are made here.

Joined texts are files without a name, gone with this process however it ends; they take the kernel's page cache. Of
memory this process takes 40 MB for two trees, and while it searches eight times JOINED_BYTES at most, where every
line matches.

Frames on standard input and output: four bytes of length, then JSON.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Final

HITS_LIMIT: Final = 100_000
LINE_LIMIT: Final = 2_000
TREES_KEPT: Final = 2
JOINED_BYTES: Final = 16 << 20  # the engine keeps every line that matches in one text, however few are asked for
LAST_LINE: Final = "the last line of all that is searched"  # the canary: an engine that works gets as far as this
OWN_FILES: Final = "/proc/self/fd" if Path("/proc/self/fd").is_dir() else "/dev/fd"

Spans = dict[str, list[tuple[int, int]]]  # first and last line of each match, by path


class Refused(Exception):
    """The pattern cannot be searched for; the text is for whoever wrote it."""


class Joined:
    """Files (name, bytes, lines) joined into one; each ends with a newline, so that no match reaches into the next."""

    def __init__(self, files: Iterator[tuple[str, bytes, int]]) -> None:
        self.file = TemporaryFile(buffering=1 << 20)  # noqa: SIM115 - open as long as this is
        self.place = f"{OWN_FILES}/{self.file.fileno()}"
        self.names: list[str] = []
        self.before: list[int] = []  # lines before each file
        self.at: dict[str, tuple[int, int, int]] = {}  # first byte, bytes and lines of each file
        self.lines = size = 0
        for name, data, lines in files:
            self.file.write(data)
            self.names.append(name)
            self.before.append(self.lines)
            self.at[name] = (size, len(data), lines)
            size, self.lines = size + len(data), self.lines + lines
            if size >= JOINED_BYTES:
                break
        self.file.write(LAST_LINE.encode() + b"\n")
        self.file.flush()

    def read(self, name: str) -> tuple[str, bytes, int]:
        first, size, lines = self.at[name]
        return name, os.pread(self.file.fileno(), size, first), lines

    def line(self, number: int) -> tuple[str, int]:
        """The file that a line of the whole is in, and its number there."""
        index = bisect_right(self.before, number - 1) - 1
        return self.names[index], number - self.before[index]


def join(files: Iterable[tuple[str, bytes, int]]) -> Iterator[Joined]:
    """All files, in as many joined texts as they need."""
    left = iter(files)
    while (joined := Joined(left)).names:
        yield joined


class Tree:
    """One cached tree."""

    def __init__(self, root: str, manifest: str) -> None:
        import pyripgrep

        self.engine: Any = pyripgrep.Grep()
        document = json.loads(Path(manifest).read_text(encoding="utf-8"))
        self.whole = list(join(_stored(root, [path for path, _, _ in document["files"]])))
        self.holder = {name: joined for joined in self.whole for name in joined.names}

    def read(self, path: str) -> tuple[str, bytes, int]:
        return self.holder[path].read(path)

    def lines(self, path: str) -> list[str]:
        """The lines of a file as ripgrep counts them."""
        return self.read(path)[1].decode("utf-8", "replace").split("\n")[:-1]

    def matches(self, request: dict[str, Any]) -> tuple[Spans, bool]:
        """Lines that match, and whether the search stopped at its limit."""
        files = request["files"]
        spans: Spans = {}
        left = HITS_LIMIT
        for joined in self.whole if files is None else join(map(self.read, files)):
            numbers = self._ask(joined, request["pattern"], left, ignore_case=request["ignore_case"])
            if not numbers and joined.lines + 1 not in self._ask(joined, LAST_LINE):
                raise OSError("the search engine does not find what is there")
            for number in numbers:
                if number <= joined.lines:
                    path, line = joined.line(number)
                    spans.setdefault(path, []).append((line, line))
            left -= len(numbers)
            if left <= 0:
                break
        return spans, left <= 0

    def _ask(self, joined: Joined, pattern: str, limit: int = HITS_LIMIT, *, ignore_case: bool = False) -> list[int]:
        """Numbers of the lines that match."""
        joined.file.seek(0)  # where a descriptor's name shares its offset (macOS)
        try:
            printed = self.engine.search(
                pattern, path=joined.place, output_mode="content", n=True, i=ignore_case, head_limit=limit
            )
        except ValueError as error:
            if str(error).startswith("Invalid pattern"):
                raise Refused(str(error)) from error
            raise
        start = len(joined.place) + 1
        return [int(line[start : line.index(":", start)]) for line in printed]

    def matches_across_lines(self, request: dict[str, Any]) -> tuple[Spans, bool]:
        """Lines from first to last that a Python pattern matches in files with the texts it needs."""
        flags = re.MULTILINE | (re.IGNORECASE if request["ignore_case"] else 0)
        try:
            pattern = re.compile(request["pattern"], flags)
        except (re.error, OverflowError, RecursionError) as error:
            raise Refused(f"{error} (across lines the dialect is Python's re)") from error
        needs = [text.encode() for text in request["needs"]]
        spans: Spans = {}
        left = HITS_LIMIT
        for path in self.holder if request["files"] is None else request["files"]:
            data = self.read(path)[1]
            if not _holds(data, needs, ignore_case=request["ignore_case"]):
                continue
            found = list(islice(_lines_matched(pattern, data.decode("utf-8", "replace")), left))
            if found:
                spans[path] = found
                left -= len(found)
                if not left:
                    break
        return spans, not left


def _stored(root: str, paths: list[str]) -> Iterator[tuple[str, bytes, int]]:
    for path in paths:
        with open(f"{root}/{path}", "rb") as file:  # noqa: PTH123 - a Path each takes as long as the reading
            data = file.read()
        if data and not data.endswith(b"\n"):
            data += b"\n"
        yield path, data, data.count(b"\n")


def _holds(data: bytes, texts: list[bytes], *, ignore_case: bool) -> bool:
    """Whether every text is there; said of a file with more than ASCII when case is ignored (Kelvin's sign is a k)."""
    if ignore_case:
        if not data.isascii():
            return True
        data, texts = data.lower(), [text.lower() for text in texts]
    return all(text in data for text in texts)


def _lines_matched(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    line, counted = 1, 0
    for match in pattern.finditer(text):
        first, end = match.span()
        if first == len(text):  # after the last newline there is no line
            return
        line += text.count("\n", counted, first)
        counted = first
        yield line, line + text.count("\n", first, max(first, end - 1))


def search(tree: Tree, request: dict[str, Any]) -> dict[str, Any]:
    """Hits in order of path and line, cut at the limit, each with its context."""
    spans, stopped = (tree.matches_across_lines if request["multiline"] else tree.matches)(request)
    hits: list[Any] = []
    context, limit = request["context"], request["limit"]
    for path in spans:
        if len(hits) >= limit:
            break
        lines = tree.lines(path)
        for first, last in spans[path][: limit - len(hits)]:
            before = lines[max(0, first - 1 - context) : first - 1]
            after = lines[last : last + context]
            text = "\n".join(_short(line) for line in lines[first - 1 : last])
            hits.append([path, first, text, [_short(x) for x in before], [_short(x) for x in after]])
    total = sum(len(each) for each in spans.values())
    return {"hits": hits, "total": total, "files": len(spans), "stopped": stopped}


def _short(line: str) -> str:
    line = line.rstrip("\r")
    return line if len(line) <= LINE_LIMIT else f"{line[:LINE_LIMIT]}... (+{len(line) - LINE_LIMIT} characters)"


def answer(trees: dict[str, Tree], request: dict[str, Any]) -> dict[str, Any]:
    """The reply to one request."""
    key = request["manifest"]
    try:
        tree = trees.pop(key, None) or Tree(request["root"], key)
        trees[key] = tree  # the last one is the one used last
        while len(trees) > TREES_KEPT:
            del trees[next(iter(trees))]
        return search(tree, request)
    except Refused as error:
        return {"refused": str(error)}
    except (OSError, ValueError, KeyError, MemoryError, RecursionError) as error:
        return {"failed": f"{type(error).__name__}: {error}"}


def read_frame(stream: BinaryIO) -> dict[str, Any] | None:
    head = stream.read(4)
    if len(head) < 4:
        return None
    document: dict[str, Any] = json.loads(stream.read(int.from_bytes(head, "big")))
    return document


def main() -> None:
    sys.path.append(sys.argv[1])
    trees: dict[str, Tree] = {}
    while (request := read_frame(sys.stdin.buffer)) is not None:
        signal.setitimer(signal.ITIMER_REAL, request["seconds"] + 1)  # ends this even where nobody waits any more
        reply = json.dumps(answer(trees, request)).encode()
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdout.buffer.write(len(reply).to_bytes(4, "big") + reply)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
