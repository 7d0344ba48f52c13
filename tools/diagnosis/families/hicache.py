"""The host and storage tiers of the prefix cache."""

from __future__ import annotations

from tools.diagnosis.changes import Forbidden, lower_fraction, plan, scale, step, upgrade
from tools.diagnosis.clues import (
    Clue,
    Entry,
    Seen,
    above,
    both,
    either,
    flag,
    lacks,
    phase,
    said,
    setting_above,
    setting_below,
    symptom,
    when,
)
from tools.diagnosis.conditions import KILLED
from tools.diagnosis.host_memory import limit_binds, little_of_the_host, others_die, room_for_pools
from tools.diagnosis.measured import (
    disk_saturated,
    disk_writes,
    metric_at_least,
    metric_is_zero,
    mostly_generates,
    same_with,
    serves_mostly,
    slower_with,
    stands_in,
)
from tools.diagnosis.model import Actions, Proposal, Question
from tools.diagnosis.sums import hicache_ratio_that_fits, host_room_gb
from tools.diagnosis.view import View

_ON = either(when(lambda view: view.hierarchical), symptom("host_cache"), said("host_pool_allocated"))
_STORE = either(flag("--hicache-storage-backend"), symptom("storage_tier"))
_PAGE_ONE = either(flag("--page-size", "1"), symptom("page_size_one"), lacks(flag("--page-size")))
_KEEP_FRACTION: Forbidden = ("lower", "--mem-fraction-static", "GPU memory is not what is short")


def _oversubscribed(view: View) -> Seen | None:
    """Ranks times the printed pool size against what the host has."""
    each = view.number("host_pool_gb")
    ranks = view.value("--tp-size") or view.number("host_pool_ranks") or view.number("gpu_count")
    total = view.number("cgroup_limit_bytes") or room_for_pools(view)
    if each is None or not ranks or total is None or each * ranks * 1e9 < 0.93 * total:
        return None
    return Seen(
        f"{ranks:g} ranks x {each:g} GB = {each * ranks:.0f} GB of {total / 1e9:.0f} GB",
        view.sources("host_pool_gb", "mem_total_bytes"),
    )


def _size_times_ranks(view: View) -> Seen | None:
    size = view.value("--hicache-size")
    ranks = view.value("--tp-size") or view.number("gpu_count")
    total = view.number("cgroup_limit_bytes") or view.number("mem_available_bytes") or view.number("mem_total_bytes")
    if not size or not ranks or total is None or size * ranks * 1e9 < 0.9 * total:
        return None
    return Seen(f"{ranks:g} ranks x {size:g} GB", view.flag_sources("--hicache-size"), "typed")


_FROM_HOST = "cached_tokens_total{cache_source=host}"
_WAITS_IN_EVICTION = stands_in(
    "evict", "_evict_backuped", "_evict_regular", "evict_host", "writing_check", "write_backup", "evict_from_tree_cache"
)


def _each_pool_whole_size(view: View) -> Seen | None:
    """Two sub-pools of a rank each printed the size that was typed for the rank."""
    size = view.value("--hicache-size")
    pools = {one.scope: float(one.value) for one in view.facts.all("host_pool_gb") if one.scope}
    whole = [scope for scope, gb in pools.items() if size and abs(gb - size) < 0.02 * size]
    if not size or len(whole) < 2:
        return None
    return Seen(f"{' and '.join(sorted(whole))}: {size:g} GB each", view.sources("host_pool_gb"))


def _power_of_two(view: View) -> Seen | None:
    asked, taken = view.number("pin_asked_bytes"), view.number("pin_taken_bytes")
    if not asked or not taken:
        return None
    text = f"{asked / (1 << 30):.1f} GiB asked, {taken / (1 << 30):g} GiB pinned"
    return Seen(text, view.sources("pin_taken_bytes", "pin_asked_bytes"))


def _few_come_back(view: View) -> Seen | None:
    """Tokens served by the host are below a tenth of the tokens that were evicted."""
    evicted = view.number("metric", "evicted_tokens_total")
    back = view.number("metric", _FROM_HOST) or view.number("metric", "load_back_tokens_total")
    if not evicted or not back or back > 0.1 * evicted:
        return None
    return Seen(f"{back / evicted:.0%} of what was evicted", (_source(view, "evicted_tokens_total"),))


def _source(view: View, metric: str) -> str:
    found = view.facts.get("metric", metric)
    return "" if found is None else found.source


