"""How generated inputs are drawn (see long.py)."""

from __future__ import annotations

from hypothesis import settings

from tests.long import LONG

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("new", deadline=None, print_blob=True)
settings.load_profile("new" if LONG else "same")
