"""The one place where a test may skip: a system program that is not installed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


def needs(program: str, apt: str) -> str:
    """The program's path; skips the test, naming the apt package, where it is missing."""
    found = shutil.which(program, path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    if found is None:
        pytest.skip(f"{program} is not installed: apt-get install {apt}")
    return found


def shared(name: str) -> Path:
    """A file or folder of the shared material beside the checkout; skips where it is not laid out."""
    path = Path(__file__).resolve().parents[2] / "shared" / name
    if not path.exists():
        pytest.skip(f"the shared material is not beside this checkout: {name}")
    return path
