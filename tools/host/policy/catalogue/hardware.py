"""Slow or privileged readings beside the GPUs: the BMC, disks, firewalls, timetables. All of them ask."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tools.host.policy.options import Entry, Parsed, asking, flags, never, valued
from tools.host.policy.roles import matching, number, word
from tools.host.policy.verdict import Finding, ask, deny

_BMC: Final = ask("load", "a slow transaction with the management controller")
_DISK: Final = ask("load", "wakes or interrogates the disk")
_RULES: Final = ask("private", "addresses and rules of the firewall")
_DEVICE: Final = matching(r"/dev/[A-Za-z0-9/_-]+", "a device")
_BMC_READS: Final = {
    "sdr": "list|elist|type|get|info",
    "sel": "list|elist|info|time",
    "sensor": "list|get",
    "chassis": "status|poh",
    "mc": "info",
    "fru": "print|list",
    "dcmi": "power|reading",
    "lan": "print",
    "power": "status",
}


def _ipmi(parsed: Parsed) -> Iterable[Finding]:
    thing, verb = (*parsed.operands, "", "")[:2]
    reads = _BMC_READS.get(thing, "").split("|")
    if (
        thing not in _BMC_READS
        or (verb and verb not in reads)
        or (not verb and thing not in {"sdr", "sensor", "fru", "sel"})
    ):
        yield deny("mutate", f"ipmitool {thing} {verb} is not a reading verb")


def _needs(*names: str) -> Entry:
    def check(parsed: Parsed) -> Iterable[Finding]:
        if not parsed.has(*names):
            yield deny("mutate", f"reads only with {' or '.join(names)}")

    return Entry("", check=check)


ENTRIES: Final = {
    "ipmitool": Entry(
        "ipmitool",
        {**flags("-c -v"), **never("net", "reaches another controller", "-H -U -P -f -E", takes=True)},
        operands=word,
        most=4,
        check=_ipmi,
        finding=_BMC,
        unknown=deny("net", "an option that is not known to read"),
    ),
    "smartctl": Entry(
        "smartctl",
        {
            **flags("-a -i -H -A -x -c --all --info --health --attributes --xall --scan"),
            **valued(matching("error|selftest|nvme|scttemp", "a log"), "-l --log"),
            **valued(matching("nvme|sat|scsi", "a type"), "-d"),
        },
        operands=_DEVICE,
        most=1,
        finding=_DISK,
    ),
    "nvme": Entry(
        "nvme",
        verbs={
            **{
                verb: Entry("", operands=_DEVICE, most=1, finding=_DISK)
                for verb in ("smart-log", "error-log", "id-ctrl", "id-ns")
            },
            "list": Entry("", flags("-v"), finding=_DISK),
        },
    ),
    "crontab": Entry(
        "/usr/bin/crontab",
        {**asking("private", "a user's timetable, often with keys", "-l"), **valued(word, "-u")},
        check=_needs("-l").check,
    ),
    "atq": Entry("/usr/bin/atq", finding=ask("private", "a user's timetable")),
    "iptables": Entry(
        "iptables",
        {**flags("-L -S -n -v -x --line-numbers"), **valued(matching("nat|filter|mangle|raw", "a table"), "-t")},
        operands=word,
        most=1,
        check=_needs("-L", "-S").check,
        finding=_RULES,
    ),
    "nft": Entry("nft", flags("-n -a -j"), verbs={"list": Entry("", operands=word, most=4, finding=_RULES)}),
    "ufw": Entry(
        "ufw", verbs={"status": Entry("", operands=matching("verbose|numbered", "a form"), most=1, finding=_RULES)}
    ),
    "fdisk": Entry("fdisk", flags("-l"), operands=_DEVICE, most=2, check=_needs("-l").check, finding=_DISK),
    "blkid": Entry("blkid", operands=_DEVICE, most=2, finding=_DISK),
    "mdadm": Entry(
        "mdadm",
        flags("--detail -D --examine -E --scan"),
        operands=_DEVICE,
        most=4,
        check=_needs("--detail", "-D", "--examine", "-E").check,
        finding=_DISK,
    ),
    "getent": Entry(
        "/usr/bin/getent",
        operands=word,
        most=2,
        check=lambda parsed: (
            [ask("private", "user names")]
            if parsed.operands[:1] in (("passwd",), ("group",), ("services",))
            else [
                deny(
                    "net" if parsed.operands[:1] != ("shadow",) else "secret", "keys, or names looked up on the network"
                )
            ]
        ),
    ),
    "iotop": Entry(
        "iotop",
        {**flags("-b -o -P -a -k -t -q"), **valued(number(1, 5), "-n"), **valued(number(1, 10), "-d")},
        check=lambda parsed: (
            [] if parsed.has("-b") and parsed.has("-n") else [deny("pager", "only iotop -b -n N ends by itself")]
        ),
        finding=ask("load", "accounts the I/O of every task"),
    ),
}
