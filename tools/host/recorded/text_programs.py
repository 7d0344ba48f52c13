"""Filters of a pipeline: cat, head, tail, grep, sed -n, wc, sort, uniq, cut, tr, awk's field printing."""

from __future__ import annotations

import re
from collections.abc import Callable

from tools.host.recorded.files import Files
from tools.host.recorded.grep_program import basic, grep
from tools.host.recorded.options import Options, Parsed, UsageMistake, count, parse
from tools.host.recorded.streams import Output, inputs, join, split


def cat(files: Files, argv: list[str], stdin: str) -> Output:
    asked = parse(Options(switches={"n": "number", "A": "ignored", "v": "ignored", "s": "ignored"}), argv[1:])
    found, complaints = inputs("cat", files, asked.operands, stdin)
    text = "".join(text for _, text in found)
    if asked.has("number"):
        text = join([f"{number:>6}\t{line}" for number, line in enumerate(split(text), 1)])
    return int(bool(complaints)), text, complaints


_COUNT = Options(
    values={"n": "lines", "lines": "lines", "c": "bytes", "bytes": "bytes"}, switches={"q": "quiet", "v": "v"}
)


def head(files: Files, argv: list[str], stdin: str) -> Output:
    return _ends("head", files, argv, stdin)


def tail(files: Files, argv: list[str], stdin: str) -> Output:
    return _ends("tail", files, argv, stdin)


def _ends(name: str, files: Files, argv: list[str], stdin: str) -> Output:
    words = [f"-n{word[1:]}" if re.fullmatch(r"-\d+", word) else word for word in argv[1:]]
    asked = parse(_COUNT, words)
    found, complaints = inputs(name, files, asked.operands, stdin)
    written = []
    for number, (path, text) in enumerate(found):
        if len(asked.operands) > 1 and not asked.has("quiet"):
            written.append(("\n" if number else "") + f"==> {path} <==\n")
        written.append(_portion(name, text, asked))
    return int(bool(complaints)), "".join(written), complaints


def _portion(name: str, text: str, asked: Parsed) -> str:
    if (size := asked.last("bytes")) is not None:
        size_bytes = count(size)
        return text[:size_bytes] if name == "head" else text[-size_bytes:]
    amount = asked.last("lines") or "10"
    lines = text.splitlines(keepends=True)
    kept = count(amount.lstrip("+-"))
    if name == "head":
        return "".join(lines[: len(lines) - kept] if amount.startswith("-") else lines[:kept])
    return "".join(lines[kept - 1 :] if amount.startswith("+") else lines[len(lines) - min(kept, len(lines)) :])


def sed(files: Files, argv: list[str], stdin: str) -> Output:
    """`sed -n 'A,Bp'`, `'Np'`, `'$p'` and `'/pattern/p'`, the forms that only print."""
    asked = parse(Options(values={"e": "script"}, switches={"n": "n", "E": "extended", "r": "extended"}), argv[1:])
    operands = list(asked.operands)
    script = asked.last("script") or (operands.pop(0) if operands else "")
    found, complaints = inputs("sed", files, operands, stdin)
    lines = [line for _, text in found for line in split(text)]
    chosen: list[str] = []
    for part in script.split(";"):
        chosen += _addressed(part.strip(), lines, asked)
    return (2 if complaints else 0), join(chosen), complaints.replace("sed: ", "sed: can't read ")


def _addressed(part: str, lines: list[str], asked: Parsed) -> list[str]:
    if (found := re.fullmatch(r"(\d+|\$)(?:,(\+?\d+|\$))?p", part)) is not None:
        first = len(lines) if found[1] == "$" else int(found[1])
        last = first if found[2] is None else len(lines) if found[2] == "$" else int(found[2].lstrip("+"))
        if found[2] is not None and found[2].startswith("+"):
            last += first
        return lines[first - 1 : max(last, first)]
    if (found := re.fullmatch(r"/(.*)/p", part)) is not None:
        pattern = re.compile(found[1] if asked.has("extended") else basic(found[1]))
        return [line for line in lines if pattern.search(line)]
    raise UsageMistake(f"sed: -e expression #1: unknown command: `{part}'")


def wc(files: Files, argv: list[str], stdin: str) -> Output:
    asked = parse(Options(switches={"l": "l", "w": "w", "c": "c", "m": "c"}), argv[1:])
    found, complaints = inputs("wc", files, asked.operands, stdin)
    keys = [key for key in "lwc" if asked.has(key)] or ["l", "w", "c"]
    rows = []
    for path, text in found:
        counts = {"l": text.count("\n"), "w": len(text.split()), "c": len(text.encode("utf-8", "surrogateescape"))}
        rows.append(([counts[key] for key in keys], "" if path == "-" else f" {path}"))
    if len(rows) > 1:
        rows.append(([sum(row[0][place] for row in rows) for place in range(len(keys))], " total"))
    wide = (
        max((len(str(value)) for row in rows for value in row[0]), default=1) if len(rows) > 1 or len(keys) > 1 else 1
    )
    lines = [" ".join(f"{value:>{wide}}" for value in row[0]) + row[1] for row in rows]
    return int(bool(complaints)), join(lines), complaints


_SORT = Options(
    values={"k": "key", "t": "separator"},
    switches={"r": "reverse", "n": "number", "u": "unique", "h": "number", "b": "b", "V": "b", "g": "number", "f": "b"},
)


