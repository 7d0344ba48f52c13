"""The boot sequence of one start: weights, KV pools, graphs, the summary line, host pools.

Lines are told apart by their order on each rank, since target and draft print the same words (sglang 0.5.9
srt/model_executor/model_runner.py:898, srt/mem_cache/memory_pool.py:651, model_runner_kv_cache_mixin.py:744,
srt/speculative/eagle_worker_v2.py:261). Up to 0.5.12 a draft is loaded after the target's pool; from 0.5.16 both are
loaded before either pool is made (srt/managers/scheduler.py:820), so loads and pools are counted separately.
The log's GB is GiB for the device and decimal for host memory (srt/mem_cache/memory_pool_host.py:187).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tools.host.parsers.lines import Line
from tools.host.parsers.page import Page
from transcripts.facts import Grade

_F: Final = r"(-?\d+(?:\.\d+)?)"
_AVAILABLE: Final = re.compile(rf"avail mem={_F} GB")
_USED: Final = re.compile(rf"mem usage={_F} GB")
_TYPE: Final = re.compile(r"type=(\w+)")
_DRAFT_CLASS: Final = re.compile(r"eagle|mtp|nextn|draft|dflash|dspark|medusa", re.I)
_KV: Final = re.compile(
    r"(?:(\S[^.]{0,60}?) )?KV Cache (is allocated|VA upper bound)\. (?:dtype: (\S+), )?#tokens: (\d+), "
    rf"(?:K size: {_F} GB, V size: {_F} GB|KV size: {_F} GB)"
)
_KV_LATER: Final = re.compile(
    rf"Post-capture KV sizing: (draft )?KV cache allocated\. dtype: (\S+), #tokens: (\d+), KV size: {_F} GB"
)
_SLIDING: Final = re.compile(r"full_layer_tokens=(\d+), swa_layer_tokens=(\d+)")
_SLIDING_ALONE: Final = re.compile(r"(?:DSV4 pool sizes: full=(\d+), swa=|\(all SWA\)\. swa_layer_tokens=)(\d+)")
_PROFILED: Final = re.compile(r"larger than the profiled value (\d+)")
_RATIO: Final = re.compile(rf"HiCache auto-sizing: ratio {_F} -> {_F}")
_HEADROOM: Final = re.compile(rf"HiCache memory headroom: host {_F} GiB(?:, cgroup {_F} GiB)?")
_STATE: Final = re.compile(
    rf"max_mamba_cache_size: (\d+), conv_state size: {_F}GB, ssm_state size: {_F}GB"
    rf"(?: intermediate_ssm_state_cache size: {_F}GB)?(?: intermediate_conv_window_cache size: {_F}GB)?"
)
_STATE_CAP: Final = re.compile(
    r"capped to (\d+) by the mamba state cache(?: \(max_mamba_cache_size=(\d+), (\d+) state slots)?"
)
_REDUCED: Final = re.compile(r"max_running_requests was reduced from the requested (\d+) to (\d+)")
_LOWERED: Final = re.compile(r"max_running_requests (\d+) -> (\d+)")
_GRAPH: Final = re.compile(r"Capture (?:([\w ]{0,60}?) )?(?:piecewise )?\w{1,20} graph (begin|end)", re.I)
_GRAPH_SIZES: Final = re.compile(r"(?:graph bs |bs=)\[([\d, ]+)\]")
_SUMMARY: Final = {
    "running_limit": re.compile(r"\bmax_running_requests=(\d+)"),
    "context_len": re.compile(r"\bcontext_len=(\d+)"),
    "chunked_prefill_size": re.compile(r"\bchunked_prefill_size=(-?\d+)"),
    "max_prefill_tokens": re.compile(r"\bmax_prefill_tokens=(\d+)"),
}
_SUMMARY_TOKENS: Final = re.compile(r"\bmax_total_num_tokens=(\d+)")
_SUMMARY_FREE: Final = re.compile(rf"available_[gc]pu_mem={_F} GB")
_HOST: Final = re.compile(
    r"Allocating (?:(\S.{0,60}?) hierarchical KV host pool: (\d+) tokens, )?"
    rf"{_F} GB host memory"
    r"(?: for (?:hierarchical )?(.{0,80}?)(?: cache)?(?: \(|\.|$))?"
)
_DTYPE: Final = re.compile(r"Using KV cache dtype: (\S+)")
_RESET: Final = re.compile(r"Max running requests is reset to (\d+)")
_DP_CHUNK: Final = re.compile(r"chunked prefill size is adjusted (?:from \d+ )?to (\d+)")
_BYTES: Final = re.compile(rf"bytes_per_full_token={_F}")


@dataclass(frozen=True, slots=True)
class _Seen:
    value: float | int
    line: int
    at: str
    grade: Grade = "observed"


@dataclass
class _Rank:
    """Where one rank stands in the sequence."""

    loads: int = 0
    begun: _Seen | None = None
    pools: int = 0
    pool_open: bool = False
    sliding: tuple[int, int] | None = None
    summed: bool = False
    prefix_scopes: dict[str, int] = field(default_factory=dict)


@dataclass
class Boot:
    """One start of the server, filled line by line, then written out with the minimum over ranks.

    `whole` says that its first line was seen, so that a missing ready line means something.
    """

    began_line: int = 0
    began_at: str = ""
    whole: bool = False
    ready_line: int = 0
    ready_at: str = ""
    _values: dict[tuple[str, str], dict[str, _Seen]] = field(default_factory=dict)
    _texts: dict[tuple[str, str], tuple[str, int, str]] = field(default_factory=dict)
    _ranks: dict[str, _Rank] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not (self._values or self._texts or self.ready_line)

    def has(self, name: str) -> bool:
        return any(key[0] == name for key in self._values)

    def limit(self) -> float | None:
        """max_running_requests of the summary line, the smallest over DP ranks."""
        seen = self._values.get(("running_limit", ""), {})
        return min((float(one.value) for one in seen.values()), default=None)

    def absorb(self, other: Boot) -> None:
        """Take over what another holds and this one lacks."""
        for key, seen in other._values.items():
            self._values.setdefault(key, seen)
        for text_key, text in other._texts.items():
            self._texts.setdefault(text_key, text)

    # -- lines ----------------------------------------------------------------------------------------------------

    def weight_begin(self, line: Line) -> None:
        rank = self._rank(line)
        free = _number(_AVAILABLE, line.text)
        rank.begun = None if free is None else _Seen(free, line.number, line.at)
        if rank.pool_open:
            rank.pools, rank.pool_open = rank.pools + 1, False

    def weight_end(self, line: Line) -> None:
        free, used = _number(_AVAILABLE, line.text), _number(_USED, line.text)
        if free is None and used is None:  # 0.5.23 says again that real weights came after the graphs, without figures
            return
        rank = self._rank(line)
        if rank.summed:  # the summary is printed after every model is there: these weights are another start's
            self._ranks[line.ranks] = rank = _Rank(begun=rank.begun)
        kind = _TYPE.search(line.text)
        looks_draft = kind is not None and _DRAFT_CLASS.search(kind[1]) is not None
        index = max(rank.loads, 1) if looks_draft else rank.loads
        rank.loads = index + 1
        scope = _nth(index)
        if rank.begun is not None:
            self._keep("weights_before_gib", scope, line, rank.begun)
        self._number("weights_after_gib", scope, line, free)
        self._number("weights_gib", scope, line, used)
        if kind is not None:
            self._texts[("model_class", scope)] = (kind[1], line.number, line.at)
        rank.begun = None
        self.summary(line)

    def kv_pool(self, line: Line) -> None:
        match = _KV.search(line.text)
        if match is None:
            self._kv_pool_later(line)
            return
        label, how, dtype, tokens, k_size, v_size, kv_size = match.groups()
        rank = self._rank(line)
        rank.pool_open = True
        scope = self._pool_scope(rank, label or "", int(tokens))
        if how != "is allocated":  # addresses reserved; the real size comes in a later line
            scope = f"{scope} upper bound".strip()
        self._number("kv_pool", scope or "line", line, int(tokens))
        if kv_size is not None:
            self._number("kv_pool_gib", scope, line, float(kv_size))
        else:
            both = _Seen(round(float(k_size) + float(v_size), 2), line.number, line.at, "derived")
            self._keep("kv_pool_gib", scope, line, both)
        if dtype:
            self._texts[("kv_dtype", "draft" if rank.pools else "")] = (dtype, line.number, line.at)

    def _kv_pool_later(self, line: Line) -> None:
        match = _KV_LATER.search(line.text)
        if match is None:
            return
        scope = "draft" if match[1] else ""
        self._number("kv_pool", scope or "line", line, int(match[3]))
        self._number("kv_pool_gib", scope, line, float(match[4]))
        self._texts[("kv_dtype", scope)] = (match[2], line.number, line.at)
        if not scope:
            self._number("pool_end_gib", "after resize", line, _number(_AVAILABLE, line.text))

    def _pool_scope(self, rank: _Rank, label: str, tokens: int) -> str:
        """Which pool a KV line speaks of: the first group of lines is the target's, later ones a draft's."""
        base = _nth(rank.pools)
        part = label.strip().lower()
        if not part and rank.sliding is not None and not base:
            full, sliding = rank.sliding
            if full != sliding and tokens in (full, sliding):
                part = "full" if tokens == full else "swa"
            else:  # equal sizes: the sliding pool is made first
                part = "full" if rank.prefix_scopes.get("swa") else "swa"
            rank.prefix_scopes[part] = 1
        return f"{base} {part}".strip()

    def pool_end(self, line: Line) -> None:
        rank = self._rank(line)
        self._number("pool_end_gib", _nth(rank.pools), line, _number(_AVAILABLE, line.text))
        rank.pools, rank.pool_open, rank.sliding = rank.pools + 1, False, None

    def sliding(self, line: Line) -> None:
        match = _SLIDING.search(line.text)
        if match is None:
            return
        full, sliding = int(match[1]), int(match[2])
        if not line.text.startswith("Post-capture"):
            self._rank(line).sliding = (full, sliding)
        if sliding:
            self._number("kv_pool", "full", line, full)
            self._number("kv_pool", "swa", line, sliding)

    def sliding_alone(self, line: Line) -> None:
        """Pools that no `KV Cache` line need follow (0.5.16 srt/model_executor/pool_configurator.py:770)."""
        match = _SLIDING_ALONE.search(line.text)
        if match is None:
            return
        if match[1]:
            self._number("kv_pool", "full", line, int(match[1]))
        self._number("kv_pool", "swa", line, int(match[2]))

    def dist_init(self, line: Line) -> None:
        self._number("dist_init_gib", "", line, _number(_USED, line.text))

    def profiled(self, line: Line) -> None:
        match = _PROFILED.search(line.text)
        if match is not None:
            self._number("pool_profiled", "", line, int(match[1]))

    def host_ratio(self, line: Line) -> None:
        """The server's own choice and what it rests on (0.5.23 srt/mem_cache/hicache_auto_size.py:114)."""
        if match := _RATIO.search(line.text):
            self._number("host_ratio_chosen", "", line, float(match[2]))
        if match := _HEADROOM.search(line.text):
            self._number("host_headroom_gib", "host", line, float(match[1]))
            if match[2]:
                self._number("host_headroom_gib", "cgroup", line, float(match[2]))

    def state(self, line: Line) -> None:
        match = _STATE.search(line.text)
        if match is None:
            return
        self._number("state_slots", "", line, int(match[1]))
        size = sum(float(part) for part in match.groups()[1:] if part)
        self._keep("state_pool_gib", "", line, _Seen(round(size, 2), line.number, line.at, "derived"))

    def state_cap(self, line: Line) -> None:
        match = _STATE_CAP.search(line.text)
        if match is None:
            return
        self._number("state_cap", "", line, int(match[1]))
        if match[2]:
            self._number("state_slots", "", line, int(match[2]))
            self._number("state_cap", "slots_per_request", line, int(match[3]))

    def reduced(self, line: Line) -> None:
        match = _REDUCED.search(line.text) or _LOWERED.search(line.text)
        if match is not None:
            self._number("running_requested", "", line, int(match[1]))
            self._number("running_reduced", "", line, int(match[2]))

    def graph(self, line: Line) -> None:
        match = _GRAPH.search(line.text)
        if match is None:
            self.graph_sizes(line)
            return
        scope = _graph_scope(match[1] or "", line.text)
        if match[2].lower() == "end":
            self._number("graph_gib", scope, line, _number(_USED, line.text))
            self._number("graph_end_gib", scope, line, _number(_AVAILABLE, line.text))
        self.graph_sizes(line, scope)

    def graph_sizes(self, line: Line, scope: str = "target") -> None:
        match = _GRAPH_SIZES.search(line.text)
        if match is None or scope != "target":
            return
        sizes = [int(part) for part in match[1].split(",") if part.strip()]
        rank = self._rank(line)
        if sizes and not (rank.loads > 1 and self.has("graph_max_bs")):
            self._number("graph_max_bs", "", line, max(sizes))
            self._texts[("graph_sizes", "")] = (" ".join(map(str, sizes)), line.number, line.at)

    def summary(self, line: Line) -> None:
        """The line of tp_rank 0 when its scheduler is up, one a DP rank (0.5.9 srt/managers/scheduler.py:618)."""
        tokens = _SUMMARY_TOKENS.search(line.text)
        if tokens is None and "max_running_requests=" not in line.text:
            return
        if tokens is not None:
            self._number("kv_pool", "", line, int(tokens[1]))
            self._rank(line).summed = True
        for name, pattern in _SUMMARY.items():
            found = pattern.search(line.text)
            if found is not None:
                self._number(name, "", line, int(found[1]))
        self._number("free_after_boot_gib", "", line, _number(_SUMMARY_FREE, line.text))

    def host_pool(self, line: Line) -> None:
        match = _HOST.search(line.text)
        if match is None:
            return
        name = (match[1] or match[4] or "").strip().lower()
        scope = "" if name in ("", "kv", "kv cache") else name.removesuffix(" cache")
        self._number("host_pool_gb", scope, line, float(match[3]), twice=True)
        if match[2]:
            self._number("host_pool_tokens", scope, line, int(match[2]))

    def kv_dtype(self, line: Line) -> None:
        match = _DTYPE.search(line.text)
        if match is not None:
            self._texts.setdefault(("kv_dtype", ""), (match[1], line.number, line.at))

    def spec_reset(self, line: Line) -> None:
        match = _RESET.search(line.text)
        if match is not None:
            self._number("spec_default_reset", "", line, int(match[1]))

    def dp_chunk(self, line: Line) -> None:
        match = _DP_CHUNK.search(line.text)
        if match is not None:
            self._number("chunk_adjusted", "", line, int(match[1]))

    def bytes_per_token(self, line: Line) -> None:
        self._number("kv_bytes_per_token", "", line, _number(_BYTES, line.text))

    def ready(self, line: Line) -> None:
        self.ready_line, self.ready_at = line.number, line.at

    # -- writing out ----------------------------------------------------------------------------------------------

    def write(self, page: Page, *, served: bool) -> None:
        """All facts of this start: of free memory and pools the least of the ranks, of what was taken the most.

        A server that was `served` decode lines by is ready even if the line that says so was cut off.
        """
        for (name, scope), (text, number, at) in self._texts.items():
            page.add(name, text, number, scope=scope, at=at)
        for (name, scope), seen in self._values.items():
            if (name, scope) == ("kv_pool", "line"):
                if ("kv_pool", "") in self._values:
                    continue
                scope = ""
            self._write_ranks(page, name, scope, seen)
        self._write_sums(page)
        if self.ready_line:
            page.add("ready", True, self.ready_line, at=self.ready_at)
        elif self.whole and not served:
            page.add("ready", False, self.began_line, at=self.began_at)

    def _write_ranks(self, page: Page, name: str, scope: str, seen: dict[str, _Seen]) -> None:
        most = name in ("weights_gib", "graph_gib", "host_pool_gb", "state_pool_gib", "dist_init_gib")
        choose: Callable[..., _Seen] = max if most else min
        chosen = choose(seen.values(), key=lambda one: one.value)
        if len({one.value for one in seen.values()}) > 1:
            for rank, one in seen.items():
                if rank:
                    both = f"{scope} {rank}".strip()
                    page.add(name, one.value, one.line, scope=both, at=one.at, grade=one.grade)
        page.add(name, chosen.value, chosen.line, scope=scope, at=chosen.at, grade=chosen.grade)

    def _write_sums(self, page: Page) -> None:
        """Sums over pools and ranks: a sliding-window model's KV size, host memory of all ranks."""
        full, sliding = (self._values.get(("kv_pool_gib", part)) for part in ("full", "swa"))
        if full and sliding and ("kv_pool_gib", "") not in self._values:
            one = min(full.values(), key=lambda item: item.value)
            other = min(sliding.values(), key=lambda item: item.value)
            page.add("kv_pool_gib", round(one.value + other.value, 2), one.line, at=one.at, grade="derived")
        pools = [(scope, seen) for (name, scope), seen in self._values.items() if name == "host_pool_gb"]
        if pools:
            ranks = max(len(seen) for _, seen in pools)
            last = max((one for _, seen in pools for one in seen.values()), key=lambda item: item.line)
            total = sum(one.value for _, seen in pools for one in seen.values())
            page.add("host_pool_ranks", ranks, last.line, at=last.at)
            page.add("host_pool_total_gb", round(total, 2), last.line, at=last.at, grade="derived")

    # -- keeping --------------------------------------------------------------------------------------------------

    def _rank(self, line: Line) -> _Rank:
        return self._ranks.setdefault(line.ranks, _Rank())

    def _number(self, name: str, scope: str, line: Line, value: float | None, *, twice: bool = False) -> None:
        if value is not None:
            self._keep(name, scope, line, _Seen(value, line.number, line.at), twice=twice)

    def _keep(self, name: str, scope: str, line: Line, seen: _Seen, *, twice: bool = False) -> None:
        ranks = self._values.setdefault((name, scope), {})
        key = line.ranks
        if twice and key in ranks:  # unprefixed lines of several ranks, or a second pool of one rank
            key = f"{key} #{len(ranks)}".strip()
        ranks[key] = seen


def _nth(index: int) -> str:
    """Scope of the n-th model on a rank: the target has none, then `draft`, `draft 2`."""
    return ("", "draft")[index] if index < 2 else f"draft {index}"


def _graph_scope(words: str, text: str) -> str:
    words = words.strip().lower().removesuffix(" piecewise").strip()
    if "piecewise" in text.lower() or "prefill" in words:
        return f"{'draft' if 'draft' in words else 'target'} prefill"
    if "extend" in words:
        return "draft extend"
    return "draft" if "draft" in words else "target"


def _number(pattern: re.Pattern[str], text: str) -> float | None:
    match = pattern.search(text)
    return None if match is None else float(match[1])
