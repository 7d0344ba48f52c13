"""Help and listings stay light: the heavy libraries are imported by the commands that need them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.program import environment

HEAVY = ("openai", "paramiko", "pydantic", "rich", "prompt_toolkit", "yaml")


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["sessions"], ["tasks"], ["eval", "--help"]])
def test_help_and_listings_import_nothing_heavy(tmp_path: Path, words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "agent", *words],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines() if "|" in line}
    assert loaded.isdisjoint(HEAVY)
    assert "click" in loaded
