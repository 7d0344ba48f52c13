"""A box with figures that agree: 8 GPUs, MLA, SGLang 0.5.9, 48 running of a pool of 159,209 tokens."""

from __future__ import annotations

from tools.advice import Change, Launch, parse_launch
from transcripts.facts import Evidence, Fact, Facts, Value

UNIT = """# /etc/systemd/system/sglang-kimi.service
[Service]
Environment=SGLANG_ENABLE_SPEC_V2=True
ExecStart=/opt/venv/bin/python3 -m sglang.launch_server \\
  --model-path /models/Kimi-K2.5 \\
  --tp 8 \\
  --mem-fraction-static 0.88 \\
  --trust-remote-code \\
  --speculative-algorithm EAGLE3 \\
  --speculative-draft-model-path /models/draft \\
  --speculative-num-steps 3 \\
  --speculative-eagle-topk 1 \\
  --speculative-num-draft-tokens 4

[Install]
WantedBy=multi-user.target
"""
GIB = 1 << 30
_FIGURES: dict[str, tuple[Value, str]] = {
    "kv_pool": (159209, "E5:1"),
    "kv_pool_gib": (10.42, "E5:2"),
    "weights_before_gib": (94.06, "E5:3"),
    "free_after_boot_gib": (5.37, "E5:4"),
    "running_limit": (48, "E5:5"),
    "tokens_per_request": (1990.0, "E5:6"),
    "mem_available_bytes": (396 * GIB, "E2:1"),
    "mem_total_bytes": (503 * GIB, "E2:2"),
    "version": ("0.5.9", "E7:1"),
    "load_seconds": (412.0, "E5:7"),
    "running_p50": (48, "E5:8"),
    "queue_p50": (17, "E5:9"),
    "usage_p50": (0.6, "E5:10"),
    "pid": (41272, "E4:1"),
}
_PROBES = {
    "E1": "gpus",
    "E2": "meminfo",
    "E3": "kernel_log",
    "E4": "unit",
    "E5": "journal_recent",
    "E6": "unit_files",
    "E7": "version",
}


def facts(**other: Value | None) -> Facts:
    """The figures, some of them changed, or left out with None."""
    rows = {**_FIGURES, **{name: (value, "E5:1") for name, value in other.items()}}
    return Facts(
        Fact(name, value, "", "observed", source) for name, (value, source) in rows.items() if value is not None
    )


def evidence() -> dict[str, Evidence]:
    text = "line\n" * 40
    return {name: Evidence(name, probe, "", "h1", "", 0, text) for name, probe in _PROBES.items()}


def launch() -> Launch:
    return parse_launch("systemd", UNIT, sources=("E6",))


def flag(do: str, name: str, to: Value | None = None, *references: str) -> Change:
    return Change("flag", do, name, None, to, "", "why", references or ("E5:1", "E4:1"))  # type: ignore[arg-type]
