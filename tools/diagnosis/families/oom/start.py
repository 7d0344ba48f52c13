"""GPU memory that runs out before the server is ready."""

from __future__ import annotations

from tools.diagnosis.changes import FRACTION, lower_fraction, plan, raise_fraction, step, weights_floor
from tools.diagnosis.clues import (
    Clue,
    Entry,
    Seen,
    above,
    both,
    either,
    fact,
    flag,
    lacks,
    phase,
    said,
    setting_above,
    symptom,
    when,
)
from tools.diagnosis.conditions import DRAFT, OOM_ANYWHERE, OOM_SAID, VISION_FRAME
from tools.diagnosis.model import Actions, Proposal, Question
from tools.diagnosis.view import View


def _floor_above(view: View) -> Seen | None:
    floor, now = weights_floor(view), view.value(FRACTION)
    if floor is None or now is None or now > floor + 0.002:
        return None
    return Seen(
        f"weights need {floor:.3f}, the fraction is {now:g}",
        view.sources("minimum_fraction", "weights_after_gib") + view.flag_sources(FRACTION),
    )


def _window_closed(view: View) -> Seen | None:
    """A fraction that is too low and one that is too high lie next to each other."""
    low, high = view.number("fraction_tried", "too_low"), view.number("fraction_tried", "too_high")
    if low is None or high is None or not 0 < high - low <= 0.015:
        return None
    return Seen(f"{low:g} is too low, {high:g} too high", view.sources("fraction_tried"))


_NODE = 8  # GPUs of one machine, where their number was not seen


