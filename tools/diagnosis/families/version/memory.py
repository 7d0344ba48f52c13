"""Memory that a version counts wrongly, strands or does not give back."""

from __future__ import annotations

from tools.diagnosis.changes import FRACTION, NOT_MEMORY, lower_fraction, plan, raise_fraction, step, upgrade
from tools.diagnosis.clues import (
    Clue,
    Entry,
    Seen,
    above,
    below,
    both,
    either,
    fact,
    lacks,
    said,
    setting_above,
    symptom,
)
from tools.diagnosis.conditions import HICACHE, OOM_ANYWHERE, SPECULATES
from tools.diagnosis.measured import fell, rose, steady
from tools.diagnosis.model import Actions, Question
from tools.diagnosis.view import View


def _free_window(view: View) -> Actions:
    now = view.value("--swa-full-tokens-ratio") or 0.8
    return plan(
        upgrade("later versions free what left the window on this path too"),
        step(
            view,
            "raise",
            "--swa-full-tokens-ratio",
            round(min(1.0, now * 3), 2),
            "until then a window pool that one long request does not fill",
            unit="ratio",
        ),
        never=(
            ("raise", FRACTION, "the full pool has room"),
            ("raise", "--schedule-conservativeness", "one request alone is thrown back"),
            ("lower", "--swa-full-tokens-ratio", "the window pool is the one that fills"),
        ),
    )


def _upgrade_only(view: View) -> Actions:
    return plan(
        upgrade("the fault is in this version; a later one has the fix"),
        never=NOT_MEMORY[1:],
        alternatives=(("the previous version", "where it worked"),),
    )


def _raise_after_draft(view: View) -> Actions:
    return plan(
        raise_fraction(
            view,
            "what the draft loaded and gave back after the pools were sized lies idle; take it back in a small step",
            0.02,
        ),
        never=(("lower", FRACTION, "memory lies idle already"), ("remove", "--kv-cache-dtype", "it halves the pool")),
        alternatives=(("upgrade", "later versions share these tensors before sizing"),),
    )


def _page_one(view: View) -> Actions:
    return plan(
        upgrade("later versions count whole pages before decode"),
        step(view, "set", "--page-size", 1, "tokens and pages are then the same", unit="tokens"),
        never=(
            ("raise", FRACTION, "there is room; it is counted wrongly"),
            ("raise", "--max-running-requests", "more requests cross page borders at once"),
        ),
        alternatives=(("lower --max-running-requests", "fewer requests cross page borders at once"),),
    )


def _given_back(view: View) -> Seen | None:
    """More is free at the end than after the weights: something was still held when the pool was measured."""
    after, free = view.number("weights_after_gib", ""), view.number("free_after_boot_gib")
    if after is None or free is None or free < after + 2:
        return None
    return Seen(
        f"{after:g} GiB after the weights, {free:g} at the end",
        view.sources("weights_after_gib", "free_after_boot_gib"),
    )


def _idle_beyond_reserve(view: View) -> Seen | None:
    """What is free after the start exceeds what the fraction leaves out by more than a tenth of the card."""
    after, took = view.number("weights_after_gib", ""), view.number("weights_gib", "")
    free, fraction = view.number("free_after_boot_gib"), view.value(FRACTION)
    if after is None or took is None or free is None or fraction is None:
        return None
    before = after + took
    idle = free - before * (1 - fraction)
    if idle < 0.1 * before:
        return None
    return Seen(f"{idle:.1f} GiB beyond the reserve", view.sources("free_after_boot_gib", "weights_after_gib"))


def _budget_early(view: View) -> Actions:
    """An upgrade; the fraction meanwhile goes up where memory lies idle, down where it ran out, else stays."""
    idle = either(_given_back, _idle_beyond_reserve, symptom("cache_full", "pool_small", "idle_gpu_memory"))
    changes = [upgrade("later versions measure after what is allocated late")]
    if idle(view):
        changes.append(raise_fraction(view, "until then take back what lies idle, in a small step", 0.02))
    elif OOM_ANYWHERE(view) and not _charged_beyond_checkpoint(view):
        why = "until then leave room for what is allocated after the measurement"
        changes.append(lower_fraction(view, why, 0.05))
    return plan(*changes)


