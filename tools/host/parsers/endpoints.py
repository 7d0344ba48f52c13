"""JSON of a server's read-only endpoints, and a model's config.json.

/v1/loads has one entry per DP rank (sglang 0.5.9 srt/entrypoints/v1_loads.py:166); /server_info has the arguments at
the top and one state per DP rank (srt/entrypoints/http_server.py:597, srt/managers/scheduler.py:2650); 0.4.6 merges the
state into the top. What a body holds twice is read once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from tools.host.parsers import command, server_args
from tools.host.parsers.page import Page
from transcripts.facts import Evidence

Json = Mapping[str, Any]

_STATUS: Final = re.compile(r"^(?:HTTP/[\d.]+ |http_code[:=] ?|status[:=] ?)(\d{3})\b", re.M)
_LAST_STATUS: Final = re.compile(r"\n(\d{3})\s*$")
_REFUSALS: Final = (
    (re.compile(r'\s*\{"(?:error|detail)":\s*"Unauthorized"'), 401),
    (re.compile(r'\s*\{"detail":\s*"Not Found"'), 404),
)
_PATH: Final = re.compile(r"https?://[^/\s'\"]+(/[^\s'\"?]*)")
_STATE_KEYS: Final = frozenset(
    {
        "internal_states",
        "last_gen_throughput",
        "memory_usage",
        "effective_max_running_requests_per_dp",
        "avg_spec_accept_length",
        "step_time_dict",
        "scheduler_info",
        "max_total_num_tokens",
        "max_req_input_len",
        "version",
        "status",
        "startup_time",
        "frontend",
        "kv_events",
        "launch_command",
    }
)
_LOAD_METRICS: Final = {
    "num_running_reqs": "num_running_reqs",
    "num_waiting_reqs": "num_queue_reqs",
    "num_used_tokens": "num_used_tokens",
    "gen_throughput": "gen_throughput",
    "token_usage": "token_usage",
    "cache_hit_rate": "cache_hit_rate",
    "utilization": "utilization",
}
_SUMMED: Final = ("num_running_reqs", "num_waiting_reqs", "num_used_tokens", "gen_throughput")
_CONFIG_LIMIT: Final = 20_000


def read_status(page: Page, evidence: Evidence) -> None:
    """`endpoint_status`: printed, or told by the body of a refusal (sglang 0.5.9 srt/utils/auth.py:130)."""
    path = _PATH.search(evidence.command)
    scope = path[1] if path else evidence.probe
    match = _STATUS.search(evidence.text) or _LAST_STATUS.search(evidence.text)
    if match is not None:
        page.add("endpoint_status", int(match[1]), evidence.text.count("\n", 0, match.start(1)) + 1, scope=scope)
        return
    for pattern, status in _REFUSALS:
        if pattern.match(evidence.text):
            page.add("endpoint_status", status, 1, scope=scope, grade="derived")
            return


def read_loads(page: Page, evidence: Evidence) -> None:
    """The last /v1/loads body in the text."""
    for body, line in _bodies(evidence.text)[-1:]:
        if isinstance(body.get("version"), str):
            page.add("version", body["version"], line)
        loads: list[Json] = [load for load in body.get("loads", ()) if isinstance(load, dict)]
        if loads:
            _write_loads(page, loads, line)


def _write_loads(page: Page, loads: list[Json], line: int) -> None:
    for key, name in _LOAD_METRICS.items():
        values = [load[key] for load in loads if _is_number(load.get(key))]
        if values:
            total = sum(values)
            page.add("metric", total if key in _SUMMED else round(total / len(values), 4), line, scope=name)
    for key, name in (("max_total_num_tokens", "kv_pool"), ("max_running_requests", "running_limit")):
        _least(page, name, [load.get(key) for load in loads], line)
    memory = [load["memory"] for load in loads if isinstance(load.get("memory"), dict)]
    _write_memory(
        page, memory, line, {"weight_gb": "weights_gib", "kv_cache_gb": "kv_pool_gib", "graph_gb": "graphs_gib"}
    )
    for load in loads:
        speculative, queues = load.get("speculative"), load.get("queues")
        if isinstance(speculative, dict) and _is_number(speculative.get("accept_length")):
            page.add("metric", speculative["accept_length"], line, scope="spec_accept_length")
        if isinstance(queues, dict):
            for name, value in queues.items():
                if _is_number(value):
                    page.add("metric", value, line, scope=f"queue_{name}")


def read_server_info(page: Page, evidence: Evidence) -> None:
    """Arguments in effect, version, pools and limits of /server_info or /get_server_info."""
    for body, line in _bodies(evidence.text)[-1:]:
        states: list[Json] = [state for state in body.get("internal_states", ()) if isinstance(state, dict)] or [body]
        for name, value in server_args.from_mapping({k: v for k, v in body.items() if k not in _STATE_KEYS}).items():
            page.add("server_arg", value, line, scope=name)
        if isinstance(body.get("version"), str):
            page.add("version", body["version"], line)
        tokens = [body.get("max_total_num_tokens"), *(state.get("max_total_num_tokens") for state in states)]
        _least(page, "kv_pool", tokens, line)
        _least(page, "max_input_tokens", [body.get("max_req_input_len")], line)
        limits = [state.get("effective_max_running_requests_per_dp") for state in states]
        _least(page, "running_limit", limits, line)
        memory = [state["memory_usage"] for state in states if isinstance(state.get("memory_usage"), dict)]
        _write_memory(page, memory, line, {"weight": "weights_gib", "kvcache": "kv_pool_gib", "graph": "graphs_gib"})
        accept = [
            state["avg_spec_accept_length"] for state in states if _is_number(state.get("avg_spec_accept_length"))
        ]
        if accept:
            page.add("metric", round(sum(accept) / len(accept), 4), line, scope="avg_spec_accept_length")
        launched = body.get("launch_command")
        if isinstance(launched, str):
            command.write(page, command.words(launched), line)
        elif isinstance(launched, list):
            command.write(page, [str(word) for word in launched], line)


def read_models(page: Page, evidence: Evidence) -> None:
    """/v1/models: the served name and the context length."""
    for body, line in _bodies(evidence.text)[-1:]:
        for model in body.get("data", ()):
            if isinstance(model, dict):
                if isinstance(model.get("id"), str):
                    page.add("served_model", model["id"], line)
                _least(page, "context_len", [model.get("max_model_len")], line)


def read_config(page: Page, evidence: Evidence, scope: str = "") -> None:
    """A config.json, kept whole as compact text for those who compute a model's shape."""
    for body, line in _bodies(evidence.text)[:1]:
        kept = {key: value for key, value in body.items() if key not in ("auto_map", "id2label", "label2id")}
        text = json.dumps(kept, separators=(",", ":"), ensure_ascii=False)
        if len(text) > _CONFIG_LIMIT:
            kept = {key: value for key, value in kept.items() if len(json.dumps(value)) < _CONFIG_LIMIT // 4}
            text = json.dumps(kept, separators=(",", ":"), ensure_ascii=False)
        page.add("model_config", text, line, scope=scope)


def _write_memory(page: Page, memory: list[Json], line: int, names: Mapping[str, str]) -> None:
    """Memory per rank as the server keeps it, in GiB despite its names."""
    for key, name in names.items():
        values = [one[key] for one in memory if _is_number(one.get(key))]
        if values:
            page.add(name, min(values), line)
    _least(page, "kv_pool", [one.get("token_capacity") for one in memory], line)


def _least(page: Page, name: str, values: list[Any], line: int) -> None:
    numbers = [value for value in values if _is_number(value) and value > 0]
    if numbers and not any(fact.name == name and not fact.scope for fact in page.facts):
        page.add(name, min(numbers), line)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _bodies(text: str) -> list[tuple[Json, int]]:
    """JSON objects that begin a line, with that line's number; what stands around them is passed over."""
    found: list[tuple[Json, int]] = []
    decoder = json.JSONDecoder()
    position = 0
    while position < len(text):
        start = text.find("{", position)
        if start < 0:
            break
        if start and text[start - 1] not in "\n\r\t ":
            position = start + 1
            continue
        try:
            body, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            after = text.find("\n", start)
            position = len(text) if after < 0 else after + 1
            continue
        if isinstance(body, dict):
            found.append((body, text.count("\n", 0, start) + 1))
        position = end
    return found
