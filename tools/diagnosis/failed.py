"""What a failure line means outside SGLang's settings, and what to do first, where no cause of the taxonomy is decided.

The kinds are those of the incident parser; the order here is the order of blame: what the machine did comes before
what the server made of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tools.other_engines import OTHER_ENGINE, log_of_another
from transcripts.facts import Facts

_MEANT: Final[dict[str, tuple[str, str]]] = {
    OTHER_ENGINE: (
        "this is the log of another engine and not SGLang's, so that nothing known of SGLang applies to it",
        (
            "give the log of the SGLang server; `sglscout check` of the other engine's options behind "
            "`python3 -m sglang.launch_server` names SGLang's"
        ),
    ),
    "gpu_error": (
        "the driver reports an error of a GPU; no setting of SGLang causes or mends that",
        (
            "`journalctl -k -n 1000 --no-pager | grep Xid` names the card; drain it, reset or reboot, and have it "
            "replaced where it comes back"
        ),
    ),
    "gpu_slowed": (
        "the driver slows a GPU down for its heat or its power; no setting of SGLang mends that",
        (
            "`nvidia-smi --query-gpu=index,temperature.gpu,power.draw,clocks.sm --format=csv` names the card; look at "
            "its fans, airflow and power supply"
        ),
    ),
    "fabric_not_ready": (
        "the GPUs wait for the fabric manager",
        "systemctl status nvidia-fabricmanager; start it in the version of the driver",
    ),
    "killed": (
        "the kernel or the container's limit ended the process for host memory",
        (
            "`journalctl -k -n 1000 --no-pager | grep -i -A3 oom` says whose limit; free -g and memory.max say how "
            "much there is"
        ),
    ),
    "driver_not_visible": (
        "the process does not see the NVIDIA driver",
        "run nvidia-smi in the same container or shell; a container needs --gpus all or the nvidia runtime",
    ),
    "driver_too_old": (
        "the driver is older than the CUDA that PyTorch was built for",
        "update the driver, or take the image built for the CUDA version that nvidia-smi shows",
    ),
    "gpu_not_there": (
        "a rank asks for a GPU that is not there: more ranks than GPUs that the process sees",
        "compare --tp x --pp of this node and --base-gpu-id with nvidia-smi -L and CUDA_VISIBLE_DEVICES",
    ),
    "gpu_too_old": (
        "the card's compute capability is below what this build supports; no option mends that",
        "nvidia-smi --query-gpu=name,compute_cap --format=csv; serve on a newer card",
    ),
    "builds_do_not_match": (
        "two installed packages were built for different versions",
        "install sglang with its own pinned torch and sgl-kernel in a fresh environment, or take the release's image",
    ),
    "no_kernel": (
        "a library has no kernel for this GPU's architecture",
        "take builds of torch, sgl-kernel and the attention backend for it; nvidia-smi --query-gpu=compute_cap",
    ),
    "disk_full": (
        "a file system is full",
        "df -h on the folders of the model, of HF_HOME, /tmp and /dev/shm; free space, or point them elsewhere",
    ),
    "open_files": (
        "the limit on open files is reached",
        "raise it: LimitNOFILE= of the unit, --ulimit nofile of docker",
    ),
    "bus_error": (
        "memory that is backed by a file could not be had: mostly /dev/shm, at times a model file that was cut",
        "df -h /dev/shm; --shm-size or --ipc=host for a container; compare the model files' sizes",
    ),
    "port_taken": (
        "another process listens on the port already, often the server that was to be replaced",
        "ss -ltnp shows who; stop that one, or start with another --port",
    ),
    "access_refused": (
        "the hub refuses this model to this login",
        "ask for access and give the server HF_TOKEN, or point --model-path to a local folder",
    ),
    "not_reachable": (
        "the model's hub could not be reached",
        "give a local folder as --model-path, or mend name resolution and proxy of the server's environment",
    ),
    "path_missing": (
        "a file or folder that was named is not there",
        "ls the path as the server's user and inside its container: a mount or a spelling is missing",
    ),
    "path_denied": (
        "the server's user may not read or write a path",
        "ls -ld the path as the server's user and inside its container; mind mounts that are read-only",
    ),
    "weights_broken": (
        "a weight file is cut or damaged",
        "compare sizes and hashes with the source, and download that file again",
    ),
    "model_not_known": (
        "this version does not know the model's class",
        "check `architectures` in config.json; take a version that lists the model as supported",
    ),
    "custom_code": (
        "the model brings Python code of its own, which runs only when it is allowed",
        "read that code, then add --trust-remote-code",
    ),
    "not_divisible": (
        "the tensor-parallel size does not divide a dimension of the model",
        "take a --tp that divides attention heads, KV heads and the sizes named in the traceback",
    ),
    "peers_missing": (
        "not all ranks of all nodes met in time: a node was not started, died before, or cannot reach the first one",
        "give each node its --node-rank and the same --dist-init-addr, reach that from each; read the others' logs",
    ),
    "rdma_missing": (
        "the RDMA device that KV should be sent over is not there",
        "ibv_devices on the host and in its container (/dev/infiniband); name one with --disaggregation-ib-device",
    ),
    "package_missing": (
        "a Python module that this start needs is not installed in its environment",
        "install it in the version that the release names; a module of sglang itself: two installations are mixed",
    ),
    "gpu_memory": (
        "a GPU ran out of memory; in which phase decides what helps",
        "give the whole traceback above this line: its frames say whether load, capture, prefill or decode failed",
    ),
    "illegal_access": (
        "a kernel read memory that is not its own; the line that reports it is often not the one that did it",
        "once more with CUDA_LAUNCH_BLOCKING=1 and without CUDA graphs names the kernel",
    ),
    "kernel_failed": (
        "a kernel failed on a GPU; the line that reports it is often not the one that did it",
        "once more with CUDA_LAUNCH_BLOCKING=1 names the kernel; the first traceback of all ranks counts",
    ),
    "segfault": (
        "a process crashed in native code",
        "the stack of the first rank that crashed names the library; compare its version with the pinned one",
    ),
    "collective_timeout": (
        "one rank waited for another that did not come; the rank that is missing is the one to look at",
        "find the rank whose log stops first; py-spy dump of it, and Xid lines of its GPU",
    ),
    "collective_failed": (
        "communication between the ranks broke; often another rank died before",
        "look for the first failure among all ranks; NCCL_DEBUG=INFO names the transport that broke",
    ),
    "pool_leak": (
        "the server's own check found pages of its pool that nobody holds: a fault of its code",
        "give SGLang's version; the change logs of later ones tell whether this leak was mended",
    ),
    "exception": (
        "no cause is known here for this exception",
        "give the traceback above it, and the log from its first line on",
    ),
}


GPU_SLOWED: Final = "gpu_slowed"  # everything is slow by it, nothing else comes of it
# With one of these nothing is in order, and what else the log tells is what came of it.
MACHINE: Final = frozenset(
    ("gpu_error", "fabric_not_ready", "driver_not_visible", "driver_too_old", "gpu_not_there", "gpu_too_old")
)
# What one line settles: the server cannot go on before that is put right, whatever else stands in the log.
_CERTAIN: Final = MACHINE | {
    GPU_SLOWED,
    "builds_do_not_match",
    "no_kernel",
    "port_taken",
    "access_refused",
    "path_missing",
    "weights_broken",
    "model_not_known",
    "custom_code",
    "not_divisible",
    "rdma_missing",
    "package_missing",
}


@dataclass(frozen=True, slots=True)
class Failed:
    """A failure line as it stands in the evidence, what it means and what to do first."""

    kind: str
    line: str
    source: str
    means: str
    do: str

    @property
    def certain(self) -> bool:
        """Whether the line is the cause itself, though none of the taxonomy: no further look is needed."""
        return self.kind in _CERTAIN


def failed(facts: Facts) -> Failed | None:
    """The failure to name first; None where none was seen, or where a server process is there all the same."""
    if facts.text("running") == "True":
        return None
    lines = {fact.scope: fact for fact in reversed(facts.all("failure")) if fact.grade == "observed"}
    if log_of_another(facts) is None:
        lines.pop(OTHER_ENGINE, None)
    for kind, (means, do) in _MEANT.items():
        if kind in lines:
            line = str(lines[kind].value)
            card = _CARD.search(line) if kind == "gpu_error" else None
            return Failed(kind, line, lines[kind].source, means, _MEND.format(card[1]) if card else do)
    return None


# The driver names the card by its PCI address, which `nvidia-smi` prints with a longer domain.
_CARD: Final = re.compile(r"\(PCI:([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})")
_MEND: Final = (
    "the card at {} (nvidia-smi --query-gpu=index,pci.bus_id,serial --format=csv tells which that is): drain it, reset "
    "or reboot, and have it replaced where it comes back"
)
