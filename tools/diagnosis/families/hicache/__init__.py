"""The host and storage tiers of the prefix cache."""

from __future__ import annotations

from tools.diagnosis.families.hicache import benefit, copies, host, store

ENTRIES = (*host.ENTRIES, *copies.ENTRIES, *store.ENTRIES, *benefit.ENTRIES)
