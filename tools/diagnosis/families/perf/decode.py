"""Decode against prefill: graphs that are too small, and which of the two waits for the other."""

from __future__ import annotations

from tools.diagnosis import watches
from tools.diagnosis.changes import (
    HICACHE_FOR_RUNNING,
    HIGHER_FRACTION,
    plan,
    step,
)
from tools.diagnosis.clues import (
    Clue,
    Entry,
    Seen,
    above,
    below,
    both,
    either,
    fact,
    flag,
    lacks,
    said,
    setting_above,
    setting_below,
    symptom,
)
from tools.diagnosis.conditions import (
    IDLE_CACHE,
)
from tools.diagnosis.model import Actions, Question
from tools.diagnosis.view import View


def _above_graph(view: View) -> Seen | None:
    captured, running = (
        view.number("graph_max_bs") or view.value("--cuda-graph-max-bs"),
        view.number("running_p95") or view.number("running_max"),
    )
    if captured is None or running is None or running <= captured:
        return None
    return Seen(f"{running:g} running, captured up to {captured:g}", view.sources("running_p95", "graph_max_bs"))


# What switches the graphs of decode off, with the value that does (sglang 0.5.9 srt/server_args.py:4490, later versions
# per phase). The server's own report of a switch stands for what was typed.
_OFF = (
    ("--disable-cuda-graph", ""),
    ("--disable-decode-cuda-graph", ""),
    ("--cuda-graph-backend-decode", "disabled"),
)


def _graphs_off(view: View) -> tuple[str, ...]:
    """The options in force that switch decode graphs off."""
    return tuple(name for name, value in _OFF if (view.setting(name).lower() == value if value else view.on(name)))


def _switched_off(view: View) -> Seen | None:
    off = _graphs_off(view)
    if not off:
        return None
    arguments = (view.facts.get("server_arg", name.removeprefix("--").replace("-", "_")) for name in off)
    seen = tuple(one.source for one in arguments if one is not None and str(one.value) != "None")
    return Seen(" ".join(off), seen or view.flag_sources(*off), "observed" if seen else "typed")


def _capture_again(view: View) -> Actions:
    why = "it switches the graphs of decode off, so that every step runs eagerly"
    return plan(
        *(step(view, "remove", name, None, why) for name in _graphs_off(view)),
        never=(HIGHER_FRACTION, HICACHE_FOR_RUNNING),
        verify=(watches.GRAPHS,),
        notes=("Capturing takes GPU memory at the start; where it was switched off for that, capture fewer sizes.",),
    )


