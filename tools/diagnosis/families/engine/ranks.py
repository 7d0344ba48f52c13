"""Ranks against each other: helpers on the first GPU, uneven memory, the transport between them."""

from __future__ import annotations

from tools.diagnosis.changes import FRACTION, Forbidden, plan, step
from tools.diagnosis.clues import (
    Clue,
    Entry,
    Seen,
    both,
    either,
    fact,
    lacks,
    phase,
    said,
    setting_above,
    symptom,
)
from tools.diagnosis.measured import stands_in
from tools.diagnosis.model import Actions, Proposal, Question
from tools.diagnosis.view import View

_WORKERS = setting_above("--tokenizer-worker-num", 2)


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
    """Two or more processes beside the scheduler on one GPU, where the other GPUs have fewer."""
    devices: dict[str, dict[str, float]] = {}
    for one in (*view.facts.all("gpu_process"), *view.facts.all("gpu_process_mib")):
        held = float(one.value) if one.name == "gpu_process_mib" else 0.0
        processes = devices.setdefault(one.scope.rpartition(":")[0], {})
        processes[one.scope] = max(held, processes.get(one.scope, 0.0))
    if not devices:
        return None
    helpers = {device: _beside_the_largest(view, processes) for device, processes in devices.items()}
    device = max(helpers, key=lambda name: len(helpers[name]))
    others = max((len(found) for name, found in helpers.items() if name != device), default=0)
    if len(helpers[device]) < 2 or len(helpers[device]) <= 2 * others:
        return None
    source = view.sources("gpu_process_mib") or view.sources("gpu_process")
    return Seen(f"{len(helpers[device])} beside the scheduler", source)


def _beside_the_largest(view: View, processes: dict[str, float]) -> list[str]:
    """Processes of one GPU that are no scheduler by name, or by holding less than half of the largest."""
    most = max(processes.values())
    return [
        scope
        for scope, held in processes.items()
        if "scheduler" not in view.facts.text("gpu_process", scope).lower() and (not most or held < most / 2)
    ]


def _first_gpu_fuller(view: View) -> Seen | None:
    """The first GPU holds at least 1 GiB more than the fullest of the others."""
    told = view.number("gpu0_extra_mib")
    if told is not None and told >= 1024:
        return Seen(f"{told:,.0f} MiB more", view.sources("gpu0_extra_mib"))
    used = {one.scope: float(one.value) for one in view.facts.all("gpu_used_mib")}
    rest = [value for scope, value in used.items() if scope != "gpu0"]
    if "gpu0" not in used or not rest or used["gpu0"] < max(rest) + 1024:
        return None
    return Seen(f"{used['gpu0'] - max(rest):,.0f} MiB more", view.sources("gpu_used_mib"))


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


several_nodes = either(said("nccl_local_interface"), setting_above("--nnodes", 2))


def _other_interface(view: View) -> Actions:
    """Nodes meet over the interface that NCCL and Gloo take, the first one by default: name the right one."""
    to, why = "the interface of the address in --dist-init-addr", "ranks of other nodes are reached over it"
    return plan(
        *(
            Proposal("env", "set", name, view.env(name) or None, to, "", f"{why}, on every node")
            for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
        ),
        never=(
            ("raise", "--watchdog-timeout", "it hides the cause"),
            ("raise", "--dist-timeout", "nodes that cannot reach each other never will"),
            ("set", FRACTION, "no memory is short"),
        ),
        alternatives=(
            ("NCCL_IB_HCA", "where an InfiniBand device should carry it"),
            ("NCCL_DEBUG=INFO", "names the interface and device that are taken"),
        ),
    )


