"""The machine: memory, processors, NUMA, disks, time, names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tools.host.policy import paths
from tools.host.policy.options import Entry, Parsed, asking, flags, never, valued
from tools.host.policy.roles import anything, choice, fields, matching, number, pid, when, word
from tools.host.policy.verdict import Finding, ask, deny

_INTERVAL: Final = number(1, 10)
_COUNT: Final = number(1, 30)


def _interval_count(parsed: Parsed) -> Iterable[Finding]:
    """`INTERVAL COUNT`: an interval alone never ends."""
    if len(parsed.operands) == 1:
        yield deny("hang", "an interval without a count repeats for ever")
    yield from filter(None, map(_INTERVAL, parsed.operands[:1]))
    yield from filter(None, map(_COUNT, parsed.operands[1:2]))


def _free(parsed: Parsed) -> Iterable[Finding]:
    if parsed.has("-s", "--seconds") and not parsed.has("-c", "--count"):
        yield deny("hang", "-s without -c repeats for ever")


def _date(parsed: Parsed) -> Iterable[Finding]:
    for operand in parsed.operands:
        if not operand.startswith("+"):
            yield deny("mutate", f"the operand {operand!r} sets the clock")


def _numactl(parsed: Parsed) -> Iterable[Finding]:
    if not parsed.has("-H", "--hardware", "-s", "--show"):
        yield deny("exec", "numactl runs its operand, unless -H or -s is given")


def _top(parsed: Parsed) -> Iterable[Finding]:
    if not parsed.has("-b"):
        yield deny("pager", "without -b it takes keys, and they can kill")
    if not parsed.has("-n"):
        yield deny("hang", "without -n it repeats for ever")


def _mount(parsed: Parsed) -> Iterable[Finding]:
    if parsed.operands:
        yield deny("mutate", "mount with an operand mounts")


def _swapon(parsed: Parsed) -> Iterable[Finding]:
    if not parsed.has("-s", "--summary", "--show"):
        yield deny("mutate", "swapon reads only with --show")


ENTRIES: Final = {
    "free": Entry(
        "/usr/bin/free",
        {
            **flags(
                "-b -k -m -g -h -w -t -l -v -L --bytes --kibi --mebi --gibi --human --wide --total --si"
                " --lohi --kilo --mega --giga"
            ),
            **valued(number(1, 10), "-s --seconds"),
            **valued(number(1, 30), "-c --count"),
        },
        check=_free,
    ),
    "uptime": Entry("/usr/bin/uptime", flags("-p -s --pretty --since -V")),
    "nproc": Entry("/usr/bin/nproc", {**flags("--all"), **valued(number(0, 999), "--ignore")}),
    "arch": Entry("/usr/bin/arch"),
    "whoami": Entry("/usr/bin/whoami"),
    "id": Entry("/usr/bin/id", flags("-u -g -G -n -un -gn"), operands=word, most=1),
    "groups": Entry("/usr/bin/groups", operands=word, most=1),
    "tty": Entry("/usr/bin/tty"),
    "pwd": Entry("/usr/bin/pwd"),
    "true": Entry("/usr/bin/true"),
    "echo": Entry("/usr/bin/echo", flags("-n"), operands=anything, most=20),
    "getconf": Entry(
        "/usr/bin/getconf", flags("-a"), operands=matching(r"[A-Z_][A-Za-z0-9_]*", "the name of a limit"), most=1
    ),
    "locale": Entry("/usr/bin/locale", flags("-a")),
    "hostname": Entry(
        "hostname",
        {
            **flags("-f -s -d -i -I -A -y --fqdn --long --short --domain --ip-address --all-ip-addresses"),
            **never("mutate", "sets the name", "-F --file", takes=True),
            **never("mutate", "sets the name", "-b --boot"),
        },
        check=lambda parsed: [deny("mutate", "an operand sets the host's name")] if parsed.operands else [],
        most=9,
    ),
    "date": Entry(
        "/usr/bin/date",
        {
            **flags("-u --utc --universal -R --rfc-email"),
            **valued(
                matching(r"d(ate)?|h(ours)?|m(inutes)?|s(econds)?|ns?", "date, hours, minutes, seconds or ns"),
                "-I --iso-8601 --rfc-3339",
                optional=True,
            ),
            **valued(matching(r"[A-Za-z0-9@:. +-]{1,40}", "a date"), "-d --date"),
            **valued(paths.listing, "-r --reference"),
            **never("mutate", "sets the clock", "-s --set", takes=True),
            **never("secret", "echoes any file's lines", "-f --file", takes=True),
        },
        most=2,
        check=_date,
    ),
    "lscpu": Entry(
        "/usr/bin/lscpu",
        {
            **flags("-a -b -c -J -y -x --all --online --json"),
            # lscpu's own short options take their list behind an equals sign.
            **valued(matching(r"=?[A-Za-z0-9_.,%-]+", "a list of fields"), "-e -p --extended --parse", optional=True),
        },
    ),
    "lsblk": Entry(
        "/usr/bin/lsblk",
        {**flags("-a -b -d -f -J -l -m -n -p -r -t -S -i -s -z -D"), **valued(fields, "-o --output")},
        operands=matching(r"/dev/[A-Za-z0-9/_-]+", "a block device"),
        most=4,
    ),
    "findmnt": Entry(
        "/usr/bin/findmnt",
        {
            **flags("-a -A -b -D -J -l -n -r -R -u -k -s --real --df"),
            **valued(fields, "-o --output -t --types"),
            **valued(paths.listing, "-T --target"),
        },
        operands=paths.listing,
        most=1,
    ),
    "mount": Entry("/usr/bin/mount", {**flags("-l"), **valued(fields, "-t --types")}, most=9, check=_mount),
    "swapon": Entry(
        "swapon",
        {**flags("-s --summary --bytes --noheadings --raw"), **valued(fields, "--show", optional=True)},
        check=_swapon,
    ),
    "numactl": Entry(
        "/usr/bin/numactl",
        flags("-H --hardware -s --show"),
        style="words",
        check=_numactl,
        unknown=deny("exec", "numactl runs its operand"),
        most=0,
    ),
    "numastat": Entry("/usr/bin/numastat", {**flags("-c -m -n -v -z -s"), **valued(word, "-p")}, operands=word, most=2),
    "vmstat": Entry(
        "/usr/bin/vmstat",
        {
            **flags("-a -f -m -n -s -d -D -w -t -y"),
            **valued(choice("k K m M"), "-S --unit"),
            **valued(word, "-p --partition"),
        },
        most=2,
        check=_interval_count,
    ),
    "mpstat": Entry(
        "/usr/bin/mpstat",
        {
            **flags("-A -u -n -T"),
            **valued(matching(r"ALL|[\d,-]+", "processors"), "-P"),
            **valued(choice("SUM CPU SCPU ALL"), "-I"),
            **valued(matching(r"ALL|[\d,-]+", "nodes"), "-N"),
            **valued(choice("JSON"), "-o"),
        },
        most=2,
        check=_interval_count,
    ),
    "iostat": Entry(
        "/usr/bin/iostat",
        {**flags("-c -d -h -k -m -N -s -t -x -y -z"), **valued(word, "-p"), **valued(choice("JSON"), "-o")},
        most=2,
        check=_interval_count,
    ),
    "pidstat": Entry(
        "/usr/bin/pidstat",
        {
            **flags("-d -h -H -I -l -R -r -s -t -u -v -w"),
            **valued(pid, "-p"),
            **valued(word, "-C -G"),
            **never("exec-arg", "runs a program", "-e", takes=True),
        },
        most=2,
        check=_interval_count,
        privacy="redact",
        bears_keys=True,
    ),
    "sar": Entry(
        "/usr/bin/sar",
        {
            **flags("-b -B -d -F -H -q -r -S -u -v -w -W -y -p -t -z"),
            **valued(matching(r"[A-Z0-9,]+", "a network keyword"), "-n"),
            **valued(matching(r"ALL|[\d,-]+", "processors"), "-P"),
            **valued(when, "-s -e"),
            **never("write-arg", "writes a file", "-o", takes=True),
            **asking("scope", "reads any file", "-f", takes=True),
        },
        most=2,
        check=_interval_count,
    ),
    "top": Entry(
        "/usr/bin/top",
        {
            **flags("-b -H -i -c -S -1"),
            **valued(number(1, 5), "-n"),
            **valued(number(1, 10), "-d"),
            **valued(pid, "-p"),
            **valued(matching(r"[+-]?[%A-Za-z]+", "a column"), "-o"),
            **valued(number(80, 512), "-w", optional=True, peek=r"\d{2,3}"),
            **valued(word, "-u -U"),
            **valued(matching(r"[kmgtpe]", "a unit"), "-e -E"),
        },
        check=_top,
        privacy="redact",
        bears_keys=True,
    ),
    "chronyc": Entry(
        "/usr/bin/chronyc",
        flags("-n"),
        operands=choice("tracking sources sourcestats activity"),
        most=1,
        check=lambda parsed: [] if parsed.operands else [deny("pager", "without a verb it takes commands")],
    ),
    "df": Entry(
        "/usr/bin/df",
        {
            **flags(
                "-a -h -H -i -k -l -m -P -T --all --human-readable --si --inodes --local --portability"
                " --print-type --total --no-sync"
            ),
            **valued(fields, "-t --type -x --exclude-type -B --block-size"),
            **valued(fields, "--output", optional=True),
            **never("mutate", "flushes every disk", "--sync"),
        },
        operands=paths.listing,
        most=8,
    ),
    **{
        name: Entry(
            f"/usr/bin/{name}",
            finding=ask("private", "user names and where they come from"),
            most=2,
            options=flags("-a -h -n -s -i -w -x -F") | {"-n": valued(number(1, 500), "-n")["-n"]},
            operands=word,
        )
        for name in ("last", "lastb", "lastlog", "who", "w", "users")
    },
}
