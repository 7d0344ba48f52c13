"""Questions about the case and what was seen: proof, certainty, what is missing, and single values by name."""

from __future__ import annotations

from collections.abc import Iterator

from agent.models.playbook import asked, chosen, effects, operating, recorded, seen
from agent.models.playbook.asked import Handler
from agent.models.playbook.intents.words import JUDGED, PLAIN_NUMBER, SPEED, Rows, any_of, unless


def on_the_case() -> Rows:
    """Proof, sources, certainty, what is missing, what comes next, who set what."""
    yield seen.evidence, r"\b(e\d{1,4})(?::(\d+))?\b"
    yield (
        recorded.wrong,
        r"\b(?:prove|show|tell|convince|make)\b.*\b(?:you|it|this|that)\b.*\bwrong\b|change your mind|falsif\w*",
    )
    yield recorded.certainty, r"how (?:sure|certain|confident)|(?:prove|convince) you"
    yield (
        seen.fact("numa_nodes", "numa_free_bytes"),
        r"\bnuma\b",
        r"\b(?:worry|matter\w*|problem|issue|care|balanced?)\b",
    )
    ill = r"dead|broken|fail\w*|faulty|health\w*|okay|fine|defect\w*|bad|gone|missing|lost|alive|fell|sick|damaged"
    yield seen.gpu_health, r"\b(?:gpu|card|rank|hardware|nvlink)s?\b", rf"\b(?:{ill})\b", unless("check(?:ed)?", ".")
    yield seen.gpu_health, r"\bxid\b|\becc\b"
    yield (
        seen.worst_gpu,
        r"\b(?:check|look|see|seen|read)\w*\b",
        r"\b(?:other|all|every|each|rest)\b.*\b(?:gpus?|cards?)\b",
    )
    yield (
        seen.fact("version", "git_commit"),
        r"\b(?:which|what)\b.*\b(?:version|commit|build|release|sglang)\b.*\b(?:on|run\w*|have|here)\b",
    )
    proof = r"show me.*(?:line|proof)|prove|proof|how do you know|where does it say|says who"
    yield recorded.log_line, any_of(r"log ?lines?|which lines?", proof)
    ask_for_it = r"\b(?:where|how (?:do|can|to)|show|follow|tail|open)\b"
    yield (
        operating.logs,
        r"\b(?:logs|log ?files?|journal)\b|\bthe log\b",
        ask_for_it,
        unless("lines?|why|after|proof", "."),
    )
    started = r"(?:launch|start\w*|full|current|command) (?:command|line|args|arguments)"
    started += r"|how (?:is|was) it (?:launched|started)"
    yield seen.fact("launch_argv"), started, unless("new|should|change|after|recommend", ".")
    yield seen.tasks, r"\btasks?\b", r"\b(?:id|ids|which|list|resume|continue)\b"
    read = r"what.*(?:did|was).*(?:look(?:ed)? at|read)"
    yield recorded.research, any_of(r"research|which source|citation|in the (?:code|source)", read)
    yield recorded.certainty, r"certainty|confiden|\b(?:sure|certain)\b"
    yield (
        recorded.missing,
        r"missing|not (?:check\w*|known|look\w*)|what.*(?:need|collect|would settle|would decide)|unsure",
    )
    after = r"check.*after|what.*(?:watch|expect|monitor)|metrics? (?:to|should)|(?:will|should|would) (?:i|we) see"
    after += r"|which (?:\w+ )?(?:metric|dashboard|graph)|\b(?:alert|alarm)s?\b|dashboard"
    yield (
        operating.verify,
        any_of(r"verify", after, r"how.*(?:know|see|tell|check|sure).*(?:work|help|better)|did it (?:work|help)"),
    )
    room = r"\b(?:how much|free|used|full|size|space|left)\b"
    yield seen.fact("swap_free_bytes", "swap_total_bytes"), r"\bswap\b", room
    yield seen.fact("disk_free_bytes", "disk_used_share"), r"\bdisks?\b", room
    parts = r"network|nccl|disk|cpu|swap|thermal|power|driver|cuda|infiniband|nvlink|pcie|tokenizer|dns|ulimit"
    parts += "|memory leak|leak"
    yield recorded.suspect, rf"\b({parts})\b(?! graph)"
    yield effects.wait, r"getting worse|(?:will|does) it (?:get|become) worse|urgent"
    comes = (
        r"what(?: is| comes| binds| breaks| would be)? next|next (?:wall|limit|bottleneck|problem|step)|^(?:and )?next"
    )
    yield operating.wall, any_of(comes, r"after that|^and then|bottleneck")
    yield (
        operating.must_not,
        r"must (?:i )?not|should(?: i)? not|not (?:to )?do|avoid|dangerous|harm|don't do|mistakes?",
    )
    ram = r"(?:ram|396|host memory).*(?:run|serve|concurren|parallel)"
    yield chosen.hicache, any_of(ram, r"(hicache|hierarchical)", r"(off-?load)")
    yield recorded.claims, r"\b(?:did|was|am) i\b|my claim|i said|what i believe"
    yield seen.fact("cached_share", "cached_tokens"), r"hit rate|cache hits?", unless(JUDGED, ".")
    yield recorded.upgrade, unless("because|since|after", r"upgrad|newer version|latest version|\bbug\b")
    yield recorded.why_limit, r"limit|\b48\b", r"why|where|who|from|default|sets?"
    event = r"crash\w*|updat\w*|upgrad\w*|deploy\w*|chang\w*|died|oom"
    yield (
        seen.since_when,
        unless(event, r"since when|when (?:did|does|was|has)|how long (?:has|is it|ago)|what time|timeline"),
    )
    yield (
        seen.affected,
        unless("other|does|will|would", r"affect|impact|how (?:bad|many users)|who (?:felt|feels|notice)"),
    )
    yield asked.bare_number, PLAIN_NUMBER, r"why|instead|what|and|only|just|try|go|to|can|could|about|enough|\?"
    typed = r"\bflags?\b|parameter|setting|^apply\b|how.*\bapply\b|\bdiff\b|copy.?paste|commands?\b"
    typed += r"|the (?:patch|change|drop-in)|\bfix\b"
    yield (
        operating.change,
        any_of(
            r"what.*(?:change|do now|should i|\bnow\W*$|recommend|would you do|can i do|to do)",
            r"something i can do",
            typed,
        ),
    )
    there = r"\b(?:running|up|alive|dead|healthy|there|crashed|serving)\b"
    yield seen.is_running, there, r"\b(?:sglang|server|service|unit|it|process)\b", r"\b(?:is|are|does|still)\b"
    yield recorded.why, r"\bwhy\b|\breasons?\b", unless("you|they|nvidia|model", ".")
    yield chosen.options, r"option|alternativ|choices"
    yield seen.worst_gpu, r"\b(?:gpu|card|rank)s?\b", r"\b(?:worst|fullest|least|most|full|tightest)\b"


