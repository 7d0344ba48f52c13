"""What is installed and what runs: version files, process lists, listening ports, containers."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from tools.entry_point import process_words
from tools.host.parsers import command
from tools.host.parsers.page import Page, short_lines
from tools.host.parsers.units import read_environment
from transcripts.facts import Evidence

_DIST: Final = re.compile(r"\bsglang-([0-9][\w.+!]{0,40})\.dist-info")
_METADATA: Final = re.compile(r"^Version: ([0-9]\S*)\s*$")
_VERSION: Final = re.compile(
    r"^\s*(?:__version__|version)\s*(?::\s*str\s*)?=\s*(?:__version__\s*=\s*|version\s*=\s*)?['\"]([0-9][^'\"\s]*)['\"]"
)
_ULIMITS: Final = {"memlock": "memlock_bytes", "nofile": "nofile_limit"}
_COMMIT: Final = re.compile(r"^[0-9a-f]{40}$")
_PACKAGE: Final = re.compile(r"(/[^\s:]{1,300}?/sglang)(?:/version\.py|/_version\.py|/__init__\.py|/launch_server\.py)")
_PS: Final = re.compile(r"^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})\s+(.*)$")
_LISTEN: Final = re.compile(r"LISTEN\s+\d+\s+\d+\s+\S*:(\d+)\s.*?pid=(\d+)")


def read_version(page: Page, evidence: Evidence) -> None:
    """METADATA or the name of a dist-info folder, version.py, a commit; the folder when a path is shown."""
    for number, raw in short_lines(evidence.text):
        package = _PACKAGE.search(raw) if "/sglang/" in raw else None
        if package is not None:
            page.add("install_path", package[1], number)
        for pattern in (_METADATA, _VERSION, _DIST):
            match = pattern.search(raw)
            if match is not None:
                page.add("version", match[1], number)
                break
        if _COMMIT.match(raw.strip()):
            page.add("git_commit", raw.strip(), number)


def read_process(page: Page, evidence: Evidence) -> None:
    """/proc/PID/cmdline (words parted by NUL or blanks), or lines of `ps` that show a server."""
    text = evidence.text
    argv = process_words(text) or (command.words(text) if text.count("\n") <= 1 else [])
    if command.is_server(argv):
        command.write(page, argv, 1)
        page.add("running", True, 1)
        return
    for number, raw in short_lines(text):
        words = command.words(raw)
        if not command.is_server(words):
            continue
        python = next((i for i, word in enumerate(words) if re.search(r"python|sglang", word)), 0)
        pid = next((word for word in words[:python] if word.isdecimal()), "")
        if not page.facts:
            command.write(page, words[python:], number)
            page.add("running", True, number)
            if pid:
                page.add("pid", int(pid), number)


def read_discovery(page: Page, evidence: Evidence) -> None:
    """What the probe script found for itself: `key=value` lines (tools/host/probe.sh)."""
    values = {}
    for number, raw in short_lines(evidence.text):
        key, sign, value = raw.partition("=")
        if sign and value.strip():
            values[key] = (value.strip(), number)
    page.add("running", "pid" in values, values.get("pid", ("", 1))[1])
    for key, name in (("unit", "unit_name"), ("model", "model_path"), ("package", "install_path"), ("user", "login")):
        if key in values:
            page.add(name, *values[key])
    for key, name in (("pid", "pid"), ("port", "port")):
        if key in values and values[key][0].isdecimal():
            page.add(name, int(values[key][0]), values[key][1])
    if "all_pids" in values:
        page.add("server_count", len(values["all_pids"][0].split()), values["all_pids"][1])
    if "dist" in values:
        dist = _DIST.search(values["dist"][0])
        if dist is not None:
            page.add("version", dist[1], values["dist"][1])


def read_processes(page: Page, evidence: Evidence) -> None:
    """`ps -o pid,ppid,rss,lstart,comm` of the server and its children; rss in KiB."""
    rows: list[tuple[int, int, int, str, int]] = []
    for number, raw in short_lines(evidence.text):
        match = _PS.match(raw)
        if match is not None:
            rows.append((int(match[1]), int(match[2]), int(match[3]), match[4], number))
            page.add("process_rss_bytes", int(match[3]) * 1024, number, scope=match[1])
            page.add("process_name", match[5].strip(), number, scope=match[1])
    if not rows:
        read_process(page, evidence)
        return
    pids = {row[0] for row in rows}
    for pid, parent, _, started, number in rows:
        if parent not in pids:
            page.add("pid", pid, number)
            page.add("started_at", started, number)
            children = sum(row[1] == pid for row in rows)
            page.add("child_processes", children, number, grade="derived")
            break


def read_sockets(page: Page, evidence: Evidence) -> None:
    """`ss -ltnp`: who listens where."""
    for number, raw in short_lines(evidence.text):
        match = _LISTEN.search(raw)
        if match is not None and "python" in raw:
            page.add("listening", int(match[1]), number, scope=match[2])


def read_containers(page: Page, evidence: Evidence) -> None:
    """`docker inspect` as JSON, else lines `ID IMAGE NAME STATUS` of `docker ps`."""
    start = evidence.text.find("[")
    try:
        entries = json.loads(evidence.text[start:]) if start >= 0 else None
    except (ValueError, RecursionError):
        entries = None
    if isinstance(entries, list):
        line = evidence.text.count("\n", 0, start) + 1
        for entry in entries:
            if isinstance(entry, dict):
                _container(page, entry, line)
        return
    for number, raw in short_lines(evidence.text):
        words = raw.split()
        if len(words) >= 3 and "sglang" in raw.lower() and re.fullmatch(r"[0-9a-f]{12,64}", words[0]):
            page.add("container", words[2], number)


def _container(page: Page, entry: dict[str, Any], line: int) -> None:
    config = entry.get("Config") or {}
    host = entry.get("HostConfig") or {}
    words = [str(word) for word in (*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ()))]
    if len(words) >= 3 and words[0].endswith("sh") and words[1] == "-c":
        words = command.words(" ".join(words[2:]))
    if not command.is_server(words):
        return
    page.add("container", str(entry.get("Name", "")).lstrip("/"), line)
    command.write(page, words, line, form="docker")
    for name, fact in (("Memory", "cgroup_limit_bytes"), ("ShmSize", "shm_total_bytes")):
        value = host.get(name)
        if isinstance(value, int) and value > 0:
            page.add(fact, value, line)
    for limit in host.get("Ulimits") or ():
        fact_name = _ULIMITS.get(str(limit.get("Name"))) if isinstance(limit, dict) else None
        if fact_name is not None and isinstance(limit.get("Soft"), int):
            page.add(fact_name, limit["Soft"], line)
    environment = Evidence("", "", "", "", "", 0, "\n".join(str(one) for one in config.get("Env") or ()))
    inner = Page("")
    read_environment(inner, environment)
    for fact_ in inner.facts:
        page.add("env", fact_.value, line, scope=fact_.scope)
    page.add("container_ipc", str(host.get("IpcMode", "")), line)
