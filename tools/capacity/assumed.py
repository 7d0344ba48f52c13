"""A deployment that does not run yet: facts from a config.json and a number of cards, estimated and said to be.

Free memory before loading: from logs, 0.4 to 1.2 GiB under the card's size on one GPU, 1.1 to 2.2 with more ranks.
Weights: the checkpoint's size if known, else from the dimensions; what stands whole on every rank makes the range.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tools.capacity.budget import tokens_sum
from tools.capacity.concurrency import Mix
from tools.capacity.deployment import Deployment
from tools.capacity.errors import SettingRefused
from tools.capacity.fraction import Card, automatic_fraction
from tools.capacity.scenario import divides_attention
from tools.capacity.shape import Latent, ModelShape, text_part
from tools.capacity.sums import GIB
from transcripts.facts import Fact, Facts

_PLAN = "the plan's assumption"


# What nvidia-smi calls the whole memory of a card sold as so many GB: the server counts with these.
_SOLD_AS = {
    24: (24_564, "an RTX 4090"),
    32: (32_607, "an RTX 5090"),
    40: (40_960, "an A100 of 40 GB"),
    48: (49_140, "an RTX A6000"),
    80: (81_559, "an H100"),
    94: (95_830, "an H100 NVL"),
    96: (97_887, "an RTX PRO 6000 Blackwell"),
    141: (143_771, "an H200"),
    180: (183_359, "a B200"),
}
_CARDS = re.compile(r"(\d{1,4})\s*[x×*]\s*(\d{1,7}(?:\.\d{1,3})?)\s*(GB?|GiB|MiB|)", re.I)
_MOST_MIB = 1024 * 1024
_LEAST_GIB, _MOST_GIB = 0.01, 1024.0 * 1024.0
_MOST_RANKS = 4096
_MOST_FIGURE = 1e9
_LEAST = {
    "context_length": 1.0,
    "page_size": 1.0,
    "chunked_prefill_size": 1.0,
    "speculative_num_draft_tokens": 1.0,
    "swa_full_tokens_ratio": 0.001,
    "mamba_full_memory_ratio": 0.001,
    "max_mamba_cache_size": 1.0,
}


@dataclass(frozen=True, slots=True)
class Cards:
    """How many cards, the MiB of one, and how that size was come by.

    `8x96` and `8x96GB` are the number on the box, `8x95.59GiB` and `8x97887MiB` the exact size.
    """

    count: int
    mib: float
    said: str

    @classmethod
    def parse(cls, text: str) -> Cards:
        match = _CARDS.fullmatch(text.strip())
        count, size, unit = (int(match[1]), float(match[2]), match[3].lower()) if match else (0, 0.0, "")
        mib, said = _card(size, unit)
        if count < 1 or not 1024 <= mib <= _MOST_MIB:
            raise SettingRefused(
                f"{text!r} is not a number of cards.", "Write COUNTxSIZE, as 8x96 for 8 of 96 GB, or 8x97887MiB."
            )
        return cls(count, mib, said)


def _card(size: float, unit: str) -> tuple[float, str]:
    """MiB of a card, and a word on where they come from."""
    if unit == "mib":
        return size, f"{size:,.0f} MiB as given"
    known = _SOLD_AS.get(int(size)) if unit != "gib" and size == int(size) else None
    if known is not None:
        mib, name = known
        return float(mib), (
            f"a card of {size:g} GB is taken as {mib:,} MiB = {mib / 1024:.2f} GiB, which nvidia-smi shows for {name}"
        )
    taken = f"{size:g} GiB = {size * 1024:,.0f} MiB"
    return size * 1024, f"{taken} as given" if unit == "gib" else f"a card of {size:g} GB is taken as {taken}"


@dataclass(frozen=True, slots=True)
class Assumed:
    """Facts with the middle, and with the worst and best of the estimated inputs; `said` is what was taken for granted
    of the start, in words."""

    middle: Facts
    worst: Facts
    best: Facts
    said: str


def assume(
    config: Mapping[str, Any],
    cards: Cards,
    version: str,
    settings: Mapping[str, str] | None = None,
    checkpoint_bytes: int | None = None,
    weights_gib: float | None = None,
    ram_gib: float | None = None,
    mix: Mix | None = None,
) -> Assumed:
    """Facts of a start that nobody has seen. `settings` are server arguments by destination (`tp_size`: "8")."""
    given = dict(settings or {})
    given.setdefault("tp_size", str(cards.count))
    shape = ModelShape.from_config(config)
    tp, pp = _ranks(given, "tp_size"), _ranks(given, "pp_size")
    _legal(shape, tp, weights_gib, ram_gib)
    _blocks(config, shape, tp, _ranks(given, "ep_size"))
    _figures(given)
    low, high = (
        (weights_gib, weights_gib) if weights_gib else weights_range_gib(config, shape, tp, pp, checkpoint_bytes)
    )
    nodes = _ranks(given, "nnodes")
    if tp * pp > cards.count * nodes:
        raise SettingRefused(
            f"tp {tp} with pp {pp} takes {tp * pp} GPUs; {cards.count * nodes} are given.", "Give as many with --gpus."
        )
    under_low, under_high = (0.4, 1.2) if tp * pp == 1 else (1.1, 2.2)
    if "mem_fraction_static" not in given:
        card, algorithm = Card(cards.mib, tp, pp), given.get("speculative_algorithm", "").upper()
        fraction = automatic_fraction(
            card, speculative=algorithm, vision=shape.vision, version=version, latent=shape.latent
        )
        given["mem_fraction_static"] = f"{fraction:.4f}"
    common = [
        Fact("version", version, "", "claimed", _PLAN),
        Fact("model_config", json.dumps(config), "", "observed", "config.json"),
        *(Fact("gpu_memory_mib", cards.mib, "MiB", "claimed", _PLAN, f"gpu{index}") for index in range(cards.count)),
        *(Fact("server_arg", value, "", "claimed", _PLAN, name) for name, value in given.items()),
    ]
    if ram_gib is not None:
        common += [
            Fact("mem_available_bytes", int(ram_gib * GIB), "bytes", "claimed", _PLAN),
            Fact("mem_total_bytes", int(ram_gib * GIB), "bytes", "claimed", _PLAN),
        ]
    if mix is not None:
        held = mix.prompt_tokens + mix.output_tokens / 2
        common.append(Fact("tokens_per_request", held, "tokens", "claimed", _PLAN))

    def start(under: float, weights: float) -> Facts:
        before = cards.mib / 1024 - under
        facts = Facts(
            [
                *common,
                Fact("weights_before_gib", before, "GiB", "estimated", _PLAN),
                Fact("weights_after_gib", before - weights, "GiB", "estimated", _PLAN),
            ]
        )
        tokens = tokens_sum(Deployment(facts))
        if tokens is None or tokens.value <= 0:
            return facts
        return Facts([*facts, Fact("kv_pool", int(tokens.value), "tokens", "estimated", _PLAN)])

    middle = start((under_low + under_high) / 2, (low + high) / 2)
    ranks = (
        f"tp {tp}" + (f", pp {pp}" if pp > 1 else "") + ("" if settings and "tp_size" in settings else " (every card)")
    )
    own = "as given" if settings and "mem_fraction_static" in settings else "as that version takes by itself"
    said = (
        f"planned for SGLang {version}, {ranks}, --mem-fraction-static {float(given['mem_fraction_static']):.3g} {own}"
    )
    return Assumed(middle, start(under_high, high), start(under_low, low), said)


def _legal(shape: ModelShape, tp: int, weights_gib: float | None, ram_gib: float | None) -> None:
    """Raises SettingRefused for ranks that the model's heads do not divide into, and for sizes that are none."""
    if not divides_attention(shape, tp, 1):
        fitting = [size for size in range(1, shape.attention_heads + 1) if divides_attention(shape, size, 1)]
        below = [size for size in fitting if size < tp][-3:]
        raise SettingRefused(
            f"tp {tp} does not divide the {shape.attention_heads} attention heads of this model.",
            f"Sizes below that do: {', '.join(map(str, below))}; as --set tp-size={below[-1]}." if below else "",
        )
    for name, size in (("--weights-gib", weights_gib), ("--ram-gib", ram_gib)):
        if size is not None and not _LEAST_GIB <= size <= _MOST_GIB:
            raise SettingRefused(f"{name} {size:g} is no size.", "Give it in GiB.")


