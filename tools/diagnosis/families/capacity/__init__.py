"""How many requests and tokens fit at all."""

from __future__ import annotations

from tools.diagnosis.families.capacity import pool, running, state, window

ENTRIES = (*running.ENTRIES, *pool.ENTRIES, *state.ENTRIES, *window.ENTRIES)
