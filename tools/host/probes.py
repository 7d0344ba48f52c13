"""The standard looks: plain command lines of the policy's catalogue, all asked in one round trip.

`$NAME` in a word is a slot which the script on the host fills in, after checking it against a strict character set
(probe.sh): `$PID` of the server, its `$UNIT`, `$PORT`, `$CGROUP` (below /sys/fs/cgroup), `$MODEL` and `$DRAFT` folders,
the `$PACKAGE` folder of sglang, its `$DIST` dist-info and `$VERSION` file, the `$GIT` file that names its commit, the
`$CONTAINER` (of `$PODMAN`) it runs in, the `$LOG` file its output goes to (`$BOOTLOG` where that is short enough to be
read through), `$SINCE` and `$UNTIL` around its start. A probe whose slot stays empty is skipped and says so.

Every command is one that the policy allows, except those of `READERS`, which are built in because each needs more
care than the policy takes of a command: see there.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Final

KIB: Final = 1024
SLOTS: Final = (
    "PID",
    "UNIT",
    "PORT",
    "CGROUP",
    "MODEL",
    "DRAFT",
    "PACKAGE",
    "DIST",
    "GIT",
    "VERSION",
    "CONTAINER",
    "PODMAN",
    "LOG",
    "BOOTLOG",
    "SINCE",
    "UNTIL",
    "MEMGROUP",
)

# What the start of a server prints that anything is computed from, in every version from 0.4.6 to 0.5.23.
BOOT_LINES: Final = (
    "server_args=|Init torch distributed|Load weight|KV Cache|KV cache dtype|Memory pool end|Capture |"
    "max_total_num_tokens|host memory|host pool|fired up|Max running requests|max_running_requests|Mamba|"
    "sliding window|HiCache|hicache|"
    "Attention backend|attention backend|WARNING|Error|ERROR|error:|Traceback|Exception|out of memory|Killed|Started |"
    "Stopped |Main process exited|Failed with result|Scheduled restart"
)
KERNEL_LINES: Final = (
    "out of memory|Out of memory|oom-kill|Killed process|NVRM|Xid|nvidia|amdgpu|hung_task|blocked for more"
)


@dataclass(frozen=True, slots=True)
class Probe:
    """One look: its name, its command line, limits in seconds and bytes, why it is asked, the slot it needs, and the
    least rights that it wants where an ordinary login does not do."""

    name: str
    command: str
    why: str
    needs: str = ""
    limit_s: int = 10
    limit_bytes: int = 64 * KIB
    rights: str = ""

    @property
    def argv(self) -> list[str]:
        return shlex.split(self.command)


JOURNAL_RIGHTS: Final = "membership of the group systemd-journal (or adm)"
DOCKER_RIGHTS: Final = "membership of the group docker"
OWNER_RIGHTS: Final = "a login as the server's own user"

# Why the policy would ask about them, and what makes them safe as built-in readers.
READERS: Final = {
    "server_info": "the answer holds API keys: they are redacted before anything is kept",
    "tree": "a file of a home, but one that holds a commit and nothing else",
    "environment": "names only, and values that are numbers or true and false; nothing else leaves the host",
    "log_boot": "the file that the server's own output goes to, wherever that is",
    "log_recent": "the file that the server's own output goes to, wherever that is",
    "model_config": "a public description of a model, also where it lies in a home",
    "draft_config": "a public description of a model, also where it lies in a home",
    "version": "a package's name and version, also where it lies in a home",
    "package_version": "a package's version, also where it lies in a home",
}

STANDARD: Final = (
    Probe(
        "gpus",
        "nvidia-smi --query-gpu=index,name,memory.total,memory.used,memory.free,driver_version,compute_cap,pci.bus_id,"
        "utilization.gpu --format=csv",
        "GPUs, their size and what is free on them",
    ),
    Probe(
        "gpu_processes",
        "nvidia-smi --query-compute-apps=gpu_bus_id,pid,process_name,used_memory --format=csv",
        "what holds GPU memory, and on which GPU",
    ),
    Probe("topology", "nvidia-smi topo -m", "how GPUs and NUMA nodes are connected"),
    Probe("gpus_rocm", "rocm-smi --showproductname --showmeminfo vram --csv", "the same where GPUs are AMD's"),
    Probe("meminfo", "cat /proc/meminfo", "host memory, available and locked, huge pages"),
    Probe("numa", "numactl -H", "host memory by NUMA node"),
    Probe("hugepages", "cat /sys/kernel/mm/transparent_hugepage/enabled", "transparent huge pages"),
    Probe("shm", "df -B1 /dev/shm", "shared memory for collectives and tokenizers"),
    Probe("disks", "df -B1 -x tmpfs -x devtmpfs -x overlay", "room for logs and file-backed caches"),
    Probe(
        "kernel_log",
        f"journalctl -k -n 400 --no-pager -o short-iso --grep='{KERNEL_LINES}'",
        "processes the kernel killed, GPU errors",
        rights=JOURNAL_RIGHTS,
    ),
    Probe("process", "cat /proc/$PID/cmdline", "the command line as it runs", "PID"),
    Probe("processes", "ps -o pid,ppid,rss,lstart,comm -p $PID --ppid $PID", "the server and its children", "PID"),
    Probe("limits", "cat /proc/$PID/limits", "locked memory and open files", "PID"),
    Probe(
        "cgroup",
        "grep -H . /sys/fs/cgroup$CGROUP/memory.max /sys/fs/cgroup$CGROUP/memory.high "
        "/sys/fs/cgroup$CGROUP/memory.current",
        "memory limit of the server's group, or of the one above it that limits it most",
        "CGROUP",
    ),
    Probe(
        "cgroup_v1",
        "grep -H . /sys/fs/cgroup/memory$MEMGROUP/memory.limit_in_bytes "
        "/sys/fs/cgroup/memory$MEMGROUP/memory.usage_in_bytes",
        "the same where groups are of version 1",
        "MEMGROUP",
    ),
    Probe(
        "unit",
        "systemctl show -p Id -p LoadState -p ActiveState -p SubState -p Result -p NRestarts -p MainPID "
        "-p ExecMainStartTimestamp -p ExecMainStatus -p MemoryMax -p LimitMEMLOCK -p LimitNOFILE -p FragmentPath "
        "-p DropInPaths -p NeedDaemonReload -p TimeoutStartUSec -p TimeoutStopUSec --no-pager $UNIT",
        "state, restarts and limits of the unit",
        "UNIT",
    ),
    Probe("unit_files", "systemctl cat --no-pager $UNIT", "the unit with its drop-ins", "UNIT"),
    Probe(
        "journal_boot",
        f"journalctl -u $UNIT -n 3000 --no-pager -o short-iso --grep='{BOOT_LINES}'",
        "the boot sequence and failures",
        "UNIT",
        20,
        1024 * KIB,
        JOURNAL_RIGHTS,
    ),
    Probe(
        "journal_recent",
        "journalctl -u $UNIT -n 12000 --no-pager -o short-iso --since=-1h",
        "the last hour: prefill and decode lines",
        "UNIT",
        20,
        4096 * KIB,
        JOURNAL_RIGHTS,
    ),
    Probe(
        "unit_history",
        "journalctl -u $UNIT -n 300 --no-pager -o short-iso -t systemd",
        "starts, ends and kills of the unit",
        "UNIT",
        rights=JOURNAL_RIGHTS,
    ),
    Probe(
        "container_boot",
        "docker logs --since $SINCE --until $UNTIL --tail 12000 --timestamps $CONTAINER",
        "the boot sequence, where the server runs in a container",
        "CONTAINER",
        20,
        4096 * KIB,
        DOCKER_RIGHTS,
    ),
    Probe(
        "container_log",
        "docker logs --tail 12000 --timestamps $CONTAINER",
        "what a container's server printed last",
        "CONTAINER",
        20,
        4096 * KIB,
        DOCKER_RIGHTS,
    ),
    Probe(
        "container",
        "docker inspect --format 'status={{.State.Status}} oom_killed={{.State.OOMKilled}} exit={{.State.ExitCode}} "
        "restarts={{.RestartCount}} memory={{.HostConfig.Memory}} shm={{.HostConfig.ShmSize}} "
        "ipc={{.HostConfig.IpcMode}} image={{.Config.Image}}' $CONTAINER",
        "limits, restarts and image of the container",
        "CONTAINER",
        rights=DOCKER_RIGHTS,
    ),
    Probe(
        "podman_log",
        "podman logs --tail 12000 --timestamps $PODMAN",
        "what a container's server printed last",
        "PODMAN",
        20,
        4096 * KIB,
        OWNER_RIGHTS,
    ),
    Probe(
        "log_boot",
        f"grep -a -E -m 6000 '{BOOT_LINES}' $BOOTLOG",
        "the boot sequence, where output goes to a file",
        "BOOTLOG",
        20,
        1024 * KIB,
        OWNER_RIGHTS,
    ),
    Probe(
        "log_recent",
        "tail -n 12000 $LOG",
        "what the server wrote last to its file",
        "LOG",
        20,
        4096 * KIB,
        OWNER_RIGHTS,
    ),
    Probe(
        "environment",
        "grep -zoaE '^(SGLANG|SGL|NCCL|CUDA|PYTORCH|OMP|HIP)_[A-Z0-9_]*=([0-9.,:]+|[Tt]rue|[Ff]alse)$|"
        "^[A-Za-z_][A-Za-z0-9_]*=' /proc/$PID/environ",
        "names of the server's environment; values only where they are numbers or switches",
        "PID",
        rights=OWNER_RIGHTS,
    ),
    Probe(
        "loads", "curl -s -S -m 5 'http://127.0.0.1:$PORT/v1/loads?include=all'", "load as the server counts it", "PORT"
    ),
    Probe(
        "server_info",
        "curl -s -S -m 5 http://127.0.0.1:$PORT/server_info",
        "arguments in effect",
        "PORT",
        10,
        256 * KIB,
    ),
    Probe(
        "metrics", "curl -s -S -m 5 http://127.0.0.1:$PORT/metrics", "counters since the start", "PORT", 10, 1024 * KIB
    ),
    Probe("models", "curl -s -S -m 5 http://127.0.0.1:$PORT/v1/models", "the name it serves", "PORT"),
    Probe("model_config", "cat $MODEL/config.json", "the model's shape", "MODEL", 10, 256 * KIB),
    Probe("draft_config", "cat $DRAFT/config.json", "the draft model's shape", "DRAFT", 10, 256 * KIB),
    Probe("version", "head -n 4 $DIST/METADATA", "SGLang's version", "DIST"),
    Probe(
        "package_version", "cat $VERSION", "version of the tree that runs, where it is not the installed one", "VERSION"
    ),
    Probe("tree", "cat $GIT", "commit of the tree it runs from", "GIT"),
    Probe("sockets", "ss -ltnp", "ports and who listens", "", 10, 128 * KIB),
    Probe(
        "containers",
        "docker ps --no-trunc --format '{{.ID}} {{.Image}} {{.Names}} {{.Status}}'",
        "whether it runs in a container",
        rights=DOCKER_RIGHTS,
    ),
)


def least_rights(probe: str) -> str:
    """What a login needs for a probe that was denied; empty where an ordinary login does."""
    return next((each.rights for each in STANDARD if each.name == probe), "")
