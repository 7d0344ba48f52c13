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
    assert first(refused(300, 280, size=300)) == ("lower", "--hicache-size", 69)  # a page more than asked for
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
        'CUDA error: an illegal memory access was encountered\n  File "/s/flashinfer.py", line 8, in forward_extend',
        "ValueError: token_to_kv_pool_allocator memory leak detected! available_size=9, self.max_total_num_tokens=10",
    ],
)
def test_a_later_version_corrects_only_what_is_of_a_known_one(line: str) -> None:
    unknown = assess({"complaint": "it crashed", "evidence": [line]})
    assert (unknown["kind"], unknown["changes"]) == ("abstain", [])
    known = assess({"complaint": "it crashed", "evidence": [line], "sglang_version": "0.5.6"})
    assert (known["label"], known["changes"][0]["do"]) == ("version.bug_fixed_upstream", "upgrade")


def test_what_was_passed_on_is_less_certain_than_what_was_looked_at() -> None:
    lines = ["cudaHostRegister failed", "ulimit -l: 8192", "Allocating 91.00 GB host memory for hierarchical KV cache."]
    verdict = assess({"complaint": "hicache dies", "launch_args": "--enable-hierarchical-cache", "evidence": lines})
    assert (verdict["label"], verdict["certainty"]) == ("hicache.pin_failure", 0.9)


@pytest.mark.parametrize("state", ["SW Thermal Slowdown                : Active", "HW Slowdown : Active"])
def test_a_card_that_is_slowed_down_is_no_healthy_server_and_no_matter_of_settings(state: str) -> None:
    line = (
        "[2026-09-01 10:45:2{} TP0] Decode batch, #running-req: 6, #token: 18220, token usage: 0.05, "
        "cuda graph: True, gen throughput (token/s): 41.11, #queue-req: 0"
    )
    lines = [line.format(number) for number in range(3)]
    slowed = assess({"complaint": "everything is slow since monday", "evidence": [*lines, state]})
    assert (slowed["kind"], slowed["changes"]) == ("abstain", [])
    fine = assess(
        {"complaint": "everything is slow since monday", "evidence": [*lines, state.replace("Active", "Not Active")]}
    )
    assert fine["kind"] == "healthy"


def test_a_bare_read_of_forbidden_memory_names_no_cause() -> None:
    line = "RuntimeError: CUDA error: an illegal memory access was encountered"
    verdict = assess({"complaint": line, "evidence": [line], "sglang_version": "0.5.9"})
    assert (verdict["kind"], verdict["changes"]) == ("abstain", [])
    assert any("Xid" in one for one in verdict["missing"])


POD = """    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
    Limits:
      memory:          96Gi
      nvidia.com/gpu:  2
    Requests:
      memory:          32Gi
[2026-11-02 02:00:00] server_args=ServerArgs(model_path='/models/m', tp_size=2, enable_hierarchical_cache=True, hicache_size=60)
[2026-11-02 02:02:00 TP0] Allocating 60.00 GB host memory for hierarchical KV cache."""  # noqa: E501


def test_a_pods_limit_is_summed_over_all_ranks_and_the_option_in_force_is_changed() -> None:
    verdict = assess({"complaint": "the pod restarts", "evidence": [POD]})
    assert verdict["label"] == "host.container_memory_limit"
    changes = {one["flag"]: one for one in verdict["changes"]}
    assert (changes["--memory"]["to"], changes["--hicache-size"]["to"]) == ("more than 132g", 46)
    assert "2 x 60 GB" in changes["--memory"]["why"]


REFUSED = "Input length (33000 tokens) exceeds the maximum allowed length (32762 tokens). Use a shorter input."


@pytest.mark.parametrize(
    ("pool", "context", "named"), [("", "", False), ("400000", "32768", False), ("32767", "131072", True)]
)
def test_a_refused_input_tells_of_the_pool_only_beside_pool_or_context(pool: str, context: str, named: bool) -> None:
    ready = f"[2026-11-02 02:00:00] max_total_num_tokens={pool}, context_len={context}, max_running_requests=64"
    verdict = assess({"complaint": "users get errors", "evidence": [*([ready] if pool else []), REFUSED]})
    assert (verdict["kind"] == "cause") is named
    assert bool(verdict["changes"]) is named


def test_a_host_cache_without_hits_is_not_healthy() -> None:
    start = "[2026-11-02 02:00:00] server_args=ServerArgs(model_path='/models/m', enable_hierarchical_cache=True)"
    ready = "[2026-11-02 02:01:00] The server is fired up and ready to roll!"
    line = "[2026-11-02 03:00:00 TP0] Prefill batch. #new-seq: 1, #new-token: 6000, #cached-token: 9, token usage: 0.30, #running-req: 4, #queue-req: 0"  # noqa: E501
    verdict = assess({"complaint": "hicache brings nothing", "evidence": ["\n".join([start, ready] + [line] * 12)]})
    assert verdict["label"] == "hicache.no_benefit_workload_or_old_io_path"
    assert any("108 of 72,108 tokens" in one["text"] for one in verdict["hypotheses"][0]["supporting"])


def test_ranks_beyond_one_machine_name_what_a_second_one_needs() -> None:
    oom = "[2026-11-02 02:00:00] weight_loader: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 1 has a total capacity of 79.1 GiB of which 0.20 GiB is free"  # noqa: E501
    for tp, told in ((8, True), (2, False)):
        verdict = assess({"complaint": "dies at load", "launch_args": f"--tp {tp}", "evidence": [oom]})
        change = verdict["changes"][0]
        assert (change["flag"], change["to"]) == ("--tp-size", 2 * tp)
        assert [each["to"] for each in verdict["changes"] if each["flag"] == "--nnodes"] == ([2] if told else [])
        assert ("--dist-init-addr" in verdict["changes"][-1]["why"]) is told


def test_a_step_of_the_fraction_that_rests_on_no_sum_says_so() -> None:
    line = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
    given = {"complaint": "it does not start", "launch_args": "--mem-fraction-static 0.6", "evidence": [line]}
    assert "how much is not known" in assess(given)["changes"][0]["why"]
