"""The host tier: how much RAM it takes, whether it can be pinned, whether it holds what comes back."""

from __future__ import annotations

import re

from tools.diagnosis.changes import plan, scale, step, upgrade
from tools.diagnosis.clues import (
    Clue,
    Entry,
    Seen,
    both,
    either,
    fact,
    flag,
    phase,
    said,
    setting_below,
    symptom,
)
from tools.diagnosis.conditions import KILLED
from tools.diagnosis.families.hicache.smaller import less_host, pool_that_fits, pools_within
from tools.diagnosis.families.hicache.tier import FROM_HOST, KEEP_FRACTION, ON, STORE
from tools.diagnosis.host_memory import limit_binds, little_of_the_host, others_die, ranks_with_pools, room_for_pools
from tools.diagnosis.measured import (
    metric_is_zero,
    serves_mostly,
)
from tools.diagnosis.model import Actions, Proposal, Question
from tools.diagnosis.sums import hicache_ratio_that_fits
from tools.diagnosis.view import View


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


def _room_left(view: View) -> Seen | None:
    """A tenth of the host is still available after the pools of all ranks went into what is used."""
    total, available = view.number("mem_total_bytes"), view.number("mem_available_bytes")
    each = view.number("host_pool_gb")
    if not total or not available or not each or available < 0.1 * total:
        return None
    if each * ranks_with_pools(view) * 1e9 > total - available:
        return None
    return Seen(f"{available / 1e9:.0f} GB of {total / 1e9:.0f} GB", view.sources("mem_available_bytes"))


def _size_times_ranks(view: View) -> Seen | None:
    size = view.value("--hicache-size")
    ranks = view.value("--tp-size") or view.number("gpu_count")
    total = view.number("cgroup_limit_bytes") or view.number("mem_available_bytes") or view.number("mem_total_bytes")
    if not size or not ranks or total is None or size * ranks * 1e9 < 0.9 * total:
        return None
    return Seen(f"{ranks:g} ranks x {size:g} GB", view.flag_sources("--hicache-size"), "typed")


def _each_pool_whole_size(view: View) -> Seen | None:
    """Two sub-pools of a rank each printed the size that was typed for the rank."""
    size = view.value("--hicache-size")
    pools = {
        one.scope or "kv": float(one.value) for one in view.facts.all("host_pool_gb") if not _RANK.search(one.scope)
    }
    whole = [scope for scope, gb in pools.items() if size and abs(gb - size) < 0.02 * size]
    if not size or len(whole) < 2:
        return None
    return Seen(f"{' and '.join(sorted(whole))}: {size:g} GB each", view.sources("host_pool_gb"))


_RANK = re.compile(r"\b(?:TP|DP|PP|EP)\d|#\d")


def _power_of_two(view: View) -> Seen | None:
    """What a rank pinned, or holds in memory, is the next power of two above what was asked for it."""
    asked, taken = view.number("pin_asked_bytes"), view.number("pin_taken_bytes")
    if asked and taken:
        text = f"{asked / (1 << 30):.1f} GiB asked, {taken / (1 << 30):g} GiB pinned"
        return Seen(text, view.sources("pin_taken_bytes", "pin_asked_bytes"))
    each = view.number("host_pool_gb") or view.value("--hicache-size")
    if not each:
        return None
    bytes_, power = each * 1e9, float(1 << int(each * 1e9 - 1).bit_length())
    held = [(float(one.value), one.source) for one in view.facts.all("rank_memory_bytes")]
    held += [(float(one.value) / ranks_with_pools(view), one.source) for one in view.facts.all("mem_locked_bytes")]
    for size, source in held:
        if bytes_ < 0.9 * power and 0.98 * power <= size <= 1.15 * power:
            return Seen(f"{each:g} GB asked, {size / (1 << 30):.0f} GiB held", (source,))
    return None


_POOLS = re.compile(r"host kv pool \((\d+) tokens\) is smaller than the device pool \((\d+) tokens\)", re.IGNORECASE)


def _far_smaller(view: View) -> Seen | None:
    """By the server's own warning (0.5.16 srt/mem_cache/memory_pool_host.py:117) less than half of the GPU pool."""
    for one in view.facts.all("message", "host_pool_not_larger"):
        sizes = _POOLS.search(str(one.value))
        if sizes and 2 * int(sizes[1]) < int(sizes[2]):
            return Seen(f"{int(sizes[1]):,} of {int(sizes[2]):,} tokens", (one.source,))
    return None


