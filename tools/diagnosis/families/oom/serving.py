"""GPU memory that runs out while requests are served."""

from __future__ import annotations

from tools.diagnosis.changes import FRACTION, lower_fraction, plan, step
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
    symptom,
)
from tools.diagnosis.conditions import OOM_ANYWHERE, OOM_SAID, VISION_FRAME
from tools.diagnosis.measured import stands_in
from tools.diagnosis.model import Actions, Proposal, Question
from tools.diagnosis.view import View


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


# A stack that was printed, without one frame of the vision tower in it.
_TEXT_LAYERS = both(phase("prefill"), stands_in("forward_extend"), lacks(VISION_FRAME))


ENTRIES = (
    Entry(
        "oom.runtime.prefill_activation",
        "A prefill chunk needs more activation memory than is left outside the static part.",
        for_=(
            Clue(
                6,
                both(phase("prefill"), either(_TEXT_LAYERS, lacks(symptom("images", "logprobs")))),
                "memory runs out in prefill",
            ),
            Clue(
                2,
                both(phase("prefill"), symptom("images", "logprobs"), lacks(_TEXT_LAYERS)),
                "memory runs out in prefill",
            ),
            Clue(
                3,
                both(
                    OOM_SAID,
                    symptom("long_prompts"),
                    lacks(symptom("only_with_host_cache", "dies_at_start", "dies_in_load", "dies_in_capture")),
                ),
                "memory runs out on long prompts",
            ),
            Clue(
                2.5,
                both(OOM_SAID, symptom("serves_then_fails"), lacks(symptom("images", "logprobs", "creeps"))),
                "memory runs out while serving",
            ),
            Clue(2, both(symptom("prefill_graphs"), OOM_SAID), "prefill graphs hold memory"),
            Clue(1, both(setting_above("--chunked-prefill-size", 16384), OOM_SAID), "large chunks"),
            Clue(1, both(_little_left, OOM_SAID), "little was left after start"),
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
            Clue(3, both(OOM_SAID, symptom("above_graph_size")), "memory runs out above the captured batch size"),
            Clue(1.5, both(OOM_SAID, above("graph_false_share", 0.2)), "steps run without graphs"),
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
            Clue(5, both(symptom("logprobs"), OOM_ANYWHERE), "memory runs out with logprobs asked for"),
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
                    OOM_SAID,
                    lacks(phase("warmup")),
                    lacks(symptom("dies_in_warmup", "gpu0_heavier", "tokenizer_workers")),
                ),
                "memory runs out on images",
            ),
        ),
        against=(
            Clue(4, _mostly_fragments, "enough is held, in pieces"),
            Clue(2, symptom("long_prompts"), "text of great length fails as well"),
            Clue(4, _TEXT_LAYERS, "the stack stands in text layers"),
            Clue(3, phase("load", "pools", "graph_capture", "decode"), "it fails elsewhere"),
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
            Clue(
                3,
                both(symptom("fragmented"), OOM_ANYWHERE),
                "fragmentation is suspected with memory running out",
            ),
            Clue(1.5, both(symptom("creeps"), OOM_SAID), "free memory shrinks over hours"),
        ),
        against=(Clue(3, phase("load"), "it fails while loading"),),
        settle=Question("How much is reserved but unallocated when it fails?", "the text of the error"),
        neighbours=(("version.allocator_stranding", "there a version's own buffers are stranded"),),
        act=_fragments,
    ),
)
