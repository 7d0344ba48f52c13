"""How a version shares the static budget between recurrent state and KV, step by step as the server does it."""

from __future__ import annotations

from dataclasses import dataclass

from tools.capacity import versions
from tools.capacity.concurrency import slots_per_request
from tools.capacity.deployment import SPECULATIVE_DEFAULT_LIMIT, Deployment


@dataclass(frozen=True, slots=True)
class StateRule:
    """The settings that the split reads, for one pool.

    `typed` are slots set by hand; `limit` is the limit on running requests that somebody or speculative decoding set.
    `between_steps` are the states that speculative decoding keeps of each request, `per_request` the slots that one
    request may pin. `padded`: the padding slot is taken out of the budget; `joint`: states between steps come out of
    the state's share, before that out of the whole.
    """

    each: int
    typed: int | None = None
    limit: int | None = None
    radix_off: bool = False
    ratio: float = 0.9
    between_steps: int = 0
    per_request: int = 3
    padded: bool = False
    joint: bool = False

    def split(self, budget: float) -> tuple[int, float]:
        """Slots, and what is left of a budget in bytes for KV (sglang 0.5.9 …/model_runner_kv_cache_mixin.py:151,
        0.5.23 srt/mem_cache/kv_cache_configurator.py:3293)."""
        if self.between_steps and not self.joint:
            budget -= self.each * (self.limit or 0) * self.between_steps
        slots = self._slots(budget)
        kept = (slots + self.padded) * self.each
        if self.between_steps and self.joint:
            by_limit = slots if self.radix_off and self.typed is None else slots // self.per_request
            requests = min(by_limit, self.limit) if self.limit is not None else by_limit
            kept += self.each * (requests + self.padded) * self.between_steps
        return slots, budget - kept

    def _slots(self, budget: float) -> int:
        if self.typed is not None:
            return self.typed
        if self.radix_off and self.limit is not None:
            return self.limit
        share = budget * self.ratio / (1 + self.ratio)
        steps = self.between_steps if self.joint else 0
        share -= self.each * (1 + steps) if self.padded else 0
        return max(0, int(share // (self.each * (1 + steps / self.per_request))))


def rule_of(server: Deployment, each: int, speculative: bool = True) -> StateRule:
    """The rule of a server for states of `each` bytes."""
    parts = server.limit_parts(server.attention_dp)
    typed, limit = server.number("max_mamba_cache_size"), server.number("max_running_requests")
    ratio = server.number("mamba_full_memory_ratio", 0.9)
    drafting = speculative and bool(server.algorithm)
    most = int(limit.value) if limit else (SPECULATIVE_DEFAULT_LIMIT if drafting else None)
    return StateRule(
        each=each,
        typed=None if typed is None else max(0, int(typed.value) // parts),
        limit=None if most is None else max(0, most // parts),
        radix_off=server.switch("disable_radix_cache"),
        ratio=ratio.value if ratio and ratio.value > 0 else 0.9,
        between_steps=server.draft_tokens if drafting else 0,
        per_request=max(1, slots_per_request(server)),
        padded=versions.state_slot_reserved(server.version),
        joint=versions.states_between_steps_in_share(server.version),
    )
