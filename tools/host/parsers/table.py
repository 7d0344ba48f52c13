"""Which parser reads which probe, and how text that nobody labelled is recognised."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tools.host.parsers import endpoints, gpus, install, kernel, memory, metrics, units
from tools.host.parsers.page import Page
from transcripts.facts import Evidence

Parser = Callable[[Page, Evidence], None]


def _draft_config(page: Page, evidence: Evidence) -> None:
    endpoints.read_config(page, evidence, "draft")


def _unit_environment(page: Page, evidence: Evidence) -> None:
    units.read_environment(page, evidence)


# probe -> parsers, each reading the whole evidence; journals and pasted text are read by `tools.host.parsers` itself
PARSERS: Final[Mapping[str, tuple[Parser, ...]]] = MappingProxyType(
    {
        "gpus": (gpus.read_nvidia,),
        "gpu_processes": (gpus.read_nvidia,),
        "gpus_rocm": (gpus.read_rocm,),
        "rocm": (gpus.read_rocm,),
        "meminfo": (memory.read_meminfo,),
        "memory": (memory.read_meminfo,),
        "numa": (memory.read_numa,),
        "cgroup": (memory.read_cgroup,),
        "hugepages": (memory.read_huge_pages,),
        "limits": (memory.read_limits,),
        "shm": (memory.read_disks,),
        "disks": (memory.read_disks,),
        "process": (install.read_process,),
        "processes": (install.read_process,),
        "environment": (_unit_environment,),
        "environ": (_unit_environment,),
        "sockets": (install.read_sockets,),
        "ports": (install.read_sockets,),
        "containers": (install.read_containers,),
        "container": (install.read_containers,),
        "version": (install.read_version,),
        "tree": (install.read_version,),
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
    {"journal", "journal_boot", "journal_recent", "log", "log_boot", "log_recent", "container_log"}
)
PASTED: Final = "pasted"


def recognised(text: str) -> tuple[Parser, ...]:
    """Parsers for pasted text, by what its lines look like."""
    found: dict[Parser, None] = {}
    for raw in text.splitlines():
        if len(raw) > 4096:
            continue
        if gpus.looks_like_gpus(raw):
            found[gpus.read_nvidia] = None
        elif metrics.looks_like_metrics(raw):
            found[metrics.read_metrics] = None
        elif raw.startswith(("MemTotal:", "MemAvailable:", "Mem:")):
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