def _traffic_exceeds_tiers(view: View) -> Seen | None:
    """The conversations that were named hold more tokens than the GPU pool and the host pool together."""
    pool, wanted = view.number("kv_pool", ""), view.number("working_set_tokens")
    if not pool or not wanted or view.typed("--hicache-size"):
        return None
    both_tiers = pool * (1 + (view.value("--hicache-ratio") or 2.0))
    if wanted < both_tiers:
        return None
    text = f"{wanted:,.0f} tokens of conversations, {both_tiers:,.0f} in both tiers"
    return Seen(text, view.sources("working_set_tokens", "kv_pool"))


def _volume_full(view: View) -> Seen | None:
    folder = view.env("SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR") or "/tmp/hicache"  # noqa: S108  (SGLang's default)
    for one in view.facts.all("disk_used_share"):
        if float(one.value) >= 0.98 and folder.startswith(one.scope):
            return Seen(f"{one.scope} at {float(one.value):.0%}", (one.source,))
    return None


def less_host(view: View, why: str) -> Proposal:
    """A smaller size where a size is typed, else a smaller ratio, as far as the host's room is known."""
    ranks = view.value("--tp-size") or view.number("gpu_count") or 1
    room = host_room_gb(view)
    offered = view.number("host_offered_gb")
    if view.typed("--hicache-size"):
        now = view.value("--hicache-size") or 0
        to = int(now * 0.5)
        if offered is not None:
            to = int(min(now - 1, offered - 10.74))
        elif room is not None:
            to = int(min(now - 1, room / ranks))
        return step(view, "lower", "--hicache-size", max(1, to), f"{why}; the size is per rank, decimal GB", unit="GB")
    ratio = view.value("--hicache-ratio") or 2.0
    lower = max(1.1, round(ratio / 2 if ratio > 2.5 else ratio * 0.75, 1))
    each = view.number("host_pool_gb")
    if each is not None and room is not None:
        lower = max(1.1, min(round(ratio - 0.1, 1), int(ratio * room / (each * ranks) * 10) / 10))
    return step(view, "lower", "--hicache-ratio", lower, f"{why}; every rank takes its own share", unit="x GPU pool")


def _fewer_host(view: View) -> Actions:
    return plan(
        less_host(view, "all ranks together must leave the host its reserve"),
        never=(
            _KEEP_FRACTION,
            ("raise", "--hicache-ratio", "the host is already over"),
            ("raise", "--hicache-size", "the host is already over"),
            ("raise", "--mem-fraction-static", "a larger GPU pool asks for a larger host pool"),
        ),
        alternatives=(
            ("a storage backend with a small host pool", "where the prefixes must stay longer than RAM allows"),
            ("--hicache-size instead of a ratio", "an absolute size does not follow the GPU pool"),
        ),
        expected=(("the printed host memory x ranks below the free memory", "boot log"),),
        notes=(
            (
                "SGLang sizes per rank and, before 0.5.23, checks each rank "
                "against the whole host; side pools (indexer, draft, state) come on top."
            ),
        ),
    )


def _larger_host(view: View) -> Actions:
    if view.typed("--hicache-size"):
        change = scale(
            view, "--hicache-size", 2, "what comes from storage or is evicted has to pass through this pool", unit="GB"
        )
    else:
        now = view.value("--hicache-ratio") or 2.0
        largest, why = hicache_ratio_that_fits(view)
        fits = largest is not None and largest > now + 0.1
        to = round(min(now * 2, largest) if largest is not None and fits else now * 2, 1)
        why = f"what comes from storage or is evicted has to pass through this pool{'; ' + why if fits else ''}"
        change = step(view, "raise", "--hicache-ratio", to, why, unit="x GPU pool")
    return plan(
        change,
        never=(
            ("set", "--disable-radix-cache", "it removes the reuse that is left"),
            _KEEP_FRACTION,
            ("raise", "--max-running-requests", "host memory does not run requests"),
        ),
        alternatives=(
            ("fewer conversations kept warm", "where the host has no room for more"),
            ("a storage backend", "a tier behind the host pool"),
        ),
        notes=("Check ranks x size against the free host memory before the start.",),
    )


