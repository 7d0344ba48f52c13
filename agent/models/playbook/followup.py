"""Follow-ups about a case, without a model: what is asked is recognised, a tool works it out, the case is cited.

An intent is a pattern and a function of the case; it answers at once from what is recorded, or names the tool call that
will bring the answer. What no intent fits is not answered, and that is said together with what can be.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from agent.case import Case
from agent.grounding import referenced
from agent.model import Reply, Request
from agent.models.playbook import recorded
from agent.models.playbook.answer import cited
from transcripts.records import Call

Json = dict[str, Any]
OPTION_WORDS: Final = (
    "lmcache|ktransformers|cpu.?offload|mooncake|file backend|hf3fs|nixl|layer.?group|storage backend|write.?policy|"
    "io.?backend|mem.?layout"
)
QUESTION_WORDS: Final = 12
NUMBER: Final = r"(\d+(?:[.,]\d+)?)"


@dataclass(frozen=True, slots=True)
class Ask:
    """A tool call whose result is the answer."""

    tool: str
    arguments: Json


Answer = str | Ask
Handler = Callable[[Case, re.Match[str]], Answer]


@dataclass(frozen=True, slots=True)
class Intent:
    pattern: re.Pattern[str]
    handler: Handler


_ANOTHER_LOOK: Final = re.compile(
    r"look (?:again|anew|once more)|re-?(?:check|diagnose)|(?:busy|under load) (?:now|again)|now (?:it is |it's )?busy",
    re.IGNORECASE,
)


def asks_for_another_look(question: str) -> bool:
    """Whether the host is to be looked at anew before anything is answered."""
    return bool(_ANOTHER_LOOK.search(question))


_ASKING: Final = re.compile(
    r"(?:why|how|what|whats|which|who|when|where|can|could|will|would|is|are|does|do|did|should|may|must|and|but|so)\b",
    re.IGNORECASE,
)


def is_question(line: str) -> bool:
    """Whether a line asks about a case rather than telling what hurts."""
    return bool(_ASKING.match(line.strip())) and len(line.split()) <= QUESTION_WORDS


def next_reply(request: Request) -> Reply:
    """The answer to the operator's last question, or the tool call that brings it."""
    case = request.case
    question = case.follow_up
    brought = _brought(request)
    if brought is not None:
        return Reply(text=_resting(brought, case))
    answer = _answer(case, question)
    if isinstance(answer, Ask):
        call = Call(id=_call_id(case, answer.tool), name=answer.tool, arguments=json.dumps(answer.arguments))
        return Reply(calls=(call,), finish="calls")
    return Reply(text=answer) if answer else Reply(text=CANNOT, finish="unanswered")


def _answer(case: Case, question: str) -> Answer:
    text = " ".join(question.lower().split())
    for intent in INTENTS:
        found = intent.pattern.search(text)
        if found is not None:
            answer = intent.handler(case, found)
            if answer:
                return answer
    return ""


def _call_id(case: Case, tool: str) -> str:
    return f"ask_{case.fresh['said']}_{tool}"


def _brought(request: Request) -> str | None:
    """The result of the call that was made for this question, if it was made."""
    beginning = f"ask_{request.case.fresh['said']}_"
    for message in reversed(request.messages):
        if message["role"] == "tool" and message["tool_call_id"].startswith(beginning):
            return str(message["content"])
        if message["role"] == "user":
            return None
    return None


def _resting(brought: str, case: Case) -> str:
    """A tool's text as an answer; one about the source rests on the tree of the version that the host told."""
    version = case.facts.get("version")
    if referenced(brought) or version is None:
        return brought
    return "\n".join(cited(line, [version.source], case) for line in brought.splitlines() if line.strip())


CANNOT: Final = (
    "There is no answer to that from this case: nothing that was looked at tells it, or the playbook does not know "
    "the words. It answers about the cause, the evidence, options, sums, flags, the change and what it costs, how to "
    "verify it and how to go back. A model at an endpoint (OPENAI_BASE_URL) answers freely from the same case."
)


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def _ratio(_case: Case, found: re.Match[str]) -> Answer:
    return Ask("calculate", {"what": "hicache_ratio", "value": _number(found[1])})


def _size(_case: Case, found: re.Match[str]) -> Answer:
    return Ask("calculate", {"what": "hicache_size", "value": _number(found[1])})


def _slots(_case: Case, found: re.Match[str]) -> Answer:
    return Ask("calculate", {"what": "running_requests", "value": _number(found[1])})


def _memory(_case: Case, _found: re.Match[str]) -> Answer:
    return Ask("calculate", {"what": "gpu_memory"})


def _lever(name: str) -> Handler:
    def handler(_case: Case, _found: re.Match[str]) -> Answer:
        return Ask("calculate", {"what": name})

    return handler


def _flag(_case: Case, found: re.Match[str]) -> Answer:
    return Ask("flag", {"name": found[1]})


_ASKED_OF_A_FLAG: Final = r"(?:exist|default|choice|mean|allowed|valid|what (?:is|does))"