def on_facts() -> Rows:
    """Single values by what people call them; a question for a judgement is none for a value."""
    for handler, pattern in _values():
        yield handler, pattern, unless(JUDGED, ".")
    yield recorded.cause, r"\bcause|summar|tl;?dr|in short|what is wrong|diagnos|problem|ticket|my boss|explain|limits"
    yield chosen.setting, unless("weights?", ".")


def _values() -> Iterator[tuple[Handler, str]]:
    yield seen.argument, r"."
    yield seen.fact("port"), r"\bport\b"
    yield seen.fact("gen_throughput_p50"), rf"{SPEED}|tokens?(?:/s| per second| a second)|tok/s|\btps\b"
    yield seen.fact("version"), r"version"
    yield (
        seen.fact("served_model", "model_path"),
        r"(?:which|what) (?:is (?:the|my) )?model\b|^(?:the )?model\W*$|model (?:name|path)",
    )
    yield seen.fact("gpu_free_mib", "gpu_used_mib"), r"\bvram\b|gpu memory"
    ram = r"(?:how much|free|available|total).*\b(?:ram|memory)\b|\bram\b|host memory"
    yield seen.fact("mem_available_bytes", "mem_total_bytes"), ram
    yield (
        seen.fact("gpu_count", "gpu_name", "gpu_memory_mib"),
        r"(?:which|what|how many|list)\b.*(?:gpus?|cards?)\b|^gpus?\W*$",
    )
    yield seen.fact("context_len"), r"context"
    yield seen.fact("accept_len_p50"), r"accept"
    yield seen.retractions, r"retract|thrown (?:back|out)"
    yield seen.fact("cached_share", "cached_tokens"), r"hit rate|cached|prefix"
    each = r"tokens? per request|per request|long are.*(?:requests|prompts)|request size"
    yield seen.fact("tokens_per_request", "tokens_per_request_p95"), each
    yield seen.fact("running_p50", "queue_p50", "usage_p50"), r"\bload\b|how busy"
    yield (
        seen.fact("queue_p50", "queue_p95", "queue_max"),
        unless("time|seconds|minutes|until|long (?:do|does|will)", r"queue|wait"),
    )
    yield seen.fact("usage_p50", "usage_p95", "usage_max"), r"usage|full"
    yield seen.fact("running_p50", "running_max", "running_limit"), r"running|parallel|concurren|how many run"
    yield seen.fact("kv_pool", "kv_pool_gib"), r"pool|tokens?\b|kv cache"
    yield seen.fact("numa_nodes", "numa_free_bytes"), r"numa"
