"""Recordings of servers that are well: several versions' log lines, models and loads; no false alarm."""

# ruff: noqa: E501  (log lines are as wide as the server prints them)
from __future__ import annotations

import pytest

from agent.incident import assess

BOOT_046 = """[2025-05-01 08:00:01 TP0] Load weight begin. avail mem={before:.2f} GB
[2025-05-01 08:00:41 TP0] Load weight end. type=M, dtype=torch.bfloat16, avail mem={after:.2f} GB, mem usage={took:.2f} GB.
[2025-05-01 08:00:42 TP0] KV Cache is allocated. #tokens: {pool}, K size: 12.00 GB, V size: 12.00 GB
[2025-05-01 08:00:42 TP0] Memory pool end. avail mem=9.10 GB
[2025-05-01 08:01:02 TP0] Capture cuda graph end. Time elapsed: 19.90 s. avail mem=6.40 GB. mem usage=2.70 GB.
[2025-05-01 08:01:02 TP0] max_total_num_tokens={pool}, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests={limit}, context_len=32768
[2025-05-01 08:01:09] The server is fired up and ready to roll!"""
DECODE_046 = "[2025-05-01 09:00:{second:02d} TP0] Decode batch. #running-req: {running}, #token: {token}, token usage: {usage:.2f}, gen throughput (token/s): {speed:.2f}, #queue-req: {queue}"
BOOT_059 = """[2026-02-10 08:00:01 TP0] Load weight begin. avail mem={before:.2f} GB
[2026-02-10 08:00:41 TP0] Load weight end. elapsed=40.11 s, type=M, dtype=torch.bfloat16, avail mem={after:.2f} GB, mem usage={took:.2f} GB.
[2026-02-10 08:00:41 TP0] Using KV cache dtype: torch.bfloat16
[2026-02-10 08:00:42 TP0] KV Cache is allocated. #tokens: {pool}, K size: 12.00 GB, V size: 12.00 GB
[2026-02-10 08:00:42 TP0] Memory pool end. avail mem=9.10 GB
[2026-02-10 08:01:02 TP0] Capture cuda graph end. Time elapsed: 19.90 s. mem usage=2.70 GB. avail mem=6.40 GB.
[2026-02-10 08:01:02 TP0] max_total_num_tokens={pool}, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests={limit}, context_len=32768, available_gpu_mem=6.40 GB
[2026-02-10 08:01:09] The server is fired up and ready to roll!"""
DECODE_059 = "[2026-02-10 09:00:{second:02d} TP0] Decode batch, #running-req: {running}, #token: {token}, token usage: {usage:.2f}, cuda graph: True, gen throughput (token/s): {speed:.2f}, #queue-req: {queue}"
PREFILL_059 = "[2026-02-10 09:00:{second:02d} TP0] Prefill batch, #new-seq: 1, #new-token: 900, #cached-token: 1200, token usage: {usage:.2f}, #running-req: {running}, #queue-req: 0, input throughput (token/s): 9000.00, cuda graph: False"

RECORDINGS = [
    # version, running limit, pool, running requests, share of the pool
    ("0.4.6", 2048, 480_000, 12, 0.08),
    ("0.4.6", 2048, 480_000, 180, 0.62),
    ("0.4.6", 256, 900_000, 90, 0.71),
    ("0.5.9", 2048, 480_000, 3, 0.01),
    ("0.5.9", 2048, 480_000, 240, 0.80),
    ("0.5.9", 128, 1_900_000, 70, 0.44),
    ("0.5.9", 64, 159_209, 20, 0.55),
    ("0.5.9", 4096, 2_980_168, 500, 0.66),
    ("0.5.9", 32, 410_000, 8, 0.35),
    ("0.5.9", 512, 700_000, 1, 0.0),
    ("0.5.9", 1024, 650_000, 150, 0.74),
    ("0.5.9", 48, 159_209, 30, 0.5),
]


def recording(version: str, limit: int, pool: int, running: int, usage: float) -> str:
    boot, decode = (BOOT_046, DECODE_046) if version == "0.4.6" else (BOOT_059, DECODE_059)
    lines = boot.format(before=78.6, after=40.2, took=38.4, pool=pool, limit=limit).splitlines()
    for second in range(40):
        now = max(1, running - second % 3)
        share = max(usage - 0.01 * (second % 3), 0.0)
        lines.append(
            decode.format(second=second, running=now, token=int(pool * share), usage=share, speed=now * 42.0, queue=0)
        )
        if version != "0.4.6" and second % 5 == 0:
            lines.append(PREFILL_059.format(second=second, running=now, usage=share))
    return "\n".join(lines)


