"""Flags and environment out of a launch command, a compose file, a manifest, or prose that quotes one."""

# ruff: noqa: E501  (a pattern reads better on one line)
from __future__ import annotations

import re
from typing import Final

from tools.host.parsers.page import Page

_LAUNCH: Final = re.compile(
    r"sglang(?:\.launch_server|\.serve| serve)|launch_server|ExecStart=|docker run|^\s*(?:command|args):|--model(?:-path)? \S",
    re.M,
)
_FLAG: Final = re.compile(
    r"(?<![\w-])(--[A-Za-z][\w-]*)(?:(=|[ \t]+|\"?,\s*\"?|\s*\n\s*-\s+\"?)(?!-)([^\s,;()\"'\\]+|\"[^\"]*\"|'[^']*'))?"
)
# A line of the server's own log: options in it are advice (`by explicitly setting --max-running-requests`), not typed.
_LOGGED: Final = re.compile(r"(?:.{0,80}: )?\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
# What a message without a time advises: `To raise it: increase --mamba-full-memory-ratio or --max-mamba-cache-size`.
_ADVISED: Final = re.compile(
    r"\bto [a-z]+ (?:it|this|them)\b.*\b(?:increase|decrease|raise|lower|reduce|set|use)\b", re.I
)
# A line that begins with an option, or with what stands before options: a variable, a role, a benchmark's name.
_OPTIONS_ALONE: Final = re.compile(
    r"\s*(?:[-*] +)?[\"'`]?(?:(?:(?!error|warning|usage|options?|arguments?)[A-Za-z][\w ./-]{0,23}:|[A-Z][A-Z0-9_]+=\S*?,?|bench_\w+)\s+){0,3}--[A-Za-z][\w-]+(?![\w-])"
)
_ENV: Final = re.compile(
    r"(?<![\w-])((?:SGLANG|SGL|PYTORCH|NCCL|CUDA|TORCH|FLASHINFER|MOONCAKE|LMCACHE|TRITON|HF|HIP|HSA)_[A-Z0-9_]+)(?:=|: ?\"?)([^\s,;()\"']*)"
)
_ENV_LIST: Final = re.compile(r"name:\s*([A-Z][A-Z0-9_]+)\s*\n\s*value:\s*\"?([^\"\n]*)\"?")
# The command of a router that stands beside the servers': its options are none of the server's.
_ROUTER: Final = re.compile(r"(?:launch_router|sglang[-_]router|sgl-router|\bsmg (?:launch|start))\b(?:[^\n;&]|\\\n)*")
# The version that an image of the server is tagged with: `lmsysorg/sglang:v0.5.9-cu129`.
_IMAGE: Final = re.compile(r"(?<![\w.-])sglang:v?(\d+\.\d+\.\d+(?:\.?(?:post|rc)\d+)?)(?![\w.]*\d)")
_FORMER: Final = re.compile(
    r"(?:\b(?:previous|former|earlier|prior|last|old|vorher\w*|bisher\w*|alt\w*)\b[^\n;.]{0,30}|\b(?:was|used to be|upgraded from|from|before|before:|kam von)) ?[\w./:-]*$",
    re.I,
)
_PROSE = re.compile(
    r"^(?:and|or|set|unset|not|on|off|at|with|was|is|are|was|then|also|tried|flags?|for|in|the|missing|absent|default|defaults?|omitted|only|instead)$",
    re.I,
)
_ABSENT: Final = re.compile(
    r"\((?:no|without)\b[^)]*\)|\b(?:no|without)\s+(--[\w-]+)|(--[\w-]+)\s+(?:unset|not set|absent|omitted|missing)",
    re.I,
)
_RESOLVED: Final = re.compile(r"^.{0,60}?server_args?[:=]\s*(?!ServerArgs)(.*=.*)$", re.M)
_PAIR: Final = re.compile(r"\b([a-z][a-z0-9_]+)=('[^']*'|\"[^\"]*\"|[^\s,;()]+)")
_PRIVATE: Final = re.compile(r"key|token$|secret|password", re.I)
_MEMORY: Final = re.compile(
    r"(?:mem_limit|memory)[:=]\s*\"?(\d+(?:\.\d+)?)\s*([KMGT])(i?)(?:b|B)?\"?|--memory[ =](\d+(?:\.\d+)?)([kmgt])", re.I
)
_SCALE: Final = {"k": 1, "m": 2, "g": 3, "t": 4}


def _recommended(text: str, place: int) -> bool:
    """Whether an option stands in a line that starts nothing: one of the log, or one that says what to turn."""
    before = text[text.rfind("\n", 0, place) + 1 : place]
    advised = _LOGGED.match(before) or _ADVISED.search(before)
    return advised is not None and _LAUNCH.search(before) is None


def _options_alone(text: str) -> str:
    """The text with all but those lines emptied that are options and nothing before them; lines keep their numbers."""
    kept = [line if _OPTIONS_ALONE.match(line) and not _LOGGED.match(line) else "" for line in text.split("\n")]
    return "\n".join(kept)


def _version(page: Page, text: str) -> None:
    """The version of the one image that is named and not as the former one; of two nobody says which one hurts."""
    tagged = [
        found for found in _IMAGE.finditer(text) if not _FORMER.search(text, max(0, found.start() - 60), found.start())
    ]
    if len({found.group(1) for found in tagged}) == 1:
        page.add("version", tagged[0].group(1), text.count("\n", 0, tagged[0].start()) + 1)


def read(page: Page, text: str, *, options: bool) -> None:
    """Flags of the whole text if it says that it launches a server; a flag that is named as absent is none.

    `options`: else of the lines that are options alone, as they are pasted without the command.
    """
    for resolved in _RESOLVED.finditer(text):
        for name, value in _PAIR.findall(resolved.group(1)):
            if not _PRIVATE.search(name) or "tokenizer" in name:
                line = text.count("\n", 0, resolved.start()) + 1
                page.add("server_arg", value.strip("'\""), line, scope=name)
    if not _LAUNCH.search(text):
        text = _options_alone(text) if options else ""
    _version(page, text)
    routers = [found.span() for found in _ROUTER.finditer(text)]
    absent = {name for found in _ABSENT.finditer(text) for name in re.findall(r"--[\w-]+", found.group(0))}
    for found in _FLAG.finditer(text):
        name, value = found.group(1), (found.group(3) or "").strip("\"'`").rstrip(".,;:")
        if name in absent or name in ("--", "--no") or _recommended(text, found.start()):
            continue
        if not value or _PROSE.match(value) or (value.startswith(("(", "/", "&", "|")) and name != "--model-path"):
            value = value if value.startswith("/") else "true"
        line = text.count("\n", 0, found.start()) + 1
        if any(start <= found.start() < end for start, end in routers):
            page.add("router_flag", value, line, scope=name)
            continue
        page.add("flag", "" if _PRIVATE.search(name) and "tokenizer" not in name else value, line, scope=name)
    for pattern in (_ENV, _ENV_LIST):
        for found in pattern.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            page.add("env", "" if _PRIVATE.search(found.group(1)) else found.group(2), line, scope=found.group(1))
    for found in _MEMORY.finditer(text):
        amount, unit = found.group(1) or found.group(4), (found.group(2) or found.group(5)).lower()
        base = (
            1000
            if found.group(2) and not found.group(3) and ":" in found.group(0) and found.group(2).isupper()
            else 1024
        )
        page.add(
            "cgroup_limit_bytes", int(float(amount) * base ** _SCALE[unit]), text.count("\n", 0, found.start()) + 1
        )
