"""Paths as people write them."""

from __future__ import annotations

from pathlib import Path


def at_home(path: str | Path) -> Path:
    """The path with `~` written out; one of a user who is not there stays as it is written."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
