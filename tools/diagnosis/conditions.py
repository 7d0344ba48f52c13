"""Conditions that causes of more than one group look at: each is said once, so that all of them mean the same."""

from __future__ import annotations

from tools.diagnosis.clues import Seen, above, below, both, either, fact, flag, lacks, phase, said, symptom, when
from tools.diagnosis.foreign import RENAMED
from tools.diagnosis.measured import stands_in
from tools.diagnosis.sums import slots_that_fit
from tools.diagnosis.view import View
from tools.other_engines import FOREIGN

SPECULATES = when(lambda view: view.speculative, "speculative decoding")
DRAFT = either(SPECULATES, symptom("draft_on"))
HYBRID = either(
    fact("state_slots"),
    fact("state_cap"),
    fact("usage_p95", "state"),
    symptom("hybrid_state"),
    flag("--max-mamba-cache-size"),
    flag("--mamba-full-memory-ratio"),
)
SWA = either(
    fact("kv_pool", "swa"), fact("usage_p95", "swa"), symptom("sliding_window"), flag("--swa-full-tokens-ratio")
)
# What is measured comes before what is said: words about the pool or the queue count where no figure was seen.
_USAGE_SEEN = either(fact("usage_p95"), fact("usage_max"))
IDLE_CACHE = either(below("usage_p95", 0.75), below("usage_max", 0.75), both(symptom("cache_idle"), lacks(_USAGE_SEEN)))
FULL_CACHE = either(above("usage_p95", 0.93), above("usage_max", 0.97), both(symptom("cache_full"), lacks(_USAGE_SEEN)))
QUEUED = either(above("queue_p95", 3), above("queue_p50", 1))
WAITING = either(QUEUED, both(symptom("requests_wait", "few_running"), lacks(fact("queue_p95"))))
THROWN_BACK = both(
    either(above("retractions", 1), said("retraction")),
    lacks(both(below("retractions", 2), below("usage_max", 0.75), lacks(QUEUED))),
)
NEVER_CAME_UP = either(phase("load", "pools", "graph_capture", "warmup"), said("weights_leave_no_room"))
DP_ATTENTION = when(lambda view: view.on("--enable-dp-attention"))
OOM_SAID = either(said("cuda_oom"), fact("oom_request_gib"), symptom("gpu_memory_out"))
OOM_ANYWHERE = either(
    OOM_SAID,
    phase("load", "pools", "graph_capture", "warmup", "prefill", "decode", "logits", "multimodal", "draft", "unknown"),
)
HICACHE = when(lambda view: view.hierarchical)
REJECTED = either(fact("rejected_flag"), said("unrecognized_argument", "invalid_choice"), symptom("flag_refused"))
KILLED = either(said("killed", "kernel_oom"), fact("kernel_oom_kill"), symptom("killed_silently", "host_memory_short"))


# Frames of the vision tower and of what joins its output to the text (sglang 0.5.9 srt/managers/mm_utils.py).
VISION_FRAME = either(
    stands_in(
        "get_image_feature",
        "get_video_feature",
        "general_mm_embed_routine",
        "embed_mm_inputs",
        "get_embedding_and_mask",
    ),
    stands_in("forward", "__call__", "encode", file="vision"),
    stands_in("forward", file="_vit"),
)


def pinned(view: View) -> Seen | None:
    """As many requests run as the limit allows while others wait; both are counted for one scheduler."""
    limit, running = view.number("running_limit"), _most_running(view)
    if limit is None or running is None or running < limit:
        return None
    share = view.number("pinned_share")
    if share is not None and share >= 0.5:
        return Seen(
            f"at the limit of {limit:g} with a queue in {share:.0%} of decode lines", view.sources("pinned_share")
        )
    if WAITING(view) or (view.number("queue_p95") or 0) > 0:
        return Seen(f"{running:g} running of {limit:g}, with a queue", view.sources("running_p95", "running_limit"))
    return None


def below_limit(view: View) -> Seen | None:
    """Fewer run, at the busiest moment that was seen, than the limit allows."""
    limit, running = view.number("running_limit"), view.number("running_max")
    if limit is None or running is None or running >= limit * 0.9:
        return None
    return Seen(f"{running:g} running at most, {limit:g} allowed", view.sources("running_max", "running_limit"))


def limit_typed(view: View) -> Seen | None:
    """The limit is the operator's own figure, so it is no default."""
    fact_ = view.flag_fact("--max-running-requests")
    return None if fact_ is None else Seen(f"typed: {fact_.value}", (fact_.source,), "typed")


def pool_carries_no_more(view: View) -> Seen | None:
    """At the tokens that requests hold now, nine tenths of the pool are full at or below the limit in force."""
    fit = slots_that_fit(view)
    if fit is None or fit.raises_limit:
        return None
    sources = view.sources("tokens_per_request", "kv_pool", "running_limit")
    return Seen(f"{fit.requests} fit, {fit.limit:g} are allowed", sources)


def _most_running(view: View) -> float | None:
    return view.number("running_p95") if view.number("running_p95") is not None else view.number("running_max")


