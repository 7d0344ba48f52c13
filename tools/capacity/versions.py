"""What differs between SGLang versions in the sums of this package, and where each version does them.

Rules hold from the first release whose tree has them: read in 0.4.6, 0.4.9 and every release from 0.5.9 to 0.5.20, and
in 0.5.21 to 0.5.23 for what came last.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

Version = tuple[int, ...]


def parse(version: str) -> Version | None:
    """`0.5.9`, `v0.5.10.post1` or `0.5.9+cu128` as (major, minor, patch, post); None for anything else."""
    match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:\.?post(\d+))?", version.strip())
    if match is None:
        return None
    return tuple(int(part or 0) for part in match.groups())


def at_least(version: str, first: str) -> bool:
    """Whether `version` has a rule that `first` brought. An unknown version counts as the present day."""
    have, want = parse(version), parse(first)
    return have is None or want is None or have >= want


def draft_in_budget(version: str) -> bool:
    """Draft weights and the draft's pool are taken out of the static budget (before: out of the reserve)."""
    return at_least(version, "0.5.14")


def has_dcp(version: str) -> bool:
    """`--dcp-size` shards the positions of one sequence over tensor-parallel ranks."""
    return at_least(version, "0.5.15")


def has_attention_dp_flag(version: str) -> bool:
    """DP attention is `--attn-dp-size N`; before, `--dp-size N --enable-dp-attention`."""
    return at_least(version, "0.5.22")


def embedding_stands_whole(version: str) -> bool:
    """Under DP attention each rank holds the whole embedding; since, its attention group does.

    0.5.7 srt/models/deepseek_v2.py:3039 against 0.5.8 :2520, and the other models alike.
    """
    return not at_least(version, "0.5.8")


def old_dsa_divisor(version: str) -> bool:
    """The FP8 budget of a sparse-indexer model divides by 576 bytes per layer while the pool stores 656."""
    return not at_least(version, "0.5.17")


def indexer_rows_elided(version: str) -> bool:
    """Layers that share another layer's top-k get no indexer rows."""
    return at_least(version, "0.5.18")


def state_slot_reserved(version: str) -> bool:
    """The padding slot of the recurrent-state pool is taken out of the budget and of the automatic slot count.

    0.5.17 srt/mem_cache/kv_cache_configurator.py:1954 and :1978; 0.5.16 :1788 and :1808 do not count it.
    """
    return at_least(version, "0.5.17")


def states_between_steps_in_share(version: str) -> bool:
    """States between the steps of speculative decoding come out of the state's share of the budget, not of all of it.

    0.5.13 srt/model_executor/model_runner_kv_cache_mixin.py against 0.5.12 :84.
    """
    return at_least(version, "0.5.13")


def captures_prefill(version: str, speculative: bool, latent: bool) -> bool:
    """Graphs of prefill are captured without being asked for: since 0.5.10 (srt/server_args.py:1078), with a draft
    since 0.5.11; not for MLA from 0.5.14 to 0.5.17 (0.5.14 :3068). Not said of a version that is not known."""
    if parse(version) is None or not at_least(version, "0.5.11" if speculative else "0.5.10"):
        return False
    return not latent or not at_least(version, "0.5.14") or at_least(version, "0.5.18")


def multimodal_reserved(version: str) -> bool:
    """The cache of multimodal embeddings is taken out of the budget (0.5.18 …/kv_cache_configurator.py:130, :1785)."""
    return at_least(version, "0.5.18")


def free_memory_sinks_before_profile(version: str) -> bool:
    """Starts on CUDA show up to 0.04 GiB less free at the profile than at the end of the weights.

    No line of the source between the two allocates it; logs up to 0.4.6 do not show it, those from 0.4.9 do.
    """
    return at_least(version, "0.4.9")


def dsa_fp8_is_raw(version: str, backends: tuple[str, ...], capability: tuple[int, ...], rocm: bool) -> bool:
    """Whether FP8 rows of a sparse-indexer model have no scales: by the attention backends, else by what the GPU gets.

    TRT-LLM's in every version, and it is the default of Blackwell's data-center GPUs since 0.5.10
    (srt/server_args.py:1465); TileLang's and aiter's since 0.5.12 (…/model_runner_kv_cache_mixin.py:163).
    """
    named = [name for name in backends if name]
    if "trtllm" in named:
        return True
    if at_least(version, "0.5.12") and (rocm or {"tilelang", "aiter"} & set(named)):
        return True
    return not named and at_least(version, "0.5.10") and (10,) <= capability < (12,)


def host_check_is_per_rank(version: str) -> bool:
    """Each rank compares its own pool with the memory of the whole machine, blind to cgroups."""
    return not at_least(version, "0.5.19")


def host_pool_must_exceed_device(version: str) -> bool:
    """The start fails when the host pool is not larger than the device pool (later versions warn)."""
    return not at_least(version, "0.5.15")


def host_size_is_shared(version: str) -> bool:
    """`--hicache-size` is one total for the pools of a hybrid model; before, each of its pools takes all of it.

    0.5.16 srt/mem_cache/hybrid_cache/hybrid_pool_assembler.py:72 and :554 hand the same size to both pools, 0.5.17
    :97-110 and :569 share it by device bytes.
    """
    return at_least(version, "0.5.17")


