"""Facts as a weigher asks for them: flags under any spelling, versions as numbers, figures with their sources."""

from __future__ import annotations

import re
from functools import cached_property

from transcripts.facts import Fact, Facts
from transcripts.vocabulary import LOAD

# Spellings of one option in SGLang's own parser, the name used here first (sglang 0.5.9 srt/server_args.py).
SPELLINGS = {
    "--tp-size": ("--tp", "--tensor-parallel-size"),
    "--dp-size": ("--dp", "--data-parallel-size"),
    "--ep-size": ("--ep", "--expert-parallel-size"),
    "--pp-size": ("--pp", "--pipeline-parallel-size"),
    "--model-path": ("--model",),
    "--cuda-graph-max-bs": ("--cuda-graph-max-bs-decode",),
    "--speculative-draft-model-path": ("--speculative-draft-model",),
    "--enable-hierarchical-cache": ("--enable-hicache",),
    "--mamba-scheduler-strategy": ("--mamba-radix-cache-strategy",),
}
_WARM_UP_TOKENS = 512  # the server's own first requests are far shorter
_ABBREVIATION = 9  # argparse takes prefixes; shorter ones are more likely another option


class View:
    """A read-only look at the facts of one case.

    `idle` is true where the server was seen with nothing to do: its load figures are then left out, since a warm-up
    request at start says nothing about a busy hour. One user alone is work: prompts were read.
    """

    def __init__(self, facts: Facts) -> None:
        facts = with_gauges(facts)
        busiest = max((facts.number(name) or 0.0 for name in ("running_max", "queue_max", "running_p95")), default=0.0)
        read = (facts.number("new_tokens") or 0.0) + (facts.number("cached_tokens") or 0.0)
        self.idle = "running_max" in facts and busiest == 0 and read < _WARM_UP_TOKENS
        self.facts = Facts(fact for fact in facts if fact.name not in LOAD) if self.idle else facts

    def flag_fact(self, name: str) -> Fact | None:
        """The option as typed, under any of its spellings; the last one typed counts."""
        spellings = (name, *SPELLINGS.get(name, ()))
        found = [
            fact
            for fact in self.facts.all("flag")
            if fact.scope in spellings or (name.startswith(fact.scope) and len(fact.scope) >= _ABBREVIATION)
        ]
        return found[-1] if found else None

    def typed(self, name: str) -> str:
        """What was typed for an option, empty when it was not."""
        fact = self.flag_fact(name)
        return "" if fact is None else str(fact.value)

    def all_typed(self, name: str) -> tuple[str, ...]:
        """Every value typed for an option, as when several launches were tried."""
        spellings = (name, *SPELLINGS.get(name, ()))
        return tuple(str(fact.value) for fact in self.facts.all("flag") if fact.scope in spellings)

    def on(self, name: str) -> bool:
        """Whether the option was typed, or is in effect as a switch."""
        if self.flag_fact(name) is not None:
            return True
        return self.facts.text("server_arg", name.removeprefix("--").replace("-", "_")).lower() == "true"

    def setting(self, name: str) -> str:
        """The value in effect: as resolved by the server, else as typed; empty when neither is known."""
        resolved = self.facts.get("server_arg", name.removeprefix("--").replace("-", "_"))
        if resolved is not None and str(resolved.value) not in ("None", ""):
            return str(resolved.value)
        return self.typed(name)

    def value(self, name: str) -> float | None:
        """The setting as a number."""
        return as_number(self.setting(name))

    def env(self, name: str) -> str:
        return self.facts.text("env", name)

    def number(self, name: str, scope: str | None = None) -> float | None:
        return self.facts.number(name, scope)

    def sources(self, *names: str) -> tuple[str, ...]:
        """Where facts of these names stand, in order, without repeats."""
        found = (self.facts.get(name) for name in names)
        return tuple(dict.fromkeys(fact.source for fact in found if fact is not None))

    def flag_sources(self, *names: str) -> tuple[str, ...]:
        found = (self.flag_fact(name) for name in names)
        return tuple(dict.fromkeys(fact.source for fact in found if fact is not None))

    @cached_property
    def version(self) -> tuple[int, ...] | None:
        """SGLang's version as numbers, None when it is not known."""
        found = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", self.facts.text("version"))
        return None if found is None else tuple(int(part or 0) for part in found.groups())

    def at_least(self, *version: int) -> bool:
        return self.version is not None and self.version >= version

    def before(self, *version: int) -> bool:
        return self.version is not None and self.version < version

    @cached_property
    def speculative(self) -> bool:
        return bool(self.setting("--speculative-algorithm")) or self.has("message", "draft_loaded")

    @cached_property
    def hierarchical(self) -> bool:
        return self.on("--enable-hierarchical-cache") or any(
            fact.scope.startswith("--hicache-") for fact in self.facts.all("flag")
        )

    @property
    def schedulers(self) -> int:
        """Data-parallel ranks that each admit requests of their own: log lines count for one, the flag for all."""
        dp = self.value("--dp-size") if self.on("--enable-dp-attention") else None
        return max(1, int(dp or 1))

    @property
    def running_limit(self) -> float | None:
        """The limit as `--max-running-requests` takes it, over all schedulers; the ready line prints one's part."""
        part = self.number("running_limit")
        return None if part is None else part * self.schedulers

    @cached_property
    def usage(self) -> float | None:
        """Token usage under load, the largest of what is known of the full pool."""
        for name in ("usage_p95", "usage_p50", "usage_max"):
            found = self.facts.number(name, "") if self.facts.get(name, "") else None
            if found is not None:
                return found
        return None

    def has(self, name: str, scope: str) -> bool:
        return self.facts.get(name, scope) is not None


# Gauges of /metrics and the load figures that they stand for (sglang 0.5.9 srt/metrics/collector.py).
_GAUGES = (
    ("num_running_reqs", "running", ""),
    ("num_queue_reqs", "queue", ""),
    ("token_usage", "usage", ""),
    ("full_token_usage", "usage", "full"),
    ("swa_token_usage", "usage", "swa"),
    ("mamba_usage", "usage", "state"),
)


def with_gauges(facts: Facts) -> Facts:
    """The same facts, with load figures from gauges where no load line was seen."""
    if any(name in facts for name in ("decode_lines", "prefill_lines", "running_max", "queue_max", "usage_max")):
        return facts
    found: list[Fact] = []
    for metric, name, scope in _GAUGES:
        gauge = facts.get("metric", metric)
        if gauge is None:
            continue
        unit = "fraction" if name == "usage" else "requests"
        found += [
            Fact(f"{name}_{suffix}", gauge.value, unit, gauge.grade, gauge.source, scope)
            for suffix in ("p50", "p95", "max")
        ]
    pool = facts.get("metric", "max_total_num_tokens")
    if pool is not None and "kv_pool" not in facts:
        found.append(Fact("kv_pool", pool.value, "tokens", pool.grade, pool.source))
    return Facts((*facts, *found)) if found else facts


def as_number(text: str) -> float | None:
    """A number as people type it in options: 32768, 0.9, 1_000, 64k; None for anything else."""
    found = re.fullmatch(r"\s*([-+]?\d[\d_,]*(?:\.\d+)?)\s*([kKmM]?)\s*", text)
    if found is None:
        return None
    scale = {"": 1, "k": 1000, "m": 1_000_000}[found.group(2).lower()]
    return float(found.group(1).replace("_", "").replace(",", "")) * scale
