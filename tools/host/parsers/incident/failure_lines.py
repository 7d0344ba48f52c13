"""The line that says why a process failed, quoted whether or not a cause is known for it.

A kind is what the line names; a line of an exception that no kind covers is an `exception`. The first line of a named
kind is kept, since what follows a failure is mostly its echo; of other exceptions the last, where a traceback ends.
"""

# ruff: noqa: E501  (a pattern reads better on one line)
from __future__ import annotations

import re
from textwrap import shorten
from typing import Final

from tools.host.parsers.incident.denials import happened
from tools.host.parsers.incident.messages import is_settings
from tools.host.parsers.lines import unwrap
from tools.host.parsers.page import Page
from transcripts.facts import Grade

_SHOWN: Final = 160
_LONGEST: Final = 4096
_KINDS: Final[tuple[tuple[str, str], ...]] = (
    ("other_engine", r"\bvLLM API server version \d|\bInitializing a V[01] LLM engine|\bvLLM engine \(v\d|\[TensorRT-LLM\] TensorRT-LLM version|text_generation_launcher"),
    ("gpu_error", r"NVRM: Xid \([^)]*\): (?!13\b|31\b|43\b|45\b)|GPU has fallen off the bus|GPU is lost|Unable to determine the device handle|uncorrectable ECC|CUDA error: uncorrectable|Row remapp\w+ fail"),
    ("gpu_slowed", r"(?:[HS]W (?:Thermal|Power Brake) |\bHW )Slowdown\s*:\s*Active\b"),
    ("fabric_not_ready", r"Error 802: system not yet initialized|fabric ?manager.{0,40}(?:not running|failed|inactive)"),
    ("gpu_not_there", r"invalid device ordinal"),
    ("gpu_too_old", r"SGLang only supports sm\d+"),
    ("port_taken", r"address already in use|Errno 98\b|EADDRINUSE|port \d+ (?:is )?(?:already )?in use"),
    ("disk_full", r"Errno 28\b|No space left on device|Errno 122\b|Disk quota exceeded"),
    ("driver_not_visible", r"libcuda\.so\S*: cannot open shared object|libnvidia-ml\.so\S*: cannot open|No CUDA GPUs are available|Found no NVIDIA driver|CUDA driver initialization failed|could not select device driver|Failed to initialize NVML"),
    ("driver_too_old", r"driver on your system is too old|CUDA driver version is insufficient|unsupported display driver|Error 80[34]\b|forward compatibility was attempted"),
    ("builds_do_not_match", r"undefined symbol: |version `(?:GLIBC|GLIBCXX)\S*' not found|cannot open shared object file"),
    ("gpu_memory", r"(?:torch(?:\.cuda)?\.)?OutOfMemoryError\b|CUDA out of memory|HIP out of memory"),
    ("peers_missing", r"DistStoreError|\d+/\d+ clients joined"),
    ("rdma_missing", r"No RDMA devices? found|No IB devices? found"),
    ("collective_timeout", r"Watchdog caught collective operation timeout|Timed out waiting \d+ ?ms|monitoredBarrier.*timed out"),
    ("collective_failed", r"DistBackendError|NCCL error|ncclSystemError|ncclUnhandledCudaError|ncclRemoteError|Connection closed by peer.*(?:gloo|nccl)|gloo.*Connection (?:closed|reset)"),
    ("illegal_access", r"illegal memory access"),
    ("kernel_failed", r"NVRM: Xid \([^)]*\): (?:13|31|43|45)\b|CUDA error: (?:unspecified launch failure|device-side assert)|misaligned address|illegal instruction was encountered"),
    ("segfault", r"Segmentation fault|SIGSEGV"),
    ("bus_error", r"Bus error|SIGBUS"),
    ("no_kernel", r"no kernel image is available"),
    ("access_refused", r"GatedRepoError|RepositoryNotFoundError|Repository Not Found|Cannot access gated repo|Access to model \S+ is restricted|401 Client Error|403 Client Error"),
    ("not_reachable", r"LocalEntryNotFoundError|OfflineModeIsEnabled|Max retries exceeded|Name or service not known|Temporary failure in name resolution|couldn't connect to '?https?:"),
    ("path_missing", r"FileNotFoundError|No such file or directory: |is not a local folder and is not a valid model identifier|HFValidationError|Repo id must be in the form|EntryNotFoundError|RevisionNotFoundError|Cannot find any model weights|does not appear to have a file named"),
    ("path_denied", r"PermissionError|Errno 13\b|Read-only file system"),
    ("weights_broken", r"SafetensorError|Error while deserializing header|InvalidHeaderDeserialization|MetadataIncompleteBuffer|PytorchStreamReader failed|unexpected EOF|invalid load key"),
    ("model_not_known", r"Model architectures .* (?:are|is) not supported|Transformers does not recognize this architecture|has no SGLang implementation"),
    ("custom_code", r"trust_remote_code|custom code which must be executed"),
    ("package_missing", r"ModuleNotFoundError: No module named|(?:ImportError|RuntimeError): \S+ is not installed\b"),
    ("pool_leak", r"memory leak detected"),
    ("not_divisible", r"is not divisible by"),
    ("open_files", r"Too many open files|Errno 24\b"),
    ("killed", r"Out of memory: Killed process|Memory cgroup out of memory|oom-kill:|OOMKilled(?![\"' ]*[:=]\s*false)|code=killed, status=9"),
)  # fmt: skip
_ONE_OF: Final = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _KINDS), re.I)
_EXCEPTION: Final = re.compile(
    r"^(?:E\s+)?(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception)(?:: |$)|^Fatal Python error: "
)
_TRIGGER: Final = re.compile(
    r"rror|xception|NVRM|in use|EADDR|No space|quota|lib(?:cuda|nvidia)|driver|NVML|undefined|GLIBC|shared object|memory"
    r"|imed out|timeout|nccl|gloo|SIGBUS|kernel image|gated|Client|resolution|service|retries|connect|No such|identifier"
    r"|weights|Read-only|header|Header|Buffer|EOF|load key|rchitecture|implementation|trust_remote|custom code|divisible"
    r"|open files|illed|kill|Slowdown|fallen off|GPU is lost|device handle|abric|only supports|ordinal|ECC|egmentation|SIGSEGV|restricted|Repo id|misaligned|ompatibility|vLLM|LLM engine|TensorRT|text_generation|RDMA|IB device|clients joined"
)


def read(page: Page, told: list[tuple[int, str]], grade: Grade) -> None:
    """Facts `failure`, one for each kind that the lines name; the scope is the kind."""
    seen: dict[str, tuple[int, str]] = {}
    for number, line in told:
        if len(line) > _LONGEST or is_settings(line) or not _TRIGGER.search(line):
            continue
        text = unwrap(number, line).text.strip()
        named = _ONE_OF.search(happened(text))
        if named is not None and named.lastgroup is not None:
            seen.setdefault(named.lastgroup, (number, text))
        elif _EXCEPTION.match(text):
            seen["exception"] = (number, text)
    for kind, (number, text) in seen.items():
        page.add("failure", shorten(text, _SHOWN, placeholder=" …"), number, scope=kind, grade=grade)