def indexer_has_host_pool(version: str) -> bool:
    """HiCache keeps the keys of a sparse indexer beside MLA in a pool of their own, on top of `--hicache-size`.

    0.5.11 srt/mem_cache/hybrid_cache/hybrid_pool_assembler.py:458 gives it as many rows as the KV pool has; 0.5.10
    srt/mem_cache/memory_pool_host.py:1749 has them in the KV rows.
    """
    return at_least(version, "0.5.11")


def host_indexer_elided(version: str) -> bool:
    """That pool has no rows for layers that share another layer's top-k (0.5.22 srt/mem_cache/pool_host/dsa.py)."""
    return at_least(version, "0.5.22")


def host_keeps_index_of_heads(version: str, compressed: bool) -> bool:
    """HiCache keeps the index keys beside plain heads: compressed ones since 0.5.22, which counts them in
    `--hicache-size` (srt/mem_cache/hybrid_cache/hybrid_pool_assembler.py:1247), others since 0.5.15, on top of it."""
    return at_least(version, "0.5.22" if compressed else "0.5.15")


def draft_on_host(version: str) -> bool:
    """HiCache keeps the draft's KV beside the target's (0.5.12 srt/managers/scheduler.py:1030)."""
    return at_least(version, "0.5.12")


def draft_packed_on_host(version: str) -> bool:
    """Prediction layers of the target itself lie in the rows of the KV host pool, so that a size holds fewer tokens.

    0.5.18 srt/speculative/base_spec_worker.py:38 and srt/mem_cache/pool_host/base.py:157; other drafts, and earlier
    versions, have a host pool of their own with as many tokens.
    """
    return at_least(version, "0.5.18")


def hicache_takes_state(version: str) -> bool:
    """HiCache starts for a model with recurrent state (0.5.9 srt/mem_cache/hiradix_cache.py:97 refuses it)."""
    return at_least(version, "0.5.10")


def hicache_takes_windows(version: str) -> bool:
    """HiCache starts for a model with a sliding-window pool (0.5.11 srt/mem_cache/hiradix_cache.py:96 refuses it)."""
    return at_least(version, "0.5.12")


def one_more_request_row(version: str) -> bool:
    """The request table has one row more than asked for, and the limit in the ready line counts it."""
    return not at_least(version, "0.4.7")


# Architecture classes for which a version splits the pool between full and sliding-window layers; for every other
# model with sliding windows all layers get the full cache (`is_hybrid_swa_model` of srt/configs/model_config.py, read
# in 0.5.7 to 0.5.20 and 0.5.23; before, Llama 4 is split only with --hybrid-kvcache-ratio).
_SPLIT_SINCE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Llama4ForConditionalGeneration": "0.5.8",
        "GptOssForCausalLM": "0.5.8",
        "MiMoV2FlashForCausalLM": "0.5.7",
        "MiMoV2MTP": "0.5.7",
        "Step3p5ForCausalLM": "0.5.9",
        "Step3p5MTP": "0.5.9",
        "Gemma4ForCausalLM": "0.5.11",
        "Gemma4ForConditionalGeneration": "0.5.11",
        "LagunaForCausalLM": "0.5.12",
        "MiMoV2ForCausalLM": "0.5.11",
        "Step3p7ForConditionalGeneration": "0.5.13",
        "Gemma4UnifiedForConditionalGeneration": "0.5.13",
        "MellumForCausalLM": "0.5.16",
        "InklingForConditionalGeneration": "0.5.16",
        "InklingForConditionalGenerationMTP": "0.5.16",
        "UnlimitedOCRForCausalLM": "0.5.15",
        "BeamForCausalLM": "0.5.23",
        "GraniteSWAForCausalLM": "0.5.19",
        "GraniteMoeSWAForCausalLM": "0.5.19",
        "IQuestQ1ForCausalLM": "0.5.21",
        "IQuestQ1MTP": "0.5.21",
        "EmbeddingGemma2Model": "0.5.22",
        "DiffusionGemmaForBlockDiffusion": "0.5.21",
        "MuseGlimmerForCausalLM": "0.5.18",
        "MuseGlimmerForConditionalGeneration": "0.5.18",
        "MuseSparkForConditionalGeneration": "0.5.23",
    }
)


def splits_sliding_window(version: str, architectures: tuple[str, ...], opted_in: bool) -> bool:
    """Whether that version gives the sliding-window layers of such a model a pool of their own."""
    if opted_in and at_least(version, "0.5.13"):
        return True
    return any(name in _SPLIT_SINCE and at_least(version, _SPLIT_SINCE[name]) for name in architectures)


