"""systemd units: `systemctl show`, `systemctl cat`, and environment listings."""

from __future__ import annotations

import re
import shlex
from typing import Final

from tools.host.parsers import command
from tools.host.parsers.memory import size_bytes
from tools.host.parsers.page import Page, short_lines
from tools.host.parsers.server_args import is_secret
from transcripts.facts import Evidence

_INFINITE: Final = ("infinity", str(2**64 - 1))
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TEXTS: Final = {
    "Id": "unit_name",
    "ActiveState": "unit_state",
    "SubState": "unit_substate",
    "Result": "unit_result",
    "Restart": "unit_restart_policy",
    "OOMPolicy": "unit_oom_policy",
    "ExecMainStartTimestamp": "started_at",
    "FragmentPath": "unit_file",
    "NeedDaemonReload": "unit_needs_reload",
}
_COUNTS: Final = {"NRestarts": "restarts", "MainPID": "pid"}
_LIMITS: Final = {
    "LimitMEMLOCK": "memlock_bytes",
    "LimitNOFILE": "nofile_limit",
    "MemoryMax": "cgroup_limit_bytes",
    "MemoryHigh": "cgroup_limit_bytes",
    "MemoryCurrent": "cgroup_used_bytes",
}
_TIMES: Final = {
    "TimeoutStartUSec": "start",
    "TimeoutStopUSec": "stop",
    "TimeoutStartSec": "start",
    "TimeoutStopSec": "stop",
}


def read_show(page: Page, evidence: Evidence) -> None:
    """`systemctl show`: KEY=VALUE lines."""
    for number, raw in short_lines(evidence.text):
        key, sign, value = raw.partition("=")
        if not sign or not value:
            continue
        if key == "ExecStart":
            _, found, argv = value.partition("argv[]=")
            if found:
                command.write(page, command.words(argv.partition(" ; ")[0]), number, form="systemd")
        elif key == "Environment":
            _environment(page, value, number)
        else:
            _property(page, key, value, number)


def read_files(page: Page, evidence: Evidence) -> None:
    """`systemctl cat`: the unit and its drop-ins; a later setting of a single value wins, `ExecStart=` alone resets."""
    exec_start: tuple[list[str], int] | None = None
    environment: list[tuple[str, int]] = []
    for number, text in _joined(evidence.text):
        if text.startswith("# /"):
            page.add("unit_file", text[2:].strip(), number)
            continue
        key, sign, value = text.partition("=")
        key, value = key.strip(), value.strip()
        if not sign or text.startswith(("#", ";")):
            continue
        if key == "ExecStart":
            exec_start = (command.words(value.lstrip("-@:+!")), number) if value else None
        elif key == "Environment":
            environment = [*environment, (value, number)] if value else []
        elif value:
            _property(page, key, value, number)
    for value, number in environment:
        _environment(page, value, number)
    if exec_start is not None:
        command.write(page, exec_start[0], exec_start[1], form="systemd")


def read_environment(page: Page, evidence: Evidence) -> None:
    """Names with or without values, one a line or with NUL between them; values of secret names are not kept."""
    for number, raw in enumerate(evidence.text.replace("\0", "\n").splitlines(), start=1):
        name, sign, value = raw.strip().partition("=")
        if _NAME.fullmatch(name):
            page.add("env", value if sign and not _private(name) else "", number, scope=name)


def _joined(text: str) -> list[tuple[int, str]]:
    """Lines with their continuations, numbered by their first."""
    found: list[tuple[int, str]] = []
    open_line = False
    for number, raw in short_lines(text):
        body = raw.rstrip()
        more = body.endswith("\\")
        body = body[:-1] if more else body
        if open_line:
            first, before = found[-1]
            found[-1] = (first, before + " " + body.strip())
        else:
            found.append((number, body.strip()))
        open_line = more
    return found


def _environment(page: Page, value: str, number: int) -> None:
    try:
        words = shlex.split(value)
    except ValueError:
        words = value.split()
    for word in words:
        name, sign, content = word.partition("=")
        if sign and _NAME.fullmatch(name):
            page.add("env", "" if _private(name) else content, number, scope=name)


def _private(name: str) -> bool:
    return is_secret(name.lower()) or re.search(r"(?:KEY|TOKEN|PASS|CREDENTIALS?)$", name) is not None


def _property(page: Page, key: str, value: str, number: int) -> None:
    if key in _TEXTS:
        page.add(_TEXTS[key], value, number)
    elif key in _COUNTS and value.isdecimal() and (key != "MainPID" or value != "0"):
        page.add(_COUNTS[key], int(value), number)
    elif key in _LIMITS:
        _limit(page, _LIMITS[key], value, number)
    elif key in _TIMES:
        page.add("unit_timeout", value, number, scope=_TIMES[key])


def _limit(page: Page, name: str, value: str, number: int) -> None:
    if value in _INFINITE:
        if name in ("memlock_bytes", "nofile_limit"):
            page.add(name, -1, number)
        return
    amount = size_bytes(value.split(":")[0])
    if amount is not None and amount < 2**63:
        page.add(name, amount, number)
