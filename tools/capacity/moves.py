"""The single moves of a server: what each sets, what it risks, and why it may be no good. None is evaluated here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from tools.capacity import versions
from tools.capacity.attention_dp import attention_dp_unknown, embedding_repeated, has_attention_dp
from tools.capacity.budget import fraction_sum, headroom_gib, round_fraction_down
from tools.capacity.lever import Change, Move
from tools.capacity.scenario import Outcome, Scenarios, Settings, divides_attention
from tools.capacity.shape import Latent
from tools.capacity.sums import GIB, MIB

_CHUNK_MIB_PER_TOKEN = 1.5
_SMALLEST_CHUNK = 2048
_NATIVE_FP8 = (8, 9)


def _with_dcp(dcp: int, settings: Settings) -> Settings:
    return replace(settings, dcp=dcp)


class Moves:
    """Makes the moves that the version's flags and the server's shape allow; most methods give none or several."""

    def __init__(self, scenarios: Scenarios, has: Callable[[str], bool]) -> None:
        self._scenarios = scenarios
        self._server = scenarios.server
        self._has = has
        self._now = scenarios.present

    def slots(self) -> list[Move]:
        """The limit on running requests, from what a request holds, at 0.9 of the pool."""
        held = self._scenarios.held_per_request()
        if held is None or not self._has("--max-running-requests"):
            return []
        wanted = self.limit_for(self._now)
        present = self._scenarios.limit_per_pool(self._now.settings, self._now.tokens_per_pool)
        if wanted <= present:
            return []
        most = self._scenarios.limit_that_fits(self._now.settings, wanted)
        # Where the GPUs have memory for no more than now, the row says so.
        return [self.limit(most if most > present else wanted, self._now.settings.dp)]

    def limit_for(self, outcome: Outcome) -> int:
        held = self._scenarios.held_per_request() or 1.0
        return max(1, round(0.9 * outcome.tokens_per_pool / held))

    def limit(self, per_pool: int, pools: int) -> Move:
        value = per_pool * self._server.limit_parts(pools)
        typed = self._server.typed("max_running_requests")
        return Move(
            "more slots",
            (("--max-running-requests", None if typed is None else str(typed.value), str(value)),),
            lambda settings: replace(settings, limit=value),
            "more requests decode at once: each one gets slower; past the pool, requests are retracted",
        )

    def uncapped(self) -> list[Move]:
        """Without the typed cap on tokens, where it is what ends the pool."""
        cap, shape = self._now.settings.cap, self._server.shape
        if cap is None or shape is None or shape.sliding or not self._scenarios.withheld_gib:
            return []
        return [
            Move(
                "no cap on tokens",
                (("--max-total-tokens", str(cap), None),),
                lambda settings: replace(settings, cap=None),
                "the pool takes what the static fraction leaves: find out why the cap was typed",
            )
        ]

    def fraction(self) -> list[Move]:
        if self._scenarios.withheld_gib:
            return []  # the cap ends the pool, whatever the fraction leaves
        now = self._server.fraction
        largest = fraction_sum(self._server)
        if now is None or largest is None:
            return []
        if largest.value <= now.value + 1e-9:
            step = round(now.value + 0.01, 4)
            why_not = "not supported: " + largest.line()
            return [replace(self._fraction_move(step, "larger static fraction"), why_not=why_not, unsupported=True)]
        return [self._fraction_move(largest.value, "larger static fraction")]

    def _fraction_move(self, value: float, name: str) -> Move:
        return Move(
            name,
            (("--mem-fraction-static", f"{self._now.settings.fraction:g}", f"{value:g}"),),
            lambda settings: replace(settings, fraction=value),
            f"{headroom_gib(self._server):g} GiB stay for prefill activations: load-test the longest prompts",
        )

    def element(self) -> list[Move]:
        """FP8 for a cache of 2-byte elements, of the kind the GPU has."""
        if self._now.settings.element != 2.0 or not self._has("--kv-cache-dtype"):
            return []
        capability = self._server.facts.text("compute_capability").split(".")
        parts = tuple(int(part) for part in capability if part.isdigit())
        dtype = "fp8_e5m2" if parts and parts < _NATIVE_FP8 else "fp8_e4m3"
        cache = "MLA cache" if isinstance(self._server.shape and self._server.shape.full, Latent) else "cache"
        risk = (
            f"not known whether the attention backend takes an FP8 {cache} on this GPU; quality: compare answers on "
            "your own prompts; without scales in the checkpoint they are 1.0"
        )
        return [
            Move(
                "FP8 KV cache",
                (("--kv-cache-dtype", self._server.text("kv_cache_dtype") or None, dtype),),
                lambda settings: replace(settings, element=1.0),
                risk,
            )
        ]

    def dp(self) -> Iterator[Move]:
        server, shape = self._server, self._server.shape
        flag = "--attn-dp-size" if versions.has_attention_dp_flag(server.version) else "--enable-dp-attention"
        if shape is None or server.pp > 1 or not self._has(flag):
            return
        if server.algorithm in ("STANDALONE", "NGRAM") or has_attention_dp(server) is False:
            return
        # Without a flag of its own DP attention takes over --dp-size, so replicas would have to go.
        if server.replicas > 1 and not versions.has_attention_dp_flag(server.version):
            return
        for dp in range(2, min(server.tp, shape.attention_heads) + 1):
            if dp != self._now.settings.dp and divides_attention(shape, server.tp, dp):
                yield self._dp_move(dp)

    def _dp_move(self, dp: int) -> Move:
        now = self._server.attention_dp
        changes: tuple[Change, ...] = (("--attn-dp-size", str(now) if now > 1 else None, str(dp)),)
        if not versions.has_attention_dp_flag(self._server.version):
            before = self._server.typed("dp_size")
            on: tuple[Change, ...] = () if now > 1 else (("--enable-dp-attention", None, "true"),)
            changes = (*on, ("--dp-size", None if before is None else str(before.value), str(dp)))
        return Move(
            f"DP attention, dp {dp}",
            changes,
            lambda settings: replace(settings, dp=dp),
            "one request is limited to one rank's pool, prefixes are cached per rank, a lone request gets slower; "
            f"padding of DP batches is not in this sum{embedding_repeated(self._server, dp)}",
            attention_dp_unknown(self._server),
            uncertain=has_attention_dp(self._server) is None,
        )

    def dcp(self) -> Iterator[Move]:
        server, shape = self._server, self._server.shape
        if shape is None or not self._has("--dcp-size") or not versions.has_dcp(server.version) or not shape.latent:
            return
        risk = "more communication in each decode step; not every attention backend has it"
        if server.has_draft and server.draft_bytes_per_token is None:
            risk += "; the draft's cache stands on every rank and, its shape unknown, is not in this sum"
        for dcp in (2, 4, 8, 16):
            if dcp <= server.attn_tp and server.attn_tp % dcp == 0 and dcp != server.dcp:
                yield Move(
                    f"decode context parallel, dcp {dcp}",
                    (("--dcp-size", str(server.dcp) if server.dcp > 1 else None, str(dcp)),),
                    partial(_with_dcp, dcp),
                    risk,
                    "HiCache is on, and takes no draft model under DCP"
                    if self._now.settings.hicache and server.has_draft
                    else "",
                )

    def less_reserve(self) -> Iterator[Move]:
        """Levers that give memory back to the reserve, and raise the fraction by what they give."""
        yield from self._smaller_chunk()
        yield from self._fewer_graphs()
        yield from self._no_speculation()

    def _freeing(self, name: str, changes: tuple[Change, ...], freed: float, risk: str, off: bool = False) -> Move:
        before = self._server.before_gib
        free = self._server.free_now_gib
        now = self._now.settings.fraction
        spare = freed + (min(0.0, free.value - headroom_gib(self._server)) if free else 0.0)
        raised = max(now, round_fraction_down(now + max(0.0, spare) / (before.value if before else 1.0)))
        up: tuple[Change, ...] = (("--mem-fraction-static", f"{now:g}", f"{raised:g}"),) if raised > now else ()

        def apply(settings: Settings) -> Settings:
            fraction = max(settings.fraction, raised)
            return replace(
                settings,
                fraction=fraction,
                freed_gib=settings.freed_gib + freed,
                speculative=settings.speculative and not off,
            )

        return Move(
            name, (*changes, *up), apply, risk, "" if up else "what it frees is less than a step of the fraction"
        )

    def _smaller_chunk(self) -> Iterator[Move]:
        """Half the chunk needs half the activations; no more comes back than prefill was seen to take."""
        server = self._server
        chunk = server.fact("chunked_prefill_size") or server.number("chunked_prefill_size")
        ready, now = server.fact("free_after_boot_gib"), server.free_now_gib
        if chunk is None or chunk.value < 2 * _SMALLEST_CHUNK:
            return
        half = int(chunk.value) // 2
        seen = (ready.value - now.value) / 2 if ready and now else 0.0
        freed = min((chunk.value - half) * _CHUNK_MIB_PER_TOKEN * MIB / GIB, max(0.0, seen))
        yield self._freeing(
            "half the prefill chunk",
            (("--chunked-prefill-size", str(int(chunk.value)), str(half)),),
            freed,
            "prefill gets slower; what it frees is half of what the load was seen to take: measure it",
        )

    def _fewer_graphs(self) -> Iterator[Move]:
        """Graphs for half of the batches that are captured now."""
        server = self._server
        taken, largest, limit = server.fact("graph_gib", "target"), server.largest_graph, server.running_limit
        if taken is None or not largest or limit is None or not self._has("--cuda-graph-max-bs"):
            return
        half = int(min(largest, limit.value)) // 2
        if half < 1:
            return
        yield self._freeing(
            "graphs for half the batches",
            (("--cuda-graph-max-bs", str(largest), str(half)),),
            taken.value / 2,
            f"batches over {half} decode without graphs, much slower; what it frees is an estimate",
        )

    def _no_speculation(self) -> Iterator[Move]:
        if not self._server.algorithm or not self._server.has_draft:
            return
        taken = [self._server.fact(name, scope) for name, scope in (
            ("weights_gib", "draft"), ("kv_pool_gib", "draft"), ("graph_gib", "draft"), ("graph_gib", "draft extend"),
        )]  # fmt: skip
        # Where the draft is in the budget its weights and pool go to the pool by themselves.
        counted = taken[2:] if versions.draft_in_budget(self._server.version) else taken
        freed = sum(part.value for part in counted if part)
        held = self._scenarios.held_per_request()
        parts = self._server.limit_parts(self._now.settings.dp)
        present = self._scenarios.limit_per_pool(self._now.settings, self._now.tokens_per_pool)
        limit = max(present, self.limit_for(self._now) if held else 0)
        move = self._freeing(
            "speculative decoding off",
            (
                ("--speculative-algorithm", self._server.algorithm, None),
                ("--max-running-requests", None, str(limit * parts)),
            ),
            freed,
            "every request decodes slower where the draft was good; without a limit of its own the request table "
            "would grow to 2,048 rows",
            off=True,
        )
        yield replace(
            move,
            apply=lambda settings: replace(move.apply(settings), limit=limit * parts),
            why_not=move.why_not if any(taken) else "what the draft takes was not observed: its lines of the start say",
        )

    def hicache(self, ratio: float) -> Move:
        server = self._server
        risk = "no running request is served from host memory; pinning takes minutes at the start"
        if server.has_draft and not versions.at_least(server.version, "0.5.12"):
            risk += "; the draft's KV is not restored: watch accept length"
        changes: tuple[Change, ...] = (
            ("--enable-hierarchical-cache", None, "true"),
            ("--hicache-ratio", server.text("hicache_ratio") or None, f"{ratio:g}"),
        )
        if self._now.settings.hicache:
            changes = changes[1:]
        if self._now.settings.size_gb:
            changes = (*changes, ("--hicache-size", f"{self._now.settings.size_gb:g}", None))  # it wins over a ratio
        return Move(
            f"HiCache, ratio {ratio:g}", changes, lambda settings: replace(settings, ratio=ratio, size_gb=0.0), risk
        )
