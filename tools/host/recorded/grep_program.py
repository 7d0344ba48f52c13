"""grep, as far as probes and their readers use it."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator

from tools.host.recorded.files import Files
from tools.host.recorded.options import Options, Parsed, UsageMistake, count, parse
from tools.host.recorded.streams import Output, inputs, join, split

_GREP = Options(
    values={
        "e": "pattern",
        "regexp": "pattern",
        "m": "max",
        "max-count": "max",
        "A": "after",
        "B": "before",
        "C": "context",
        "include": "include",
        "exclude": "exclude",
        "after-context": "after",
        "before-context": "before",
        "context": "context",
    },
    switches={
        "n": "number",
        "i": "case",
        "c": "count",
        "v": "invert",
        "o": "only",
        "l": "names",
        "h": "bare",
        "H": "with",
        "E": "extended",
        "F": "fixed",
        "P": "extended",
        "w": "word",
        "x": "line",
        "r": "recurse",
        "R": "recurse",
        "q": "quiet",
        "s": "silent",
        "a": "ignored",
        "line-number": "number",
        "ignore-case": "case",
        "invert-match": "invert",
        "only-matching": "only",
        "count": "count",
        "extended-regexp": "extended",
        "fixed-strings": "fixed",
        "files-with-matches": "names",
        "recursive": "recurse",
        "quiet": "quiet",
        "I": "ignored",
        "text": "ignored",
        "no-messages": "silent",
        "no-filename": "bare",
        "with-filename": "with",
    },
    optional={"color": "ignored", "colour": "ignored"},
)


def grep(files: Files, argv: list[str], stdin: str) -> Output:
    asked = parse(_GREP, argv[1:])
    operands, patterns = list(asked.operands), asked.all("pattern")
    if not patterns:
        if not operands:
            raise UsageMistake("Usage: grep [OPTION]... PATTERNS [FILE]...")
        patterns = [operands.pop(0)]
    matcher = _matcher(patterns, asked)
    paths = list(_below(files, operands, asked)) if asked.has("recurse") else operands
    found, complaints = inputs("grep", files, paths, stdin)
    named = asked.has("with") or ((len(paths) > 1 or asked.has("recurse")) and not asked.has("bare"))
    written: list[str] = []
    hit = False
    for path, text in found:
        label = "(standard input)" if path == "-" else path
        lines = split(text)
        hits = _hits(lines, matcher, asked)
        hit = hit or bool(hits)
        if not asked.has("names"):
            written += _shown(lines, hits, matcher, asked, label if named else "")
        elif hits:
            written.append(label)
    status = 2 if complaints else 0 if hit else 1
    return status, "" if asked.has("quiet") else join(written), "" if asked.has("silent") else complaints


def _matcher(patterns: list[str], asked: Parsed) -> re.Pattern[str]:
    parts = [part for pattern in patterns for part in pattern.split("\n")]
    if asked.has("fixed"):
        parts = [re.escape(part) for part in parts]
    elif not asked.has("extended"):
        parts = [basic(part) for part in parts]
    text = "|".join(f"(?:{part})" for part in parts)
    if asked.has("word"):
        text = rf"(?<!\w)(?:{text})(?!\w)"
    if asked.has("line"):
        text = f"^(?:{text})$"
    for posix, python in (("[[:space:]]", r"\s"), ("[[:digit:]]", r"\d"), ("[[:alpha:]]", "[A-Za-z]")):
        text = text.replace(posix, python)
    try:
        return re.compile(text, re.IGNORECASE if asked.has("case") else 0)
    except re.error as error:
        raise UsageMistake(f"grep: {error}") from error


def basic(pattern: str) -> str:
    """A basic regular expression in Python's words: what is escaped there is plain here and the other way round."""
    swapped = re.sub(r"\\([|(){}+?])|([|(){}+?])", lambda found: found[1] or "\\" + found[2], pattern)
    return re.sub(r"\\([<>])", r"\\b", swapped)


def _below(files: Files, operands: list[str], asked: Parsed) -> Iterator[str]:
    for operand in operands or ["."]:
        for entry in files.walk(operand):
            if entry.is_dir:
                continue
            wanted = asked.all("include")
            if wanted and not any(fnmatch.fnmatch(entry.name, glob) for glob in wanted):
                continue
            if not any(fnmatch.fnmatch(entry.name, glob) for glob in asked.all("exclude")):
                yield entry.path


def _hits(lines: list[str], matcher: re.Pattern[str], asked: Parsed) -> list[int]:
    """The places of the lines that are taken, no more than `-m` allows."""
    hits = [place for place, line in enumerate(lines) if bool(matcher.search(line)) != asked.has("invert")]
    limit = count(asked.last("max") or "0")
    return hits[:limit] if limit else hits


def _shown(lines: list[str], hits: list[int], matcher: re.Pattern[str], asked: Parsed, label: str) -> Iterator[str]:
    if asked.has("count"):
        yield (f"{label}:" if label else "") + str(len(hits))
        return
    around = count(asked.last("context") or "0")
    before, after = (count(asked.last(side) or str(around)) for side in ("before", "after"))
    wanted = set(hits)
    shown = {
        place + offset for place in hits for offset in range(-before, after + 1) if 0 <= place + offset < len(lines)
    }
    previous: int | None = None
    for place in sorted(shown):
        if (before or after) and previous is not None and place > previous + 1:
            yield "--"
        previous = place
        mark = ":" if place in wanted else "-"
        head = (f"{label}{mark}" if label else "") + (f"{place + 1}{mark}" if asked.has("number") else "")
        if asked.has("only") and not asked.has("invert"):
            yield from (head + found[0] for found in matcher.finditer(lines[place]) if found[0])
        else:
            yield head + lines[place]