def _blocks(config: Mapping[str, Any], shape: ModelShape, tp: int, ep: int) -> None:
    """Raises SettingRefused for experts of an FP8 checkpoint whose blocks a rank's share cuts.

    sglang 0.5.9 srt/layers/quantization/fp8.py:726, with the share of srt/layers/moe/fused_moe_triton/layer.py:227.
    """
    text = text_part(config)
    quantized = config.get("quantization_config") or text.get("quantization_config")
    if not isinstance(quantized, Mapping) or quantized.get("quant_method") != "fp8":
        return
    block = quantized.get("weight_block_size")
    width = text.get("moe_intermediate_size")
    if not isinstance(width, int) or not isinstance(block, list) or len(block) != 2:
        return
    if not all(isinstance(size, int) and size > 0 for size in block):
        return
    if _uncut(width, tp, ep, block):
        return
    smaller = [size for size in range(tp - 1, 0, -1) if divides_attention(shape, size, 1)]
    fitting = [size for size in smaller if _uncut(width, size, 1, block)][:1]
    fitting_ep = [size for size in range(2, tp + 1) if tp % size == 0 and _uncut(width, tp, size, block)][:1]
    ways = [*(f"--set tp-size={size}" for size in fitting), *(f"--set ep-size={size}" for size in fitting_ep)]
    raise SettingRefused(
        f"tp {tp} is refused at the start: experts {width:,} wide over {tp // max(ep, 1)} ranks are "
        f"{width * ep / tp:g} each, which FP8 blocks of {block[0]} do not divide.",
        f"These do: {', '.join(ways)}." if ways else "",
    )


