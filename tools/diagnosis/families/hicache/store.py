"""The storage tier behind the host pool: what is fetched, what is written, what it holds."""

from __future__ import annotations

from tools.diagnosis.changes import plan, step
from tools.diagnosis.clues import Clue, Entry, Seen, above, below, both, either, flag, lacks, said, symptom
from tools.diagnosis.families.hicache.tier import KEEP_FRACTION, PAGE_ONE, STORE
from tools.diagnosis.measured import (
    disk_saturated,
    disk_writes,
    metric_at_least,
    serves_mostly,
    slower_with,
)
from tools.diagnosis.model import Actions, Proposal, Question
from tools.diagnosis.view import View


def _volume_full(view: View) -> Seen | None:
    folder = view.env("SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR") or "/tmp/hicache"  # noqa: S108  (SGLang's default)
    for one in view.facts.all("disk_used_share"):
        if float(one.value) >= 0.98 and folder.startswith(one.scope):
            return Seen(f"{one.scope} at {float(one.value):.0%}", (one.source,))
    return None


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
            KEEP_FRACTION,
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
            if not view.typed("--disable-overlap-schedule") and PAGE_ONE(view)
            else []
        ),
        never=(
            ("raise", "--hicache-ratio", "more to write, not less"),
            ("lower", "--chunked-prefill-size", "the writes are what slows it"),
            KEEP_FRACTION,
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
            KEEP_FRACTION,
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
        never=(KEEP_FRACTION, ("set", "--disable-radix-cache", "the tiers need it")),
        alternatives=(
            ("a store with more capacity", "size it for the prefixes of the time between visits"),
            (
                "SGLANG_HICACHE_FILE_BACKEND_MAX_SIZE",
                "later versions evict old files at this size; earlier ones fill the volume and stop writing",
            ),
        ),
    )


def _fetches_little(view: View) -> Seen | None:
    """Something is stored, and fewer than a thousand tokens were ever fetched."""
    fetched, files = view.number("metric", "prefetched_tokens_total"), view.number("stored_files")
    if fetched is None or fetched >= 1000 or not (files or symptom("storage_tier")(view)):
        return None
    return Seen(f"{fetched:g} tokens fetched", view.sources("metric"))


ENTRIES = (
    Entry(
        "hicache.l3_prefetch_not_triggered",
        "The store is written and never read: prefixes are below the threshold, the policy gives up, or keys differ.",
        for_=(
            Clue(5, both(STORE, symptom("never_read")), "pages are written and none is read"),
            Clue(
                2,
                both(STORE, flag("--hicache-storage-prefetch-policy", "best_effort")),
                "prefetch gives up at scheduling",
            ),
            Clue(
                2,
                both(
                    STORE,
                    flag("--hicache-storage-prefetch-policy", "best_effort"),
                    below("cached_share", 0.1),
                ),
                "and the prompts that were seen found next to nothing",
            ),
            Clue(2, both(STORE, _fetches_little), "hardly anything was ever fetched from the store"),
            Clue(
                2,
                both(STORE, _fetches_little, metric_at_least("backuped_tokens_total", 10_000)),
                "while much was written to it",
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
                    STORE,
                    symptom("hit_rate_high"),
                    symptom("slower_than_before", "slow_ttft", "no_benefit", "throughput_fell"),
                ),
                "hits are high and it is slower",
            ),
            Clue(
                5,
                both(STORE, slower_with("store", "host_cache", ""), lacks(symptom("slow_decode")), lacks(disk_writes)),
                "measured with and without, the store makes it slower",
            ),
            Clue(2, both(STORE, serves_mostly("storage")), "most prompt tokens come from the store"),
            Clue(
                1,
                both(disk_saturated, lacks(disk_writes), flag("--hicache-storage-prefetch-policy", "wait_complete")),
                "requests wait for a disk that is busy reading",
            ),
            Clue(
                3,
                both(
                    STORE,
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
            Clue(5, both(STORE, symptom("store_evicts")), "the store is full and evicts"),
            Clue(2, both(STORE, symptom("hit_rate_fell", "hit_rate_low")), "hits stay low with a store"),
            Clue(5, both(STORE, said("disk_full"), lacks(said("shm_full"))), "the store could not write: no space"),
            Clue(3, both(STORE, _volume_full), "the store's volume is full"),
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
                    STORE,
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
                    STORE,
                    flag("--hicache-write-policy", "write_through"),
                    symptom("slow_decode", "throughput_fell", "slower_than_before"),
                ),
                "decode is slow with write_through to a store",
            ),
            Clue(4, both(STORE, disk_writes), "the store's disk is asked for thousands of writes a second"),
            Clue(1, both(STORE, disk_saturated), "the store's disk is busy"),
            Clue(1, both(STORE, above("stored_files", 500_000)), "the store holds a file for every few tokens"),
        ),
        settle=Question(
            "Bytes written to the store per second against tokens per second.", "iostat; backuped_tokens_total"
        ),
        act=_selective,
    ),
)
