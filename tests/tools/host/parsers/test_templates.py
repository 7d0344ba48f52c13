"""Every line is read in the words of the version that printed it."""

from __future__ import annotations

import pytest

from tests.tools.host.parsers import boots
from tests.tools.host.parsers.templates import render
from tools.host.parsers import parse
from transcripts.facts import Evidence, Facts

VERSIONS = ("0.4.6", "0.5.9", "0.5.16", "0.5.23")


def read(lines: list[str], probe: str = "journal_boot") -> Facts:
    return Facts(parse(Evidence("E5", probe, "journalctl", "h", "", 0, "\n".join(lines))))


@pytest.mark.parametrize("version", VERSIONS)
def test_boot_of_target_and_draft(version: str) -> None:
    facts = read(boots.boot(version))
    expected = {
        ("starts", ""): 1,
        ("weights_before_gib", ""): 93.98,
        ("weights_before_gib", "TP0"): 94.06,
        ("weights_after_gib", ""): 21.71,
        ("weights_gib", ""): 72.35,
        ("weights_before_gib", "draft"): 9.6,
        ("weights_after_gib", "draft"): 8.4,
        ("kv_pool", ""): 159_209,
        ("kv_pool", "draft"): 159_209,
        ("kv_pool_gib", ""): 10.42,
        ("kv_pool_gib", "draft"): 0.47,
        ("pool_end_gib", ""): 11.2,
        ("pool_end_gib", "draft"): 7.9,
        ("graph_gib", "target"): 1.56,
        ("graph_end_gib", "target"): 9.64,
        ("graph_gib", "draft"): 0.4,
        ("running_limit", ""): 48,
        ("context_len", ""): 262_144,
        ("host_pool_gb", ""): 44.75,
        ("host_pool_ranks", ""): 8,
        ("host_pool_total_gb", ""): 358.0,
        ("load_seconds", ""): 49.0,
        ("ready", ""): True,
    }
    assert {key: facts.number(*key) for key in expected} == expected
    assert facts.text("model_class", "draft") == "LlamaForCausalLMEagle3"
    if boots.version_tuple(version) >= (0, 5, 6):
        assert facts.number("spec_default_reset") == 48


@pytest.mark.parametrize("version", VERSIONS)
def test_arguments_without_keys(version: str) -> None:
    facts = read(boots.boot(version))
    assert facts.number("server_arg", "mem_fraction_static") == 0.88
    assert facts.text("server_arg", "model_path") == "/models/Kimi, K2.5 (INT4)"
    assert facts.text("server_arg", "served_model_name") == 'it\'s \\ "quoted", {really}'
    assert facts.text("server_arg", "chunked_prefill_size") == "None"
    assert facts.get("server_arg", "api_key") is None
    assert not any("sk-do-not-keep" in str(fact.value) for fact in facts)


@pytest.mark.parametrize("version", VERSIONS)
def test_load_lines(version: str) -> None:
    lines = [
        f"[2026-02-10 03:12:01 TP0] {boots.prefill(version, 1024, 2048, 40, 3)}",
        f"[2026-02-10 03:12:04 TP0] {boots.decode(version, 48, 95_526, 17, accept=2.71)}",
        f"[2026-02-10 03:12:05 TP0] {boots.retract(version, 1, 7712)}",
    ]
    facts = read(lines, "journal_recent")
    expected = {
        "running_p50": 48,
        "queue_p50": 17,
        "usage_p50": 0.6,
        "accept_len_p50": 2.71,
        "gen_throughput_p50": 912.4,
        "tokens_per_request": 1990.1,
        "new_tokens": 1024,
        "cached_tokens": 2048,
        "prefill_queue_p50": 3,
        "retractions": 1,
        "retracted_requests": 1,
        "new_token_ratio_max": 0.1845,
        "load_window_s": 3.0,
    }
    assert {name: facts.number(name) for name in expected} == expected
    if boots.version_tuple(version) >= (0, 5, 9):
        assert facts.number("retraction_gain_p50") == 7712
        assert facts.number("graph_false_share") == 0
    running = facts.get("running_p50")
    assert running is not None
    assert running.source == "E5:2"


