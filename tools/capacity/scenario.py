"""One set of settings, evaluated whole: levers that are pulled together are summed together, not multiplied."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from tools.capacity import graphs, pools, versions
from tools.capacity.budget import (
    FRACTION_STEP,
    HEADROOM_FLOOR_GIB,
    budget_sum,
    round_fraction_down,
    smallest_sum,
    withheld_gib,
)
from tools.capacity.concurrency import slots_per_request
from tools.capacity.deployment import Deployment
from tools.capacity.host import host_sums, memory_limit
from tools.capacity.host_pools import Kept, kept
from tools.capacity.missing import missing_layout, missing_memory, missing_shape
from tools.capacity.shape import Heads, ModelShape
from tools.capacity.state_budget import rule_of
from tools.capacity.sums import GB, GIB, MIB, Missing, Sum, weakest
from transcripts.facts import Grade


@dataclass(frozen=True, slots=True)
class Settings:
    """What a plan sets. `limit` is the flag's value over all pools (None: as the version's default has it);
    `ratio` 0 with `size_gb` 0 is no HiCache, a size (decimal GB per rank) wins over the ratio; `freed_gib` is what a
    lever gives back to the reserve; `cap` is the typed `--max-total-tokens` of one pool, None where there is none."""

    fraction: float
    element: float
    dp: int
    dcp: int
    limit: int | None
    speculative: bool
    ratio: float
    freed_gib: float = 0.0
    size_gb: float = 0.0
    cap: int | None = None

    @property
    def hicache(self) -> bool:
        return self.ratio > 0 or self.size_gb > 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the settings give. Tokens over all pools; `running` is None where no load was observed.

    `gpu_free_gib` is what stays free after all graphs, None where it was never observed; `gpu_free_least_gib` is that
    if the captures of more requests grow as the largest batch does, the same where none come in.
    """

    settings: Settings
    tokens: int
    tokens_per_pool: int
    running: int | None
    binds: str
    prefix_tokens: int
    host_gb: float
    host_limit_gb: float
    host_fits: bool | None
    largest_ratio: float
    gpu_free_gib: float | None
    gpu_free_least_gib: float | None
    gpu_fits: bool
    pool_gib: float
    grade: Grade
    sums: tuple[Sum, ...]


