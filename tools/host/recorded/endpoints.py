"""What the recorded server answers over HTTP (sglang 0.5.9 srt/entrypoints/http_server.py:540, v1_loads.py:131).

Counters come from the same events as the journal's lines, so that the two agree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tools.host.recorded.launch import Argument
from tools.host.recorded.load_log import accept_rate
from tools.host.recorded.start import Start
from tools.host.recorded.traffic import Event, Traffic


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: str
    kind: str = "application/json"


@dataclass(frozen=True, slots=True)
class Service:
    """A running server."""

    start: Start
    traffic: Traffic
    model: Mapping[str, Any]

    def get(self, target: str, *, token: str = "") -> Response:
        """A GET of a path with its query. `token` is what an Authorization header brought."""
        parts = urlsplit(target)
        path, query = parts.path, {key: values[-1] for key, values in parse_qs(parts.query).items()}
        key = self.start.arguments.get("api_key")
        if key and token != key and not path.startswith(("/health", "/metrics")):
            return Response(401, '{"error":"Unauthorized"}')
        answer = {
            "/health": lambda: Response(200, "", ""),
            "/health_generate": lambda: Response(200, "", ""),
            "/metrics": self._metrics,
            "/v1/models": self._models,
            "/v1/loads": lambda: self._loads(query),
            "/get_load": self._load,
            "/server_info": self._server_info,
            "/get_server_info": self._server_info,
            "/model_info": self._model_info,
            "/get_model_info": self._model_info,
        }.get(path)
        return answer() if answer else Response(404, '{"detail":"Not Found"}')

    @property
    def _arguments(self) -> Mapping[str, Argument]:
        return self.start.arguments

    def _state(self) -> tuple[int, int, int, float, float]:
        """running, waiting, used tokens, tokens a second, accept length: of the last decode line."""
        event: Event | None = self.traffic.last_decode
        if event is None:
            return 0, 0, 0, 0.0, 0.0
        return event.running, event.queue, event.used_tokens, event.rate, event.accept_len

    def _usage(self, used: int) -> float:
        return used / max(self.start.ledger.pool.tokens, 1)

    def _models(self) -> Response:
        name, root = self._arguments["served_model_name"], self._arguments["served_model_name"]
        entry = {
            "id": name,
            "object": "model",
            "created": round(self.start.figures.now.timestamp()),
            "owned_by": "sglang",
            "root": root,
            "parent": None,
            "max_model_len": self.start.ledger.context_len,
        }
        return Response(200, _compact({"object": "list", "data": [entry]}))

    def _model_info(self) -> Response:
        return Response(
            200,
            _compact(
                {
                    "model_path": self._arguments["model_path"],
                    "tokenizer_path": self._arguments["tokenizer_path"],
                    "is_generation": True,
                    "preferred_sampling_params": None,
                    "weight_version": "default",
                    "has_image_understanding": "vision_config" in self.model,
                    "has_audio_understanding": False,
                    "model_type": self.model.get("model_type"),
                    "architectures": self.model.get("architectures"),
                }
            ),
        )

    def _memory(self) -> dict[str, float | int]:
        ledger = self.start.ledger
        return {
            "weight": round(ledger.before_weights - ledger.after_weights, 2),
            "kvcache": round(ledger.pool.gib, 2),
            "token_capacity": ledger.pool.tokens,
            "graph": round(ledger.graph_begin - ledger.graph_end, 2),
        }

    def _server_info(self) -> Response:
        ledger, (_, _, _, rate, accept) = self.start.ledger, self._state()
        arguments = dict(self._arguments)
        state = {
            **arguments,
            "last_gen_throughput": rate,
            "memory_usage": self._memory(),
            "effective_max_running_requests_per_dp": ledger.running_limit,
        }
        if self._arguments.get("speculative_algorithm") and accept:
            state["avg_spec_accept_length"] = accept
        info = {
            **arguments,
            "status": "ready",
            "max_total_num_tokens": ledger.pool.tokens,
            "max_req_input_len": min(ledger.context_len, ledger.pool.tokens) - 6,
            "internal_states": [state],
            "version": self.start.server.version,
        }
        return Response(200, _compact(info))

    def _load(self) -> Response:
        running, waiting, used, _, _ = self._state()
        row = {"dp_rank": 0, "num_reqs": running + waiting, "num_waiting_reqs": waiting, "num_tokens": used}
        return Response(200, _compact([row]))

    def _loads(self, query: Mapping[str, str]) -> Response:
        running, waiting, used, rate, accept = self._state()
        ledger, memory = self.start.ledger, self._memory()
        sections = set(query.get("include", "all").split(","))
        load: dict[str, Any] = {
            "dp_rank": 0,
            "num_running_reqs": running,
            "num_waiting_reqs": waiting,
            "num_used_tokens": used,
            "max_total_num_tokens": ledger.pool.tokens,
            "token_usage": self._usage(used),
            "gen_throughput": round(rate, 2),
            "cache_hit_rate": 0.0,
            "utilization": -1.0,
            "max_running_requests": ledger.running_limit,
        }
        if sections & {"all", "memory"}:
            load["memory"] = {
                "weight_gb": round(ledger.before_weights - ledger.after_weights, 3),
                "kv_cache_gb": round(ledger.pool.gib, 3),
                "graph_gb": round(ledger.graph_begin - ledger.graph_end, 3),
                "token_capacity": memory["token_capacity"],
            }
        if sections & {"all", "spec"} and self._arguments.get("speculative_algorithm") and accept:
            share = accept_rate(self._arguments, accept, modern=self.start.modern)
            load["speculative"] = {"accept_length": accept, "accept_rate": share}
        if sections & {"all", "queues"}:
            load["queues"] = {"waiting": waiting, "grammar": 0, "paused": 0, "retracted": 0}
        load["num_total_reqs"] = running + waiting
        aggregate = {
            "total_running_reqs": running,
            "total_waiting_reqs": waiting,
            "total_reqs": running + waiting,
            "avg_token_usage": round(self._usage(used), 4),
            "avg_throughput": round(rate, 2),
            "avg_utilization": -1.0,
        }
        body = {
            "timestamp": self.start.figures.now.astimezone(UTC).isoformat(),
            "version": self.start.server.version,
            "dp_rank_count": 1,
            "loads": [load],
            "aggregate": aggregate,
        }
        return Response(200, _compact(body))

    def _metrics(self) -> Response:
        if not self._arguments.get("enable_metrics"):
            return Response(404, '{"detail":"Not Found"}')
        running, waiting, used, rate, accept = self._state()
        totals = self.traffic.totals
        prefill = self.traffic.last_prefill
        seen = prefill.new_tokens + prefill.cached_tokens if prefill else 0
        # A decode line sets the gauge to 0 (scheduler_metrics_mixin.py:387): only the newest line counts.
        newest = max((event.at for event in (prefill, self.traffic.last_decode) if event), default=None)
        hit = prefill.cached_tokens / seen if prefill and seen and prefill.at == newest else 0.0
        name = f'model_name="{self._arguments["served_model_name"]}"'
        ranks = f'engine_type="unified",{name},moe_ep_rank="0",pp_rank="0",tp_rank="0"'
        tokens = self.start.ledger.pool.tokens
        page = int(str(self._arguments.get("page_size") or 1))
        written = _Exposition()
        gauges: tuple[tuple[str, str, float], ...] = (
            ("num_running_reqs", "The number of running requests.", running),
            ("num_used_tokens", "The number of used tokens.", used),
            ("token_usage", "The token usage.", self._usage(used)),
            ("gen_throughput", "The generation throughput (token/s).", rate),
            ("num_queue_reqs", "The number of requests in the waiting queue.", waiting),
            ("num_grammar_queue_reqs", "The number of requests in the grammar waiting queue.", 0),
            ("cache_hit_rate", "The prefix cache hit rate.", hit),
            ("max_total_num_tokens", "Maximum total number of tokens in the KV cache pool.", tokens),
            ("spec_accept_length", "The average acceptance length of speculative decoding.", accept),
            ("num_retracted_reqs", "The number of retracted requests.", 0),
            ("num_paused_reqs", "The number of paused requests by async weight sync.", 0),
            ("new_token_ratio", "The new token ratio.", totals.ratio),
        )
        for metric, text, value in gauges:
            written.gauge(metric, text, ranks, value)
        counters: tuple[tuple[str, str, str, float], ...] = (
            ("num_retracted_requests_total", "Total number of retracted requests.", ranks, totals.retractions),
            ("evicted_tokens_total", "The number of tokens evicted from GPU to CPU.", ranks, totals.evicted_tokens),
            ("load_back_tokens_total", "The number of tokens loaded from CPU to GPU.", ranks, totals.host_tokens),
            (
                "prompt_tokens_total",
                "Number of prefill tokens processed.",
                name,
                totals.new_tokens + totals.cached_tokens,
            ),
            ("generation_tokens_total", "Number of generation tokens processed.", name, totals.generated_tokens),
            ("num_requests_total", "Number of requests processed.", name, totals.requests),
        )
        for metric, text, labels, value in counters:
            written.counter(metric, text, [(labels, value)])
        # Told apart only with HiCache (sglang 0.5.9 srt/managers/scheduler_output_processor_mixin.py:57).
        sources = {"total": totals.cached_tokens}
        if self._arguments.get("enable_hierarchical_cache"):
            sources = {"device": totals.cached_tokens - totals.host_tokens, "host": totals.host_tokens}
        by_source = [(f'cache_source="{source}",{name}', float(count)) for source, count in sources.items() if count]
        written.counter(
            "cached_tokens_total", "Number of cached prompt tokens by source (device/host/storage).", by_source
        )
        modes = {
            "prefill_compute": totals.new_tokens,
            "prefill_cache": totals.cached_tokens,
            "decode": totals.generated_tokens,
        }
        by_mode = [(f'{ranks},mode="{mode}"', float(value)) for mode, value in modes.items()]
        written.counter(
            "realtime_tokens_total", "Total number of tokens processed (updated on each log interval).", by_mode
        )
        written.gauge(
            "cache_config_info",
            "Cache configuration information.",
            f'num_pages="{tokens // page}",page_size="{page}"',
            1,
        )
        return Response(200, written.text(), "text/plain; version=0.0.4; charset=utf-8")


class _Exposition:
    """Prometheus text, as prometheus_client writes it."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def gauge(self, metric: str, text: str, labels: str, value: float) -> None:
        self._head(metric, text, "gauge")
        self._lines.append(f"sglang:{metric}{{{labels}}} {float(value)!r}")

    def counter(self, metric: str, text: str, rows: list[tuple[str, float]]) -> None:
        self._head(metric, text, "counter")
        self._lines += [f"sglang:{metric}{{{labels}}} {float(value)!r}" for labels, value in rows]

    def _head(self, metric: str, text: str, kind: str) -> None:
        self._lines += [f"# HELP sglang:{metric} {text}", f"# TYPE sglang:{metric} {kind}"]

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
