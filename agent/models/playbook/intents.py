"""What operators ask, and who answers: patterns over the plain question, first fit first.

Every pattern of a row must be found somewhere in the question, in whatever order its words stand; the groups of the
first are the answer's. A function that has nothing to say leaves the question to the next row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from agent.models.playbook import asked, chosen, effects, operating, recorded, seen
from agent.models.playbook.asked import LENGTH, LEVER_WORDS, NUMBER, Handler
from agent.models.playbook.chosen import QUANT

Json = dict[str, Any]
OPTION_WORDS: Final = (
    "lmcache|ktransformers|cpu.?offload|mooncake|file backend|hf3fs|nixl|layer.?group|storage backend|write.?policy|"
    "write.?back|write.?through|io.?backend|mem.?layout"
)


@dataclass(frozen=True, slots=True)
class Intent:
    patterns: tuple[re.Pattern[str], ...]
    handler: Handler

    def heard(self, question: str) -> re.Match[str] | None:
        """The match of the first pattern if all are found."""
        found = [pattern.search(question) for pattern in self.patterns]
        return found[0] if all(found) else None


def _any(*patterns: str) -> str:
    return "|".join(patterns)


def _unless(words: str, pattern: str) -> str:
    """The pattern in a question that holds none of these words."""
    return rf"^(?!.*\b(?:{words})\b).*?(?:{pattern})"


def _mixes() -> Iterator[str]:
    """The lengths of prompts and of answers in one question, in the ways and the order in which they are told."""
    sent = r"(?:prompts?|inputs?|in|contexts?|messages?|documents?)\b"
    got = r"(?:answers?|outputs?|out|back|repl(?:y|ies)|completions?|responses?|generations?)\b"
    prompt, answers = rf"(?P<prompt>{LENGTH})", rf"(?P<answers>{LENGTH})"
    tokens = r"(?: ?-?tokens?)?(?: long)?[ -]"
    between = r".{1,40}?\b"
    yield f"{prompt}{tokens}{sent}{between}{answers}{tokens}{got}"
    yield f"{answers}{tokens}{got}{between}{prompt}{tokens}{sent}"
    of = r"(?: \w+){0,2} "
    yield rf"\b{sent}{of}{prompt}{between}{got}{of}{answers}"
    yield rf"\b{prompt} ?/ ?{answers}\b"


Rows = Iterator[tuple[Handler, str] | tuple[Handler, str, str] | tuple[Handler, str, str, str]]
_START: Final = r"\b(?:re-?start\w*|re-?boot\w*|boot\w*|start)\b"
_TIME: Final = r"\b(?:long|take\w*|cost\w*|minutes?|seconds?|eta|duration|time)\b"
_OF_A_FLAG: Final = r"exist|default|choice|mean|allowed|valid|what (?:is|does)|do(?:es)?\b"
_REQUESTS: Final = r"request|session|stream|client|connection|user|traffic|job|prompt"
_SPEED: Final = r"throughput|speed|performance"
_SLOW: Final = r"\bslow\w*|latenc\w*|\bttft\b|\btpot\b|\bitl\b|time to first token"
_PLAIN_NUMBER: Final = rf"(?<![\w.-])(?<!rtx )(?<!pro ){NUMBER}(?![\w.%]|\s*(?:gi?b|ranks?|gpus?)\b)"
_JUDGED: Final = (
    "will|would|could|should|can|why|if|or|who|when|too|worst|best|hot|hottest|slowest|temperature|leak|longest|"
    "enabled|on|where|difference|between|tensor|pipeline|expert"
)
_EVER: Final = r"why|did|was|were|has|have|had"


def _on_other_things() -> Rows:
    """What must be told apart first: another version, what the rest could be, what is said in passing."""
    yield recorded.other_version, r"(?<![\d.])(0\.\d+\.\d+(?:\.?(?:post|rc)\d+)?)(?![\d.])"
    parts = r"model|server|sglang|hardware|gpus?|client|driver|kernel|host|config|setting|software|bug|machine|us|them"
    yield recorded.which_part, rf"\b(?:{parts})\b.*\bor\b.*\b(?:{parts})\b"
    yield recorded.which_part, r"\b(?:fault|blame)\b"
    beside = r"(?:something|anything|what|who|where) else|other (?:problems?|issues?|causes?|explanations?|suspects?)"
    yield recorded.others, beside, r"\b(?:be|wrong|broken|cause\w*|problems?|issues?|explan\w*|suspects?)\b"
    yield recorded.others, r"ruled? out|other hypothes\w*|all hypothes\w*|hypothes[ei]s"
    yield seen.evidence_listed, r"(?:show|list|see|all|what)\b.*\bevidence\b(?! e\d)|^evidence\W*$"


def _on_the_change() -> Rows:
    """Undoing, losing, waiting, restarting: what is asked before anything is typed."""
    back = r"(?:take|put|get) (?:it |this |that )?back"
    yield (
        operating.rollback,
        _any(r"roll.?back|\bundo|revert|reversib\w*|go back|back out", back, r"old (?:config|settings|value)"),
    )
    dead = r"(?:doesn't|does not|won't|will not|not) (?:come (?:back )?up|start|boot)|fails? to start"
    yield operating.rollback, _unless("why", dead)
    worse = r"(?:gets?|got) worse|go(?:es)? wrong|went wrong|breaks\b|broke\b"
    no_help = r"(?:doesn't|does not|won't|did not|didn't) (?:help|work)"
    yield (
        operating.rollback,
        _any(worse, no_help),
        r"\b(?:if|when|in case|now|after|it)\b",
        _unless("will|would|can|until", "."),
    )
    yield operating.drain, r"\bdrain\w*"
    doing = r"\b(?:do|make|apply|run|change|fix|restart|set)\b"
    yield (
        operating.by_hand,
        r"\b(?:can|could|will|would|please)\b(?! (?:i|we)\b).*\byou\b",
        doing,
        r"for me|\bit\b|\bthat\b",
    )
    ended = r"\b(?:lose\w*|lost|losing|drop\w*|kill\w*|abort\w*|cut off|in.?flight|interrupt\w*)\b"
    again = r"\b(?:reconnect\w*|resend|retry)\b"
    other = "per second|throughput|speed|latency|(?:i|we) (?:just )?(?:kill|abort|drop|cut)"
    yield (
        operating.lost,
        _unless(other, _any(ended, again, r"\bhappens? (?:to|with)\b")),
        _any(_REQUESTS, r"\bcaches?\b|prefix"),
    )
    yield operating.lost, r"\bhappens?\b", _START
    held_off = r"\b(?:wait|ignore|postpone|delay|urgent\w*|do nothing|leave it|sleep|go to bed)\b"
    moment = r"until|till|morning|tomorrow|monday|weekend|hours?|\b(?:can|could|must|should|what if|how|is)\b"
    yield effects.wait, _unless("why|many|requests?|queue", held_off), moment
    live = r"without (?:downtime|an? outage)|hot.?(?:re)?load|on the fly|(?:at |in |during )run.?time|\blive\b|dynamic"
    yield (
        operating.no_restart,
        _unless(
            r"prompts?|tokens?|users?",
            _any(live, r"\blater\b|\btonight\b|\bat night\b|while (?:it is |it's )?(?:running|serving)"),
        ),
    )
    yield (
        operating.restart_how,
        r"\bhow (?:do|can|to|should)\b(?! ?long)",
        r"re-?start\b",
        _unless("without|avoid", "."),
    )
    yield operating.restart_cost, r"\b(?:down|offline|unavailable|unreachable)\b", r"long|\bbe\b|time"
    priced = r"what (?:does|will|would|is) (?:it|this|that|the change|the fix) costs?\b|^what costs? (?:it|this)"
    yield operating.restart_cost, _any(priced, r"what.*the (?:cost|price)")
    yield operating.restart_cost, r"downtime|outage|back up\b|\beta\b"
    seen_then = r"\b(?:see|look|expect|log|check|appear|print)\b"
    yield operating.verify, r"\b(?:after|next)\b", _START, seen_then
    yield operating.restart_cost, _unless("what time|when", _START), _TIME
    negative = r"\b(?:can't|cannot|without|no|not|avoid|live|hot|on the fly|instead of)\b"
    needed = r"\b(?:need\w*|have to|must|requir\w*|necessary|really)\b"
    yield operating.no_restart, _START, _any(negative, needed)
    moment = r"\b(?:now|safe|okay|when|good (?:time|moment)|quiet|right away|risk\w*|possible|can|may|should)\b"
    yield effects.safe_now, _START, moment
    yield effects.safe_now, r"safe to (?:apply|do)|apply (?:it )?now|now apply|\b(?:do|apply) (?:it|this|that) now"
    stays = r"\b(?:setting|change|it|this)\b.*\b(?:stay|stick|last)\b"
    yield operating.permanent, _any(r"permanent|persist\w*|surviv\w*|(?:keep|stay|hold)s? after|only until", stays)
    acted = r"\b(?:run|ran|execute\w*|touch\w*|change|changed|write|wrote|do|break)\b"
    yield operating.touched, r"\b(?:did|have) (?:you|it|sglscout)\b", acted
    yield operating.unit, r"\b(?:which|what)\b.*\b(?:unit|service|systemd)\b|\bunit (?:file|name)\b|which file"


def _on_effects() -> Rows:
    """Speed, quality, memory and safety: what a change or an option does beside helping."""
    works = r"\bworks?\b|support\w*|compatible|possible|available"
    yield effects.works_here, works, r"\b(?:does|do|is|can|will|would|whether)\b"
    yield (
        chosen.is_on,
        _unless("why|how|can|should|could|would|if|will", r"\b(?:is|are|do|does|already)\b"),
        _any(
            r"\b(?:on|off)(?: now| already| yet)?\W*$",
            r"\b(?:enabled|active|in force|in use|used|using|use|disabled|already|turned|set)\b",
        ),
    )
    yield (
        chosen.without,
        _unless(r"specul\w*|eagle|draft|why", r"\bwithout|\bavoid|\bno\b|instead of|not (?:want|use)"),
        QUANT,
    )
    enabled = r"\bhow (?:do|can|should|to)\b.*\b(?:enable|turn on|switch on|use|set|configure|activate)\b"
    yield asked.flag_of_an_option, enabled
    yield chosen.without, _unless("why", r"\bwithout\b"), r"hi-?cache|\bdp\b|fraction|more slots"
    yield (
        effects.quality,
        _unless(_EVER, r"\bquality|accura\w*|answers? (?:\w+ )?(?:worse|differ\w*|change)|hallucinat\w*"),
    )
    yield effects.speculation, r"specul\w*|eagle|\bdrafts?\b", r"\bhelp\w*|worth|\bpays?\b|useful|any good|benefit"
    yield (
        effects.faster,
        r"\bfaster\b|how (?:much )?(?:fast|quick)|speed.?up|(?:more|higher|better) (?:throughput|speed)",
    )
    yield effects.faster, r"\bworth (?:it|this|the)\b"
    yield effects.faster, r"\bgain\b|how much (?:better|more throughput)|how much (?:will|would|does) (?:it|this) help"
    yield effects.slower, _unless("why", _SLOW)
    yield effects.slower, _SPEED, r"\b(?:will|worse|drop\w*|fall\w*|go|hurt\w*|affect\w*|suffer\w*|impact)\b"
    yield effects.slower, r"\b(?:will|would|can|could|does)\b.*\b(?:worse|degrad\w*)\b"
    yield effects.slower, r"per second|tok/s|\btps\b", r"\b(?:lose|lost|costs?|drop\w*|fewer|less)\b"
    broken = r"\b(?:will|can|could|might)\b.*\b(?:crash|break)\b|worst (?:that|thing|case)"
    yield effects.safe, _unless("why|again", broken)
    yield (
        effects.safe,
        _unless(
            "restart|reboot|keys?|data|passwords?|secrets?|prompts?|ssh|host",
            r"\b(?:is|how|really)\b.*\b(?:safe|dangerous|risky|harmless)\b",
        ),
    )
    yield effects.slower, _unless("data|loss", r"\brisk\w*|downsides?|drawbacks?|side.?effects?|trade.?offs?|\bcatch\b")
    out = r"run\w* out|out of memory|\boom\b|full\b|exhaust\w*|not enough"
    yield effects.host_memory, r"\b(?:host|system|cpu|main)\b.*\b(?:ram|memory)\b|\bram\b", out
    yield (
        effects.out_of_memory,
        _unless(_EVER, r"\boom\b|out of memory|runs? out of"),
        r"\b(?:will|would|can|could|after|not|it|if)\b",
    )
    yield effects.graphs, r"\bgraphs?\b", r"memory|vram|cost|need|more|take|cover|size|captur|batch"
    yield effects.pinning, r"\bpin(?:s|ned|ning)?\b"


def _with_numbers() -> Rows:
    """Flags by name and sums by number."""
    yield seen.argument, _unless("why|how|if|can|should|after", r"\bnow\b|current\w*|in force|right now|\bset to\b")
    yield asked.flag, r"(--[a-z][a-z0-9-]+)", _OF_A_FLAG
    yield (
        asked.what_a_flag_does,
        r"\b([a-z]+(?:[-_][a-z0-9]+)+)\b",
        _unless(r"\d+", r"what|mean|explain|\bdo(?:es)?\b|default|exist"),
    )
    yield asked.sum_of("hicache_ratio"), rf"ratio\D{{0,12}}{NUMBER}|{NUMBER}x? ratio"
    gb = rf"{NUMBER} ?(?:gi?b|g)\b"
    ram = r"\bram\b|\b(?:host|box|machine)\b|(?:system|main|cpu) memory|hi-?cache|off-?load"
    others = r"\b(?:keep|kept|leave|left over|need\w*|reserve\w*|others?|else|rest|free|minus|less|also|too)\b"
    given = r"what if|\b(?:if|can|could|only|just|give|spare|most|max\w*)\b"
    measured = "why|how much|how many|gpus?|cards?|vram|where|requests?"
    yield asked.sum_of("ram_for_others"), _unless(measured, gb), ram, others
    yield asked.sum_of("ram_for_hicache"), _unless(measured, gb), ram, given
    yield asked.sum_of("hicache_size"), rf"hicache.?size\D{{0,8}}{NUMBER}"
    yield (
        asked.longer,
        rf"(?:\b(twice|double|doubled|triple|half)|{NUMBER}(?: ?x| times))",
        r"long|length|size|prompt|context",
    )
    for pattern in _mixes():
        yield asked.mix, pattern
    answer = r"max.?(?:new.?|completion.?|output.?)?tokens|(?:answer|output|completion|response|generation)s?"
    yield asked.sum_of("max_tokens"), rf"(?:{answer})\b[^\d-]{{0,24}}{LENGTH}\b|{LENGTH}[- ](?:token )?(?:{answer})"
    prompt = r"(?:prompt|input|request|context|conversation|message|document)s?"
    of_length = (
        rf"{LENGTH}(?: ?-?tokens?)?(?: long)? (?:{prompt}|each)\b|{prompt} (?:\w+ ){{0,3}}{LENGTH}(?: tokens?)\b"
    )
    yield (
        asked.sum_of("prompt_tokens"),
        _any(rf"(\d+k)(?: tokens?)? (?:{prompt})", rf"{prompt} (?:\w+ ){{0,3}}(\d+k)\b", of_length),
        _unless(
            r"context.?len\w*|slots|max.running.requests|parallel|concurrent|running",
            r"token|\dk\b|long|each|prompt|input",
        ),
    )
    yield chosen.together, r"\b(?:both|together|combin\w*|and also|at once|plus|same time|and|with)\b"
    yield asked.lever_with_requests, _PLAIN_NUMBER, r"\b(?:both|together|and|with|plus|at)\b"
    yield asked.sum_of("fraction"), rf"fraction\D{{0,12}}{NUMBER}|{NUMBER} (?:mem.?)?fraction"
    raised = r"why not|why don't|why can't|raise|increase|\bset\b|what if|instead|just"
    yield asked.sum_of("running_requests"), rf"\blimit\b\D{{0,12}}{NUMBER}\b", raised
    yield (
        chosen.why_this_value,
        _PLAIN_NUMBER,
        _unless("memory|gpus?|graphs?|long|minutes|seconds|tensor|pipeline|expert|tp|pp|ep|dp", r"why|where|how|what"),
    )
    yield asked.sum_of("running_requests"), rf"(?:max.running.requests|slots|running requests|run)\D{{0,12}}{NUMBER}\b"
    yield asked.sum_of("running_requests"), rf"{NUMBER} (?:requests|slots|parallel|concurrent|at once|users)"
    yield asked.lever("room"), r"how many\b", r"\b(?:more|can|could|will|then|fit|handle|serve)\b", _REQUESTS
    yield asked.lever("room"), r"how (?:much|many) (?:more )?(?:room|headroom|capacity|more)\b|headroom"


def _on_options() -> Rows:
    """Levers, options and flags by name, also those that were not chosen."""
    spent = r"where.*(?:memory|vram|gi?b).*(?:go|gone|used|are|is)"
    yield asked.lever("gpu_memory"), _any(r"\b(?:other|missing|rest of).*\bgi?b\b", spent, r"step by step")
    rather = r"not (?:use|using|just)|instead of|wouldn't|won't .*help|better than"
    yield chosen.why_not, _any(r"\bwhy (?:not|no|don't|didn't|isn't)\b", rather)
    terms = r"kv|token usage|retract|specul|eagle|graph|running limit|dp attention"
    yield seen.term, rf"what (?:is|are|does|means?) (?:an? |the )?((?:{terms})\w*[^?]*)\??$"
    for name, words in LEVER_WORDS.items():
        yield asked.lever(name), words
    yield asked.lever("fraction"), r"mem.?fraction|static fraction|\bfraction\b"
    yield asked.lever("speculation"), r"specul|eagle|draft", r"without|drop|disable|turn|off|remove"
    yield (
        asked.lever("levers"),
        r"levers|what else.*(?:try|turn|do)|\bneed\b.*\b(?:more|another|bigger|other)\b.*\b(?:gpus?|cards?|hardware)\b",
    )
    yield asked.flag, r"(--[a-z][a-z0-9-]+)"
    yield chosen.option, rf"({OPTION_WORDS})"


def _on_the_case() -> Rows:
    """Proof, sources, certainty, what is missing, what comes next, who set what."""
    yield seen.evidence, r"\b(e\d{1,4})(?::(\d+))?\b"
    yield recorded.certainty, r"how (?:sure|certain|confident)|(?:prove|convince) you|change your mind"
    yield (
        seen.fact("numa_nodes", "numa_free_bytes"),
        r"\bnuma\b",
        r"\b(?:worry|matter\w*|problem|issue|care|balanced?)\b",
    )
    yield (
        seen.worst_gpu,
        r"\b(?:check|look|see|seen|read)\w*\b",
        r"\b(?:other|all|every|each|rest)\b.*\b(?:gpus?|cards?)\b",
    )
    yield (
        seen.fact("version", "git_commit"),
        r"\b(?:which|what)\b.*\b(?:version|commit|build|release)\b.*\b(?:on|run\w*|have|here)\b",
    )
    proof = r"show me.*(?:line|proof)|prove|proof|how do you know|where does it say|says who"
    yield recorded.log_line, _any(r"log ?lines?|which lines?", proof)
    yield seen.tasks, r"\btasks?\b", r"\b(?:id|ids|which|list|resume|continue)\b"
    read = r"what.*(?:did|was).*(?:look(?:ed)? at|read)"
    yield recorded.research, _any(r"research|which source|citation|in the (?:code|source)", read)
    yield recorded.certainty, r"certainty|confiden|\b(?:sure|certain)\b"
    yield (
        recorded.missing,
        r"missing|not (?:check\w*|known|look\w*)|what.*(?:need|collect|would settle|would decide)|unsure",
    )
    after = r"check.*after|what.*(?:watch|expect|monitor)|metrics? (?:to|should)|(?:will|should|would) (?:i|we) see"
    yield (
        operating.verify,
        _any(r"verify", after, r"how.*(?:know|see|tell|check|sure).*(?:work|help|better)|did it (?:work|help)"),
    )
    parts = r"network|nccl|disk|cpu|swap|thermal|power|driver|cuda|infiniband|nvlink|pcie|tokenizer|dns|ulimit"
    yield recorded.suspect, rf"\b({parts})\b(?! graph)"
    comes = (
        r"what(?: is| comes| binds| breaks| would be)? next|next (?:wall|limit|bottleneck|problem|step)|^(?:and )?next"
    )
    yield operating.wall, _any(comes, r"after that|and then|bottleneck")
    yield (
        operating.must_not,
        r"must (?:i )?not|should(?: i)? not|not (?:to )?do|avoid|dangerous|harm|don't do|mistakes?",
    )
    ram = r"(?:ram|396|host memory).*(?:run|serve|concurren|parallel)"
    yield chosen.hicache, _any(ram, r"(hicache|hierarchical)", r"(off-?load)")
    yield recorded.claims, r"\b(?:did|was|am) i\b|my claim|i said|what i believe"
    yield recorded.upgrade, _unless("because|since|after", r"upgrad|newer version|latest version|sglang bug|bug in")
    yield recorded.why_limit, r"limit|\b48\b", r"why|where|who|from|default|sets?"
    event = r"crash\w*|updat\w*|upgrad\w*|deploy\w*|chang\w*|died|oom"
    yield (
        seen.since_when,
        _unless(event, r"since when|when (?:did|does|was|has)|how long (?:has|is it|ago)|what time|timeline"),
    )
    yield (
        seen.affected,
        _unless("other|does|will|would", r"affect|impact|how (?:bad|many users)|who (?:felt|feels|notice)"),
    )
    yield asked.bare_number, _PLAIN_NUMBER, r"why|instead|what|and|only|just|try|go|to|can|could|about|enough|\?"
    typed = r"\bflags?\b|parameter|setting|\bapply\b|copy.?paste|commands?\b|the (?:patch|change|drop-in)|\bfix\b"
    yield (
        operating.change,
        _any(r"what.*(?:change|do now|should i|\bnow\W*$|recommend|would you do|can i do|to do)", typed),
    )
    there = r"\b(?:running|up|alive|dead|healthy|there|crashed|serving)\b"
    yield seen.is_running, there, r"\b(?:sglang|server|service|unit|it|process)\b", r"\b(?:is|are|does|still)\b"
    yield recorded.why, r"\bwhy\b|\breasons?\b", _unless("you|they|nvidia|model", ".")
    yield chosen.options, r"option|alternativ|choices"
    yield seen.worst_gpu, r"\b(?:gpu|card|rank)s?\b", r"\b(?:worst|fullest|least|most|full|tightest)\b"


def _on_facts() -> Rows:
    """Single values by what people call them; a question for a judgement is none for a value."""
    for handler, pattern in _values():
        yield handler, pattern, _unless(_JUDGED, ".")
    yield recorded.cause, r"cause|summar|tl;?dr|in short|what is wrong|diagnos|problem|ticket|my boss|explain|limits"


def _values() -> Iterator[tuple[Handler, str]]:
    yield seen.argument, r"."
    yield seen.fact("port"), r"\bport\b"
    yield seen.fact("gen_throughput_p50"), rf"{_SPEED}|tokens?(?:/s| per second| a second)|tok/s|\btps\b"
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
    yield seen.fact("retractions", "retracted_requests", "retraction_gain_p50"), r"retract"
    yield seen.fact("cached_share", "cached_tokens"), r"hit rate|cached|prefix"
    each = r"tokens? per request|per request|long are.*(?:requests|prompts)|request size"
    yield seen.fact("tokens_per_request", "tokens_per_request_p95"), each
    yield seen.fact("running_p50", "queue_p50", "usage_p50"), r"\bload\b|how busy"
    yield (
        seen.fact("queue_p50", "queue_p95", "queue_max"),
        _unless("time|seconds|minutes|long (?:do|does|will)", r"queue|wait"),
    )
    yield seen.fact("usage_p50", "usage_p95", "usage_max"), r"usage|full"
    yield seen.fact("running_p50", "running_max", "running_limit"), r"running|parallel|concurren|how many run"
    yield seen.fact("kv_pool", "kv_pool_gib"), r"pool|tokens?\b|kv cache"
    yield seen.fact("numa_nodes", "numa_free_bytes"), r"numa"


def _intents() -> Iterator[Intent]:
    for rows in (
        _on_other_things, _on_the_change, _on_effects, _with_numbers, _on_options, _on_the_case, _on_facts,
    ):  # fmt: skip
        for handler, *patterns in rows():
            yield Intent(tuple(re.compile(pattern) for pattern in patterns), handler)


INTENTS: Final = tuple(_intents())
