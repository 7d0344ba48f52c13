"""What runs is exactly what was judged: argument lists through real shells, and nothing left over.

SGLSCOUT_LONG_TESTS=1: 100,000 argument lists through each shell instead of 2,000.
"""

from __future__ import annotations

import os
import random
import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.long import LONG, many
from tests.needs import needs
from tools.host.policy import regenerate
from tools.host.policy.verdict import Stage

SHELLS = ("dash", "bash")
BATCH = 1_000
LISTS = 100_000 if LONG else 2_000
HOSTILE = [
    "'", '"', "\\", "$", "`", "!", "*", "?", "[", "]", "{", "}", "(", ")", "<", ">", "|", "&", ";", "#", "~", "=",
    "%", "\n", "\r",
    "\t", " ", "-", "--",
    "\x1b", "\x7f", "é", "漢", "\u202e", "\u200b", "\udcff", "\udc80", "$(id)", "${x}", "`id`", "a", "0", "",
]  # fmt: skip


def _lists(seed: int, count: int) -> list[list[str]]:
    draw = random.Random(seed)
    return [
        ["".join(draw.choices(HOSTILE, k=draw.randrange(8))) for _ in range(draw.randrange(1, 6))] for _ in range(count)
    ]


def _through(shell: str, script: str) -> bytes:
    path = needs(shell, apt=shell)
    done = subprocess.run(
        [path], input=script.encode("utf-8", "surrogateescape"), capture_output=True, env={"LC_ALL": "C"}, check=False
    )
    assert done.stderr == b""
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_argument_lists_survive_the_shell(shell: str) -> None:
    for batch in range(LISTS // BATCH):
        lists = _lists(batch, BATCH)
        script = "\n".join(f"printf '%s\\0' {shlex.join(arguments)}" for arguments in lists)
        want = b"".join(os.fsencode(argument) + b"\0" for arguments in lists for argument in arguments)
        assert _through(shell, script + "\n") == want


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=many(25))
@given(
    arguments=st.lists(st.binary(max_size=40).map(lambda data: os.fsdecode(data.replace(b"\0", b""))), max_size=5),
    merged=st.sampled_from(["", "2>/dev/null", "2>&1"]),
)
def test_the_whole_line_keeps_every_byte(shell: str, arguments: list[str], merged: str) -> None:
    line = regenerate([Stage(("/usr/bin/printf", "%s\\0", "first", *arguments), stderr=merged)])
    want = b"".join(os.fsencode(argument) + b"\0" for argument in ["first", *arguments])
    assert _through(shell, line + "\n") == want


@pytest.mark.parametrize("shell", SHELLS)
def test_environment_and_joints(shell: str) -> None:
    plan = [
        Stage(("/usr/bin/env",)),
        Stage(("/usr/bin/sort",), joined="|"),
        Stage(("/usr/bin/head", "-n", "1"), joined="|"),
    ]
    assert _through(shell, f"export LEAK=1; {regenerate(plan)}\n") == b"HOME=/nonexistent\n"
    either = [
        Stage(("/usr/bin/false",)),
        Stage(("/usr/bin/echo", "b"), joined="||"),
        Stage(("/usr/bin/echo", "c"), joined="&&"),
    ]
    assert _through(shell, f"{regenerate(either)}\n") == b"b\nc\n"
    assert _through(shell, f"{regenerate(either, limit_bytes=3)}\n") == b"b\nc"


def test_standard_input_is_empty() -> None:
    assert _through("dash", f"{regenerate([Stage(('/usr/bin/cat',))])}\necho next\n") == b"next\n"
