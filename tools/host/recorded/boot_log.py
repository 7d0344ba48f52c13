"""What SGLang prints while it starts: the templates of 0.5.9, and where 0.5.16 and later differ.

Lines are (seconds since the start of the process, text) as they reach standard output. Source lines: 0.5.9
srt/model_executor/model_runner.py:731, :849, :898, :1040, :1715, :2146, :2160; mem_cache/memory_pool.py:651;
model_runner_kv_cache_mixin.py:744; speculative/eagle_worker_v2.py:257; managers/scheduler.py:614.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from tools.host.recorded.failed_start import graph_out_of_memory, no_host_memory, no_kv_budget
from tools.host.recorded.host_pool import host_pool_fits, host_pool_gb
from tools.host.recorded.launch import Argument
from tools.host.recorded.ledger import Pool, kv_dtype, loads_draft_first
from tools.host.recorded.start import Clock, Line, Start, by_rank


def boot_lines(start: Start, began: datetime) -> list[Line]:
    """A whole start, up to `ready to roll` or to what stopped it."""
    clock = Clock(began, start)
    draft = start.ledger.draft_pool
    first = draft is not None and loads_draft_first(start.server.version)
    for step in (_arguments, _distributed, _weights, *((_draft_weights,) if first else ())):
        step(start, clock)
    if not start.ledger.fits or start.server.failure == "kv_budget":
        no_kv_budget(start, clock)
        return clock.lines
    _target_pools(start, clock)
    if draft is not None and first:
        _pool(start, clock, draft, start.ledger.draft_pool_end)
    if start.server.failure == "oom_graph":
        graph_out_of_memory(start, clock)
        return clock.lines
    _target_graphs(start, clock)
    if draft is not None:
        if not first:
            _draft_weights(start, clock)
            _pool(start, clock, draft, start.ledger.draft_pool_end)
        _draft_graphs(start, clock)
    _summary(start, clock)
    if not host_pool_fits(start.figures, start.arguments, start.ledger):
        no_host_memory(start, clock)
        return clock.lines
    _host_pools(start, clock)
    if start.server.failure == "host_oom":
        return clock.lines
    _ready(start, clock)
    return clock.lines


def _arguments(start: Start, clock: Clock) -> None:
    arguments = start.arguments
    clock.wait(start.boot.imports_s * 0.6)
    clock.main(
        f"INFO server_args.py:1835: Attention backend not specified. Use {arguments['attention_backend']} backend by "
        "default."
    )
    if arguments.get("speculative_algorithm"):
        if not start.limit_typed:
            clock.main(
                "WARNING server_args.py:2364: Max running requests is reset to 48 for speculative decoding. You can "
                "override this by explicitly setting --max-running-requests."
            )
        if not start.modern:
            clock.main(_spec_v2(arguments))
    clock.wait(1.2)
    if start.modern:
        clock.main(f"server_args={dict(arguments)!r}")
    else:
        clock.main(f"server_args=ServerArgs({', '.join(f'{key}={value!r}' for key, value in arguments.items())})")


def _spec_v2(arguments: Mapping[str, Argument]) -> str:
    if arguments.get("disable_overlap_schedule"):
        return (
            "WARNING server_args.py:2385: Overlap scheduler is disabled when spec v2 is off or using unsupported "
            "speculative algorithm. You can set env SGLANG_ENABLE_SPEC_V2=True to enable the experimental overlap "
            "scheduler. "
        )
    return (
        "WARNING server_args.py:2373: Spec v2 is enabled for eagle/eagle3 speculative decoding and overlap schedule is "
        "turned on."
    )


def _distributed(start: Start, clock: Clock) -> None:
    clock.wait(start.boot.imports_s * 0.4)
    clock.every("Init torch distributed begin." for _ in range(start.ranks))
    clock.wait(start.boot.distributed_s / 2)
    if start.ranks > 1:
        clock.first("sglang is using nccl==2.28.3")
    clock.wait(start.boot.distributed_s / 2)
    seconds, used = start.boot.distributed_s, start.boot.context_gib
    clock.every(
        f"Init torch distributed ends. elapsed={seconds + 0.03 * rank:.2f} s, mem usage={used:.2f} GB"
        for rank in range(start.ranks)
    )


def _weights(start: Start, clock: Clock) -> None:
    boot, server = start.boot, start.server
    clock.wait(1.0)
    clock.every(f"Load weight begin. avail mem={free:.2f} GB" for free in by_rank(start, start.ledger.before_weights))
    clock.wait(boot.weights_s)
    minutes, seconds = divmod(int(boot.weights_s) - 9, 60)
    clock.raw(
        f"Loading safetensors checkpoint shards: 100% Completed | 64/64 [{minutes:02d}:{seconds:02d}<00:00,  "
        f"{(boot.weights_s - 9) / 64:.2f}s/it]"
    )
    taken = start.ledger.before_weights - start.ledger.after_weights
    kind = "quant=compressed-tensors, " if start.modern else "dtype=torch.bfloat16, "
    clock.every(
        f"Load weight end. elapsed={boot.weights_s + 0.05 * rank:.2f} s, type={server.model_class}, {kind}"
        f"avail mem={free:.2f} GB, mem usage={taken:.2f} GB."
        for rank, free in enumerate(by_rank(start, start.ledger.after_weights))
    )


def _pool(start: Start, clock: Clock, pool: Pool, free_gib: float) -> None:
    dtype = f"dtype: {kv_dtype(start.arguments)}, " if start.modern else ""
    if not start.modern:
        clock.first(f"Using KV cache dtype: {kv_dtype(start.arguments)}")
    if pool.values_gib is None:
        size = f"KV size: {pool.keys_gib:.2f} GB"
    else:
        size = f"K size: {pool.keys_gib:.2f} GB, V size: {pool.values_gib:.2f} GB"
    clock.every(f"KV Cache is allocated. {dtype}#tokens: {pool.tokens}, {size}" for _ in range(start.ranks))
    clock.every(f"Memory pool end. avail mem={free:.2f} GB" for free in by_rank(start, free_gib))


def _target_pools(start: Start, clock: Clock) -> None:
    clock.wait(0.6)
    if str(start.arguments.get("kv_cache_dtype")) == "fp8_e4m3":
        clock.every(
            "Using FP8 KV cache but no scaling factors provided. Defaulting to scaling factors of 1.0. This may lead "
            "to less accurate results!"
            for _ in range(start.ranks)
        )
    _pool(start, clock, start.ledger.pool, start.ledger.pool_end)


def _graphs(start: Start, clock: Clock, what: str, before: float, after: float, seconds: float) -> None:
    names = {"": "target verify" if start.ledger.draft_pool else "target decode", "draft ": "draft decode"}
    name = names.get(what, what.strip())
    if start.modern:
        clock.every(
            f"Capture {name} CUDA graph begin. backend=full, num_tokens_per_req=4, avail mem={free:.2f} GB"
            for free in by_rank(start, before)
        )
    else:
        clock.every(
            f"Capture {what}cuda graph begin. This can take up to several minutes. avail mem={free:.2f} GB"
            for free in by_rank(start, before)
        )
        if not what:
            clock.first(f"Capture cuda graph bs {list(start.ledger.graph_sizes)}")
    clock.wait(seconds)
    used = before - after
    if start.modern:
        clock.every(
            f"Capture {name} CUDA graph end. bs={list(start.ledger.graph_sizes)}, elapsed={seconds:.2f} s, "
            f"mem usage={used:.2f} GB, avail mem={free:.2f} GB."
            for free in by_rank(start, after)
        )
    else:
        clock.every(
            f"Capture {what}cuda graph end. Time elapsed: {seconds + 0.02 * rank:.2f} s. mem usage={used:.2f} GB. "
            f"avail mem={free:.2f} GB."
            for rank, free in enumerate(by_rank(start, after))
        )


def _target_graphs(start: Start, clock: Clock) -> None:
    clock.wait(2.5)
    if start.ledger.graph_sizes:
        _graphs(start, clock, "", start.ledger.graph_begin, start.ledger.graph_end, start.boot.graphs_s)


def _draft_weights(start: Start, clock: Clock) -> None:
    boot, ledger = start.boot, start.ledger
    clock.wait(0.5)
    clock.every("Init torch distributed begin." for _ in range(start.ranks))
    clock.every("Init torch distributed ends. elapsed=0.00 s, mem usage=0.00 GB" for _ in range(start.ranks))
    clock.every(f"Load weight begin. avail mem={free:.2f} GB" for free in by_rank(start, ledger.draft_before_weights))
    clock.wait(boot.draft_weights_s)
    kind = "" if start.modern else "dtype=torch.bfloat16, "
    clock.every(
        f"Load weight end. elapsed={boot.draft_weights_s + 0.02 * rank:.2f} s, type=LlamaForCausalLMEagle3, {kind}"
        f"avail mem={free:.2f} GB, mem usage={boot.draft_weights_gib:.2f} GB."
        for rank, free in enumerate(by_rank(start, ledger.draft_after_weights))
    )


def _draft_graphs(start: Start, clock: Clock) -> None:
    boot, ledger = start.boot, start.ledger
    if ledger.graph_sizes:
        clock.wait(1.0)
        _graphs(start, clock, "draft ", ledger.draft_graph_begin, ledger.draft_graph_end, boot.draft_graphs_s)
        _graphs(start, clock, "draft extend ", ledger.draft_graph_end, ledger.draft_extend_end, boot.draft_graphs_s / 2)


def _summary(start: Start, clock: Clock) -> None:
    ledger, arguments = start.ledger, start.arguments
    clock.wait(1.5)
    clock.first(
        f"max_total_num_tokens={ledger.pool.tokens}, chunked_prefill_size={arguments['chunked_prefill_size']}, "
        f"max_prefill_tokens={arguments['max_prefill_tokens']}, max_running_requests={ledger.running_limit}, "
        f"context_len={ledger.context_len}, available_gpu_mem={ledger.summary:.2f} GB"
    )


def _host_pools(start: Start, clock: Clock) -> None:
    size_gb = host_pool_gb(start.arguments, start.ledger)
    if not size_gb:
        return
    if start.modern:
        tokens = int(size_gb * 1e9 / start.ledger.pool.cell_bytes)
        text = f"Allocating MLA hierarchical KV host pool: {tokens} tokens, {size_gb:.2f} GB host memory."
    else:
        text = f"Allocating {size_gb:.2f} GB host memory for hierarchical KV cache."
    clock.every(text for _ in range(start.ranks))
    clock.wait(size_gb * start.ranks * 0.25)


def _ready(start: Start, clock: Clock) -> None:
    address = f"{start.arguments.get('host') or '127.0.0.1'}:{start.arguments.get('port') or 30000}"
    clock.wait(2.0)
    clock.main(f"INFO:     Started server process [{start.server.pid}]")
    clock.main("INFO:     Waiting for application startup.")
    clock.main("INFO:     Application startup complete.")
    clock.main(f"INFO:     Uvicorn running on http://{address} (Press CTRL+C to quit)")
    clock.wait(1.0)
    clock.main('INFO:     127.0.0.1:51842 - "GET /model_info HTTP/1.1" 200 OK')
    pending = "#pending-token: 0, " if start.modern else ""
    tail = (
        "cuda graph: False, input throughput (token/s): 0.00"
        if start.modern
        else "input throughput (token/s): 0.00, cuda graph: False"
    )
    clock.first(
        "Prefill batch, #new-seq: 1, #new-token: 44, #cached-token: 0, token usage: 0.00, #running-req: 0, "
        f"#queue-req: 0, {pending}{tail}"
    )
    clock.wait(start.boot.warmup_s)
    clock.main('INFO:     127.0.0.1:51846 - "POST /v1/chat/completions HTTP/1.1" 200 OK')
    clock.main("The server is fired up and ready to roll!")
