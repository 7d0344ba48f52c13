"""Messages that the server, its runtime or the kernel print, each under a short name.

A pattern is as short as it may be without meaning something else; wording that changed between versions is covered by
alternatives. Where a message stands in SGLang is noted beside it (0.5.9 unless said otherwise).
"""

# ruff: noqa: E501  (a pattern reads better on one line)
from __future__ import annotations

import re
from typing import Final

from tools.host.parsers.incident.denials import happened
from tools.host.parsers.lines import is_search
from tools.host.parsers.page import Page
from transcripts.facts import Grade

_SHOWN = 200

_TABLE: Final[tuple[tuple[str, str], ...]] = (
    # memory at start: model_executor/model_runner_kv_cache_mixin.py, 0.5.23 mem_cache/kv_cache_configurator.py
    (
        "weights_leave_no_room",
        r"not enough memory\. please try to increase --mem-fraction|leave no gpu memory for the kv cache|minimum viable = |kv/?mamba pools? (?:are )?empty|max_total_num_tokens=-?0*\b(?!\d)|please try to increase --mem-fraction",
    ),
    ("memory_unbalanced", r"memory capacity is unbalanced|memory imbalance"),
    ("graph_capture_failed", r"capture (?:\w+ )*(?:cuda |cpu |npu )?graph failed|capturing (?:cuda )?graphs? failed"),
    ("graph_progress", r"capturing batches"),
    ("load_straggler", r"other ranks that didn't finish loading"),
    ("piecewise_failed", r"piecewise_cuda_graph_runner|warmup_compile|capture piecewise.*fail"),
    (
        "cuda_oom",
        r"\booms?\b(?![- ]?kill)|(?:cuda|hip) out of memory|outofmemoryerror|\boom in\b|torch\.cuda\.outofmemory|cublas_status_alloc_failed|cuda error: out of memory",
    ),
    ("device_out_of_resources", r"hsa_status_error_out_of_resources|available free mem ?: 0 mb"),
    (
        "workspace_overflow",
        r"alignedallocator|failed to allocate memory for batch_prefill|workspace (?:buffer )?(?:is )?(?:too small|overflow|exceed)|buffer overflow when allocating|float_workspace|exceeds its workspace",
    ),
    # the fork's own csrc/deep_ep.cpp: x.size(0) <= num_max_dispatch_tokens_per_rank
    ("dispatch_overflow", r"<= num_max_dispatch_tokens_per_rank|exceeds? (?:the )?num_max_dispatch_tokens_per_rank"),
    # pools: mem_cache/common.py, managers/schedule_batch.py, managers/scheduler.py
    ("prefill_alloc", r"prefill out of memory\. try to lower"),
    ("decode_alloc", r"decode out of memory\. try to lower"),
    ("slots_alloc", r"alloc_req_slots runs out of memory"),
    (
        "last_request",
        r"no space left for only one request|retract_decode: aborted request|even after retracting all other requests|aborted last request",
    ),
    ("retraction", r"retract requests|decode out of memory happened|#retracted_reqs"),
    ("crash_after_retraction", r"with an empty batch|empty batch"),
    ("pool_leak", r"pool(?:_allocator)? memory leak detected|memory leak detected"),
    ("batch_full_flag", r"batch_is_full"),
    (
        "input_too_long",
        r"request length is longer than the kv cache pool|exceeds the model's context length|exceeds the maximum allowed length|longer than the model's context length|input is too long|exceeds the model's maximum context",
    ),
    ("spec_v2", r"spec v2 is (?:enabled|used)"),
    ("overlap_off", r"overlap scheduler is disabled"),
    ("spec_default_reset", r"max running requests is reset to \d+"),
    (
        "state_caps_running",
        r"capped to \d+ by the mamba state cache|max_running_requests (?:is )?(?:capped|reduced|limited).*(?:mamba|state)",
    ),
    (
        "state_pool_too_small",
        r"not enough (?:space for mamba|gpu memory for hybrid)|state cache is too small|can not alloc mamba cache",
    ),
    ("running_reduced_by_kv", r"max_running_requests was reduced from"),
    ("dp_chunk_adjusted", r"chunked prefill size is adjusted (?:from \d+ )?to"),
    # host tiers: mem_cache/memory_pool_host.py, 0.5.23 mem_cache/pool_host/base.py, hybrid_cache/hybrid_pool_assembler.py
    ("host_pool_allocated", r"host memory for hierarchical kv cache|hierarchical kv host pool"),
    ("host_pool_refused", r"not enough host memory|no host memory is left for hicache"),
    ("host_pool_not_larger", r"host memory should be larger than the device memory|smaller than the device pool"),
    (
        "pin_failed",
        r"cudahostregister|hiphostregister|hiphostmalloc.{0,60}fail|pinned host memory allocation|host buffer is not pinned|cudahostalloc failed|failed to pin|failed to register memory\b.{0,80}cannot allocate memory",
    ),
    ("l3_attached", r"attached hicache storage backend|creating storage backend '"),
    (
        "l3_failed",
        r"write page to storage: \d+ pages failed|failed to (?:fetch \S+ from|save tensor|retrieve page|create dynamic storage|register buffer to mooncake)",
    ),
    ("hicache_size_unsupported", r"does not support --hicache-size|use --hicache-ratio instead"),
    (
        "hicache_layout_refused",
        r"(?:reject\w*|unsupported|does not support|not support\w*|invalid).{0,60}(?:layout|layer.first|page.first)|(?:layout|layer.first|page.first)[\w ]{0,60}(?:reject|unsupported|not supported|is not compatible)|unsupported layout/io backend",
    ),
    (
        "hicache_needs_unified_tree",
        r"hiradixcache only supports|only supports mha and mla|no matching hicache strategy|requires? (?:the )?unified ?radix|unifiedradix",
    ),
    ("hicache_io_switched", r"decode backend is not compatible with hierarchical cache"),
    ("illegal_access", r"illegal memory access|cudaerrorillegaladdress|memory access fault"),
    ("index_out_of_bounds", r"index out of bounds|indexkernel\.cu|srcindex < srcselectdimsize|out-of-bounds"),
    ("nan", r"\bnans?\b (?:detected|in|values?)|probability tensor contains|contains either `?inf`?"),
    # kernel, container, operating system
    ("kernel_oom", r"out of memory: kill|oom-kill|oom.killer|invoked oom|oom_reaper|killed process|victim process"),
    (
        "cgroup_kill",
        r"memory cgroup out of memory|oomkilled(?![\"'` ]*(?:[:=]|is|says|shows|was)?[\"'` ]*(?:false|no\b))|constraint=constraint_memcg",
    ),
    (
        "node_oom",
        r"system ?oom\b|global_oom|constraint=constraint_none|node (?:ran|is) out of memory|evicted?.{0,40}low on resource: memory|memorypressure",
    ),
    (
        "killed",
        r"exit(?:ed)?(?: with)?(?: code| status)?[ =:]*-?(?:9|137)\b|\bsigkill\b|exit code -9|signal 9\b|^killed$",
    ),
    ("stopping", r"sigterm received|gracefully exiting"),
    ("child_failed", r"sigquit received|received sigquit from a child process"),
    ("disk_full", r"errno 28|no space left on device|enospc|disk quota exceeded|\bdisk (?:is )?full\b"),
    ("nccl_shm", r"error while creating shared memory segment|/dev/shm/nccl"),
    (
        "shm_full",
        r"bus error|no space left on device.*shm|shm.*no space left|unable to (?:allocate|open) shared memory|shared memory.*(?:exhaust|insufficient)",
    ),
    (
        "nccl_error",
        r"nccl error|ncclsystemerror|ncclinternalerror|ncclunhandledcudaerror|ncclinvalidusage|ncclremoteerror|distbackenderror|nccl warn|net/ib ?:|ibv_\w+ failed|nccl\b.*\b(?:segfault|segmentation|sigsegv|crash)|(?:segfault|segmentation fault|sigsegv).*\bnccl",
    ),
    # NCCL bootstraps over a bridge or the loopback, which lead to no other node
    (
        "nccl_local_interface",
        r"net/socket ?: ?using.{0,20}\](?:docker|veth|br-|virbr|cni|flannel|lo:)|connect to (?:127\.|172\.17\.)[\d.]+.{0,12}failed|connection refused.{0,40}172\.17\.",
    ),
    ("nccl_timeout", r"watchdog caught collective|nccl.*timed? ?out|collective operation timeout"),
    (
        "collective_timeout",
        r"timed out waiting \d+ ?ms for (?:recv|send)|gloo.{0,80}(?:timed out|timeout)|monitoredbarrier|barrier.{0,30}timed out",
    ),
    ("nccl_init", r"sglang is using nccl|init torch distributed begin"),
    ("memlock", r"memlock|locked.memory|ulimit -l\b"),
    ("too_many_files", r"too many open files|emfile|code: 24\b"),
    ("permission_denied", r"permission denied|eacces|errno 13|operation not permitted(?! when stream)"),
    (
        "not_capturable",
        r"operation not permitted when stream is capturing|cudaerrorstreamcapture\w+|hiperrorstreamcapture\w+",
    ),
    # model_executor/pool_configurator.py, managers/tp_worker.py (0.5.23)
    ("window_leaves_no_room", r"swa pool cap \(.*leaves no room for the full"),
    ("pool_below_context", r"kv pool holds \d+ tokens, fewer than --context-length"),
    (
        "cache_dir_denied",
        r"(?:permission denied|read-only file system|eacces|errno 13|errno 30|not writable).*(?:cache|triton|\.cache|torchinductor|deep_?gemm|flashinfer|/root|home|tmp)|(?:cache|triton|inductor|deep_?gemm|flashinfer)\S*.{0,60}(?:permission denied|read-only|not writable)",
    ),
    (
        "build_failed",
        r"fatal error: \S+\.h\b|no such file or directory.*\.h\b|failed to load hicache native hash|ninja (?:is required|build stopped|build failed|not found)|\b(?:gcc|g\+\+|c\+\+|clang|nvcc|cc1plus|cc|ninja|cmake|ptxas|make|cargo|rustc)['\"`]?(?::| is)? (?:command )?not found|(?:no such file or directory|not found|filenotfounderror).{0,40}\b(?:nvcc|ninja|gcc|g\+\+|ptxas|cmake)\b|command '?(?:gcc|g\+\+|nvcc|cc)'? (?:failed|not found)|failed to find c compiler|cuda_home environment variable is not set|error building extension|could not find .*(?:nvcc|gcc|compiler)|cannot find -l|openssl/|python\.h",
    ),
    ("huge_pages_off", r"(?:shmem_enabled|within_size).*\[(?:never|deny)\]|transparent_hugepage.*\[never\]"),
    # flags and combinations
    ("unrecognized_argument", r"unrecognized arguments|no such option|unknown argument|unexpected (?:extra )?argument"),
    (
        "invalid_choice",
        r"invalid choice|invalid value for|choose from|unknown (?:reasoning|tool.?call)?.?parser|unsupported (?:reasoning |tool.call )?(?:model type|parser)|invalid .{0,20}parser",
    ),
    (
        "deprecated_flag",
        r"--?[\w-]+['\"`]? (?:is|are|has been|was) (?:now )?(?:deprecated|renamed|removed)|deprecated.{0,40}use --|is deprecated",
    ),
    ("deprecated_parser", r"tool_call_parser .* is deprecated"),
    (
        "context_longer_than_model",
        r"greater than the derived context_length|sglang_allow_overwrite_longer_context_len|longer than the derived",
    ),
    (
        "no_kernel_for_gpu",
        r"(?:supported|available|allowed|work|valid) (?:only )?(?:on|for) (?:\w+ ){0,2}(?:blackwell|hopper|ampere|ada|volta|turing|sm\s?_?\d+|mi\d{3}|amd|rocm|hip)\b|(?:blackwell|hopper|ampere|sm\s?_?\d+) (?:gpus? )?(?:does not|do not|only) support|unsupported architecture|no kernel image is available|not (?:supported|implemented|available) (?:on|for) (?:this )?(?:sm\s?_?\d+|gpu|device|architecture|compute capability)|requires? sm\s?(?:_|[<>=]+ ?)?\d+|only supported on (?:hopper|blackwell|sm)|unsupported (?:gpu|compute capability|sm)|sm_?1[0-2]\d\w? (?:is )?(?:not|un)|requires (?:a )?(?:hopper|blackwell)",
    ),
    ("moe_pair_missing", r"pre-?permute function|is not registered"),
    (
        "combination_refused",
        r"mutually exclusive|this combination is|(?:is|are) only supported (?:for|with|when)|cannot (?:enable|set|use) both|cannot set .{0,60} together|cannot be used (?:together|at the same time|with)|is (?:not|in)[ -]?compatible with|incompatible with|does(?: not|n't) (?:yet )?support (?:speculative|dp attention|pp|pipeline|cuda graph|page.?size|--|chunked|ep\b|hierarchical|overlap)|not supported (?:together|with|when)|only supports? page.?size|\bassertionerror: .*(?:must|only|should|support|require)|requires? --[\w-]+",
    ),
    (
        "fp8_refused",
        r"only supports? (?:kv.cache.dtype|fp8|bf16)|(?:unsupported|invalid).{0,20}kv.?cache.?dtype|fp8.{0,30}(?:is )?not supported|kv.?cache.?dtype.{0,60}(?:not supported|unsupported)|fp8e4nv not supported|type fp8e4",
    ),
    (
        "fp8_fallback",
        r"only supports fp8_e4m3 if using fp8|setting attention backend to|falling back to (?:triton|flashinfer|bf16|auto|torch)|fall ?back (?:from|to) .*(?:backend|triton|flashinfer)",
    ),
    ("fp8_kv", r"using kv cache dtype: torch\.float8"),
    ("lmcache_needs_file", r"requires --lmcache-config-file|mp mode requires"),
    (
        "integration_error",
        r"lmcache.*(?:attributeerror|importerror|no attribute|cannot import|unexpected keyword)|(?:attributeerror|importerror|typeerror).*(?:lmcache|mooncake|nixl|aibrix|hf3fs)|cannot import name|no module named ['\"](?:lmcache|mooncake|nixl)",
    ),
    (
        "pd_state_mismatch",
        r"state component count mismatch|does not support (?:pd )?different|different (?:prefill / decode|attention tp|tp sizes?)|requires (?:the same|matching) (?:attention )?tp sizes?|state layouts differ|slot size mismatch|geometry differs|(?:page.?size|kv.?cache.?dtype|tp.?size|layout|layer num\w*|item.?len\w*)\b.{0,40}mismatch.*|mismatch between (?:prefill and decode|decode and prefill)",
    ),
    (
        "pd_transfer_failed",
        r"kvtransfererror|transfer failed for request|failed to get kvcache from|failed to send kv|transfer_sync: |invalid address range",
    ),
    (
        "draft_shares_embedding",
        r"(?:shares?|sharing|tied?) .{0,40}(?:embed|lm_head).{0,60}(?:target|freed|released)|(?:freed|released) .{0,30}(?:embed|lm_head)",
    ),
    (
        "dtypes_differ",
        r"expected q\.dtype|(?:query|\bq\b).{0,20}(?:key|\bk\b).{0,40}(?:same|must match).{0,10}dtype|expected query, key,? and value to have the same dtype",
    ),
    # managers/prefill_delayer.py (0.5.16): a prefill was held back for as long as may be, and the metric that counts it
    ("prefill_held_back", r"prefilldelayer timeout|prefill_delayer_outcomes_total\{[^}]*\bdelay\b"),
    ("queue_full", r"request queue is full|queue is full"),
    ("fp8_without_scales", r"fp8 kv cache but no scaling factors"),
    (
        "huge_pages_warned",
        r"no huge pages|huge ?pages? (?:are |is )?(?:off|disabled|unavailable)|shmem_enabled is ['\"]?(?:never|deny)",
    ),
    # signs of life and death
    ("detokenizer_silent", r"get a response from detokenizer"),
    ("watchdog", r"watchdog timeout|watchdog.*(?:timed out|triggered)"),
    ("draft_loaded", r"load weight end\..*(?:mtp|nextn|eagle|draft|dflash|dspark)"),
    (
        "draft_class_wrong",
        r"has no attribute ['\"](?:set_embed\w*|set_eagle3\w*|get_embed\w*|hot_token_id|capture_aux_hidden_states)",
    ),
    ("assertion", r"assertionerror"),
)
_PATTERNS: Final = tuple((name, re.compile(pattern)) for name, pattern in _TABLE)
_TRIGGER: Final = re.compile(
    r"memory|oom|error|pool|storage|spec v2|sigterm|sigquit|overlap|other ranks|gracefully|fail|mismatch|deprecat|support|compatib|exclusive|reset to|adjusted|capped|reduced|retract|"
    r"killed|kill|signal|exit|nccl|denied|read-only|open files|emfile|emory|empty|shm|shared|bounds|nan|inf|registe|"
    r"pinned|host|layout|layer|choose|choice|argument|option|invalid|unknown|watchdog|detokenizer|batch|architecture|"
    r"capability|kernel|sm_?\d|requires|import|assert|length|long|hugepage|shmem|backend|dtype|compile|ninja|gcc|"
    r"nvcc|openssl|\.h\b|unified|viable|fraction|workspace|resources|mamba|state|leak|indexkernel|code: 24|load weight|"
    r"kvcache|transfer|queue|scaling|huge|attribute|not found|within_size|cannot|only|system ?oom|victim|errno|enospc|quota|disk|timed out|gloo|barrier|distributed|differ|lmcache|mooncake|imbalance|unbalanced|capture|captur|delayer|total_num_tokens|ulimit|memlock"
)

