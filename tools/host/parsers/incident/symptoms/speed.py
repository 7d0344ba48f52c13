"""Too slow, or unfair: decoding, first tokens, prompts, one client beside the others."""

# ruff: noqa: E501  (a pattern reads better on one line)
from __future__ import annotations

from typing import Final

from tools.host.parsers.incident.symptoms.words import SLOW, TOKENS, TTFT

TERMS: Final[tuple[tuple[str, str], ...]] = (
    # speed
    (
        "slow_decode",
        rf"\b(?:itl|tpot|inter-token latency)\b.{{0,20}}\d+(?:\.\d+)? ?s\b|{TOKENS}.{{0,60}}\b{SLOW}|\b{SLOW}\b.{{0,40}}{TOKENS}|tok(?:en)?s?[/ ]s(?:ec)?.{{0,30}}->|one token a second|answers? crawl|decode [\d.]+ -> [\d.]+|per-request decode|p95 [\d.]+ -> [\d.]+ s|\b[0-5](?:\.\d+)? tok/s",
    ),
    (
        "slow_ttft",
        rf"{TTFT}.{{0,60}}\d ?(?:m?s|sec\w*|minutes?) (?:->|to) \d|ttft p\d+ \d\d+(?:\.\d+)? ?s\b|see nothing for|(?:first|initial) (?:word|response|byte|answer|output)s? .{{0,30}}(?:late|slow|minute|seconds|long)|ttft.{{0,20}}\d.{{0,12}}->|(?:forever|ages|so long|very long) to (?:begin|start|answer)|(?:requests?|prompts?) (?:take|need)s? (?:forever|ages|minutes) to|{TTFT}.{{0,60}}{SLOW}|{SLOW}.{{0,30}}{TTFT}|ttft \d+|first token takes",
    ),
    (
        "prefill_slow",
        r"still prefilling|prefill\w* .{0,40}(?:crawls?|slow|minutes|never|takes|small)|(?:could|can|does|did) not (?:drain|finish|complete)|needs? (?:almost )?\w+ minutes|\d+ chunks|half an hour|prompt needs",
    ),
    (
        "throughput_fell",
        r"\d+ ?(?:%|percent) (?:less|fewer|lower) (?:tok\w*|throughput|speed|output)|\d+ ?tok\w*/s .{0,30}\b(?:vs\.?|versus|against|instead of|down from)\b.{0,15}\d+|\d+ ?% (?:slower|less throughput|fewer tokens)|throughput.{0,50}(?:fell|falls?|drop\w*|lower|worse|halved?|collaps\w*|less|down|\d+ ?%|->)|(?:fewer|less|lower|lost|loses?) (?:total )?throughput|tokens? per second.{0,20}(?:fell|halved)",
    ),
    (
        "slower_than_before",
        r"slower|(?:\d+ ?%|times|twice) (?:slow|longer|worse)|worse (?:than|with|after)|halved?|regress\w*|took longer",
    ),
    (
        "stalls",
        r"(?:nobody|no ?one|none) gets? (?:a |any )?(?:tokens?|words?|answers?|output).{0,60}(?:seconds?|minutes?)|nothing (?:comes )?for (?:\w+ ){1,3}seconds|\bstalls?\b|stalling|stutter\w*|freez\w*|hiccup|pauses?|one (?:decode|batch) (?:every|per) \d|gaps? (?:of|between)|come to a halt|卡住|卡顿|stockt|stocken|ruckelt",
    ),
    (
        "one_tenant",
        r"\b(?:all|the) other (?:users|clients|requests|tenants|callers|customers)\b|(?:job|batch|script|crawler|agent) (?:sends?|submits?|posts?|uploads?) (?:one|a)\b|one (?:of our )?(?:customers?|teams?|jobs?|callers?)\b.{0,40}(?:sends?|submits?|uploads?|posts?)|all (?:the )?others\b|one (?:customer|tenant|user|client)(?:'s)?\b|(?:others?|everyone else|everybody else)(?:'s)?\b.{0,40}waits?|one (?:tenant|user|client|customer|\d+k? (?:tokens? )?prompt|huge prompt|long prompt|long request|big (?:prompt|request))|(?:single|one) (?:long|huge|large|big) (?:prompt|request|document)|everybody else|everyone else|other (?:users|tenants|clients)|noisy neighbo",
    ),
    (
        "many_conversations",
        r"(?:many|twenty|hundreds?|dozens|thousands|\d{2,}) (?:chats?|conversations?|sessions?|users?|agents?|prefixes)|sessions?\b.*\bsessions?|multi-turn|working set|conversations",
    ),
    (
        "chunks_cut",
        r"chunks?.{0,40}(?:odd sizes?|smaller|cut|uneven|\d+/\d+/\d+|varying|shortened|tiny)|(?:odd|small|tiny|uneven|cut)[- ](?:sized )?chunks|#new-token.{0,30}(?:smaller|below)",
    ),
    ("prefill_budget", r"max[-_]prefill[-_]tokens|prefill (?:token )?budget"),
    (
        "one_prefill_at_a_time",
        r"#new-seq: 1\b|one (?:prompt|request|prefill) (?:per|at a) (?:batch|time|step)|prefills? one",
    ),
    (
        "delayer",
        r"delayer|prefill[- ]delay|min-free-slots-delay|delay(?:ed|s)? (?:admission|prefill)|admission (?:is )?delay",
    ),
    ("ignore_eos", r"ignore[_ -]eos|bench_offline|offline (?:bench|throughput)"),
    (
        "large_max_tokens",
        r"max[_ ]?(?:new[_ ])?tokens?.{0,30}(?:unset|not set|absent|huge|large|32k|65|\d{4,})|no max_tokens",
    ),
    ("tool_calls", r"\btools?\b|tool[- ]call\w*|function call\w*|grammar|json schema|structured output"),
    ("small_limit", r"max[-_]running[-_]requests[ =]+[1-4]\b|max[- ]running[- ][1-4]\b"),
)