_MIXIN: Final = "srt/model_executor/model_runner_kv_cache_mixin.py"
_CONFIGURATOR: Final = "srt/mem_cache/kv_cache_configurator.py"
_POOLS: Final = "srt/model_executor/pool_configurator.py"
_LINES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "budget": {
            "0.4.6": "srt/model_executor/model_runner.py:707",
            "0.5.9": f"{_MIXIN}:143",
            "0.5.12": f"{_MIXIN}:70",
            "0.5.16": f"{_CONFIGURATOR}:1538",
            "0.5.23": f"{_CONFIGURATOR}:3007",
        },
        "cell": {
            "0.5.9": f"{_MIXIN}:50",
            "0.5.12": f"{_POOLS}:134",
            "0.5.16": f"{_POOLS}:187",
            "0.5.23": f"{_POOLS}:359",
        },
        "state": {
            "0.5.9": f"{_MIXIN}:194",
            "0.5.12": f"{_MIXIN}:121",
            "0.5.16": f"{_CONFIGURATOR}:1763",
            "0.5.23": f"{_CONFIGURATOR}:3354",
        },
        "state_cap": {
            "0.5.9": f"{_MIXIN}:367",
            "0.5.12": f"{_MIXIN}:833",
            "0.5.16": f"{_CONFIGURATOR}:1640",
            "0.5.23": f"{_CONFIGURATOR}:3137",
        },
        "sliding": {
            "0.5.9": f"{_MIXIN}:325",
            "0.5.12": f"{_POOLS}:273",
            "0.5.16": f"{_POOLS}:424",
            "0.5.23": f"{_POOLS}:880",
        },
        "request_table": {
            "0.4.6": "srt/mem_cache/memory_pool.py:66",
            "0.5.9": "srt/mem_cache/memory_pool.py:144",
            "0.5.12": "srt/mem_cache/memory_pool.py:149",
            "0.5.16": "srt/mem_cache/memory_pool.py:267",
            "0.5.23": "srt/mem_cache/memory_pool.py:406",
        },
        "running_default": {
            "0.5.9": f"{_MIXIN}:345",
            "0.5.12": f"{_MIXIN}:821",
            "0.5.16": f"{_CONFIGURATOR}:1626",
            "0.5.23": f"{_CONFIGURATOR}:3123",
        },
        "running_limit": {"0.5.9": "srt/model_executor/model_runner.py:593", "0.5.23": f"{_CONFIGURATOR}:3127"},
        "speculative_default": {
            "0.4.6": "srt/server_args.py:323",
            "0.5.9": "srt/server_args.py:2363",
            "0.5.12": "srt/server_args.py:3700",
            "0.5.16": "srt/arg_groups/speculative_hook.py:256",
            "0.5.23": "srt/arg_groups/speculative_hook.py:1090",
        },
        "new_token_ratio": {
            "0.4.6": "srt/managers/scheduler.py:365",
            "0.5.9": "srt/managers/scheduler.py:811",
            "0.5.12": "srt/managers/scheduler.py:1152",
        },
        "admission": {"0.5.9": "srt/managers/schedule_policy.py:439"},
        "host_size": {
            "0.4.6": "srt/mem_cache/memory_pool.py:740",
            "0.5.9": "srt/mem_cache/memory_pool_host.py:161",
            "0.5.12": "srt/mem_cache/memory_pool_host.py:180",
            "0.5.16": "srt/mem_cache/pool_host/base.py:109",
            "0.5.23": "srt/mem_cache/pool_host/base.py:226",
        },
        "host_size_hybrid": {
            "0.5.10": "srt/mem_cache/hi_mamba_radix_cache.py:131",
            "0.5.12": "srt/mem_cache/hybrid_cache/hybrid_pool_assembler.py:518",
            "0.5.16": "srt/mem_cache/hybrid_cache/hybrid_pool_assembler.py:554",
            "0.5.17": "srt/mem_cache/hybrid_cache/hybrid_pool_assembler.py:97",
            "0.5.23": "srt/mem_cache/hybrid_cache/hybrid_pool_assembler.py:239",
        },
        "host_check": {
            "0.4.6": "srt/mem_cache/memory_pool.py:752",
            "0.5.9": "srt/mem_cache/memory_pool_host.py:176",
            "0.5.12": "srt/mem_cache/memory_pool_host.py:195",
            "0.5.16": "srt/mem_cache/pool_host/base.py:129",
            "0.5.23": "srt/mem_cache/pool_host/base.py:251",
        },
        "fraction_default": {
            "0.4.6": "srt/server_args.py:224",
            "0.5.9": "srt/server_args.py:1022",
            "0.5.12": "srt/server_args.py:1543",
            "0.5.16": "srt/server_args.py:4058",
            "0.5.23": "srt/arg_groups/memory_hook.py:309",
        },
        "dp_attention": {"0.5.9": "srt/server_args.py:2110", "0.5.23": "srt/arg_groups/parallel_hook.py:50"},
    }
)


def source_line(version: str, topic: str) -> str:
    """`srt/…:line` where that version does the sum; the nearest earlier tree read is named where it is another one."""
    lines = _LINES[topic]
    plain = ".".join(str(part) for part in (parse(version) or ())[:3])
    if plain in lines:
        return lines[plain]
    known = sorted(lines, key=lambda name: parse(name) or ())
    earlier = [name for name in known if at_least(version, name)] or known[:1]
    return f"{lines[earlier[-1]]} (read in {earlier[-1]})"