def _few_come_back(view: View) -> Seen | None:
    """Tokens served by the host are below a tenth of the tokens that were evicted."""
    evicted = view.number("metric", "evicted_tokens_total")
    back = view.number("metric", FROM_HOST) or view.number("metric", "load_back_tokens_total")
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


def _fewer_host(view: View) -> Actions:
    change, fits = less_host(view, "all ranks together must leave the host its reserve"), pool_that_fits(view)
    smaller = f"with --max-total-tokens {fits} the copy would fit; fewer requests run then" if fits else ""
    off = change.do == "remove"
    return plan(
        change,
        never=(
            KEEP_FRACTION,
            ("raise", "--hicache-ratio", "the host is already over"),
            ("raise", "--hicache-size", "the host is already over"),
            ("raise", "--mem-fraction-static", "a larger GPU pool asks for a larger host pool"),
        ),
        alternatives=(
            ("a storage backend with a small host pool", "where the prefixes must stay longer than RAM allows"),
            ("--hicache-size instead of a ratio", "an absolute size does not follow the GPU pool"),
            *((("a smaller GPU pool and the smallest ratio", smaller),) if off and smaller else ()),
        ),
        expected=() if off else pools_within(view),
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
            KEEP_FRACTION,
            ("raise", "--max-running-requests", "host memory does not run requests"),
        ),
        alternatives=(
            ("fewer conversations kept warm", "where the host has no room for more"),
            ("a storage backend", "a tier behind the host pool"),
        ),
        notes=("Check ranks x size against the free host memory before the start.",),
    )


def _pin(view: View) -> Actions:
    locks = "what may be locked is less than the pools; raise ulimit -l, LimitMEMLOCK or the container's ulimit"
    limit = [Proposal("host", "set", "memlock", None, "unlimited", "", locks)] if said("memlock")(view) else []
    return plan(
        *limit,
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
        never=(KEEP_FRACTION, ("raise", "--hicache-ratio", "the check fails already")),
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
            KEEP_FRACTION,
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
            Clue(
                4,
                both(ON, either(said("killed", "kernel_oom"), fact("kernel_oom_kill"), symptom("killed_silently"))),
                "a process was killed with a host cache on",
            ),
            Clue(
                2, both(ON, symptom("host_memory_short", "sized_per_rank")), "host memory ran out with a host cache on"
            ),
        ),
        against=(
            Clue(3, said("pin_failed"), "pinning is what failed"),
            Clue(6, limit_binds, "the container's limit binds; the host itself would hold the pools"),
            Clue(5, either(others_die, little_of_the_host), "others hold the memory of the host"),
            Clue(4, _room_left, "with the pools taken the host has memory left"),
            Clue(8, _each_pool_whole_size, "every sub-pool took the whole size"),
            Clue(6, _power_of_two, "what was pinned is rounded up to a power of two"),
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
            Clue(5, both(ON, symptom("boot_transient")), "the shortage is there only during load"),
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
            Clue(4, both(ON, symptom("host_pool_full")), "the host pool is full"),
            Clue(4, both(ON, symptom("staged_partly")), "only a part of what the store has is staged"),
            Clue(
                3,
                both(ON, symptom("forgets_conversations", "hit_rate_fell", "hit_rate_low", "saturates")),
                "hits stop at a number of conversations",
            ),
            Clue(
                2, both(ON, setting_below("--hicache-ratio", 1.3)), "the host pool is hardly larger than the GPU pool"
            ),
            Clue(2, said("host_pool_not_larger"), "the host pool is not larger than the GPU pool"),
            Clue(2, _far_smaller, "it is a fraction of it"),
            Clue(3, both(ON, _few_come_back), "of what is evicted hardly any comes back from the host"),
            Clue(2, both(ON, _traffic_exceeds_tiers), "the conversations hold more than both tiers"),
        ),
        against=(
            Clue(3, both(STORE, serves_mostly("storage")), "most is served from the store"),
            Clue(3, symptom("unique_prompts", "single_pass"), "prompts do not come back"),
            Clue(
                3,
                both(metric_is_zero(FROM_HOST), metric_is_zero("load_back_tokens_total")),
                "nothing at all came back from the host",
            ),
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
            Clue(5, both(ON, symptom("allocated_twice")), "twice the expected host memory"),
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
            Clue(5, both(ON, symptom("pinned_rounding")), "pinned memory is rounded up"),
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
            Clue(2, both(ON, symptom("pinning_fails")), "pinning fails"),
            Clue(2, both(ON, said("memlock")), "the limit on locked memory is small"),
        ),
        settle=Question(
            "How large was the registration, and what may this process lock?",
            "the rc and size of the error; ulimit -l; dmesg",
        ),
        act=_pin,
    ),
)