def _capture_more(view: View) -> Actions:
    if _graphs_off(view):
        return _capture_again(view)
    if view.setting("--deepep-mode") == "normal":  # sglang 0.5.9 srt/server_args.py: graphs are off in this mode
        why = "the normal mode runs without graphs; auto takes the low-latency one for decode, which is captured"
        return plan(step(view, "set", "--deepep-mode", "auto", why), never=(HIGHER_FRACTION,))
    captured, running = (
        view.number("graph_max_bs") or view.value("--cuda-graph-max-bs") or 32,
        view.number("running_max") or view.number("running_p95") or 0,
    )
    to = int(max(captured * 2, -(-running // 32) * 32))
    limit = view.value("--max-running-requests") or view.number("running_limit")
    why = "batches above the captured size run without graphs; capture what really runs"
    kept = "and keep the batch at what is captured"
    return plan(
        step(view, "raise", "--cuda-graph-max-bs", to, why, unit="requests"),
        *([step(view, "lower", "--max-running-requests", to, kept, unit="requests")] if (limit or to + 1) > to else []),
        never=(
            ("set", "--disable-cuda-graph", "every step would then be slow"),
            ("lower", "--mem-fraction-static", "memory is not short"),
            HICACHE_FOR_RUNNING,
        ),
        verify=(watches.GRAPHS,),
    )


def _decode_turns(view: View) -> Actions:
    changes = []
    now = view.value("--schedule-conservativeness")
    if now is not None and now < 1:
        changes.append(
            step(
                view,
                "raise",
                "--schedule-conservativeness",
                1.0,
                "admission was loosened; every admission starts another prefill",
            )
        )
    modern = not view.before(0, 5, 19)
    if modern and not view.value("--prefill-decode-interval"):
        changes.append(
            step(
                view,
                "set",
                "--prefill-decode-interval",
                4,
                "guarantees decode rounds between prefill batches",
                unit="rounds",
            )
        )
    chunk = view.value("--chunked-prefill-size")
    if chunk is None or chunk > 2048:
        changes.append(
            step(
                view,
                "lower",
                "--chunked-prefill-size",
                int(max(2048, (chunk or 8192) / 2)),
                "shorter prefill steps between decode steps",
                unit="tokens",
            )
        )
    return plan(
        *changes,
        never=(
            ("raise", "--chunked-prefill-size", "decode would wait longer for each chunk"),
            ("lower", "--schedule-conservativeness", "more prefill would cut in"),
            ("set", "--num-continuous-decode-steps", "it does not hold prefill back"),
            ("lower", "--max-running-requests", "the order of the work is wrong, not its amount"),
            *(
                (("set", "--enable-mixed-chunk", "speculative decoding switches it off again"),)
                if view.speculative
                else ()
            ),
        ),
        alternatives=(
            ("prefill/decode disaggregation", "decode never waits for prefill"),
            ("--enable-mixed-chunk", "without speculative decoding"),
        ),
        verify=(watches.DECODE, watches.FIRST_TOKEN_KEPT),
    )


def _shorter_interval(view: View) -> Actions:
    steps, interval = "--num-continuous-decode-steps", "--prefill-decode-interval"
    typed, why = view.value(interval), "prefill must wait that many decode rounds each time"
    if typed is None and (view.value(steps) or 1) > 1:
        change = step(view, "lower", steps, 1, why, unit="rounds")
    else:
        change = step(view, "lower", interval, int(max(0, (typed or 8) // 4)), why, unit="rounds")
    return plan(
        change,
        never=(
            ("raise", interval, "prefill would wait longer"),
            ("raise", steps, "prefill would wait longer"),
            HIGHER_FRACTION,
        ),
        verify=(watches.FIRST_TOKEN, watches.DECODE_KEPT),
    )


ENTRIES = (
    Entry(
        "perf.decode_exceeds_graph_bs",
        "Requests decode without CUDA graphs, more at once than were captured or with none captured: steps are slow.",
        for_=(
            Clue(
                4,
                both(_switched_off, either(above("graph_false_share", 0.3), symptom("slow_decode"))),
                "graphs are switched off altogether",
            ),
            Clue(4, both(_above_graph, lacks(said("cuda_oom"))), "the batch is larger than the largest captured size"),
            Clue(3, above("graph_false_share", 0.3), "decode runs without graphs"),
            Clue(
                2,
                both(symptom("slow_decode"), either(above("graph_false_share", 0.01), symptom("above_graph_size"))),
                "tokens come slowly without graphs",
            ),
        ),
        against=(Clue(3, either(said("cuda_oom"), fact("oom_request_gib")), "memory ran out"),),
        settle=Question("Is `cuda graph: False` printed above a certain batch?", "decode lines; capture list"),
        act=_capture_more,
    ),
    Entry(
        "perf.prefill_starves_decode",
        "Prefill goes first; long or many prompts keep running requests from their next token.",
        for_=(
            Clue(
                3,
                both(symptom("slow_decode", "stalls"), symptom("long_prompts", "steady_prefill")),
                "tokens stall while prompts are processed",
            ),
            Clue(3, symptom("prefill_outnumbers_decode"), "many prefill batches for each decode batch"),
            Clue(3, below("decode_rate_across_prefill", 0.4), "tokens come at a fraction of their rate across prefill"),
            Clue(
                1.5,
                both(symptom("slow_ttft"), setting_below("--schedule-conservativeness", 0.5)),
                "every admission starts another prefill, and admission was loosened",
            ),
            Clue(
                2,
                both(
                    symptom("slow_decode", "stalls"),
                    either(
                        setting_below("--schedule-conservativeness", 0.5),
                        setting_above("--chunked-prefill-size", 8192),
                        flag("--prefill-decode-interval", "0"),
                    ),
                ),
                "the settings favour prefill",
            ),
            Clue(1, both(symptom("slow_decode", "stalls"), IDLE_CACHE), "tokens stall with memory to spare"),
        ),
        against=(
            Clue(
                2.5,
                both(symptom("one_tenant"), lacks(symptom("slow_decode", "stalls"))),
                "one sender's prompt is what others wait for",
            ),
            Clue(2, symptom("disk_busy"), "the disk is busy"),
            Clue(2, above("graph_false_share", 0.2), "steps run without graphs"),
            Clue(2, setting_above("--prefill-decode-interval", 8), "decode is already given turns"),
            Clue(3, flag("--hicache-storage-backend"), "a store is written"),
        ),
        settle=Question("How many prefill lines stand between two decode lines?", "the log of a slow minute"),
        neighbours=(("perf.single_request_monopolises_prefill", "there it is others' first token that waits"),),
        act=_decode_turns,
        questions=("prefill",),
    ),
    Entry(
        "perf.decode_interval_starves_prefill",
        "Decode rounds are forced between prefills, so first tokens wait.",
        for_=(
            Clue(
                4,
                both(
                    either(
                        setting_above("--prefill-decode-interval", 2), setting_above("--num-continuous-decode-steps", 4)
                    ),
                    either(
                        symptom("slow_ttft", "prefill_slow", "requests_wait", "throughput_fell"), above("queue_p95", 4)
                    ),
                ),
                "first tokens wait with forced decode rounds",
            ),
            Clue(1, setting_above("--prefill-decode-interval", 8), "many decode rounds between prefills"),
        ),
        settle=Question("How long do requests wait before their first prefill line?", "queue time; prefill lines"),
        act=_shorter_interval,
    ),
)