def rejected_input(view: View) -> Seen | None:
    """The limit of the refusal is the pool's, not the context's: the server takes the smaller of the two, less a few.

    sglang 0.5.9 srt/managers/tp_worker.py:287. The message alone does not tell which: the pool or the context must be
    known beside it.
    """
    limit, asked = view.number("input_limit_tokens"), view.number("rejected_input_tokens")
    context, pool = view.number("context_len") or view.value("--context-length"), view.number("kv_pool")
    if limit is None or asked is None or (context is None and pool is None):
        return None
    if (context is not None and limit >= context * 0.98) or (pool is not None and pool > limit * 1.02 + 64):
        return None
    return Seen(f"{asked:g} tokens refused at {limit:g}", view.sources("rejected_input_tokens", "input_limit_tokens"))


def over_context(view: View) -> Seen | None:
    """An input was refused for the model's context length, before the pool was asked.

    sglang 0.5.9 srt/managers/tokenizer_manager.py, _validate_one_request.
    """
    asked, context = view.number("rejected_input_tokens"), view.number("context_len")
    if asked is None or context is None or "input_limit_tokens" in view.facts or asked < context:
        return None
    text = f"{asked:g} tokens refused at a context of {context:g}"
    return Seen(text, view.sources("rejected_input_tokens", "context_len"))


def context_over_pool(view: View) -> Seen | None:
    scope = "full" if view.facts.get("kv_pool", "full") else ""
    pool, context = view.number("kv_pool", scope), view.number("context_len") or view.value("--context-length")
    if pool is None or context is None or pool >= context:
        return None
    return Seen(f"pool of {pool:g} tokens, context {context:g}", view.sources("kv_pool", "context_len"))


def at_prefill_budget(view: View) -> Seen | None:
    """Prefill batches end just below the token budget although the chunk would allow more."""
    budget = view.number("max_prefill_tokens") or view.value("--max-prefill-tokens")
    chunk = view.number("chunked_prefill_size") or view.value("--chunked-prefill-size")
    usual, most = view.number("new_tokens_p50"), view.number("new_tokens_max")
    if not budget or usual is None or most is None or (chunk is not None and 0 < chunk < budget):
        return None
    if most > budget * 1.02 or usual < budget * 0.8:
        return None
    sources = view.sources("new_tokens_p50", "max_prefill_tokens")
    return Seen(f"{usual:g} new tokens a batch, the budget is {budget:g}", sources)


def fills_chunk(view: View) -> Seen | None:
    """Prefill batches are as large as the chunk allows, so prompts wait for computation and not for admission."""
    chunk = view.number("chunk_adjusted") or view.number("chunked_prefill_size") or view.value("--chunked-prefill-size")
    usual = view.number("new_tokens_p50")
    if not chunk or usual is None or usual < 0.95 * chunk:
        return None
    return Seen(f"{usual:g} new tokens a batch, chunks of {chunk:g}", view.sources("new_tokens_p50"))


def state_outweighs_kv(view: View) -> Seen | None:
    """Recurrent state was given more than twice the memory of KV, with many slots for each request allowed.

    The limit is lowered to what the slots carry (sglang 0.5.9 model_runner_kv_cache_mixin.py), so that few slots a
    request tell nothing where KV is left next to nothing.
    """
    state, kv = view.number("state_pool_gib"), view.number("kv_pool_gib")
    slots, limit = view.number("state_slots"), view.number("running_limit")
    if state is None or not kv or state < 2 * kv:
        return None
    if state < 8 * kv and slots and limit and slots < 16 * limit:
        return None
    return Seen(f"{state:g} GiB of state, {kv:g} GiB of KV", view.sources("state_pool_gib", "kv_pool_gib"))


def known_foreign(view: View) -> Seen | None:
    """A flag stands there that another engine has, as typed or as refused."""
    found = [
        fact_
        for fact_ in (*view.facts.all("flag"), *view.facts.all("rejected_flag"))
        if (fact_.scope if fact_.name == "flag" else str(fact_.value)) in FOREIGN
    ]
    if not found:
        return None
    first = found[0]
    return Seen(first.scope if first.name == "flag" else str(first.value), (first.source,))


def known_rename(view: View) -> Seen | None:
    """A flag that this version refused is one that SGLang renamed before it."""
    for one in view.facts.all("rejected_flag"):
        renamed = RENAMED.get(str(one.value))
        if renamed is not None and renamed[1] and one.scope != "invalid_choice" and view.at_least(*renamed[0]):
            return Seen(f"{one.value} is {renamed[1][0][0]} now", (one.source,))
    return None


def underscored(view: View) -> Seen | None:
    """A flag is written with underscores, as refused or as typed."""
    found = [
        fact_
        for fact_ in (*view.facts.all("rejected_flag"), *view.facts.all("flag"))
        if "_" in (str(fact_.value) if fact_.name == "rejected_flag" else fact_.scope)
    ]
    if not found:
        return None
    return Seen(
        str(found[0].value) if found[0].name == "rejected_flag" else found[0].scope,
        (found[0].source,),
        "observed" if found[0].name == "rejected_flag" else "typed",
    )


def window_below_chunk(view: View) -> Seen | None:
    swa, chunk = (
        view.number("kv_pool", "swa") if view.facts.get("kv_pool", "swa") else None,
        view.value("--chunked-prefill-size") or view.number("chunked_prefill_size"),
    )
    if swa is None or chunk is None or swa >= 4 * chunk or fills_chunk(view):
        return None
    return Seen(f"window pool of {swa:g} tokens for chunks of {chunk:g}", view.sources("kv_pool"))
