"""GPU memory runs out: where decides everything, the line itself says nothing."""

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
from tools.diagnosis.conditions import DRAFT
from tools.diagnosis.model import Actions, Proposal, Question
from tools.diagnosis.view import View

_OOM = either(
    fact("oom_request_gib"),
    said("cuda_oom"),
    phase("load", "pools", "graph_capture", "warmup", "prefill", "decode", "logits", "multimodal", "draft", "unknown"),
    symptom("gpu_memory_out"),
)
_STARTED = either(symptom("serves_then_fails"), fact("decode_lines"), fact("prefill_lines"), fact("ready"))


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


def _little_left(view: View) -> Seen | None:
    free = view.number("free_after_boot_gib") or view.number("graph_end_gib")
    if free is None or free >= 2.0:
        return None
    return Seen(f"{free:g} GiB free after start", view.sources("free_after_boot_gib", "graph_end_gib"))


def _reserved_unused(view: View) -> Seen | None:
    """Memory that PyTorch holds and cannot hand out: more than what was asked for."""
    idle, asked = view.number("oom_reserved_gib"), view.number("oom_request_gib")
    if idle is None or asked is None or idle < max(asked, 1.0):
        return None
    return Seen(f"{idle:g} GiB reserved but unallocated, {asked:g} GiB asked", view.sources("oom_reserved_gib"))


def _mostly_fragments(view: View) -> Seen | None:
    """What is reserved and unallocated would serve the request several times over: no activation is too large."""
    idle, asked = view.number("oom_reserved_gib"), view.number("oom_request_gib")
    if idle is None or asked is None or idle < max(3 * asked, 4.0):
        return None
    return Seen(f"{idle:g} GiB reserved but unallocated, {asked:g} GiB asked", view.sources("oom_reserved_gib"))


