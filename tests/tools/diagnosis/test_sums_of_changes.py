"""What the log's own numbers refuse is not advised: host pools of all ranks against the memory the failure names."""

from __future__ import annotations

from typing import Any

import pytest

from agent.incident import assess

POOL = "[2026-11-02 02:03:00 TP0] KV Cache is allocated. #tokens: 900000, K size: 20.00 GB, V size: 20.00 GB"


def refused(asked: float, free: float, *, ratio: float = 0, size: int = 0, tp: int = 4, version: str = "0.5.9") -> Any:
    settings = f"hicache_ratio={ratio or 2.0}, hicache_size={size}"
    start = f"server_args=ServerArgs(model_path='/models/m', tp_size={tp}, enable_hierarchical_cache=True, {settings})"
    refusal = f"Not enough host memory available. Requesting {asked:.2f} GB but only have {free:.2f} GB free."
    evidence = [f"[2026-11-02 02:00:00] {start}", POOL, f"ValueError: {refusal}"]
    complaint = "the host cache does not start"
    return assess({"complaint": complaint, "sglang_version": version, "evidence": evidence})


def first(verdict: Any) -> tuple[str, str, Any]:
    change = verdict["changes"][0]
    return change["do"], change["flag"], change["to"]


@pytest.mark.parametrize(
    ("asked", "free", "ratio", "version", "expected"),
    [
        (214.7, 150.0, 5.0, "0.5.9", ("remove", "--enable-hierarchical-cache", None)),
        (214.7, 60.0, 5.0, "0.5.20", ("lower", "--hicache-ratio", 0.3)),  # later versions take a ratio below 1
        (214.7, 20.0, 5.0, "0.5.20", ("remove", "--enable-hierarchical-cache", None)),
        (429.5, 400.0, 10.0, "0.5.9", ("lower", "--hicache-ratio", 2.3)),
    ],
)
def test_a_ratio_fits_all_ranks_or_hicache_goes(
    asked: float, free: float, ratio: float, version: str, expected: tuple[str, str, Any]
) -> None:
    verdict = refused(asked, free, ratio=ratio, version=version)
    assert verdict["label"] == "hicache.host_ram_oversubscribed"
    assert first(verdict) == expected
    assert f"{free:.0f} GB" in verdict["changes"][0]["why"]


def test_a_size_fits_all_ranks_and_exceeds_the_gpu_pool_or_hicache_goes() -> None:
    assert first(refused(300, 280, size=300)) == ("lower", "--hicache-size", 70)
    assert first(refused(300, 100, size=300)) == ("remove", "--enable-hierarchical-cache", None)


SLOW = "[2026-11-02 03:00:00 TP0] Decode batch. #running-req: 3, #token: 9000, token usage: 0.04, cuda graph: False, gen throughput (token/s): 33.10, #queue-req: 0"  # noqa: E501


@pytest.mark.parametrize(
    ("launch", "settings", "flag"),
    [
        ("--tp 2 --disable-cuda-graph", "", "--disable-cuda-graph"),
        ("", "disable_cuda_graph=True, ", "--disable-cuda-graph"),
        ("--tp 2 --cuda-graph-backend-decode disabled", "", "--cuda-graph-backend-decode"),
    ],
)
def test_a_switch_that_turns_graphs_off_is_what_goes(launch: str, settings: str, flag: str) -> None:
    start = f"[2026-11-02 02:00:00] server_args=ServerArgs(model_path='/models/m', tp_size=2, {settings}port=30000)"
    verdict = assess({"complaint": "it is slow", "launch_args": launch, "evidence": [start, SLOW, SLOW, SLOW]})
    assert verdict["label"] == "perf.decode_exceeds_graph_bs"
    assert [(one["do"], one["flag"]) for one in verdict["changes"]] == [("remove", flag)]
    assert flag in verdict["hypotheses"][0]["supporting"][0]["text"]


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "ValueError: token_to_kv_pool_allocator memory leak detected! available_size=9, self.max_total_num_tokens=10",
    ],
)
def test_a_later_version_corrects_only_what_is_of_a_known_one(line: str) -> None:
    unknown = assess({"complaint": "it crashed", "evidence": [line]})
    assert (unknown["kind"], unknown["changes"]) == ("abstain", [])
    known = assess({"complaint": "it crashed", "evidence": [line], "sglang_version": "0.5.6"})
    assert (known["label"], known["changes"][0]["do"]) == ("version.bug_fixed_upstream", "upgrade")
