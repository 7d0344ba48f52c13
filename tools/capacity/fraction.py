"""The static fraction that the server picks by itself: card, chunk, graphs, parallelism, vision tower.

Reserve in MiB (sglang 0.5.9 srt/server_args.py:1020-1069); 0.5.23 keeps the rule for the usual cases
(srt/arg_groups/overrides.py:207).
"""

from __future__ import annotations

from dataclasses import dataclass

from tools.capacity.shape import Vision

_LARGE_CARD_MIB = 60 * 1024
# card below MiB: chunk, largest decode batch below tp 4, and from tp 4
_DEFAULTS = (
    (20 * 1024, 2048, 8, 8),
    (35 * 1024, 2048, 24, 80),
    (60 * 1024, 4096, 32, 160),
    (90 * 1024, 8192, 256, 512),
    (160 * 1024, 8192, 256, 512),
)


@dataclass(frozen=True, slots=True)
class Card:
    """A card's memory as the driver states it, and the ranks that share the model."""

    memory_mib: float
    tp: int = 1
    pp: int = 1
    dp_attention: int = 0

    @property
    def chunk(self) -> int:
        return next((chunk for below, chunk, _, _ in _DEFAULTS if self.memory_mib < below), 16384)

    @property
    def graph_max_bs(self) -> int:
        for below, _, few, many in _DEFAULTS:
            if self.memory_mib < below:
                return few if self.tp < 4 else many
        return 512


def automatic_fraction(
    card: Card,
    chunk: int | None = None,
    graph_max_bs: int | None = None,
    prefill_graphs: int = 0,
    speculative: str = "",
    vision: Vision | None = None,
) -> float:
    """The fraction for a start that sets none; `graph_max_bs` 0 where graphs are off.

    A vision tower scales the result, more so the larger it is (srt/server_args.py:5483).
    """
    tokens = card.chunk if chunk is None else chunk
    graphs = card.graph_max_bs if graph_max_bs is None else graph_max_bs
    reserve = 512 + max(tokens, 2048) * 1.5 + graphs * 2 + card.tp * card.pp / 8 * 1024 + prefill_graphs * 8
    if card.dp_attention:
        reserve += graphs * card.dp_attention * (4.5 if graphs > 300 else 3)
    if card.memory_mib > _LARGE_CARD_MIB:
        reserve = max(reserve, 10 * 1024)
    if speculative == "STANDALONE":
        reserve += 6 * 1024
    elif speculative not in ("", "NGRAM"):
        reserve += 2 * 1024
    fraction = round((card.memory_mib - reserve) / card.memory_mib, 3)
    return fraction * _vision_factor(vision) if vision else fraction


def _vision_factor(vision: Vision) -> float:
    complexity = vision.layers * vision.hidden**2 / (24 * 1024**2)
    return 0.95 * max(0.8, min(1.05, 1 - 0.1 * (complexity - 1)))