def _raise_for_weights(view: View) -> Actions:
    if _window_closed(view):
        tp = view.value("--tp-size") or 1
        return plan(
            step(
                view,
                "set",
                "--tp-size",
                int(tp * 2),
                "no fraction fits: weights and graphs fill the card; share them over more GPUs",
                unit="GPUs",
            ),
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


def _activations(view: View) -> Actions:
    changes = []
    chunk = view.value("--chunked-prefill-size") or view.number("chunked_prefill_size")
    changes.append(lower_fraction(view, "activations of a chunk need memory outside the static part"))
    if chunk is None or chunk > 2048 or chunk < 0:
        base = chunk if chunk and chunk > 0 else 8192
        changes.append(
            step(
                view, "lower", "--chunked-prefill-size", int(base / 2), "activations grow with the chunk", unit="tokens"
            )
        )
    if either(symptom("prefill_graphs"), said("prefill_graphs"))(view):
        name = "--cuda-graph-backend-prefill" if not view.before(0, 5, 16) else "--disable-piecewise-cuda-graph"
        changes.insert(
            0,
            step(
                view,
                "set",
                name,
                "disabled" if "backend" in name else True,
                "prefill graphs hold memory that activations need",
            ),
        )
    return plan(
        *changes,
        never=(
            ("raise", FRACTION, "less would be left for activations"),
            ("raise", "--chunked-prefill-size", "larger activations"),
            ("lower", "--context-length", "the chunk counts, not the promise"),
            ("raise", "--max-total-tokens", "a larger pool leaves less"),
        ),
        alternatives=(
            ("--max-total-tokens below the pool", "caps the pool in tokens instead of a share"),
            ("fewer captured graphs", "they live in the same rest"),
        ),
        verify=(("free GPU memory during the longest prompt", 900, "above 1 GiB", "another failed allocation"),),
    )


def _logprobs(view: View) -> Actions:
    chunk = view.value("--chunked-prefill-size") or view.number("chunked_prefill_size") or 8192
    return plan(
        step(
            view,
            "lower",
            "--chunked-prefill-size",
            int(max(512, (chunk if chunk > 0 else 8192) / 4)),
            "prompt logprobs take chunk x vocabulary x 4 bytes, several times over",
            unit="tokens",
        ),
        *(
            [
                Proposal(
                    "env",
                    "set",
                    "SGLANG_ENABLE_LOGITS_PROCESSER_CHUNK",
                    view.env("SGLANG_ENABLE_LOGITS_PROCESSER_CHUNK") or None,
                    "1",
                    "",
                    "logits are then computed in pieces",
                )
            ]
            if view.at_least(0, 5, 6)
            else []
        ),
        never=(
            ("raise", FRACTION, "less would be left for logits"),
            ("raise", "--chunked-prefill-size", "larger logits"),
        ),
        alternatives=(
            ("logprob_start_len at the last tokens", "no logits of the prompt are needed then"),
            ("a lower fraction", "helps only in proportion; the logits grow with the prompt"),
        ),
    )


def _images(view: View) -> Actions:
    return plan(
        lower_fraction(view, "the vision tower allocates by image, outside the static part", 0.05),
        step(
            view,
            "lower",
            "--cuda-graph-max-bs",
            int(max(8, (view.value("--cuda-graph-max-bs") or 64) / 4)),
            "graphs live in the same rest",
            unit="requests",
        ),
        never=(
            ("raise", FRACTION, "less would be left for images"),
            ("raise", "--chunked-prefill-size", "larger activations"),
        ),
        alternatives=(("limits on image size and count per request", "the peak grows with the pixels"),),
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


def _decode_batch(view: View) -> Actions:
    limit = view.value("--max-running-requests") or view.number("running_limit") or 256
    graph = view.number("graph_max_bs") or view.value("--cuda-graph-max-bs")
    to = int(graph) if graph and graph < limit else int(limit / 2)
    return plan(
        step(
            view,
            "lower",
            "--max-running-requests",
            max(1, to),
            "steps above the captured size allocate by batch, outside the static part",
            unit="requests",
        ),
        lower_fraction(view, "leave decode the room it takes"),
        never=(("raise", FRACTION, "less would be left"), ("raise", "--max-running-requests", "larger batches")),
        alternatives=(
            (
                "--cuda-graph-max-bs up to the real batch",
                "captured steps allocate nothing at run time, but capture needs memory",
            ),
        ),
    )


def _fragments(view: View) -> Actions:
    changes = [lower_fraction(view, "leave the allocator some slack", 0.02)]
    # On ROCm growing segments have produced wrong numbers; there only slack is advised.
    if not any(word in view.facts.text("gpu_name").lower() for word in ("amd", "radeon", "mi3", "mi2", "gfx")):
        why = "reserved blocks are too small to be reused; segments that grow avoid that"
        name = "PYTORCH_CUDA_ALLOC_CONF"
        changes.insert(0, Proposal("env", "set", name, view.env(name) or None, "expandable_segments:True", "", why))
    return plan(
        *changes,
        never=(("raise", FRACTION, "less slack for the allocator"),),
        alternatives=(
            ("a restart in a quiet hour", "gives the blocks back"),
            ("upgrade", "where the version strands blocks"),
        ),
    )


def _not_fit(view: View) -> Actions:
    tp = view.value("--tp-size") or 1
    return plan(
        step(
            view,
            "set",
            "--tp-size",
            int(tp * 2),
            "weights are shared over more GPUs; no memory flag applies before they are loaded",
            unit="GPUs",
        ),
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


def _workspace(view: View) -> Actions:
    wanted = view.number("workspace_wanted_bytes") or 402653184.0
    to = 1 << (int(max(wanted, 402653184 + 1)) - 1).bit_length()
    name = "SGLANG_FLASHINFER_WORKSPACE_SIZE" if view.at_least(0, 5, 6) else "FLASHINFER_WORKSPACE_SIZE"
    chunk = view.value("--chunked-prefill-size") or view.number("chunked_prefill_size") or 8192
    return plan(
        Proposal(
            "env",
            "raise",
            name,
            view.env(name) or 402653184,
            to,
            "bytes",
            "a buffer of fixed size is too small for this batch; the card is not full",
        ),
        step(
            view,
            "lower",
            "--chunked-prefill-size",
            int(max(1024, (chunk if chunk > 0 else 8192) / 2)),
            "smaller batches need less of it",
            unit="tokens",
        ),
        never=(
            ("lower", FRACTION, "the card has room; the buffer is fixed"),
            ("raise", FRACTION, "the card has room; the buffer is fixed"),
        ),
        alternatives=(("another attention backend", "it has no such buffer"),),
    )


_LATER = (phase("prefill", "decode", "logits", "multimodal"), symptom("serves_then_fails"))
_GENERIC_OOM = either(said("cuda_oom"), fact("oom_request_gib"), symptom("gpu_memory_out"))

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
                    _GENERIC_OOM,
                    lacks(phase("load", "graph_capture", "warmup", "prefill", "decode", "draft")),
                    lacks(symptom("dies_in_load", "dies_in_capture", "dies_in_warmup")),
                ),
                "GPU memory runs out before ready",
            ),
            Clue(2, both(phase("warmup"), lacks(symptom("images"))), "memory runs out in the self-test"),
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
                both(either(phase("warmup"), symptom("dies_in_warmup")), symptom("images"), _OOM),
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
                both(symptom("dies_in_load"), _OOM, lacks(DRAFT), lacks(fact("weights_after_gib"))),
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
            Clue(6, either(phase("graph_capture"), said("graph_capture_failed")), "capture failed"),
            Clue(3, both(symptom("dies_in_capture"), _OOM), "it dies in capture"),
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
        ),
        neighbours=(("version.prefill_graph_hang", "there capture ends and no memory is short"),),
        settle=Question(
            "What was free when capture began, and at which batch size did it stop?",
            "Capture cuda graph begin/end lines",
        ),
        act=_fewer_graphs,
        questions=("graphs",),
    ),
    Entry(
        "oom.runtime.prefill_activation",
        "A prefill chunk needs more activation memory than is left outside the static part.",
        for_=(
            Clue(6, both(phase("prefill"), lacks(symptom("images", "logprobs"))), "memory runs out in prefill"),
            Clue(2, both(phase("prefill"), symptom("images", "logprobs")), "memory runs out in prefill"),
            Clue(
                3,
                both(
                    _GENERIC_OOM,
                    symptom("long_prompts"),
                    lacks(symptom("only_with_host_cache", "dies_at_start", "dies_in_load", "dies_in_capture")),
                ),
                "memory runs out on long prompts",
            ),
            Clue(
                2.5,
                both(_GENERIC_OOM, symptom("serves_then_fails"), lacks(symptom("images", "logprobs", "creeps"))),
                "memory runs out while serving",
            ),
            Clue(2, both(symptom("prefill_graphs"), _GENERIC_OOM), "prefill graphs hold memory"),
            Clue(1, both(setting_above("--chunked-prefill-size", 16384), _GENERIC_OOM), "large chunks"),
            Clue(1, both(_little_left, _GENERIC_OOM), "little was left after start"),
        ),
        against=(
            Clue(4, _mostly_fragments, "enough is held, in pieces"),
            Clue(3, phase("graph_capture", "load", "pools"), "it fails before serving"),
            Clue(3, said("weights_leave_no_room"), "the server asks for a higher fraction"),
            Clue(2, phase("decode"), "it fails in decode"),
            Clue(3, symptom("gpu0_heavier"), "only one GPU is short"),
            Clue(2.5, said("prefill_alloc"), "the pool, not the card, is out of room"),
        ),
        neighbours=(
            ("capacity.context_exceeds_kv_pool", "there the request is refused, nothing fails"),
            ("oom.runtime.logprob_materialization", "there prompt logprobs are asked for"),
        ),
        settle=Question(
            "Which frame failed, how long was the prompt, how large the chunk?",
            "traceback; chunked_prefill_size; the prompt's length",
        ),
        act=_activations,
        questions=("chunk",),
    ),
    Entry(
        "oom.runtime.decode_batch",
        "Decode or verify steps of large batches allocate more than is left.",
        for_=(
            Clue(5, phase("decode"), "memory runs out in decode"),
            Clue(3, both(_GENERIC_OOM, symptom("above_graph_size")), "memory runs out above the captured batch size"),
            Clue(1.5, both(_GENERIC_OOM, above("graph_false_share", 0.2)), "steps run without graphs"),
        ),
        against=(
            Clue(4, _mostly_fragments, "enough is held, in pieces"),
            Clue(3, said("decode_alloc"), "the pool, not the card, is out of room"),
            Clue(3, phase("prefill", "graph_capture", "load"), "it fails elsewhere"),
        ),
        settle=Question(
            "Was the batch larger than the largest captured size?", "decode lines: cuda graph False; the capture list"
        ),
        act=_decode_batch,
    ),
    Entry(
        "oom.runtime.logprob_materialization",
        "Prompt logprobs turn every prompt token into a row of the whole vocabulary.",
        for_=(
            Clue(
                6,
                both(phase("logits"), either(symptom("logprobs"), lacks(symptom("images")))),
                "memory runs out in logits",
            ),
            Clue(5, both(symptom("logprobs"), _OOM), "memory runs out with logprobs asked for"),
            Clue(1, symptom("logprobs"), "logprobs are asked for"),
        ),
        settle=Question("From which token on are logprobs asked for?", "logprob_start_len of the request"),
        act=_logprobs,
    ),
    Entry(
        "oom.runtime.multimodal_activation",
        "The vision tower's activations find no room while serving.",
        for_=(
            Clue(
                5,
                both(phase("multimodal"), lacks(symptom("dies_in_warmup", "gpu0_heavier"))),
                "memory runs out in image code",
            ),
            Clue(
                4,
                both(
                    symptom("images"),
                    _GENERIC_OOM,
                    lacks(phase("warmup")),
                    lacks(symptom("dies_in_warmup", "gpu0_heavier", "tokenizer_workers")),
                ),
                "memory runs out on images",
            ),
        ),
        against=(
            Clue(4, _mostly_fragments, "enough is held, in pieces"),
            Clue(2, symptom("long_prompts"), "text of great length fails as well"),
            Clue(3, flag("--tokenizer-worker-num"), "several tokenizer workers share the first GPU"),
        ),
        settle=Question("How large are the images, and do text requests alone survive?", "request log; traceback"),
        act=_images,
    ),
    Entry(
        "oom.runtime.allocator_fragmentation",
        "PyTorch holds enough memory but in blocks too small to reuse.",
        for_=(
            Clue(5, _reserved_unused, "more is reserved and unallocated than was asked for"),
            Clue(3, both(symptom("fragmented"), _OOM), "fragmentation is suspected with memory running out"),
            Clue(1.5, both(symptom("creeps"), _GENERIC_OOM), "free memory shrinks over hours"),
        ),
        against=(Clue(3, phase("load"), "it fails while loading"),),
        settle=Question("How much is reserved but unallocated when it fails?", "the text of the error"),
        neighbours=(("version.allocator_stranding", "there a version's own buffers are stranded"),),
        act=_fragments,
    ),
    Entry(
        "oom.fixed_workspace",
        "A workspace of fixed size is too small for the batch; the card itself has room.",
        for_=(
            Clue(6, said("workspace_overflow"), "a fixed workspace overflowed"),
            Clue(2, symptom("workspace"), "a workspace is named"),
        ),
        settle=Question("Which buffer, and how large is it made?", "the error line; the environment"),
        act=_workspace,
    ),
)