def _intents() -> Iterator[tuple[str, Handler]]:
    yield rf"{_ASKED_OF_A_FLAG}.*?(--[a-z][a-z0-9-]+)", _flag
    yield rf"(--[a-z][a-z0-9-]+).*{_ASKED_OF_A_FLAG}", _flag
    yield rf"ratio\D{{0,12}}{NUMBER}|{NUMBER}x? ratio", _ratio
    yield rf"hicache.?size\D{{0,8}}{NUMBER}", _size
    yield rf"(?:max.running.requests|slots|running requests|run)\D{{0,12}}{NUMBER}", _slots
    yield (
        r"(?:restart|reboot|boot)\w*\b.*\b(?:cost|long|take)|(?:how long|cost).*\b(?:restart|start)",
        recorded.restart_cost,
    )
    yield r"(?:can(?:'|no)?t|cannot|without|no|not)\b.*\brestart|restart.*(?:later|tonight)", recorded.no_restart
    yield (
        r"\b(?:other|missing|rest of).*\bgi?b\b|where.*(?:memory|vram|gi?b).*(?:go|gone|used|are|is)|step by step",
        _memory,
    )
    yield r"fp8|fp4|kv.?cache.?dtype|quanti[sz]ed? kv", _lever("kv_dtype")
    yield r"\bdp\b|data.parallel|dp.attention", _lever("dp_attention")
    yield r"mem.?fraction|static fraction|raise the fraction", _lever("fraction")
    yield r"\bdcp\b|context.parallel", _lever("dcp")
    yield r"(?:without|drop|disable|turn off).*(?:spec|eagle|draft)", _lever("speculation")
    yield r"all.*levers|what else.*(?:try|turn)|levers", _lever("levers")
    yield r"(--[a-z][a-z0-9-]+)", _flag
    yield (
        rf"({OPTION_WORDS})",
        recorded.option,
    )
    yield (
        r"which (?:log )?line|log line|show me.*(?:line|proof)|prove|how do you know|where does it say",
        recorded.log_line,
    )
    yield (
        r"research|what.*(?:did|was).*(?:look(?:ed)? at|read)|which source|citation|in the (?:code|source)",
        recorded.research,
    )
    yield r"how (?:sure|certain|confident)|certainty|confidence", recorded.certainty
    yield r"missing|not (?:checked|known)|what.*(?:need|collect|would settle|would decide)|unsure", recorded.missing
    yield r"roll.?back|undo|revert", recorded.rollback
    yield r"verify|check.*after|what.*(?:watch|expect)|how.*know.*(?:work|help)", recorded.verify
    yield r"next (?:wall|limit|bottleneck)|after that|and then|what.*(?:binds|limits) next", recorded.wall
    yield r"must (?:i )?not|should(?: i)? not|not (?:to )?do|avoid|dangerous|harm", recorded.must_not
    yield r"(?:ram|396|host memory).*(?:run|serve|concurren|parallel)|(hicache|hierarchical)", recorded.hicache
    yield r"\b(?:did i|was i|am i|my claim|i said|what i believe)", recorded.claims
    yield r"why.*\b(?:48|limit)\b|\b48\b.*(?:default|from|why)", recorded.why_limit
    yield r"\bwhy\b", recorded.why
    yield r"what.*(?:change|do now|should i|recommend)|the (?:command|patch|change|drop-in)|fix", recorded.change
    yield r"option|alternativ", recorded.options
    yield r"version", recorded.fact("version")
    yield r"\bmodel\b", recorded.fact("served_model", "model_path")
    yield (
        r"(?:how much|free|available|total).*\b(?:ram|memory)\b|\bram\b",
        recorded.fact("mem_available_bytes", "mem_total_bytes"),
    )
    yield r"gpus?\b", recorded.fact("gpu_count", "gpu_name", "gpu_memory_mib")
    yield r"context", recorded.fact("context_len")
    yield r"accept", recorded.fact("accept_len_p50")
    yield r"retract", recorded.fact("retractions", "retracted_requests", "retraction_gain_p50")
    yield r"hit rate|cached|prefix", recorded.fact("cached_share", "cached_tokens")
    yield r"queue|wait", recorded.fact("queue_p50", "queue_p95", "queue_max")
    yield r"usage|full", recorded.fact("usage_p50", "usage_p95", "usage_max")
    yield r"running|parallel|concurren|how many run", recorded.fact("running_p50", "running_max", "running_limit")
    yield r"tokens? per request|per request", recorded.fact("tokens_per_request", "tokens_per_request_p95")
    yield r"pool|tokens?\b", recorded.fact("kv_pool", "kv_pool_gib")
    yield r"throughput|tokens/s|speed", recorded.fact("gen_throughput_p50")
    yield r"numa", recorded.fact("numa_nodes", "numa_free_bytes")
    yield r"cause|summar|tl;?dr|what is wrong|diagnos", recorded.cause


INTENTS: Final = tuple(Intent(re.compile(pattern), handler) for pattern, handler in _intents())