_HOST: Final = re.compile(
    r"oom[- ]?kill|killed process|out of memory: kill|\bhost\b|\brss\b|resident|\bram\b|cgroup|oomkilled|system ?oom|victim process|global_oom|^\s*oom(?:_kill|_group_kill)?[ :=]+\d+\s*$"
)


# Refusals that a command of the operator's got, of the kernel or a shell: nothing that the server was refused.
_OWN_COMMAND: Final = re.compile(
    r"^\W*(?:sudo: ?)?(?:dmesg|journalctl|ls|cat|tail|head|less|grep|find|ps|df|du|ss|lsof|strace|gdb|py-spy|perf|nvidia-smi|docker|kubectl|"
    r"systemctl|bash|sh|zsh|sudo|-bash|ssh|scp|cp|mv|rm|echo|tee|sysctl|crictl|podman)\b[^/]{0,4}:|read kernel buffer failed|"
    r"permission denied \(publickey|docker daemon socket|ptrace"
)
_OF_FILES: Final = frozenset(("permission_denied", "cache_dir_denied"))

# The server prints every setting at its start, as a class or, later, as a mapping; a setting is no message.
_SETTINGS: Final = ("ServerArgs(", "server_args=")


def is_settings(line: str) -> bool:
    """Whether the server prints its settings here: their names tell of no event."""
    return any(mark in line for mark in _SETTINGS)


def read(page: Page, line: str, number: int, grade: Grade) -> None:
    """Every message of the table that this line holds."""
    if is_settings(line) or is_search(line):
        return
    low = line.lower()
    if not _TRIGGER.search(low):
        return
    real = happened(low)
    host, own = _HOST.search(low), _OWN_COMMAND.search(low)
    for name, pattern in _PATTERNS:
        if not pattern.search(real if name == "cuda_oom" else low):
            continue
        if not (host and name == "cuda_oom") and not (own and name in _OF_FILES):
            page.add("message", " ".join(line.split())[:_SHOWN], number, scope=name, grade=grade)
