"""Measures to compare before and after a change: over how long, what is better, what is worse, each of one measure.

`tools.advice.figures` knows each by its name. A cause names its own; of one that names none, its family tells.
"""

from __future__ import annotations

from typing import Final

from tools.diagnosis.model import Watch

_QUARTER_S: Final = 900
_HOUR_S: Final = 3600

USAGE: Final = Watch("token usage, p95", _QUARTER_S, "below 0.92", "0.97 or more")
RETRACTIONS: Final = Watch("retractions per hour", _HOUR_S, "none", "any")
RETRACTIONS_SOON: Final = Watch("retractions per hour", _QUARTER_S, "none", "any")
FEWER_RETRACTIONS: Final = Watch("retractions per hour", _HOUR_S, "near none", "as before")
QUEUE: Final = Watch("queued requests, p95", _QUARTER_S, "falls", "rises")
FIRST_TOKEN_KEPT: Final = Watch("time to first token, p95", _QUARTER_S, "as before", "doubled")
FIRST_TOKEN: Final = Watch("time to first token, p95", _QUARTER_S, "falls", "rises")
DECODE: Final = Watch("inter-token latency, p95", _QUARTER_S, "falls", "rises")
DECODE_KEPT: Final = Watch("inter-token latency, p95", _QUARTER_S, "as before", "doubled")
THROUGHPUT: Final = Watch("generation throughput, median", _QUARTER_S, "as before", "falls")
GRAPHS: Final = Watch("share of decode lines with cuda graph: True", _QUARTER_S, "above 0.95", "below 0.5")
GPU_FREE: Final = Watch("free GPU memory after the longest prompt", _QUARTER_S, "above 1 GiB", "below 0.5 GiB")
HOST_FREE: Final = Watch("available host memory", _QUARTER_S, "above 10 GiB", "below 5 GiB")
CACHED: Final = Watch("cached share of prompts", _HOUR_S, "rises", "falls")
ACCEPTED: Final = Watch("accept length", _QUARTER_S, "as before", "a lasting fall after evictions")
FROM_HOST: Final = Watch(
    "cached tokens by source host, and load_back_tokens_total", _QUARTER_S, "both rise", "both stay at zero"
)

# By the beginning of a label, the longest first.
_OF_FAMILY: Final[tuple[tuple[str, tuple[Watch, ...]], ...]] = (
    ("cache.state_slots", (CACHED, USAGE)),
    ("capacity.", (USAGE, RETRACTIONS)),
    ("perf.", (QUEUE, FIRST_TOKEN_KEPT)),
    ("retraction.", (FEWER_RETRACTIONS,)),
    ("oom.", (GPU_FREE,)),
    ("spec.", (GPU_FREE, USAGE)),
    ("kv.", (THROUGHPUT, USAGE)),
    ("cache.", (CACHED,)),
    ("hicache.host_", (HOST_FREE,)),
    ("hicache.", (FROM_HOST, HOST_FREE)),
    ("parallel.gpu0", (GPU_FREE,)),
    ("parallel.tp_memory", (GPU_FREE,)),
    ("version.", (QUEUE, THROUGHPUT)),
)


def retractions(seen: float | None) -> Watch:
    """None more where there were none; fewer where there were some."""
    return FEWER_RETRACTIONS if seen else RETRACTIONS


def running(limit: float) -> Watch:
    """Requests that run at once, against the limit that bound so far."""
    return Watch("running requests, p95", _QUARTER_S, f"above {limit:g}", f"below {limit:g} while others wait")


def of_family(label: str) -> tuple[Watch, ...]:
    """What to watch after any change for a cause of this family; empty where only the failure itself tells."""
    return next((watches for beginning, watches in _OF_FAMILY if label.startswith(beginning)), ())
