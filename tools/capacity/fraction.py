"""The static fraction that the server picks by itself: card, chunk, graphs, parallelism, vision tower.

Reserve in MiB (sglang 0.5.9 srt/server_args.py:1020-1069). 0.4.6 had a table by tp (srt/server_args.py:224), 0.4.10 to
0.5.2 one by card (0.5.2 srt/server_args.py:459); from 0.5.10 prefill graphs are captured by default and more is kept
for a draft (srt/server_args.py:1304); 0.5.16 keeps no more for a draft, whose memory is in the budget from then on.
"""

from __future__ import annotations

from dataclasses import dataclass

from tools.capacity import versions
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

# card below MiB: GiB kept before 0.5.3, and more of them for each rank
_RESERVES = ((35 * 1024, 2.8, 0.1), (90 * 1024, 9.5, 0.5), (160 * 1024, 12.0, 0.5))
_PREFILL_GRAPH_MIB = 8
_LATENT_PREFILL_MIB = 1.5 * 1024


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
    prefill_graphs: int | None = None,
    speculative: str = "",
    vision: Vision | None = None,
    version: str = "",
    latent: bool = False,
) -> float:
    """The fraction for a start that sets none; `graph_max_bs` 0 where graphs are off, `prefill_graphs` None where they
    are as the version has them.

    A vision tower scales the result, more so the larger it is (srt/server_args.py:5483).
    """
    if version and not versions.at_least(version, "0.4.10"):
        return _by_table(card)
    if version and not versions.at_least(version, "0.5.3"):
        fraction = round(1 - _reserve_by_card(card, speculative) / card.memory_mib, 3)
        return fraction * _vision_factor(vision) if vision else fraction
    tokens = card.chunk if chunk is None else chunk
    graphs = card.graph_max_bs if graph_max_bs is None else graph_max_bs
    reserve = 512 + max(tokens, 2048) * 1.5 + graphs * 2 + card.tp * card.pp / 8 * 1024
    captures = versions.captures_prefill(version, bool(speculative), latent) and not (
        vision or card.dp_attention or card.pp > 1
    )
    if prefill_graphs is not None:
        reserve += prefill_graphs * _PREFILL_GRAPH_MIB
    elif captures and graphs:
        reserve += _LATENT_PREFILL_MIB if latent else prefill_sizes(tokens) * _PREFILL_GRAPH_MIB
    if card.dp_attention:
        reserve += graphs * card.dp_attention * (4.5 if graphs > 300 else 3)
    if card.memory_mib > _LARGE_CARD_MIB:
        reserve = max(reserve, 10 * 1024)
    reserve += _draft_reserve(speculative, version)
    fraction = round((card.memory_mib - reserve) / card.memory_mib, 3)
    return fraction * _vision_factor(vision) if vision else fraction


def prefill_sizes(chunk: int) -> int:
    """How many sizes of a prefill are captured up to a chunk (sglang 0.5.10 srt/server_args.py:1385)."""
    found, start = 0, 0
    for end, step in ((32, 4), (256, 16), (512, 32), (1024, 64), (4096, 256), (chunk, 512)):
        found += max(0, min(chunk, end) - start) // step
        start = end
    return found


def _reserve_by_card(card: Card, speculative: str) -> float:
    """MiB that versions before 0.5.3 keep, by the card's size."""
    ranks = card.tp * card.pp
    reserve = next((fixed + ranks * each for below, fixed, each in _RESERVES if card.memory_mib < below), 32.0)
    if speculative:
        reserve += 6 if speculative == "STANDALONE" else 2
    return (reserve + (4 if card.dp_attention else 0)) * 1024


def _draft_reserve(speculative: str, version: str) -> float:
    """MiB kept for a draft model and its graphs where they are not in the budget."""
    if speculative in ("", "NGRAM") or (version and versions.draft_in_budget(version)):
        return 0.0
    if speculative == "STANDALONE":
        return 6 * 1024
    return (4 if version and versions.at_least(version, "0.5.10") else 2) * 1024


def _by_table(card: Card) -> float:
    """The fraction of old versions: by tp on cards up to 80 GB, all but 13 GiB above."""
    if card.memory_mib > 81920:
        return (card.memory_mib - 13 * 1024) / card.memory_mib
    return next((fraction for tp, fraction in ((16, 0.79), (8, 0.81), (4, 0.85), (2, 0.87)) if card.tp >= tp), 0.88)


def _vision_factor(vision: Vision) -> float:
    complexity = vision.layers * vision.hidden**2 / (24 * 1024**2)
    return 0.95 * max(0.8, min(1.05, 1 - 0.1 * (complexity - 1)))
