"""A server that answers wrongly, or no longer answers."""

# ruff: noqa: E501  (a pattern reads better on one line)
from __future__ import annotations

from typing import Final

TERMS: Final[tuple[tuple[str, str], ...]] = (
    # output
    (
        "garbled_output",
        r"garbl\w*|gibberish|nonsense|random (?:characters|symbols|tokens)|broken output|garbage|wrong (?:answers?|output)|corrupt\w*|incoherent|!!!!|mojibake|unreadable|noise\b",
    ),
    (
        "quality_drop",
        r"(?:quality|accuracy|scores?|eval\w*)\b.{0,20}\bfrom \d[\d.]* ?%? to \d|(?:quality|accuracy|score|gsm8k|eval\w*).{0,30}(?:drop\w*|fell|falls?|worse|lower|collaps\w*|degrad\w*|->)",
    ),
    (
        "repeats_token",
        r"(?:repeat\w*|loop\w*|same|endless|stuck)\b.{0,40}\btokens?|token (?:id )?(?:zero|0)\b|token-?zero|repeats? (?:itself|the same|one)|(?:loops?|looping) (?:on|forever|endlessly)",
    ),
    (
        "accept_fell",
        r"accept(?:ance|ed)?(?: len(?:gth)?| rate)?.{0,50}(?:fell|falls?|drop\w*|collaps\w*|0\.00|1\.0\d?\b|->|zero|low\b|declin\w*)|nothing accepted",
    ),
    (
        "after_eviction",
        r"evict\w*|after (?:some |a few )?(?:hours|cache|conversations)|cache (?:churn|fills?|is full)|prefix (?:hit|cache|reuse)|radix",
    ),
    ("fp8_kv", r"(?:fp8|e4m3|e5m2).{0,20}(?:kv|cache)|(?:kv|cache)[\w -]{0,20}(?:fp8|e4m3|e5m2)"),
    (
        "backend_changed",
        r"(?:backend|attention).{0,60}(?:silently|quietly|changed|switched|fell back|falls back|instead)|(?:quietly|silently) (?:becom|switch|chang|us)\w+|(?:becomes?|switch\w* to|falls? back to) (?:triton|flashinfer|torch)",
    ),
    (
        "content_misplaced",
        r"(?:reasoning|thinking|tool calls?|function calls?|content|answer|json).{0,60}(?:empty|missing|inside|mixed|appears? in|ends? up|\braw\b|as (?:plain )?text|in the (?:content|text|answer)|not (?:parsed|split|separated|recogni[sz]ed)|leaks? (?:in|into)|\bnull\b)|<think>|<tool_call>|raw (?:tool|tags|json)|tags? (?:in|show)",
    ),
    (
        "answer_in_reasoning",
        r"content[\"'\s:=]{1,4}(?:null|none|\"\"|empty)(?=.*reasoning_content[\"'\s:=]{1,4}[\"'\w])|reasoning_content[\"'\s:=]{1,4}[\"'\w](?=.*[^_]content[\"'\s:=]{1,4}(?:null|none|\"\"|empty))|(?:whole |entire |complete )?(?:answers?|response|reply|text) (?:lands?|sits?|ends? up|arrives?|appears?|comes?|is) (?:up )?in(?:side)? (?:the )?(?:\w+ )?(?:reasoning|thinking|thoughts?)",
    ),
    (
        "thoughts_in_content",
        r"</?think>|(?:thoughts?|thinking|reasoning|chain of thought) (?:lands?|sits?|ends? up|appears?|leaks?|shows? up|comes?|is) (?:up )?in(?:to|side)? (?:the )?(?:\w+ )?(?:content|answers?|text|output)|reasoning_content[\"'\s:=]{1,4}(?:null|none|\"\"|empty)",
    ),
    (
        "call_in_content",
        r"<tool_call>|<\|?tool_calls?|<function=|\[tool_calls\]|tool_calls is (?:empty|null|missing)|(?:tool|function) calls? (?:\w+ ){0,3}(?:as|in) (?:plain |raw )?(?:text|content)",
    ),
    (
        "no_tool_calls",
        r"(?:tool|function) calls? (?:never|do not|don't|no longer) (?:show|appear|arrive|come|work|are|get)|\bno (?:tool|function) calls? (?:is|are|ever|arrives?|comes?)|tool_calls['\"]?\s*(?:[:=]|is|are|stays?)\s*(?:null|none|\[\]|empty|missing)",
    ),
    ("parser", r"\bparsers?\b"),
    # hangs
    (
        "hangs",
        r"last (?:log )?lines? (?:is|was) .{0,25}(?:minutes?|hours?) (?:old|ago)|no (?:new |more |further )*(?:log )?(?:lines?|output) for (?:\w+ )?(?:\d+|minutes|hours)|tp ?\d never starts|at full load, no|stands? still|st(?:ood|ays?) still|\(nothing for \d+|no (?:more )?tokens? (?:comes?|any ?more|appears?)|gpus? (?:is |are |stands? )?at 0 ?%|gpu utili[sz]ation (?:is |at |of )?0 ?%|no (?:further|more|new) log lines|py-spy|waits? (?:in|on) (?:the )?(?:\w*(?:lock|result|event|barrier)|\w*_queue\b|queue\.get)|never answers?|(?:nothing|no request|no batch) (?:is |was |gets )?(?:ever |any more )?(?:scheduled|admitted) (?:again|any ?more)|never schedules?|no further (?:responses?|output|requests?)|nothing (?:comes|happens|more)|goes silent|stops? (?:serving|generating)|\bhangs?\b|\bhung\b|hanging|deadlock\w*|stuck\b|never (?:ends|completes?|finish\w*|returns?|answers?|comes? back|responds?)|frozen|freezes|just sits|no (?:progress|response|answer)|stops? (?:responding|answering)|unresponsive",
    ),
    ("first_request_hangs", r"first request (?:never|hangs?|does not)|never returns"),
    (
        "restored_by_flush",
        r"flush_?cache.{0,80}(?:again|back|restor\w*|normal|recover\w*|fine|accept\w* len\w*)|(?:after|once|when) (?:\w+ )?(?:emptying|flushing|clearing|dropping|emptied|flushed|cleared) (?:of )?(?:the )?(?:radix |prefix |kv )?cache.{0,40}(?:fine|again|back|normal|recover\w*|good)|(?:emptying|flushing|clearing) the (?:\w+ )?cache (?:helps|fixes|cures|restores)",
    ),
    (
        "no_lines_after",
        r"no (?:more |further |other )?(?:(?:prefill|decode|batch|log) ?(?:batch )?)?lines? (?:after|since|any more|follows?|for the)|no (?:prefill|decode) batch (?:after|since|follows?)|(?:last|final) (?:prefill|decode) (?:batch )?line|nothing (?:is )?(?:logged|printed) (?:after|since|any more)",
    ),
    (
        "errors_in_front",
        r"\b50[024]\b(?! ?(?:tok|ms|s\b|req|gb|gib|mb|users?|requests?|clients?))|bad gateway|gateway time-?out|upstream (?:prematurely|timed? ?out|connect error|reset|request timeout)|econnre\w+|broken pipe",
    ),
    (
        "empties_later",
        r"(?:goes|falls|drops|comes|went|fell|dropped|is|back) (?:back )?(?:down )?(?:to|at) (?:about |almost |nearly |around )?(?:0(?:\.0\d*)?|zero|nothing|empty)\b|empt(?:y|ies) (?:again )?(?:in the evening|at night|overnight|when|after)",
    ),
    ("queue_rises", r"queue\b.{0,40}(?:ris(?:es|ing)|grow(?:s|ing)|climb(?:s|ing)|\d+, \d+, \d+)"),
    ("long_start", r"(?:start\w*|boot\w*|launch) (?:takes|took|needs|of) .{0,12}(?:minutes|min\b|hours?)"),
    ("stragglers", r"stragglers?|a few .{0,40}(?:hang|never)|some requests? (?:never|hang)|nearly all requests finish"),
    (
        "clients_wait",
        r"never (?:gets?|receives?|sees?) (?:any |an |their )?(?:answer|response|reply)|no(?:t even an)? (?:answer|error)\b.{0,30}(?:not even|no|nor) (?:an? )?(?:error|answer)|(?:requests?|calls?) (?:is|are|was|were)? ?never answered|clients? (?:waits?|hangs?|block\w*|time ?outs?|never (?:get|hear))|no (?:reply|response|error) to the client|wait(?:s|ing)? for ?ever",
    ),
    (
        "health_fails",
        r"/health.{0,20}503|503\b|health (?:check )?(?:fails?|stays)|never (?:becomes )?(?:healthy|ready)",
    ),
    (
        "after_burst",
        r"(?:load |traffic )?(?:spike|burst|peak|surge)s?\b.{0,60}(?:then|after|since|from)|after (?:a |the |one )?(?:burst|spike|peak|rush|wave|load test)|bursts?\b",
    ),
    ("after_retraction", r"after (?:a |the |one |first )?retract\w*|retract\w*"),
    (
        "queue_never_drains",
        r"queue.{0,40}(?:never|does not|won't|doesn't) (?:drain|empty|shrink|clear)|never (?:drains?|admitted)",
    ),
    (
        "never_recovers",
        r"until (?:a |the |we |i |you |it is )?restart\w*|(?:from|since) then on|only (?:a )?restart|never (?:recovers?|comes? back|goes back|gets? better)|does not recover|until (?:a |the )?restart|stays? (?:that way|low|slow|there)|only a restart",
    ),
    (
        "collapse",
        r"(?:speed|throughput|rate|tok\w*).{0,30}(?:falls?|fell|drops?|dropped|goes|went) (?:to|by) (?:a |one |an? )?(?:\w+th|half|third|quarter|tenth|fraction|\d+ ?%)|collaps\w*|fell (?:off|to) .{0,20}(?:cliff|\d)|drops? to (?:one|a few|\d{1,2}\b)|decode (?:dies|collapses)|throughput (?:collapses|cliff)",
    ),
    ("stays_low", r"stays? (?:low|at|there)|(?:remain|keep)\w* (?:low|at)"),
    (
        "single_request",
        r"(?:single|lone|sole|one) user\b|nothing else running|only (?:one|a single) request|(?:single|only one|one|lone|sole|just one) (?:long )?(?:request|user|sequence|stream)\b.{0,60}(?:retract\w*|thrown|full|pool|dies|alone|killed|aborted|out)|retract\w*.{0,50}(?:single|only|one|lone) request|running-req: 1\b.*retract",
    ),
    ("overlap", r"overlap"),
    (
        "after_upgrade",
        r"(?:after|since) (?:the |an |our |we )?(?:upgrad\w*|updat\w*|moving to|switching to|new (?:version|build|image|release)|bump\w*)|upgraded|latest build|previous (?:release|version)|used to work|old(?:er)? version",
    ),
    (
        "replicas_of_node",
        r"other (?:pods?|processes|containers|servers?) on (?:the )?(?:same )?(?:node|host|machine)|next to it|shares? the (?:node|host|machine)",
    ),
    (
        "after_hours",
        r"(?:hours|days|weeks) (?:later|in|into|of)|after (?:about |some |a few |several |a couple of |two |three |\d+ ?)(?:h|hours|days|weeks)\b|overnight",
    ),
    ("tiny_context", r"(?:tiny|small|short) context|context[- ]length[ =]\d{2,3}\b"),
    (
        "draft_on_one_role",
        r"(?:speculat\w*|mtp|eagle|draft).{0,60}only (?:on|for) (?:the )?(?:decode|prefill)|only (?:on|enable\w*).{0,60}(?:speculat|decode workers)|prefill: none",
    ),
    (
        "roles_differ",
        r"(?:prefill|decode).{0,80}(?:differ\w*|mismatch|another|no longer connects?|not the same|other (?:value|setting|size))",
    ),
)