def sort(files: Files, argv: list[str], stdin: str) -> Output:
    words = [part for word in argv[1:] for part in _key_flags(word)]
    asked = parse(_SORT, words)
    found, complaints = inputs("sort", files, asked.operands, stdin)
    lines = [line for _, text in found for line in split(text)]

    def rank(line: str) -> tuple[float, str]:
        place = asked.last("key")
        text = line
        if place:
            parts = line.split(asked.last("separator"))
            start = count(re.split(r"\D", place)[0]) - 1
            text = parts[start] if start < len(parts) else ""
        if asked.has("number"):
            number = re.match(r"\s*-?\d+(\.\d+)?", text)
            return (float(number[0]) if number else 0.0), line
        return 0.0, text

    lines.sort(key=rank, reverse=asked.has("reverse"))
    if asked.has("unique"):
        lines = list(dict.fromkeys(lines))
    return int(bool(complaints)), join(lines), complaints


def _key_flags(word: str) -> list[str]:
    """`-k3nr` is `-k3 -n -r`."""
    found = re.fullmatch(r"-k(\d+(?:,\d+)?)([nr]+)", word)
    return [f"-k{found[1]}", *(f"-{letter}" for letter in found[2])] if found else [word]


def uniq(files: Files, argv: list[str], stdin: str) -> Output:
    asked = parse(Options(switches={"c": "count", "d": "double", "u": "single", "i": "i"}), argv[1:])
    found, complaints = inputs("uniq", files, asked.operands, stdin)
    groups: list[tuple[str, int]] = []
    for line in (line for _, text in found for line in split(text)):
        if groups and groups[-1][0] == line:
            groups[-1] = (line, groups[-1][1] + 1)
        else:
            groups.append((line, 1))
    kept = [
        group
        for group in groups
        if (not asked.has("double") or group[1] > 1) and (not asked.has("single") or group[1] == 1)
    ]
    lines = [f"{count:>7} {line}" if asked.has("count") else line for line, count in kept]
    return int(bool(complaints)), join(lines), complaints


def cut(files: Files, argv: list[str], stdin: str) -> Output:
    asked = parse(Options(values={"d": "delimiter", "f": "fields", "c": "characters"}, switches={"s": "s"}), argv[1:])
    found, complaints = inputs("cut", files, asked.operands, stdin)
    mark, places = asked.last("delimiter") or "\t", _ranges(asked.last("fields") or asked.last("characters") or "1-")
    lines = []
    for line in (line for _, text in found for line in split(text)):
        parts = list(line) if asked.has("characters") else line.split(mark)
        if len(parts) == 1 and not asked.has("characters"):
            lines += [] if asked.has("s") else [line]
            continue
        kept = [part for place, part in enumerate(parts, 1) if any(low <= place <= high for low, high in places)]
        lines.append(("" if asked.has("characters") else mark).join(kept))
    return int(bool(complaints)), join(lines), complaints


def _ranges(text: str) -> list[tuple[int, int]]:
    found = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        found.append((count(low or "1"), count(high or str(1 << 30)) if dash else count(low)))
    return found


def tr(files: Files, argv: list[str], stdin: str) -> Output:
    asked = parse(Options(switches={"d": "delete", "s": "squeeze", "c": "c"}), argv[1:])
    sets = [_letters(word) for word in asked.operands]
    if asked.has("delete"):
        return 0, "".join(letter for letter in stdin if letter not in sets[0]), ""
    if asked.has("squeeze") and len(sets) == 1:
        return 0, re.sub(f"([{re.escape(sets[0])}])\\1+", r"\1", stdin), ""
    target = sets[1] + sets[1][-1:] * max(len(sets[0]) - len(sets[1]), 0)
    return 0, stdin.translate({ord(old): new for old, new in zip(sets[0], target, strict=False)}), ""


def _letters(word: str) -> str:
    word = word.replace("\\n", "\n").replace("\\t", "\t").replace("\\000", "\0").replace("\\0", "\0")
    return re.sub(
        r"(.)-(.)", lambda found: "".join(chr(code) for code in range(ord(found[1]), ord(found[2]) + 1)), word
    )


def awk(files: Files, argv: list[str], stdin: str) -> Output:
    """The forms that print fields of lines, with an optional pattern before the braces."""
    asked = parse(Options(values={"F": "separator"}), argv[1:])
    operands = list(asked.operands)
    found = re.fullmatch(r"\s*(?:/(.*?)/)?\s*\{\s*print\s*([^{};]*?)\s*;?\s*\}\s*", operands.pop(0) if operands else "")
    if found is None:
        raise UsageMistake("awk: syntax error at source line 1")
    texts, complaints = inputs("awk", files, operands, stdin)
    pattern = re.compile(found[1]) if found[1] else None
    lines = []
    for line in (line for _, text in texts for line in split(text)):
        if pattern is None or pattern.search(line):
            fields = line.split(asked.last("separator"))
            lines.append(" ".join(_field(item, line, fields) for item in found[2].split(",")) if found[2] else line)
    return (2 if complaints else 0), join(lines), complaints


def _field(item: str, line: str, fields: list[str]) -> str:
    item = item.strip()
    if item == "$0":
        return line
    if item == "$NF":
        return fields[-1] if fields else ""
    if re.fullmatch(r"\$\d+", item):
        place = int(item[1:]) - 1
        return fields[place] if place < len(fields) else ""
    return item.strip('"')


FILTERS: dict[str, Callable[[Files, list[str], str], Output]] = {
    "cat": cat,
    "head": head,
    "tail": tail,
    "grep": grep,
    "sed": sed,
    "wc": wc,
    "sort": sort,
    "uniq": uniq,
    "cut": cut,
    "tr": tr,
    "awk": awk,
}
