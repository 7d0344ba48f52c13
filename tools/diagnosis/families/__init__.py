"""What is known about causes: one module or folder per group of the taxonomy, one entry per cause.

An entry holds small functions of facts, never of text, and what to do with values. Nothing here reads a host, a tree
or a model's name. Adding a cause is adding one entry and its test.
"""

from tools.diagnosis.families import (
    cache,
    capacity,
    config,
    engine,
    hicache,
    host,
    oom,
    parsers,
    perf,
    retraction,
    version,
)

ENTRIES = (
    *oom.ENTRIES,
    *engine.ENTRIES,
    *hicache.ENTRIES,
    *cache.ENTRIES,
    *capacity.ENTRIES,
    *perf.ENTRIES,
    *retraction.ENTRIES,
    *host.ENTRIES,
    *config.ENTRIES,
    *parsers.ENTRIES,
    *version.ENTRIES,
)
