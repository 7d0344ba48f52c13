"""The network as this host sees it. Nothing here sends to a destination that the command line names, unless it asks."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Final

from tools.host.policy.options import Entry, Parsed, flags, never, valued
from tools.host.policy.roles import device, matching, number
from tools.host.policy.verdict import Finding, ask, deny

_CHANGES: Final = deny("mutate", "an option of this tool that is not known to read changes the network")
_OBJECTS: Final = {
    "addr": "addr",
    "address": "addr",
    "a": "addr",
    "link": "link",
    "l": "link",
    "route": "route",
    "r": "route",
    "neigh": "neigh",
    "neighbor": "neigh",
    "neighbour": "neigh",
    "n": "neigh",
    "rule": "rule",
    "ru": "rule",
    "maddr": "maddr",
    "maddress": "maddr",
    "tunnel": "tunnel",
    "netns": "netns",
    "vrf": "vrf",
    "netconf": "netconf",
}
_SHOWN: Final = matching(r"[A-Za-z0-9][A-Za-z0-9_.:@/-]{0,60}", "a word of a selection")
_PORT: Final = r"[sd]port (=|==|eq) :\d{1,5}"
_FILTER: Final = matching(
    r"state|exclude|connected|established|listening|listen|syn-sent|syn-recv|fin-wait-[12]|time-wait|closed?|close-wait"
    r"|last-ack|closing|all|synchronized|bucket|big|sport|dport|src|dst|dev|and|or|not|\(|\)|=|==|!=|>|<|>=|<=|eq|ne|gt|lt|ge|le"
    r"|:\d{1,5}|[0-9a-fA-F.:\[\]*]+(/\d+)?(:\d{1,5})?"
    rf"|\(? ?{_PORT}( (and|or) {_PORT})? ?\)?",
    "a filter of states, ports and numeric addresses",
)


def _ip(parsed: Parsed) -> Iterable[Finding]:
    if parsed.has("-V", "-Version") and not parsed.operands:
        return
    thing, verb, *rest = (*parsed.operands, "", "")[: max(2, len(parsed.operands))]
    kind = _OBJECTS.get(thing)
    if kind is None:
        yield deny("mutate" if thing else "operand", f"ip {thing} is not an object that is only read")
    elif verb not in {"", "show", "list", "ls"} and not (kind == "route" and verb == "get"):
        yield deny("mutate", f"ip {thing} {verb}: only show and list are accepted, in full")
    yield from filter(None, map(_SHOWN, rest))


def _object_show(objects: frozenset[str], tool: str) -> Entry:
    def check(parsed: Parsed) -> Iterable[Finding]:
        thing, verb = (*parsed.operands, "", "")[:2]
        if thing not in objects or verb not in {"", "show", "list"}:
            yield deny("mutate", f"{tool} {thing} {verb} is not an object and show")
        yield from filter(None, map(_SHOWN, parsed.operands[2:]))

    options = {
        **flags("-d -s -j -p -details -statistics -json -pretty -nice -color -i -r"),
        **never("exec", "runs a file of commands", "-b -batch -f -force", takes=True),
    }
    return Entry(tool, options, style="words", most=6, check=check, unknown=_CHANGES)


def _ethtool(parsed: Parsed) -> Iterable[Finding]:
    if len(parsed.operands) > 1:
        yield deny("mutate", f"{parsed.operands[1]!r} behind the device sets something")
    if not parsed.operands and not parsed.has("-h", "--help", "--version"):
        yield deny("operand", "name the device")


def _names_looked_up(parsed: Parsed) -> Iterable[Finding]:
    if not parsed.has("-n"):
        yield ask("net", "without -n names are looked up on the network")


def _numeric(parsed: Parsed) -> Iterable[Finding]:
    for operand in parsed.operands:
        try:
            address = ipaddress.ip_address(operand)
        except ValueError:
            yield deny("net", f"{operand} would be looked up on the network")
            continue
        if not (address.is_private or address.is_loopback) or address.is_link_local:
            yield deny("net", f"{operand} lies outside the private networks")
    if len(parsed.operands) != 1:
        yield deny("operand", "one address is needed")


def _ping(parsed: Parsed) -> Iterable[Finding]:
    if not parsed.has("-c"):
        yield deny("hang", "without -c it repeats for ever")
    yield from _numeric(parsed)


_PING: Final = Entry(
    "/usr/bin/ping",
    {
        **flags("-n -q -4 -6"),
        **valued(number(1, 10), "-c"),
        **valued(number(1, 10), "-W -w -i"),
        **valued(number(56, 9_000), "-s"),
        **valued(matching("do|dont|want", "a word"), "-M"),
        **valued(device, "-I"),
    },
    most=1,
    check=_ping,
    finding=ask("net", "sends packets to another host"),
)

ENTRIES: Final = {
    "ss": Entry(
        "ss",
        {
            **flags(
                "-l -t -n -p -u -a -s -o -e -m -i -4 -6 -x -w -H -O -M --listening --tcp --numeric"
                " --processes --udp --all --summary --options --extended --memory --info --ipv4 --ipv6"
                " --no-header"
            ),
            **valued(matching(r"[a-z0-9,_]+", "a table"), "-A --query --socket -f --family"),
            **never("mutate", "kills sockets", "-K --kill"),
            **never("hang", "follows for ever", "-E --events"),
            **never("net", "looks names up", "-r --resolve"),
            **never("write-arg", "writes or reads any file", "-D --diag -F --filter", takes=True),
            **never("exec", "enters another namespace", "-N --net", takes=True),
        },
        operands=_FILTER,
        most=12,
    ),
    "netstat": Entry(
        "netstat",
        {
            **flags("-t -l -n -p -u -a -s -i -r -e -g -x -W -4 -6 -o"),
            **never("hang", "repeats for ever", "-c --continuous"),
        },
        check=lambda parsed: [] if parsed.has("-i", "-s") else _names_looked_up(parsed),
    ),
    "ip": Entry(
        "ip",
        {
            **flags(
                "-s -d -br -brief -4 -6 -o -j -p -h -stats -statistics -details -oneline -json -pretty"
                " -human -c -color -N -V -Version"
            ),
            **valued(matching(r"inet|inet6|link", "a family"), "-f -family"),
            **never("net", "looks names up", "-r -resolve"),
            **never(
                "exec",
                "runs a file of commands, or in another namespace",
                "-b -batch -force -n -netns -a -all",
                takes=True,
            ),
        },
        style="words",
        most=8,
        check=_ip,
        unknown=_CHANGES,
    ),
    "rdma": _object_show(frozenset({"link", "dev", "resource", "statistic", "system"}), "rdma"),
    "bridge": _object_show(frozenset({"link", "fdb", "vlan", "mdb"}), "bridge"),
    "devlink": _object_show(frozenset({"dev", "port", "health"}), "devlink"),
    "tc": _object_show(frozenset({"qdisc", "class", "filter"}), "tc"),
    "ethtool": Entry(
        "ethtool",
        {
            **flags(
                "-S -i -k -a -c -g -l -m -T -n -u -x -P --statistics --driver --show-features"
                " --show-offload --show-pause"
                " --show-coalesce --show-ring --show-channels --module-info --show-time-stamping"
                " --show-ntuple --show-rxfh"
                " --show-fec --show-priv-flags --show-eee --show-permaddr -h --help --version --json"
            )
        },
        style="words",
        operands=device,
        most=9,
        check=_ethtool,
        unknown=_CHANGES,
    ),
    "arp": Entry("arp", flags("-n -a -e -v"), check=_names_looked_up),
    "route": Entry("route", flags("-n -e -ee -4 -6"), check=_names_looked_up),
    "ifconfig": Entry("ifconfig", flags("-a -s"), operands=device, most=1),
    "ping": _PING,
    "ping6": _PING,
    "traceroute": Entry(
        "traceroute",
        {**flags("-n -4 -6"), **valued(number(1, 30), "-m -q -w")},
        most=1,
        check=_numeric,
        finding=ask("net", "sends packets to other hosts"),
    ),
    "tracepath": Entry(
        "tracepath",
        {**flags("-n -4 -6"), **valued(number(1, 30), "-m")},
        most=1,
        check=_numeric,
        finding=ask("net", "sends packets to other hosts"),
    ),
    "perfquery": Entry(
        "perfquery",
        {**flags("-x -X"), **never("mutate", "clears counters", "-r -R")},
        operands=matching(r"\d+", "a number"),
        most=2,
        finding=ask("load", "asks the fabric"),
    ),
    "iblinkinfo": Entry("iblinkinfo", flags("-l"), finding=ask("load", "asks the whole fabric")),
    "ibnetdiscover": Entry("ibnetdiscover", flags("-l -p -H -S"), finding=ask("load", "asks the whole fabric")),
}


def is_private(address: str) -> bool:
    """An address literal of a private network (not link-local, where clouds keep credentials)."""
    try:
        parsed = ipaddress.ip_address(re.sub(r"^\[|\]$", "", address))
    except ValueError:
        return False
    return parsed.is_private and not parsed.is_link_local and not parsed.is_unspecified
