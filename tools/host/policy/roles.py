"""What a value may be: numbers, process ids, units, patterns, words. Paths stand in `paths`."""

from __future__ import annotations

import re

from tools.host.policy.options import Role
from tools.host.policy.options import anything as anything
from tools.host.policy.verdict import Finding, deny


def matching(pattern: str, what: str) -> Role:
    """Accepts values that the whole pattern fits; `what` names them for a person."""
    compiled = re.compile(pattern)

    def role(value: str) -> Finding | None:
        return None if compiled.fullmatch(value) else deny("operand", f"{value!r} is not {what}")

    return role


def number(low: int, high: int) -> Role:
    """A decimal number in a range."""

    def role(value: str) -> Finding | None:
        if re.fullmatch(r"\d{1,9}", value) and low <= int(value) <= high:
            return None
        return deny("limit", f"{value!r} is not a number from {low} to {high}")

    return role


def choice(names: str) -> Role:
    """One of the names, or several joined by commas."""
    known = frozenset(names.split())

    def role(value: str) -> Finding | None:
        odd = [part for part in value.split(",") if part not in known]
        return deny("operand", f"{odd[0]!r} is not one of: {', '.join(sorted(known))}") if odd else None

    return role


word = matching(r"[A-Za-z0-9][A-Za-z0-9_.,:@%+-]*", "a plain word")
pid = matching(r"[1-9]\d{0,6}(,[1-9]\d{0,6})*", "a process id")
unit = matching(r"[A-Za-z0-9_.@:*-]+", "a unit name")
when = matching(r"[A-Za-z0-9:. +-]{1,40}", "a time")
device = matching(r"[A-Za-z0-9][A-Za-z0-9_.:@-]{0,40}", "a device name")
identity = matching(r"[A-Za-z0-9][A-Za-z0-9:,.-]*", "an index, bus id or UUID")
container = matching(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", "a container name")
fields = matching(r"[A-Za-z0-9_.,%-]+", "a list of fields")
lines = number(0, 20_000)
seconds = matching(r"\d{1,2}(\.\d+)?|60", "a time of at most 60 s")
