"""Bodies of the read-only endpoints."""

from __future__ import annotations

import json

import pytest

from tools.host.parsers import parse
from transcripts.facts import Evidence, Facts

URL = "curl -s -S -m 5 http://127.0.0.1:30000"


def read(probe: str, text: str) -> Facts:
    return Facts(parse(Evidence("E3", probe, f"{URL}/{probe}", "h", "", 0, text)))


def test_loads_of_two_replicas() -> None:
    def load(rank: int, running: int) -> dict[str, object]:
        return {
            "dp_rank": rank, "num_running_reqs": running, "num_waiting_reqs": 17, "num_used_tokens": 95_526,
            "max_total_num_tokens": 159_209, "token_usage": 0.6, "gen_throughput": 900.5, "cache_hit_rate": 0.1,
            "utilization": 1.0, "max_running_requests": 48,
            "memory": {"weight_gb": 72.35, "kv_cache_gb": 10.42, "graph_gb": 1.5, "token_capacity": 159_209},
            "speculative": {"accept_length": 2.71, "accept_rate": 0.6}, "queues": {"waiting": 17, "grammar": 3},
        }  # fmt: skip

    facts = read("loads", json.dumps({"version": "0.5.9", "loads": [load(0, 48), load(1, 30)], "aggregate": {}}))
    assert facts.number("metric", "num_running_reqs") == 78
    assert facts.number("metric", "num_queue_reqs") == 34
    assert facts.number("metric", "token_usage") == 0.6
    assert facts.number("metric", "queue_grammar") == 3
    assert facts.number("metric", "spec_accept_length") == 2.71
    assert facts.number("kv_pool") == 159_209
    assert facts.number("kv_pool_gib") == 10.42
    assert facts.number("running_limit") == 48
    assert facts.text("version") == "0.5.9"


def test_server_info_keeps_no_key() -> None:
    body = {
        "model_path": "/models/kimi", "tp_size": 8, "api_key": "sk-1", "admin_api_key": "sk-2",
        "max_running_requests": None, "hicache_ratio": 2.0, "version": "0.5.9", "max_total_num_tokens": 159_209,
        "internal_states": [
            {
                "api_key": "sk-1",
                "memory_usage": {"weight": 72.35, "kvcache": 10.42, "token_capacity": 159_209, "graph": 1.5},
                "effective_max_running_requests_per_dp": 48, "avg_spec_accept_length": 2.5,
            }
        ],
    }  # fmt: skip
    facts = read("server_info", json.dumps(body))
    assert facts.number("server_arg", "tp_size") == 8
    assert facts.text("server_arg", "max_running_requests") == "None"
    assert facts.number("running_limit") == 48
    assert facts.number("kv_pool") == 159_209
    assert facts.number("weights_gib") == 72.35
    assert facts.text("version") == "0.5.9"
    assert not any("sk-" in str(fact.value) for fact in facts)


def test_server_info_with_the_command_as_typed() -> None:
    body = {
        "tp_size": 8,
        "launch_command": "python3 -m sglang.launch_server --tp 8 --api-key sk-1",
        "internal_states": [],
    }
    facts = read("server_info", json.dumps(body))
    assert facts.text("flag", "--tp") == "8"
    assert not any("sk-1" in str(fact.value) for fact in facts)


def test_refusals() -> None:
    assert read("server_info", '{"error":"Unauthorized"}').number("endpoint_status") == 401
    assert read("metrics", '{"detail":"Not Found"}').number("endpoint_status", "/metrics") == 404
    assert read("loads", "HTTP/1.1 503 Service Unavailable\r\n\r\n").number("endpoint_status") == 503


def test_models_and_configs() -> None:
    models = read("models", json.dumps({"data": [{"id": "kimi-k2.5", "max_model_len": 262_144}]}))
    assert models.text("served_model") == "kimi-k2.5"
    assert models.number("context_len") == 262_144
    config = {"text_config": {"num_hidden_layers": 61, "kv_lora_rank": 512}, "id2label": {"0": "x"}}
    target = read("model_config", json.dumps(config, indent=2))
    assert json.loads(target.text("model_config")) == {"text_config": config["text_config"]}
    draft = read("draft_config", "{}")
    assert draft.get("model_config", "draft") is not None


METRICS = """\
# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="kimi-k2.5",pp_rank="0",tp_rank="0"} 12.0
sglang:num_running_reqs{engine_type="unified",model_name="kimi-k2.5",pp_rank="0",tp_rank="1"} 12.0
sglang:token_usage{dp_rank="0",tp_rank="0"} 0.4
sglang:token_usage{dp_rank="1",tp_rank="0"} 0.2
sglang:max_total_num_tokens{dp_rank="0",tp_rank="0"} 159209.0
sglang:max_total_num_tokens{dp_rank="1",tp_rank="0"} 159209.0
sglang:evicted_tokens_total{tp_rank="0"} 1.84e+07
sglang:cached_tokens_total{cache_source="device",model_name="a{b}\\"c"} 300.0
sglang:cached_tokens_total{cache_source="host",model_name="a{b}\\"c"} 100.0
sglang:time_to_first_token_seconds_bucket{le="0.5"} 10.0
sglang:time_to_first_token_seconds_bucket{le="2.0"} 96.0
sglang:time_to_first_token_seconds_bucket{le="+Inf"} 100.0
sglang:time_to_first_token_seconds_sum{} 150.0
sglang:time_to_first_token_seconds_count{} 100.0
python_gc_objects_collected_total{generation="0"} 5
"""


def test_metrics() -> None:
    facts = read("metrics", METRICS)
    assert facts.number("metric", "num_running_reqs") == 12
    assert facts.number("metric", "token_usage") == 0.3
    assert facts.number("metric", "max_total_num_tokens") == 159_209
    assert facts.number("metric", "evicted_tokens_total") == 18_400_000
    assert facts.number("metric", "cached_tokens_total") == 400
    assert facts.number("metric", "cached_tokens_total{cache_source=host}") == 100
    assert facts.number("metric", "time_to_first_token_seconds:p95") == 2.0
    assert facts.number("metric", "time_to_first_token_seconds_count") == 100
    assert facts.get("metric", "python_gc_objects_collected_total") is None


def test_two_samples_in_one_text() -> None:
    first = 'sglang:evicted_tokens_total{tp_rank="0"} 100.0 1000000\nsglang:cache_hit_rate{tp_rank="0"} 0.8 1000000\n'
    last = 'sglang:evicted_tokens_total{tp_rank="0"} 700.0 1060000\nsglang:cache_hit_rate{tp_rank="0"} 0.3 1060000\n'
    facts = read("metrics", first + last)
    assert facts.number("metric", "evicted_tokens_total") == 700
    assert facts.number("metric_change", "evicted_tokens_total") == 600
    assert facts.number("metric_change", "cache_hit_rate") == -0.5
    assert facts.number("request_rate", "evicted_tokens_total") == 10.0


def test_a_line_that_only_looks_like_a_metric_is_none(caplog: pytest.LogCaptureFixture) -> None:
    text = "sglang_version: 0.5.16\nsglang:num_running_reqs 48.0\nsglang:num_running_reqs 1.2.3\n"
    facts = parse(Evidence("E1", "pasted", "", "h", "", 0, text))
    assert [(fact.scope, fact.value) for fact in facts if fact.name == "metric"] == [("num_running_reqs", 48)]
    assert caplog.records == []
