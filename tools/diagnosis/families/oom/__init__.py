"""GPU memory runs out: where decides everything, the line itself says nothing."""

from __future__ import annotations

from tools.diagnosis.families.oom import serving, start

ENTRIES = (*start.ENTRIES, *serving.ENTRIES)
