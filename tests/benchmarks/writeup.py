"""How long the write-up of a long session takes: `python -m tests.benchmarks.writeup [RECORDS]` (20,000 unless told).

A recorded host is diagnosed, its session goes on with questions, calls and looks until it has that many records, then
the installed command writes it up in each format, in a process of its own. The figures are the best of three.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

from agent.session import Session
from tests.program import ROOT, command, environment, sglscout
from transcripts.parts import Call
from transcripts.records import Concluded, Ended, EvidenceTaken, Replied, Said, Started
from transcripts.store import Store

RECORDS = 20_000
BEST_OF = 3
LIMIT_S = 2.0


def lengthen(home: Path, identity: str, wanted: int) -> None:
    """Questions, each with calls, a look and an answer, until the transcript has so many records."""
    with patch("os.fdatasync"), Session.open(Store(home), identity) as session:
        looks = list(session.case.evidence.values())
        turn = 0
        while len(session.records) < wanted:
            turn += 1
            call = f"call_{turn}"
            look = looks[turn % len(looks)]
            session.record(Said(text=f"and what of {look.probe}, the {turn}. time?"))
            session.record(Replied(calls=(Call(id=call, name="evidence", arguments='{"id": "E1"}'),)))
            session.record(Started(call=call, name="evidence", arguments='{"id": "E1"}'))
            session.record(
                EvidenceTaken(
                    id=session.case.next_evidence(), probe=look.probe, command=look.command, host=look.host,
                    taken=look.at, exit=0, text=look.text[:2000],
                )
            )  # fmt: skip
            session.record(Ended(call=call, status="ok", text=look.text[:500]))
            session.record(Replied(text=f"It says so [E1], {turn}."))
            session.record(Concluded(text=f"It says so [E1], {turn}.", exit=0))


def measured(home: Path, identity: str, form: str) -> tuple[float, int]:
    """Seconds, best of three, and bytes written."""
    best, size = float("inf"), 0
    for _ in range(BEST_OF):
        started = time.perf_counter()
        done = subprocess.run(
            command("writeup", identity, "--format", form),
            capture_output=True,
            env=environment(home),
            cwd=ROOT,
            check=True,
        )
        best, size = min(best, time.perf_counter() - started), len(done.stdout)
    return best, size


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        sglscout(home, "demo", "kv", "--json")
        store = Store(home)
        identity = next(first["id"] for first, _ in store.heads() if first["role"] == "session")
        lengthen(home, identity, wanted)
        bytes_on_disk = sum(path.stat().st_size for path in (store.folder / identity).rglob("*") if path.is_file())
        print(f"{len(store.read(identity)):,} records, {bytes_on_disk / 1e6:.1f} MB, {os.cpu_count()} cores")
        for form in ("md", "html", "json"):
            seconds, size = measured(home, identity, form)
            verdict = "ok" if seconds < LIMIT_S else f"over {LIMIT_S:g} s"
            print(f"{form:<5} {seconds:6.2f} s  {size / 1e6:6.2f} MB  {verdict}")
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"largest child: {peak:.0f} MB")


if __name__ == "__main__":
    main()