class Scenarios:
    """Evaluates settings against one server; knows what stands now."""

    def __init__(self, server: Deployment) -> None:
        self.server = server
        self.missing = _missing(server)
        self.withheld_gib = 0.0 if self.missing else withheld_gib(server)
        self._correction = 1.0
        if not self.missing:
            self._correction = self._measured()

    def _measured(self) -> float:
        """What the printed pool differs from the sum by: free memory is printed to 0.01 GiB, the pool to the token."""
        printed = self.server.pool_tokens
        summed = self.evaluate(self.now).tokens_per_pool
        if printed is None or not summed or self.server.number("max_total_tokens"):
            return 1.0
        factor = printed.value / summed
        return factor if 0.9 < factor < 1.1 else 1.0

    @property
    def now(self) -> Settings:
        server = self.server
        fraction, element = server.fraction, server.element
        tiered = server.switch("enable_hierarchical_cache")
        ratio = server.number("hicache_ratio", 2.0) if tiered else None
        typed, cap = server.number("max_running_requests"), server.number("max_total_tokens")
        return Settings(
            fraction=fraction.value if fraction else 0.0,
            element=element.value if element else 2.0,
            dp=server.attention_dp,
            dcp=server.dcp,
            limit=None if typed is None or (server.algorithm and server.limit_is_default) else int(typed.value),
            speculative=bool(server.algorithm),
            ratio=ratio.value if ratio else 0.0,
            size_gb=server.whole("hicache_size", 0) if tiered else 0,
            cap=None if cap is None else int(cap.value),
        )

    @cached_property
    def present(self) -> Outcome:
        """What the settings of now give."""
        return self.evaluate(self.now)

    def evaluate(self, settings: Settings) -> Outcome:
        """The whole sum for one set of settings."""
        server = self.server
        shape = server.shape
        assert shape is not None
        attn_tp = max(1, server.tp // settings.dp)
        layout = replace(server.layout, attn_tp=attn_tp, element=settings.element, dcp=settings.dcp)
        rest, sums = self._rest(settings, shape)
        tokens, slots = self._tokens(settings, shape, layout, rest)
        tokens = int(tokens * self._correction + 1e-6)
        tokens = min(tokens, tokens if settings.cap is None else settings.cap) // layout.page * layout.page
        groups = self._groups(settings)
        running, binds = self._running(settings, tokens, slots)
        cell = pools.full_bytes_per_token(shape, layout)
        here = kept(server, layout, tokens, cell, slots, settings.speculative)
        known = server.fact("mem_available_bytes") is not None
        limit = memory_limit(server)[0] if known else 0
        largest = here.largest_ratio(limit / server.ranks_here) if tokens > 0 else 0.0
        host, rows = self._host(settings, here)
        free, least = self._free(settings, shape, layout, tokens)
        lacking = self.table_lacks_gib(settings, tokens)
        total = tokens * groups
        sums.append(
            Sum(
                "tokens",
                "pools * floor(budget / bytes_per_token)",
                {"pools": groups, "budget_gib": rest / GIB, "bytes_per_token": self._cell(settings, shape, layout)},
                total,
                "tokens",
                weakest(entry.grade for entry in sums),
                tuple(dict.fromkeys(source for entry in sums for source in entry.sources)),
                source_line=versions.source_line(server.version, "budget"),
            )
        )
        if settings.hicache and total:
            sums += host_sums(server, here, here.on_host(settings.ratio, settings.size_gb), settings.size_gb)
        return Outcome(
            settings=settings,
            tokens=total,
            tokens_per_pool=tokens,
            running=None if running is None else running * groups,
            binds=binds,
            prefix_tokens=max(total, rows * groups) if total else 0,
            host_gb=host / GB,
            host_limit_gb=limit / GB,
            host_fits=(host <= limit if known else None) if settings.hicache else True,
            largest_ratio=largest,
            gpu_free_gib=free,
            gpu_free_least_gib=least,
            gpu_fits=tokens > 0
            and lacking <= 0
            and (free is None or free >= HEADROOM_FLOOR_GIB or self._no_worse(free, settings, tokens)),
            pool_gib=cell / settings.dcp * tokens / GIB,
            grade=weakest(entry.grade for entry in sums),
            sums=tuple(sums),
        )

    def _host(self, settings: Settings, here: Kept) -> tuple[float, int]:
        """Bytes of host memory over the ranks of this host, and tokens that one rank keeps there."""
        if not settings.hicache:
            return 0.0, 0
        hosted = here.on_host(settings.ratio, settings.size_gb)
        return float(sum(pool.bytes for pool in hosted) * self.server.ranks_here), hosted[0].rows

    def held_per_request(self) -> float | None:
        held = self.server.tokens_per_request
        return None if held is None else held.value

    def _no_worse(self, free: float, settings: Settings, tokens: int) -> bool:
        """Whether a server below the headroom stays as it is. A higher limit takes more: what graphs of larger batches
        add is known to a least only."""
        now, limit = self.server.free_now_gib, self.server.running_limit
        raised = (
            settings.limit is not None and limit is not None and self.limit_per_pool(settings, tokens) > limit.value
        )
        return now is not None and free >= now.value - 0.06 and not raised

    def table_lacks_gib(self, settings: Settings, tokens: int) -> float:
        """What the request table alone takes beyond all that the fraction leaves beside the pool, where nobody saw what
        is free after the start; 0 or less where it has room."""
        server, before = self.server, self.server.before_gib
        if server.free_now_gib is not None or before is None or settings.cap is not None or not server.context_len:
            return 0.0
        rows = self.limit_per_pool(settings, tokens)
        table = pools.request_table_bytes(rows, server.context_len, server.draft_tokens)
        return table / GIB - before.value * (1 - settings.fraction)

    def why_no_pool(self, settings: Settings, whole: bool) -> str:
        """What the weights take of the fraction, and with `whole` from which one on there is a pool and what more of it
        costs; empty where that is not summed."""
        floor, before = smallest_sum(self.server), self.server.before_gib
        if floor is None or before is None or settings.dp != self.server.attention_dp:
            return ""
        text = f": the weights take {floor.value:.3f} of it"
        first = round_fraction_down(floor.value) + FRACTION_STEP
        if not whole:
            return text
        if first + 0.01 >= 1:
            return f"{text}, and no fraction leaves one"
        tokens, more = (self.evaluate(replace(settings, fraction=first + up)).tokens for up in (0.0, 0.01))
        return (
            f"{text}; --mem-fraction-static {first:g} is the first step that leaves one, of {tokens:,} tokens, and "
            f"each 0.01 more adds {more - tokens:,} and takes {0.01 * before.value:.2f} GiB from graphs and activations"
        )

    def _groups(self, settings: Settings) -> int:
        """Pools with requests of their own; replicas stay as they are."""
        return settings.dp * self.server.replicas

    def _rest(self, settings: Settings, shape: ModelShape) -> tuple[float, list[Sum]]:
        """Budget in bytes: what the pool has now, moved by the fraction and by weights that are no longer divided."""
        server = self.server
        budget, before = budget_sum(server), server.before_gib
        assert budget is not None
        assert before is not None
        rest = budget.value + before.value * (settings.fraction - (server.fraction or before).value)
        sums = [budget]
        draft = server.fact("weights_gib", "draft")
        if draft and server.has_draft and not settings.speculative and versions.draft_in_budget(server.version):
            rest += draft.value
        now_tp, then_tp = server.attn_tp, max(1, server.tp // settings.dp)
        if then_tp != now_tp:
            elements = float(shape.attention_weight_elements)
            each, grade = attention_bytes_per_element(server)
            extra = elements * each * (1 / then_tp - 1 / now_tp) / GIB
            config = server.facts.get("model_config", "")
            rest -= extra
            if settings.speculative and versions.draft_in_budget(server.version):
                rest -= self._draft_weights_repeated(replace(server.layout, attn_tp=then_tp))
            sums.append(
                Sum(
                    "attention_weights_repeated",
                    "elements * bytes * (1 / ranks_then - 1 / ranks_now) / 2^30",
                    {"elements": elements, "bytes": each, "ranks_then": then_tp, "ranks_now": now_tp},
                    extra,
                    "GiB",
                    grade,
                    (config.source if config else "",),
                    source_line=versions.source_line(server.version, "dp_attention"),
                )
            )
        return max(0.0, rest) * GIB, sums

    def _cell(self, settings: Settings, shape: ModelShape, layout: pools.Layout) -> float:
        draft = self.server.draft_bytes(layout) if settings.speculative else None
        charged = draft.value if draft else 0.0
        return pools.budget_bytes_per_token(shape, layout, self.server.version, charged)

    def _tokens(
        self, settings: Settings, shape: ModelShape, layout: pools.Layout, rest: float
    ) -> tuple[int, int | None]:
        """Tokens of one pool, and state slots where there are any."""
        slots = None
        if shape.state:
            each = shape.state.bytes_per_request(layout.attn_tp)
            slots, rest = rule_of(self.server, each, settings.speculative).split(rest)
        cell = self._cell(settings, shape, layout)
        if shape.sliding:
            sliding = pools.sliding_bytes_per_token(shape, layout)
            return pools.sliding_split(rest, cell, sliding, self.server.window_ratio, layout.page)[0], slots
        return pools.tokens_in(rest, cell, layout.page) * settings.dcp, slots

    def _running(self, settings: Settings, tokens: int, slots: int | None) -> tuple[int | None, str]:
        """Requests that run in one pool, and what binds."""
        held = self.held_per_request()
        if held is None:
            return None, "unknown: no load was observed"
        walls = {"pool": int(tokens / held + 1e-6), "slots": self.limit_per_pool(settings, tokens)}
        if slots is not None:
            walls["state slots"] = slots // slots_per_request(self.server)
        binds = min(walls, key=lambda name: walls[name])
        return walls[binds], binds

    def limit_per_pool(self, settings: Settings, tokens: int) -> int:
        """The limit on running requests of one pool, as set or as the version's defaults have it."""
        parts = self.server.limit_parts(settings.dp)
        if settings.limit is not None:
            return max(1, settings.limit // parts)
        now = self.server.running_limit
        if settings.speculative and now is not None and self.server.algorithm:
            return max(1, int(now.value) * self.server.limit_parts(self.server.attention_dp) // parts)
        return min(pools.default_running_limit(max(1, tokens), self.server.context_len or 1), tokens // 2)

    def limit_that_fits(self, settings: Settings, wanted: int) -> int:
        """The largest limit of one pool, up to `wanted`, that leaves the GPUs their headroom; the present one at least.

        A server below the headroom already gets no more.
        """
        parts = self.server.limit_parts(settings.dp)

        def fits(limit: int) -> bool:
            outcome = self.evaluate(replace(settings, limit=limit * parts))
            return outcome.gpu_fits or outcome.gpu_free_gib is None

        low = min(wanted, self.limit_per_pool(self.present.settings, self.present.tokens_per_pool))
        if fits(wanted):
            return wanted
        high = wanted
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low

    def _draft_weights_repeated(self, layout: pools.Layout) -> float:
        """GiB of the draft's attention weights that fewer ranks share."""
        draft = self.server.draft_shape
        if draft is None:
            return 0.0
        return draft.attention_weight_elements * 2.0 * (1 / layout.attn_tp - 1 / self.server.attn_tp) / GIB

    def _free(
        self, settings: Settings, shape: ModelShape, layout: pools.Layout, tokens: int
    ) -> tuple[float | None, float | None]:
        """What stays free on a GPU, at most and at least: what is free now, less what the settings take out of the
        reserve."""
        server = self.server
        free, before, fraction = server.free_now_gib, server.before_gib, server.fraction
        if free is None or before is None or fraction is None:
            return None, None
        left = free.value + settings.freed_gib
        now, then, tokens_now = server.draft_bytes_per_token, server.draft_bytes(layout), server.pool_tokens
        held = server.bytes_per_token
        if tokens_now and held and self.withheld_gib:  # the pool is what is typed, not what the fraction leaves
            cell = pools.full_bytes_per_token(shape, layout) / settings.dcp
            left -= (cell * tokens - held.value / server.dcp * tokens_now.value) / GIB
        else:
            left -= before.value * (settings.fraction - fraction.value)
        if settings.speculative and now and then and tokens_now and not versions.draft_in_budget(server.version):
            left -= (then.value * tokens - now.value * tokens_now.value) / GIB
            left -= self._draft_weights_repeated(layout)
        rows_now = server.running_limit
        if rows_now is None or not server.context_len:
            return left, left
        rows = self.limit_per_pool(settings, tokens)
        left -= (rows - rows_now.value) * pools.request_table_bytes(1, server.context_len, server.draft_tokens) / GIB
        growth = graphs.growth_in_pool(server, rows, speculative=settings.speculative)
        if growth is not None:
            return left - growth.low_gib, left - growth.high_gib
        largest = server.largest_graph or 0
        left -= (min(rows, largest) - min(rows_now.value, largest)) * graphs.MIB_PER_REQUEST * MIB / GIB
        return left, left


def attention_bytes_per_element(server: Deployment) -> tuple[float, Grade]:
    """Bytes per element of the attention weights, from the checkpoint's quantization block.

    A 4-bit checkpoint that leaves the attention alone says so in its list of what is not converted.
    """
    config = server.config() or {}
    text = config.get("text_config") if isinstance(config.get("text_config"), dict) else config
    block = config.get("quantization_config") or (text or {}).get("quantization_config")
    if not isinstance(block, dict):
        return (server.shape.element_bytes if server.shape else 2.0), "derived"
    spared = block.get("ignore") or block.get("modules_to_not_convert") or block.get("exclude_modules") or []
    if any("attn" in str(name) for name in spared):
        return 2.0, "derived"
    method = str(block.get("quant_method") or block.get("quant_algo") or "").lower()
    if "fp8" in method or "fp8" in str(block.get("fmt")):
        return 1.0, "derived"
    return 2.0, "estimated"


def divides_attention(shape: ModelShape, tp: int, parts: int) -> bool:
    """Whether attention can run in `parts` groups of tp/parts ranks."""
    if parts < 1 or tp % parts:
        return False
    heads_fit = shape.attention_heads % (tp // parts) == 0
    if isinstance(shape.full, Heads):
        ranks = tp // parts
        return heads_fit and (shape.full.kv_heads % ranks == 0 or ranks % shape.full.kv_heads == 0)
    return heads_fit


def _missing(server: Deployment) -> tuple[Missing, ...]:
    found = []
    if server.shape is None:
        found.append(missing_shape())
    elif server.shape.unsummed:
        found.append(missing_layout(server.shape))
    if server.before_gib is None or server.after_gib is None:
        found.append(missing_memory())
    if server.fraction is None:
        found.append(Missing("the static fraction", ("server_arg",), "the server_args line of the current start"))
    return tuple(found)