def _leak(view: View) -> Actions:
    changes = [upgrade("host memory is not given back in this version")]
    if view.typed("--hicache-storage-prefetch-policy") or symptom("prefetching")(view):
        changes.append(
            step(view, "set", "--hicache-storage-prefetch-policy", "timeout", "ends fetches that are no longer wanted")
        )
    return plan(
        *changes,
        never=(
            ("raise", "--hicache-ratio", "more of what grows"),
            ("raise", "--hicache-size", "more of what grows"),
            *NOT_MEMORY[1:],
        ),
        alternatives=(("a restart at a quiet hour", "gives the memory back until then"),),
    )


_DRAFTS = either(SPECULATES, symptom("draft_on"))


def _draft_outweighs_file(view: View) -> Seen | None:
    """The draft's load took at least twice what its checkpoint is said to weigh, without being a whole model."""
    took, file, target = (
        view.number("weights_gib", "draft"),
        view.number("draft_file_gib"),
        view.number("weights_gib", ""),
    )
    if took is None or not file or took < 2 * file or (target is not None and took > target / 2):
        return None
    return Seen(f"{took:g} GiB loaded, {file:g} GB on disk", view.sources("weights_gib"))


def _charged_beyond_checkpoint(view: View) -> Seen | None:
    """A rank was charged for weights at least three times its share of the checkpoint."""
    took, whole = view.number("weights_gib", ""), view.number("checkpoint_gib")
    ranks = view.value("--tp-size") or 1
    if took is None or not whole or took < 3 * whole / ranks:
        return None
    return Seen(f"{took:g} GiB a rank, {whole:g} GB of checkpoint over {ranks:g}", view.sources("weights_gib"))


def _card_left_empty(view: View) -> Seen | None:
    """By nvidia-smi a served card holds less than six tenths of what the fraction would fill."""
    used, total = view.number("gpu_used_mib"), view.number("gpu_memory_mib")
    fraction = view.value(FRACTION) or 0.85
    if not used or not total or used > 0.6 * fraction * total or "kv_pool" not in view.facts:
        return None
    return Seen(f"{used:,.0f} of {total:,.0f} MiB", view.sources("gpu_used_mib"))


_SMALLER_THAN_BEFORE = below("pool_ratio", 0.85, "former")


