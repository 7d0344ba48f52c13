"""Questions about the change and what could be chosen instead: its other effects, by which number, which option."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agent.models.playbook import alternatives, asked, chosen, effects, seen, wished
from agent.models.playbook.asked import LENGTH, LEVER_WORDS, NUMBER
from agent.models.playbook.chosen import QUANT
from agent.models.playbook.intents.words import (
    EVER,
    OF_A_FLAG,
    PLAIN_NUMBER,
    REQUESTS,
    SLOW,
    SPEED,
    Rows,
    any_of,
    unless,
)

OPTION_WORDS: Final = (
    "lmcache|ktransformers|cpu.?offload|mooncake|file backend|hf3fs|nixl|layer.?group|storage backend|write.?policy|"
    "write.?back|write.?through|io.?backend|mem.?layout"
)


def on_values() -> Rows:
    """A setting with a value beside it; what is asked of a restart, a reason or the way back is none."""
    other = r"why(?! (?:not|no|don't|can't|isn't)\b)|re-?start\w*|reboot|undo|revert|roll.?back|how long|since when"
    other += (
        r"|down(?! to)"
        r"|max.?(?:new.?|completion.?|output.?)?tokens|kill|abort|cancel|command|see|log|line|seen|told"
        r"|wait\w*|queued"
    )
    yield wished.valued, unless(other, r"\d")


def on_effects() -> Rows:
    """Speed, quality, memory and safety: what a change or an option does beside helping."""
    yield (
        alternatives.order,
        r"\bfirst\b|(?:what|which) order\b",
        r"which|what order|one at a time",
        unless("token|wrong|happen\\w*|fail\\w*", "."),
    )
    yield (
        alternatives.other_gpus,
        r"\b(\d+)(?: ?x)? (?:gpus?|cards?)\b",
        r"\b(?:if|only|just|with|on|fit|enough|would|could|can)\b",
    )
    works = r"\bworks?\b|support\w*|compatible|possible|available"
    yield effects.works_here, works, r"\b(?:does|do|is|can|will|would|whether)\b"
    yield (
        chosen.is_on,
        unless("why|how|can|should|could|would|if|will", r"\b(?:is|are|do|does|already)\b"),
        any_of(
            r"\b(?:on|off)(?: now| already| yet)?\W*$",
            r"\b(?:enabled|active|in force|in use|used|using|use|disabled|already|turned|set)\b",
        ),
    )
    yield chosen.instead, r"instead of|rather than|better than|against"
    yield (
        chosen.without,
        unless(r"specul\w*|eagle|draft|why", r"\bwithout|\bavoid|\bno\b|instead of|not (?:want|use)"),
        QUANT,
    )
    enabled = r"\bhow (?:do|can|should|to)\b.*\b(?:enable|turn on|switch on|use|set|configure|activate)\b"
    yield asked.flag_of_an_option, enabled
    yield chosen.without, unless("why", r"\bwithout\b"), r"hi-?cache|\bdp\b|fraction|more slots"
    yield (
        effects.quality,
        unless(EVER, r"\bquality|accura\w*|answers? (?:\w+ )?(?:worse|differ\w*|change)|hallucinat\w*"),
    )
    yield effects.speculation, r"specul\w*|eagle|\bdrafts?\b", r"\bhelp\w*|worth|\bpays?\b|useful|any good|benefit"
    yield (
        effects.faster,
        r"\bfaster\b|how (?:much )?(?:fast|quick)|speed.?up|(?:more|higher|better) (?:throughput|speed)",
    )
    rate = unless("lose|lost|costs?|drop|fewer|less", r"per second|tok/s|\btps\b|tokens?/s")
    yield effects.faster, rate, r"\bafter\b|\bthen\b|per user"
    yield effects.faster, r"\bworth (?:it|this|the)\b"
    yield effects.faster, r"\bgain\b|how much (?:better|more throughput)|how much (?:will|would|does) (?:it|this) help"
    later = "why|will|would|after|worse|better|get|help|change|if|can|could|lower|raise"
    yield (
        seen.latency,
        unless(later, SLOW),
        r"\bnow\b|current\w*|what is|p\d\d|how (?:high|long|much)|^(?:the )?\w+\W*$",
    )
    yield effects.slower, unless("why", SLOW)
    yield effects.slower, SPEED, r"\b(?:will|worse|drop\w*|fall\w*|go|hurt\w*|affect\w*|suffer\w*|impact)\b"
    yield effects.slower, r"\b(?:will|would|can|could|does)\b.*\b(?:worse|degrad\w*)\b"
    yield effects.slower, r"per second|tok/s|\btps\b", r"\b(?:lose|lost|costs?|drop\w*|fewer|less)\b"
    broken = r"\b(?:will|can|could|might)\b.*\b(?:crash|break)\b|worst (?:that|thing|case)|\bwhat breaks\b"
    yield effects.safe, unless("why|again", broken)
    yield (
        effects.safe,
        unless(
            "restart|reboot|keys?|data|passwords?|secrets?|prompts?|ssh|host",
            r"\b(?:is|how|really)\b.*\b(?:safe|dangerous|risky|harmless)\b",
        ),
    )
    yield effects.slower, unless("data|loss", r"\brisk\w*|downsides?|drawbacks?|side.?effects?|trade.?offs?|\bcatch\b")
    window = r"(?:max.?)?context.?(?:len\w*|window|limit|size)|max.?(?:model.?)?len\w*"
    window += r"|\bcontext (?:down )?(?:to|from|at|by)\b"
    other = r"\b(?:hal[fv]\w*|doubl\w*|twice|lower|reduc\w*|shorten|short|small\w*|shrink|cut|limit|rais\w*|increas\w*"
    other += r"|big\w*|long\w*|larg\w*|what if|set|less|more|change|only)\b"
    yield effects.context_length, window, unless("how long", other)
    yield effects.longest_answers, r"max.?(?:new.?|completion.?|output.?)?tokens", unless(r"\d+k?|what is|where", ".")
    out = r"run\w* out|out of memory|\boom\b|full\b|exhaust\w*|enough|crash\w*|\bdies?\b"
    yield effects.host_memory, r"\b(?:host|system|cpu|main)\b.*\b(?:ram|memory)\b|\bram\b", out
    yield (
        effects.out_of_memory,
        unless(EVER, r"\boom\b|out of memory|runs? out of"),
        r"\b(?:will|would|can|could|after|not|it|if)\b",
    )
    yield effects.out_of_memory, r"headroom", r"\bgi?b\b|\bgpu|memory|enough"
    yield effects.graphs, r"\bgraphs?\b", r"memory|vram|cost|need|more|take|cover|size|captur|batch"
    of_a_gpu = unless("how much|what|where", r"\b(?:gpu|card)\b.*memory|\bvram\b")
    yield effects.out_of_memory, of_a_gpu, r"\b(?:cost|take|need|use|eat)s?\b"
    yield effects.pinning, r"\bpin(?:s|ned|ning)?\b"


def with_numbers() -> Rows:
    """Flags by name and sums by number."""
    yield seen.argument, unless("why|how|if|can|should|after", r"\bnow\b|current\w*|in force|right now|\bset to\b")
    yield asked.flag, r"(--[a-z][a-z0-9-]+)", OF_A_FLAG
    yield (
        asked.what_a_flag_does,
        r"\b([a-z]+(?:[-_][a-z0-9]+)+)\b",
        unless(r"\d+", r"what|mean|explain|\bdo(?:es)?\b|default|exist"),
    )
    gb = rf"{NUMBER} ?(?:gi?b|g)\b"
    ram = r"\bram\b|\b(?:host|box|machine)\b|(?:system|main|cpu) memory|hi-?cache|off-?load"
    others = r"\b(?:keep|kept|leave|left over|need\w*|reserve\w*|others?|else|rest|free|minus|less|also|too)\b"
    kept = r"\b(?:keep|kept|leave|left over|needs?|reserved?|others?)\b"
    given = r"what if|\b(?:if|can|could|only|just|give|spare|most|max\w*|enough|use|take|allow)\b"
    measured = "why|how much|how many|gpus?|cards?|vram|where|requests?"
    yield asked.ram("ram_for_others"), unless("why|how much|gpus?|cards?|vram", gb), rf"{ram}|\bratio\b", kept
    yield asked.ram("ram_for_hicache"), gb, r"\bratio\b"
    yield asked.sum_of("hicache_ratio"), rf"ratio\D{{0,12}}{NUMBER}|{NUMBER}x? ratio"
    yield asked.ram("ram_for_others"), unless(measured, gb), ram, others
    yield asked.ram("ram_for_hicache"), unless(measured, gb), ram, given
    yield asked.sum_of("hicache_size"), rf"hicache.?size\D{{0,8}}{NUMBER}"
    yield (
        asked.longer,
        rf"(?:\b(twice|double|doubled|triple|half)|{NUMBER}(?: ?x| times))",
        r"long|length|size|prompt|context",
    )
    traffic = r"traffic|load\b|users|requests|demand|peak"
    yield asked.more_traffic, rf"(?:\b(twice|doubled?s?|tripled?s?|half|halved)|{NUMBER}(?: ?x| times))", traffic
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
        any_of(rf"(\d+k)(?: tokens?)? (?:{prompt})", rf"{prompt} (?:\w+ ){{0,3}}(\d+k)\b", of_length),
        unless(
            r"context.?len\w*|slots|max.running.requests|parallel|concurrent|running",
            r"token|\dk\b|long|each|prompt|input",
        ),
    )
    yield alternatives.room_with, r"how many\b", REQUESTS, r"\b(?:with|if|after|by|using)\b"
    yield chosen.together, r"\b(?:both|together|combin\w*|and also|at once|plus|same time|and|with)\b"
    raised = r"why not|why don't|why can't|raise|increase|\bset\b|what if|instead|just"
    yield asked.sum_of("running_requests"), rf"\blimit\b\D{{0,12}}{NUMBER}\b", raised
    yield (
        chosen.why_this_value,
        PLAIN_NUMBER,
        unless("memory|gpus?|graphs?|long|minutes|seconds|tensor|pipeline|expert|tp|pp|ep|dp", r"why|where|how|what"),
    )
    yield asked.sum_of("running_requests"), rf"\brun\D{{0,12}}{NUMBER}\b"
    yield asked.lever("room"), r"how many\b", r"\b(?:more|can|could|will|then|fit|handle|serve)\b", REQUESTS
    yield (
        asked.lever("room"),
        any_of(
            r"how (?:much|many) (?:more )?(?:room|headroom|capacity|more)\b|headroom",
            r"how (?:high|far)\b.*\bgo|^max(?:imum)?\W*$",
        ),
    )


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


def on_options() -> Rows:
    """Levers, options and flags by name, also those that were not chosen."""
    spent = r"(?:where|what).*\b(?:memory|vram|gi?b)\b.*(?:go|gone|used|are|is)"
    eaten = r"what.*\b(?:eat|us|tak|hold|fill)\w*.*\b(?:memory|vram)\b"
    yield asked.lever("gpu_memory"), any_of(r"\b(?:other|missing|rest of).*\bgi?b\b", spent, eaten, r"step by step")
    sized = r"hicache.?size|\bsize\b|gigabytes|\bgb\b"
    yield chosen.ratio_or_size, r"\bratio\b", sized, r"\b(?:why|or|not|instead|rather|better|difference|against)\b"
    rather = r"not (?:use|using|just)|instead of|wouldn't|won't .*help|better than"
    yield chosen.why_not, any_of(r"\bwhy (?:not|no|don't|didn't|isn't)\b", rather)
    terms = r"kv|token usage|retract|specul|eagle|graph|running limit|dp attention"
    yield seen.term, rf"what (?:is|are|does|means?) (?:an? |the )?((?:{terms})\w*[^?]*)\??$"
    for name, words in LEVER_WORDS.items():
        yield asked.lever(name), unless("weights?", words)
    yield asked.lever("fraction"), r"mem.?fraction|static fraction|\bfraction\b"
    yield asked.lever("speculation"), r"specul|eagle|draft", r"without|drop|disable|turn|off|remove"
    yield (
        asked.lever("levers"),
        r"levers|what else.*(?:try|turn|do)|\bneed\b.*\b(?:more|another|bigger|other)\b.*\b(?:gpus?|cards?|hardware)\b",
    )
    yield asked.flag, r"(--[a-z][a-z0-9-]+)"
    yield chosen.option, rf"({OPTION_WORDS})"
    yield chosen.near, r"(?<![\w/.])((?:--)?[a-z]+(?:[-_][a-z0-9]+)+)"
