"""The host: its memory, limits, folders and what is built on it."""

from __future__ import annotations

import re

from tools.diagnosis.changes import FRACTION, NOT_MEMORY, Forbidden, plan, scale
from tools.diagnosis.clues import (
    Clue,
    Entry,
    Seen,
    above,
    below,
    both,
    either,
    fact,
    lacks,
    said,
    setting_above,
    symptom,
)
from tools.diagnosis.conditions import HICACHE, KILLED
from tools.diagnosis.families.hicache.smaller import less_host
from tools.diagnosis.host_memory import limit_binds, little_of_the_host, others_die, ranks_with_pools
from tools.diagnosis.measured import rose, stands_in, steady
from tools.diagnosis.model import Actions, Proposal, Question
from tools.diagnosis.view import View


def _host(
    flag_: str, to: str, why: str, *alternatives: tuple[str, str], never: tuple[Forbidden, ...] = NOT_MEMORY
) -> Actions:
    return plan(Proposal("host", "set", flag_, None, to, "", why), never=never, alternatives=alternatives)


_SHM = "/dev/shm"  # noqa: S108  (a mount point that is looked at)


def _shm(_view: View) -> Actions:
    return plan(
        Proposal(
            "container",
            "set",
            "--shm-size",
            None,
            "32g",
            "",
            "ranks exchange data through /dev/shm; a container gets 64 MB of it by default",
        ),
        never=(*NOT_MEMORY, ("set", "NCCL_P2P_DISABLE", "it is shared memory that is missing")),
        alternatives=(
            ("--ipc host", "the container then uses the host's own /dev/shm"),
            ("in Kubernetes an emptyDir with medium Memory at /dev/shm", "the same there"),
            ("NCCL_SHM_DISABLE=1", "works and is slow"),
        ),
    )


def _limit(view: View) -> Actions:
    smaller = [less_host(view, "or make it fit the container's limit")] if view.hierarchical else []
    why = "the container's own limit is what kills it (resources.limits.memory of a pod)"
    limit = view.number("cgroup_limit_bytes")
    now = f"{limit / (1 << 30):.0f}g" if limit else None
    room = f"{'more than ' + now + ': ' if now else ''}what all ranks take with a tenth to spare"
    each, ranks = view.value("--hicache-size") or view.number("host_pool_gb"), ranks_with_pools(view)
    if view.hierarchical and each:
        why = f"{why}; {ranks:g} x {each:g} GB of host pools = {ranks * each:.0f} GB, beside what the server takes"
        room = f"more than {ranks * each * 1.1:.0f}g"
    return plan(
        Proposal("container", "raise", "--memory", now, room, "", why),
        *smaller,
        never=NOT_MEMORY,
        alternatives=(("a smaller host pool", "when the limit must stay"),),
    )


def _less_ram(view: View) -> Actions:
    changes: list[Proposal] = []
    if view.hierarchical:
        changes.append(less_host(view, "leave the host its reserve"))
    if view.value("--cpu-offload-gb"):
        changes.append(
            scale(view, "--cpu-offload-gb", 0.5, "it is per rank; all ranks together must fit", least=0, unit="GB")
        )
    changes.append(
        Proposal(
            "host",
            "set",
            "memory of the host",
            None,
            "free before the start",
            "",
            "processes and page cache leave too little for the loader and pinned buffers",
        )
    )
    return plan(
        *changes,
        never=NOT_MEMORY[1:],
        alternatives=(
            ("fewer loader threads", "lowers the peak while loading"),
            ("swap off", "so that a shortage shows at once"),
        ),
    )


def _nofile(_view: View) -> Actions:
    return _host(
        "nofile",
        "1048576",
        "each connection and worker needs open files; raise ulimit -n, LimitNOFILE or the container's ulimit",
        ("fewer workers", "needs fewer files"),
    )


# A word of the path that was denied, and the variable that moves that cache.
_CACHES = (
    ("flashinfer", "FLASHINFER_WORKSPACE_BASE"),
    ("deep_gemm", "SGLANG_DG_CACHE_DIR"),
    ("inductor", "TORCHINDUCTOR_CACHE_DIR"),
    ("torch_extensions", "TORCH_EXTENSIONS_DIR"),
    ("huggingface", "HF_HOME"),
    ("tvm", "TVM_FFI_CACHE_DIR"),
    ("triton", "TRITON_CACHE_DIR"),
)


