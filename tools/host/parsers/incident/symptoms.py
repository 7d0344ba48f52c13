"""What a sentence says happens, as one of a fixed set of terms.

Each term has patterns over one sentence in lower case. Patterns name things of the field and what befalls them, never
a product, a host or a whole sentence; `(?=.*a)(?=.*b)` means both in any order. A term is a statement, not a finding.
"""

# ruff: noqa: E501, S108  (a pattern reads better on one line, and /dev/shm is a word here)
from __future__ import annotations

import re
from typing import Final

from tools.host.parsers.incident.containers import without_container_images
from tools.host.parsers.incident.denials import without_denied
from tools.host.parsers.incident.stacks import is_frame
from tools.host.parsers.page import Page
from transcripts.facts import Grade

_CACHE = r"(?:kv|cache|pool|memory|token usage|usage|hbm|vram)"
_REQ = r"(?:requests?|prompts?|users?|clients?|agents?|sessions?|streams?|conversations?|chats?|everybody|everyone|others?)"
_OOM = r"(?:out of (?:gpu |device )?memory|\boom\b|runs? out of (?:gpu )?memory|ran out of|cuda out of)"
_SLOW = r"(?:slow\w*|crawl\w*|drips?|dripping|halved?|worse|degrad\w*|awful|long|longer|climbs?|rises?|rose|grows?|jumps?|explod\w*|minutes|tens of seconds|times)"
_TOKENS = r"(?:tok(?:en)?s?(?:/s| per second| a second| rate| speed| latency)|decode|decoding|tpot|itl|inter-token|answers?|streams?|streaming|generation|output speed)"
_TTFT = r"(?:ttft|first token|time to first|prefill)"