@pytest.mark.parametrize(("version", "limit", "pool", "running", "usage"), RECORDINGS)
@pytest.mark.parametrize("complaint", ["Is everything all right with this server?", "It feels slow today."])
def test_nothing_wrong_is_found_and_what_was_checked_is_said(
    version: str, limit: int, pool: int, running: int, usage: float, complaint: str
) -> None:
    verdict = assess(
        {
            "complaint": complaint,
            "launch_args": f"python -m sglang.launch_server --model-path m --tp 2 --max-running-requests {limit}",
            "evidence": [recording(version, limit, pool, running, usage)],
            "sglang_version": version,
        }
    )
    assert verdict["kind"] == "healthy", verdict["hypotheses"][:2]
    assert verdict["changes"] == []


def test_the_same_recording_with_a_killed_process_is_not_healthy() -> None:
    text = recording("0.5.9", 128, 480_000, 30, 0.4) + "\nkernel: Out of memory: Killed process 77 (sglang::schedul)"
    verdict = assess({"complaint": "", "launch_args": "", "evidence": [text], "sglang_version": "0.5.9"})
    assert verdict["kind"] != "healthy"


def test_pools_that_are_inside_what_is_used_are_not_counted_twice() -> None:
    """A host with half of its memory available after the pools were taken, and an operator who asks whether it may."""
    given = {
        "complaint": "Half the RAM is gone since the second cache is on. Is that right?",
        "launch_args": "--tp 2 --enable-hierarchical-cache --hicache-ratio 2",
        "sglang_version": "0.5.9",
        "evidence": [
            "[2026-02-20 08:00:40 TP0] Allocating 150.00 GB host memory for hierarchical KV cache.",
            "[2026-02-20 08:02:01] The server is fired up and ready to roll!",
            "[2026-02-20 10:00:00 TP0] Prefill batch, #new-seq: 1, #new-token: 300, #cached-token: 9000, token usage: 0.30, #running-req: 9, #queue-req: 0, input throughput (token/s): 1002.10, cuda graph: False",
            "              total        used        free      shared  buff/cache   available\nMem:            755         380         300           3          75         360",
        ],
    }
    verdict = assess(given)
    assert verdict["kind"] != "cause", verdict["label"]
    assert not verdict["changes"]


@pytest.mark.parametrize(
    "refused",
    [
        "dmesg: read kernel buffer failed: Operation not permitted",
        "ls: cannot access '/root/.cache/x': Permission denied",
        "Got permission denied while trying to connect to the Docker daemon socket",
    ],
)
def test_a_refusal_of_the_operators_own_command_is_none_of_the_servers(refused: str) -> None:
    given = {
        "complaint": "gone this night",
        "launch_args": "--tp 2",
        "evidence": ["Main process exited, code=killed, status=9/KILL", refused],
    }
    verdict = assess(given)
    assert verdict["kind"] == "abstain", verdict["label"]


ONE_LINE = "[2026-02-20 10:00:00 TP0] Decode batch, #running-req: {}, #token: 9000, token usage: 0.03, cuda graph: True, gen throughput (token/s): 150.00, #queue-req: 0"


@pytest.mark.parametrize(
    ("complaint", "running"),
    [
        ("nginx gives 502 now and then", 5),
        ("upstream prematurely closed connection", 9),
        ("25 % less tokens per second since the new driver and the new image", 20),
        ("is a draft worth it here?", 1),
    ],
)
def test_one_good_line_refutes_no_symptom_and_shows_no_server_at_work(complaint: str, running: int) -> None:
    given = {"complaint": complaint, "launch_args": "--tp 4", "evidence": [ONE_LINE.format(running)]}
    assert assess(given)["kind"] == "abstain"


def test_an_embedding_server_that_answers_is_well_without_a_decode_line() -> None:
    line = "[2026-04-04 10:00:0{}] Prefill batch, #new-seq: 8, #new-token: 2100, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0, input throughput (token/s): 21000.00, cuda graph: False"
    given = {
        "complaint": "Should there be decode lines?",
        "launch_args": "--is-embedding",
        "evidence": [line.format(second) for second in range(3)],
    }
    assert assess(given)["kind"] == "healthy"
