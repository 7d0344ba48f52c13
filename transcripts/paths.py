"""Paths as people write them."""

from __future__ import annotations

from pathlib import Path


def made_own(*folders: Path) -> None:
    """Make these folders where they are not there yet, the outer one first, for their owner alone. Raises OSError."""
    for folder in folders:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def at_home(path: str | Path) -> Path:
    """The path with `~` written out; one of a user who is not there stays as it is written."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
