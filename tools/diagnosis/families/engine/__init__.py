"""Draft models, KV element types, ranks against each other, and prefill/decode roles."""

from __future__ import annotations

from tools.diagnosis.families.engine import draft, kv_type, ranks, roles

ENTRIES = (*draft.ENTRIES, *kv_type.ENTRIES, *ranks.ENTRIES, *roles.ENTRIES)
