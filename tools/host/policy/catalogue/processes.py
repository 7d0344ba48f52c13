"""Processes: who runs, with which arguments; what slows or stops one asks or is denied."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tools.host.policy.options import Entry, Parsed, asking, flags, never, valued
from tools.host.policy.roles import fields, matching, number, pid, word
from tools.host.policy.verdict import Finding, ask, deny

_ARGUMENTS: Final = re.compile(r"\b(args|cmd|command)\b")
_FIELDS: Final = matching(r"[a-z_%][a-z0-9_%,=:]*", "a list of columns")
_BSD: Final = matching(r"[aux]{1,3}[wlfh]{0,4}|[1-9]\d{0,6}", "one of the BSD forms like aux, or a process id")
_BSD_COLUMNS: Final = re.compile(r"[aux]{1,3}[wlfh]{0,4}o")
_EXEC: Final = deny("exec", "runs a program")


def _ps(parsed: Parsed) -> Iterable[Finding]:
    columns = list(parsed.values("-o", "-O", "--format"))
    for before, operand in zip(("", *parsed.operands), parsed.operands, strict=False):
        if _BSD_COLUMNS.fullmatch(before):
            columns.append(operand)
            yield from filter(None, [_FIELDS(operand)])
        elif operand.isalpha() and "e" in operand:
            yield deny("secret", f"{operand!r} in BSD style prints environments")
        elif not _BSD_COLUMNS.fullmatch(operand) and (finding := _BSD(operand)):
            yield finding
    if any("env" in value for value in columns):
        yield deny("secret", "a column with environments")


def _lsof(parsed: Parsed) -> Iterable[Finding]:
    if not (parsed.has("-n") and parsed.has("-P")):
        yield ask("net", "without -n and -P names are looked up on the network")
    if not parsed.has("-p", "-i", "-c") and not parsed.operands:
        yield ask("load", "walks the open files of every process: choose one with -p")


def _taskset(parsed: Parsed) -> Iterable[Finding]:
    if not parsed.has("-p", "--pid"):
        yield _EXEC
    elif len(parsed.operands) != 1:
        yield deny("mutate", "with a mask it sets the affinity")


def _query_only(path: str, setting: str) -> Entry:
    def check(parsed: Parsed) -> Iterable[Finding]:
        if not parsed.has("-p", "--pid"):
            yield _EXEC
        if len(parsed.operands) > 1:
            yield deny("mutate", "with more than the process id it sets")

    options = {**flags("-p --pid -a"), **never("mutate", "sets", setting, takes=True)}
    return Entry(path, options, operands=pid, most=2, check=check)


def _strace(parsed: Parsed) -> Iterable[Finding]:
    if not parsed.has("-p", "--attach") or parsed.operands:
        yield _EXEC
    if not parsed.has("-c"):
        yield deny("secret", "without -c it prints what is read and written, and has no end")
    if "1" in ",".join(parsed.values("-p", "--attach")).split(","):
        yield deny("load", "attaches to the host's first process")


def _perf(parsed: Parsed) -> Iterable[Finding]:
    program = parsed.operands
    if program and not (len(program) == 2 and program[0] == "sleep" and re.fullmatch(r"[1-9]|10", program[1])):
        yield _EXEC
    if not program:
        yield deny("hang", "without `sleep N` it measures for ever")


def _spy(parsed: Parsed) -> Iterable[Finding]:
    if not parsed.has("-p", "--pid"):
        yield deny("operand", "name the process")


_STAT: Final = Entry(
    "",
    {
        **flags("-a -d -dd -v -x --all-cpus"),
        **valued(pid, "-p --pid -t --tid"),
        **valued(matching(r"[A-Za-z0-9,:_-]+", "events"), "-e --event"),
        **never("write-arg", "writes a file", "-o --output --log-fd", takes=True),
    },
    check=_perf,
    most=2,
    finding=ask("load", "the counters are shared with what else measures"),
)

ENTRIES: Final = {
    "ps": Entry(
        "/usr/bin/ps",
        {
            **flags(
                "-e -A -a -d -f -F -l -L -T -m -j -y -w -ww -H -N -M -x -c --forest --no-headers"
                " --no-heading --headers --deselect"
            ),
            **valued(pid, "-p --pid --ppid -q --quick-pid -s --sid"),
            **valued(word, "-C -u -U -g -G -t --user --group --tty"),
            **valued(_FIELDS, "-o -O --format"),
            **valued(matching(r"[+-]?[a-z_%]+(,[+-]?[a-z_%]+)*", "a sort order"), "-k --sort"),
            **valued(number(80, 4_000), "--cols --columns --width"),
        },
        check=_ps,
        most=2,
        privacy="redact",
        bears_keys=True,
    ),
    "pgrep": Entry(
        "/usr/bin/pgrep",
        {
            **flags("-a -f -l -c -n -o -x -v -w -i --list-full --full --list-name --count --newest --oldest --exact"),
            **valued(pid, "-P --parent -s"),
            **valued(word, "-u -U -g -d --euid"),
            **never("secret", "reads any file", "-F --pidfile", takes=True),
        },
        operands=matching(r"[A-Za-z0-9_.:/ |^$-]{1,80}", "a name"),
        most=1,
        privacy="redact",
        bears_keys=True,
    ),
    "pidof": Entry("pidof", flags("-s -x"), operands=word, most=2),
    "pstree": Entry(
        "/usr/bin/pstree",
        {**flags("-a -A -c -g -h -l -n -p -s -S -t -T -u -U")},
        operands=pid,
        most=1,
        privacy="redact",
        bears_keys=True,
    ),
    "pwdx": Entry("/usr/bin/pwdx", operands=pid, most=4),
    "pmap": Entry(
        "/usr/bin/pmap",
        flags("-x -X -XX -q -d -p"),
        operands=pid,
        most=1,
        finding=ask("load", "holds the lock of the process's memory map"),
    ),
    "lsof": Entry(
        "lsof",
        {
            **flags("-n -P -t -a -l -w -b -U -R"),
            **valued(pid, "-p"),
            **valued(
                matching(r"[0-9]?(TCP|UDP|tcp|udp)?(@[0-9.:]+)?(:[0-9,-]+)?", "an address"),
                "-i",
                optional=True,
                peek=r":\d+|(TCP|UDP|tcp|udp)(:\d+)?",
            ),
            **valued(matching(r"(TCP|UDP):[A-Z_^,]+|\d*", "a state"), "-s", optional=True),
            **valued(word, "-c -u -g"),
            **valued(matching(r"[a-zA-Z0]+", "fields"), "-F", optional=True),
            **never("hang", "repeats for ever", "-r"),
            **never("write", "writes its device cache", "-D", takes=True),
        },
        operands=matching(
            r"/(var/log|models?|dev/(nvidia|kfd|dri|shm|infiniband))[A-Za-z0-9/_.-]*",
            "a file of the server's (and +r, +D repeat or walk)",
        ),
        most=4,
        check=_lsof,
    ),
    "fuser": Entry(
        "fuser",
        {
            **flags("-v -a -n"),
            **never("signal", "kills", "-k --kill -i -w"),
            **asking("load", "walks every process", "-m -M -c"),
        },
        operands=matching(
            r"/dev/(nvidia[a-z0-9-]*|kfd|shm/[A-Za-z0-9_.-]+|dri/[a-zA-Z0-9]+)|\d{1,5}/(tcp|udp)",
            "a GPU device or a port",
        ),
        most=16,
    ),
    "taskset": Entry(
        "/usr/bin/taskset",
        flags("-p -c -a -pc -cp --pid --cpu-list --all-tasks"),
        operands=matching(r"[0-9a-fx,-]+", "a process id"),
        most=3,
        check=_taskset,
    ),
    "chrt": _query_only("/usr/bin/chrt", "-f -r -o -b -i -d -T -P -D"),
    "ionice": _query_only("/usr/bin/ionice", "-c -n -P -u --class --classdata"),
    "prlimit": Entry(
        "/usr/bin/prlimit",
        {
            **flags("--raw --noheadings -l -n -u -m -v -s -c --memlock --nofile --nproc --as --rss --stack --core"),
            **valued(pid, "-p --pid"),
            **valued(fields, "-o --output"),
        },
        check=lambda parsed: [] if parsed.has("-p", "--pid") else [_EXEC],
    ),
    "strace": Entry(
        "/usr/bin/strace",
        {
            **flags("-c -f -q -r -t -tt -ttt -T -C -w -y -n"),
            **valued(pid, "-p --attach"),
            **valued(matching(r"[A-Za-z0-9_,=!%]+", "an expression"), "-e -S"),
            **never("secret", "shows what is read and written", "-s -E --env", takes=True),
            **never("write-arg", "writes a file or into a program", "-o --output", takes=True),
        },
        most=1,
        check=_strace,
        finding=ask("load", "slows every system call of the server while it is attached"),
    ),
    "perf": Entry("/usr/bin/perf", verbs={"stat": _STAT}, unknown=deny("write", "of perf only stat is read")),
    "py-spy": Entry(
        "py-spy",
        verbs={
            "dump": Entry(
                "",
                {
                    **flags("--nonblocking --native -n -j --json -s --subprocesses"),
                    **valued(pid, "-p --pid"),
                    **never("secret", "prints variables: prompts and keys", "-l --locals"),
                },
                check=_spy,
                finding=ask("load", "pauses the serving process while it samples"),
            )
        },
        unknown=deny("write", "of py-spy only dump is read"),
    ),
}
