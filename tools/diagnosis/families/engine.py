"""Draft models, KV element types, ranks against each other, and prefill/decode roles."""

from __future__ import annotations

import re
from dataclasses import replace

from tools.diagnosis.changes import FRACTION, Forbidden, lower_fraction, plan, raise_fraction, scale, step, upgrade
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
)
from tools.diagnosis.conditions import DRAFT
from tools.diagnosis.measured import slower_with, stands_in, worse_with
from tools.diagnosis.model import Actions, Proposal, Question
from tools.diagnosis.view import View

_FP8 = either(flag("--kv-cache-dtype", "fp8_e4m3", "fp8_e5m2", "fp8", "fp4_e2m1"), symptom("fp8_kv"), said("fp8_kv"))
_OOM = either(fact("oom_request_gib"), said("cuda_oom"), symptom("gpu_memory_out"))
_WORKERS = setting_above("--tokenizer-worker-num", 2)


def _budget_draft(view: View) -> Actions:
    """Before 0.5.16 drafts are paid from the reserve, since then from the static part (kv_cache_configurator.py)."""
    counted = view.at_least(0, 5, 16)
    if counted:
        changes = [raise_fraction(view, "this version counts the draft inside the static part", 0.1)]
        if (view.value("--max-running-requests") or 0) > 32:
            changes.append(
                scale(
                    view,
                    "--max-running-requests",
                    0.25,
                    "state and draft slots are sized from it; use the real concurrency",
                    unit="requests",
                )
            )
        never: tuple[Forbidden, ...] = (
            ("lower", FRACTION, "the static part must hold the draft as well"),
            ("raise", "--max-running-requests", "more slots take from the same part"),
        )
        return plan(*changes, never=never, alternatives=(("no draft", "where capacity matters more than speed"),))
    return plan(
        lower_fraction(view, "this version sizes the pool first and loads the draft into what is left", 0.1),
        upgrade("from 0.5.16 on the draft is counted when the pool is sized", "0.5.16"),
        never=(
            ("raise", FRACTION, "less would be left for the draft"),
            ("raise", "--max-running-requests", "more slots take from the same rest"),
        ),
        alternatives=(
            ("a smaller draft head", "instead of a full model"),
            ("no draft", "where capacity matters more than speed"),
        ),
    )


def _draft_share(view: View) -> Seen | None:
    target, draft = view.number("weights_gib", ""), view.number("weights_gib", "draft")
    if not target or draft is None or draft < target / 2:
        return None
    return Seen(f"draft {draft:g} GiB, target {target:g} GiB", view.sources("weights_gib"))


def _same_class(view: View) -> Seen | None:
    """The draft loaded as the target's own class: the target's checkpoint was read a second time."""
    target, draft = view.facts.text("model_class", ""), view.facts.text("model_class", "draft")
    if not target or target != draft:
        return None
    return Seen(f"both are {target}", view.sources("model_class"))


def _target_as_draft(view: View) -> bool:
    """No draft checkpoint was named, or the target's own: EAGLE3 has no head inside the target to fall back to."""
    path = view.setting("--speculative-draft-model-path")
    return not path or path == view.typed("--model-path")


def _small_draft(view: View) -> Actions:
    changes: list[Proposal] = []
    if _target_as_draft(view):
        why = "without a path the target's own checkpoint is loaded as its draft; give the head made for this model"
        head = "the draft head made for this model"
        changes.append(step(view, "set", "--speculative-draft-model-path", head, why))
        if view.typed("--speculative-algorithm"):
            changes.append(
                step(view, "remove", "--speculative-algorithm", None, "or serve without speculation until there is one")
            )
    else:
        why = "a built-in head needs no second checkpoint; the path loads the full model again"
        changes.append(step(view, "remove", "--speculative-draft-model-path", None, why))
        changes.append(
            lower_fraction(view, "or leave the whole draft its room", 0.1)
            if not view.at_least(0, 5, 16)
            else raise_fraction(view, "or let the static part hold the whole draft", 0.05)
        )
    return plan(
        *changes,
        never=(("raise", "--max-running-requests", "more slots take from the same memory"),),
        alternatives=(("a draft checkpoint with only its own layers", "where the head is not built in"),),
    )


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


