"""The real trees that the checks are tried on, fetched once into the program's own cache."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache

import pytest

from agent.settings import load_settings
from tools.advice import Flags
from tools.source import obtain


@lru_cache
def _flags_of(version: str) -> Flags:
    return Flags.of(asyncio.run(obtain(version, cache=load_settings().cache)))


@pytest.fixture(scope="session")
def flags_of() -> Callable[[str], Flags]:
    """Flags and rules of a released version."""
    return _flags_of


@pytest.fixture(scope="session")
def flags() -> Flags:
    """Flags and rules of 0.5.9."""
    return _flags_of("0.5.9")
