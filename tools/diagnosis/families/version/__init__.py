"""Faults and changes tied to a version."""

from __future__ import annotations

from tools.diagnosis.families.version import faults, memory, names, scheduling

ENTRIES = (*names.ENTRIES, *faults.ENTRIES, *memory.ENTRIES, *scheduling.ENTRIES)
