"""What operators ask, and who answers: patterns over the plain question, first fit first.

Every pattern of a row must be found somewhere in the question, in whatever order its words stand; the groups of the
first are the answer's. A function that has nothing to say leaves the question to the next row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from agent.case import Case
from agent.models.playbook import chosen, operating, recorded, seen

Json = dict[str, Any]
NUMBER: Final = r"(\d+(?:[.,]\d+)?)"
OPTION_WORDS: Final = (
    "lmcache|ktransformers|cpu.?offload|mooncake|file backend|hf3fs|nixl|layer.?group|storage backend|write.?policy|"
    "io.?backend|mem.?layout"
)
FEWEST_SLOTS: Final = 8


@dataclass(frozen=True, slots=True)
class Ask:
    """A tool call whose result is the answer."""

    tool: str
    arguments: Json


Answer = str | Ask
Handler = Callable[[Case, re.Match[str]], Answer]


@dataclass(frozen=True, slots=True)
class Intent:
    patterns: tuple[re.Pattern[str], ...]
    handler: Handler

    def heard(self, question: str) -> re.Match[str] | None:
        """The match of the first pattern if all are found."""
        found = [pattern.search(question) for pattern in self.patterns]
        return found[0] if all(found) else None


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def _sum_of(what: str) -> Handler:
    """The sum that the number in the question is for."""

    def handler(_case: Case, found: re.Match[str]) -> Answer:
        return Ask("calculate", {"what": what, "value": _number(next(group for group in found.groups() if group))})

    return handler


def _lever(name: str) -> Handler:
    def handler(_case: Case, _found: re.Match[str]) -> Answer:
        return Ask("calculate", {"what": name})

    return handler


def _flag(_case: Case, found: re.Match[str]) -> Answer:
    return Ask("flag", {"name": found[1]})


def _bare_number(case: Case, found: re.Match[str]) -> Answer:
    """A number with nothing beside it: the value of the change, the limit in force, or another value for the change."""
    value = _number(found[1])
    if reason := chosen.why_this_value(case, found):
        return reason
    if value == case.facts.number("running_limit"):
        return recorded.why_limit(case, found)
    if 0 < value < 1:
        return Ask("calculate", {"what": "fraction", "value": value})
    flags = {each["flag"] for each in (case.advised.changes if case.advised else ())}
    if "--hicache-ratio" in flags and value < FEWEST_SLOTS:
        return Ask("calculate", {"what": "hicache_ratio", "value": value})
    if value >= FEWEST_SLOTS and value.is_integer():
        return Ask("calculate", {"what": "running_requests", "value": value})
    return ""


def _any(*patterns: str) -> str:
    return "|".join(patterns)


Rows = Iterator[tuple[Handler, str] | tuple[Handler, str, str] | tuple[Handler, str, str, str]]
_START: Final = r"\b(?:re-?start\w*|re-?boot\w*|boot\w*|start)\b"
_TIME: Final = r"\b(?:long|take\w*|cost\w*|minutes?|seconds?|eta|duration|time)\b"
_OF_A_FLAG: Final = r"exist|default|choice|mean|allowed|valid|what (?:is|does)|do(?:es)?\b"
_REQUESTS: Final = r"request|session|stream|client|connection|user|traffic|job"
_SPEED: Final = r"throughput|speed|performance"
_PLAIN_NUMBER: Final = rf"(?<![\w.-]){NUMBER}(?![\w.%]|\s*(?:gi?b|ranks?|gpus?)\b)"


def _on_the_change() -> Rows:
    """Undoing, losing, waiting, restarting, slowing down: what is asked before anything is typed."""
    back = r"(?:take|put|get) (?:it |this |that )?back"
    yield operating.rollback, _any(r"roll.?back|\bundo|revert|go back|back out", back, r"old (?:config|settings|value)")
    dead = r"(?:doesn't|does not|won't|will not|not) (?:come (?:back )?up|start|boot)"
    yield operating.rollback, _any(dead, r"fails? to start|gets? worse|goes wrong|breaks\b")
    ended = r"\b(?:lose\w*|lost|losing|drop\w*|kill\w*|abort\w*|cut off|in.?flight|interrupt\w*|drain\w*)\b"
    yield operating.lost, _any(ended, r"\bhappens? (?:to|with)\b"), _REQUESTS
    yield operating.no_restart, r"without (?:downtime|an? outage)|hot.?reload|on the fly|\blater\b|\btonight\b"
    yield operating.restart_cost, r"\b(?:down|offline|unavailable|unreachable)\b", r"long|be|time|how"
    yield operating.restart_cost, r"downtime|outage|back up\b|\beta\b"
    yield operating.restart_cost, _START, _TIME
    negative = r"\b(?:can't|cannot|without|no|not|avoid|live|hot|on the fly|instead of)\b"
    yield operating.no_restart, _START, _any(negative, r"\b(?:need|have to|must|requir\w*)\b")
    moment = r"\b(?:now|safe|okay|good (?:time|moment)|quiet|right away|risk\w*|possible|can|may)\b"
    yield operating.safe_now, _START, moment
    yield operating.safe_now, r"is (?:it|this|that) safe|safe to (?:apply|do)|apply (?:it )?now|now apply"
    yield operating.permanent, r"permanent|persist\w*|surviv\w*|(?:keep|stay|hold)s? after|only until"
    acted = r"\b(?:run|ran|execute\w*|touch\w*|change|changed|write|wrote|do|break)\b"
    yield operating.touched, r"\b(?:did|have) (?:you|it|sglscout)\b", acted
    yield operating.slower, r"\bslow\w*|latenc\w*|\bttft\b|\btpot\b|\bitl\b|time to first token"
    yield operating.slower, _SPEED, r"\b(?:will|worse|drop\w*|fall\w*|go|hurt\w*|affect\w*|suffer\w*|impact)\b"
    yield operating.slower, r"\brisk\w*|downsides?|drawbacks?|side.?effects?|trade.?offs?|\bcatch\b"
    yield operating.out_of_memory, r"\boom\b|out of memory|run out of", r"\b(?:will|would|can|could|after|not|it)\b"


def _with_numbers() -> Rows:
    """Flags by name and sums by number."""
    yield _flag, r"(--[a-z][a-z0-9-]+)", _OF_A_FLAG
    yield _sum_of("hicache_ratio"), rf"ratio\D{{0,12}}{NUMBER}|{NUMBER}x? ratio"
    yield _sum_of("hicache_size"), rf"hicache.?size\D{{0,8}}{NUMBER}"
    yield chosen.together, r"\b(?:both|together|combin\w*|and also|at once|plus|same time)\b"
    yield _sum_of("fraction"), rf"fraction\D{{0,12}}{NUMBER}|{NUMBER} (?:mem.?)?fraction"
    yield chosen.why_this_value, _PLAIN_NUMBER, r"why|where|how|what"
    yield _sum_of("running_requests"), rf"(?:max.running.requests|slots|running requests|run)\D{{0,12}}{NUMBER}"
    yield _sum_of("running_requests"), rf"{NUMBER} (?:requests|slots|parallel|concurrent|at once)"


def _on_options() -> Rows:
    """Levers, options and flags by name, also those that were not chosen."""
    spent = r"where.*(?:memory|vram|gi?b).*(?:go|gone|used|are|is)"
    yield _lever("gpu_memory"), _any(r"\b(?:other|missing|rest of).*\bgi?b\b", spent, r"step by step")
    rather = r"not (?:use|using|just)|instead of|wouldn't|won't .*help|better than"
    yield chosen.why_not, _any(r"\bwhy (?:not|no|don't|didn't|isn't)\b", rather)
    yield _lever("kv_dtype"), r"fp8|fp4|kv.?cache.?dtype|quanti[sz]\w* kv|kv quanti"
    yield _lever("dp_attention"), r"\bdp\b|data.parallel|dp.attention"
    yield _lever("fraction"), r"mem.?fraction|static fraction|\bfraction\b"
    yield _lever("dcp"), r"\bdcp\b|context.parallel"
    yield _lever("speculation"), r"specul|eagle|draft", r"without|drop|disable|turn|off|remove"
    yield _lever("levers"), r"levers|what else.*(?:try|turn|do)"
    yield _flag, r"(--[a-z][a-z0-9-]+)"
    yield chosen.option, rf"({OPTION_WORDS})"


def _on_the_case() -> Rows:
    """Proof, sources, certainty, what is missing, what comes next, who set what."""
    yield seen.evidence, r"\b(e\d{1,4})(?::(\d+))?\b"
    proof = r"show me.*(?:line|proof)|prove|proof|how do you know|where does it say|says who"
    yield recorded.log_line, _any(r"log ?lines?|which lines?", proof)
    yield seen.tasks, r"\btasks?\b", r"\b(?:id|ids|which|list|resume|continue)\b"
    read = r"what.*(?:did|was).*(?:look(?:ed)? at|read)"
    yield recorded.research, _any(r"research|which source|citation|in the (?:code|source)", read)
    yield recorded.certainty, r"certainty|confiden|\b(?:sure|certain)\b"
    yield recorded.missing, r"missing|not (?:checked|known)|what.*(?:need|collect|would settle|would decide)|unsure"
    after = r"check.*after|what.*(?:watch|expect|monitor)|metrics? (?:to|should)"
    yield operating.verify, _any(r"verify", after, r"how.*know.*(?:work|help)|did it (?:work|help)")
    parts = r"network|nccl|disk|cpu|swap|thermal|power|driver|cuda|infiniband|nvlink|pcie|tokenizer|dns|ulimit"
    yield recorded.suspect, rf"\b({parts})\b(?! graph)"
    yield operating.wall, r"\bnext\b|after that|and then|bottleneck"
    yield (
        operating.must_not,
        r"must (?:i )?not|should(?: i)? not|not (?:to )?do|avoid|dangerous|harm|don't do|mistakes?",
    )
    ram = r"(?:ram|396|host memory).*(?:run|serve|concurren|parallel)"
    yield chosen.hicache, _any(ram, r"(hicache|hierarchical)", r"(off-?load)")
    yield recorded.claims, r"\b(?:did|was|am) i\b|my claim|i said|what i believe"
    yield recorded.upgrade, r"upgrad|newer version|latest version|sglang bug|bug in"
    yield recorded.why_limit, r"limit|\b48\b", r"why|where|who|from|default|sets?"
    yield seen.since_when, r"since when|when (?:did|does|was|has)|how long (?:has|is it|ago)|what time|timeline"
    yield seen.affected, r"affect|impact|how (?:bad|many users)|who (?:felt|feels|notice)"
    terms = r"kv|token usage|retract|specul|eagle|graph|running limit|dp attention"
    yield seen.term, rf"what (?:is|are|does|means?) (?:an? |the )?((?:{terms})\w*[^?]*)\??$"
    yield _bare_number, _PLAIN_NUMBER, r"why|instead|what|and|only|just|try|go|to|can|could|about|enough|\?"
    typed = r"\bflags?\b|parameter|setting|\bapply\b|copy.?paste|commands?\b|the (?:patch|change|drop-in)|\bfix\b"
    yield operating.change, _any(r"what.*(?:change|do now|should i|recommend|would you do|can i do|to do)", typed)
    there = r"\b(?:running|up|alive|dead|healthy|there|crashed|serving)\b"
    yield seen.is_running, there, r"\b(?:sglang|server|service|unit|it|process)\b", r"\b(?:is|are|does|still)\b"
    yield recorded.why, r"\bwhy\b|\breasons?\b"
    yield chosen.options, r"option|alternativ|choices"


def _on_facts() -> Rows:
    """Single values by what people call them."""
    yield seen.fact("version"), r"version"
    yield seen.fact("served_model", "model_path"), r"\bmodel\b"
    yield seen.fact("gpu_free_mib", "gpu_used_mib"), r"\bvram\b|gpu memory"
    ram = r"(?:how much|free|available|total).*\b(?:ram|memory)\b|\bram\b|host memory"
    yield seen.fact("mem_available_bytes", "mem_total_bytes"), ram
    yield seen.fact("gpu_count", "gpu_name", "gpu_memory_mib"), r"gpus?\b|cards?\b"
    yield seen.fact("context_len"), r"context"
    yield seen.fact("accept_len_p50"), r"accept"
    yield seen.fact("retractions", "retracted_requests", "retraction_gain_p50"), r"retract"
    yield seen.fact("cached_share", "cached_tokens"), r"hit rate|cached|prefix"
    each = r"tokens? per request|per request|long are.*(?:requests|prompts)|request size"
    yield seen.fact("tokens_per_request", "tokens_per_request_p95"), each
    yield seen.fact("running_p50", "queue_p50", "usage_p50"), r"\bload\b|how busy"
    yield seen.fact("queue_p50", "queue_p95", "queue_max"), r"queue|wait"
    yield seen.fact("usage_p50", "usage_p95", "usage_max"), r"usage|full"
    yield seen.fact("running_p50", "running_max", "running_limit"), r"running|parallel|concurren|how many run"
    yield seen.fact("kv_pool", "kv_pool_gib"), r"pool|tokens?\b|kv cache"
    yield seen.fact("gen_throughput_p50"), rf"{_SPEED}|tokens/s"
    yield seen.fact("numa_nodes", "numa_free_bytes"), r"numa"
    yield recorded.cause, r"cause|summar|tl;?dr|in short|what is wrong|diagnos|problem|ticket|my boss|explain|limits"


def _intents() -> Iterator[Intent]:
    for rows in (_on_the_change, _with_numbers, _on_options, _on_the_case, _on_facts):
        for handler, *patterns in rows():
            yield Intent(tuple(re.compile(pattern) for pattern in patterns), handler)


INTENTS: Final = tuple(_intents())
