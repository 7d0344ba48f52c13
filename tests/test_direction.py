"""The house keeps its shape: imports point down (agent, tools, transcripts), and no two files lean on each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FLOORS = {"prompts": 0, "transcripts": 0, "tools": 1, "agent": 2}


def _files() -> dict[str, Path]:
    """Module name -> file, of everything that is installed."""
    found = {}
    for floor in FLOORS:
        for path in (ROOT / floor).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _imported(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The project's modules that a file names, also those it imports late or for types alone."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            inner = [f"{node.module}.{name.name}" for name in node.names]
            yield from (name if name in known else node.module for name in inner)


def test_imports_point_down_and_never_in_a_circle() -> None:
    files = _files()
    assert len(files) > 250
    graph = {name: set(_imported(path, files)) - {name} for name, path in files.items()}
    up = [
        (name, other)
        for name, others in graph.items()
        for other in others
        if FLOORS[name.partition(".")[0]] < FLOORS[other.partition(".")[0]]
    ]
    assert up == []
    assert len(tuple(TopologicalSorter(graph).static_order())) == len(files)  # a circle is an error, with its names