@pytest.mark.parametrize("version", ["0.5.9", "0.5.16", "0.5.23"])
def test_sliding_window_pools(version: str) -> None:
    figures = {
        "full_max_total_num_tokens": 40_000,
        "swa_max_total_num_tokens": 32_000,
        "full_tokens": 40_000,
        "swa_tokens": 32_000,
    }
    sizes = render(version, "Use sliding window memory pool. full_layer_tokens", figures)
    lines = [f"[2026-02-10 03:11:04] {sizes}"]
    for label, tokens, k_gib in (("SWA", 32_000, 1.5), ("Full", 40_000, 0.5)):
        pool = {
            "num_tokens": tokens,
            "k_size_GB": k_gib,
            "v_size_GB": k_gib,
            "dtype": "torch.bfloat16",
            "cache_name": f"{label} KV Cache",
            "post_capture_active": "is allocated",
        }
        shape = {
            "0.5.9": "KV Cache is allocated. #tokens: {}, K size",
            "0.5.23": "{} {}. dtype: {}, #tokens: {}, K size",
        }
        starts = shape.get(version, "KV Cache is allocated. dtype: {}, #tokens: {}, K size")
        lines.append(f"[2026-02-10 03:11:05] {render(version, starts, pool, within='memory_pool.py')}")
    facts = read(lines)
    assert facts.number("kv_pool", "full") == 40_000
    assert facts.number("kv_pool", "swa") == 32_000
    assert facts.number("kv_pool_gib", "full") == 1.0
    assert facts.number("kv_pool_gib", "swa") == 3.0
    whole = facts.get("kv_pool_gib", "")
    assert whole is not None
    assert (whole.value, whole.grade) == (4.0, "derived")


@pytest.mark.parametrize("version", ["0.5.9", "0.5.16", "0.5.23"])
def test_state_slots(version: str) -> None:
    figures = {
        "size": 60,
        "get_tensor_size_bytes(conv_state) / GB": 0.06,
        "get_tensor_size_bytes(temporal_state) / GB": 4.4,
    }
    line = render(version, "Mamba Cache is allocated. ", figures, within="memory_pool.py", nth=1)
    facts = read([f"[2026-02-10 03:11:04] {line}"])
    assert facts.number("state_slots") == 60
    assert facts.number("state_pool_gib") == 4.46


def test_limit_imposed_by_state_slots() -> None:
    figures = {"mamba_cap": 9, "max_mamba_cache_size": 47, "ratio": 5}
    line = render("0.5.23", "max_running_requests is capped to %d by the mamba state", figures)
    facts = read([f"[2026-02-10 03:11:04] {line}"])
    assert facts.number("state_cap") == 9
    assert facts.number("state_slots") == 47
    assert facts.number("state_cap", "slots_per_request") == 5


def test_pool_resized_after_capture_replaces_the_upper_bound() -> None:
    bound = {"dtype": "torch.bfloat16", "cache_name": "KV Cache", "post_capture_active": "VA upper bound"}
    bound_line = {**bound, "num_tokens": 900_000, "k_size_GB": 60.0, "v_size_GB": 60.0}
    later = {
        "pool.dtype": "torch.bfloat16",
        "config.max_total_num_tokens": 500_000,
        "pool.post_capture_backed_bytes / (1 << 30)": 66.5,
        "get_available_gpu_memory": 3.2,
    }
    lines = [
        render("0.5.23", "{} {}. dtype: {}, #tokens: {}, K size", bound_line, within="memory_pool.py"),
        render("0.5.23", "Post-capture KV sizing: KV cache allocated.", later),
        boots.summary("0.5.23").replace("159209", "500000"),
    ]
    facts = read([f"[2026-02-10 03:11:0{n}] {line}" for n, line in enumerate(lines)])
    assert facts.number("kv_pool") == 500_000
    assert facts.number("kv_pool_gib") == 66.5
    assert facts.number("kv_pool_gib", "upper bound") == 120.0


FIGURES = {
    "local_gpu_memory": 0.62, "perf_counter": 4.1, "tic": 4.1, "max_total_tokens": 900_000, "user_limit": 900_000,
    "max_total_num_tokens": 159_209, "token_capacity": 159_209, "full": 4_321, "swa": 1_234, "sizes": 9,
    "batch_hashes": 2, "recv_req": "file", "signum": 15, "frame": None, "input_token_num": 9, "max_new_tokens": 9,
    "context_len": 9, "len": 9, "max_req_input_len": 9, "req": "7f", "message": "no room", "key": "k",
}  # fmt: skip


