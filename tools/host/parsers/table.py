"""Which parser reads which probe, and how text that nobody labelled is recognised."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from tools.host.parsers import endpoints, gpus, install, kernel, memory, metrics, units
from tools.host.parsers.lines import routine
from tools.host.parsers.page import Page
from transcripts.facts import Evidence

Parser = Callable[[Page, Evidence], None]


def _draft_config(page: Page, evidence: Evidence) -> None:
    endpoints.read_config(page, evidence, "draft")


def _environment(page: Page, evidence: Evidence) -> None:
    """Of a running server's environment only what came with a value: a bare name must not hide a unit's value."""
    lines = (line if line.partition("=")[2] else "" for line in evidence.text.splitlines())
    units.read_environment(page, replace(evidence, text="\n".join(lines)))


# probe -> parsers, each reading the whole evidence; journals and pasted text are read by `tools.host.parsers` itself
PARSERS: Final[Mapping[str, tuple[Parser, ...]]] = MappingProxyType(
    {
        "gpus": (gpus.read_nvidia,),
        "gpu_processes": (gpus.read_nvidia,),
        "gpus_rocm": (gpus.read_rocm,),
        "meminfo": (memory.read_meminfo,),
        "numa": (memory.read_numa,),
        "cgroup": (memory.read_cgroup,),
        "cgroup_v1": (memory.read_cgroup,),
        "hugepages": (memory.read_huge_pages,),
        "limits": (memory.read_limits,),
        "shm": (memory.read_disks,),
        "disks": (memory.read_disks,),
        "process": (install.read_process,),
        "processes": (install.read_processes,),
        "discovery": (install.read_discovery,),
        "sockets": (install.read_sockets,),
        "containers": (install.read_containers,),
        "version": (install.read_version,),
        "tree": (install.read_version,),
        "package_version": (install.read_version,),
        "environment": (_environment,),
        "unit": (units.read_show,),
        "unit_files": (units.read_files,),
        "kernel_log": (kernel.read_kernel,),
        "loads": (endpoints.read_status, endpoints.read_loads),
        "server_info": (endpoints.read_status, endpoints.read_server_info),
        "models": (endpoints.read_status, endpoints.read_models),
        "metrics": (endpoints.read_status, metrics.read_metrics),
        "model_config": (endpoints.read_config,),
        "draft_config": (_draft_config,),
    }
)
JOURNALS: Final = frozenset(
    {
        "journal_boot",
        "journal_recent",
        "container_boot",
        "container_log",
        "podman_log",
        "log_boot",
        "log_recent",
    }
)
PASTED: Final = frozenset({"pasted"})
PROSE: Final = frozenset({"complaint"})  # words of the operator: no log, no table

# beginnings of a command line that an operator or a model chose (probe "command") -> the probe it resembles
_COMMANDS: Final = (
    (re.compile(r"nvidia-smi\b"), "gpus"),
    (re.compile(r"rocm-smi\b"), "gpus_rocm"),
    (re.compile(r"free\b|cat /proc/meminfo"), "meminfo"),
    (re.compile(r"numactl\b|.*/node\d+/meminfo"), "numa"),
    (re.compile(r"df\b"), "disks"),
    (re.compile(r"(?:journalctl|dmesg)\b.*\s(?:-k|--dmesg)\b|dmesg\b"), "kernel_log"),
    (re.compile(r"journalctl\b|docker logs|kubectl logs|(?:tail|head|cat|grep)\b.*\.log\b"), "journal_recent"),
    (re.compile(r"systemctl show\b"), "unit"),
    (re.compile(r"systemctl cat\b|cat .*\.service\b"), "unit_files"),
    (re.compile(r"cat /proc/\d+/cmdline"), "process"),
    (re.compile(r"cat /proc/\d+/limits"), "limits"),
    (re.compile(r"ps\b"), "processes"),
    (re.compile(r"ss\b"), "sockets"),
    (re.compile(r"docker (?:ps|inspect)\b"), "containers"),
    (re.compile(r".*\bmemory\.(?:max|high|current|limit_in_bytes|usage_in_bytes)\b"), "cgroup"),
    (re.compile(r".*transparent_hugepage"), "hugepages"),
    (re.compile(r".*sglang.*/(?:METADATA|_?version\.py)"), "version"),
    (re.compile(r"curl\b.*/v1/loads"), "loads"),
    (re.compile(r"curl\b.*/(?:get_)?server_info"), "server_info"),
    (re.compile(r"curl\b.*/metrics"), "metrics"),
    (re.compile(r"curl\b.*/v1/models"), "models"),
    (re.compile(r"cat .*/config\.json"), "model_config"),
)


def kind_of(evidence: Evidence) -> str:
    """The probe whose parsers fit: its own name, or for a single command the standard probe it resembles."""
    if evidence.probe in PARSERS or evidence.probe in JOURNALS or evidence.probe in PASTED | PROSE:
        return evidence.probe
    return next((probe for pattern, probe in _COMMANDS if pattern.match(evidence.command)), "")


def recognised(text: str) -> tuple[Parser, ...]:
    """Parsers for pasted text, by what its lines look like."""
    found: dict[Parser, None] = {}
    for raw in text.splitlines():
        if len(raw) > 4096 or routine(raw):
            continue
        if gpus.looks_like_gpus(raw):
            found[gpus.read_nvidia] = None
        elif metrics.looks_like_metrics(raw):
            found[metrics.read_metrics] = None
        elif raw.startswith(("MemTotal:", "MemAvailable:", "Mem:", "Mlocked:", "Unevictable:")):
            found[memory.read_meminfo] = None
        elif raw.startswith("available: ") and " nodes" in raw:
            found[memory.read_numa] = None
        elif raw.startswith(("Max locked memory", "Max open files")):
            found[memory.read_limits] = None
        elif raw.startswith("Filesystem") and "Mounted on" in raw:
            found[memory.read_disks] = None
        elif "illed process" in raw or "NVRM: Xid" in raw:
            found[kernel.read_kernel] = None
        elif raw.startswith(("ActiveState=", "NRestarts=", "LimitMEMLOCK=")):
            found[units.read_show] = None
    return tuple(found)
