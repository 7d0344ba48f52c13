"""What people call the options of a launch command in a sentence: `fp8`, `mem fraction`, `chunk size`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

HICACHE: Final = "--enable-hierarchical-cache"
SPECULATION: Final = "--speculative-algorithm"
KV_DTYPE: Final = "--kv-cache-dtype"
# Flag -> pattern over lower case; the order is that in which a sentence is searched.
CALLED: Final[Mapping[str, str]] = {
    HICACHE: r"hi-?cache|hierarchical|ram (?:off-?load|cache)|host (?:memory|cache)",
    KV_DTYPE: r"fp8|fp4|kv.?cache.?dtype|quanti[sz]\w*",
    "--enable-dp-attention": r"\bdp\b|data.parallel",
    "--mem-fraction-static": r"mem.?fraction|fraction",
    "--max-running-requests": r"slots|max.running|more requests|higher limit",
    SPECULATION: r"specul\w*|eagle|draft",
    "--enable-lmcache": r"lmcache",
    "--cpu-offload-gb": r"cpu.?off-?load",
    "--schedule-conservativeness": r"conservativ\w*",
    "--enable-mixed-chunk": r"mixed.?chunk\w*",
    "--chunked-prefill-size": r"(?<!mixed )(?<!mixed-)(?<!mixed_)chunk\w*",
    "--context-length": r"(?:max[- ]?)?context.?(?:len\w*|window|size)|kontext\w*",
    "--attention-backend": r"attention.?backend|flashinfer|\bfa3\b|\btriton\b",
    "--page-size": r"page.?size",
    "--max-queued-requests": (
        r"(?:limit|cap|bound|shorten)\w* (?:the |my |our )?queue|queue.?(?:limit|cap)|max.?queue\w*"
    ),
    "--cuda-graph-max-bs": r"(?:cuda.?)?graphs?\b",
    "--disable-radix-cache": r"radix",
    "--schedule-policy": r"schedul\w*.?policy|schedule policy",
}
# Options that are nothing without another one.
PART_OF: Final = (("--hicache-", HICACHE), ("--dp-size", "--enable-dp-attention"))


def options_called(text: str) -> Iterator[str]:
    """Flags of the options that a text names in words."""
    for flag, called in CALLED.items():
        if re.search(called, text, re.IGNORECASE):
            yield flag


def whole(flag: str) -> str:
    """The option that a flag is a part of, else the flag itself."""
    return next((other for beginning, other in PART_OF if flag.startswith(beginning)), flag)
