"""What every cause of the tiers looks at and advises against."""

from __future__ import annotations

from tools.diagnosis.changes import Forbidden
from tools.diagnosis.clues import either, flag, lacks, said, symptom, when

ON = either(when(lambda view: view.hierarchical), symptom("host_cache"), said("host_pool_allocated"))
STORE = either(flag("--hicache-storage-backend"), symptom("storage_tier"))
PAGE_ONE = either(flag("--page-size", "1"), symptom("page_size_one"), lacks(flag("--page-size")))
KEEP_FRACTION: Forbidden = ("lower", "--mem-fraction-static", "GPU memory is not what is short")
FROM_HOST = "cached_tokens_total{cache_source=host}"
