"""The process that searches: started by path, importing ripgrep-python and nothing else of this program.

ripgrep-python holds the interpreter lock for a whole search and cannot be interrupted, so it lives here and is ended
when it takes too long. Of what it prints only file and line number are believed; order, limit and context are made
here, from the tree's own files. It is asked for folders, never file by file (it compiles the pattern on each call),
except for files that its ignore rules hide from it.

Frames on standard input and output: four bytes of length, then JSON.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, BinaryIO, Final

HITS_LIMIT: Final = 100_000
LINE_LIMIT: Final = 2_000
FOLDERS_LIMIT: Final = 12
FEW_FILES: Final = 64
ENDINGS_LIMIT: Final = 4
CHEAP: Final = re.compile(r"(?:[\w \-.:/]|\\[^\w])+", re.ASCII)  # compiled in microseconds
NUMBER: Final = re.compile(r":(\d+):")


class Refused(Exception):
    """The pattern cannot be searched for; the text is for whoever wrote it."""


class Tree:
    """One cached tree: its files, and those that the engine does not find by itself."""

    def __init__(self, root: str, manifest: str) -> None:
        import pyripgrep

        self.root = root
        self.prefix = root + "/"
        document = json.loads(Path(manifest).read_text(encoding="utf-8"))
        self.sizes = {path: size for path, size, _ in document["files"]}
        self.bases = {path.rpartition("/")[2] for path in self.sizes}
        self.engine: Any = pyripgrep.Grep()
        self.hidden = self._hidden()

    def _hidden(self) -> set[str]:
        """The canary: files with at least one line that a search for nothing does not bring back."""
        try:
            seen = self.engine.search("", path=self.root, output_mode="files_with_matches")
        except ValueError:
            seen = []
        found = {name[len(self.prefix) :] for name in seen}
        return {path for path, size in self.sizes.items() if size and path not in found}

    def lines(self, path: str) -> list[str]:
        """The lines of a file as ripgrep counts them."""
        try:
            text = Path(self.prefix + path).read_bytes().decode("utf-8", "replace")
        except OSError:
            return []
        found = text.split("\n")
        if found and not found[-1]:
            found.pop()
        return found

    def matches(self, pattern: str, wanted: list[str], *, ignore_case: bool) -> tuple[dict[str, list[int]], bool]:
        """Line numbers by file, and whether the engine stopped at its limit."""
        chosen = set(wanted)
        found: dict[str, set[int]] = {}
        stopped = False
        for place, name in self._places(wanted, cheap=not ignore_case and CHEAP.fullmatch(pattern) is not None):
            printed = self._ask(pattern, place, "content", name, ignore_case)
            stopped = stopped or len(printed) >= HITS_LIMIT
            for line in printed:
                at = self._position(line, chosen)
                if at is not None:
                    found.setdefault(at[0], set()).add(at[1])
        return {path: sorted(numbers) for path, numbers in found.items()}, stopped

    def holding(self, literal: str, wanted: list[str], *, ignore_case: bool) -> list[str]:
        """The files that hold a literal text."""
        found: set[str] = set()
        for place, name in self._places(wanted, cheap=not ignore_case):
            printed = self._ask(re.escape(literal), place, "files_with_matches", name, ignore_case)
            found.update(name[len(self.prefix) :] for name in printed)
        return [path for path in wanted if path in found]

    def _ask(self, pattern: str, place: str, mode: str, name: str | None, ignore_case: bool) -> list[str]:
        options: dict[str, Any] = {"glob": name} if name else {}
        try:
            printed: list[str] = self.engine.search(
                pattern, path=place, output_mode=mode, n=True, i=ignore_case, head_limit=HITS_LIMIT, **options
            )
        except ValueError as error:
            if str(error).startswith("Invalid pattern"):
                raise Refused(str(error)) from error
            return []  # a folder that cannot be walked, or a file that is gone
        return printed

    def _position(self, line: str, chosen: set[str]) -> tuple[str, int] | None:
        """Which file and line a printed line stands for; names may hold colons, so only known ones count."""
        for found in NUMBER.finditer(line, len(self.prefix)):
            path = line[len(self.prefix) : found.start()]
            if path in self.sizes:
                return (path, int(found[1])) if path in chosen else None
        return None

    def _places(self, wanted: list[str], *, cheap: bool) -> list[tuple[str, str | None]]:
        """Where to search so that all wanted files are met and few others; then the hidden ones, one by one."""
        seen = [path for path in wanted if path not in self.hidden]
        alone: list[tuple[str, str | None]] = [(self.prefix + path, None) for path in wanted if path in self.hidden]
        if len(seen) == 1 or (cheap and len(seen) <= FEW_FILES):
            return [*((self.prefix + path, None) for path in seen), *alone]
        groups = self._by_ending(seen)
        found: list[tuple[str, str | None]] = []
        for glob, group in groups.items():
            found += [((self.prefix + folder).rstrip("/"), glob) for folder in self._folders(group)]
        return found + alone

    def _folders(self, wanted: list[str]) -> list[str]:
        """The fewest useful folders that hold all wanted files."""
        parents = sorted({path.rpartition("/")[0] for path in wanted})
        tops: list[str] = []
        for folder in parents:
            if not any(folder == top or folder.startswith(top + "/") or not top for top in tops):
                tops.append(folder)
        while len(tops) > FOLDERS_LIMIT:
            deepest = max(tops, key=lambda top: top.count("/") + bool(top))
            above = deepest.rpartition("/")[0]
            tops = [top for top in tops if not (top == above or top.startswith(above + "/") or not above)]
            tops.append(above)
        return sorted(tops)

    def _by_ending(self, wanted: list[str]) -> dict[str | None, list[str]]:
        """The files by `*.EXT`, the one form of glob the engine gets right; all under None where that does not do."""
        groups: dict[str | None, list[str]] = {}
        for path in wanted:
            ending = path.rpartition("/")[2].rpartition(".")[2]
            glob = f"*.{ending}"
            if not ending.isalnum() or glob in self.bases or len(groups) > ENDINGS_LIMIT:
                return {None: wanted}
            groups.setdefault(glob, []).append(path)
        return groups


def search(tree: Tree, request: dict[str, Any]) -> dict[str, Any]:
    """Hits in order of path and line, cut at the limit, each with its context."""
    wanted: list[str] = list(tree.sizes) if request["files"] is None else request["files"]
    stopped = False
    if request["multiline"]:
        spans = _across_lines(tree, request, wanted)
    else:
        found, stopped = tree.matches(request["pattern"], wanted, ignore_case=request["ignore_case"])
        spans = {path: [(number, number) for number in numbers] for path, numbers in found.items()}
    hits: list[Any] = []
    context, limit = request["context"], request["limit"]
    for path in sorted(spans):
        if len(hits) >= limit:
            break
        lines = tree.lines(path)
        for first, last in spans[path][: limit - len(hits)]:
            if last <= len(lines):
                before = lines[max(0, first - 1 - context) : first - 1]
                after = lines[last : last + context]
                text = "\n".join(_short(line) for line in lines[first - 1 : last])
                hits.append([path, first, text, [_short(x) for x in before], [_short(x) for x in after]])
    total = sum(len(each) for each in spans.values())
    return {"hits": hits, "total": total, "files": len(spans), "stopped": stopped, "hidden": len(tree.hidden)}


def _across_lines(tree: Tree, request: dict[str, Any], wanted: list[str]) -> dict[str, list[tuple[int, int]]]:
    """First and last line of each match of a Python pattern, in files that hold the literal it needs."""
    flags = re.MULTILINE | (re.IGNORECASE if request["ignore_case"] else 0)
    try:
        pattern = re.compile(request["pattern"], flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise Refused(f"{error} (across lines the dialect is Python's re)") from error
    if request["needs"]:
        wanted = tree.holding(request["needs"], wanted, ignore_case=request["ignore_case"])
    spans: dict[str, list[tuple[int, int]]] = {}
    for path in wanted:
        lines = tree.lines(path)
        text = "\n".join(lines) + "\n" if lines else ""
        line, counted = 1, 0
        for match in pattern.finditer(text):
            if match.start() >= len(text):
                continue
            line += text.count("\n", counted, match.start())
            counted = match.start()
            last = line + text.count("\n", match.start(), max(match.start(), match.end() - 1))
            spans.setdefault(path, []).append((line, last))
    return spans


def _short(line: str) -> str:
    line = line.rstrip("\r")
    return line if len(line) <= LINE_LIMIT else f"{line[:LINE_LIMIT]}... (+{len(line) - LINE_LIMIT} characters)"


def answer(trees: dict[str, Tree], request: dict[str, Any]) -> dict[str, Any]:
    """The reply to one request."""
    try:
        key = request["manifest"]
        if key not in trees:
            trees[key] = Tree(request["root"], key)
        return search(trees[key], request)
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
        reply = json.dumps(answer(trees, request)).encode()
        sys.stdout.buffer.write(len(reply).to_bytes(4, "big") + reply)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
