"""The standard looks: plain command lines of the policy's catalogue, all asked in one round trip.

`$NAME` in a word is a slot which the script on the host fills in, after checking it against a strict character set
(probe.sh): `$PID` of the server, its `$UNIT`, `$PORT`, `$CGROUP` (below /sys/fs/cgroup), `$MODEL` and `$DRAFT` folders,
the `$PACKAGE` folder of sglang, its `$DIST` dist-info. A probe whose slot stays empty is skipped and says so.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Final

KIB: Final = 1024
SLOTS: Final = ("PID", "UNIT", "PORT", "CGROUP", "MODEL", "DRAFT", "PACKAGE", "DIST", "GIT")

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
    """One look: its name, its command line, limits in seconds and bytes, why it is asked, and the slot it needs."""

    name: str
    command: str
    why: str
    needs: str = ""
    limit_s: int = 10
    limit_bytes: int = 64 * KIB

    @property
    def argv(self) -> list[str]:
        return shlex.split(self.command)


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
    ),
    Probe("process", "cat /proc/$PID/cmdline", "the command line as it runs", "PID"),
    Probe("processes", "ps -o pid,ppid,rss,lstart,comm -p $PID --ppid $PID", "the server and its children", "PID"),
    Probe("limits", "cat /proc/$PID/limits", "locked memory and open files", "PID"),
    Probe(
        "cgroup",
        "grep -H . /sys/fs/cgroup$CGROUP/memory.max /sys/fs/cgroup$CGROUP/memory.high "
        "/sys/fs/cgroup$CGROUP/memory.current",
        "memory limit of the server's group",
        "CGROUP",
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
    ),
    Probe(
        "journal_recent",
        "journalctl -u $UNIT -n 12000 --no-pager -o short-iso --since=-1h",
        "the last hour: prefill and decode lines",
        "UNIT",
        20,
        4096 * KIB,
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
    Probe("tree", "cat $GIT", "commit of the tree it runs from", "GIT"),
    Probe("sockets", "ss -ltnp", "ports and who listens", "", 10, 128 * KIB),
    Probe(
        "containers",
        "docker ps --no-trunc --format '{{.ID}} {{.Image}} {{.Names}} {{.Status}}'",
        "whether it runs in a container",
    ),
)
