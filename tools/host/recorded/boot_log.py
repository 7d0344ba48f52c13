"""What SGLang prints while it starts: the templates of 0.5.9, and where 0.5.16 and later differ.

Lines are (seconds since the start of the process, text) as they reach standard output. Source lines: 0.5.9
srt/model_executor/model_runner.py:731, :849, :898, :1040, :1715, :2146, :2160; mem_cache/memory_pool.py:651;
model_runner_kv_cache_mixin.py:744; speculative/eagle_worker_v2.py:257; managers/scheduler.py:614.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from tools.host.recorded.figures import Boot, Figures, Server
from tools.host.recorded.launch import Argument, at_least
from tools.host.recorded.ledger import GIB, Ledger, Pool, kv_dtype, loads_draft_first

STAMP = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True, slots=True)
class Line:
    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Start:
    """Everything a start prints from."""

    figures: Figures
    server: Server
    boot: Boot
    arguments: Mapping[str, Argument]
    ledger: Ledger
    limit_typed: bool

    @property
    def ranks(self) -> int:
        return int(str(self.arguments.get("tp_size") or 1))

    @property
    def modern(self) -> bool:
        return at_least(self.server.version, "0.5.16")

    @property
    def succeeds(self) -> bool:
        """Whether a start reaches `ready to roll`."""
        fits = self.ledger.fits and host_pool_fits(self.figures, self.arguments, self.ledger)
        return fits and not self.server.failure

    def spread(self, rank: int) -> float:
        spread = self.boot.rank_spread_gib
        return spread[rank % len(spread)] if spread else 0.0

    def tag(self, rank: int) -> str:
        if self.ranks == 1:
            return ""
        dp = int(str(self.arguments.get("dp_size") or 1)) if self.arguments.get("enable_dp_attention") else 1
        return (f" DP{rank * dp // self.ranks}" if dp > 1 else "") + f" TP{rank}"


def boot_lines(start: Start, began: datetime) -> list[Line]:
    """A whole start, up to `ready to roll` or to what stopped it."""
    clock = _Clock(began, start)
    draft = start.ledger.draft_pool
    first = draft is not None and loads_draft_first(start.server.version)
    for step in (_arguments, _distributed, _weights, *((_draft_weights,) if first else ())):
        step(start, clock)
    if not start.ledger.fits or start.server.failure == "kv_budget":
        _refused(start, clock)
        return clock.lines
    _target_pools(start, clock)
    if draft is not None and first:
        _pool(start, clock, draft, start.ledger.draft_pool_end)
    if start.server.failure == "oom_graph":
        _graph_failure(start, clock)
        return clock.lines
    _target_graphs(start, clock)
    if draft is not None:
        if not first:
            _draft_weights(start, clock)
            _pool(start, clock, draft, start.ledger.draft_pool_end)
        _draft_graphs(start, clock)
    _summary(start, clock)
    if not host_pool_fits(start.figures, start.arguments, start.ledger):
        _no_host_memory(start, clock)
        return clock.lines
    _host_pools(start, clock)
    if start.server.failure == "host_oom":
        return clock.lines
    _ready(start, clock)
    return clock.lines


class _Clock:
    """Collects lines; moves forward between steps."""

    def __init__(self, began: datetime, start: Start) -> None:
        self.at = began
        self.start = start
        self.lines: list[Line] = []

    def wait(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)

    def raw(self, text: str) -> None:
        self.lines.append(Line(self.at, text))

    def main(self, text: str) -> None:
        self.raw(f"[{self.at.strftime(STAMP)}] {text}")

    def first(self, text: str) -> None:
        self.raw(f"[{self.at.strftime(STAMP)}{self.start.tag(0)}] {text}")

    def every(self, texts: Iterator[str]) -> None:
        """One line a rank, a few hundredths of a second apart."""
        for rank, text in enumerate(texts):
            at = self.at + timedelta(milliseconds=37 * ((rank * 5) % max(1, self.start.ranks)))
            self.lines.append(Line(at, f"[{at.strftime(STAMP)}{self.start.tag(rank)}] {text}"))
        self.wait(0.4)


def _free(start: Start, gib: float) -> Iterator[float]:
    return (gib + start.spread(rank) for rank in range(start.ranks))


def _arguments(start: Start, clock: _Clock) -> None:
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


def _distributed(start: Start, clock: _Clock) -> None:
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


def _weights(start: Start, clock: _Clock) -> None:
    boot, server = start.boot, start.server
    clock.wait(1.0)
    clock.every(f"Load weight begin. avail mem={free:.2f} GB" for free in _free(start, start.ledger.before_weights))
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
        for rank, free in enumerate(_free(start, start.ledger.after_weights))
    )


def _pool(start: Start, clock: _Clock, pool: Pool, free_gib: float) -> None:
    dtype = f"dtype: {kv_dtype(start.arguments)}, " if start.modern else ""
    if not start.modern:
        clock.first(f"Using KV cache dtype: {kv_dtype(start.arguments)}")
    if pool.values_gib is None:
        size = f"KV size: {pool.keys_gib:.2f} GB"
    else:
        size = f"K size: {pool.keys_gib:.2f} GB, V size: {pool.values_gib:.2f} GB"
    clock.every(f"KV Cache is allocated. {dtype}#tokens: {pool.tokens}, {size}" for _ in range(start.ranks))
    clock.every(f"Memory pool end. avail mem={free:.2f} GB" for free in _free(start, free_gib))


def _target_pools(start: Start, clock: _Clock) -> None:
    clock.wait(0.6)
    if str(start.arguments.get("kv_cache_dtype")) == "fp8_e4m3":
        clock.every(
            "Using FP8 KV cache but no scaling factors provided. Defaulting to scaling factors of 1.0. This may lead "
            "to less accurate results!"
            for _ in range(start.ranks)
        )
    _pool(start, clock, start.ledger.pool, start.ledger.pool_end)


def _graphs(start: Start, clock: _Clock, what: str, before: float, after: float, seconds: float) -> None:
    names = {"": "target verify" if start.ledger.draft_pool else "target decode", "draft ": "draft decode"}
    name = names.get(what, what.strip())
    if start.modern:
        clock.every(
            f"Capture {name} CUDA graph begin. backend=full, num_tokens_per_req=4, avail mem={free:.2f} GB"
            for free in _free(start, before)
        )
    else:
        clock.every(
            f"Capture {what}cuda graph begin. This can take up to several minutes. avail mem={free:.2f} GB"
            for free in _free(start, before)
        )
        if not what:
            clock.first(f"Capture cuda graph bs {list(start.ledger.graph_sizes)}")
    clock.wait(seconds)
    used = before - after
    if start.modern:
        clock.every(
            f"Capture {name} CUDA graph end. bs={list(start.ledger.graph_sizes)}, elapsed={seconds:.2f} s, "
            f"mem usage={used:.2f} GB, avail mem={free:.2f} GB."
            for free in _free(start, after)
        )
    else:
        clock.every(
            f"Capture {what}cuda graph end. Time elapsed: {seconds + 0.02 * rank:.2f} s. mem usage={used:.2f} GB. "
            f"avail mem={free:.2f} GB."
            for rank, free in enumerate(_free(start, after))
        )


def _target_graphs(start: Start, clock: _Clock) -> None:
    clock.wait(2.5)
    if start.ledger.graph_sizes:
        _graphs(start, clock, "", start.ledger.graph_begin, start.ledger.graph_end, start.boot.graphs_s)


def _draft_weights(start: Start, clock: _Clock) -> None:
    boot, ledger = start.boot, start.ledger
    clock.wait(0.5)
    clock.every("Init torch distributed begin." for _ in range(start.ranks))
    clock.every("Init torch distributed ends. elapsed=0.00 s, mem usage=0.00 GB" for _ in range(start.ranks))
    clock.every(f"Load weight begin. avail mem={free:.2f} GB" for free in _free(start, ledger.draft_before_weights))
    clock.wait(boot.draft_weights_s)
    kind = "" if start.modern else "dtype=torch.bfloat16, "
    clock.every(
        f"Load weight end. elapsed={boot.draft_weights_s + 0.02 * rank:.2f} s, type=LlamaForCausalLMEagle3, {kind}"
        f"avail mem={free:.2f} GB, mem usage={boot.draft_weights_gib:.2f} GB."
        for rank, free in enumerate(_free(start, ledger.draft_after_weights))
    )


def _draft_graphs(start: Start, clock: _Clock) -> None:
    boot, ledger = start.boot, start.ledger
    if ledger.graph_sizes:
        clock.wait(1.0)
        _graphs(start, clock, "draft ", ledger.draft_graph_begin, ledger.draft_graph_end, boot.draft_graphs_s)
        _graphs(start, clock, "draft extend ", ledger.draft_graph_end, ledger.draft_extend_end, boot.draft_graphs_s / 2)


def _summary(start: Start, clock: _Clock) -> None:
    ledger, arguments = start.ledger, start.arguments
    clock.wait(1.5)
    clock.first(
        f"max_total_num_tokens={ledger.pool.tokens}, chunked_prefill_size={arguments['chunked_prefill_size']}, "
        f"max_prefill_tokens={arguments['max_prefill_tokens']}, max_running_requests={ledger.running_limit}, "
        f"context_len={ledger.context_len}, available_gpu_mem={ledger.summary:.2f} GB"
    )


def host_pool_gb(arguments: Mapping[str, Argument], ledger: Ledger) -> float:
    """Decimal GB of one rank's HiCache pool, 0 without one."""
    tokens = host_pool_tokens(arguments, ledger)
    return (tokens + 1) * ledger.pool.cell_bytes / 1e9 if tokens else 0.0


