"""Prefix reuse is lost."""

from __future__ import annotations

from tools.diagnosis import watches
from tools.diagnosis.changes import plan, step
from tools.diagnosis.clues import Clue, Entry, Seen, above, below, both, either, fact, flag, lacks, symptom, when
from tools.diagnosis.conditions import HYBRID, SWA, window_below_chunk
from tools.diagnosis.measured import fell, rose, traffic_exceeds_pool
from tools.diagnosis.model import Actions, Question
from tools.diagnosis.view import View

# The chunks of one long prompt find nothing by nature: that is no miss.
_ONE_PROMPT = both(above("pending_tokens_p50", 1), below("cached_share", 0.0))
_SEVERAL_BATCHES = either(above("prefill_lines", 2), symptom("hit_rate_fell", "identical_prompt"))
_MISSES = either(
    symptom("forgets_conversations", "hit_rate_low"),
    both(below("cached_share", 0.2), _SEVERAL_BATCHES, lacks(_ONE_PROMPT)),
)
_HITS_FALL = fell("hit_share", 0.6)
_FEW_STATES = both(lacks(above("usage_max", 0.5, "state")), lacks(above("usage_max", 0.9, "")))
# A model with recurrent state also shows by what its operator typed; every server resolves a default of these.
_HYBRID = either(HYBRID, flag("--mamba-scheduler-strategy"), flag("--mamba-ssm-dtype"))


def _dealt_out(view: View) -> Seen | None:
    """A router's policy, or the ranks' balancing, that looks at load or order and never at prefixes."""
    for fact_ in (*view.facts.all("router_flag"), *view.facts.all("flag")):
        if fact_.scope in ("--policy", "--load-balance-method") and str(fact_.value) in _BLIND:
            return Seen(f"{fact_.scope} {fact_.value}", (fact_.source,), "typed")
    return None


_BLIND = frozenset(("round_robin", "random", "shortest_queue", "total_requests", "total_tokens", "power_of_two"))


def _hits_at_chunks(view: View) -> Seen | None:
    """Every hit ends at a multiple of the chunk: states are kept where a chunk ended."""
    step_, chunk = (
        view.number("cached_step_tokens"),
        view.value("--chunked-prefill-size") or view.number("chunked_prefill_size"),
    )
    if not step_ or not chunk or step_ % chunk:
        return None
    return Seen(f"hits of whole chunks of {chunk:g}", view.sources("cached_step_tokens"))


def _fell(view: View) -> Seen | None:
    """The share of cached tokens fell from the first to the last third of the window."""
    first, last = view.facts.number("cached_share", "first"), view.facts.number("cached_share", "last")
    if first is None or last is None or first - last < 0.15:
        return None
    return Seen(f"cached share {first:.2f}, later {last:.2f}", (_source(view, "cached_share", "last"),))


def _evicted(view: View) -> Seen | None:
    evicted = view.facts.number("metric", "evicted_tokens_total")
    pool = view.number("kv_pool", "")
    if evicted is None or evicted <= (pool or 0):
        return None
    return Seen(f"{evicted:,.0f} tokens evicted", (_source(view, "metric", "evicted_tokens_total"),))


def _source(view: View, name: str, scope: str) -> str:
    found = view.facts.get(name, scope)
    return "" if found is None else found.source


_FP8 = ("--kv-cache-dtype fp8_e4m3", "twice the tokens on the GPU, after a quality check")


def _hicache(view: View) -> Actions:
    from tools.diagnosis.sums import hicache_ratio_that_fits, host_pool_printed

    ratio, why = hicache_ratio_that_fits(view)
    if ratio is not None and ratio <= 1.1:
        return plan(
            alternatives=(
                ("--enable-hierarchical-cache", why),
                ("--schedule-policy lpm", "serves requests with long cached prefixes first"),
                ("a storage backend or a cache-aware router", "when the same prefixes come to several servers"),
            ),
            notes=(why,),
        )
    chosen = ratio if ratio is not None else 2.0
    return plan(
        step(
            view,
            "set",
            "--enable-hierarchical-cache",
            True,
            "evicted prefixes are kept in host RAM and copied back instead of computed again",
        ),
        step(view, "set", "--hicache-ratio", chosen, why, unit="x GPU pool"),
        never=(
            ("raise", "--max-running-requests", "nothing waits for a slot; reuse is what is lost"),
            ("set", "--disable-radix-cache", "it removes the reuse that is left"),
            ("lower", "--chunked-prefill-size", "it changes the order of the work, not its amount"),
        ),
        alternatives=(
            *(() if view.setting("--kv-cache-dtype").startswith(("fp8", "fp4", "nvfp4")) else (_FP8,)),
            ("--schedule-policy lpm", "serves requests with long cached prefixes first"),
        ),
        expected=((host_pool_printed(view, chosen), "boot log"),),
        verify=(watches.FROM_HOST, watches.ACCEPTED) if view.speculative else (watches.FROM_HOST, watches.CACHED),
    )


