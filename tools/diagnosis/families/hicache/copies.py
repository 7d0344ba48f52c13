"""Layouts, trees and copies of the host tier that a model, backend or page size does not go with."""

from __future__ import annotations

from tools.diagnosis.changes import lower_fraction, plan, step, upgrade
from tools.diagnosis.clues import (
    Clue,
    Entry,
    both,
    either,
    flag,
    lacks,
    phase,
    said,
    setting_above,
    symptom,
)
from tools.diagnosis.conditions import KILLED
from tools.diagnosis.families.hicache.tier import KEEP_FRACTION, ON, PAGE_ONE
from tools.diagnosis.model import Actions, Question
from tools.diagnosis.view import View


def _direct_io(view: View) -> Actions:
    return plan(
        step(view, "set", "--hicache-io-backend", "direct", "copies that do not depend on the attention kernels"),
        step(
            view,
            "set",
            "--decode-attention-backend",
            "flashinfer",
            "or keep the copy kernel and move decode off the backend it conflicts with",
        ),
        never=(
            KEEP_FRACTION,
            ("lower", "--hicache-ratio", "the size of the host pool plays no part"),
            ("set", "--disable-cuda-graph", "graphs play no part"),
        ),
        alternatives=(("upgrade", "later versions resolve the pair at start"),),
    )


def _pages(view: View) -> Actions:
    return plan(
        step(
            view,
            "raise",
            "--page-size",
            64,
            "larger pages are copied directly, without staging buffers on the GPU",
            unit="tokens",
        ),
        lower_fraction(view, "copies need some GPU memory outside the static part"),
        never=(
            ("lower", "--hicache-ratio", "it is GPU memory that runs out"),
            ("raise", "--mem-fraction-static", "less would be left for the copies"),
        ),
        alternatives=(("upgrade", "the transfer path was rewritten"),),
    )


def _ratio_not_size(view: View) -> Actions:
    return plan(
        step(view, "remove", "--hicache-size", None, "this model's pool takes a ratio only"),
        step(
            view,
            "set",
            "--hicache-ratio",
            2.0,
            "the smallest useful host pool; work out ranks x pool x ratio before raising it",
            unit="x GPU pool",
        ),
        never=(KEEP_FRACTION,),
    )


def _unified_tree(view: View) -> Actions:
    return plan(
        step(
            view, "set", "SGLANG_ENABLE_UNIFIED_RADIX_TREE", "1", "this model's pools need the unified tree", kind="env"
        ),
        upgrade("later versions use the unified tree for every model"),
        never=(
            KEEP_FRACTION,
            ("raise", "--hicache-ratio", "the size plays no part"),
            ("lower", "--hicache-ratio", "the size plays no part"),
        ),
        alternatives=(("without a host tier", "on this version"),),
    )


def _layout(view: View) -> Actions:
    return plan(
        step(view, "set", "--hicache-mem-layout", "page_first", "the layout that this pool and backend support"),
        step(view, "set", "--hicache-io-backend", "kernel", "the copies that go with it"),
        never=(
            ("raise", "--hicache-ratio", "the size plays no part"),
            ("set", "--hicache-mem-layout=layer_first", "it is what is refused"),
            KEEP_FRACTION,
        ),
        alternatives=(("without a host tier", "where the platform has no such kernels"),),
    )


ENTRIES = (
    Entry(
        "hicache.unsupported_sizing_flag",
        "The model's pool does not take the sizing flag that was given.",
        for_=(
            Clue(6, said("hicache_size_unsupported"), "the server names the flag and its substitute"),
            Clue(2, both(flag("--hicache-size"), said("flag_unsupported_for_model")), "a sizing flag is refused"),
        ),
        act=_ratio_not_size,
    ),
    Entry(
        "hicache.layout_not_supported_for_model",
        "The host layout is not supported for this model or backend.",
        for_=(
            Clue(6, said("hicache_layout_refused"), "the layout is refused"),
            Clue(3, both(ON, symptom("layout_refused")), "the layout is said to be refused"),
        ),
        neighbours=(("hicache.model_needs_unified_tree", "there the tree, not the layout, does not know the pool"),),
        settle=Question(
            "Which layout and I/O backend does the message name?",
            "the error line; --hicache-mem-layout, --hicache-io-backend",
        ),
        act=_layout,
    ),
    Entry(
        "hicache.model_needs_unified_tree",
        "The classic host tree knows only plain pools; this model's pools need the unified tree.",
        for_=(
            Clue(6, said("hicache_needs_unified_tree"), "the tree refuses this model's pool"),
            Clue(2, both(ON, symptom("tree_refused")), "the tree is said to refuse the model"),
        ),
        act=_unified_tree,
    ),
    Entry(
        "hicache.io_backend_attention_conflict",
        "The copy kernel and the attention backend do not go together; memory is overwritten.",
        for_=(
            Clue(
                5,
                both(
                    ON,
                    said("illegal_access"),
                    either(
                        flag("--hicache-io-backend", "kernel"),
                        symptom("fa3_backend"),
                        flag("--attention-backend", "fa3"),
                        lacks(flag("--hicache-io-backend")),
                    ),
                ),
                "illegal access with the host cache on",
            ),
            Clue(
                2,
                both(ON, symptom("fa3_backend"), lacks(flag("--hicache-io-backend", "direct"))),
                "FA3 with the copy kernel",
            ),
            Clue(2, both(ON, symptom("garbled_output")), "wrong output with the host cache on"),
            Clue(2, said("hicache_io_switched"), "the server switched the copies itself"),
        ),
        settle=Question(
            "Which decode attention backend and copy backend were in effect?",
            "server_args: decode_attention_backend, hicache_io_backend",
        ),
        act=_direct_io,
    ),
    Entry(
        "hicache.transfer_buffers_on_gpu",
        "With page size 1 the copies between host and GPU go through extra GPU buffers.",
        for_=(
            Clue(
                5,
                both(
                    ON,
                    either(phase("pools", "warmup", "prefill", "decode", "unknown"), said("cuda_oom")),
                    symptom("only_with_host_cache"),
                ),
                "GPU memory runs out only with the host cache on",
            ),
            Clue(
                3,
                both(ON, either(phase("pools", "warmup", "prefill", "decode", "unknown"), said("cuda_oom")), PAGE_ONE),
                "GPU memory runs out with the host cache on and page size 1",
            ),
        ),
        against=(
            Clue(2, KILLED, "a process was killed, the GPU was not full"),
            Clue(2, setting_above("--page-size", 16), "pages are large"),
        ),
        settle=Question(
            "Does the same fraction hold without the host cache?", "one start without --enable-hierarchical-cache"
        ),
        act=_pages,
    ),
)