ENTRIES = (
    Entry(
        "version.draft_pool_smaller_than_target",
        "The draft's pool is smaller than the target's, so it is indexed out of bounds.",
        for_=(
            Clue(
                6,
                both(said("index_out_of_bounds"), either(SPECULATES, symptom("draft_on"))),
                "an index is out of bounds with a draft",
            ),
            Clue(
                3,
                both(said("illegal_access"), SPECULATES, symptom("sliding_window")),
                "illegal access with a draft and a window pool",
            ),
        ),
        against=(Clue(2, symptom("garbled_output"), "the output is wrong, nothing crashes"),),
        act=_upgrade_only,
        settle=Question("Are the two pool lines of the same size?", "boot log: both KV pool lines"),
    ),
    Entry(
        "version.draft_embed_charged_to_kv",
        "The draft's own embedding and head are counted when the pool is sized and freed afterwards.",
        for_=(
            Clue(
                4,
                both(_DRAFTS, either(below("pool_ratio", 0.85, "draft"), symptom("draft_costs_cache"))),
                "a small draft costs much cache",
            ),
            Clue(
                1,
                both(fact("weights_gib", "draft"), symptom("draft_costs_cache")),
                "the draft's weights are larger than its layers",
            ),
            Clue(4, _draft_outweighs_file, "the draft was charged several times its file"),
            Clue(2, both(_DRAFTS, said("draft_shares_embedding")), "what it shared was freed only after sizing"),
        ),
        act=_raise_after_draft,
        settle=Question("How much is free after start, against the reserve?", "ready line: available_gpu_mem"),
    ),
    Entry(
        "version.kv_budget_measured_too_early",
        "The pool is sized before or while other memory is taken or given back, so it is wrong.",
        for_=(
            Clue(4, symptom("measured_early"), "memory is measured before it settles"),
            Clue(7, _given_back, "more is free after the start than right after the weights"),
            Clue(4, both(_idle_beyond_reserve, lacks(_given_back)), "far more is free than the fraction leaves out"),
            Clue(4, _charged_beyond_checkpoint, "far more was charged for weights than the checkpoint holds"),
            Clue(1.5, both(_card_left_empty, symptom("pool_small", "after_upgrade")), "most of the card is empty"),
            Clue(2, _SMALLER_THAN_BEFORE, "the pool is far smaller than it was"),
            Clue(2, both(_SMALLER_THAN_BEFORE, symptom("idle_gpu_memory")), "and GPU memory lies idle"),
            Clue(
                2, both(symptom("idle_gpu_memory"), symptom("pool_small")), "GPU memory lies idle and the pool is small"
            ),
        ),
        against=(
            Clue(2, symptom("unified_memory"), "memory is shared with the host"),
            Clue(2, symptom("draft_costs_cache"), "it comes with a draft"),
        ),
        act=_budget_early,
        settle=Question("Does free memory after start agree with T x (1 - f)?", "boot log: avail mem lines in order"),
    ),
    Entry(
        "version.page_accounting_bug",
        "The server counts tokens where it allocates pages, and fails with room to spare.",
        for_=(
            Clue(
                5,
                both(
                    said("decode_alloc", "prefill_alloc"),
                    either(setting_above("--page-size", 2), fact("wanted_below_available")),
                ),
                "an allocation fails although enough tokens are available",
            ),
            Clue(2, fact("wanted_below_available"), "less was asked for than was available"),
        ),
        act=_page_one,
        settle=Question("How many tokens were asked for and how many were available?", "the error's figures"),
    ),
    Entry(
        "version.allocator_stranding",
        "A version's own buffers are allocated anew and stranded, so free memory drains with every request.",
        for_=(
            Clue(
                4,
                both(
                    symptom("creeps"),
                    either(said("device_out_of_resources"), said("cuda_oom"), symptom("gpu_memory_out")),
                ),
                "free GPU memory shrinks with every request",
            ),
            Clue(2, symptom("creeps"), "free GPU memory shrinks with time"),
            Clue(4, both(rose("gpu_used", 1.05), steady("gpu_used")), "used GPU memory was measured to grow"),
            Clue(2, said("device_out_of_resources"), "the device has nothing left"),
            Clue(4, both(fell("gpu_free", 0.8), steady("gpu_free")), "free GPU memory was measured to shrink"),
        ),
        act=lambda view: plan(
            upgrade("later versions use a buffer of fixed size"),
            never=(("raise", FRACTION, "less would be left"),),
            alternatives=(("a lower fraction", "delays it"), ("a restart at a quiet hour", "gives it back")),
        ),
        settle=Question("Free GPU memory over hours at the same load.", "nvidia-smi every minute"),
        neighbours=(("oom.runtime.allocator_fragmentation", "there the reserve is large and unallocated"),),
    ),
    Entry(
        "version.host_memory_leak",
        "Host memory grows with time and is not given back.",
        for_=(
            Clue(
                5,
                either(both(rose("rss_gib", 1.15), steady("rss_gib")), symptom("host_memory_grows")),
                "host memory grows with time",
            ),
            Clue(1, both(symptom("host_memory_grows"), HICACHE), "with a host cache on"),
        ),
        act=_leak,
        settle=Question("Resident memory per process over hours.", "ps or smaps every minute"),
    ),
    Entry(
        "version.swa_eviction_missing_in_spec_path",
        "With speculative decoding, tokens that left the window are not freed, so one request fills the window pool.",
        for_=(
            Clue(
                6,
                both(SPECULATES, above("usage_max", 0.95, "swa"), below("usage_max", 0.8, "full")),
                "the window pool fills with speculative decoding while the full pool has room",
            ),
            Clue(2, both(SPECULATES, symptom("sliding_window"), symptom("single_request")), "one request alone"),
            Clue(
                3,
                both(SPECULATES, fact("window_holds_all_tokens")),
                "the window pool holds as many tokens as the full one: none was freed",
            ),
        ),
        act=_free_window,
        settle=Question("Does #swa token equal #full token of one long request?", "decode lines: full and swa tokens"),
        neighbours=(("capacity.swa_ratio_misallocated", "there many requests share the window pool"),),
    ),
)