def _uncut(width: int, tp: int, ep: int, block: list[int]) -> bool:
    share, rest = divmod(width * ep, tp)
    return rest == 0 and all(share % size == 0 for size in block[: 2 if tp > 1 else 1])


def _figures(given: Mapping[str, str]) -> None:
    """Raises SettingRefused for a setting that no sum can be made with: it would be left out in silence."""
    for name, least in _LEAST.items():
        value = given.get(name)
        try:
            number = float(value) if value is not None else least
        except ValueError:
            number = math.nan
        off = name == "chunked_prefill_size" and number == -1
        if not (least <= number <= _MOST_FIGURE or off):
            raise SettingRefused(f"--{name.replace('_', '-')} {(value or '')[:40]} is none that can be summed.", "")


def _ranks(given: Mapping[str, str], name: str) -> int:
    value = given.get(name, "1")
    if not re.fullmatch(r"[0-9]{1,4}", value) or not 1 <= int(value) <= _MOST_RANKS:
        raise SettingRefused(f"--{name.replace('_', '-')} {value[:40]} is not a number of ranks.", "As 8.")
    return int(value)


def weights_range_gib(
    config: Mapping[str, Any], shape: ModelShape, tp: int, pp: int = 1, checkpoint_bytes: int | None = None
) -> tuple[float, float]:
    """GiB of weights on one rank, least and most.

    Never the checkpoint over tp alone: what every rank keeps whole (MLA's down-projections, routers, norms, a vision
    tower, and with few heads the keys) is the difference. Without a checkpoint size 6 % either way are unknown.
    """
    total = float(checkpoint_bytes) if checkpoint_bytes else _parameter_bytes(config, shape)
    whole = _replicated_bytes(config, shape)
    ranks = tp * pp
    per_rank = total / ranks + whole * (1 - 1 / tp) / pp
    doubt = 0.02 if checkpoint_bytes else 0.06
    return per_rank * (1 - doubt) / GIB, per_rank * (1 + doubt) / GIB


def _weight_bytes(config: Mapping[str, Any]) -> float:
    """Bytes per element of the bulk of the weights, from the quantization block."""
    block = config.get("quantization_config") or text_part(config).get("quantization_config")
    if not isinstance(block, Mapping):
        return 2.0
    bits = block.get("bits")
    groups = block.get("config_groups")
    if bits is None and isinstance(groups, Mapping):
        first: Any = next(iter(groups.values()), None)
        weights = first.get("weights") if isinstance(first, Mapping) else None
        bits = weights.get("num_bits") if isinstance(weights, Mapping) else None
    method = f"{block.get('quant_method', '')} {block.get('quant_algo', '')} {block.get('format', '')}".lower()
    if bits is None:
        bits = 4 if re.search(r"fp4|int4|awq|gptq|w4|pack-quantized", method) else 8 if "8" in method else 16
    scales = 1 / 16 if int(bits) == 4 else 0.0
    return int(bits) / 8 + scales


def _parameter_bytes(config: Mapping[str, Any], shape: ModelShape) -> float:
    text = text_part(config)
    each = _weight_bytes(config)
    hidden, layers = shape.hidden, shape.layers
    embeddings = shape.vocabulary * hidden * (1 if text.get("tie_word_embeddings") else 2)
    experts = int(text.get("n_routed_experts") or text.get("num_experts") or text.get("num_local_experts") or 0)
    expert_width = int(text.get("moe_intermediate_size") or text.get("intermediate_size") or 4 * hidden)
    dense_width = int(text.get("intermediate_size") or 4 * hidden)
    dense_layers = int(text.get("first_k_dense_replace") or 0) if experts else layers
    shared = int(text.get("n_shared_experts") or 0)
    feed_forward = dense_layers * 3 * hidden * dense_width
    routed = (layers - dense_layers) * experts * 3 * hidden * expert_width if experts else 0
    beside = (layers - dense_layers) * shared * 3 * hidden * expert_width if experts else 0
    spread = max(1, layers) / max(1, shape.full.layers)
    attention = shape.attention_weight_elements * spread
    bulk = (routed if experts else feed_forward) * each
    rest = (embeddings + beside + (feed_forward if experts else 0)) * (2.0 if each < 1 else max(each, 1.0))
    return bulk + rest + attention * (2.0 if each < 1 else each) + _replicated_bytes(config, shape)


def _replicated_bytes(config: Mapping[str, Any], shape: ModelShape) -> float:
    """What stands whole on every rank, in bytes of 2-byte elements."""
    text = text_part(config)
    elements = 0.0
    if isinstance(shape.full, Latent):
        down = int(text.get("q_lora_rank") or 0) + shape.full.lora_rank + shape.full.rope_dim
        elements += shape.full.layers * shape.hidden * down
    experts = int(text.get("n_routed_experts") or text.get("num_experts") or text.get("num_local_experts") or 0)
    elements += shape.layers * experts * shape.hidden
    if shape.vision is not None:
        elements += shape.vision.layers * 12 * shape.vision.hidden**2
    return 2.0 * elements
