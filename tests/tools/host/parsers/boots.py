"""Whole logs of one server, written with the real templates of a version.

The figures are one box's: eight ranks, an MLA model with an EAGLE draft, 159,209 tokens.
"""

from __future__ import annotations

from typing import Final

from tests.tools.host.parsers.templates import Figures, render

RANKS: Final = 8
TOKENS: Final = 159_209
BEFORE: Final = 94.06
AFTER: Final = 21.7068


def version_tuple(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def boot(version: str, *, at: str = "2026-02-10 03:11") -> list[str]:
    """A start with target, draft, graphs and summary, in the order in which that version prints them."""
    together = version_tuple(version) >= (0, 5, 16)
    target_load, draft_load = _load(version, draft=False), _load(version, draft=True)
    target_pool, draft_pool = _pool(version, 10.42, 11.2), _pool(version, 0.47, 7.9)
    if together:
        stages = [target_load, draft_load, target_pool, draft_pool, _graphs(version)]
    else:
        stages = [target_load, target_pool, _graphs(version)[:2], draft_load, draft_pool, _graphs(version)[2:]]
    warned = version_tuple(version) >= (0, 5, 6)
    lines = [f"[{at}:00] {render(version, 'Max running requests is reset to 48', {})}"] if warned else []
    lines.append(f"[{at}:01] {arguments(version)}")
    second = 2
    for stage in stages:
        for text in stage:
            lines += [f"[{at}:{second:02d} TP{rank}] {_shifted(text, rank)}" for rank in range(RANKS)]
            second += 1
    lines.append(f"[{at}:40 TP0] {summary(version)}")
    lines += [f"[{at}:41 TP{rank}] {host_pool(version)}" for rank in range(RANKS)]
    lines.append(f"[{at}:50] {render(version, 'The server is fired up', {})}")
    return lines


def arguments(version: str) -> str:
    """The arguments as that version's log writes them: a dataclass, from 0.5.23 a dictionary."""
    values: dict[str, object] = {
        "model_path": "/models/Kimi, K2.5 (INT4)",
        "api_key": "sk-do-not-keep",
        "mem_fraction_static": 0.88,
        "max_running_requests": 48,
        "tp_size": RANKS,
        "chunked_prefill_size": None,
        "disable_radix_cache": False,
        "served_model_name": 'it\'s \\ "quoted", {really}',
        "cuda_graph_bs": [1, 2, 4],
    }
    if version_tuple(version) >= (0, 5, 23):
        return f"server_args={values}"
    inside = ", ".join(f"{name}={value!r}" for name, value in values.items())
    return f"server_args=ServerArgs({inside}, disaggregation_mode=<Mode.NULL: 'null'>)"


def summary(version: str) -> str:
    figures: Figures = {
        "max_total_num_tokens": TOKENS,
        "chunked_prefill_size": 8192,
        "max_prefill_tokens": 16384,
        "max_running_requests": 48,
        "context_len": 262_144,
        "available_gpu_mem": "available_gpu_mem",
        "avail_mem": 5.6,
        "startup_available_gpu_memory_gb": 5.6,
    }
    return render(version, "max_total_num_tokens={}, chunked", figures, within="scheduler.py")


def host_pool(version: str) -> str:
    figures: Figures = {
        "requested_bytes": 44.75e9,
        "requested_bytes / 1000000000.0": 44.75,
        "pool_label": "kv",
        "size": 4 * TOKENS,
    }
    if version_tuple(version) >= (0, 5, 23):
        return render(version, "Allocating %s hierarchical KV host pool: %d tokens, %.2f GB host memory.", figures)
    return render(
        version, "Allocating {} GB host memory for hierarchical KV cache", figures, within="mem_cache/**/*.py"
    )


def decode(
    version: str, running: int, tokens: int, queue: int, *, accept: float | None = None, graph: bool = True
) -> str:
    """A decode line; usage is tokens over the pool."""
    usage = tokens / TOKENS
    figures: Figures = {
        "num_running_reqs": running,
        "num_used": tokens,
        "full_num_used": tokens,
        "token_usage": usage,
        "full_token_usage": usage,
        "num_used / self.max_total_num_tokens": usage,
        "iter_msg": "",
        "spec_accept_length": accept,
        "spec_accept_rate": 0.55,
        "last_gen_throughput": 912.4,
        "waiting_queue": queue,
        "device": "cuda graph",
        "graph_backend": "cuda graph",
        "_graph_backend_label": "cuda graph",
        "can_run_cuda_graph": graph,
        "len(self.waiting_queue)": queue,
        "len(self.scheduler.waiting_queue)": queue,
    }
    if version_tuple(version) < (0, 4, 10):
        head = render(version, "Decode batch. #running-req", figures, within="scheduler.py")
        accepted = "" if accept is None else render(version, "accept len: {}", figures, within="scheduler.py")
        return head + accepted + render(version, "gen throughput (token/s): {}", figures, within="scheduler.py")
    within = "metrics_reporter.py" if version_tuple(version) >= (0, 5, 16) else "scheduler_metrics_mixin.py"
    pool = "pool_stats_observer.py" if version_tuple(version) >= (0, 5, 16) else within
    shape = "#token: {}, token usage"
    usage_text = render(version, shape, figures, within=pool).removesuffix(", ") + ", "
    head = render(version, "Decode batch{}", {**figures, "token_usage_msg": usage_text}, within=within)
    accepted = "" if accept is None else render(version, "accept len: {}, accept rate", figures, within=within)
    return head + accepted + render(version, "{}: {}, gen throughput (token/s): {}", figures, within=within)


def prefill(version: str, new: int, cached: int, running: int, queue: int, *, usage: float = 0.61) -> str:
    figures: Figures = {
        "num_new_seq": 1,
        "num_new_seqs": 1,
        "can_run_list": 1,
        "len(can_run_list)": 1,
        "log_input_tokens": new,
        "log_hit_tokens": cached,
        "running_bs": running,
        "num_running_reqs": running,
        "total": running,
        "num_running_reqs.total": running,
        "num_pending_tokens": 0,
        "max_total_num_tokens": usage,
        "num_used / self.max_total_num_tokens": usage,
        "token_usage": usage,
        "iter_msg": "",
        "waiting_queue": queue,
        "len(self.waiting_queue)": queue,
        "len(self.scheduler.waiting_queue)": queue,
        "token_usage_msg": f"token usage: {usage:.2f}, ",
        "last_input_throughput": 3120.5,
        "device": "cuda graph",
        "graph_backend": "cuda graph",
        "_graph_backend_label": "cuda graph",
        "can_run_cuda_graph": False,
    }
    if version_tuple(version) < (0, 4, 10):
        return render(version, "Prefill batch. #new-seq", figures, within="scheduler.py") + render(
            version, "#queue-req: {}", figures, within="scheduler.py", nth=1
        )
    within = "metrics_reporter.py" if version_tuple(version) >= (0, 5, 16) else "scheduler_metrics_mixin.py"
    head = render(version, "Prefill batch{}", figures, within=within)
    return head + render(version, "input throughput (token/s): {}", figures, within=within).removesuffix(", ")


def retract(version: str, requests: int, gained: int) -> str:
    figures: Figures = {
        "retracted_reqs": requests,
        "num_retracted_reqs": requests,
        "reqs_to_abort": 0,
        "new_token_gained": gained,
        "old_ratio": 0.1474,
        "new_token_ratio": 0.1845,
        "self.new_token_ratio": 0.1845,
    }
    if version_tuple(version) < (0, 5, 9):
        return render(version, "Decode out of memory", figures, within="scheduler.py")
    prefix = render(version, "KV cache pool is full. Retract requests", {}, within="scheduler.py")
    details = render(version, "#retracted_reqs: {}", figures, within="scheduler.py")
    return prefix + details + render(version, ", #new_token_ratio: {}", figures, within="scheduler.py")


def _load(version: str, *, draft: bool) -> list[str]:
    before, after = (9.6, 8.4) if draft else (BEFORE, AFTER)
    used = before - after
    kind = "LlamaForCausalLMEagle3" if draft else "KimiK25ForConditionalGeneration"
    figures: Figures = {
        "get_available_gpu_memory": before,
        "after_avail_memory": after,
        "weight_load_mem_usage": used,
        "before_avail_memory - after_avail_memory": used,
        "tic_total": 71.2,
        "weight_load_time": 71.2,
        "type": kind,
        "dtype": "torch.bfloat16",
        "self.dtype": "torch.bfloat16",
        "quant_str": "quant=compressed-tensors, ",
    }
    within = "model_runner.py"
    return [
        render(version, "Load weight begin", figures, within=within),
        render(version, "Load weight end. ", figures, within=within),
    ]


def _pool(version: str, size_gib: float, free_gib: float) -> list[str]:
    figures: Figures = {
        "size": TOKENS,
        "num_tokens": TOKENS,
        "kv_size / GB": size_gib,
        "kv_size_GB": size_gib,
        "cache_name": "KV Cache",
        "dtype": "torch.bfloat16",
        "post_capture_active": "is allocated",
        "get_available_gpu_memory": free_gib,
    }
    within = "memory_pool.py"
    shapes = ("{} {}. dtype: {}, #tokens: {}, KV size", "KV Cache is allocated. dtype: {}, #tokens: {}, KV size")
    for starts in (*shapes, "KV Cache is allocated. #tokens: {}, KV size"):
        try:
            line = render(version, starts, figures, within=within)
        except AssertionError:
            continue
        return [line, render(version, "Memory pool end", figures)]
    raise AssertionError(f"{version}: no template of the KV pool")


def _graphs(version: str) -> list[str]:
    """Begin and end of the target's graphs, of the draft's, of the draft's extension."""
    figures: Figures = {
        "before_mem": 11.2,
        "tic": 12.5,
        "capture_time": 12.5,
        "bs": 48,
        "capture_bs": [1, 2, 4, 8, 48],
        "backend": "full",
        "decode_backend": "full",
        "num_tokens_per_req": 4,
        "topk": 1,
        "speculative_num_draft_tokens": 4,
        "capture_name": "target verify",
        "device": "cuda graph",
        "graph_backend": "CUDA graph" if version_tuple(version) >= (0, 5, 16) else "cuda graph",
    }
    target = {**figures, "after_mem": 9.64, "before_mem - after_mem": 1.56, "graph_mem_usage": 1.56}
    target |= {"memory_usage_gb": 1.56, "cuda_graph_mem_usage": 1.56}
    draft = {**figures, "before_mem": 7.9, "after_mem": 7.5, "before_mem - after_mem": 0.4}
    extend = {**figures, "before_mem": 7.5, "after_mem": 7.3, "before_mem - after_mem": 0.2}
    if version_tuple(version) < (0, 5, 16):
        name = "Capture cuda graph" if version_tuple(version) < (0, 5, 0) else "Capture {}"
        where = "model_runner.py"
        lines = [render(version, f"{name} {edge}. Th"[:-3], target, within=where) for edge in ("begin", "end")]
        worker = "eagle_worker.py"
        kinds = [("draft cuda graph", draft), ("draft extend cuda graph", extend)]
    else:
        where = "cuda_graph_setup.py"
        lines = [render(version, f"Capture {{}} {{}} {edge}. ", target, within=where) for edge in ("begin", "end")]
        worker = "eagle_worker_v2.py"
        kinds = [("draft decode CUDA graph", draft), ("draft extend CUDA graph", extend)]
    if version_tuple(version) < (0, 4, 10):
        kinds = kinds[:1]
    for kind, some in kinds:
        lines += [render(version, f"Capture {kind} {edge}. ", some, within=worker) for edge in ("begin", "end")]
    return lines


def _shifted(text: str, rank: int) -> str:
    """Rank 3 has a little less memory before its weights than the others."""
    return text.replace("avail mem=94.06", "avail mem=93.98") if rank == 3 else text