_MODEL_FILE = re.compile(r"/(?:config|tokenizer\w*)\.json$|\.safetensors$|\.safetensors\.index\.json$|\.gguf$")


def _model_denied(view: View) -> Seen | None:
    """What may not be read is of the model, which is no cache."""
    denied, model = view.facts.get("denied_path"), view.setting("--model-path")
    if denied is None:
        return None
    path = str(denied.value)
    if not (model and path.startswith(model.rstrip("/"))) and not _MODEL_FILE.search(path):
        return None
    return Seen(str(denied.value), (denied.source,))


def _cache_dir(view: View) -> Actions:
    path = view.facts.text("denied_path")
    named = next((name for word, name in _CACHES if word in path), "TRITON_CACHE_DIR")
    target = "a folder that the server may write"
    return plan(
        Proposal("env", "set", named, view.env(named) or None, target, "", "compiled kernels are kept there"),
        Proposal("env", "set", "HOME", None, target, "", "several caches live below it"),
        never=(*NOT_MEMORY, ("raise", "--watchdog-timeout", "it hides the dead process")),
        alternatives=(("a volume mounted at that path, owned by the server's user", "keeps the cache over restarts"),),
    )


def _build(_view: View) -> Actions:
    return _host(
        "build dependency",
        "installed in the runtime image",
        (
            "an extension is compiled at first use and its headers or "
            "compiler are missing: the package named by the error (for instance libssl-dev, gcc, ninja)"
        ),
        ("the official image", "has them"),
    )


def _huge(_view: View) -> Actions:
    return _host(
        "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
        "advise",
        "pinning by small pages takes long; huge pages make it minutes",
        ("drop the page cache before pinning", "so that huge pages can be found"),
    )


def _pinned_unified(view: View) -> Actions:
    return plan(
        Proposal(
            "env",
            "set",
            "NCCL_CUMEM_HOST_ENABLE",
            None,
            "0",
            "",
            "host buffers come out of the memory that GPU and CPU share",
        ),
        Proposal(
            "env",
            "lower",
            "NCCL_BUFFSIZE",
            view.env("NCCL_BUFFSIZE") or None,
            1048576,
            "bytes",
            "smaller buffers per channel",
        ),
        never=(("raise", FRACTION, "the host needs the same memory"),),
        alternatives=(("fewer NCCL channels", "each holds its own buffers"),),
    )


