"""What every cause of the tiers looks at and advises against."""

from __future__ import annotations

from tools.diagnosis.changes import Forbidden
from tools.diagnosis.clues import both, either, flag, lacks, said, symptom, when

# What the server resolved outweighs a word of the complaint: who asks for a host cache has none yet.
_RESOLVED = when(lambda view: view.facts.get("server_arg", "enable_hierarchical_cache") is not None)
ON = either(
    when(lambda view: view.hierarchical),
    both(symptom("host_cache"), lacks(_RESOLVED)),
    said("host_pool_allocated"),
)
STORE = either(flag("--hicache-storage-backend"), symptom("storage_tier"))
PAGE_ONE = either(flag("--page-size", "1"), symptom("page_size_one"), lacks(flag("--page-size")))
KEEP_FRACTION: Forbidden = ("lower", "--mem-fraction-static", "GPU memory is not what is short")
FROM_HOST = "cached_tokens_total{cache_source=host}"
