"""Recordings that tests make out of those that ship: what a copy with other figures looks like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.host.recorded import Recording, load

NAMES = ("slots", "kv", "prefix", "story")


def copy(name: str, into: Path, tree: Path | None = None, **figures: Any) -> Recording:
    """A shipped recording with some figures changed; `__` in a keyword stands for the dot."""
    changes = {key.replace("__", "."): value for key, value in figures.items()}
    return load(name, tree=tree).altered(changes, into / "copy")


def healthy(into: Path) -> Recording:
    """Ten requests, none waiting, most of the pool free."""
    return copy("slots", into, load__phases__0__in_flight=10)


def restarting(into: Path) -> Recording:
    """A start that runs out of memory while it captures graphs, three times so far."""
    return copy(
        "slots",
        into,
        server__state="restarting",
        server__failure="oom_graph",
        server__restarts=2,
        server__earlier_starts=["2026-02-10T03:10:00Z", "2026-02-10T03:16:00Z"],
        server__started="2026-02-10T03:22:00Z",
    )


def newer(into: Path) -> Recording:
    """The same launch under SGLang 0.5.23."""
    return copy("slots", into, server__version="0.5.23")


def out(recording: Recording, command: str) -> str:
    """Standard output of a command that succeeds."""
    reply = recording.answer(command)
    assert reply.exit == 0, (command, reply)
    return reply.stdout


def journal(recording: Recording, grep: str = "") -> list[str]:
    """Messages of the unit, oldest first."""
    wanted = f" --grep='{grep}'" if grep else ""
    unit = recording.figures.server.unit if recording.figures.server else ""
    return recording.answer(f"journalctl -u {unit} --no-pager -o cat{wanted}").stdout.splitlines()
