"""Too little room: requests that wait, a pool that is full, GPU memory that runs out, and what the model is."""

# ruff: noqa: E501  (a pattern reads better on one line)
from __future__ import annotations

from typing import Final

from tools.host.parsers.incident.symptoms.words import CACHE, OOM, REQ

TERMS: Final[tuple[tuple[str, str], ...]] = (
    # queue and pool
    (
        "requests_wait",
        rf"{REQ}.{{0,40}}\b(?:wait|waits|waiting|queued?|queueing|in line|pending|pile up)\b|\b(?:wait|waits|waiting|queue|queued|queueing|queues)\b.{{0,40}}{REQ}|the rest (?:waits?|queues?)|queue (?:grows|builds|is long|never)|#queue-req: [1-9]|queueing observed|\bqueue\b.{{0,20}}(?:hundreds|dozens|\d+)|refuses to go past|never gets? through|not admitted|admits? (?:no|only)",
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
        r"\b(\d+) of (?:16|32|64|128|256|8) on (?:every|each) rank|\bone (?:slot|request) (?:short|less|fewer|per (?:dp |gpu )?rank|of .{0,20}never)|never (?:used|filled|reaches).{0,30}(?:slot|limit)|(?:slot|limit).{0,40}never (?:used|filled|reached)|\b7 of 8\b(?! (?:turns?|requests?|prompts?|times|answers|calls|(?:gpu|card|device|worker|process|node|expert)(?:e?s)?)\b)|(?:one|a) slot .{0,30}(?:idle|unused|lost)|n ?- ?1\b",
    ),
    (
        "cache_idle",
        rf"{CACHE}.{{0,50}}\b(?:nearly empty|almost empty|practically empty|mostly empty|empty|idle|unused|free|low|a third full|half full|half empty|nowhere near full|not full|to spare|barely used|plenty|room|headroom|a (?:third|quarter|fifth|tenth))\b(?!\s*memory)|(?:four fifths|most|half|two thirds|three quarters|plenty|\d\d ?%) of (?:the )?{CACHE}.{{0,20}}(?:empty|free|idle|unused)|nowhere near full|kv usage (?:is )?low|low token usage|token usage:? 0?\.0\d|free kv|(?:with|while|although|despite) .{{0,30}}(?:free|empty|unused|spare) {CACHE}",
    ),
    (
        "cache_full",
        rf"{CACHE}.{{0,40}}\b(?:full|exhausted|saturat\w+|maxed|at (?:0\.9\d|1\.0|9\d ?%|100 ?%))\b(?<!not full)(?<!near full)(?<!third full)(?<!half full)|token usage:? (?:0\.9[3-9]|1\.0)|usage (?:sits |stays |is )?(?:at|near|around) (?:0\.9\d|1\b|9\d ?%)|kv cache pool is full",
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
    ("gpu_memory_out", rf"{OOM}|out of resources"),
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
        r"(?:documents?|prompts?|inputs?|files?|contexts?|requests?) of (?:about |some |around )?(?:\d{2,4}[k,]|\d{5,})[\d ]*k?[- ]?tokens?|\d{2,4}k?[- ]?(?:k|thousand)?[- ]tokens? (?:document|input|file|book|repo\w*)|(?:long|huge|large|big|giant|lengthy) (?:text |input )?(?:prompts?|contexts?|inputs?|documents?|requests?|prefills?)|\d{2,4}[k,]?(?:\d{3})?[- ]?(?:k|thousand)?[- ]tokens? (?:text )?(?:prompt|prefill|context|input)|\d{2,3}k (?:text )?(?:prefill|prompt|context)|quarter million tokens|thousand tokens?.{0,20}prompt|\d+ requests? x \d+k|long-context|\d{2,4}[- ]pages?\b",
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
    ("prefill_graphs", r"prefill (?:cuda )?graphs?|capturing num tokens|piecewise|cuda-graph-backend-prefill"),
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
)
