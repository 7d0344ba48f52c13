"""How long listing and searching many sessions takes: `python -m tests.benchmarks.sessions [SESSIONS]` (else 10,000).

A home is filled with sessions and two tasks for each, then the installed command lists the newest 50, in a process of
its own. The figures are the median of seven; `python -c pass` stands beside them, since machines differ, and the time
of the processor beside that of the clock, since others may use the machine.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

from tests.benchmarks.main_job import imported
from tests.program import command, environment
from transcripts.store import Store

RUNS = 7
SESSIONS = 10_000
LIMIT_S = 0.3
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def fill(store: Store, sessions: int) -> None:
    """Sessions with a few records each, every tenth with two tasks, ids in order of time."""
    with patch("os.fdatasync"), patch("os.fsync"):
        for number in range(sessions):
            identity = _id(number * 3)
            opened = {"type": "opened", "id": identity, "role": "session", "text": f"requests queue up, case {number}"}
            with store.create(identity, opened | {"target": {"host": f"root@gpu{number % 40}"}}) as transcript:
                transcript.append({"type": "evidence", "id": "E1", "text": "line\n" * 400})
                transcript.append({"type": "concluded", "text": "the pool is too small", "exit": 0})
            for task in range(2 if number % 10 == 0 else 0):
                child = _id(number * 3 + task + 1)
                store.create(
                    child, {"type": "opened", "id": child, "role": "task", "parent": identity, "text": "?"}
                ).close()


def _id(number: int) -> str:
    letters = ""
    for _ in range(6):
        number, digit = divmod(number, len(ALPHABET))
        letters = ALPHABET[digit] + letters
    return f"ses_01M8V1{letters}TAZE"


def measured(words: list[str], home: Path) -> tuple[float, float]:
    """Median seconds by the clock and of the processor."""
    walls, used = [], []
    for _ in range(RUNS):
        began = time.monotonic()
        process = subprocess.Popen(words, env=environment(home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        walls.append(time.monotonic() - began)
        used.append(usage.ru_utime + usage.ru_stime)
    return statistics.median(walls), statistics.median(used)


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else SESSIONS
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        fill(Store(home), wanted)
        rows = [
            ("python -c pass", [sys.executable, "-c", "pass"]),
            ("sglscout sessions", command("sessions")),
            ("sglscout sessions --json", command("sessions", "--json")),
            ("sglscout tasks", command("tasks")),
            (f"sglscout sessions --search {wanted - 7}", command("sessions", "--search", f"case {wanted - 7}")),
        ]
        print(f"{len(Store(home).ids()):,} transcripts of {wanted:,} sessions")
        for name, words in rows:
            seconds, used = measured(words, home)
            heavy = ", ".join(imported(words, home)) if "sglscout" in name else ""
            verdict = "" if "search" in name else "ok" if seconds < LIMIT_S else f"over {LIMIT_S:g} s"
            print(f"{name:<34} {seconds:6.3f} s  {used:6.3f} s processor  imports: {heavy or '-':<10} {verdict}")


if __name__ == "__main__":
    main()