_TABLE: Final[tuple[tuple[str, str], ...]] = (
    # queue and pool
    (
        "requests_wait",
        rf"{_REQ}.{{0,40}}\b(?:wait|waits|waiting|queued?|queueing|in line|pending|pile up)\b|\b(?:wait|waits|waiting|queue|queued|queueing|queues)\b.{{0,40}}{_REQ}|the rest (?:waits?|queues?)|queue (?:grows|builds|is long|never)|#queue-req: [1-9]|queueing observed|\bqueue\b.{{0,20}}(?:hundreds|dozens|\d+)|refuses to go past|never gets? through|not admitted|admits? (?:no|only)",
    ),
    (
        "few_running",
        r"only a (?:handful|few) (?:of )?(?:requests?|are|is|run)|\bonly (?:\w+teen|\w+ty|\w+ty-\w+|eleven|twelve|\d+) (?:ever |of them |can |will )?(?:run|are running|active)|settles? at \d+|(?:\d+) of \d+ on (?:every|each)|\b(?:only|just|never more than|no more than|past|stops? (?:at|near)|capped (?:at|to)|cap(?:s|ped)?|limit(?:ed)? (?:to|of)|stuck at|at most|stays? at|tops? out at|reduced to)\b.{0,25}\b(?:one|two|three|four|five|six|seven|eight|nine|ten|\d+|four hundred)\b.{0,25}\b(?:run\w*|at once|concurrent|parallel|in flight|requests?|per gpu|at a time|active)|(?:\b\w+\b|\d+) requests? run\b|refuses to go past|running requests? stop|slots? (?:is|are) never used|fewer (?:requests )?(?:run|at once)|does not (?:run|go) (?:past|above|beyond)|#running-req: [1-9]\b",
    ),
    (
        "one_at_a_time",
        r"\bone (?:request )?(?:at a time|runs at a time|after (?:the other|another))|only one (?:runs|request)|seriali[sz]e|one by one|running-req: 1\b",
    ),
    (
        "one_slot_short",
        r"\b(\d+) of (?:16|32|64|128|256|8) on (?:every|each) rank|\bone (?:slot|request) (?:short|less|fewer|per (?:dp |gpu )?rank|of .{0,20}never)|never (?:used|filled|reaches).{0,30}(?:slot|limit)|(?:slot|limit).{0,40}never (?:used|filled|reached)|\b7 of 8\b(?! (?:turns?|requests?|prompts?|times|answers|calls))|(?:one|a) slot .{0,30}(?:idle|unused|lost)|n ?- ?1\b",
    ),
    (
        "cache_idle",
        rf"{_CACHE}.{{0,50}}\b(?:nearly empty|almost empty|practically empty|mostly empty|empty|idle|unused|free|low|a third full|half full|half empty|nowhere near full|not full|to spare|barely used|plenty|room|headroom|a (?:third|quarter|fifth|tenth))\b(?!\s*memory)|(?:four fifths|most|half|two thirds|three quarters|plenty|\d\d ?%) of (?:the )?{_CACHE}.{{0,20}}(?:empty|free|idle|unused)|nowhere near full|kv usage (?:is )?low|low token usage|token usage:? 0?\.0\d|free kv|(?:with|while|although|despite) .{{0,30}}(?:free|empty|unused|spare) {_CACHE}",
    ),
    (
        "cache_full",
        rf"{_CACHE}.{{0,40}}\b(?:full|exhausted|saturat\w+|maxed|at (?:0\.9\d|1\.0|9\d ?%|100 ?%))\b(?<!not full)(?<!near full)(?<!third full)(?<!half full)|token usage:? (?:0\.9[3-9]|1\.0)|usage (?:sits |stays |is )?(?:at|near|around) (?:0\.9\d|1\b|9\d ?%)|kv cache pool is full",
    ),
    (
        "pool_small",
        r"(?:need|want)s? .{0,30}(?:twice|double|more|larger|bigger|longer) (?:the |of )?(?:context|tokens|pool|cache|kv)|(?:twice|double) the context|(?:pool|cache|kv|max_total_num_tokens).{0,40}\b(?:small\w*|tiny|shrank|shrunk|only \d|little|half of|a fraction of|too few|less than (?:half|expected)|lost|dropped)|(?:small|tiny|little|less|smaller) (?:kv )?(?:pool|cache)|real .{0,30}pool ~?\d|only \d+k? tokens|few tokens|(?:pool|cache|kv)\b.{0,20}\btight\w*|tight\w* (?:kv|pool|cache)|(?:where|how).{0,30}(?:find|get|free) (?:more )?memory",
    ),
    (
        "no_cache_room",
        r"no room (?:left )?for (?:the |any )?(?:kv|cache)|no (?:gpu )?memory (?:left )?for (?:the )?(?:kv|cache)|pools? (?:are |is )?empty|nothing left for (?:the )?(?:kv|cache)|no memory for the cache",
    ),
    (
        "pool_varies",
        r"(?:another|different|new) (?:size|value|figure|number) (?:after|at|on|with) (?:each|every)|next (?:start|boot|launch)|(?:each|every|after a) reboot|(?:pool|kv|budget|tokens?|max_total_num_tokens).{0,60}(?:different|changes?|varies|vary|differs?|every (?:boot|start|restart|time))|(?:every|each|between) (?:identical )?(?:boots?|starts?|restarts?|launch\w*).{0,60}(?:different|another|changes?)|(?:different|another|moves?|varies|changes?).{0,60}(?:at |on |between )(?:every|each|identical) (?:boots?|starts?|restarts?|launch\w*)|not the same (?:twice|after)",
    ),
    (
        "looks_like_leak",
        r"\bleaks?\b|never (?:goes|comes|drops|falls|went) (?:down|back)|counter never|does not (?:go|come) down|stays? (?:high|at) .{0,20}(?:after|although)",
    ),
    (
        "input_refused",
        r"(?:prompt|input|request|anything|context|length|longer|above|over|than).{0,80}\b(?:refused|rejected|denied|not accepted|too long|400\b)|exceeds the maximum allowed|(?:refus|reject)\w+ .{0,40}(?:prompt|input|long|length|token)",
    ),
    (
        "state_idle",
        r"(?:state|mamba|slots?).{0,50}\b(?:unused|idle|never used|mostly empty|empty|oversized|barely|hardly)|mamba usage:? 0?\.[0-2]\d",
    ),
    # models
    (
        "hybrid_state",
        r"\bmamba\b|\bgdn\b|deltanet|\bssm\b|recurrent|state slots?|linear[- ]attention|hybrid (?:gdn|state|linear|ssm)|max_mamba|\bhybrid\b(?! ?swa)",
    ),
    ("sliding_window", r"\bswa\b|sliding[- ]window|window pool|swa_full|full_layer_tokens"),
    (
        "images",
        r"\bimages?\b|vision|visual|screenshots?|pictures?|multimodal|\bvlm?\b|pixtral|image processor|\bvit\b|video",
    ),
    ("draft_on", r"\bdraft\b|\bmtp\b|\beagle3?\b|nextn|speculati(?:ve|on)|\bdspark\b|\bdflash\w*"),
    (
        "unified_memory",
        r"unified memory|shared memory architecture|\bgb10\b|grace[- ](?:hopper|cpu|blackwell)|\bdgx spark\b|(?:cpu|host) and gpu share|one pool of memory|integrated gpu|\bapu\b|jetson|strix",
    ),
    ("dp_attention", r"dp[- ]attention|data-parallel attention|enable-dp-attention"),
    (
        "disaggregated",
        r"disaggregat\w+|prefill/decode|\bpd\b|split (?:prefill|deployment|setup)|decode (?:worker|side|node)",
    ),
    (
        "several_replicas",
        r"replicas|several servers|dp ranks?|data[- ]parallel|behind (?:a |the )?(?:router|load balancer)|\bdp ?=? ?\d",
    ),
    # GPU memory
    ("gpu_memory_out", rf"{_OOM}|out of resources"),
    (
        "serves_then_fails",
        r"the moment (?:some|a|the)|(?:pastes?|uploads?|attach\w*) |short (?:chats?|prompts?|requests?) (?:are|is|work\w*) fine|every (?:few )?(?:hundred|thousand)|once a day|every (?:day|night|few hours)|(?:under load|hours later|hours into|after (?:some|a few|two|three|\d+)? ?(?:hours|minutes|days)|during (?:the )?(?:benchmark|traffic|prefill|decode)|first (?:real |image )?requests?|(?:twice|once) today|while serving|at (?:high|higher) (?:load|concurrency|request rates?)|on (?:long|large|big) (?:prompts?|requests?)|\d+k?[- ]?(?:token|k)? ?(?:text )?(?:prefill|prompt)|when (?:requests|traffic|load)|crashes under)",
    ),
    (
        "dies_at_start",
        r"(?:before (?:it|the server) (?:is |ever )?(?:up|ready|answers?)|refuses to start|(?:does|will|would) not (?:start|come up|boot)|won't (?:start|boot)|never (?:starts|comes up|gets ready|becomes ready)|fails? (?:at|during|on) (?:start|boot|startup|launch)|at start-?up|(?:during|while) (?:start|boot|init)\w*|before (?:the server is up|ready)|keeps? (?:crashing|dying) at|aborts during init|not bring up|dies before|same at mem)",
    ),
    (
        "dies_in_load",
        r"(?:while|during|in) (?:weight |model |the )*load(?:ing)?\b|(?:does|do|will) not (?:even )?load\b|not even load|dies while loading|create_weights|loading weights",
    ),
    (
        "dies_in_capture",
        r"(?:graph captur|captur\w+ (?:cuda )?graphs?|in (?:graph )?capture|during (?:graph )?capture)",
    ),
    ("dies_in_warmup", r"warm(?:ing)?[- ]?up|self-?test"),
    (
        "any_fraction_fails",
        r"(?:whatever|any|every|all) (?:memory )?(?:fraction|value|setting)|no matter|fails for every|same at mem",
    ),
    (
        "only_with_draft",
        r"(?:switch|turn|with|when|once|adding|enabl|as soon as).{0,40}(?:speculat|draft|mtp|eagle|nextn)|without (?:it|the draft|speculation|mtp|spec)|(?:speculat\w+|draft|mtp|eagle).{0,40}(?:on it|costs|refuses|fails|dies|out of memory)|plain (?:server|start) (?:runs|works)",
    ),
    (
        "draft_full_size",
        r"draft.{0,60}(?:as (?:big|large|much) as|full (?:model|size|checkpoint|weights)|whole (?:model|checkpoint)|same size|entire)|(?:full|whole|entire|second) (?:copy|model).{0,40}draft|loads? the (?:whole|full|entire) (?:model|checkpoint).{0,30}(?:again|twice|draft|second)",
    ),
    (
        "draft_costs_cache",
        r"(?:draft|mtp|head|speculat\w+).{0,80}(?:costs?|takes?|eats?|loses?|lost|shrinks?).{0,40}(?:cache|pool|kv|tokens|slots)|(?:cache|pool|kv|tokens).{0,60}(?:shrinks?|lost|smaller|fell|drops?|costs?).{0,50}(?:draft|mtp|speculat)",
    ),
    (
        "only_with_host_cache",
        r"(?:only|as soon as|once|when|adding|enabl\w+|turning on).{0,50}(?:host cache|hicache|hierarchical)|without (?:the )?(?:host cache|hicache|hierarchical|it\b.*benchmark passes)|(?:host cache|hicache).{0,40}(?:need|take|use)s? gpu",
    ),
    (
        "long_prompts",
        r"\d{2,4}k?[- ]?(?:k|thousand)?[- ]tokens? (?:document|input|file|book|repo\w*)|(?:long|huge|large|big|giant|lengthy) (?:text |input )?(?:prompts?|contexts?|inputs?|documents?|requests?|prefills?)|\d{2,4}[k,]?(?:\d{3})?[- ]?(?:k|thousand)?[- ]tokens? (?:text )?(?:prompt|prefill|context|input)|\d{2,3}k (?:text )?(?:prefill|prompt|context)|quarter million tokens|thousand tokens?.{0,20}prompt|\d+ requests? x \d+k|long-context",
    ),
    (
        "steady_prefill",
        r"steady traffic|many prompts|prefill batches|prefill[- ]first|prefill always|constant (?:stream|flow)|heavy load|busy",
    ),
    ("logprobs", r"logprobs?|log-?prob\w*|prompt_logprobs|echo\b.*logprob|perplexity|score\b.*prompt"),
    (
        "creeps",
        r"(?:free|available)? ?(?:gpu )?memory.{0,40}(?:shrinks?|shrank|drains?|creeps?|goes down|declin\w+|decreas\w+|less (?:and less|with))|block by block|bit with every request|slowly (?:fills|grows|rises)|grows (?:with each|over time|until)",
    ),
    ("fragmented", r"fragment\w*|reserved (?:by pytorch )?but unallocated|expandable_segments"),
    (
        "above_graph_size",
        r"(?:above|beyond|exceed\w*|larger than|past|over) (?:the )?(?:captured|graph|largest captured|cuda graph)|cuda graph: false|without (?:cuda )?graphs?|eager",
    ),
    ("prefill_graphs", r"prefill (?:cuda )?graphs?|piecewise|cuda-graph-backend-prefill"),
    ("outside_pytorch", r"non-pytorch|outside pytorch|deepep|low[_-]latency (?:mode|buffers)|symmetric memory|nvshmem"),
    ("workspace", r"(?<!sgl-)\bworkspace\b"),
    (
        "gpu0_heavier",
        r"(?:gpu|card|device|cuda)[ :-]?(?:0|zero)\b.{0,80}(?:less|more|fuller|heavier|grows|higher|first to|runs out|oom|extra)|(?:less|more) (?:free )?(?:memory )?(?:free )?on (?:gpu|card|device) ?0|only (?:gpu|card|device) ?0|(?:gpu ?0|first gpu|gpu zero|rank 0|device 0|cuda:0|one gpu|one card|one rank).{0,80}(?:less free|more memory|fuller|heavier|falls over|runs out|out of memory|oom|extra|ahead|higher|gib more|gb more|\+ ?\d+|several gigabytes|uses? more)|(?:out of memory|oom) (?:on|in) (?:the )?(?:first gpu|gpu ?0)|(?:the rest|others?) (?:are|is) fine|more (?:memory )?on (?:gpu ?0|the first)",
    ),
    (
        "gpu0_processes",
        r"(?:gpu|card|device) ?0:? .{0,20}\b(?:[2-9]|\d\d) (?:python |sglang )?process|(?:gpu ?0|first gpu).{0,60}(?:lists?|shows?|has|holds).{0,60}process|extra (?:python )?process(?:es)?|\d+ (?:extra )?(?:python )?processes? (?:of|at|with) ~?\d|gpu ?0\b.{0,60}(?:tokenizer|python|sglang)\S*.{0,24}(?:[x×] ?\d|\d ?[x×])|cuda contexts?",
    ),
    (
        "image_work",
        r"image (?:decod\w+|preprocess\w*|processing|traffic|work|processor)|preprocess\w*|gpu image|feature extraction|image processor|mm_feature|multimodal (?:preprocess\w*|features?|tensors?)",
    ),
    ("tokenizer_workers", r"tokenizer[- ]workers?|tokenizer processes|multi[- ]tokenizer"),
    (
        "quantised_at_load",
        r"torchao|int8dq|int4wo|quanti[sz]\w+ (?:at|during|while|on) load|online quant|(?:int8|fp8|int4) requested|before .{0,20}quanti[sz]",
    ),
    (
        "copy_per_gpu",
        r"(?:each|every) gpu (?:holds|loads|has|gets) (?:a |the )?(?:whole|full|entire|own)|whole (?:model|copy) (?:on|per) (?:each|every)|full copy|full model per",
    ),
    (
        "copied_recipe",
        r"(?:recipe|command|flags|value|config\w*|settings?).{0,50}(?:from (?:a |an |the |another |our )?(?:bigger|other|larger|\w+ (?:box|machine|recipe|node|guide))|copied|brought over|copy)|copied (?:from|the)|brought over|from the .{0,20}recipe",
    ),
    (
        "other_gpu",
        r"(?:works|fine|runs) on (?:our |the |an? )?(?:\w+ ){0,3}(?:box(?:es)?|cards?|gpus?|machines?|nodes?|nvidia|h100|h200|b200|b300|a100)",
    ),
    (
        "idle_gpu_memory",
        r"(?:gpu )?memory (?:lies|sits|is|stays) (?:idle|unused|free)|(?:gigabytes?|gi?b) (?:are |is |stays? |sits? |lies? )?(?:free|unused|idle)|gb lie|free after start",
    ),
    (
        "measured_early",
        r"(?:measured|profiled|sized|computed|taken|budget\w*).{0,40}(?:too early|before|while)|too early|(?:before|while) .{0,40}(?:still (?:holds|loading|held)|is freed|garbage|released)",
    ),
    # speed
    (
        "slow_decode",
        rf"\b(?:itl|tpot|inter-token latency)\b.{{0,20}}\d+(?:\.\d+)? ?s\b|{_TOKENS}.{{0,60}}\b{_SLOW}|\b{_SLOW}\b.{{0,40}}{_TOKENS}|tok(?:en)?s?[/ ]s(?:ec)?.{{0,30}}->|one token a second|answers? crawl|decode [\d.]+ -> [\d.]+|per-request decode|p95 [\d.]+ -> [\d.]+ s|\b[0-5](?:\.\d+)? tok/s",
    ),
    (
        "slow_ttft",
        rf"{_TTFT}.{{0,60}}\d ?(?:m?s|sec\w*|minutes?) (?:->|to) \d|ttft p\d+ \d\d+(?:\.\d+)? ?s\b|see nothing for|(?:first|initial) (?:word|response|byte|answer|output)s? .{{0,30}}(?:late|slow|minute|seconds|long)|ttft.{{0,20}}\d.{{0,12}}->|(?:forever|ages|so long|very long) to (?:begin|start|answer)|(?:requests?|prompts?) (?:take|need)s? (?:forever|ages|minutes) to|{_TTFT}.{{0,60}}{_SLOW}|{_SLOW}.{{0,30}}{_TTFT}|ttft \d+|first token takes",
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
        r"(?:nobody|no ?one|none) gets? (?:a |any )?(?:tokens?|words?|answers?|output).{0,60}(?:seconds?|minutes?)|nothing (?:comes )?for (?:\w+ ){1,3}seconds|\bstalls?\b|stalling|stutter\w*|freez\w*|hiccup|pauses?|one (?:decode|batch) (?:every|per) \d|gaps? (?:of|between)|come to a halt",
    ),
    (
        "one_tenant",
        r"\b(?:all|the) other (?:users|clients|requests|tenants|callers|customers)\b|(?:job|batch|script|crawler|agent) (?:sends?|submits?|posts?|uploads?) (?:one|a)\b|one (?:of our )?(?:customers?|teams?|jobs?|callers?)\b.{0,40}(?:sends?|submits?|uploads?|posts?)|all (?:the )?others\b|one (?:customer|tenant|user|client)(?:'s)?\b|(?:others?|everyone else|everybody else)(?:'s)?\b.{0,40}waits?|one (?:tenant|user|client|customer|huge prompt|long prompt|long request|big (?:prompt|request))|(?:single|one) (?:long|huge|large|big) (?:prompt|request|document)|everybody else|everyone else|other (?:users|tenants|clients)|noisy neighbo",
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
    # cache reuse
    (
        "forgets_conversations",
        r"(?:come|comes|came|coming|return|returns|returned|returning)\b(?: back)?.{0,60}(?:wait|slow|cold|as if (?:they|it|he|she) (?:were|was)|like new|from scratch|again)|(?:second|next|later|repeat) (?:visit|turn|request|question|call).{0,40}(?:cold|same as|as slow|from scratch|recomput)|follow-?ups?.{0,60}(?:slow|scratch|cold|recomput|full)|(?:go|come|went|came|gets?|going) back to (?:a |an |the )?(?:conversation|chat|session|older|earlier)|forgets?|(?:older|old|earlier|previous|first|returning) (?:conversation|chat|session|prefix)\w*.{0,60}(?:slow|cold|again|recomput|evict|lost|gone|miss|first token|full prefill)|re-?query after|comput\w+ (?:a?new|afresh)|(?:recomput\w+|prefill\w*|re-?read\w*) (?:the |its |a )?(?:whole |entire |old )?(?:chat|conversation|history|context|dialog\w*)\b|(?:recomput\w+|prefill\w*|re-?read\w*) (?:again|from scratch|everything|the whole|old context)|comput\w+ (?:again|from scratch)|as if .{0,30}\b(?:new|unseen|fresh)\b|evict\w* .{0,30}(?:prefix|conversation)|turn .{0,20}(?:as slow|cold)|conversations? .{0,30}evicted",
    ),
    (
        "hit_rate_low",
        r"(?:hit[- ]?rate|cache hits?|#?cached[-_ ]tokens?|prefix (?:cache )?reuse|prefix cach\w+).{0,50}(?:low|zero|\b0\b|poor|near 0|none|nothing|never|tiny|(?<![\d.])[0-2]?\d(?:\.\d+)? ?%|0\.[0-2])|(?:no|few|zero|low|poor) (?:prefix )?(?:cache )?(?:hit|reuse)s?|prefix cache (?:is )?(?:broken|useless|not working|doesn)|misses|never hits?|not (?:hit|reused|cached)",
    ),
    (
        "hit_rate_fell",
        r"hit[- ]?rate.{0,50}(?:fell|falls?|drop\w*|went down|->|collaps\w*|lower (?:than|at)|declin\w*)|hits? (?:fell|drop)",
    ),
    ("evictions_rise", r"evict\w*.{0,30}(?:grow\w*|climb\w*|ris(?:e|es|ing)|rose|high|many|\d)"),
    (
        "hit_rate_high",
        r"(?:hit[- ]?rate|hits?|cached).{0,30}(?:high|9\d(?:\.\d+)? ?%|8\d ?%|0\.[89]\d*|excellent|great|good|near 1)|9\d ?% (?:cache )?hits?",
    ),
    (
        "identical_prompt",
        r"(?:same|identical|exact\w*) (?:\w+ )?(?:prompt|request|text|input)|(?:prompt|request) (?:twice|again|repeated)|(?:twice|(?:two|three|four|five|ten|\d+) times) in a row|re-?send\w*|repeat(?:ed|ing)? (?:the )?(?:same )?(?:prompt|request)",
    ),
    (
        "hits_in_steps",
        r"all[- ]or[- ]nothing|multiples? of|in (?:whole )?steps|boundar(?:y|ies)|either (?:everything|all) or (?:nothing|none)|rounded down|only up to",
    ),
    (
        "unique_prompts",
        r"(?:every|each) one (?:is )?(?:different|new|unique)|no (?:two|prefix) (?:\w+ )?(?:alike|repeats?|the same)|all (?:different|unique|distinct)|(?:every|each) (?:request|prompt|document|user|query) (?:is|has|carries|brings) (?:a |an )?(?:different|new|unique|own|another)|nothing (?:is )?(?:shared|repeated|in common)|(?:unique|distinct|different|unrelated|random) (?:prompts?|documents?|requests?|inputs?)|no (?:shared|common) prefix|never repeat|single[- ]pass|one[- ]shot|every prompt is (?:new|different)",
    ),
    ("single_pass", r"single[- ]pass|decode[- ]bound|one[- ]shot|batch job|read once"),
    (
        "routed_round_robin",
        r"round[- ]robin|random(?:ly)? (?:routed|rout\w+)|(?:another|different|other) (?:dp )?(?:rank|replica|worker)|spread (?:over|across) (?:ranks|replicas)|least[- ]loaded|shortest[- ]queue",
    ),
    # host tiers
    (
        "host_cache",
        r"host[- ](?:cache|pool|tier)|hicache|hierarchical|\bl2\b|ram (?:cache|offload)|cpu cache|kv offload",
    ),
    (
        "storage_tier",
        r"storage[- ]backend|(?:disk|file|external|remote|l3|mooncake|nixl|hf3fs|3fs|object|ssd|nvme) (?:cache|store|storage|backend|tier)|\bl3\b|mooncake|\bnixl\b|external store|batch_exists",
    ),
    (
        "host_pool_full",
        r"host (?:pool|cache|memory pool).{0,40}(?:full|saturat\w+|exhaust\w+|overflow)|(?:l2|host tier).{0,30}(?:full|saturat\w*)|saturates",
    ),
    (
        "saturates",
        r"saturat\w+|plateau\w*|beyond \d+ (?:sessions|conversations|users)|(?:at|after|past|from|above) (?:about )?\d+ (?:sessions|conversations|users).{0,50}(?:fall|drop|collaps|slow|zero|miss|worse)",
    ),
    (
        "staged_partly",
        r"(?:could|can|only) stage|staged?\b.{0,30}(?:only|part|\d)|only (?:a (?:couple|few|part)|\d).{0,30}(?:cached|loaded|fetched|staged).{0,40}|pages present|couple of thousand cached",
    ),
    (
        "never_read",
        r"(?:never|not|nothing|none|no|zero) .{0,25}(?:read|fetched|prefetch\w*|loaded back|retriev\w+|get(?:s|)\b)|written.{0,30}never|prefetch\w*.{0,30}(?:\b0\b|zero|never|not trigger\w*)|write[- ]only|(?:writes?|puts?|sets?).{0,40}(?:no|zero|0) (?:reads?|gets?)|only (?:ever )?(?:written|writes)",
    ),
    (
        "store_evicts",
        r"(?:store|storage|l3|disk|mooncake|ssd|segment|tier).{0,50}(?:full|evict\w*|too small|capacity|quota|exhaust)|evict\w+.{0,40}(?:store|storage|l3|disk|mooncake)",
    ),
    (
        "slower_than_recompute",
        r"slower than (?:recomput\w*|prefill\w*|without|comput\w*|no cache)|faster (?:to recompute|without)|recomput\w* (?:is|was|would be) (?:faster|quicker)",
    ),
    (
        "disk_busy",
        r"disk.{0,40}(?:busy|100 ?%|saturat\w*|io|writes?|sustained)|mb/s sustained|iowait|i/o wait|iops|\b\w+ [\d.]+ -> [\d.]+ mb/s|write[- ](?:heavy|storm|amplif\w*)|millions? of (?:small )?files",
    ),
    (
        "no_benefit",
        r"(?:latency|ttft|throughput|speed|performance|numbers?) (?:is|are|stays?|remains?) (?:about |roughly |exactly )?(?:the same|unchanged|equal|identical)|same or (?:a bit )?worse|no change|made no difference|changes nothing|rather the opposite|no (?:benefit|gain|improvement|difference|faster|effect|speed-?up)|not (?:any )?faster|(?:does|did) (?:not|nothing) (?:help|improve|to)|useless|brings? (?:us |me )?nothing|same (?:ttft|speed|throughput)|nothing gained|doesn't help",
    ),
    (
        "allocated_twice",
        r"(?:allocat\w+|reserv\w+|taken|printed|appears?|created).{0,30}(?:twice|two times|double|a second time)|double[ds]?\b.{0,30}(?:alloc|host|memory|ram)|twice (?:the|as much|what)|2x (?:the )?(?:host|memory|expected)",
    ),
    (
        "pinned_rounding",
        r"round(?:s|ed|ing)?\b.{0,30}(?:up|power|pinned)|next power of (?:two|2)|power[- ]of[- ](?:two|2)|pinned.{0,40}(?:more|larger|rounded|overhead)",
    ),
    (
        "pinning_fails",
        r"(?:fail\w*|error|cannot|could not|refus\w*).{0,30}(?:pin\b|pinning|pinned|page-?lock|register\w* host)|pin\w*.{0,30}(?:fails?|failed|refused)",
    ),
    (
        "pinning_slow",
        r"(?:hours?|minutes?)\b.{0,60}\b(?:in|for|on) (?:the )?(?:host pools?|host memory|registration|registering|pinn\w+)|(?:host pools?|registration|registering)\b.{0,40}(?:takes?|took|needs?) .{0,20}(?:minutes|hour)|pin(?:ning|s)?\b.{0,50}(?:takes?|minutes|min\b|hour|slow)|(?:hour|minutes|min) .{0,40}pinn|start-?up takes (?:an )?(?:hour|\d+ min)",
    ),
    ("huge_pages", r"huge ?pages?|hugepage|shmem_enabled|\bthp\b"),
    (
        "boot_transient",
        r"sometimes it (?:starts|works|boots|comes up)|(?:while|during) load\w*:? .{0,40}after load|(?:now and then|every other time|on the second try) it (?:starts|passes)|(?:only )?(?:during|while) (?:weight |model |the )?load\w*.{0,60}(?:free|ram|memory|guard|check|host)|(?:loader|loading|page cache|safetensors).{0,60}(?:transient|temporar\w+|still holds?|holds|peak|spike)|transient|(?:guard|check|host).{0,60}(?:while|during|before).{0,30}load|second (?:start|try|attempt) (?:works|passes|succeeds)|(?:free|available) again (?:after|once)|once (?:it is|the server is)? ?up.{0,40}(?:free|plenty)",
    ),
    ("loader_holds_memory", r"loader|page cache|safetensors|staging"),
    (
        "sized_per_rank",
        r"per rank|per (?:gpu|process)|each rank|times (?:the )?(?:ranks|tp|eight|8)|x ?8\b|multipl\w+ by",
    ),
    (
        "host_memory_short",
        r"(?:few|couple) hundred (?:megabytes|mb) (?:left|free)|(?:node|host|machine) free memory 0?\.|(?:host|system|node|machine|cpu|server|box|ram)(?:'s)? ?(?:memory|ram)?.{0,50}(?:runs? out|ran out|exhausted|full|gone|out of memory|oom|swap\w*|not enough)|kills? (?:the |a |our )?(?:\d\w* )?(?:node|machine|box|pod|host)|(?:node|machine|box|pod|host) (?:dies|died|goes down|freezes|reboots|hangs|is killed|becomes unresponsive)",
    ),
    (
        "killed_silently",
        r"(?:killed|vanish\w*|disappear\w*|dies|died|gone|exits?) (?:silently|without (?:a |any )?(?:error|traceback|message|log)|quietly)|no (?:python )?(?:error|traceback).{0,40}(?:killed|dead|gone)|sigkill|exit code (?:-9|137)|oomkilled|oom[- ]kill\w*",
    ),
    (
        "host_memory_grows",
        r"eats? (?:up )?(?:the )?(?:ram|host memory|system memory|memory of the host)|\bres\b.{0,40}\bgrows?|grows? (?:by )?\d+ ?[mg]i?b (?:per|an|a|every|each)|(?:rss|resident|host memory|system memory|ram)\b.{0,60}\d ?(?:->|to) ?\d|(?:rss|resident|host memory|system memory|ram)\b.{0,60}\d gi?b ?(?:->|to) ?\d|(?:host|system|cpu|resident|rss|ram|resident memory|workers?)\b.{0,40}(?:grows?|growing|climbs?|climbing|creeps?|increases?|rises?|keeps)|memory (?:leak|grows).{0,40}(?:host|cpu|ram|rss)|(?:grows?|climbs?) .{0,30}(?:host|ram|rss)",
    ),
    ("prefetching", r"prefetch\w*"),
    (
        "layout_refused",
        r"(?:layout|layer[- ]first|page[- ]first).{0,60}(?:reject\w*|refus\w*|unsupported|not supported|exclud\w*)|(?:reject|refus|exclud)\w+.{0,60}(?:layout|layer[- ]first|page[- ]first)",
    ),
    (
        "tree_refused",
        r"(?:radix|tree).{0,40}(?:refus\w*|reject\w*|unsupported|does not (?:know|support))|unified (?:radix )?tree",
    ),
    ("page_size_one", r"page[ _-]?size (?:=|is|of|pinned to|set to)? ?1\b|page[ _-]?size[ =:(]{0,3}1\b"),
    ("fa3_backend", r"\bfa3\b|flash-?attention ?3"),
    ("lmcache", r"lmcache"),
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
    ("parser", r"\bparsers?\b"),
    # hangs
    (
        "hangs",
        r"last (?:log )?lines? (?:is|was) .{0,25}(?:minutes?|hours?) (?:old|ago)|no (?:new |more |further )*(?:log )?(?:lines?|output) for (?:\w+ )?(?:\d+|minutes|hours)|tp ?\d never starts|at full load, no|stands? still|st(?:ood|ays?) still|\(nothing for \d+|no (?:more )?tokens? (?:comes?|any ?more|appears?)|gpus? (?:is |are |stands? )?at 0 ?%|gpu utili[sz]ation (?:is |at |of )?0 ?%|no (?:further|more|new) log lines|py-spy|waits? (?:in|on) (?:the )?(?:\w*(?:lock|result|event|barrier)|\w*_queue\b|queue\.get)|never answers?|no further (?:responses?|output|requests?)|nothing (?:comes|happens|more)|goes silent|stops? (?:serving|generating)|\bhangs?\b|\bhung\b|hanging|deadlock\w*|stuck\b|never (?:ends|completes?|finish\w*|returns?|answers?|comes? back|responds?)|frozen|freezes|just sits|no (?:progress|response|answer)|stops? (?:responding|answering)|unresponsive",
    ),
    ("first_request_hangs", r"first request (?:never|hangs?|does not)|never returns"),
    (
        "restored_by_flush",
        r"flush_?cache.{0,80}(?:again|back|restor\w*|normal|recover\w*|fine|accept\w* len\w*)|(?:after|once|when) (?:\w+ )?(?:emptying|flushing|clearing|dropping|emptied|flushed|cleared) (?:of )?(?:the )?(?:radix |prefix |kv )?cache.{0,40}(?:fine|again|back|normal|recover\w*|good)|(?:emptying|flushing|clearing) the (?:\w+ )?cache (?:helps|fixes|cures|restores)",
    ),
    (
        "no_lines_after",
        r"no (?:more |further |other )?(?:prefill|decode|batch|log) ?(?:batch )?lines? (?:after|since|any more|follows?|for the)|no (?:prefill|decode) batch (?:after|since|follows?)|(?:last|final) (?:prefill|decode) (?:batch )?line|nothing (?:is )?(?:logged|printed) (?:after|since|any more)",
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
    ("health_503", r"/health.{0,20}503|503\b|health (?:check )?(?:fails?|stays)|never (?:becomes )?(?:healthy|ready)"),
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
    ("after_hours", r"hours (?:later|in|into|of)|after \d+ ?(?:h|hours|days)|overnight"),
    ("tiny_context", r"(?:tiny|small|short) context|context[- ]length[ =]\d{2,3}\b"),
    (
        "draft_on_one_role",
        r"(?:speculat\w*|mtp|eagle|draft).{0,60}only (?:on|for) (?:the )?(?:decode|prefill)|only (?:on|enable\w*).{0,60}(?:speculat|decode workers)|prefill: none",
    ),
    (
        "roles_differ",
        r"(?:prefill|decode).{0,80}(?:differ\w*|mismatch|another|no longer connects?|not the same|other (?:value|setting|size))",
    ),
    # host
    ("shm", r"/dev/shm|shared memory|shm[-_]size|\bshm\b"),
    (
        "container_limit",
        r"(?:container|pod|cgroup|docker|kubernetes|k8s).{0,50}(?:limit|memory|killed|oom)|mem_limit|memory limit|limits?:",
    ),
    ("nofile", r"ulimit|nofile|open files|file descriptors?"),
    ("read_only", r"read-only|not writable|cannot write"),
    (
        "build_missing",
        r"(?:compil\w+|header|toolchain|nvcc|gcc|ninja|libssl|openssl|-dev\b).{0,40}(?:missing|not (?:found|installed)|absent|lack\w*)|(?:missing|no|lack\w*) (?:a )?(?:compiler|headers?|toolchain|nvcc|gcc|ninja)",
    ),
    (
        "pinned_buffers",
        r"shmem\b.{0,40}(?:gi?b|unreclaimable|unevictable)|unreclaimable|(?:nccl|pinned|communication|host) buffers?.{0,40}(?:pin|gb|gib|hold|take)|pins? \d+(?:\.\d+)? ?g|nccl.{0,30}(?:pin|gb|gib)|unevictable|mlocked",
    ),
    (
        "network_device",
        r"\bbnxt\w*|\bmlx5\w*|\bibv?_?\w*\b.{0,20}(?:device|nic|fail)|\broce\b|infiniband|\brdma\b|net/ib|network card|\bnic\b|ethernet",
    ),
    ("p2p", r"\bp2p\b|peer[- ](?:access|to[- ]peer)|nvlink|iommu|\bacs\b"),
    # flags
    (
        "flag_refused",
        r"(?:flag|option|argument|switch|parameter)\w*.{0,60}(?:refused|rejected|unknown|not (?:recogni[sz]ed|accepted|known|there|found)|unrecogni[sz]ed|does not (?:exist|know)|invalid|gone|missing)|unrecogni[sz]ed argument|unknown (?:flag|option|argument)|error: argument",
    ),
    (
        "from_other_engine",
        r"(?:coming|came|migrat\w+|switch\w+|moved|ported|copied) (?:over )?from (?:vllm|tgi|tensorrt|llama|ollama|lmdeploy|another engine)|\bvllm\b.{0,40}(?:flags?|command|config|habit|used)",
    ),
    (
        "from_release_notes",
        r"release notes|changelog|documentation|\bdocs\b|blog|newer version|latest version|tutorial|quickstart|cookbook",
    ),
    ("what_replaces", r"what replaces|replacement|new name|renamed|instead of it|deprecat\w*"),
    (
        "combination",
        r"(?:when i add|adding|together with|combin\w+|in combination|as soon as i (?:add|also)|both\b).{0,80}(?:abort|crash|fail|error|refus|die)|each (?:alone|on its own) works|plain .{0,40}(?:starts|works)",
    ),
    (
        "context_refused_at_start",
        r"(?:context|length|128k|\d+k).{0,80}(?:refuses? to start|refused at start|not allowed|will not start|derived)|yarn|rope[_ -]scaling",
    ),
)
_PATTERNS: Final = tuple((term, re.compile(pattern)) for term, pattern in _TABLE)
_NOT: Final = (
    (
        "requests_wait",
        re.compile(
            r"nothing (?:is )?(?:queued|waiting)|no queue|#queue-req: 0\b|queue (?:is )?(?:empty|0\b|zero)|without (?:a )?queue"
        ),
    ),
    ("forgets_conversations", re.compile(r"no eviction|not evicted")),
    ("container_limit", re.compile(r"oomkilled[\"'` ]*(?:[:=]|is|says|shows|was)?[\"'` ]*(?:false|no\b)")),
    ("after_eviction", re.compile(r"no eviction|nothing is being evicted")),
    ("cache_full", re.compile(r"nowhere near full|not (?:nearly )?full|third full|half full|quarter full")),
    ("creeps", re.compile(r"\bhost\b|\brss\b|resident|\bram\b")),
    (
        "gpu_memory_out",
        re.compile(
            r"oom[- ]?kill|decode out[- ]of[- ]memory (?:warning|happened)|titled|\bhost\b|\brss\b|resident|\bram\b"
        ),
    ),
    (
        "host_memory_short",
        re.compile(r"host (?:pool|cache)\b(?!.{0,40}(?:kill|out of memory|oom))|\b(?:half|third|quarter) full"),
    ),
    (
        "serves_then_fails",
        re.compile(r"(?:before|without|until|no|not even) (?:the |a |my )?(?:first|single|any) request"),
    ),
    ("hangs", re.compile(r"no crash, it just sits there in graph")),
    (
        "shm",
        re.compile(r"shm[-_]size[\"']?\s*[:= ]\s*[\"']?(?:\d+(?:\.\d+)?\s*[gt]|\d{4,}\s*m|\d{10,})"),
    ),  # it is given
)
_EXCEPT: Final = dict(_NOT)
_SENTENCE: Final = re.compile(r"(?<=[.!?;])\s+|\n")
_LOG_LINE: Final = re.compile(
    r"^sglang[:_]\w+[{ ]|^(?:capture (?:\w+ )*graph (?:begin|end)\b|load weight (?:begin|end)\b|memory pool end\.|kv cache is allocated\.)|(?:prefill|decode) batch\b.*#|#(?:full |swa )?token: |"
    r"^(?:[\w./-]+ *\| *|\S+ std(?:out|err) [fp] |\w{3} [ \d]?\d [\d:]{8} \S+ \S+: )?\[\d{4}-\d\d-\d\d"
)
_LONGEST_SENTENCE = 600


_ONES: Final = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS: Final = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SPELT: Final = re.compile(
    rf"\b(?:({'|'.join(_TENS)})(?:[- ]({'|'.join(_ONES[:9])}))?|({'|'.join(_ONES)}))(?: per ?cent| %)"
)


def _percents(sentence: str) -> str:
    """`ninety two percent` as `92 %`."""

    def figure(found: re.Match[str]) -> str:
        tens, ones, alone = found.groups()
        number = (_TENS.index(tens) + 2) * 10 if tens else 0
        number += _ONES.index(ones or alone) + 1 if ones or alone else 0
        return f"{number} %"

    return _SPELT.sub(figure, sentence)


# Output of a model that repeats one word or sign: `of of of of`, `// // // //`, `!!!!!!!!`.
_REPEATS: Final = re.compile(r"(?<![\w/])([a-z]{2,}|[/!?.,*#<>]{1,3})(?: \1){3,}(?![\w-])|(?<!!)!{6,}")
# `no 'Retract' and no 'leak' in the log`: what was looked for and is not there.
_DENIED: Final = re.compile(
    r"\b(?:no|zero|0|without(?: any)?|not a single|never an?y?)(?: of)? ['\"`]?[\w #-]{2,30}['\"`]?(?:,? (?:and|or|nor) (?:no )?['\"`]?[\w #-]{2,30}['\"`]?)*"
    r" (?:lines? |messages? |warnings? |errors? )?(?:in (?:the |our |any )?(?:\w+ )?(?:logs?|journal|output|dmesg|kernel log)|anywhere|(?:was|were|is|are) (?:seen|printed|logged|found))"
)


def _without_denials(sentence: str) -> str:
    return without_denied(_DENIED.sub(" ", sentence))


def read(page: Page, text: str, grade: Grade) -> None:
    """Every term that a sentence of the text states, with the line it stands on."""
    line = 1
    for sentence in _SENTENCE.split(text):
        low = without_container_images(" ".join(sentence.lower().split())[:_LONGEST_SENTENCE])
        low = _without_denials(_percents(low))
        if len(low) > 3 and not _LOG_LINE.search(low) and not is_frame(sentence):
            if _REPEATS.search(low):
                page.add("symptom", True, line, scope="repeats_token", grade=grade)
                page.add("symptom", True, line, scope="garbled_output", grade=grade)
            for term, pattern in _PATTERNS:
                if pattern.search(low) and not (term in _EXCEPT and _EXCEPT[term].search(low)):
                    page.add("symptom", True, line, scope=term, grade=grade)
        line += sentence.count("\n")
