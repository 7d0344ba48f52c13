"""How long the memory arithmetic takes: `python -m tests.benchmarks.capacity_speed`. Run by hand."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

from tests.tools.capacity.boxes import story, under_load
from tools.capacity import gpu_budget, host_budget, levers, slots_for

RUNS = 15
IMPORT = "import time; t = time.process_time(); import tools.capacity; print(time.process_time() - t)"


def best_ms(work: Callable[[], object]) -> float:
    """Fewest milliseconds of CPU time over the runs."""
    times = []
    for _ in range(RUNS):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times) * 1000


def import_ms() -> float:
    command = [sys.executable, "-c", IMPORT]
    found = [float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(5)]
    return min(found) * 1000


def main() -> None:
    facts = story(*under_load())
    rows = {
        "import": import_ms(),
        "gpu_budget": best_ms(lambda: gpu_budget(facts)),
        "host_budget": best_ms(lambda: host_budget(facts, 4.0)),
        "slots_for": best_ms(lambda: slots_for(facts)),
        "levers": best_ms(lambda: levers(facts)),
    }
    for name, milliseconds in rows.items():
        print(f"{name:<14}{milliseconds:8.1f} ms of CPU, best of {RUNS if name != 'import' else 5}")


if __name__ == "__main__":
    main()
