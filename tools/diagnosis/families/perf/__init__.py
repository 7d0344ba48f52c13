"""Speed and fairness with memory to spare."""

from __future__ import annotations

from tools.diagnosis.families.perf import admission, decode, prefill

ENTRIES = (*decode.ENTRIES, *prefill.ENTRIES, *admission.ENTRIES)
