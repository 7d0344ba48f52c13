"""What can be kept in host RAM, option by option: what each does and does not do, and what it needs.

Every statement hangs on a pattern in the tree; a version whose code does not say so yields no such statement.
"""

from __future__ import annotations

from tools.diagnosis.model import Anchor, ResearchQuestion

_ANY = "srt/**/*.py"
_ARGS = "srt/server_args.py"
_FIELDS = "srt/arg_groups/**/*.py"
_POOL = "srt/mem_cache/**/*.py"


def _flag(name: str, claim: str) -> tuple[Anchor, Anchor]:
    """A flag where it is declared: as an option string, or as a field of the newer tables."""
    field = name.removeprefix("--").replace("-", "_")
    return (
        Anchor(rf'^\s*"{name}",?$', _ARGS, name, claim, "does"),
        Anchor(rf"^    {field}: ", _FIELDS, name, claim, "does"),
    )


QUESTIONS = (
    ResearchQuestion(
        "offload.hierarchical_cache",
        "What does the hierarchical cache keep in host RAM, for which model pools, and what excludes it?",
        (
            *_flag("--enable-hierarchical-cache", "keeps evicted prefixes in host RAM and copies them back on a hit"),
            Anchor(
                r"enable-hierarchical-cache and disable-radix-cache are mutually exclusive",
                _ANY,
                "--enable-hierarchical-cache",
                "cannot be combined with --disable-radix-cache",
                "constraint",
            ),
            Anchor(
                r"HiRadixCache only supports MHA and MLA",
                _POOL,
                "--enable-hierarchical-cache",
                "works for plain attention and MLA pools only in this version",
                "constraint",
            ),
            Anchor(
                r"def init_load_back",
                "srt/mem_cache/hiradix_cache.py",
                "--enable-hierarchical-cache",
                "a host hit is copied into device slots before prefill: running requests still need the GPU pool",
                "does_not",
            ),
            Anchor(
                r"is_insert=False",
                "srt/managers/schedule_batch.py",
                "retraction",
                "KV of a retracted request is thrown away, not moved to the host",
                "does_not",
            ),
        ),
        ("--enable-hierarchical-cache",),
    ),
    ResearchQuestion(
        "offload.hicache_flags",
        "Which flags shape the host pool and its copies, with which defaults and choices?",
        (
            *_flag("--hicache-ratio", "host pool as a multiple of the device pool, for each rank"),
            *_flag("--hicache-size", "host pool in GB for each rank; above the ratio when set"),
            *_flag("--hicache-write-policy", "when prefixes are copied: at first use, at the second, or at eviction"),
            *_flag("--hicache-io-backend", "who copies: kernels or direct copies"),
            *_flag("--hicache-mem-layout", "layout of the host pool; storage backends ask for some"),
            *_flag("--disable-hicache-numa-detect", "switches off binding to the GPU's NUMA node"),
            *_flag("--hicache-host-memory-fraction", "share of host memory that automatic sizing may take"),
            *_flag("--hicache-host-memory-mode", "host memory as a cache, or as a staging buffer only"),
        ),
        ("--hicache-ratio", "--hicache-size", "--hicache-write-policy", "--hicache-io-backend", "--hicache-mem-layout"),
    ),
    ResearchQuestion(
        "offload.host_memory",
        "How is the host pool sized and checked: per rank or per host, with which reserve?",
        (
            Anchor(
                r"should be larger than the device memory",
                _POOL,
                "--hicache-ratio",
                "the host pool must be larger than the device pool, or the server does not start",
                "constraint",
            ),
            Anchor(
                r"ten_gb = 10 \* \(1024",
                _POOL,
                "--hicache-size",
                "each rank keeps 10 GiB free by its own reckoning",
                "constraint",
            ),
            Anchor(
                r"available_bytes = host_mem\.available - ten_gb",
                _POOL,
                "--hicache-ratio",
                "the check of each rank looks at the whole host's free memory, not at its share of it",
                "contradicts",
            ),
            Anchor(
                r"def _cgroup_memory_headroom|bounded by the process's visible cgroup",
                _POOL,
                "--hicache-ratio",
                "the check looks at the container's limit as well",
                "constraint",
            ),
            Anchor(
                r"^class MLATokenToKVPoolHost",
                _POOL,
                "--hicache-ratio",
                "MLA pools have a host pool of their own; every rank holds it whole",
                "does",
            ),
            Anchor(
                r"cudaHostRegister failed",
                _POOL,
                "pinning",
                "a failed registration of host memory is reported",
                "constraint",
            ),
        ),
        ("--hicache-ratio", "--hicache-size"),
    ),
    ResearchQuestion(
        "offload.storage",
        "Which storage backends stand behind the host pool, and what does fetching need?",
        (
            *_flag("--hicache-storage-backend", "a third tier behind the host pool: files or a store"),
            *_flag("--hicache-storage-prefetch-policy", "whether a request waits for pages of the store"),
            *_flag("--hicache-storage-backend-extra-config", "settings of the backend, thresholds among them"),
            Anchor(r"prefetch_threshold", _POOL, "prefetch_threshold", "short prefixes are not fetched", "constraint"),
            Anchor(
                r"SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR",
                _ANY,
                "file backend",
                "files lie in a folder named by the environment",
                "needs",
            ),
            Anchor(
                r"does not support layer_first layout",
                _ANY,
                "mooncake backend",
                "the backend switches the host layout",
                "constraint",
            ),
        ),
        ("--hicache-storage-backend",),
    ),
    ResearchQuestion(
        "offload.lmcache",
        "Can LMCache be used with this model's pool?",
        (
            *_flag("--enable-lmcache", "another host cache, through a connector"),
            Anchor(
                r'getattr\(self\.token_to_kv_pool_allocator\._kvcache, "k_buffer"\)',
                "srt/mem_cache/storage/lmcache/*.py",
                "--enable-lmcache",
                "reads separate K and V buffers, which an MLA pool does not have: unusable with MLA",
                "contradicts",
            ),
            Anchor(
                r"--enable-lmcache and --enable-hierarchical-cache are",
                _ANY,
                "--enable-lmcache",
                "cannot be combined with --enable-hierarchical-cache",
                "constraint",
            ),
            Anchor(
                r"LMCacheUnifiedRadixCache does not yet support speculative decoding",
                _ANY,
                "--enable-lmcache",
                "not with speculative decoding",
                "constraint",
            ),
            Anchor(
                r"lmcache_config_file: ",
                _ANY,
                "--lmcache-config-file",
                "needs its own file and server",
                "needs",
            ),
        ),
        ("--enable-lmcache",),
    ),
    ResearchQuestion(
        "offload.decode_kv",
        "What does offloading KV on a decode server of a split deployment do?",
        (
            *_flag("--disaggregation-decode-enable-offload-kvcache", "keeps KV of finished turns, on decode servers"),
            Anchor(
                r"disaggregation-decode-enable-offload-kvcache is only supported for decode side",
                _ANY,
                "--disaggregation-decode-enable-offload-kvcache",
                "only on the decode side of prefill/decode disaggregation",
                "needs",
            ),
        ),
        ("--disaggregation-decode-enable-offload-kvcache",),
    ),
    ResearchQuestion(
        "offload.weights",
        "Which options move weights instead of KV to host RAM, and at what cost?",
        (
            *_flag("--cpu-offload-gb", "keeps weights, not KV, in host RAM; they are read at every step"),
            *_flag("--offload-group-size", "moves layers' weights in groups, fetched ahead"),
            Anchor(
                r"V2 offload does not support cpu_offload_gb",
                _ANY,
                "--offload-group-size",
                "not together with --cpu-offload-gb",
                "constraint",
            ),
            *_flag(
                "--kt-weight-path", "ktransformers: runs experts on the CPU; frees GPU memory for KV and slows decode"
            ),
        ),
        ("--cpu-offload-gb", "--offload-group-size", "--kt-weight-path"),
    ),
    ResearchQuestion(
        "offload.draft",
        "Is the draft model's KV kept and restored with the prefix?",
        (
            Anchor(
                r"draft.*host.?pool|mem_pool_host_draft|draft_host|has_draft",
                "srt/{mem_cache,managers}/**/*.py",
                "draft KV",
                "the draft's KV has a place in the host tier",
                "does",
            ),
            Anchor(
                r"own their own KV cache pools",
                "srt/speculative/*.py",
                "draft KV",
                "draft and target share slots but keep their own pools; watch accept length after load-backs",
                "answer",
            ),
        ),
        ("--speculative-algorithm",),
    ),
)
