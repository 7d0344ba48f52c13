"""ls, stat, find, du, df, readlink, realpath, sha256sum, test-like listings over the recorded files."""

from __future__ import annotations

import fnmatch
import hashlib
import posixpath
import re
from collections.abc import Callable
from datetime import datetime

from tools.host.recorded.figures import Disk, Memory
from tools.host.recorded.files import Entry, Files, Missing, normal
from tools.host.recorded.options import Options, count, parse

Output = tuple[int, str, str]
GIB = 1 << 30


def _mode(entry: Entry) -> str:
    return "lrwxrwxrwx" if entry.target else "drwxr-xr-x" if entry.is_dir else "-rw-r--r--"


def _size(entry: Entry, *, human: bool) -> str:
    return scaled(entry.size) if human else str(entry.size)


def scaled(size: float) -> str:
    """`ls -h` and `df -h`: powers of 1024, rounded up, one decimal below ten."""
    for unit in ("", "K", "M", "G", "T", "P"):
        if size < 1024 or unit == "P":
            up = -(-size * 10 // 1) / 10
            return f"{up:.1f}{unit}" if unit and up < 10 else f"{-(-size // 1):.0f}{unit}"
        size /= 1024
    return ""


_LS = Options(
    switches={
        "l": "long",
        "a": "all",
        "A": "almost",
        "h": "human",
        "1": "one",
        "d": "self",
        "t": "time",
        "r": "reverse",
        "R": "recurse",
        "S": "size",
        "n": "long",
        "i": "i",
        "F": "F",
        "all": "all",
        "human-readable": "human",
        "directory": "self",
        "g": "long",
        "o": "long",
    },
    optional={"color": "ignored", "time-style": "ignored"},
)


def ls(files: Files, argv: list[str], stdin: str) -> Output:
    asked = parse(_LS, argv[1:])
    out, err = [], ""
    paths = asked.operands or ["."]
    folders: list[str] = []
    plain: list[Entry] = []
    for path in paths:
        try:
            entry = files.entry(path)
        except Missing:
            err += f"ls: cannot access '{path}': No such file or directory\n"
            continue
        if entry.is_dir and not asked.has("self"):
            folders.append(path)
        else:
            plain.append(entry)
    if plain:
        out.append(_listing(plain, [entry.path for entry in plain], long=asked.has("long"), human=asked.has("human")))
    for path in folders:
        found = [files.entry(posixpath.join(normal(path), name)) for name in files.names(path)]
        names = [entry.name for entry in found]
        if not (asked.has("all") or asked.has("almost")):
            found = [entry for entry in found if not entry.name.startswith(".")]
            names = [entry.name for entry in found]
        if asked.has("size"):
            found.sort(key=lambda entry: -entry.size)
            names = [entry.name for entry in found]
        if asked.has("all"):
            found = [files.entry(path), files.entry(path), *found]
            names = [".", "..", *names]
        head = f"{path}:\n" if len(paths) > 1 else ""
        total = f"total {sum((entry.size + 4095) // 4096 * 4 for entry in found)}\n" if asked.has("long") else ""
        out.append(head + total + _listing(found, names, long=asked.has("long"), human=asked.has("human")))
    return (2 if err else 0), "\n".join(out), err


def _listing(entries: list[Entry], names: list[str], *, long: bool, human: bool) -> str:
    if not long:
        return "".join(name + "\n" for name in names)
    sizes = [_size(entry, human=human) for entry in entries]
    wide = max((len(size) for size in sizes), default=1)
    rows = []
    for entry, name, size in zip(entries, names, sizes, strict=True):
        links, stamp = (2 if entry.is_dir else 1), entry.modified.strftime("%b %e %H:%M")
        arrow = f" -> {entry.target}" if entry.target else ""
        rows.append(f"{_mode(entry)} {links} root root {size:>{wide}} {stamp} {name}{arrow}\n")
    return "".join(rows)


def stat(files: Files, argv: list[str], stdin: str) -> Output:
    asked = parse(
        Options(values={"c": "format", "format": "format", "printf": "format"}, switches={"L": "L", "f": "f"}), argv[1:]
    )
    out, err = "", ""
    for path in asked.operands:
        try:
            entry = files.entry(path)
        except Missing:
            err += f"stat: cannot statx '{path}': No such file or directory\n"
            continue
        template = asked.last("format")
        out += _stat_format(entry, path, template) + "\n" if template else _stat_text(entry, path)
    return int(bool(err)), out, err


def _stat_format(entry: Entry, path: str, template: str) -> str:
    kind = "directory" if entry.is_dir else "symbolic link" if entry.target else "regular file"
    values = {
        "n": path,
        "s": str(entry.size),
        "F": kind,
        "U": "root",
        "G": "root",
        "u": "0",
        "g": "0",
        "a": "755" if entry.is_dir else "644",
        "A": _mode(entry),
        "Y": str(round(entry.modified.timestamp())),
        "y": _precise(entry.modified),
        "h": "1",
        "%": "%",
        "Z": str(round(entry.modified.timestamp())),
    }
    return re.sub(r"%([a-zA-Z%])", lambda found: values.get(found[1], "?"), template)


def _precise(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S.000000000 %z")


def _stat_text(entry: Entry, path: str) -> str:
    kind = "directory" if entry.is_dir else "symbolic link" if entry.target else "regular file"
    blocks = (entry.size + 511) // 512
    mode = "0755" if entry.is_dir else "0644"
    stamp = _precise(entry.modified)
    return (
        f"  File: {path}\n  Size: {entry.size:<15}\tBlocks: {blocks:<10} IO Block: 4096   {kind}\n"
        f"Device: 259,2\tInode: {abs(hash(entry.path)) % 10**7 + 131_072:<11} Links: {2 if entry.is_dir else 1}\n"
        f"Access: ({mode}/{_mode(entry)})  Uid: (    0/    root)   Gid: (    0/    root)\n"
        f"Access: {stamp}\nModify: {stamp}\nChange: {stamp}\n Birth: {stamp}\n"
    )


def find(files: Files, argv: list[str], stdin: str) -> Output:
    """Tests -name, -iname, -path, -type, -maxdepth, -mindepth, -size; prints paths."""
    paths: list[str] = []
    words = argv[1:]
    while words and not words[0].startswith(("-", "(", "!")):
        paths.append(words.pop(0))
    tests: dict[str, str] = {}
    while words:
        word = words.pop(0)
        if word in ("-print", "-xdev", "-mount"):
            continue
        if not words:
            return 1, "", f"find: missing argument to `{word}'\n"
        tests[word] = words.pop(0)
    out, err = [], ""
    for path in paths or ["."]:
        try:
            top = normal(path)
            for entry in files.walk(path, count(tests.get("-maxdepth", "64"))):
                depth = entry.path[len(top) :].count("/") if top != "/" else entry.path.count("/")
                if depth >= count(tests.get("-mindepth", "0")) and _passes(entry, tests):
                    out.append(path.rstrip("/") + entry.path[len(top) :] if top != "/" else entry.path)
        except Missing:
            err += f"find: '{path}': No such file or directory\n"
    return int(bool(err)), "".join(line + "\n" for line in out), err


def _passes(entry: Entry, tests: dict[str, str]) -> bool:
    kind = "d" if entry.is_dir else "l" if entry.target else "f"
    if tests.get("-type", kind) != kind:
        return False
    if "-name" in tests and not fnmatch.fnmatchcase(entry.name, tests["-name"]):
        return False
    if "-iname" in tests and not fnmatch.fnmatch(entry.name.lower(), tests["-iname"].lower()):
        return False
    if "-path" in tests and not fnmatch.fnmatchcase(entry.path, tests["-path"]):
        return False
    if (found := re.fullmatch(r"([+-]?)(\d+)([ckMG]?)", tests.get("-size", ""))) is not None:
        unit = {"c": 1, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30, "": 512}[found[3]]
        units, wanted = -(-entry.size // unit), int(found[2])
        return units > wanted if found[1] == "+" else units < wanted if found[1] == "-" else units == wanted
    return True


def du(files: Files, argv: list[str], stdin: str) -> Output:
    asked = parse(
        Options(
            values={"d": "depth", "max-depth": "depth"},
            switches={"s": "sum", "h": "human", "x": "x", "b": "bytes", "a": "all", "c": "c", "k": "k", "m": "mega"},
        ),
        argv[1:],
    )
    out, err = [], ""
    depth = 0 if asked.has("sum") else count(asked.last("depth") or "64")
    for path in asked.operands or ["."]:
        try:
            entries = list(files.walk(path))
        except Missing:
            err += f"du: cannot access '{path}': No such file or directory\n"
            continue
        top = normal(path)
        for folder in [entry for entry in reversed(entries) if entry.is_dir or entry.path == top]:
            if folder.path[len(top) :].count("/") > depth:
                continue
            inside = [
                entry for entry in entries if entry.path == folder.path or entry.path.startswith(folder.path + "/")
            ]
            size = sum(-(-entry.size // 4096) * 4096 for entry in inside)
            shown = scaled(size) if asked.has("human") else str(size if asked.has("bytes") else size // 1024)
            out.append(f"{shown}\t{path.rstrip('/') or '/'}{folder.path[len(top) :] if top != '/' else folder.path}")
    return int(bool(err)), "".join(line + "\n" for line in out), err


def readlink(files: Files, argv: list[str], stdin: str) -> Output:
    asked = parse(Options(switches={"f": "follow", "e": "follow", "m": "follow", "n": "n"}), argv[1:])
    out = []
    for path in asked.operands:
        try:
            entry = files.entry(path)
        except Missing:
            if not asked.has("follow"):
                return 1, "", ""
            entry = None
        if asked.has("follow"):
            out.append(files.resolve(path))
        elif entry is not None and entry.target:
            out.append(entry.target)
    return int(not out), "".join(line + "\n" for line in out), ""


def realpath(files: Files, argv: list[str], stdin: str) -> Output:
    paths = [word for word in argv[1:] if not word.startswith("-")]
    return 0, "".join(files.resolve(path) + "\n" for path in paths), ""


def sha256sum(files: Files, argv: list[str], stdin: str) -> Output:
    out, err = "", ""
    for path in [word for word in argv[1:] if not word.startswith("-")]:
        try:
            data = files.read(path).encode("utf-8", "surrogateescape")
            out += f"{hashlib.sha256(data).hexdigest()}  {path}\n"
        except Missing:
            err += f"sha256sum: {path}: No such file or directory\n"
        except IsADirectoryError:
            err += f"sha256sum: {path}: Is a directory\n"
    return int(bool(err)), out, err


PROGRAMS: dict[str, Callable[[Files, list[str], str], Output]] = {
    "ls": ls,
    "stat": stat,
    "find": find,
    "du": du,
    "readlink": readlink,
    "realpath": realpath,
    "sha256sum": sha256sum,
}

_DF = Options(
    values={
        "B": "block",
        "block-size": "block",
        "x": "exclude",
        "exclude-type": "exclude",
        "t": "only",
        "type": "only",
    },
    switches={
        "h": "human",
        "T": "type",
        "k": "k",
        "P": "P",
        "l": "l",
        "a": "a",
        "i": "inodes",
        "human-readable": "human",
    },
)


def df(disks: tuple[Disk, ...], memory: Memory, argv: list[str]) -> Output:
    """File systems of the recording, and the tmpfs ones that its RAM implies."""
    asked = parse(_DF, argv[1:])
    shared = Disk(source="tmpfs", kind="tmpfs", size_gib=memory.total_gib / 2, used_gib=0.02, mount="/dev/shm")  # noqa: S108 - a mount of the host
    run = Disk(source="tmpfs", kind="tmpfs", size_gib=memory.total_gib / 10, used_gib=0.004, mount="/run")
    table = [run, *disks[:1], shared, *disks[1:]]
    err = ""
    if asked.operands:
        table = []
        for path in asked.operands:
            holders = [
                disk for disk in (run, shared, *disks) if (normal(path) + "/").startswith(disk.mount.rstrip("/") + "/")
            ]
            if holders:
                table.append(max(holders, key=lambda disk: len(disk.mount)))
            else:
                err += f"df: {path}: No such file or directory\n"
    table = [
        disk
        for disk in table
        if disk.kind not in asked.all("exclude") and (not asked.all("only") or disk.kind in asked.all("only"))
    ]
    return (
        int(bool(err)),
        _df_table(table, human=asked.has("human"), typed=asked.has("type"), block=asked.last("block")),
        err,
    )


def _df_table(table: list[Disk], *, human: bool, typed: bool, block: str | None) -> str:
    unit = {"1": 1, "1K": 1024, "K": 1024, "1M": 1 << 20, "M": 1 << 20, "1G": GIB, "G": GIB}.get(block or "1K", 1024)
    size = (
        "Size"
        if human
        else "1K-blocks"
        if unit == 1024
        else f"{block if (block or '')[:1] == '1' else f'1{block}'}-blocks"
    )
    size = "1B-blocks" if unit == 1 else size
    columns = ["Filesystem", *(["Type"] if typed else []), size, "Used", "Avail" if human else "Available", "Use%"]
    rows = [[*columns, "Mounted on"]]
    for disk in table:
        total, used = disk.size_gib * GIB, disk.used_gib * GIB
        values = [scaled(value) if human else str(-(-round(value) // unit)) for value in (total, used, total - used)]
        share = f"{-(-round(used * 1000 / total) // 10)}%"
        rows.append([disk.source, *([disk.kind] if typed else []), *values, share, disk.mount])
    widths = [max(len(row[place]) for row in rows) for place in range(len(columns))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if place == 0 or (typed and place == 1) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        lines.append(" ".join([*cells, row[-1]]))
    return "".join(line + "\n" for line in lines)