def _nccl(view: View) -> Actions:
    peers = either(symptom("p2p"), _no_direct_link)
    device = symptom("network_device")(view) is not None
    if several_nodes(view) and not device:
        return _other_interface(view)
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
    """Never the fraction: it is a share of what each GPU has free, and the refusal comes before it is used."""
    if _other_stage_has_room(view):
        every = "every stage has the same fraction, and it fails before that is used"
        return plan(_even_stages(view), never=(("lower", FRACTION, every), ("raise", FRACTION, every)))
    never: tuple[Forbidden, ...] = (
        ("lower", FRACTION, "the start is refused by what is free before the load, whatever the fraction"),
        ("raise", FRACTION, "the fullest GPU decides"),
        _CHUNK,
    )
    if _cards_differ(view):
        why = "the cards differ by build, so no process can be moved; the pool then follows the smaller card"
        alternatives = (("cards of one size", "then nothing of the larger is idle"),)
        return plan(_unchecked(view, why), never=never, alternatives=alternatives)
    why = "one GPU has less free memory than the others before the load; find who holds it (nvidia-smi)"
    others = Proposal("host", "set", "other processes on the GPUs", None, "stopped", "", why)
    if _all_taken(view):
        stays = "or, where they must stay (a desktop), start without the check; the pool then follows the fullest GPU"
        return plan(others, _unchecked(view, stays), never=never)
    elsewhere = Proposal(
        "env",
        "set",
        "CUDA_VISIBLE_DEVICES",
        view.env("CUDA_VISIBLE_DEVICES") or None,
        "the GPUs that nothing else uses",
        "",
        "or start on other GPUs, where the host has more than the server takes",
    )
    return plan(
        others,
        elsewhere,
        never=(*never, ("set", "SGL_DISABLE_TP_MEMORY_INBALANCE_CHECK", "the fullest GPU still runs out")),
        alternatives=(("--base-gpu-id", "skips the first GPUs, where they are the ones in use"),),
    )


def _other_stage_has_room(view: View) -> Seen | None:
    """Of a pipeline's stages one ran out of memory in its load, and another has loaded with room to spare."""
    spare = view.number("weights_after_gib")
    if (view.value("--pp-size") or 1) < 2 or spare is None or spare < 4 or phase("load")(view) is None:
        return None
    return Seen(f"another stage has {spare:g} GiB left", view.sources("weights_after_gib", "oom_phase"))


def _even_stages(view: View) -> Proposal:
    name = "SGLANG_PP_LAYER_PARTITION"  # sglang 0.5.1 srt/distributed/utils.py
    why = "equal parts are cut and one stage gets the rest; say how many layers each has, fewer on this one"
    return Proposal("env", "set", name, view.env(name) or None, "layers of each stage, as 12,12,11,11", "", why)


def _unchecked(view: View, why: str) -> Proposal:
    """Every rank takes the smallest pool of all ranks, so the check guards nothing that the sizing does not."""
    if view.before(0, 5, 7):
        return Proposal("env", "set", "SGL_DISABLE_TP_MEMORY_INBALANCE_CHECK", None, "1", "", why)
    # sglang 0.5.7 srt/environ.py turned the switch round
    return Proposal("env", "set", "SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK", None, "0", "", why)


def _all_taken(view: View) -> bool:
    """The server takes as many GPUs as the host is seen or said to have."""
    cards = view.number("gpu_count")
    return cards is not None and cards <= (view.value("--tp-size") or 1) * (view.value("--pp-size") or 1)


def _cards_differ(view: View) -> Seen | None:
    """GPUs of two sizes were seen."""
    sizes = [one for one in view.facts.all("gpu_memory_mib") if float(one.value) > 0]
    if not sizes or max(float(one.value) for one in sizes) < 1.1 * min(float(one.value) for one in sizes):
        return None
    return Seen("cards of different sizes", (sizes[0].source,))


ENTRIES = (
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
            Clue(1.5, _first_gpu_fuller, "the first GPU is fuller"),
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
                both(_first_gpu_fuller, symptom("images", "image_work"), lacks(_WORKERS)),
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
                both(
                    stands_in("all_reduce", "all_gather", "broadcast", "send", "recv", file="pynccl"),
                    either(symptom("hangs"), said("nccl_timeout", "watchdog")),
                ),
                "it stands in a collective of NCCL",
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
        "One GPU has less memory to spare than the others: for what else is on it, or for its share of the model.",
        for_=(
            Clue(6, said("memory_unbalanced"), "the server says that memory is unbalanced"),
            Clue(6, _other_stage_has_room, "one stage of the pipeline runs out, another has room"),
            Clue(
                2,
                both(symptom("gpu0_heavier"), lacks(_WORKERS), lacks(symptom("images", "image_work", "host_cache"))),
                "one GPU carries more",
            ),
        ),
        settle=Question("What is on each GPU before the start?", "nvidia-smi"),
        act=_imbalance,
    ),
)
