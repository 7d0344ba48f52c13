"""The element type of the KV cache: refused, wrong, slow, or with another backend than asked for."""

from __future__ import annotations

from tools.diagnosis.changes import FRACTION, Forbidden, plan, step, upgrade
from tools.diagnosis.clues import (
    Clue,
    Entry,
    both,
    either,
    flag,
    lacks,
    said,
    symptom,
)
from tools.diagnosis.measured import slower_with, worse_with
from tools.diagnosis.model import Actions, Question
from tools.diagnosis.view import View

_FP8 = either(flag("--kv-cache-dtype", "fp8_e4m3", "fp8_e5m2", "fp8", "fp4_e2m1"), symptom("fp8_kv"), said("fp8_kv"))


def _kv_auto(view: View) -> Actions:
    # A checkpoint that is quantised may declare an FP8 cache itself, which `auto` would follow.
    plain = "bf16" if view.typed("--quantization").startswith(("modelopt", "compressed")) else "auto"
    changes = [
        step(
            view,
            "set",
            "--kv-cache-dtype",
            plain,
            "the path for this element type is wrong on this model, backend or GPU",
        )
    ]
    backend = view.typed("--attention-backend")
    if backend and backend != "flashinfer":
        changes.append(
            step(view, "set", "--attention-backend", "flashinfer", "or keep FP8 on a backend that scales it")
        )
    changes.append(upgrade("later versions corrected several FP8 paths"))
    return plan(
        *changes,
        never=(("lower", FRACTION, "memory is not short"),),
        alternatives=(("fp8_e5m2", "after a test of the output"),),
    )


def _kv_backend(view: View) -> Actions:
    return plan(
        step(
            view,
            "set",
            "--kv-cache-dtype",
            "fp8_e4m3" if "e5m2" in view.typed("--kv-cache-dtype") else "auto",
            "the element type made the server choose another backend",
        ),
        step(
            view, "set", "--attention-backend", "flashinfer", "say which backend, and check that it supports the type"
        ),
        never=(("lower", FRACTION, "memory is not short"), _LESS_CHUNK),
    )


_LESS_CHUNK: Forbidden = ("lower", "--chunked-prefill-size", "the kernel is slow, not the chunk")


def _kv_slow(view: View) -> Actions:
    return plan(
        step(view, "set", "--kv-cache-dtype", "auto", "each step converts the cache; the plain type is faster here"),
        step(view, "set", "--attention-backend", "flashinfer", "or a backend that reads FP8 directly on this GPU"),
        never=(("lower", FRACTION, "memory is not short"), _LESS_CHUNK),
        alternatives=(("upgrade", "later versions have kernels for more GPUs"),),
    )


ENTRIES = (
    Entry(
        "kv.fp8_unsupported_path",
        "The FP8 cache is wrong or refused on this model, backend or GPU.",
        for_=(
            Clue(
                5,
                both(_FP8, either(symptom("garbled_output", "quality_drop"), said("nan"))),
                "the output is wrong with an FP8 cache",
            ),
            Clue(5, said("fp8_refused"), "the type is refused"),
            Clue(5, both(_FP8, said("dtypes_differ")), "the backend takes the cache in the type of the queries only"),
            Clue(
                5,
                both(_FP8, worse_with("kv_dtype"), lacks(symptom("garbled_output"))),
                "measured with both types, the answers are worse with FP8",
            ),
            Clue(2, both(_FP8, symptom("accept_fell")), "drafts are no longer accepted with an FP8 cache"),
            Clue(
                1.5,
                both(said("fp8_without_scales"), symptom("garbled_output", "quality_drop")),
                "the checkpoint has no scales for it, and the output is wrong",
            ),
        ),
        against=(
            Clue(4, said("fp8_fallback"), "the server goes on with another backend"),
            Clue(1, symptom("slow_decode"), "it is slow"),
        ),
        settle=Question("Is the output right with --kv-cache-dtype auto?", "the same prompt with both types"),
        neighbours=(("kv.fp8_slow_path", "there the output is right and slow"),),
        act=_kv_auto,
    ),
    Entry(
        "kv.fp8_backend_fallback",
        "The FP8 type made the server fall back to another attention backend.",
        for_=(
            Clue(5, said("fp8_fallback"), "the server says that it changed the backend"),
            Clue(2, both(_FP8, symptom("backend_changed")), "another backend is in effect than was asked for"),
        ),
        settle=Question("Which backend is in effect?", "server_args: attention_backend; the warning"),
        act=_kv_backend,
    ),
    Entry(
        "kv.fp8_slow_path",
        "The FP8 cache is right but slower than the plain one on this GPU or backend.",
        for_=(
            Clue(
                4,
                both(
                    _FP8,
                    symptom("slow_decode", "throughput_fell", "slower_than_before", "slow_ttft"),
                    lacks(symptom("garbled_output")),
                ),
                "it is slower with an FP8 cache",
            ),
            Clue(
                5,
                both(_FP8, slower_with("kv_dtype"), lacks(symptom("garbled_output"))),
                "measured with both types, FP8 is the slower",
            ),
        ),
        against=(
            Clue(2, said("fp8_fallback"), "the server changed the backend"),
            Clue(
                3,
                both(
                    symptom("requests_wait", "long_prompts", "disk_busy", "host_cache", "draft_on"),
                    lacks(slower_with("kv_dtype")),
                ),
                "another reason is named",
            ),
        ),
        settle=Question("Tokens per second with both types at the same load.", "an A/B of one flag"),
        act=_kv_slow,
    ),
)
