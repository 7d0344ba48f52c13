"""One life of the program: begun by the parent that forks, killed at a moment of one's choice, what it had shown."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.program import ROOT, environment

Json = dict[str, Any]
LIFETIME_S = 60.0


@dataclass(frozen=True, slots=True)
class Moment:
    """When to kill: so long after so many records were shown, counted from the start with none."""

    records: int
    after_s: float


@dataclass(frozen=True, slots=True)
class Life:
    """Whole lines of standard output, and how it ended: `exit` None for one that was killed."""

    shown: list[Json]
    exit: int | None
    err: str


class Parent:
    """The process that forks; a context manager."""

    def __init__(self, folder: Path) -> None:
        self._out, self._err = folder / "out", folder / "err"
        os.mkfifo(self._out, 0o600)
        self._pipe = os.open(self._out, os.O_RDWR | os.O_NONBLOCK)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.agent.deaths.parent"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(folder) | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"},
            cwd=ROOT,
        )
        assert self._process.stdout is not None
        self._told_by = self._process.stdout.fileno()
        self._told = b""

    def __enter__(self) -> Parent:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(LIFETIME_S)
        os.close(self._pipe)

    def live(self, words: list[str], env: dict[str, str], moment: Moment | None) -> Life:
        """The program with these words, killed at the moment, or left alone."""
        assert self._process.stdin is not None
        request = {"words": words, "env": env, "out": str(self._out), "err": str(self._err)}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        pid = self._answer(LIFETIME_S)["pid"]
        began, shown = time.monotonic(), b""
        ended: Json | None = None
        due: float | None = None
        while ended is None and time.monotonic() - began < LIFETIME_S:
            if moment is not None and due is None and shown.count(b"\n") >= moment.records:
                due = time.monotonic() + moment.after_s
            wait = 0.5 if due is None else max(0.0, due - time.monotonic())
            select.select([self._pipe, self._told_by], [], [], wait)
            shown += self._read()
            ended = self._answer(0.0) or None
            if ended is None and due is not None and time.monotonic() >= due:
                os.kill(pid, signal.SIGKILL)
                ended = self._answer(LIFETIME_S) or None
        assert ended, "the program hangs"
        shown += self._read()
        lines = [json.loads(line) for line in shown.split(b"\n")[:-1]]
        return Life(lines, ended.get("exit"), self._err.read_text() if self._err.exists() else "")

    def _read(self) -> bytes:
        data = b""
        try:
            while piece := os.read(self._pipe, 1 << 16):
                data += piece
        except BlockingIOError:
            pass
        return data

    def _answer(self, within_s: float) -> Json:
        """The next line of the parent; empty when none came in time."""
        number = self._told_by
        while b"\n" not in self._told:
            if not select.select([number], [], [], within_s)[0]:
                return {}
            piece = os.read(number, 1 << 16)
            assert piece, "the parent has died"
            self._told += piece
        line, _, self._told = self._told.partition(b"\n")
        answer: Json = json.loads(line)
        return answer
