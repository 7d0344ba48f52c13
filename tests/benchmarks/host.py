"""What looking costs: all probes in one round trip against the same commands one by one. Run by hand:

python -m tests.benchmarks.host
"""

from __future__ import annotations

import asyncio
import getpass
import shlex
import statistics
import tempfile
import time
from pathlib import Path

from tests.sshd import Sshd, sshd
from tools.host import STANDARD, connect, look

RUNS = 5


async def _one_trip(server: Sshd) -> tuple[float, float, dict[str, str]]:
    """Seconds to connect, seconds to the last answer, and what the host says it cost."""
    begun = time.perf_counter()
    async with connect(f"{getpass.getuser()}@127.0.0.1", server.options()) as host:
        connected = time.perf_counter()
        cost: dict[str, str] = {}
        async for seen in look(host):
            if seen.probe == "cost":
                cost = dict(line.split("=") for line in seen.text.split())
        return connected - begun, time.perf_counter() - connected, cost


async def _one_by_one(server: Sshd) -> float:
    """The probes that need no slot, each as a command of its own, one after the other."""
    async with connect(f"{getpass.getuser()}@127.0.0.1", server.options()) as host:
        begun = time.perf_counter()
        for probe in STANDARD:
            if not probe.needs:
                await host.run(f"timeout -k 2 {probe.limit_s} {shlex.join(probe.argv)}")
        return time.perf_counter() - begun


def main() -> None:
    bare = sum(not probe.needs for probe in STANDARD)
    with tempfile.TemporaryDirectory() as folder, sshd(Path(folder) / "sshd") as server:
        trips = [asyncio.run(_one_trip(server)) for _ in range(RUNS)]
        singles = [asyncio.run(_one_by_one(server)) for _ in range(RUNS)]
    print(f"connect and log in               {statistics.median(trip[0] for trip in trips):6.2f} s")
    print(f"{len(STANDARD)} probes, one round trip        {statistics.median(trip[1] for trip in trips):6.2f} s")
    print(f"the {bare} that need no slot, singly {statistics.median(singles):6.2f} s")
    cost = trips[-1][2]
    print(f"on the host: {cost['cpu_seconds']} s of processor time, {int(cost['bytes']) / 1000:.0f} kB sent")


if __name__ == "__main__":
    main()
