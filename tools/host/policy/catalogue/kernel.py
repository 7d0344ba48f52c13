"""The kernel: its log, modules, settings, buses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tools.host.policy.options import Entry, Parsed, asking, flags, never, valued
from tools.host.policy.roles import choice, fields, matching, when, word
from tools.host.policy.verdict import Finding, ask, deny

_LEVELS: Final = choice("emerg alert crit err warn notice info debug")
_SETTING: Final = matching(r"[a-z][A-Za-z0-9_.-]*(/[A-Za-z0-9_.-]+)*", "the name of a setting")


def _sysctl(parsed: Parsed) -> Iterable[Finding]:
    for name in parsed.operands:
        if "=" in name:
            yield deny("mutate", f"{name} writes, even without -w")
        elif "secret" in name:
            yield deny("secret", f"{name} is a key")
        elif finding := _SETTING(name):
            yield finding
    if not parsed.operands and not parsed.has("-a", "--all", "-A"):
        yield deny("operand", "name the setting")


def _dmesg(parsed: Parsed) -> Iterable[Finding]:
    if parsed.has("-H", "--human") and not parsed.has("-P", "--nopager"):
        yield deny("pager", "-H starts a pager unless --nopager stands beside it")


_DMESG: Final = Entry(
    "/usr/bin/dmesg",
    {
        **flags(
            "-T --ctime -x --decode -k --kernel -u --userspace -t --notime -e --reltime -d --show-delta"
            " -r --raw -S --syslog -J --json -P --nopager -p --force-prefix -H --human --noescape -V"
            " --version -h --help"
        ),
        **valued(_LEVELS, "-l --level"),
        **valued(choice("kern user mail daemon auth syslog lpr news cron authpriv ftp"), "-f --facility"),
        **valued(choice("ctime reltime delta notime iso raw"), "--time-format"),
        **valued(when, "--since --until"),
        **valued(choice("never auto always"), "-L --color", optional=True),
        **never("mutate", "clears the kernel's log", "-C --clear -c --read-clear"),
        **never("mutate", "changes what the console shows", "-D --console-off -E --console-on"),
        **never("mutate", "changes the console's level", "-n --console-level", takes=True),
        **never("hang", "follows for ever", "-w --follow -W --follow-new"),
        **never("secret", "reads any file", "-F --file -K --kmsg-file", takes=True),
        **never("load", "changes how much is read", "-s --buffer-size", takes=True),
    },
    check=_dmesg,
)

ENTRIES: Final = {
    "dmesg": _DMESG,
    "lsmod": Entry("lsmod"),
    "modinfo": Entry("modinfo", {**flags("-a -d -l -p -n -0"), **valued(word, "-F --field")}, operands=word, most=4),
    "sysctl": Entry(
        "sysctl",
        {
            **flags("-n --values -e --ignore -N --names"),
            **asking("cost", "about 1,000 lines: name the settings", "-a --all -A -X"),
            **never("mutate", "writes settings", "-w --write -p --load --system -q --quiet -f"),
        },
        most=16,
        check=_sysctl,
    ),
    "uname": Entry("/usr/bin/uname", flags("-a -s -n -r -v -m -p -i -o --all --kernel-release --machine --version")),
    "lspci": Entry(
        "lspci",
        {
            **flags("-v -vv -vvv -n -nn -k -t -D -m -mm -vmm -nnk -tv"),
            **valued(matching(r"[0-9a-fA-F:.*]+", "a slot"), "-s"),
            **valued(matching(r"[0-9a-fA-F:*]+", "a vendor and device"), "-d"),
            **never("mutate", "touches the hardware directly", "-H -M -A -O", takes=True),
            **never("secret", "reads any file", "-i -p -F", takes=True),
            **never("net", "asks a server on the network", "-q -Q"),
            **never("load", "dumps the configuration space", "-x -xxx -xxxx -b"),
        },
    ),
    "lsusb": Entry("lsusb", flags("-t")),
    "lsmem": Entry("lsmem", {**flags("-a --all -b -J --summary"), **valued(fields, "-o")}),
    "lsipc": Entry("lsipc", flags("-m -s -q -g")),
    "ipcs": Entry("ipcs", flags("-m -s -q -a -l -u -p -t -c")),
    "lslocks": Entry("lslocks"),
    "slabtop": Entry(
        "slabtop",
        flags("-o --once"),
        check=lambda p: [] if p.has("-o", "--once") else [deny("hang", "without -o it repeats for ever")],
    ),
    "dmidecode": Entry(
        "dmidecode",
        {
            **flags("-q"),
            **valued(matching(r"[a-z0-9,]+", "a type"), "-t --type"),
            **valued(matching(r"[a-z-]+", "a keyword"), "-s --string"),
            **never("write-arg", "writes a file", "--dump-bin", takes=True),
            **never("secret", "reads any file", "-d --dev-mem --from-dump", takes=True),
        },
        finding=ask("private", "serial numbers of the machine"),
    ),
    "cpupower": Entry(
        "cpupower",
        verbs={"frequency-info": Entry("", flags("-p -f -l -d -e")), "idle-info": Entry(""), "info": Entry("")},
    ),
    "tuned-adm": Entry("tuned-adm", verbs={"active": Entry(""), "list": Entry("")}),
    "getenforce": Entry("getenforce"),
    "sestatus": Entry("sestatus"),
}
