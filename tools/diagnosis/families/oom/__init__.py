"""GPU memory runs out: where decides everything, the line itself says nothing."""

from __future__ import annotations

from tools.diagnosis.families.oom import serving, start, workspace

ENTRIES = (*start.ENTRIES, *serving.ENTRIES, *workspace.ENTRIES)