def _fewer_workers(view: View) -> Actions:
    return plan(
        step(view, "set", "--tokenizer-worker-num", 1, "every worker opens its own context on the first GPU"),
        never=(
            ("set", "SGL_DISABLE_TP_MEMORY_INBALANCE_CHECK", "it hides the difference"),
            _CHUNK,
            ("raise", FRACTION, "the first GPU is the one that runs out"),
        ),
        alternatives=(
            ("a lower fraction, to what the first GPU can bear", "wastes the same on all others"),
            ("preprocessing on the CPU", "where workers are needed"),
        ),
    )


_CHUNK: Forbidden = ("lower", "--chunked-prefill-size", "the helpers, not the model, take the memory")


_IN_IMAGE_PROCESSOR = either(
    stands_in("_preprocess", "preprocess", "resize", "rescale_and_normalize", file="image_processing"),
    stands_in("process_mm_data", "process_mm_data_async", "process_and_combine_mm_data"),
)


def _two_processes(view: View) -> Seen | None:
    """Two processes each hold more than 2 GiB of the GPU whose allocation failed."""
    found = [one for one in view.facts.all("gpu_process_mib") if float(one.value) >= 2048]
    if len({one.scope for one in found}) < 2:
        return None
    return Seen(f"{len(found)} processes", (found[-1].source,))


def _helpers_on_gpu(view: View) -> Seen | None:
    """Two or more processes on the first GPU are no schedulers."""
    found = [
        one
        for one in view.facts.all("gpu_process")
        if "scheduler" not in str(one.value).lower() and one.scope.startswith("gpu0")
    ]
    return Seen(f"{len(found)} beside the scheduler", (found[0].source,)) if len(found) >= 2 else None


def _frontend_on_gpu(view: View) -> Seen | None:
    """A process that is no scheduler holds gigabytes on a GPU: the tokenizer, which prepares images."""
    for held in view.facts.all("gpu_process_mib"):
        name = view.facts.text("gpu_process", held.scope)
        if name and "scheduler" not in name and float(held.value) >= 2048 and "sglang" in name:
            return Seen(f"{name}: {float(held.value):,.0f} MiB", (held.source,))
    return None


def _cpu_images(view: View) -> Actions:
    changes: list[Proposal] = []
    workers = view.value("--tokenizer-worker-num")
    if not view.before(0, 5, 19):
        changes.append(
            Proposal(
                "env",
                "set",
                "SGLANG_FORCE_CPU_IMAGE_PREPROCESSING",
                view.env("SGLANG_FORCE_CPU_IMAGE_PREPROCESSING") or None,
                "1",
                "",
                "image work then stays off the first GPU",
            )
        )
    if workers and workers > 1:
        fewer = int(max(1, workers / 4))
        changes.append(
            step(view, "lower", "--tokenizer-worker-num", fewer, "every worker decodes images on the first GPU")
        )
    changes.append(
        step(view, "set", "--disable-fast-image-processor", True, "the plain image processor runs on the CPU")
    )
    return plan(
        *changes,
        never=(
            _CHUNK,
            ("raise", FRACTION, "the first GPU is the one that runs out"),
            ("lower", FRACTION, "image work takes what it is given, on one GPU only"),
        ),
        alternatives=(
            ("--mm-enable-dp-encoder", "spreads the vision tower over all ranks"),
            ("features kept in host memory", "without --keep-mm-feature-on-device"),
        ),
    )


def _no_direct_link(view: View) -> Seen | None:
    found = view.facts.all("gpu_link")
    if not found or any(str(one.value) in ("PIX", "PXB") or str(one.value).startswith("NV") for one in found):
        return None
    return Seen(f"link {found[0].value}", (found[0].source,))


