"""Log lines rendered from the real trees: the f-string or %-format a version holds, with figures of a test put in.

Nothing of the tree is imported or run; its text is parsed, the literal is found by how it begins, and each expression
in it is replaced by the figure whose key occurs in the expression's source.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import platformdirs
import pytest

Figures = Mapping[str, object]
PLATFORMS = ("manylinux_2_34_x86_64", "manylinux_2_28_x86_64", "manylinux2014_x86_64", "any")


@cache
def tree(version: str) -> Path:
    """The folder `sglang` of a version, fetched once with pip into a cache that survives; skips without a network."""
    home = os.environ.get("SGLSCOUT_TEST_TREES") or platformdirs.user_cache_path("sglscout-tests")
    folder = Path(home) / version
    if not (folder / "sglang" / "srt").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        platforms = [word for name in PLATFORMS for word in ("--platform", name)]
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
        command += ["--python-version", "3.12", *platforms, "-d", str(folder), f"sglang=={version}"]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip(f"sglang {version} cannot be fetched with pip here")
        wheel = next(folder.glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if name.endswith(".py")])
        wheel.unlink()
    return folder / "sglang"


def render(version: str, starts: str, figures: Figures, *, within: str = "", nth: int = 0) -> str:
    """The `nth` literal of the version's srt/ that begins with `starts`, rendered; fails when there is none."""
    found = list(_literals(tree(version), starts, within))
    assert len(found) > nth, f"{version} has {len(found)} literals that begin with {starts!r} in {within or 'srt'}"
    return _rendered(found[nth], figures)


def _literals(root: Path, starts: str, within: str) -> Iterator[ast.expr | tuple[ast.Constant, list[ast.expr]]]:
    needle = (starts.split("{")[0] or starts.rpartition("}")[2])[:12]
    for path in sorted((root / "srt").rglob(within or "*.py")):
        if needle not in _text(path):
            continue
        for node in _nodes(path):
            if isinstance(node, ast.Call):
                literal = node.args[0]
                if (
                    isinstance(literal, ast.Constant)
                    and str(literal.value).startswith(starts)
                    and "%" in str(literal.value)
                ):
                    yield literal, node.args[1:]
            elif isinstance(node, ast.JoinedStr):
                if _shape(node).startswith(starts):
                    yield node
            elif isinstance(node, ast.Constant) and str(node.value).startswith(starts) and "%" not in str(node.value):
                yield node


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


@cache
def _nodes(path: Path) -> tuple[ast.expr, ...]:
    """Literals of a file, and calls whose first argument is one."""
    found: list[ast.expr] = []
    for node in ast.walk(ast.parse(_text(path))):
        text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        call = isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)
        if isinstance(node, ast.expr) and (text or call or isinstance(node, ast.JoinedStr)):
            found.append(node)
    return tuple(found)


def _shape(node: ast.JoinedStr) -> str:
    """The literal with `{}` for each expression."""
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)


def _rendered(found: ast.expr | tuple[ast.Constant, list[ast.expr]], figures: Figures) -> str:
    if isinstance(found, tuple):
        literal, arguments = found
        return str(literal.value) % tuple(_figure(ast.unparse(one), figures) for one in arguments)
    if isinstance(found, ast.Constant):
        return str(found.value)
    assert isinstance(found, ast.JoinedStr)
    return "".join(_part(part, figures) for part in found.values)


def _part(part: ast.expr, figures: Figures) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    assert isinstance(part, ast.FormattedValue)
    spec = "".join(str(one.value) for one in part.format_spec.values) if part.format_spec else ""  # type: ignore[attr-defined]
    return format(_figure(ast.unparse(part.value), figures), spec)


def _figure(expression: str, figures: Figures) -> object:
    """The figure of the longest key that occurs in the expression."""
    keys = [key for key in figures if re.search(rf"(?<!\w){re.escape(key)}(?!\w)", expression)]
    assert keys, f"no figure for {expression!r}"
    return figures[max(keys, key=len)]
