"""Paths are judged twice: as words here, and as what they turn out to be on the host.

A link in a log folder may lead to a key, and a pattern may name anything. Before a verdict with `paths` runs, its
`lookup_command` is sent; `settle` judges the real paths and puts them in place of the words. Between lookup and reading
somebody on the host can still swap a file: that is not closed, and root on the host is not who this guards against.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tools.host.policy.judge import judge_stages
from tools.host.policy.send import regenerate
from tools.host.policy.verdict import Stage, Verdict

LIMIT_MATCHES: Final = 64
_READLINK: Final = ("/usr/bin/readlink", "-f", "-z", "--")


def lookup_command(verdict: Verdict) -> str:
    """A command that prints the real paths behind each of `verdict.paths`, in order; "" when there are none.

    Only here a pattern is left to the remote shell: it begins with `/`, stands behind `--`, and everything in it but
    `*` and `?` is quoted.
    """
    head = regenerate([Stage(_READLINK)], limit_s=5).removesuffix(" </dev/null")
    lines = [f"{head} {_open(path, path in verdict.globs)} </dev/null 2>/dev/null; echo" for path in verdict.paths]
    return "; ".join(lines)


def read_lookup(verdict: Verdict, output: str) -> dict[str, tuple[str, ...]]:
    """The lookup's answer by word. A word without an answer has no file."""
    found: dict[str, tuple[str, ...]] = {}
    rest = output
    for path in verdict.paths:
        names: list[str] = []
        while rest and not rest.startswith("\n"):
            name, _, rest = rest.partition("\0")
            names.append(name)
        rest = rest[1:]
        found[path] = tuple(names)
    return found


def settle(verdict: Verdict, found: Mapping[str, tuple[str, ...]]) -> Verdict:
    """The verdict on what the words turned out to be; never milder than the one given."""
    stages: list[Stage] = []
    for stage in verdict.plan:
        argv: list[str] = []
        for word in stage.argv:
            real = found.get(word, ()) if word in verdict.paths else ()
            if word in verdict.globs and len(real) > LIMIT_MATCHES:
                return _denied(verdict, f"[limit] {word} names {len(real)} files; the limit is {LIMIT_MATCHES}")
            argv.extend(real or (word,))
        stages.append(replace(stage, argv=tuple(argv)))
    settled = judge_stages(tuple(stages), asked=verdict.asked, user=verdict.user, ports=verdict.ports)
    if settled.kind == "allow" and verdict.kind == "ask":
        return replace(settled, kind="ask", reason=verdict.reason)
    return settled


def _denied(verdict: Verdict, reason: str) -> Verdict:
    return replace(verdict, kind="deny", reason=reason, command="", plan=())


def _open(path: str, glob: bool) -> str:
    if not glob:
        return shlex.quote(path)
    return "".join(part if part in {"*", "?"} else shlex.quote(part) for part in re.split(r"([*?])", path) if part)
