"""What ripgrep-python 0.1.0 gets wrong, so that a release that mends it is noticed."""

from __future__ import annotations

from pathlib import Path

import pyripgrep
import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("before\nNEEDLE\nafter\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.py").write_text("NEEDLE\n")
    return tmp_path


def content(folder: Path, pattern: str = "NEEDLE", **options: object) -> list[str]:
    found = pyripgrep.Grep().search(pattern, path=str(folder), output_mode="content", n=True, **options)  # type: ignore[call-overload]
    return sorted(found)


def test_context_is_ignored(folder: Path) -> None:
    assert content(folder, C=1) == content(folder)


@pytest.mark.parametrize("glob", ["**/*.py", "a.py", "*.{py,cu}", "!*.cu"])
def test_most_globs_find_nothing(folder: Path, glob: str) -> None:
    assert content(folder, glob=glob) == []
    assert len(content(folder, glob="*.py")) == 2


def test_no_match_crosses_lines(folder: Path) -> None:
    assert content(folder, "before\\nNEEDLE", multiline=True) == []


def test_ignore_rules_cannot_be_turned_off(folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".gitignore").write_text("*\n")
    assert content(folder) == []
    assert len(content(folder / "a.py")) == 1


def test_hidden_files_are_searched(folder: Path) -> None:
    (folder / ".secret").write_text("NEEDLE\n")
    assert len(content(folder)) == 3


def test_a_bad_byte_ends_a_file(folder: Path) -> None:
    (folder / "c.txt").write_bytes(b"NEEDLE \xff\nNEEDLE\n")
    assert not [line for line in content(folder) if "c.txt" in line]


def test_kinds_of_file_are_few(folder: Path) -> None:
    with pytest.raises(ValueError, match=r".*"):
        content(folder, type="cuda")
