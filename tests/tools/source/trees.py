"""Real trees for tests, fetched once into the cache of the user who runs them (SGLSCOUT_CACHE, or the platform's)."""

from __future__ import annotations

import asyncio
import functools
import os
from pathlib import Path

import platformdirs

from tools.source import Source, obtain

VERSIONS = ("0.4.6", "0.5.9", "0.5.16", "0.5.23")


def cache() -> Path:
    return Path(os.environ.get("SGLSCOUT_CACHE") or platformdirs.user_cache_dir("sglscout", appauthor=False))


@functools.cache
def tree(version: str) -> Source:
    """The released tree of a version."""
    return asyncio.run(obtain(version, cache=cache()))
