"""Lines of the journal are those that the real tree of the version would print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tools.host.parsers.templates import render
from tests.tools.host.recorded.hosts import journal, newer
from tools.host.recorded import load

AFTER = re.compile(r"^\[[-0-9: ]{19}(?: TP\d)?\] (?:(?:INFO|WARNING) server_args\.py:\d+: )?")


def said(lines: list[str], begins: str, nth: int = 0) -> str:
    """The nth message that begins so, without its stamp."""
    return [text for line in lines if (text := AFTER.sub("", line)).startswith(begins)][nth]


def test_lines_of_0_5_9() -> None:
    slots, kv = load("slots"), load("kv")
    lines, ledger, boot = journal(slots), slots.ledger, slots.figures.boot
    assert ledger is not None
    assert boot is not None
    runner, figures = "model_runner.py", {
        "get_available_gpu_memory": ledger.before_weights,
        "time": boot.weights_s,
        "type": "KimiK25ForConditionalGeneration",
        "dtype": "torch.bfloat16",
        "kv_cache_dtype": "torch.bfloat16",
        "after_avail_memory": ledger.after_weights,
        "weight_load_mem_usage": ledger.before_weights - ledger.after_weights,
    }  # fmt: skip
    for begins in ("Load weight begin", "Load weight end", "Using KV cache dtype"):
        assert said(lines, begins) == render("0.5.9", begins, figures, within=runner)
    pool = {"num_tokens": ledger.pool.tokens, "kv_size_GB": ledger.pool.keys_gib}
    begins = "KV Cache is allocated. #tokens: {}, KV size"
    assert said(lines, "KV Cache is allocated") == render("0.5.9", begins, pool, within="memory_pool.py")
    assert ledger.draft_pool is not None
    halves = {"num_tokens": ledger.pool.tokens, "k_size_GB": ledger.draft_pool.keys_gib}
    halves["v_size_GB"] = ledger.draft_pool.values_gib or 0.0
    begins = "KV Cache is allocated. #tokens: {}, K size"
    assert said(lines, "KV Cache is allocated", 8) == render("0.5.9", begins, halves, within="memory_pool.py")
    end = {"get_available_gpu_memory": ledger.pool_end}
    assert said(lines, "Memory pool end") == render(
        "0.5.9", "Memory pool end", end, within="model_runner_kv_cache_mixin.py"
    )
    draft = {
        "time": boot.draft_graphs_s,
        "before_mem": boot.draft_graph_gib + ledger.draft_graph_end,
        "before_mem - after_mem": boot.draft_graph_gib,
        "after_mem": ledger.draft_graph_end,
    }
    begins = "Capture draft cuda graph end"
    assert said(lines, begins) == render("0.5.9", begins, draft, within="eagle_worker_v2.py")
    summary = {
        "max_total_num_tokens": 159_209,
        "chunked_prefill_size": 8192,
        "max_prefill_tokens": 16384,
        "max_running_requests": 48,
        "context_len": 262_144,
        "device": "available_gpu_mem",
        "avail_mem": ledger.summary,
    }
    assert said(lines, "max_total_num_tokens=") == render(
        "0.5.9", "max_total_num_tokens={}, ", summary, within="scheduler.py"
    )
    reset = "Max running requests is reset to 48"
    assert said(lines, reset) == render("0.5.9", reset, {}, within="server_args.py")
    thrown = said(journal(kv), "KV cache pool is full")
    prefix = "KV cache pool is full. Retract requests. "
    assert render("0.5.9", prefix, {}, within="scheduler.py") == prefix
    shape = render(
        "0.5.9", "#retracted_reqs: {}", {"retracted_reqs": 1, "new_token_gained": 7, "len": 1}, within="scheduler.py"
    )
    assert re.sub(r"#new_tokens_gained: \d+", "#new_tokens_gained: 7", thrown.removeprefix(prefix)).startswith(shape)


@pytest.mark.parametrize("version", ["0.5.9", "0.5.23"])
def test_parts_of_load_lines(version: str, tmp_path: Path) -> None:
    lines = journal(newer(tmp_path) if version == "0.5.23" else load("slots"))
    decode, prefill = said(lines, "Decode batch", 300), said(lines, "Prefill batch", 300)
    numbers = {key: int(value) for key, value in re.findall(r"#([a-z-]+): (\d+)", prefill)}
    rate = re.search(r"input throughput \(token/s\): ([\d.]+)", prefill)
    accept = re.search(r"accept len: ([\d.]+), accept rate: ([\d.]+), ", decode)
    assert rate is not None
    assert accept is not None
    within = "scheduler_metrics_mixin.py" if version == "0.5.9" else "metrics_reporter.py"
    figures: dict[str, object] = {
        "iter_msg": "",
        "num_new_seqs": numbers["new-seq"],
        "log_input_tokens": numbers["new-token"],
        "log_hit_tokens": numbers["cached-token"],
        "token_usage_msg": re.search(r"token usage: [\d.]+, ", prefill)[0],  # type: ignore[index]
        "running_bs": numbers["running-req"],
        "num_running_reqs": numbers["running-req"],
        "waiting_queue": numbers["queue-req"],
        "num_pending_tokens": numbers.get("pending-token", 0),
        "last_input_throughput": float(rate[1]),
        "spec_accept_length": float(accept[1]),
        "spec_accept_rate": float(accept[2]),
    }
    assert prefill.startswith(render(version, "Prefill batch{}, #new-seq", figures, within=within))
    assert render(version, "input throughput (token/s): {}", figures, within=within).rstrip(", ") in prefill
    assert render(version, "accept len: {}", figures, within=within) in decode
