"""The machine and its container, and the options that were typed."""

# ruff: noqa: E501, S108  (a pattern reads better on one line, and /dev/shm is a word here)
from __future__ import annotations

from typing import Final

TERMS: Final[tuple[tuple[str, str], ...]] = (
    # host
    ("shm", r"/dev/shm|shared memory|shm[-_]size|\bshm\b"),
    (
        "container_limit",
        r"(?:container|pod|cgroup|docker|kubernetes|k8s).{0,50}(?:limit|memory|killed|oom)|mem_limit|memory limit|limits?:",
    ),
    ("nofile", r"ulimit(?! -l\b)|nofile|open files|file descriptors?"),
    ("read_only", r"read-only|not writable|cannot write"),
    (
        "build_missing",
        r"(?:compil\w+|header|toolchain|nvcc|gcc|ninja|libssl|openssl|-dev\b).{0,40}(?:missing|not (?:found|installed)|absent|lack\w*)|(?:missing|no|lack\w*) (?:a )?(?:compiler|headers?|toolchain|nvcc|gcc|ninja)",
    ),
    (
        "pinned_buffers",
        r"shmem\b.{0,40}(?:gi?b|unreclaimable|unevictable)|unreclaimable|(?:nccl|pinned|communication|host) buffers?.{0,40}(?:pin|gb|gib|hold|take)|pins? \d+(?:\.\d+)? ?g|nccl.{0,30}(?:pin|gb|gib)|unevictable|mlocked",
    ),
    (
        "network_device",
        r"\bbnxt\w*|\bmlx5\w*|\bibv?_?\w*\b.{0,20}(?:device|nic|fail)|\broce\b|infiniband|\brdma\b|net/ib|network card|\bnic\b|ethernet",
    ),
    ("p2p", r"\bp2p\b|peer[- ](?:access|to[- ]peer)|nvlink|iommu|\bacs\b"),
    # flags
    (
        "flag_refused",
        r"(?:flag|option|argument|switch|parameter)\w*.{0,60}(?:refused|rejected|unknown|not (?:recogni[sz]ed|accepted|known|there|found)|unrecogni[sz]ed|does not (?:exist|know)|invalid|gone|missing)|unrecogni[sz]ed argument|unknown (?:flag|option|argument)|error: argument",
    ),
    (
        "from_other_engine",
        r"(?:coming|came|migrat\w+|switch\w+|moved|ported|copied) (?:over )?from (?:vllm|tgi|tensorrt|llama|ollama|lmdeploy|another engine)|\bvllm\b.{0,40}(?:flags?|command|config|habit|used)",
    ),
    (
        "from_release_notes",
        r"release notes|changelog|documentation|\bdocs\b|blog|newer version|latest version|tutorial|quickstart|cookbook",
    ),
    ("what_replaces", r"what replaces|replacement|new name|renamed|instead of it|deprecat\w*"),
    (
        "combination",
        r"(?:when i add|adding|together with|combin\w+|in combination|as soon as i (?:add|also)|both\b).{0,80}(?:abort|crash|fail|error|refus|die)|each (?:alone|on its own) works|plain .{0,40}(?:starts|works)",
    ),
    (
        "context_refused_at_start",
        r"(?:context|length|128k|\d+k).{0,80}(?:refuses? to start|refused at start|not allowed|will not start|derived)|yarn|rope[_ -]scaling",
    ),
)
