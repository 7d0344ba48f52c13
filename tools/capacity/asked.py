"""What was asked of the server: its arguments as resolved or typed, and how the ranks share the model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from tools.capacity import versions
from tools.capacity.sums import Known
from transcripts.facts import Fact, Facts

_ALIASES: Mapping[str, tuple[str, ...]] = {
    "tp_size": ("--tp-size", "--tensor-parallel-size", "--tp"),
    "attn_dp_size": ("--attn-dp-size",),
    "dp_size": ("--dp-size", "--data-parallel-size", "--dp"),
    "pp_size": ("--pp-size", "--pipeline-parallel-size", "--pp"),
    "dcp_size": ("--dcp-size", "--decode-context-parallel-size"),
    "nnodes": ("--nnodes",),
    "max_running_requests": ("--max-running-requests",),
    "mem_fraction_static": ("--mem-fraction-static",),
}
_TRUE = ("true", "1", "yes", "on")
_LARGEST_SIZE = 1 << 16


class Asked:
    """Server arguments by destination, and the parallelism that they make. What is not set, or cannot be, is its
    default."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    # what was asked for -------------------------------------------------------------------------------------------

    def setting(self, name: str) -> Fact | None:
        """A server argument by destination: as resolved by the server where it printed that, else as typed."""
        found = self.facts.get("server_arg", name)
        if found is not None and str(found.value) not in ("None", ""):
            return found
        return self.typed(name)

    def typed(self, name: str) -> Fact | None:
        """A server argument as the operator typed it."""
        for flag in _ALIASES.get(name, ("--" + name.replace("_", "-"),)):
            if (found := self.facts.get("flag", flag)) is not None:
                return found
        return None

    def number(self, name: str, default: float | None = None) -> Known | None:
        """A numeric setting, or the version's default as a derived figure."""
        known = Known.of(self.setting(name))
        if known is None and default is not None:
            return Known(default, "derived", "default")
        return known

    def whole(self, name: str, default: int) -> int:
        known = self.number(name)
        possible = known is not None and min(default, 1) <= known.value <= _LARGEST_SIZE
        return int(known.value) if known is not None and possible else default

    def switch(self, name: str) -> bool:
        found = self.setting(name)
        return found is not None and str(found.value).lower() in _TRUE

    def text(self, name: str) -> str:
        found = self.setting(name)
        return "" if found is None else str(found.value)

    @cached_property
    def version(self) -> str:
        return self.facts.text("version")

    # parallelism --------------------------------------------------------------------------------------------------

    @property
    def tp(self) -> int:
        return self.whole("tp_size", 1)

    @property
    def pp(self) -> int:
        return self.whole("pp_size", 1)

    @property
    def dcp(self) -> int:
        return self.whole("dcp_size", 1)

    @property
    def attention_dp(self) -> int:
        """Groups of ranks that attend for themselves: `--attn-dp-size`, before it `--dp-size` with the switch."""
        own = self.whole("attn_dp_size", 1)
        if own > 1:
            return own
        return self.whole("dp_size", 1) if self.switch("enable_dp_attention") else 1

    @property
    def replicas(self) -> int:
        """Whole copies of the model side by side."""
        spelled_old = self.attention_dp > 1 and self.whole("attn_dp_size", 1) == 1
        return 1 if spelled_old else self.whole("dp_size", 1)

    @property
    def attn_tp(self) -> int:
        """Ranks that share the attention of one request."""
        return max(1, self.tp // self.attention_dp)

    @property
    def groups(self) -> int:
        """Pools with requests of their own."""
        return self.attention_dp * self.replicas

    def limit_parts(self, attention_dp: int) -> int:
        """Over how many pools the version divides `--max-running-requests`; replicas are left out of it later."""
        return attention_dp * (self.replicas if not versions.has_attention_dp_flag(self.version) else 1)

    @property
    def ranks_here(self) -> int:
        """Ranks on this host: each has a pool on its GPU and, with HiCache, one in host memory."""
        return max(1, self.tp * self.pp * self.replicas // self.whole("nnodes", 1))