ENTRIES = (
    Entry(
        "host.shm_too_small",
        "Shared memory (/dev/shm) is too small for the ranks.",
        for_=(
            Clue(6, said("nccl_shm", "shm_full"), "a segment in /dev/shm could not be made"),
            Clue(2, symptom("shm"), "shared memory is named"),
            Clue(4, both(above("disk_used_share", 0.95, _SHM), lacks(said("nccl_shm", "shm_full"))), "it is full"),
        ),
        settle=Question("How large is /dev/shm?", "df -h /dev/shm"),
        act=_shm,
    ),
    Entry(
        "host.container_memory_limit",
        "The container's memory limit kills a process while the host has room.",
        for_=(
            Clue(
                5,
                both(
                    either(fact("cgroup_limit_bytes"), said("cgroup_kill"), symptom("container_limit")),
                    either(KILLED, said("cgroup_kill")),
                ),
                "killed inside a memory limit",
            ),
            Clue(2, said("cgroup_kill"), "the kernel names the container's limit"),
            Clue(1.5, symptom("container_limit"), "a limit is named"),
            Clue(4, limit_binds, "what was asked for passes the container's limit and not the host's memory"),
            Clue(3, above("cgroup_limit_hits", 1), "the cgroup reached its limit"),
        ),
        against=(
            Clue(2, symptom("unified_memory"), "memory is shared with the GPU"),
            Clue(4, said("node_oom"), "the whole node ran out, not the container"),
            Clue(
                6,
                either(both(rose("rss_gib", 1.5), steady("rss_gib")), symptom("host_memory_grows")),
                "memory grows with time; the limit only ends it",
            ),
            Clue(3, both(below("cgroup_limit_hits", 0), fact("cgroup_limit_hits")), "the limit was never reached"),
        ),
        neighbours=(
            ("host.ram_oversubscribed", "there the kernel says CONSTRAINT_NONE and other programs die as well"),
            ("hicache.host_ram_oversubscribed", "there the host itself has less than the pools take"),
        ),
        settle=Question("What are memory.max and memory.peak of the container?", "cgroup files; kubectl describe pod"),
        act=_limit,
    ),
    Entry(
        "host.ram_oversubscribed",
        "The host itself runs out of memory while loading or serving.",
        for_=(
            Clue(
                2,
                both(said("killed"), lacks(HICACHE), lacks(said("cuda_oom", "piecewise_failed"))),
                "a process was killed from outside",
            ),
            Clue(
                4,
                both(
                    either(said("kernel_oom"), fact("kernel_oom_kill"), symptom("host_memory_short")),
                    lacks(HICACHE),
                    lacks(symptom("host_cache", "container_limit", "host_memory_grows")),
                    lacks(fact("cgroup_limit_bytes")),
                ),
                "a process was killed for host memory",
            ),
            Clue(2, both(symptom("host_memory_short"), lacks(HICACHE)), "host memory is short"),
            Clue(4, both(said("node_oom"), lacks(HICACHE)), "the node, not one container, ran out"),
            Clue(4, others_die, "programs beside the server were killed for memory"),
            Clue(3, little_of_the_host, "the server holds the smaller part of what the host has"),
            Clue(1.5, setting_above("--cpu-offload-gb", 1), "weights are kept in host memory, per rank"),
        ),
        against=(
            Clue(2, either(symptom("host_memory_grows")), "it grows with time"),
            Clue(3, said("piecewise_failed"), "graphs fail first"),
        ),
        settle=Question("What does the kernel log say, and what was free before?", "journalctl -k; free -b"),
        act=_less_ram,
    ),
    Entry(
        "host.nofile_limit",
        "The limit on open files is reached.",
        for_=(
            Clue(6, said("too_many_files"), "too many open files"),
            Clue(2, symptom("nofile"), "open files are named"),
        ),
        act=_nofile,
        settle=Question("What is the limit of the running process?", "/proc/PID/limits"),
    ),
    Entry(
        "host.cache_dir_permissions",
        "A folder for compiled kernels or caches cannot be written.",
        for_=(
            Clue(6, both(said("cache_dir_denied"), lacks(_model_denied)), "a cache folder cannot be written"),
            Clue(
                3,
                both(said("permission_denied"), lacks(said("nccl_error")), lacks(_model_denied)),
                "permission denied",
            ),
            Clue(2, symptom("read_only"), "a read-only file system"),
        ),
        act=_cache_dir,
        settle=Question("Which path, and who may write it?", "the error line; the container's user"),
    ),
    Entry(
        "host.missing_build_dependency",
        "Something is compiled at first use and the tools or headers for it are missing.",
        for_=(
            Clue(6, said("build_failed"), "an extension could not be built"),
            Clue(2, symptom("build_missing"), "a compiler or header is missing"),
            Clue(
                1,
                stands_in(
                    "run_ninja",
                    "_run_ninja_build",
                    "build_and_load",
                    "load_inline",
                    "_write_ninja_file_and_build_library",
                ),
                "it failed where an extension is built",
            ),
        ),
        act=_build,
        settle=Question("What does the compiler say?", "the lines above the error"),
    ),
    Entry(
        "host.huge_pages_off",
        "Host memory is pinned page by page, which takes very long.",
        for_=(
            Clue(
                4,
                both(symptom("pinning_slow"), either(said("huge_pages_off"), symptom("huge_pages"))),
                "pinning takes long and huge pages are off",
            ),
            Clue(2, either(said("huge_pages_off"), symptom("huge_pages")), "huge pages are off"),
            Clue(1, symptom("pinning_slow"), "pinning takes long"),
            Clue(3, said("huge_pages_warned"), "the server warns of it"),
            Clue(
                1.5,
                both(said("huge_pages_off"), symptom("slower_than_before", "long_start")),
                "the start is slow where they are off",
            ),
        ),
        act=_huge,
        settle=Question(
            "What is shmem_enabled, and how long does pinning take?",
            "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
        ),
    ),
    Entry(
        "host.pinned_buffers_on_unified_memory",
        "On memory shared by CPU and GPU, pinned communication buffers take gigabytes.",
        for_=(
            Clue(5, both(symptom("unified_memory"), symptom("pinned_buffers")), "pinned buffers on shared memory"),
            Clue(2, both(symptom("pinned_buffers"), lacks(HICACHE)), "pinned buffers are named"),
        ),
        act=_pinned_unified,
        settle=Question("How much does NCCL pin?", "Unevictable and Mlocked in /proc/meminfo before and after init"),
    ),
)
