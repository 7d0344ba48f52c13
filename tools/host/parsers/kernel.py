"""The kernel's log: GPU errors (Xid) and processes killed for memory."""

from __future__ import annotations

import re
from typing import Final

from tools.host.parsers.lines import unwrap
from tools.host.parsers.page import Page, short_lines
from transcripts.facts import Evidence

_XID: Final = re.compile(r"NVRM: Xid \((PCI:[0-9a-fA-F:.]+)\): (\d+)")
_KILLED: Final = re.compile(r"[Oo]ut of memory: Killed process (\d+) \(([^)]{1,64})\)")
_CGROUP: Final = re.compile(r"oom-kill:constraint=(\w+)")
_STAMP: Final = re.compile(r"^\[\s*(\d+\.\d+|\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})\]")


def read_kernel(page: Page, evidence: Evidence) -> None:
    """Lines of dmesg or of the journal's kernel part."""
    for number, raw in short_lines(evidence.text):
        if "Xid" not in raw and "illed process" not in raw and "oom-kill:" not in raw:
            continue
        line = unwrap(number, raw)
        stamp = _STAMP.match(raw)
        at = line.at or (stamp[1] if stamp else "")
        xid = _XID.search(raw)
        if xid is not None:
            page.add("xid", int(xid[2]), number, scope=xid[1], at=at)
        killed = _KILLED.search(raw)
        if killed is not None:
            page.add("kernel_oom_kill", killed[2], number, scope=killed[1], at=at)
        constraint = _CGROUP.search(raw)
        if constraint is not None:
            page.add("kernel_oom_constraint", constraint[1], number, at=at)
