"""Kernels, graphs and caches that fail or answer wrongly in a version."""

from __future__ import annotations

from tools.diagnosis.changes import FRACTION, NOT_MEMORY, plan, step, upgrade
from tools.diagnosis.clues import (
    Clue,
    Entry,
    above,
    both,
    either,
    fact,
    flag,
    lacks,
    said,
    symptom,
    when,
)
from tools.diagnosis.conditions import HICACHE, SPECULATES
from tools.diagnosis.measured import fell
from tools.diagnosis.model import Actions, Question
from tools.diagnosis.view import View


def _fixed_later(view: View) -> Actions:
    changes = [upgrade("the fault is in the code of this version; look for it in the change log of later ones")]
    if symptom("sliding_window")(view) or view.typed("--swa-full-tokens-ratio"):
        now = view.value("--swa-full-tokens-ratio") or 0.8
        changes.append(
            step(
                view,
                "raise",
                "--swa-full-tokens-ratio",
                round(min(1.0, now * 2), 2),
                "less pressure on the window pool until then",
                unit="ratio",
            )
        )
    return plan(
        *changes,
        never=(
            ("raise", FRACTION, "no memory is short"),
            ("lower", FRACTION, "no memory is short"),
            ("set", "--disable-cuda-graph", "it hides the fault and costs speed"),
            ("lower", "--swa-full-tokens-ratio", "more pressure on the window pool"),
        ),
        alternatives=(("the feature that is new in this start, off", "until the upgrade"),),
    )


_PREFILL_GRAPHS = "--enable-piecewise-cuda-graph"


def _prefill_graphs_by_request(view: View) -> bool:
    """Prefill graphs are captured where they are asked for: by default only from 0.5.10 (its srt/server_args.py)."""
    return view.before(0, 5, 10)


def _without_prefill_graphs(view: View) -> bool:
    """A version and a command that capture none."""
    return _prefill_graphs_by_request(view) and not view.on(_PREFILL_GRAPHS)


def _no_prefill_graph(view: View) -> Actions:
    why = "decode graphs stay on; only prefill graphs go"
    if _prefill_graphs_by_request(view):
        change = step(view, "remove", _PREFILL_GRAPHS, None, why)
    elif view.before(0, 5, 16):
        change = step(view, "set", "--disable-piecewise-cuda-graph", True, why)
    else:
        change = step(view, "set", "--cuda-graph-backend-prefill", "disabled", why)
    return plan(
        change,
        never=(
            ("lower", FRACTION, "no memory is short"),
            ("set", "--disable-cuda-graph", "decode graphs are not at fault"),
            ("raise", "--watchdog-timeout", "it hides the cause"),
            ("set", "--skip-server-warmup", "the next request would fail instead"),
        ),
        alternatives=(
            ("a longer context", "where graph buckets exceed it"),
            ("upgrade", "later versions bound the buckets"),
        ),
    )


_HYBRID = either(symptom("hybrid_state"), flag("--max-mamba-cache-size"), fact("state_slots"))


_NO_PREFILL_GRAPHS = when(_without_prefill_graphs, "off in this version unless asked for")

# Nobody can say of a version that is not known that a later one has the fix, nor of which.
_KNOWN = when(lambda view: view.version is not None, "of a known version")


_NOTHING_ELSE = both(
    lacks(HICACHE),
    lacks(SPECULATES),
    lacks(said("graph_capture_failed")),  # any kernel runs there: which one faulted is not told
    _KNOWN,
)
# A read of forbidden memory may as well come of a failing card or a driver; a wrong index is the code's own.
_READS_WILDLY = both(said("illegal_access"), lacks(said("index_out_of_bounds", "nan")), _NOTHING_ELSE)

