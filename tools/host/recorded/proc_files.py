"""Files of a recorded host that are computed from its figures: /proc, /sys, the dist-info of SGLang."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tools.host.recorded.figures import Figures, Server
from tools.host.recorded.files import Computed
from tools.host.recorded.host_memory import meminfo_text, node_meminfo
from tools.host.recorded.launch import Launch
from tools.host.recorded.processes import Process
from tools.host.recorded.units import limit_of, size_of


def computed_files(
    figures: Figures, launch: Launch | None, running: tuple[Process, ...], memory_current: int
) -> dict[str, Computed]:
    """Path on the host -> how its text is made."""
    machine, memory = figures.machine, figures.memory
    up = (figures.now - machine.booted).total_seconds()
    cores = machine.sockets * machine.cores_per_socket
    busy = 9.4 if any(process.rank is not None for process in running) else 0.1
    found: dict[str, Computed] = {
        "/etc/hostname": lambda: machine.hostname + "\n",
        "/proc/meminfo": partial(meminfo_text, memory),
        "/proc/uptime": lambda: f"{up:.2f} {up * cores * 1.86:.2f}\n",
        "/proc/loadavg": lambda: f"{busy:.2f} {busy * 0.97:.2f} {busy * 0.94:.2f} 11/{cores * 24} 418822\n",
        "/proc/version": lambda: (
            f"Linux version {machine.kernel} (buildd@lcy02-amd64-091) #93-Ubuntu SMP PREEMPT_DYNAMIC\n"
        ),
        "/proc/cmdline": lambda: f"BOOT_IMAGE=/boot/vmlinuz-{machine.kernel} ro iommu=pt\n",
        "/proc/pressure/memory": partial(_pressure, 0.0),
        "/proc/pressure/io": partial(_pressure, 0.1),
        "/proc/pressure/cpu": partial(_pressure, 0.4),
        "/proc/sys/vm/swappiness": lambda: "60\n",
        "/proc/sys/vm/overcommit_memory": lambda: "0\n",
        "/proc/sys/vm/max_map_count": lambda: "1048576\n",
        "/proc/sys/vm/nr_hugepages": lambda: "0\n",
        "/proc/sys/net/core/somaxconn": lambda: "4096\n",
        "/proc/sys/kernel/numa_balancing": lambda: "1\n",
        "/proc/sys/kernel/shmmax": lambda: "18446744073692774399\n",
        "/sys/kernel/mm/transparent_hugepage/enabled": lambda: "always [madvise] never\n",
        "/sys/kernel/mm/transparent_hugepage/defrag": lambda: "always defer defer+madvise [madvise] never\n",
    }
    if figures.gpus:
        found["/proc/driver/nvidia/version"] = partial(
            str.format,
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build\n",
            figures.gpus.driver,
        )
    for node in range(memory.nodes):
        found[f"/sys/devices/system/node/node{node}/meminfo"] = partial(node_meminfo, memory, node)
    for process in running:
        found |= _of_process(process, launch)
    if launch is not None and any(process.rank is not None for process in running):
        found |= _of_group(launch, memory.total_gib, memory_current)
    if figures.server is not None:
        found |= _of_package(figures.server)
    return found


def _pressure(share: float) -> str:
    some = f"some avg10={share:.2f} avg60={share:.2f} avg300={share:.2f} total=1822014\n"
    return some + "full avg10=0.00 avg60=0.00 avg300=0.00 total=60211\n"


def _of_process(process: Process, launch: Launch | None) -> Mapping[str, Computed]:
    base = f"/proc/{process.pid}"
    served = launch is not None and process.pid > 3000
    group = f"/system.slice/{launch.unit}" if served and launch else "/init.scope"
    words = process.arguments
    return {
        f"{base}/cmdline": lambda: "".join(word + "\0" for word in words),
        f"{base}/comm": lambda: process.command + "\n",
        f"{base}/cgroup": lambda: f"0::{group}\n",
        f"{base}/limits": partial(_limits, launch if served else None),
        f"{base}/status": partial(_status, process),
        f"{base}/oom_score": lambda: "668\n" if process.resident_kib > 1 << 22 else "0\n",
        f"{base}/oom_score_adj": lambda: "0\n",
    }


def _status(process: Process) -> str:
    return (
        f"Name:\t{process.command}\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t{process.pid}\nPid:\t{process.pid}\n"
        f"PPid:\t{process.parent}\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nFDSize:\t512\n"
        f"VmPeak:\t{process.resident_kib * 9:>8} kB\nVmSize:\t{process.resident_kib * 9:>8} kB\n"
        f"VmLck:\t{0:>8} kB\nVmPin:\t{0:>8} kB\nVmHWM:\t{process.resident_kib:>8} kB\n"
        f"VmRSS:\t{process.resident_kib:>8} kB\nThreads:\t{64 if process.rank is not None else 8}\n"
    )


def _limits(launch: Launch | None) -> str:
    locked = limit_of(launch.value("LimitMEMLOCK") if launch else "", "8388608")
    nofile = limit_of(launch.value("LimitNOFILE") if launch else "", "524288")
    soft = nofile if launch and launch.value("LimitNOFILE") else "1024"
    rows = [
        ("Max cpu time", "unlimited", "unlimited", "seconds"),
        ("Max file size", "unlimited", "unlimited", "bytes"),
        ("Max data size", "unlimited", "unlimited", "bytes"),
        ("Max stack size", "8388608", "unlimited", "bytes"),
        ("Max core file size", "0", "unlimited", "bytes"),
        ("Max resident set", "unlimited", "unlimited", "bytes"),
        ("Max processes", "2059621", "2059621", "processes"),
        ("Max open files", soft, nofile, "files"),
        ("Max locked memory", *(["unlimited" if locked == "infinity" else locked] * 2), "bytes"),
        ("Max address space", "unlimited", "unlimited", "bytes"),
        ("Max file locks", "unlimited", "unlimited", "locks"),
        ("Max pending signals", "2059621", "2059621", "signals"),
        ("Max msgqueue size", "819200", "819200", "bytes"),
        ("Max nice priority", "0", "0", ""),
        ("Max realtime priority", "0", "0", ""),
        ("Max realtime timeout", "unlimited", "unlimited", "us"),
    ]
    head = f"{'Limit':<26}{'Soft Limit':<21}{'Hard Limit':<21}Units     \n"
    return head + "".join(f"{name:<26}{low:<21}{high:<21}{unit:<10}\n" for name, low, high, unit in rows)


def _of_group(launch: Launch, total_gib: float, current: int) -> Mapping[str, Computed]:
    base = f"/sys/fs/cgroup/system.slice/{launch.unit}"

    def limit(key: str) -> str:
        text = size_of(launch.value(key, "infinity"), total_gib)
        return ("max" if text == "infinity" else text) + "\n"

    return {
        f"{base}/memory.max": partial(limit, "MemoryMax"),
        f"{base}/memory.high": partial(limit, "MemoryHigh"),
        f"{base}/memory.current": lambda: f"{current}\n",
        f"{base}/memory.peak": lambda: f"{current + (6 << 30)}\n",
        f"{base}/memory.swap.max": lambda: "max\n",
        f"{base}/memory.swap.current": lambda: "0\n",
        f"{base}/memory.events": lambda: "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n",
        f"{base}/cpu.max": lambda: "max 100000\n",
        f"{base}/cgroup.controllers": lambda: "cpuset cpu io memory hugetlb pids\n",
    }


def _of_package(server: Server) -> Mapping[str, Computed]:
    """Metadata of the installed package; the package itself is a mounted tree."""
    found: dict[str, Computed] = {}
    if server.dist_info:
        base = server.dist_info
        parent = server.package.rpartition("/")[0]
        found[f"{base}/METADATA"] = lambda: (
            f"Metadata-Version: 2.4\nName: sglang\nVersion: {server.version}\n"
            "Summary: SGLang is a fast serving framework for large language models and vision language models.\n"
            "Requires-Python: >=3.10\n"
        )
        found[f"{base}/INSTALLER"] = lambda: "pip\n"
        found[f"{base}/direct_url.json"] = lambda: f'{{"dir_info": {{"editable": true}}, "url": "file://{parent}"}}'
        found[f"{base.rpartition('/')[0]}/__editable__.sglang-{server.version}.pth"] = lambda: parent + "\n"
    if server.git_commit:
        top = server.package.rpartition("/python/")[0] or server.package.rpartition("/")[0]
        found[f"{top}/.git/HEAD"] = lambda: "ref: refs/heads/main\n"
        found[f"{top}/.git/refs/heads/main"] = lambda: server.git_commit + "\n"
    return found