def _more_gpus(view: View, why: str) -> list[Proposal]:
    """Twice the ranks; where one machine has fewer GPUs, on as many nodes as hold them."""
    ranks, here = int((view.value("--tp-size") or 1) * 2), int(view.number("gpu_count") or _NODE)
    if ranks <= here * (view.value("--nnodes") or 1):
        return [step(view, "set", "--tp-size", ranks, why, unit="GPUs")]
    nodes = -(-ranks // here)
    why = f"{why}; {ranks} are more than the {here} of one machine, so on {nodes} machines, or larger cards"
    each = f"{ranks} ranks over {nodes} machines of {here} GPUs, each with its own --node-rank and one --dist-init-addr"
    return [
        step(view, "set", "--tp-size", ranks, why, unit="GPUs"),
        step(view, "set", "--nnodes", nodes, each, unit="machines"),
    ]


def _raise_for_weights(view: View) -> Actions:
    if _window_closed(view):
        return plan(
            *_more_gpus(view, "no fraction fits: weights and graphs fill the card; share them over more GPUs"),
            never=(
                ("set", FRACTION, "the window between too low and too high is closed"),
                ("raise", "--max-running-requests", "it takes more of what is missing"),
            ),
            alternatives=(
                ("a smaller or quantised checkpoint", "when there is one GPU"),
                ("no draft model", "its weights are part of the sum"),
                ("fewer captured graphs", "frees some of the rest"),
            ),
        )
    changes = [raise_fraction(view, "the fraction bounds weights plus KV; it must exceed what the weights take")]
    return plan(
        *changes,
        never=(
            ("lower", FRACTION, "it leaves even less for the cache after the weights"),
            ("set", "--cpu-offload-gb", "weights read over PCIe at every step; a last resort"),
            ("lower", "--max-total-tokens", "the check comes before the cap"),
        ),
        alternatives=(
            ("more GPUs, a smaller checkpoint", "when the fraction would pass about 0.95"),
            ("smaller chunks and fewer graphs", "to live with the thinner rest"),
        ),
        expected=(("KV Cache is allocated", "boot log"),),
    )


def _lower_static(view: View) -> Actions:
    return plan(
        lower_fraction(view, "the static part leaves too little for what is allocated after it"),
        never=(
            ("raise", FRACTION, "less would be left"),
            ("raise", "--chunked-prefill-size", "larger activations"),
            ("raise", "--cuda-graph-max-bs", "more graphs"),
        ),
        alternatives=(
            ("--cuda-graph-max-bs nearer the real load", "graphs are part of the rest"),
            ("smaller --chunked-prefill-size", "activations are part of the rest"),
        ),
    )


def _fewer_graphs(view: View) -> Actions:
    changes = [lower_fraction(view, "graphs and communication buffers live outside the static part", 0.05)]
    now = view.value("--cuda-graph-max-bs") or view.number("graph_max_bs")
    running = view.value("--max-running-requests")
    if not now or now > 32:
        to = int(min((now or 256) / 2, running or 1024)) if (running or 1024) < (now or 256) else int((now or 256) / 2)
        changes.append(
            step(view, "lower", "--cuda-graph-max-bs", max(1, to), "each captured size takes memory", unit="requests")
        )
    return plan(
        *changes,
        never=(
            ("raise", FRACTION, "less would be left for graphs"),
            ("set", "--disable-cuda-graph", "it costs decode speed; fewer sizes are enough"),
            ("raise", "--watchdog-timeout", "it hides the cause"),
        ),
        alternatives=(("no prefill (piecewise) graphs", "they take memory of their own"),),
    )


def _warmup(view: View) -> Actions:
    return plan(
        step(view, "set", "--skip-server-warmup", True, "the self-test sends an image; text is served without it"),
        lower_fraction(view, "or leave the vision tower its room"),
        never=(
            ("raise", FRACTION, "less would be left"),
            ("set", "--disable-cuda-graph", "the failure comes after capture"),
        ),
        alternatives=(("the text part of the model only", "where the version can leave the vision tower out"),),
    )


def _not_fit(view: View) -> Actions:
    return plan(
        *_more_gpus(view, "weights are shared over more GPUs; no memory flag applies before they are loaded"),
        never=(
            ("set", FRACTION, "it plays no part before the weights are loaded"),
            ("raise", FRACTION, "it plays no part before the weights are loaded"),
            ("lower", FRACTION, "it plays no part before the weights are loaded"),
            ("lower", "--context-length", "no cache exists yet"),
            ("set", "--cpu-offload-gb", "a last resort: weights cross PCIe at every step"),
        ),
        alternatives=(
            ("a checkpoint that is already quantised", "quantising at load needs the full weights first"),
            ("a smaller model", "on one card"),
        ),
    )


_LATER = (phase("prefill", "decode", "logits", "multimodal"), symptom("serves_then_fails"))


ENTRIES = (
    Entry(
        "oom.startup.weights_exceed_static_budget",
        "The static fraction is smaller than what the weights take, so nothing is left for the cache: it must rise.",
        for_=(
            Clue(6, said("weights_leave_no_room"), "the server asks for a higher fraction"),
            Clue(3, _floor_above, "the weights alone need more than the fraction"),
            Clue(2, fact("minimum_fraction"), "the server printed the smallest viable fraction"),
            Clue(2, _window_closed, "no fraction is both high and low enough"),
            Clue(1.5, both(symptom("no_cache_room"), lacks(DRAFT)), "no room for the cache after the weights"),
        ),
        against=(
            Clue(3, both(DRAFT, symptom("only_with_draft")), "it fails only with a draft"),
            Clue(3, phase("load"), "the weights themselves did not load"),
        ),
        neighbours=(
            ("spec.draft_memory_not_budgeted", "there it starts without the draft"),
            ("oom.startup.static_fraction_too_high", "there the allocation after the pools fails"),
        ),
        settle=Question("What is free before and after the weights?", "Load weight begin/end lines: avail mem"),
        needs=("weights_after_gib",),
        act=_raise_for_weights,
        questions=("fraction",),
    ),
    Entry(
        "oom.startup.static_fraction_too_high",
        "After weights and pools too little is left for what start-up still allocates: the fraction must fall.",
        for_=(
            Clue(4, phase("pools"), "an allocation failed after the pools and before ready"),
            Clue(
                3,
                both(
                    symptom("dies_at_start"),
                    OOM_SAID,
                    lacks(phase("load", "graph_capture", "warmup", "prefill", "decode", "draft")),
                    lacks(symptom("dies_in_load", "dies_in_capture", "dies_in_warmup")),
                ),
                "GPU memory runs out before ready",
            ),
            Clue(
                2,
                both(phase("warmup"), lacks(symptom("images")), lacks(VISION_FRAME)),
                "memory runs out in the self-test",
            ),
            Clue(1, setting_above(FRACTION, 0.92), "the fraction is high"),
            Clue(1, symptom("copied_recipe"), "the value comes from another machine"),
        ),
        against=(
            Clue(4, said("weights_leave_no_room"), "the server asks for a higher fraction"),
            Clue(3, either(*_LATER), "it fails while serving"),
            Clue(2, phase("graph_capture"), "it fails in capture"),
            Clue(3, phase("load"), "weights did not load"),
            Clue(2, when(lambda view: view.hierarchical), "a host cache is on"),
            Clue(2, both(DRAFT, symptom("only_with_draft")), "it fails only with a draft"),
        ),
        neighbours=(
            ("oom.cuda_graph_capture", "there the capture fails"),
            ("oom.startup.weights_exceed_static_budget", "there the direction is the opposite"),
        ),
        settle=Question(
            "Which line came last before the failed allocation?", "boot log: Memory pool end, Capture cuda graph begin"
        ),
        act=_lower_static,
        questions=("fraction",),
    ),
    Entry(
        "oom.startup.multimodal_warmup",
        "The self-test of a multimodal model sends an image, and the vision tower finds no room.",
        for_=(
            Clue(
                5,
                both(
                    either(phase("warmup"), symptom("dies_in_warmup")),
                    either(symptom("images"), VISION_FRAME),
                    OOM_ANYWHERE,
                ),
                "memory runs out in the self-test, in image code",
            ),
            Clue(2, both(symptom("dies_in_warmup"), symptom("images")), "it dies in the self-test of a vision model"),
        ),
        settle=Question("Is the failing frame in image processing, before ready?", "traceback"),
        neighbours=(("oom.runtime.multimodal_activation", "there requests with images fail later"),),
        act=_warmup,
    ),
    Entry(
        "oom.load_time_weights_do_not_fit",
        "The weights do not fit the card: it fails before they are loaded, where no memory flag has a say.",
        for_=(
            Clue(5, both(phase("load"), lacks(DRAFT)), "memory runs out while weights are created or loaded"),
            Clue(
                3,
                both(symptom("dies_in_load"), OOM_ANYWHERE, lacks(DRAFT), lacks(fact("weights_after_gib"))),
                "it dies while loading",
            ),
            Clue(2, both(symptom("any_fraction_fails"), symptom("dies_in_load")), "no fraction changes it"),
            Clue(
                3,
                both(
                    above("oom_allocated_share", 0.93),
                    lacks(fact("weights_after_gib")),
                    lacks(
                        phase("prefill", "decode", "graph_capture", "pools", "warmup", "logits", "multimodal", "draft")
                    ),
                    lacks(symptom("serves_then_fails")),
                ),
                "the card is full of tensors before any load line",
            ),
            Clue(1.5, symptom("quantised_at_load"), "weights are quantised only after loading"),
        ),
        against=(
            Clue(
                4,
                both(phase("warmup", "draft"), lacks(phase("graph_capture"))),
                "it fails at another stage of the start",
            ),
            Clue(
                5,
                both(flag("--dp-size"), lacks(flag("--tp-size")), lacks(flag("--enable-dp-attention"))),
                "dp holds a whole copy on each GPU",
            ),
            Clue(4, fact("weights_after_gib"), "the weights were loaded"),
            Clue(4, either(*_LATER), "it fails while serving"),
            Clue(3, said("weights_leave_no_room"), "the weights were loaded"),
        ),
        neighbours=(
            ("oom.startup.weights_exceed_static_budget", "there the weights are loaded and the cache finds no room"),
        ),
        settle=Question("Was `Load weight end` printed?", "boot log"),
        act=_not_fit,
    ),
    Entry(
        "oom.cuda_graph_capture",
        "Memory runs out while CUDA graphs are captured: too little is left beside the static part.",
        for_=(
            # `Capture cuda graph failed: X` is printed around every exception of the capture: X must tell of memory.
            Clue(
                6,
                either(phase("graph_capture"), both(said("graph_capture_failed"), OOM_ANYWHERE)),
                "memory ran out as graphs were captured",
            ),
            Clue(3, both(symptom("dies_in_capture"), OOM_ANYWHERE), "it dies in capture"),
            Clue(
                3,
                both(
                    symptom("dies_in_capture", "hangs"),
                    either(fact("graph_gib"), fact("graph_end_gib"), said("graph_progress")),
                ),
                "it stops around capture",
            ),
            Clue(1, symptom("outside_pytorch"), "much is held outside PyTorch"),
        ),
        against=(
            Clue(3, either(*_LATER), "it fails while serving"),
            Clue(3, said("weights_leave_no_room"), "the server asks for a higher fraction"),
            Clue(3, said("piecewise_failed"), "prefill graphs fail for another reason"),
            Clue(
                1.5,
                both(fact("graph_end_gib"), symptom("prefill_graphs"), lacks(OOM_ANYWHERE)),
                "capture ended, and prefill graphs are on",
            ),
        ),
        neighbours=(("version.prefill_graph_hang", "there capture ends and no memory is short"),),
        settle=Question(
            "What was free when capture began, and at which batch size did it stop?",
            "Capture cuda graph begin/end lines",
        ),
        act=_fewer_graphs,
        questions=("graphs",),
    ),
)
