"""Prefixes that are reused or lost: on the GPU, in host memory, in a store."""

# ruff: noqa: E501  (a pattern reads better on one line)
from __future__ import annotations

from typing import Final

TERMS: Final[tuple[tuple[str, str], ...]] = (
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
        r"(?:latency|ttft|throughput|speed|performance|numbers?) (?:is|are|stays?|remains?) (?:about |roughly |exactly )?(?:the same|unchanged|equal|identical)|same or (?:a bit )?worse|(?:nothing|none of it) (?:is|was|got|gets) (?:any )?(?:faster|quicker|better)|(?:same|as (?:slow|fast)) as (?:before|without)|no change|made no difference|changes nothing|rather the opposite|no (?:benefit|gain|improvement|difference|faster|effect|speed-?up)|not (?:any )?faster|(?:does|did) (?:not|nothing) (?:help|improve|to)|useless|brings? (?:us |me )?nothing|same (?:ttft|speed|throughput)|nothing gained|doesn't help",
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
        r"eats? (?:up )?(?:the )?(?:ram|host memory|system memory|memory of the host)|\bres\b.{0,60}\b(?:grow(?:s|ing)?|ris(?:es|ing)|climb(?:s|ing)?)\b|\bres\b.{0,40}from \d+ ?g\w* to \d+ ?g|grows? (?:by )?\d+ ?[mg]i?b (?:per|an|a|every|each)|(?:rss|resident|host memory|system memory|ram)\b.{0,60}\d ?(?:->|to) ?\d|(?:rss|resident|host memory|system memory|ram)\b.{0,60}\d gi?b ?(?:->|to) ?\d|(?:host|system|cpu|resident|rss|ram|resident memory|workers?)\b.{0,40}(?:grows?|growing|climbs?|climbing|creeps?|increases?|rises?|keeps)|memory (?:leak|grows).{0,40}(?:host|cpu|ram|rss)|(?:grows?|climbs?) .{0,30}(?:host|ram|rss)",
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
)
