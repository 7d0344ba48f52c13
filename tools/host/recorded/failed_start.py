"""What SGLang prints where a start ends for want of memory: on the GPU, for the graphs, on the host."""

from __future__ import annotations

from tools.host.recorded.host_pool import host_pool_gb
from tools.host.recorded.ledger import GIB
from tools.host.recorded.start import STAMP, Clock, Start, by_rank


def no_host_memory(start: Start, clock: Clock) -> None:
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


def no_kv_budget(start: Start, clock: Clock) -> None:
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


def graph_out_of_memory(start: Start, clock: Clock) -> None:
    ledger = start.ledger
    clock.wait(2.5)
    clock.every(
        f"Capture cuda graph begin. This can take up to several minutes. avail mem={free:.2f} GB"
        for free in by_rank(start, ledger.graph_begin)
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


def _traceback(clock: Clock, frames: tuple[tuple[str, int, str, str], ...], error: str) -> None:
    package = clock.start.server.package
    head = f"[{clock.at.strftime(STAMP)}{clock.start.tag(0)}] "
    lines = [f"{head}Scheduler hit an exception: Traceback (most recent call last):"]
    for path, number, function, code in frames:
        lines += [f'  File "{package}/{path}", line {number}, in {function}', f"    {code}"]
    for text in (*lines, *error.split("\n"), ""):
        clock.raw(text)
    clock.wait(0.6)
    clock.main("Received sigquit from a child process. It usually means the child failed.")