def _direct_io(view: View) -> Actions:
    return plan(
        step(view, "set", "--hicache-io-backend", "direct", "copies that do not depend on the attention kernels"),
        step(
            view,
            "set",
            "--decode-attention-backend",
            "flashinfer",
            "or keep the copy kernel and move decode off the backend it conflicts with",
        ),
        never=(
            _KEEP_FRACTION,
            ("lower", "--hicache-ratio", "the size of the host pool plays no part"),
            ("set", "--disable-cuda-graph", "graphs play no part"),
        ),
        alternatives=(("upgrade", "later versions resolve the pair at start"),),
    )


def _pages(view: View) -> Actions:
    return plan(
        step(
            view,
            "raise",
            "--page-size",
            64,
            "larger pages are copied directly, without staging buffers on the GPU",
            unit="tokens",
        ),
        lower_fraction(view, "copies need some GPU memory outside the static part"),
        never=(
            ("lower", "--hicache-ratio", "it is GPU memory that runs out"),
            ("raise", "--mem-fraction-static", "less would be left for the copies"),
        ),
        alternatives=(("upgrade", "the transfer path was rewritten"),),
    )


def _ratio_not_size(view: View) -> Actions:
    return plan(
        step(view, "remove", "--hicache-size", None, "this model's pool takes a ratio only"),
        step(
            view,
            "set",
            "--hicache-ratio",
            2.0,
            "the smallest useful host pool; work out ranks x pool x ratio before raising it",
            unit="x GPU pool",
        ),
        never=(_KEEP_FRACTION,),
    )


def _pin(view: View) -> Actions:
    return plan(
        less_host(view, "one registration must stay below what the platform can pin for a process"),
        never=(
            ("raise", "--mem-fraction-static", "a larger GPU pool asks for a larger host pool"),
            ("raise", "--hicache-ratio", "the registration would be larger still"),
        ),
        alternatives=(
            ("a locked-memory limit of the unit or container without bound", "where ulimit -l is small"),
            ("registration in chunks", "in versions that have SGLANG_HICACHE_HOST_REGISTER_CHUNK_GB"),
        ),
    )


def _prefetch(view: View) -> Actions:
    changes = [
        step(
            view,
            "set",
            "--hicache-storage-prefetch-policy",
            "wait_complete",
            "best effort gives up when the request is scheduled; this one waits for the pages",
        )
    ]
    if not view.typed("--hicache-storage-backend-extra-config"):
        changes.append(
            step(
                view,
                "set",
                "--hicache-storage-backend-extra-config",
                '{"prefetch_threshold": 64}',
                "prefixes below the threshold of 256 tokens are never fetched",
            )
        )
    return plan(
        *changes,
        never=(
            ("raise", "--mem-fraction-static", "the pages are there, they are not asked for"),
            ("set", "--disable-radix-cache", "the tiers need it"),
            _KEEP_FRACTION,
        ),
        alternatives=(
            ("one key space for writers and readers", "served name, TP size and model path enter the keys"),
            ("a larger host pool", "prefetch is limited to what the host pool has beyond the GPU's"),
        ),
    )


def _selective(view: View) -> Actions:
    return plan(
        step(
            view, "set", "--hicache-write-policy", "write_through_selective", "writes only what is seen a second time"
        ),
        *(
            [step(view, "raise", "--page-size", 64, "one object per page instead of one per token", unit="tokens")]
            if not view.typed("--disable-overlap-schedule") and _PAGE_ONE(view)
            else []
        ),
        never=(
            ("raise", "--hicache-ratio", "more to write, not less"),
            ("lower", "--chunked-prefill-size", "the writes are what slows it"),
            _KEEP_FRACTION,
        ),
        alternatives=(
            ("a faster store", "when every page is worth keeping"),
            ("no storage tier", "when its pages are seldom read"),
        ),
    )


def _no_store(view: View) -> Actions:
    return plan(
        step(view, "remove", "--hicache-storage-backend", None, "fetching costs more than computing the prefix again"),
        *(
            [
                step(
                    view,
                    "set",
                    "--hicache-storage-prefetch-policy",
                    "best_effort",
                    "do not wait for a store that is slower than the GPU",
                )
            ]
            if view.typed("--hicache-storage-prefetch-policy") in ("wait_complete", "timeout")
            else []
        ),
        never=(
            _KEEP_FRACTION,
            ("set", "--hicache-storage-prefetch-policy=wait_complete", "it waits for the slow store"),
            ("raise", "--hicache-ratio", "the store stays as slow"),
        ),
        alternatives=(("RDMA or local NVMe under the store", "when the prefixes are long and come back"),),
        notes=("Judge a tier by tokens served per second against recompute, not by its hit rate.",),
    )


