"""The string that is sent: made anew from judged argv, never the text that was asked for.

Every word is quoted by `shlex`, the environment is fixed, `timeout` stands before each program, standard input is
/dev/null. A name without a slash is found in the fixed PATH, whose folders only root writes: distributions keep some
programs in different ones of them.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from tools.host.policy.verdict import Stage

ENVIRONMENT: Final = (
    "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/nonexistent",
    "LC_ALL=C",
    "SYSTEMD_PAGER=cat",
    "SYSTEMD_PAGERSECURE=1",
)
KILL_AFTER_S: Final = 2
DEFAULT_LIMIT_S: Final = 20


def regenerate(plan: Sequence[Stage], *, limit_s: int = DEFAULT_LIMIT_S, limit_bytes: int | None = None) -> str:
    """The remote command line for judged stages, with `limit_s` for each and, if given, a cap on all output.

    The cap takes standard output and drops the exit status of the rest: whoever frames output on the host itself
    leaves it out.
    """
    parts: list[str] = []
    for stage in plan:
        line = shlex.join(("env", "-i", *ENVIRONMENT, "timeout", "-k", str(KILL_AFTER_S), str(limit_s), *stage.argv))
        if stage.joined != "|":
            line += " </dev/null"
        if stage.stderr:
            line += f" {stage.stderr}"
        parts.append(f"{stage.joined} {line}" if stage.joined else line)
    text = " ".join(parts)
    if limit_bytes is None:
        return text
    return f"{{ {text} ; }} | {shlex.join(('/usr/bin/head', '-c', str(limit_bytes)))}"
