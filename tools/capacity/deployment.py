"""The running server as the sums need it: typed figures, each with its grade and source, folded from facts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from tools.capacity import pools, versions
from tools.capacity.asked import Asked
from tools.capacity.errors import ConfigUnreadable
from tools.capacity.fraction import Card
from tools.capacity.shape import ModelShape
from tools.capacity.state import with_state_dtype
from tools.capacity.sums import GIB, Known
from transcripts.facts import Grade

SPECULATIVE_DEFAULT_LIMIT = 48
_PREDICTION_LAYERS = "num_nextn_predict_layers"


class Deployment(Asked):
    """Facts read with the names and units of this package. Cheap to make, reads on demand, never guesses.

    A figure that no fact gives, or that cannot be (no ranks, a page of nothing), is None or its default; what a sum
    lacked is said through `Missing`.
    """

    # model --------------------------------------------------------------------------------------------------------

    def config(self, draft: bool = False) -> Mapping[str, Any] | None:
        """The parsed config.json, None where no fact has it. Raises ConfigUnreadable when it is not JSON."""
        facts = [fact for fact in self.facts.all("model_config") if (fact.scope == "draft") == draft]
        if not facts:
            return None
        try:
            found = json.loads(str(facts[-1].value))
        except (ValueError, RecursionError) as error:
            raise ConfigUnreadable(f"the model's config.json is not JSON: {error}.") from error
        if not isinstance(found, dict):
            raise ConfigUnreadable("the model's config.json is not an object.")
        return found

    @cached_property
    def shape(self) -> ModelShape | None:
        try:
            config = self.config()
            if config is None:
                return None
            shape = ModelShape.from_config(config).for_version(self.version)
        except ConfigUnreadable:
            return None  # said as missing by whoever needs the shape
        if shape.state is not None:
            stored = self.text("mamba_ssm_dtype") or self.facts.text("env", "SGLANG_MAMBA_SSM_DTYPE")
            shape = replace(shape, state=with_state_dtype(shape.state, stored))
        return shape.without_sliding_pool() if self.switch("disable_hybrid_swa_memory") else shape

    @cached_property
    def draft_shape(self) -> ModelShape | None:
        """The draft's shape: its own config, or the target's prediction layers when it names no other model."""
        if not self.has_draft:
            return None
        try:
            config = self.config(draft=True)
            if config is None and not self.text("speculative_draft_model_path"):
                target = self.config()
                own = self.predicts_itself or (target is not None and _PREDICTION_LAYERS in json.dumps(target))
                config = target if own else None
            return None if config is None else ModelShape.from_config(config, draft=True)
        except ConfigUnreadable:
            return None

    # speculative decoding -----------------------------------------------------------------------------------------

    @property
    def algorithm(self) -> str:
        found = self.text("speculative_algorithm").upper()
        return "" if found in ("", "NONE") else found

    @property
    def has_draft(self) -> bool:
        """Whether there is a draft model on the GPU."""
        return self.algorithm not in ("", "NGRAM")

    @property
    def predicts_itself(self) -> bool:
        """Whether the draft are the target's own prediction layers (sglang 0.5.18 …/base_spec_worker.py:38)."""
        if self.algorithm not in ("EAGLE", "NEXTN"):
            return False
        if not self.text("speculative_draft_model_path"):
            return True
        try:
            return _PREDICTION_LAYERS in json.dumps(self.config(draft=True))
        except ConfigUnreadable:
            return False

    @property
    def draft_tokens(self) -> int:
        return self.whole("speculative_num_draft_tokens", 0) if self.algorithm else 0

    # memory -------------------------------------------------------------------------------------------------------

    def fact(self, name: str, scope: str | None = None) -> Known | None:
        return Known.of(self.facts.get(name, scope))

    def lowest(self, name: str) -> Known | None:
        """The smallest of a figure given per GPU or rank."""
        found = [known for fact in self.facts.all(name) if (known := Known.of(fact)) is not None]
        return min(found, key=lambda known: known.value, default=None)

    @property
    def before_gib(self) -> Known | None:
        return _positive(self.fact("weights_before_gib", ""))

    @property
    def after_gib(self) -> Known | None:
        """Free after the weights that the budget counts: from 0.5.14 the draft's are among them."""
        if self.has_draft and versions.draft_in_budget(self.version):
            both = self.fact("weights_after_gib", "draft")
            if both is not None:
                return both
        found = self.fact("weights_after_gib", "")
        if found is None and self.before_gib and (weights := self.fact("weights_gib", "")):
            return Known(self.before_gib.value - weights.value, "derived", weights.source)
        return found

    @property
    def fraction(self) -> Known | None:
        return self.number("mem_fraction_static")

    @property
    def effective_fraction(self) -> Known | None:
        """The fraction as the server applies it: 0.85 of it with the aiter backend and a context over 8192."""
        found = self.fraction
        if found and self.text("attention_backend") == "aiter" and self.context_len > 8192 and not self._resolved:
            return Known(found.value * 0.85, "derived", found.source)
        return found

    @property
    def _resolved(self) -> bool:
        return self.facts.get("server_arg", "mem_fraction_static") is not None

    @property
    def context_len(self) -> int:
        known = _positive(self.fact("context_len")) or _positive(self.number("context_length"))
        if known is not None:
            return int(known.value)
        return self.shape.context_len if self.shape else 0

    @property
    def page(self) -> int:
        return self.whole("page_size", 64 if self.shape and self.shape.indexer else 1)

    @cached_property
    def element(self) -> Known | None:
        """Bytes per KV element: as printed, else as set, else the model's own; and what the pool's size says."""
        printed = self.facts.get("kv_dtype")
        if printed is not None:
            value = pools.element_bytes(str(printed.value), self._model_bytes)
            if value is not None:
                return Known(value, "derived", printed.source)
        setting = self.setting("kv_cache_dtype")
        value = pools.element_bytes("" if setting is None else str(setting.value), self._model_bytes)
        if value is None:
            return None
        if setting is not None and str(setting.value) != "auto":
            return Known(value, "derived", setting.source)
        return self._element_from_size() or Known(value, "estimated", "auto: the model's own type")

    @property
    def _model_bytes(self) -> float:
        return self.shape.element_bytes if self.shape else 2.0

    def _element_from_size(self) -> Known | None:
        tokens, size = _positive(self.fact("kv_pool", "")), _positive(self.fact("kv_pool_gib", ""))
        if not (tokens and size and self.shape) or self.shape.sliding or self.shape.unsummed:
            return None
        stored = size.value * GIB / (tokens.value + self.page)
        for value in (2.0, 1.0, pools.ELEMENT_BYTES["fp4"]):
            layout = pools.Layout(self.attn_tp, value, self.page, self.dcp, self.pp)
            if abs(pools.full_bytes_per_token(self.shape, layout) / stored - 1) < 0.03:
                return Known(value, "derived", size.source)
        return None

    @property
    def layout(self) -> pools.Layout:
        element = self.element
        names = [f"{kind}_{phase}_backend" for kind in ("dsa", "nsa") for phase in ("decode", "prefill")]
        parts = self.facts.text("compute_capability").split(".")
        capability = tuple(int(part) for part in parts if part.isdigit())
        raw = versions.dsa_fp8_is_raw(self.version, tuple(map(self.text, names)), capability, self.rocm)
        return pools.Layout(self.attn_tp, element.value if element else 2.0, self.page, self.dcp, self.pp, raw)

    @cached_property
    def bytes_per_token(self) -> Known | None:
        """Stored bytes per token and rank of the layers that keep the whole context: by the shape, else by the printed
        size of the pool. Sliding-window layers have a pool and a row of their own."""
        config = self.facts.get("model_config", "")
        if self.shape is not None and config is not None and not self.shape.unsummed:
            element = self.element
            grade: Grade = "estimated" if element is None or element.grade == "estimated" else "derived"
            return _positive(Known(pools.full_bytes_per_token(self.shape, self.layout), grade, config.source))
        tokens, size = _positive(self.fact("kv_pool", "")), _positive(self.fact("kv_pool_gib", ""))
        if tokens and size:
            return Known(size.value * GIB / (tokens.value + self.page), "estimated", size.source)
        return None

    @property
    def window_tokens(self) -> int:
        """Tokens of the sliding-window pool, as printed or by the ratio; 0 without one."""
        tokens, printed = self.pool_tokens, self.fact("kv_pool", "swa")
        if not (self.shape and self.shape.sliding and tokens):
            return 0
        if printed is not None and printed.value > 0:
            return int(printed.value)
        return pools.sliding_tokens(int(tokens.value), self.window_ratio, self.page)

    @property
    def window_ratio(self) -> float:
        """Tokens of the sliding-window pool for each of the full one."""
        found = self.number("swa_full_tokens_ratio", 0.8)
        return found.value if found is not None and 0 < found.value <= 1 else 0.8

    @property
    def draft_bytes_per_token(self) -> Known | None:
        """Bytes per token and rank of the draft's pool as it is laid out now."""
        return self.draft_bytes(self.layout)

    def draft_bytes(self, layout: pools.Layout) -> Known | None:
        """The draft's bytes per token and rank under a layout; 0 without a draft, None where nothing tells.

        From its shape; else from its printed size, which only scales with the element.
        """
        if not self.has_draft:
            return Known(0.0, "derived", "no draft model")
        if self.draft_shape is not None:
            source = self.facts.get("model_config", "draft") or self.facts.get("model_config", "")
            value = pools.full_bytes_per_token(self.draft_shape, replace(layout, pp=1))
            return Known(value, "derived", source.source if source else "")
        tokens, size = self.fact("kv_pool", "draft") or self.fact("kv_pool", ""), self.fact("kv_pool_gib", "draft")
        if tokens and size:
            stored = size.value * GIB / (tokens.value + self.page)
            return Known(stored * layout.element / self.layout.element, "estimated", size.source)
        return None

    @property
    def pool_tokens(self) -> Known | None:
        """Tokens of one pool (one data-parallel rank), as printed."""
        found = self.fact("kv_pool", "") or self.fact("kv_pool", "full")
        return found if found is not None and found.value >= 1 else None

    @property
    def images_gib(self) -> float:
        """What the version takes out of the budget for multimodal models: a cache of embeddings, and a pool where
        their features travel over CUDA IPC (sglang 0.5.23 srt/mem_cache/kv_cache_configurator.py:202)."""
        if self.shape is None or self.shape.vision is None or not versions.multimodal_reserved(self.version):
            return 0.0
        mib = self._environment("SGLANG_VLM_CACHE_SIZE_MB", 100)
        if self.text("mm_feature_transport") in ("cuda_ipc", "cuda_vmm"):
            mib += self._environment("SGLANG_MM_FEATURE_CACHE_MB", 1024)
        return mib / 1024

    def _environment(self, name: str, default: int) -> float:
        found = Known.of(self.facts.get("env", name))
        return found.value if found is not None and 0 <= found.value <= 1 << 20 else default

    @property
    def rocm(self) -> bool:
        return re.search(r"\bAMD\b|\bMI\d{3}|Radeon|Instinct", self._cards) is not None

    @property
    def integrated(self) -> bool:
        """Whether the GPU's memory is the system's."""
        return re.search(r"\bGB10\b|Jetson|\bOrin\b|\bThor\b|Ryzen AI", self._cards) is not None

    @property
    def _cards(self) -> str:
        return " ".join(str(fact.value) for fact in self.facts.all("gpu_name"))

    # concurrency --------------------------------------------------------------------------------------------------

    @property
    def running_limit(self) -> Known | None:
        """Requests that may run in one pool: as the ready line says, else as typed over the data-parallel ranks."""
        printed = self.fact("running_limit")
        if printed is not None:
            return printed
        typed = self.number("max_running_requests")
        if typed is not None:
            return Known(int(typed.value) // self.limit_parts(self.attention_dp), "derived", typed.source)
        if self.algorithm:
            value = SPECULATIVE_DEFAULT_LIMIT // self.limit_parts(self.attention_dp)
            return Known(value, "derived", "default of speculative decoding")
        if self.pool_tokens and self.context_len:
            tokens = int(self.pool_tokens.value)
            value = min(pools.default_running_limit(tokens, self.context_len), tokens // 2)
            return Known(value, "derived", self.pool_tokens.source)
        return None

    @property
    def limit_is_default(self) -> bool:
        """Whether nobody typed the limit."""
        return self.typed("max_running_requests") is None

    @property
    def largest_graph(self) -> int | None:
        """Largest decode batch that may be captured: as set, else the card's default; what the limit on running
        requests leaves out of the capture comes in when the limit is raised. 0 without graphs."""
        if self.switch("disable_cuda_graph"):
            return 0
        setting = self.number("cuda_graph_max_bs")
        if setting is not None:
            return int(setting.value)
        return Card(self.card_mib.value, self.tp, self.pp).graph_max_bs if self.card_mib else None

    @property
    def tokens_per_request(self) -> Known | None:
        """Pool tokens that one running request holds, as observed under load."""
        direct = _positive(self.fact("tokens_per_request"))
        if direct is not None:
            return direct
        usage, running, pool = self.fact("usage_p50", ""), self.fact("running_p50"), self.pool_tokens
        if usage and running and pool and running.value > 0 and usage.value > 0:
            return Known(usage.value * pool.value / running.value, "derived", usage.source)
        return None

    @property
    def process_seen(self) -> bool | None:
        """Whether a look found the server's process; None where nobody looked for it."""
        found = self.facts.get("running")
        return None if found is None else str(found.value).lower() in ("true", "1", "yes")

    @property
    def free_now_gib(self) -> Known | None:
        """Free on the fullest GPU: as nvidia-smi shows it now, else as the ready line said; the smaller of the two.

        What nvidia-smi shows without the server, or above what its weights leave, is no memory that it could spare.
        """
        found = []
        free = self._shown_free
        if (
            free is not None
            and self.process_seen is not False
            and not (self.after_gib and free.value > self.after_gib.value)
        ):
            found.append(free)
        if (ready := self.fact("free_after_boot_gib")) is not None:
            found.append(ready)
        return min(found, key=lambda known: known.value, default=None)

    @property
    def _shown_free(self) -> Known | None:
        free = self.lowest("gpu_free_mib")
        return self._most_used if free is None else Known(free.value / 1024, free.grade, free.source)

    @property
    def _most_used(self) -> Known | None:
        total = self.card_mib
        used = [known for fact in self.facts.all("gpu_used_mib") if (known := Known.of(fact)) is not None]
        if not used or total is None:
            return None
        most = max(used, key=lambda known: known.value)
        return Known((total.value - most.value) / 1024, "derived", most.source)

    @property
    def card_mib(self) -> Known | None:
        return _positive(self.lowest("gpu_memory_mib"))


def _positive(known: Known | None) -> Known | None:
    """A figure that divides: nothing, or less, is no figure."""
    return known if known is not None and known.value > 0 else None
