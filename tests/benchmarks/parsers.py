"""Seconds and peak memory of reading a large journal as a stream.

Run by hand: python -m tests.benchmarks.parsers [MB]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

from tools.host.parsers import parse_stream

DECODE = (
    "2026-02-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}+0000 gpu1 python3[4242]: "
    "[2026-02-{day:02d} {hour:02d}:{minute:02d}:{second:02d} TP0] Decode batch, #running-req: {running}, "
    "#token: {tokens}, token usage: {usage:.2f}, accept len: 2.61, accept rate: 0.65, cuda graph: True, "
    "gen throughput (token/s): 911.20, #queue-req: {queue}\n"
)
PREFILL = (
    "2026-02-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}+0000 gpu1 python3[4242]: "
    "[2026-02-{day:02d} {hour:02d}:{minute:02d}:{second:02d} TP0] Prefill batch, #new-seq: 1, #new-token: 812, "
    "#cached-token: {tokens}, token usage: {usage:.2f}, #running-req: {running}, #queue-req: {queue}, "
    "input throughput (token/s): 4100.00, cuda graph: False\n"
)
ACCESS = (
    "2026-02-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}+0000 gpu1 python3[4242]: "
    '[2026-02-{day:02d} {hour:02d}:{minute:02d}:{second:02d}] INFO:     10.0.0.7:51234 - "POST /v1/chat/completions '
    'HTTP/1.1" 200 OK\n'
)


def write(path: Path, megabytes: int) -> int:
    """A journal of that size: decode, prefill and access lines in turn. Returns the number of lines."""
    number = size = 0
    with path.open("w", encoding="utf-8") as file:
        while size < megabytes * 1_000_000:
            day, rest = divmod(number // 3, 86_400)
            fields = {
                "day": 1 + day % 28,
                "hour": rest // 3600,
                "minute": rest // 60 % 60,
                "second": rest % 60,
                "running": number % 49,
                "tokens": number % 159_209,
                "usage": number % 159_209 / 159_209,
                "queue": number % 7,
            }
            size += file.write((DECODE, PREFILL, ACCESS)[number % 3].format(**fields))
            number += 1
    return number


def main(megabytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.txt"
        lines = write(path, megabytes)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        began = time.perf_counter()
        with path.open(encoding="utf-8", errors="replace") as file:
            facts = parse_stream(file)
        seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{megabytes} MB, {lines} lines, {len(facts)} facts: {seconds:.1f} s, peak {peak:.0f} MiB ({before:.0f} before)"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