def _nccl(view: View) -> Actions:
    peers = either(symptom("p2p"), _no_direct_link)
    device = symptom("network_device")(view) is not None
    changes = []
    if device or not peers(view):
        changes.append(
            Proposal(
                "env",
                "set",
                "NCCL_IB_DISABLE",
                view.env("NCCL_IB_DISABLE") or None,
                "1",
                "",
                "the network transport chosen does not work here; inside one node none is needed",
            )
        )
    if not device and peers(view):
        changes.append(
            Proposal(
                "env",
                "set",
                "NCCL_P2P_DISABLE",
                view.env("NCCL_P2P_DISABLE") or None,
                "1",
                "",
                "peer access between these GPUs is what fails",
            )
        )
    changes.append(step(view, "set", "--disable-custom-all-reduce", True, "leaves all ranks' sums to NCCL"))
    return plan(
        *changes,
        never=(
            ("lower", FRACTION, "no memory is short"),
            ("raise", "--watchdog-timeout", "it hides the cause"),
            ("set", FRACTION, "no memory is short"),
            *((("set", "NCCL_P2P_DISABLE", "the network, not peer access, is what fails"),) if device else ()),
        ),
        alternatives=(
            ("NCCL_SOCKET_IFNAME, NCCL_IB_HCA", "to name the right interface instead"),
            ("NCCL_DEBUG=INFO", "names the device and transport that fail"),
        ),
    )


def _imbalance(view: View) -> Actions:
    why = "one GPU has less free memory than the others before the load; find who holds it (nvidia-smi)"
    return plan(
        Proposal("host", "set", "other processes on the GPUs", None, "stopped", "", why),
        lower_fraction(view, "or go down to what the fullest GPU can bear", 0.05),
        never=(
            ("raise", FRACTION, "the fullest GPU decides"),
            _CHUNK,
            ("set", "SGL_DISABLE_TP_MEMORY_INBALANCE_CHECK", "the fullest GPU still runs out"),
        ),
        alternatives=(("--base-gpu-id", "start on GPUs that are free"),),
    )


# What the refusal of a transfer calls the setting that differs.
_NAMED = {
    "--tp-size": r"different (?:attention )?tp|tp[ _]sizes?|tensor.parallel",
    "--page-size": r"page[ _]?size",
    "--kv-cache-dtype": r"kv[ _]?cache[ _]?dtype|\bdtype",
}


def _differ(view: View, name: str) -> bool:
    """The message names this setting, or the roles were started with different values and a hang tells no more."""
    messages = [str(one.value) for one in view.facts.all("message", "pd_state_mismatch")]
    if messages:
        return any(re.search(_NAMED[name], text, re.IGNORECASE) for text in messages)
    return len(set(view.all_typed(name))) > 1


def _same_roles(view: View) -> Actions:
    changes = []
    state = any("component" in str(one.value) for one in view.facts.all("message", "pd_state_mismatch"))
    if symptom("draft_on_one_role")(view) or state:
        changes.append(
            replace(
                step(
                    view,
                    "set",
                    "--speculative-algorithm",
                    view.typed("--speculative-algorithm") or "EAGLE",
                    "the same speculative flags on both roles; the draft's layers take part in the transfer",
                ),
                from_=None,
            )
        )
    if _differ(view, "--tp-size") and not changes:
        sizes = sorted({int(size) for size in view.all_typed("--tp-size") if size.isdigit()})
        to = sizes[-1] if sizes else "the same on both roles"
        why = "this transfer does not convert between parallel sizes; both roles take the same one"
        # Two commands with two values: neither is the one in force.
        changes.append(replace(step(view, "set", "--tp-size", to, why), from_=None))
    for name in ("--page-size", "--kv-cache-dtype"):
        if _differ(view, name) and not changes:
            values = view.all_typed(name)
            to_ = values[0] if values else "the same on both roles"
            changes.append(
                replace(step(view, "set", name, to_, "the roles must agree on what is transferred"), from_=None)
            )
    if len(set(view.all_typed("--context-length"))) > 1 or symptom("stragglers")(view) or not changes:
        lengths = [int(value) for value in view.all_typed("--context-length") if value.isdigit()]
        changes.append(
            step(
                view,
                "set",
                "--context-length",
                min(lengths) if lengths else "the same on both roles",
                "what one role admits the other must accept",
            )
        )
    return plan(
        *changes,
        never=(("raise", "--watchdog-timeout", "it hides the mismatch"), ("raise", FRACTION, "no memory is short")),
        alternatives=(
            ("one file of common flags for both roles", "page size, KV type and parallel sizes must agree as well"),
        ),
    )