ENTRIES = (
    Entry(
        "version.bug_fixed_upstream",
        "A fault in the code of this version, of a kind that later versions correct.",
        for_=(
            Clue(5, said("crash_after_retraction"), "a crash in a path that memory pressure opens"),
            Clue(3, both(said("index_out_of_bounds", "nan"), _NOTHING_ELSE), "a kernel faults"),
            Clue(2, _READS_WILDLY, "a kernel faults, or the card or driver below it"),
            Clue(1, both(_READS_WILDLY, fact("stack_frame")), "and the code that ran is told"),
            Clue(4, both(said("pool_leak"), _KNOWN), "the server reports a leak of its pool"),
            Clue(
                1.5,
                both(said("pool_leak", "illegal_access", "index_out_of_bounds", "nan"), lacks(_KNOWN)),
                "the server's own code may be at fault, in a version that is not known",
            ),
            Clue(
                2,
                both(symptom("garbled_output"), lacks(flag("--kv-cache-dtype")), lacks(symptom("fp8_kv"))),
                "the output is wrong",
            ),
            Clue(1.5, said("assertion"), "an assertion of the server's own failed"),
        ),
        settle=Question(
            "Which version runs, and what failed first?",
            "pip show sglang; one run with CUDA_LAUNCH_BLOCKING=1 for the kernel; "
            "`journalctl -k -n 1000 --no-pager | grep Xid`",
        ),
        act=_fixed_later,
    ),
    Entry(
        "version.radix_eviction_breaks_speculation",
        "After cached prefixes are evicted, drafts or state are wrong and output degenerates.",
        for_=(
            Clue(
                5,
                both(
                    either(symptom("repeats_token", "garbled_output"), symptom("accept_fell")),
                    either(SPECULATES, symptom("draft_on"), _HYBRID),
                    symptom("after_eviction"),
                ),
                "output degenerates after evictions",
            ),
            Clue(
                3,
                both(symptom("repeats_token"), either(SPECULATES, symptom("draft_on", "hybrid_state"), _HYBRID)),
                "one token repeats with a draft or state",
            ),
            Clue(
                2.5,
                both(symptom("accept_fell"), either(HICACHE, symptom("host_cache", "after_eviction"))),
                "accept length falls after cache traffic",
            ),
            Clue(
                4,
                both(
                    either(fell("accept_len", 0.75), fell("accept_share", 0.7)),
                    either(HICACHE, symptom("host_cache", "after_eviction")),
                ),
                "accept length was measured to fall while prefixes come and go",
            ),
            Clue(
                3,
                both(
                    either(fell("accept_len", 0.75), symptom("accept_fell")), symptom("restored_by_flush"), SPECULATES
                ),
                "emptying the cache restores it",
            ),
        ),
        act=lambda view: plan(
            upgrade("later versions restore what belongs to the prefix"),
            step(view, "set", "--disable-radix-cache", True, "until then no stale prefix can be taken"),
            never=NOT_MEMORY[1:],
        ),
        settle=Question("Does flush_cache in a quiet moment bring it back?", "accept length before and after"),
    ),
    Entry(
        "version.prefill_graph_bucket_exceeds_context",
        "Prefill graphs are warmed up for more tokens than the context has.",
        for_=(
            Clue(6, said("piecewise_failed"), "warming up prefill graphs fails"),
            Clue(2, both(symptom("prefill_graphs"), symptom("tiny_context")), "prefill graphs with a tiny context"),
        ),
        against=(
            Clue(2, both(_NO_PREFILL_GRAPHS, lacks(said("piecewise_failed"))), "nothing captures prefill graphs"),
        ),
        act=_no_prefill_graph,
    ),
    Entry(
        "version.prefill_graph_hang",
        "Prefill graphs leave the server hanging after it has started.",
        for_=(
            Clue(
                5,
                both(
                    either(said("detokenizer_silent"), symptom("health_fails", "hangs", "first_request_hangs")),
                    symptom("prefill_graphs"),
                ),
                "no answer after prefill graphs were captured",
            ),
            Clue(
                3,
                both(said("detokenizer_silent"), symptom("health_fails", "first_request_hangs")),
                "health fails and the first request hangs",
            ),
            Clue(1.5, said("detokenizer_silent"), "the detokenizer stays silent"),
            Clue(
                1.5,
                both(fact("graph_end_gib"), symptom("prefill_graphs"), symptom("hangs"), lacks(fact("ready"))),
                "the last thing seen of the start is the end of a capture",
            ),
        ),
        against=(
            Clue(2, said("permission_denied", "cache_dir_denied", "cuda_oom", "killed"), "a process died"),
            Clue(4, symptom("after_hours"), "it served for hours first"),
            Clue(2, above("running_max", 2), "other requests ran already"),
            Clue(6, _NO_PREFILL_GRAPHS, "nothing captures prefill graphs"),
        ),
        act=_no_prefill_graph,
        settle=Question("Does it answer without prefill graphs?", "one start with them off"),
    ),
)