def host_pool_tokens(arguments: Mapping[str, Argument], ledger: Ledger) -> int:
    """Tokens of the HiCache pool, 0 without one (sglang 0.5.9 srt/mem_cache/memory_pool_host.py:157)."""
    if not arguments.get("enable_hierarchical_cache"):
        return 0
    size_gb = float(str(arguments.get("hicache_size") or 0))
    if size_gb > 0:
        return int(size_gb * 1e9 // ledger.pool.cell_bytes)
    return int(ledger.pool.tokens * float(str(arguments.get("hicache_ratio") or 2.0)))


def host_pool_fits(figures: Figures, arguments: Mapping[str, Argument], ledger: Ledger) -> bool:
    """One rank's pool against what is available on the machine less 10 GiB (0.5.9 memory_pool_host.py:172)."""
    return host_pool_gb(arguments, ledger) * 1e9 <= (figures.memory.available_gib - 10) * GIB


def _no_host_memory(start: Start, clock: _Clock) -> None:
    asked, left = host_pool_gb(start.arguments, start.ledger), (start.figures.memory.available_gib - 10) * GIB / 1e9
    frames = (
        ("srt/managers/scheduler.py", 3176, "run_scheduler_process", "scheduler = Scheduler("),
        ("srt/mem_cache/hiradix_cache.py", 82, "__init__", "self.token_to_kv_pool_host = MLATokenToKVPoolHost("),
        ("srt/mem_cache/memory_pool_host.py", 178, "__init__", "raise ValueError("),
    )
    error = (
        f"ValueError: Not enough host memory available. Requesting {asked:.2f} GB but only have {left:.2f} GB free. "
        "Please reduce the size of the hierarchical cache."
    )
    _traceback(clock, frames, error)


def _host_pools(start: Start, clock: _Clock) -> None:
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


def _ready(start: Start, clock: _Clock) -> None:
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


def _traceback(clock: _Clock, frames: tuple[tuple[str, int, str, str], ...], error: str) -> None:
    package = clock.start.server.package
    head = f"[{clock.at.strftime(STAMP)}{clock.start.tag(0)}] "
    lines = [f"{head}Scheduler hit an exception: Traceback (most recent call last):"]
    for path, number, function, code in frames:
        lines += [f'  File "{package}/{path}", line {number}, in {function}', f"    {code}"]
    for text in (*lines, *error.split("\n"), ""):
        clock.raw(text)
    clock.wait(0.6)
    clock.main("Received sigquit from a child process. It usually means the child failed.")


def _refused(start: Start, clock: _Clock) -> None:
    fraction = start.arguments.get("mem_fraction_static")
    frames = (
        ("srt/managers/scheduler.py", 3176, "run_scheduler_process", "scheduler = Scheduler("),
        ("srt/model_executor/model_runner.py", 590, "initialize", "self.init_memory_pool(min_per_gpu_memory)"),
        (
            "srt/model_executor/model_runner_kv_cache_mixin.py",
            416,
            "init_memory_pool",
            "raise RuntimeError(",
        ),
    )
    if start.modern:
        ledger = start.ledger
        after = ledger.after_weights if ledger.draft_pool is None else ledger.draft_after_weights
        least = 1 - after / ledger.before_weights
        error = (
            f"ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static={fraction}. "
            f"Raise --mem-fraction-static above {least + 0.0005:.3f} (minimum viable = 1 - available/pre = "
            f"{least:.4f}). If using speculative decoding, draft weights are now counted."
        )
    else:
        error = (
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: "
            f"self.server_args.mem_fraction_static={fraction}"
        )
    _traceback(clock, frames, error)


def _graph_failure(start: Start, clock: _Clock) -> None:
    ledger = start.ledger
    clock.wait(2.5)
    clock.every(
        f"Capture cuda graph begin. This can take up to several minutes. avail mem={free:.2f} GB"
        for free in _free(start, ledger.graph_begin)
    )
    clock.first(f"Capture cuda graph bs {list(ledger.graph_sizes)}")
    clock.wait(start.boot.graphs_s / 3)
    total = (start.figures.gpus.memory_mib - start.figures.gpus.reserved_mib) / 1024 if start.figures.gpus else 0.0
    frames = (
        ("srt/managers/scheduler.py", 3176, "run_scheduler_process", "scheduler = Scheduler("),
        (
            "srt/model_executor/model_runner.py",
            2157,
            "init_device_graphs",
            "self.graph_runner = graph_runners[self.device](self)",
        ),
        ("srt/model_executor/cuda_graph_runner.py", 371, "__init__", "raise Exception("),
    )
    error = (
        "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 1.75 GiB. GPU 0 has a total "
        f"capacity of {total:.2f} GiB of which {max(ledger.graph_begin - 0.9, 0.31):.2f} GiB is free.\n"
        "Possible solutions:\n"
        "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
        "2. set --cuda-graph-max-bs to a smaller value (e.g., 16)\n"
        "3. disable torch compile by not using --enable-torch-compile\n"
        "4. disable CUDA graph by --disable-cuda-graph. (Not recommended. Huge performance loss)\n"
        "Open an issue on GitHub https://github.com/sgl-project/sglang/issues/new/choose "
    )
    _traceback(clock, frames, error)
