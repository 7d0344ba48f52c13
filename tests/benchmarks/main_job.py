"""What the main job costs, side by side in one run: `python -m tests.benchmarks.main_job`.

Every row is the median of several runs of a whole process; `python -c pass` stands beside them, since machines differ.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import distributions
from pathlib import Path

from tests.program import command, environment

RUNS = 7


def measured(words: list[str], home: Path, runs: int = RUNS) -> tuple[float, float]:
    """Median wall seconds and the largest resident set in MB, children included one by one."""
    walls, peak = [], 0.0
    for _ in range(runs):
        began = time.monotonic()
        process = subprocess.Popen(
            words, env=environment(home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )
        _, _, usage = os.wait4(process.pid, 0)
        walls.append(time.monotonic() - began)
        peak = max(peak, usage.ru_maxrss / 1024)
        process.returncode = 0
    return statistics.median(walls), peak


def imported(words: list[str], home: Path) -> list[str]:
    """Which of the heavy packages a command imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *words[1:]],
        env=environment(home),
        capture_output=True,
        text=True,
        check=False,
    )
    names = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines() if "|" in line}
    return sorted(names & {"openai", "paramiko", "pydantic", "rich", "prompt_toolkit"})


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        rows = [
            ("python -c pass", [sys.executable, "-c", "pass"], RUNS),
            ("sglscout --help", command("--help"), RUNS),
            ("sglscout sessions", command("sessions"), RUNS),
            ("sglscout demo slots (warm)", command("demo", "slots"), 3),
            ("sglscout demo kv (warm)", command("demo", "kv"), 3),
        ]
        print(f"{'command':<30} {'seconds':>8} {'peak MB':>8}  heavy imports")
        for name, words, runs in rows:
            if "demo" in name:
                measured(words, home, 1)
            wall, peak = measured(words, home, runs)
            heavy = imported(words, home) if "demo" not in name and "pass" not in name else []
            print(f"{name:<30} {wall:>8.3f} {peak:>8.1f}  {', '.join(heavy) or '-'}")
    print(f"packages here, test extras included: {len(list(distributions()))} (`.ci/sizes` counts run time alone)")


if __name__ == "__main__":
    main()