def _more_state(view: View) -> Actions:
    slots = view.number("state_slots") or view.value("--max-mamba-cache-size")
    changes = []
    if view.typed("--mamba-full-memory-ratio") or not view.typed("--max-mamba-cache-size"):
        now = view.value("--mamba-full-memory-ratio") or 0.9
        changes.append(
            step(
                view,
                "raise",
                "--mamba-full-memory-ratio",
                round(max(0.9, now * 1.5) if now < 0.9 else now * 1.5, 2),
                "each cached conversation needs at least one state slot",
                unit="ratio",
            )
        )
    if not changes or slots:
        conversations = view.number("conversations") or (slots or 16) * 1.5
        changes.append(
            step(
                view,
                "raise",
                "--max-mamba-cache-size",
                int(max((slots or 16) * 2, conversations + 8)),
                "a slot for every conversation that should stay warm, and for what runs",
                unit="slots",
            )
        )
    if not view.typed("--max-mamba-cache-size") and view.typed("--mamba-full-memory-ratio"):
        changes = changes[:1]
    return plan(
        *changes,
        never=(
            ("raise", "--mem-fraction-static", "KV has room; the slots are what runs out"),
            ("lower", "--chunked-prefill-size", "it changes the order of the work, not its amount"),
            ("set", "--disable-radix-cache", "it removes the reuse that is left"),
        ),
        alternatives=(
            ("--mamba-ssm-dtype bfloat16", "halves a slot; check quality"),
            ("--enable-hierarchical-cache", "where the version supports it for hybrid models"),
        ),
    )


def _sticky(view: View) -> Actions:
    return plan(
        step(
            view,
            "set",
            "--policy",
            "cache_aware",
            "in the router: each rank has its own cache, so send a conversation to the one that holds it",
            kind="container",
        ),
        never=(
            ("raise", "--mem-fraction-static", "each rank already has room; the prefix is on another one"),
            ("set", "--enable-hierarchical-cache", "a host pool is per rank as well"),
            ("raise", "--hicache-ratio", "a host pool is per rank as well"),
        ),
        alternatives=(
            ("a smaller --dp-size", "fewer caches, each with more of the traffic"),
            ("a shared storage backend", "ranks then find each other's pages"),
        ),
    )


def _by_design(view: View) -> Actions:
    name = "--mamba-radix-cache-strategy" if view.at_least(0, 5, 16) else "--mamba-scheduler-strategy"
    why = "keeps state at more points, for more slots per request; what lies between two points stays lost"
    changes = [step(view, "set", name, "extra_buffer", why)] if not view.before(0, 5, 6) else []
    return plan(
        *changes,
        never=(
            ("raise", "--mem-fraction-static", "no memory is short"),
            ("set", "--disable-radix-cache", "reuse at the boundaries that exist is lost as well"),
            ("lower", "--chunked-prefill-size", "no memory is short"),
        ),
        alternatives=(
            ("leave it", "state is kept at fixed points only; a prompt that is extended or repeated once more hits"),
        ),
        notes=("For recurrent layers only states at kept boundaries can be reused.",),
    )


def _more_window(view: View) -> Actions:
    now = view.value("--swa-full-tokens-ratio") or 0.8
    return plan(
        step(
            view,
            "raise",
            "--swa-full-tokens-ratio",
            round(min(1.0, max(now * 1.5, now + 0.1)), 2),
            "a prefix is only a hit while its last window is still in the window pool",
            unit="ratio",
        ),
        never=(
            ("lower", "--swa-full-tokens-ratio", "the window pool is the one under pressure"),
            ("raise", "--mem-fraction-static", "the split is wrong, not the sum"),
            ("set", "--disable-radix-cache", "it removes the reuse that is left"),
        ),
        alternatives=(("--disable-hybrid-swa-memory", "one pool for all layers: fewer tokens, no such misses"),),
    )


