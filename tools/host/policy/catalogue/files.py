"""Files: names, sizes, contents, sums. `paths` says which; here is how much."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tools.host.policy import paths
from tools.host.policy.options import Entry, Parsed, asking, flags, never, valued
from tools.host.policy.roles import anything, matching, number, word
from tools.host.policy.verdict import Finding, ask, deny

_SIZE: Final = matching(r"[+-]?\d{1,6}[bcwkMGT]?", "a size")
_AGE: Final = matching(r"[+-]?\d{1,6}(\.\d+)?", "an age")
_GLOB: Final = matching(r"[A-Za-z0-9_.*?\[\]:@%+,=~^-]{1,120}", "a name pattern")
_BOUND: Final = matching(r"[1-9]\d{0,3}|[1-4]\d{4}", "a number of lines up to 49,999")
_BYTES: Final = matching(r"\d{1,6}|\d{1,3}k|\d{1,3}K", "a number of bytes under one million")
_COPIES: Final = "writes a file"


def _lines(value: str) -> Finding | None:
    """How many lines; from a line on to the end is the whole of what may grow without bound."""
    if value.startswith("+"):
        return _BOUND(value[1:]) or ask("cost", f"from line {value[1:]} on everything comes")
    return _BOUND(value)


def _needs_operand(parsed: Parsed) -> Iterable[Finding]:
    if not parsed.operands and not parsed.after_pipe:
        yield deny("operand", "name the path")


def _ls(parsed: Parsed) -> Iterable[Finding]:
    if not parsed.operands:
        yield ask("private", "without a path the login's home is listed")
    if parsed.has("-R", "--recursive"):
        yield ask("load", "walks everything below: find with -maxdepth is bounded")


def _find(parsed: Parsed) -> Iterable[Finding]:
    depth = parsed.value("-maxdepth")
    starts = parsed.operands
    if not starts:
        yield deny("operand", "name where to begin, first")
    for start in starts:
        small = paths.tree(start) is None
        if not depth and not small:
            yield ask("load", f"without -maxdepth everything below {start} is walked")
        elif start == "/" and int(depth or 9) > 2:
            yield ask("load", "walks every mount, network storage too")


def _du(parsed: Parsed) -> Iterable[Finding]:
    if not parsed.operands:
        yield deny("operand", "name the path")
    small = all(path.startswith(("/var/log", "/etc", "/tmp", "/dev/shm")) for path in parsed.operands)  # noqa: S108
    if not (small and parsed.has("-x", "--one-file-system") and parsed.has("-d", "--max-depth", "-s", "--summarize")):
        yield ask("load", "bounded only with -x and -d or -s, and in a small tree")


def _sums(parsed: Parsed) -> Iterable[Finding]:
    yield from _needs_operand(parsed)


def _tree(parsed: Parsed) -> Iterable[Finding]:
    yield from _needs_operand(parsed)
    if not parsed.has("-L"):
        yield ask("load", "without -L everything below is walked")


def _seen_once(name: str) -> Entry:
    return Entry(
        f"/usr/bin/{name}",
        {
            **flags("--tag -b -t --binary --text"),
            **never("secret", "takes file names from a file", "-c --check"),
            **never("scope", "options of a check", "--quiet --status --strict -w"),
        },
        operands=paths.content,
        most=8,
        check=_sums,
        reads_input=True,
    )


_FIND: Final = Entry(
    "/usr/bin/find",
    {
        **flags(
            "-print -print0 -ls -xdev -mount -not -a -and -o -or ! ( ) -empty -prune -quit -true -daystart -readable"
            " -executable -writable -noleaf -P -nouser -nogroup -depth"
        ),
        **valued(number(0, 4), "-maxdepth"),
        **valued(number(0, 4), "-mindepth"),
        **valued(_GLOB, "-name -iname -lname -ilname"),
        **valued(
            matching(r"[A-Za-z0-9_.*?/:@%+,=~^-]{1,160}", "a path pattern"), "-path -ipath -wholename -regex -iregex"
        ),
        **valued(matching(r"[bcdpfls](,[bcdpfls])*", "a type"), "-type -xtype"),
        **valued(_SIZE, "-size"),
        **valued(_AGE, "-mtime -mmin -atime -amin -ctime -cmin -links -used -inum"),
        **valued(word, "-user -group -fstype"),
        **valued(matching(r"[-/]?[0-7]{1,4}", "a mode"), "-perm"),
        **valued(paths.listing, "-newer -anewer -cnewer -samefile"),
        **valued(matching(r"[A-Za-z0-9 %.,:\\@_/-]{1,120}", "a format"), "-printf"),
        **never("exec-arg", "runs a program for each file", "-exec -execdir -ok -okdir", takes=True),
        **never("write-arg", "deletes files", "-delete"),
        **never("write-arg", _COPIES, "-fprint -fprint0 -fls -fprintf", takes=True),
        **never("secret", "takes its starting points from a file", "-files0-from", takes=True),
        **never("scope", "follows links out of the tree", "-L -follow -H"),
    },
    style="words",
    operands=paths.walk,
    most=8,
    check=_find,
)
_CAT: Final = Entry(
    "/usr/bin/cat",
    flags("-n -b -s -A -v -E -T -e -t --number"),
    operands=paths.whole,
    most=16,
    check=_needs_operand,
    reads_input=True,
    privacy="redact",
)
_ENDS: Final = {
    **flags("-q -v -z --quiet --verbose"),
    **valued(_lines, "-n --lines -#"),
    **valued(_BYTES, "-c --bytes"),
}

ENTRIES: Final = {
    "ls": Entry(
        "/usr/bin/ls",
        {
            **flags(
                "-l -a -A -h -d -t -r -S -1 -i -n -g -o -s -F -p -q -L -H -X -U -c -u -G -Z -k -C -x -m -N"
                " -Q -R --all --almost-all --human-readable --directory --reverse --recursive --full-time"
                " --inode --numeric-uid-gid --group-directories-first --size"
            ),
            **valued(
                matching(r"[A-Za-z0-9+:% -]{1,40}", "a style"), "--time-style --sort --time --format --block-size"
            ),
            **valued(matching(r"never|auto|always", "never"), "--color", optional=True),
        },
        operands=paths.listing,
        most=16,
        check=_ls,
        dashdash=True,
    ),
    "stat": Entry(
        "/usr/bin/stat",
        {
            **flags("-f -L -t --file-system --dereference --terse"),
            **valued(matching(r"[A-Za-z0-9%.,:/ _|=-]{1,120}", "a format"), "-c --format --printf"),
        },
        operands=paths.listing,
        most=16,
        check=_needs_operand,
    ),
    "readlink": Entry(
        "/usr/bin/readlink",
        flags("-f -e -m -n -q -s -v -z --canonicalize"),
        operands=paths.listing,
        most=16,
        check=_needs_operand,
        dashdash=True,
    ),
    "realpath": Entry(
        "/usr/bin/realpath", flags("-e -m -q -s -z"), operands=paths.listing, most=16, check=_needs_operand
    ),
    "namei": Entry("/usr/bin/namei", flags("-l -m -o -v -x"), operands=paths.listing, most=8, check=_needs_operand),
    "basename": Entry("/usr/bin/basename", operands=anything, most=2),
    "dirname": Entry("/usr/bin/dirname", operands=anything, most=2),
    "file": Entry(
        "/usr/bin/file",
        {
            **flags("-b -i -L -h --brief --mime --mime-type"),
            **never("write-arg", "compiles a magic file", "-C --compile"),
            **never("exec-arg", "takes its rules or names from a file", "-m --magic-file -f --files-from", takes=True),
            **never("exec-arg", "unpacks", "-z -Z -s"),
        },
        operands=paths.content,
        most=8,
        check=_needs_operand,
    ),
    "cat": _CAT,
    "tac": Entry(
        "/usr/bin/tac", operands=paths.whole, most=4, check=_needs_operand, reads_input=True, privacy="redact"
    ),
    "nl": Entry(
        "/usr/bin/nl",
        flags("-ba"),
        operands=paths.whole,
        most=1,
        check=_needs_operand,
        reads_input=True,
        privacy="redact",
    ),
    "head": Entry(
        "/usr/bin/head", _ENDS, operands=paths.content, most=8, check=_needs_operand, reads_input=True, privacy="redact"
    ),
    "tail": Entry(
        "/usr/bin/tail",
        {
            **_ENDS,
            **never("hang", "follows for ever", "-f -F --follow --retry"),
            **never("hang", "options of following", "-s --sleep-interval --pid --max-unchanged-stats", takes=True),
        },
        operands=paths.content,
        most=8,
        check=_needs_operand,
        reads_input=True,
        carves=lambda parsed: parsed.has("-c", "--bytes"),
        privacy="redact",
    ),
    "find": _FIND,
    "du": Entry(
        "/usr/bin/du",
        {
            **flags(
                "-x -s -h -c -a -m -k -b -S -l --one-file-system --summarize --human-readable --total"
                " --apparent-size --bytes --inodes"
            ),
            **valued(number(0, 3), "-d --max-depth"),
            **valued(_SIZE, "-t --threshold"),
            **never("secret", "takes names from a file", "--files0-from -X --exclude-from", takes=True),
        },
        operands=paths.listing,
        most=4,
        check=_du,
    ),
    "tree": Entry(
        "/usr/bin/tree",
        {
            **flags("-a -d -f -h -s -D -p -u -g -x -i --du -J"),
            **valued(number(1, 4), "-L"),
            **valued(_GLOB, "-I -P"),
            **never("write-arg", _COPIES, "-o", takes=True),
            **never("scope", "follows links, or writes pages", "-l -R"),
        },
        operands=paths.walk,
        most=2,
        check=_tree,
    ),
    **{name: _seen_once(name) for name in ("sha256sum", "sha1sum", "md5sum", "sha512sum", "b2sum", "cksum")},
    "wc": Entry(
        "/usr/bin/wc",
        {
            **flags("-l -w -c -m -L --lines --words --bytes --chars"),
            **never("secret", "takes names from a file", "--files0-from", takes=True),
        },
        operands=paths.content,
        most=8,
        check=_needs_operand,
        reads_input=True,
    ),
    "diff": Entry(
        "/usr/bin/diff",
        {**flags("-u -q -b -w -B -i -y -s -a"), **asking("load", "walks both trees", "-r --recursive -N")},
        operands=paths.content,
        most=2,
        recurses=("-r", "--recursive"),
        check=_needs_operand,
        privacy="redact",
    ),
    "cmp": Entry("/usr/bin/cmp", flags("-s -b"), operands=paths.content, most=2, check=_needs_operand),
    "strings": Entry(
        "/usr/bin/strings",
        {**flags("-a"), **valued(number(4, 64), "-n")},
        operands=paths.content,
        most=1,
        check=_needs_operand,
        finding=ask("secret", "digs text out of files that are not text"),
    ),
    "whereis": Entry("/usr/bin/whereis", flags("-b"), operands=word, most=4),
    "which": Entry("/usr/bin/which", flags("-a"), operands=word, most=4),
}