ENTRIES = (
    Entry(
        "spec.draft_memory_not_budgeted",
        "The draft model's weights and cache find no room; which way to move the fraction depends on the version.",
        for_=(
            Clue(5, phase("draft"), "memory runs out while the draft is loaded"),
            Clue(
                4,
                both(
                    DRAFT,
                    symptom("only_with_draft"),
                    either(_OOM, symptom("no_cache_room", "dies_at_start"), said("weights_leave_no_room")),
                ),
                "it starts without the draft and not with it",
            ),
            Clue(2, both(DRAFT, symptom("no_cache_room")), "no room for the cache with a draft"),
            Clue(2, both(phase("draft"), fact("graph_end_gib", "target")), "the target's graphs were captured already"),
        ),
        against=(
            Clue(2, phase("prefill", "graph_capture"), "it fails elsewhere"),
            Clue(3, symptom("draft_full_size"), "the draft is a whole model"),
        ),
        neighbours=(
            ("oom.startup.weights_exceed_static_budget", "there the target alone does not fit"),
            ("spec.draft_loads_full_model", "there the draft is far larger than it should be"),
        ),
        settle=Question(
            "Does it start without the draft, and how much does the draft take?", "the second Load weight end line"
        ),
        act=_budget_draft,
        questions=("draft",),
    ),
    Entry(
        "spec.draft_loads_full_model",
        "The draft takes as much as the target: a whole model was loaded where a head was meant.",
        for_=(
            Clue(4, both(DRAFT, symptom("draft_full_size")), "the draft is as large as the target"),
            Clue(4, _draft_share, "the draft's weights come near the target's"),
            Clue(3, _same_class, "the draft is an instance of the target's class"),
            Clue(2, said("draft_class_wrong"), "what was loaded as a draft has no draft's methods"),
        ),
        against=(Clue(3, phase("draft"), "memory runs out while the draft is loaded"),),
        settle=Question("How much do the two weight loads take?", "both Load weight end lines: mem usage"),
        act=_small_draft,
    ),
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
            Clue(
                5,
                both(_FP8, worse_with("kv_dtype"), lacks(symptom("garbled_output"))),
                "measured with both types, the answers are worse with FP8",
            ),
            Clue(2, both(_FP8, symptom("accept_fell")), "drafts are no longer accepted with an FP8 cache"),
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
    Entry(
        "parallel.gpu0_helper_process_overhead",
        "Helper processes each hold a context on the first GPU.",
        for_=(
            Clue(
                5,
                both(
                    symptom("gpu0_heavier"), either(symptom("gpu0_processes"), _WORKERS), lacks(symptom("image_work"))
                ),
                "the first GPU carries more, with several helpers",
            ),
            Clue(2, both(_WORKERS, symptom("gpu0_processes")), "helpers are listed on the first GPU"),
            Clue(1.5, above("gpu0_extra_mib", 1024), "the first GPU is fuller"),
            Clue(4, both(_helpers_on_gpu, _WORKERS), "tokenizer workers hold memory on a GPU"),
        ),
        against=(
            Clue(3, both(symptom("images"), lacks(_WORKERS)), "the model takes images, and there is one tokenizer"),
            Clue(2, both(symptom("image_work"), lacks(symptom("gpu0_processes"))), "image work is what runs there"),
        ),
        settle=Question("Which processes does nvidia-smi list on the first GPU?", "nvidia-smi --query-compute-apps"),
        act=_fewer_workers,
    ),
    Entry(
        "parallel.gpu0_multimodal_preprocessing",
        "Image decoding and preprocessing of all requests runs on the first GPU.",
        for_=(
            Clue(
                5,
                both(
                    symptom("gpu0_heavier"),
                    symptom("images", "image_work"),
                    lacks(both(_WORKERS, lacks(symptom("image_work")))),
                ),
                "the first GPU carries image work",
            ),
            Clue(2, both(_WORKERS, symptom("image_work")), "several workers do image work"),
            Clue(
                4,
                both(above("gpu0_extra_mib", 1024), symptom("images", "image_work"), lacks(_WORKERS)),
                "the first GPU holds more than the others, and images are served",
            ),
            Clue(
                7,
                both(_IN_IMAGE_PROCESSOR, said("cuda_oom"), lacks(_WORKERS)),
                "memory ran out in the image processor, which runs beside the model on the first GPU",
            ),
            Clue(
                3,
                both(_IN_IMAGE_PROCESSOR, _two_processes),
                "a second process holds gigabytes of that GPU",
            ),
            Clue(
                3,
                both(_frontend_on_gpu, symptom("images", "image_work")),
                "the process that takes requests in holds GPU memory",
            ),
        ),
        settle=Question("Which process on the first GPU grows with images?", "nvidia-smi while images are sent"),
        act=_cpu_images,
    ),
    Entry(
        "parallel.nccl_transport",
        "The transport that NCCL chose between ranks does not work on this node.",
        for_=(
            Clue(5, both(said("nccl_error"), lacks(said("nccl_shm", "shm_full"))), "NCCL reports an error"),
            Clue(2, symptom("network_device"), "a network device is named"),
            Clue(1.5, both(symptom("hangs"), symptom("p2p", "network_device")), "it hangs between ranks"),
            Clue(
                3,
                both(
                    said("nccl_init"),
                    symptom("hangs"),
                    setting_above("--tp-size", 2),
                    lacks(either(fact("weights_before_gib"), fact("weights_after_gib"), fact("kv_pool"))),
                ),
                "ranks stop between the start of NCCL and the weights",
            ),
            Clue(
                2,
                both(_no_direct_link, either(symptom("hangs"), said("nccl_timeout", "watchdog"))),
                "the GPUs reach each other over the host bridge only",
            ),
        ),
        against=(Clue(4, said("nccl_shm", "shm_full"), "shared memory is what failed"),),
        settle=Question("Which device and transport does NCCL_DEBUG=INFO name?", "the log with NCCL_DEBUG=INFO"),
        act=_nccl,
    ),
    Entry(
        "parallel.tp_memory_imbalance",
        "One GPU has less free memory than the others before the model is loaded.",
        for_=(
            Clue(6, said("memory_unbalanced"), "the server says that memory is unbalanced"),
            Clue(
                2,
                both(symptom("gpu0_heavier"), lacks(_WORKERS), lacks(symptom("images", "image_work", "host_cache"))),
                "one GPU carries more",
            ),
        ),
        settle=Question("What is on each GPU before the start?", "nvidia-smi"),
        act=_imbalance,
    ),
    Entry(
        "pd.role_config_mismatch",
        "The prefill and decode roles run with settings that must agree and do not.",
        for_=(
            Clue(6, said("pd_state_mismatch"), "the roles disagree about what is transferred"),
            Clue(
                3,
                both(
                    flag("--disaggregation-mode"), symptom("hangs", "stragglers", "roles_differ", "draft_on_one_role")
                ),
                "requests hang between the roles",
            ),
            Clue(
                2,
                both(symptom("disaggregated"), symptom("hangs", "stragglers", "roles_differ", "draft_on_one_role")),
                "requests hang between the roles",
            ),
        ),
        against=(Clue(3, said("last_request", "cuda_oom"), "one role ran out of room"),),
        settle=Question(
            "Which of context length, page size, KV type, parallel sizes and speculative flags differ?",
            "server_args of both roles",
        ),
        act=_same_roles,
    ),
)