ENTRIES = (
    Entry(
        "cache.working_set_exceeds_hbm",
        "Prefixes that come back were evicted in between: the traffic of an hour is larger than the GPU pool.",
        for_=(
            Clue(3, both(_fell, _evicted), "hits fell while evictions rose"),
            Clue(2, both(fell("hit_share_of_lines", 0.4), lacks(_fell)), "later lines find less than earlier ones"),
            Clue(2, either(_fell, symptom("hit_rate_fell")), "the share of cached tokens fell"),
            Clue(
                2,
                both(symptom("hit_rate_fell"), symptom("evictions_rise", "many_conversations")),
                "as more users came, or as evictions rose",
            ),
            Clue(2, both(_evicted, lacks(HYBRID)), "more was evicted than the pool holds"),
            Clue(
                2,
                both(_evicted, lacks(HYBRID), lacks(SWA), either(below("metric", 0.3, "cache_hit_rate"), _MISSES)),
                "and prompts find next to nothing",
            ),
            Clue(4, both(_HITS_FALL, rose("evicted", 2)), "measured side by side, hits fall as evictions rise"),
            Clue(3, both(_HITS_FALL, lacks(rose("evicted", 2))), "the measured share of hits falls with the load"),
            Clue(
                2,
                both(traffic_exceeds_pool, lacks(HYBRID), lacks(when(lambda view: view.hierarchical))),
                "the conversations do not fit the pool together",
            ),
            Clue(
                3,
                both(
                    symptom("forgets_conversations"),
                    either(symptom("many_conversations"), fact("kv_pool")),
                    lacks(HYBRID),
                    lacks(SWA),
                    lacks(flag("--enable-dp-attention")),
                ),
                "returning conversations are computed again",
            ),
            Clue(
                1,
                both(symptom("forgets_conversations", "hit_rate_low"), symptom("cache_full")),
                "the cache is full and old prefixes go",
            ),
        ),
        against=(
            Clue(3, flag("--disable-radix-cache"), "prefix reuse is switched off"),
            Clue(2, symptom("unique_prompts"), "prompts are said to be unique"),
            Clue(2, when(lambda view: view.hierarchical), "a host cache is on: what is lost is lost behind it"),
            Clue(2, both(above("cached_share", 0.7, "last"), lacks(_fell)), "most tokens are still found in the cache"),
            Clue(2, both(above("queue_p95", 1), above("usage_p95", 0.93)), "running requests fill the pool"),
            Clue(
                2,
                lacks(
                    either(
                        _fell,
                        _HITS_FALL,
                        fell("hit_share_of_lines", 0.4),
                        _evicted,
                        symptom("hit_rate_fell", "forgets_conversations", "hit_rate_low"),
                    )
                ),
                "no sign that prefixes are lost",
            ),
        ),
        neighbours=(
            ("cache.dp_rank_scatter", "there each rank has room but the prefix is on another rank"),
            ("cache.state_slots_evict_prefixes", "there state slots go first and KV has room"),
        ),
        settle=Question(
            "Do hits fall as hourly tokens pass the pool, with evicted_tokens_total rising?",
            "metrics: evicted_tokens_total, cached tokens; prefill lines over an hour",
        ),
        act=_hicache,
        questions=("offload",),
    ),
    Entry(
        "cache.state_slots_evict_prefixes",
        (
            "Each cached conversation of a hybrid model holds a state "
            "slot; slots run out and old ones go, although KV has room."
        ),
        for_=(
            Clue(
                4,
                both(HYBRID, either(symptom("forgets_conversations", "hit_rate_low"), below("cached_share", 0.2))),
                "returning conversations are computed again on a model with state slots",
            ),
            Clue(1, both(HYBRID, symptom("cache_idle"), symptom("forgets_conversations")), "while KV has room"),
            Clue(
                4,
                both(
                    above("usage_max", 0.9, "state"),
                    below("usage_max", 0.6, "full"),
                    fact("new_tokens"),
                    lacks(above("queue_p95", 1)),
                    lacks(above("cached_share", 0.8)),
                ),
                "state slots are used up while KV has room, and prompts are computed again",
            ),
        ),
        against=(
            Clue(2.5, symptom("identical_prompt"), "even an identical prompt is not found"),
            Clue(2, symptom("requests_wait"), "requests wait"),
            Clue(3, below("usage_max", 0.3, "state"), "most state slots are free"),
        ),
        neighbours=(
            ("cache.hybrid_state_boundary_by_design", "there even one conversation alone finds only whole boundaries"),
            ("capacity.state_pool_cap", "there requests wait"),
        ),
        settle=Question(
            "How many conversations are kept against how many state slots?",
            "boot log: state slots; the number of conversations between two visits",
        ),
        act=_more_state,
    ),
    Entry(
        "cache.hybrid_state_boundary_by_design",
        (
            "Reuse on recurrent layers ends at kept state boundaries; a "
            "repeated prompt finds less than expected by design."
        ),
        for_=(
            Clue(
                4,
                both(_HYBRID, symptom("identical_prompt"), _MISSES),
                "an identical prompt finds nothing on a model with state",
            ),
            Clue(3, both(HYBRID, symptom("hits_in_steps")), "hits come in whole steps"),
            Clue(4, both(_HYBRID, _hits_at_chunks), "hits end where a chunk ended, whatever the prompt shares"),
            Clue(
                4,
                both(_HYBRID, fact("equal_prompts_missed"), _FEW_STATES),
                "prompts of one length find nothing while nearly every state slot is free",
            ),
            Clue(1, both(HYBRID, symptom("identical_prompt")), "it is tested with an identical prompt"),
        ),
        settle=Question(
            "Does the second repetition, or a longer continuation, hit?",
            "prefill lines: #cached-token of the third request",
        ),
        neighbours=(
            ("cache.state_slots_evict_prefixes", "there it depends on how many other conversations came between"),
        ),
        act=_by_design,
    ),
    Entry(
        "cache.swa_pool_pressure",
        "Prefixes are lost because their window tokens were evicted from the small window pool.",
        for_=(
            Clue(4, both(SWA, _MISSES), "prefixes are not found on a model with a window pool"),
            Clue(2, both(SWA, above("usage_max", 0.9, "swa")), "the window pool is full"),
            Clue(2, both(SWA, symptom("hits_in_steps")), "hits are all or nothing"),
            Clue(2, both(SWA, fact("equal_prompts_missed")), "prompts of one length find nothing, others all"),
        ),
        against=(
            Clue(2, symptom("input_refused", "chunks_cut"), "inputs are refused or cut"),
            Clue(4, below("usage_max", 0.5, "swa"), "the window pool has room"),
            Clue(
                4,
                both(window_below_chunk, lacks(symptom("forgets_conversations", "hit_rate_low", "hits_in_steps"))),
                "the window pool cuts chunks, and nobody misses hits",
            ),
        ),
        settle=Question(
            "Is the window pool near 1 while the full pool is not, and are hits all or nothing?",
            "decode lines: swa token usage; prefill lines: #cached-token",
        ),
        neighbours=(("capacity.swa_ratio_misallocated", "there requests are refused or wait"),),
        act=_more_window,
    ),
    Entry(
        "cache.dp_rank_scatter",
        "Each data-parallel rank has its own prefix cache and the same conversation is sent to another rank.",
        for_=(
            Clue(
                4,
                both(
                    either(
                        flag("--dp-size"),
                        flag("--enable-dp-attention"),
                        symptom("several_replicas"),
                        fact("router_flag"),
                    ),
                    _MISSES,
                ),
                "prefixes are not found behind several ranks or replicas",
            ),
            Clue(
                3,
                both(fact("missed_on_rank"), lacks(_evicted)),
                "a prompt finds nothing on one rank where a rank has a prefix of that length",
            ),
            Clue(2, symptom("routed_round_robin"), "requests are spread without regard to prefixes"),
            Clue(1, _dealt_out, "the router or the server was told to deal requests out in turn"),
        ),
        against=(Clue(3, flag("--disable-radix-cache"), "prefix reuse is switched off"),),
        settle=Question(
            "Who chooses the rank, and does one rank alone hit?", "router policy; prefill lines per DP rank"
        ),
        neighbours=(("cache.working_set_exceeds_hbm", "there one rank alone loses its prefixes as well"),),
        act=_sticky,
    ),
)