def _rendered(version: str, starts: str) -> Facts:
    return read([f"[2026-02-10 03:12:01 TP0] {render(version, starts, FIGURES)}"])


@pytest.mark.parametrize("version", ["0.4.6", "0.5.9", "0.5.16"])
def test_what_the_process_group_took_and_what_fits(version: str) -> None:
    assert _rendered(version, "Init torch distributed ends. ").number("dist_init_gib") == 0.62
    assert _rendered(version, "max_total_tokens=").number("pool_profiled") == 159_209


@pytest.mark.parametrize("version", ["0.5.16", "0.5.23"])
def test_pools_that_no_later_line_tells(version: str) -> None:
    facts = _rendered(version, "DSV4 pool sizes: full=")
    assert (facts.number("kv_pool", "full"), facts.number("kv_pool", "swa")) == (4_321, 1_234)


def test_the_ratio_that_the_server_chose() -> None:
    headroom = "[2026-02-10 03:12:01 TP0] HiCache memory headroom: host 396.0 GiB, cgroup 380.5 GiB"
    sized = (
        "[2026-02-10 03:12:01 TP0] HiCache auto-sizing: ratio 2.00 -> 3.10; 44.75 GiB host memory per rank (fraction"
    )
    facts = read([headroom, f"{sized} 0.80, 8 ranks on this host), host pools 40.20 GiB."])
    assert facts.number("host_ratio_chosen") == 3.1
    assert (facts.number("host_headroom_gib", "host"), facts.number("host_headroom_gib", "cgroup")) == (396.0, 380.5)


@pytest.mark.parametrize("version", ["0.4.6", "0.5.9", "0.5.16", "0.5.23"])
def test_the_chunk_that_dp_attention_sets(version: str) -> None:
    older = version in {"0.4.6", "0.5.9"}
    starts = "DP attention is enabled. The chunked prefill" if older else "DP attention is enabled. chunked prefill"
    figures = {"chunked_prefill_size": 2_048, "original_chunked_prefill_size": 16_384}
    facts = read([f"[2026-02-10 03:11:04] {render(version, starts, figures)}"])
    assert facts.number("chunk_adjusted") == 2_048
    assert facts.get("message", "dp_chunk_adjusted") is not None


SAID = (
    ("0.5.9", "Write page to storage: ", "l3_failed"),
    ("0.5.9", "Attached HiCache storage backend: ", "l3_attached"),
    ("0.5.9", "SIGTERM received. ", "stopping"),
    ("0.5.9", "Received sigquit from a child process", "child_failed"),
    ("0.5.9", "Requested token count (", "input_too_long"),
    ("0.4.6", "Request length is longer than the KV cache pool size", "input_too_long"),
    ("0.5.23", "retract_decode: aborted request ", "last_request"),
    ("0.5.23", "Failed to fetch ", "l3_failed"),
)


@pytest.mark.parametrize(("version", "starts", "name"), SAID)
def test_messages_of_a_version(version: str, starts: str, name: str) -> None:
    assert _rendered(version, starts).get("message", name) is not None


@pytest.mark.parametrize(
    "line",
    [
        "other ranks that didn't finish loading. It is likely due to unexpected failures (e.g., OOM) or a slow node.",
        "2. if it is an OOM problem, set --mem-fraction-static to a smaller value",
        "If you hit GPU OOM issue, please adjust the memory fraction",
        "retract_decode: aborted last request 7f due to OOM",
        "Please set proper `--max-total-tokens` to avoid the out-of-memory error.",
    ],
)
def test_a_shortage_that_is_only_supposed_is_none(line: str) -> None:
    facts = read([f"[2026-02-10 03:12:01 TP0] {line}"], "journal_recent")
    assert facts.get("message", "cuda_oom") is None
    assert "oom_phase" not in facts
    real = read([f"[2026-02-10 03:12:01 TP0] {line}", "torch.OutOfMemoryError: CUDA out of memory."], "journal_recent")
    assert real.get("message", "cuda_oom") is not None
    assert "oom_phase" in real