def _room_of_store(view: View) -> Proposal:
    """More room in the store that is in use: a folder of files, or a segment of each node."""
    if view.typed("--hicache-storage-backend") == "file":
        name, why = "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR", "the volume is full; keep the files on a larger one"
        to = "a folder on a larger volume, or this one with old files cleared"
        return Proposal("env", "set", name, view.env(name) or None, to, "", why)
    name, why = "MOONCAKE_GLOBAL_SEGMENT_SIZE", "the store evicts before prefixes come back; give each node more"
    return Proposal("env", "raise", name, view.env(name) or None, "64gb", "GB", why)


def _more_store(view: View) -> Actions:
    return plan(
        _room_of_store(view),
        step(
            view, "set", "--hicache-write-policy", "write_through_selective", "keeps what is seen once out of the store"
        ),
        never=(_KEEP_FRACTION, ("set", "--disable-radix-cache", "the tiers need it")),
        alternatives=(
            ("a store with more capacity", "size it for the prefixes of the time between visits"),
            (
                "SGLANG_HICACHE_FILE_BACKEND_MAX_SIZE",
                "later versions evict old files at this size; earlier ones fill the volume and stop writing",
            ),
        ),
    )


def _unified_tree(view: View) -> Actions:
    return plan(
        step(
            view, "set", "SGLANG_ENABLE_UNIFIED_RADIX_TREE", "1", "this model's pools need the unified tree", kind="env"
        ),
        upgrade("later versions use the unified tree for every model"),
        never=(
            _KEEP_FRACTION,
            ("raise", "--hicache-ratio", "the size plays no part"),
            ("lower", "--hicache-ratio", "the size plays no part"),
        ),
        alternatives=(("without a host tier", "on this version"),),
    )


def _layout(view: View) -> Actions:
    return plan(
        step(view, "set", "--hicache-mem-layout", "page_first", "the layout that this pool and backend support"),
        step(view, "set", "--hicache-io-backend", "kernel", "the copies that go with it"),
        never=(
            ("raise", "--hicache-ratio", "the size plays no part"),
            ("set", "--hicache-mem-layout=layer_first", "it is what is refused"),
            _KEEP_FRACTION,
        ),
        alternatives=(("without a host tier", "where the platform has no such kernels"),),
    )


def _drop(view: View) -> Actions:
    return plan(
        step(
            view,
            "remove",
            "--enable-hierarchical-cache",
            None,
            "traffic that is not reused gains nothing and pays for the copies",
        ),
        *(
            [step(view, "set", "--hicache-io-backend", "kernel", "the older copies are slow at small pages")]
            if view.typed("--hicache-io-backend") == "direct"
            else []
        ),
        never=(
            ("raise", "--hicache-ratio", "more room for what does not come back"),
            ("raise", "--hicache-size", "more room for what does not come back"),
            _KEEP_FRACTION,
        ),
        alternatives=(("upgrade", "the copies became layer-wise and faster"),),
        notes=("Host cache replaces prefill work; it does not speed up decode and runs no more requests.",),
    )


def _write_back(view: View) -> Actions:
    return plan(
        step(
            view, "set", "--hicache-write-policy", "write_through", "copies early, so that eviction is only a pointer"
        ),
        never=(
            _KEEP_FRACTION,
            ("raise", "--hicache-ratio", "the wait is for the copy, not for room"),
            ("raise", "--max-running-requests", "more would wait for the same copies"),
        ),
        alternatives=(("write_through_selective", "fewer copies when most prefixes are seen once"),),
    )


def _room_at_boot(view: View) -> Actions:
    threads = []
    if view.typed("--model-loader-extra-config"):
        why = "fewer loader threads hold less host memory when the check is made"
        threads = [step(view, "lower", "--model-loader-extra-config", '{"num_threads": 1}', why)]
    return plan(
        *threads,
        less_host(view, "the check is made while the loader still holds memory"),
        Proposal(
            "host",
            "set",
            "vm.drop_caches",
            None,
            "before each start",
            "",
            "what the loader read stays in the page cache; free it before the pools are allocated",
        ),
        never=(_KEEP_FRACTION, ("raise", "--hicache-ratio", "the check fails already")),
        alternatives=(
            ("a shorter loader (fewer threads, no prefetch)", "lowers the transient"),
            ("a second start", "it often passes, which shows that it is a transient"),
        ),
    )


