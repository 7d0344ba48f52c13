"""Figures of tools/source, side by side in one run: `python tests/benchmarks/source.py [VERSION]`, by hand.

Search against the `rg` program started per call and against Python's `re`; catalogue cold and from cache; rules of a
flag from cache; the largest gap between two ticks of an event loop while searches run in it.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.tools.source.queries import MULTILINE, QUERIES
from tests.tools.source.test_search import ripgrep
from tests.tools.source.trees import cache
from tools.source import Source, obtain

ROUNDS = 5


def milliseconds(work: Callable[[], Any], rounds: int = ROUNDS) -> float:
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        taken.append((time.perf_counter() - start) * 1000)
    return statistics.median(taken)


def by_program(root: Path, pattern: str, switches: tuple[str, ...]) -> None:
    places = [word for word in switches if word.startswith("srt/") and "*" not in word] or ["."]
    command = [ripgrep(), "--no-config", "-nH", *(word for word in switches if word not in places), "-e", pattern, "--"]
    subprocess.run([*command, *places], cwd=root, capture_output=True, check=False)


def in_python(pattern: str, options: dict[str, Any]) -> re.Pattern[str] | None:
    """The pattern for Python's `re`; None where it is written as that cannot read it (`\\p{Han}`)."""
    written = re.escape(pattern) if options.get("literal") else pattern
    try:
        return re.compile(written, re.M | (re.I if options.get("ignore_case") else 0))
    except re.error:
        return None


def by_re(source: Source, compiled: re.Pattern[str], options: dict[str, Any]) -> None:
    globs = list(options.get("globs", ()))
    for path in source.files(*globs, path=options.get("path", ""), kind=options.get("kind")):
        text = (source.root / path).read_text(encoding="utf-8")
        for match in compiled.finditer(text):
            text.count("\n", 0, match.start())


def _ours(source: Source, pattern: str, options: dict[str, Any]) -> None:
    asyncio.run(source.search(pattern, **options))


def searches(source: Source) -> None:
    for title, queries, extra in (("one line", QUERIES, {}), ("across lines", MULTILINE, {"multiline": True})):
        ratios = []
        asyncio.run(source.search("warm the worker up"))
        print(f"{title}: front, rg, re (ms), front / rg")
        for pattern, options, switches in queries:
            ours = milliseconds(partial(_ours, source, pattern, {**options, **extra}))
            flags = ("-U", *switches) if extra else switches
            theirs = milliseconds(partial(by_program, source.root, pattern, flags))
            compiled = in_python(pattern, options)
            plain = milliseconds(partial(by_re, source, compiled, options), rounds=1) if compiled else None
            beside = f"{plain:7.1f}" if plain is not None else f"{'-':>7}"
            ratios.append(ours / theirs)
            print(f"  {ours:7.1f} {theirs:7.1f} {beside}  {ours / theirs:5.2f}  {pattern[:40]!r} {options}")
        print(f"  median ratio {statistics.median(ratios):.2f}, largest {max(ratios):.2f}")


def knowledge(version: str, source: Source) -> None:
    for name in ("catalogue-*.json", "handlers-*.json"):
        for path in source.placed.folder.glob(name):
            path.unlink()
    for path in source.placed.folder.glob("rules-*"):
        shutil.rmtree(path)
    for title in ("cold", "from cache"):
        fresh = asyncio.run(obtain(version, cache=cache()))
        print(f"{title}: catalogue {milliseconds(fresh.catalogue, 1):.0f} ms", end=", ")
        print(f"rules of hicache-ratio {milliseconds(partial(fresh.rules, 'hicache-ratio'), 1):.0f} ms")


async def lag(source: Source) -> float:
    """The largest gap between two ticks while six searches run, in ms."""
    gaps: list[float] = []
    done = asyncio.Event()

    async def tick() -> None:
        last = time.perf_counter()
        while not done.is_set():
            await asyncio.sleep(0)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    ticking = asyncio.create_task(tick())
    await asyncio.gather(
        *(source.search(word, context=2) for word in ("self", "import", "def ", "torch", "x", "cache"))
    )
    done.set()
    await ticking
    return max(gaps) * 1000


def main() -> None:
    version = sys.argv[1] if len(sys.argv) > 1 else "0.5.23"
    source = asyncio.run(obtain(version, cache=cache()))
    print(f"sglang {version}, {len(source.files())} files")
    searches(source)
    knowledge(version, source)
    print(f"largest lag of the event loop while six broad searches run: {asyncio.run(lag(source)):.1f} ms")


if __name__ == "__main__":
    main()