def _rounding(view: View) -> Actions:
    why = "pinned memory is rounded up by the allocator, so ask for less than the next power of two"
    return plan(
        upgrade("later versions register memory without rounding"),
        *([less_host(view, why)] if view.hierarchical else []),
        never=(
            ("raise", "--hicache-size", "the rounded figure grows in steps"),
            ("raise", "--hicache-ratio", "the rounded figure grows in steps"),
            _KEEP_FRACTION,
        ),
    )


def _fixed(view: View) -> Actions:
    return plan(
        upgrade("the pools are allocated twice in this version"),
        less_host(view, "until then half of it fits twice"),
        never=(
            ("raise", "--hicache-ratio", "it is taken twice"),
            ("raise", "--mem-fraction-static", "a larger GPU pool asks for a larger host pool"),
        ),
    )


ENTRIES = (
    Entry(
        "hicache.host_ram_oversubscribed",
        "All ranks together ask the host for more memory than it has; sizes are per rank.",
        for_=(
            Clue(5, said("host_pool_refused"), "the server refused the host pool for lack of memory"),
            Clue(5, _oversubscribed, "ranks x pool exceed the host"),
            Clue(3, _size_times_ranks, "the size is per rank, not per host"),
            Clue(4, both(_ON, KILLED), "a process was killed with a host cache on"),
            Clue(
                2, both(_ON, symptom("host_memory_short", "sized_per_rank")), "host memory ran out with a host cache on"
            ),
        ),
        against=(
            Clue(3, said("pin_failed"), "pinning is what failed"),
            Clue(6, limit_binds, "the container's limit binds; the host itself would hold the pools"),
            Clue(5, either(others_die, little_of_the_host), "others hold the memory of the host"),
            Clue(4, _each_pool_whole_size, "every sub-pool took the whole size"),
            Clue(2, flag("--model-loader-extra-config"), "the loader may hold memory when the check is made"),
            Clue(3, symptom("host_memory_grows"), "memory grows with time, not at start"),
            Clue(
                3,
                symptom("boot_transient", "pinned_rounding", "allocated_twice"),
                "another cause of the same shortage is named",
            ),
            Clue(3, phase("pools", "prefill", "decode", "warmup", "graph_capture"), "it is GPU memory that ran out"),
            Clue(2, said("flag_unsupported_for_model"), "a flag is refused"),
        ),
        neighbours=(
            ("hicache.host_ram_transient_at_boot", "there the figures fit once the loader has let go"),
            ("host.container_memory_limit", "there the container's limit is smaller than the host"),
        ),
        settle=Question(
            "What is the printed size times the ranks, against free memory and the container's limit?",
            "`Allocating ... GB host memory` lines; free -b; memory.max; journalctl -k",
        ),
        act=_fewer_host,
        questions=("offload",),
    ),
    Entry(
        "hicache.host_ram_transient_at_boot",
        "The host-memory check runs while the weight loader still holds memory; in steady state it would fit.",
        for_=(
            Clue(5, both(_ON, symptom("boot_transient")), "the shortage is there only during load"),
            Clue(2, both(said("host_pool_refused"), symptom("boot_transient")), "the refusal comes and goes"),
            Clue(
                4,
                both(said("host_pool_refused"), flag("--model-loader-extra-config")),
                "the check runs while loader threads hold memory",
            ),
            Clue(
                2,
                both(said("host_pool_refused"), symptom("loader_holds_memory")),
                "the loader held memory when the check ran",
            ),
        ),
        settle=Question("How much was free before the load, during it, and after?", "free -b in the three moments"),
        neighbours=(("hicache.host_ram_oversubscribed", "there it does not fit at any time"),),
        act=_room_at_boot,
    ),
    Entry(
        "hicache.host_pool_too_small",
        "The host pool is too small for the prefixes that should come back or be staged through it.",
        for_=(
            Clue(4, both(_ON, symptom("host_pool_full")), "the host pool is full"),
            Clue(4, both(_ON, symptom("staged_partly")), "only a part of what the store has is staged"),
            Clue(
                3,
                both(_ON, symptom("forgets_conversations", "hit_rate_fell", "hit_rate_low", "saturates")),
                "hits stop at a number of conversations",
            ),
            Clue(
                2, both(_ON, setting_below("--hicache-ratio", 1.3)), "the host pool is hardly larger than the GPU pool"
            ),
            Clue(2, said("host_pool_not_larger"), "the host pool is not larger than the GPU pool"),
            Clue(3, both(_ON, _few_come_back), "of what is evicted hardly any comes back from the host"),
            Clue(2, both(_ON, _traffic_exceeds_tiers), "the conversations hold more than both tiers"),
        ),
        against=(
            Clue(3, both(_STORE, serves_mostly("storage")), "most is served from the store"),
            Clue(3, symptom("unique_prompts", "single_pass"), "prompts do not come back"),
            Clue(3, KILLED, "the host has no room"),
            Clue(3, said("host_pool_refused", "pin_failed"), "the host has no room"),
            Clue(2, symptom("never_read"), "nothing is read at all"),
        ),
        neighbours=(
            ("hicache.l3_store_too_small", "there the store behind it evicts"),
            ("hicache.l3_prefetch_not_triggered", "there nothing is fetched at all"),
        ),
        settle=Question(
            "Do hits stop at the host pool's size?",
            "cached tokens by source host; host pool tokens against distinct conversations",
        ),
        act=_larger_host,
    ),
    Entry(
        "hicache.double_allocation_bug",
        "A version allocates host pools twice.",
        for_=(
            Clue(5, both(_ON, symptom("allocated_twice")), "twice the expected host memory"),
            Clue(5, _each_pool_whole_size, "every sub-pool took the whole size that was meant for all of them"),
        ),
        settle=Question(
            "Is each pool's allocation line printed once or twice per rank?", "`Allocating ... host memory` lines"
        ),
        act=_fixed,
    ),
    Entry(
        "hicache.pinned_rounding",
        "Pinned allocations are rounded up, so the host loses more than was asked for.",
        for_=(
            Clue(5, both(_ON, symptom("pinned_rounding")), "pinned memory is rounded up"),
            Clue(2, symptom("pinned_rounding"), "pinned memory is rounded up"),
            Clue(6, _power_of_two, "what was pinned is the next power of two above what was asked for"),
        ),
        settle=Question(
            "What is the ratio of resident to requested pinned memory?", "free -b before and after; the printed size"
        ),
        act=_rounding,
    ),
    Entry(
        "hicache.pin_failure",
        "Host memory could not be pinned: the platform or a limit does not allow that much in one registration.",
        for_=(
            Clue(6, said("pin_failed"), "registering host memory failed"),
            Clue(2, both(_ON, symptom("pinning_fails")), "pinning fails"),
            Clue(2, both(_ON, said("memlock")), "the limit on locked memory is small"),
        ),
        settle=Question(
            "How large was the registration, and what may this process lock?",
            "the rc and size of the error; ulimit -l; dmesg",
        ),
        act=_pin,
    ),
    Entry(
        "hicache.unsupported_sizing_flag",
        "The model's pool does not take the sizing flag that was given.",
        for_=(
            Clue(6, said("hicache_size_unsupported"), "the server names the flag and its substitute"),
            Clue(2, both(flag("--hicache-size"), said("flag_unsupported_for_model")), "a sizing flag is refused"),
        ),
        act=_ratio_not_size,
    ),
    Entry(
        "hicache.layout_not_supported_for_model",
        "The host layout is not supported for this model or backend.",
        for_=(
            Clue(6, said("hicache_layout_refused"), "the layout is refused"),
            Clue(3, both(_ON, symptom("layout_refused")), "the layout is said to be refused"),
        ),
        neighbours=(("hicache.model_needs_unified_tree", "there the tree, not the layout, does not know the pool"),),
        settle=Question(
            "Which layout and I/O backend does the message name?",
            "the error line; --hicache-mem-layout, --hicache-io-backend",
        ),
        act=_layout,
    ),
    Entry(
        "hicache.model_needs_unified_tree",
        "The classic host tree knows only plain pools; this model's pools need the unified tree.",
        for_=(
            Clue(6, said("hicache_needs_unified_tree"), "the tree refuses this model's pool"),
            Clue(2, both(_ON, symptom("tree_refused")), "the tree is said to refuse the model"),
        ),
        act=_unified_tree,
    ),
    Entry(
        "hicache.io_backend_attention_conflict",
        "The copy kernel and the attention backend do not go together; memory is overwritten.",
        for_=(
            Clue(
                5,
                both(
                    _ON,
                    said("illegal_access"),
                    either(
                        flag("--hicache-io-backend", "kernel"),
                        symptom("fa3_backend"),
                        flag("--attention-backend", "fa3"),
                        lacks(flag("--hicache-io-backend")),
                    ),
                ),
                "illegal access with the host cache on",
            ),
            Clue(
                2,
                both(_ON, symptom("fa3_backend"), lacks(flag("--hicache-io-backend", "direct"))),
                "FA3 with the copy kernel",
            ),
            Clue(2, both(_ON, symptom("garbled_output")), "wrong output with the host cache on"),
            Clue(2, said("hicache_io_switched"), "the server switched the copies itself"),
        ),
        settle=Question(
            "Which decode attention backend and copy backend were in effect?",
            "server_args: decode_attention_backend, hicache_io_backend",
        ),
        act=_direct_io,
    ),
    Entry(
        "hicache.transfer_buffers_on_gpu",
        "With page size 1 the copies between host and GPU go through extra GPU buffers.",
        for_=(
            Clue(
                5,
                both(
                    _ON,
                    either(phase("pools", "warmup", "prefill", "decode", "unknown"), said("cuda_oom")),
                    symptom("only_with_host_cache"),
                ),
                "GPU memory runs out only with the host cache on",
            ),
            Clue(
                3,
                both(
                    _ON, either(phase("pools", "warmup", "prefill", "decode", "unknown"), said("cuda_oom")), _PAGE_ONE
                ),
                "GPU memory runs out with the host cache on and page size 1",
            ),
        ),
        against=(
            Clue(2, KILLED, "a process was killed, the GPU was not full"),
            Clue(2, setting_above("--page-size", 16), "pages are large"),
        ),
        settle=Question(
            "Does the same fraction hold without the host cache?", "one start without --enable-hierarchical-cache"
        ),
        act=_pages,
    ),
    Entry(
        "hicache.l3_prefetch_not_triggered",
        "The store is written and never read: prefixes are below the threshold, the policy gives up, or keys differ.",
        for_=(
            Clue(5, both(_STORE, symptom("never_read")), "pages are written and none is read"),
            Clue(
                2,
                both(_STORE, flag("--hicache-storage-prefetch-policy", "best_effort")),
                "prefetch gives up at scheduling",
            ),
        ),
        settle=Question(
            "Does prefetched_tokens_total rise for a prefix over 256 tokens?", "metrics; log at the second request"
        ),
        neighbours=(("hicache.host_pool_too_small", "there some is read"),),
        act=_prefetch,
    ),
    Entry(
        "hicache.l3_slower_than_recompute",
        "Fetching from the store takes longer than computing the prefix again.",
        for_=(
            Clue(
                5,
                both(
                    _STORE,
                    symptom("hit_rate_high"),
                    symptom("slower_than_before", "slow_ttft", "no_benefit", "throughput_fell"),
                ),
                "hits are high and it is slower",
            ),
            Clue(
                5,
                both(_STORE, slower_with("store", "host_cache", ""), lacks(symptom("slow_decode")), lacks(disk_writes)),
                "measured with and without, the store makes it slower",
            ),
            Clue(2, both(_STORE, serves_mostly("storage")), "most prompt tokens come from the store"),
            Clue(
                1,
                both(disk_saturated, lacks(disk_writes), flag("--hicache-storage-prefetch-policy", "wait_complete")),
                "requests wait for a disk that is busy reading",
            ),
            Clue(
                3,
                both(
                    _STORE,
                    symptom("slower_than_recompute", "slow_ttft", "slower_than_before"),
                    lacks(symptom("disk_busy", "slow_decode")),
                ),
                "slower with the store than without",
            ),
        ),
        settle=Question(
            "Tokens per second from the store against prefill tokens per second.",
            "prefetch bandwidth metrics; input throughput of prefill lines",
        ),
        neighbours=(("hicache.l3_write_amplification", "there writing slows decode"),),
        act=_no_store,
    ),
    Entry(
        "hicache.l3_store_too_small",
        "The store evicts pages before they are asked for again.",
        for_=(
            Clue(5, both(_STORE, symptom("store_evicts")), "the store is full and evicts"),
            Clue(2, both(_STORE, symptom("hit_rate_fell", "hit_rate_low")), "hits stay low with a store"),
            Clue(5, both(_STORE, said("disk_full"), lacks(said("shm_full"))), "the store could not write: no space"),
            Clue(3, both(_STORE, _volume_full), "the store's volume is full"),
        ),
        against=(Clue(3, symptom("host_pool_full", "staged_partly"), "the host pool is what is full"),),
        settle=Question(
            "How full is the store, and how many of its pages are evicted per hour?", "the store's own metrics"
        ),
        act=_more_store,
    ),
    Entry(
        "hicache.l3_write_amplification",
        "Writing every page to the store takes the time and the disk from decode.",
        for_=(
            Clue(
                5,
                both(
                    _STORE,
                    symptom("disk_busy"),
                    either(
                        symptom("slow_decode", "throughput_fell", "slower_than_before"),
                        flag("--hicache-write-policy", "write_through"),
                    ),
                ),
                "the disk is busy and tokens come slower",
            ),
            Clue(
                3,
                both(
                    _STORE,
                    flag("--hicache-write-policy", "write_through"),
                    symptom("slow_decode", "throughput_fell", "slower_than_before"),
                ),
                "decode is slow with write_through to a store",
            ),
            Clue(4, both(_STORE, disk_writes), "the store's disk is asked for thousands of writes a second"),
            Clue(1, both(_STORE, disk_saturated), "the store's disk is busy"),
            Clue(1, both(_STORE, above("stored_files", 500_000)), "the store holds a file for every few tokens"),
        ),
        settle=Question(
            "Bytes written to the store per second against tokens per second.", "iostat; backuped_tokens_total"
        ),
        act=_selective,
    ),
    Entry(
        "hicache.no_benefit_workload_or_old_io_path",
        "The traffic does not reuse prefixes, or is bound by decode, or the version's copies are slow: no tier helps.",
        for_=(
            Clue(
                4,
                both(_ON, symptom("no_benefit", "slower_than_before", "throughput_fell"), lacks(_STORE)),
                "no gain with the host cache",
            ),
            Clue(2, both(_ON, symptom("no_benefit")), "no gain with the host cache"),
            Clue(2, both(_ON, symptom("unique_prompts", "single_pass")), "prompts do not come back"),
            Clue(
                5,
                both(_ON, same_with("host_cache", ""), lacks(_STORE), lacks(symptom("forgets_conversations"))),
                "measured with and without, it makes no difference",
            ),
            Clue(2, both(_ON, mostly_generates), "the time goes into generating, which a prefix cache does not help"),
            Clue(
                3,
                both(
                    _ON,
                    metric_at_least("evicted_tokens_total", 1),
                    either(metric_is_zero("load_back_tokens_total"), metric_is_zero(_FROM_HOST)),
                    lacks(symptom("forgets_conversations", "hit_rate_fell")),
                ),
                "much went to the host and nothing ever came back",
            ),
        ),
        against=(
            Clue(3, _STORE, "a store is in use"),
            Clue(2, symptom("garbled_output"), "the output is wrong"),
            Clue(3, flag("--hicache-write-policy", "write_back"), "evictions wait for copies"),
        ),
        settle=Question("Do load_back_tokens_total and cached tokens from the host rise at all?", "metrics"),
        act=_drop,
    ),
    Entry(
        "hicache.write_back_blocks_eviction",
        "With write_back an eviction waits until its copy is done; under pressure everything waits.",
        for_=(
            Clue(
                4,
                both(
                    flag("--hicache-write-policy", "write_back"),
                    symptom(
                        "stalls",
                        "slow_ttft",
                        "throughput_fell",
                        "slower_than_before",
                        "slow_decode",
                        "hangs",
                        "requests_wait",
                    ),
                ),
                "requests stall with write_back",
            ),
            Clue(2, flag("--hicache-write-policy", "write_back"), "copies are made at eviction"),
            Clue(
                4,
                both(flag("--hicache-write-policy", "write_back"), _WAITS_IN_EVICTION),
                "the scheduler stands in an eviction",
            ),
            Clue(
                4,
                both(flag("--hicache-write-policy", "write_back"), metric_at_least("eviction_duration_seconds", 1)),
                "evictions take seconds",
            ),
        ),
        neighbours=(("hicache.l3_slower_than_recompute", "there reading waits, here eviction does"),),
        settle=Question("Do stalls coincide with evictions?", "eviction_duration_seconds"),
        act=_write_back,
    ),
)
