"""Names of facts, their units and what they mean. Parsers yield these, everything else reads these.

One name means one thing. A new name is one new line here; `scope` says what a scope distinguishes.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

# name: (unit, meaning)
HOST: Final = {
    "gpu_name": ("", "model of a GPU; scope gpuN"),
    "gpu_count": ("gpus", "GPUs the host shows"),
    "gpu_memory_mib": ("MiB", "size of a GPU; scope gpuN"),
    "gpu_used_mib": ("MiB", "used on a GPU; scope gpuN"),
    "gpu_free_mib": ("MiB", "free on a GPU; scope gpuN"),
    "gpu_process_mib": ("MiB", "used by one process on one GPU; scope gpuN:PID"),
    "driver_version": ("", "of the GPU driver"),
    "compute_capability": ("", "of a GPU; scope gpuN"),
    "xid": ("", "code of a GPU error in the kernel log; scope the device"),
    "mem_total_bytes": ("bytes", "MemTotal"),
    "mem_available_bytes": ("bytes", "MemAvailable"),
    "cgroup_limit_bytes": ("bytes", "memory limit of the server's cgroup or container, the smallest on its path"),
    "cgroup_used_bytes": ("bytes", "memory charged to that cgroup"),
    "numa_nodes": ("nodes", "NUMA nodes"),
    "numa_total_bytes": ("bytes", "memory of a node; scope nodeN"),
    "numa_free_bytes": ("bytes", "free memory of a node; scope nodeN"),
    "hugepages_total": ("pages", "HugePages_Total"),
    "transparent_hugepages": ("", "always, madvise or never"),
    "memlock_bytes": ("bytes", "locked-memory limit of the server; -1 is unlimited"),
    "nofile_limit": ("files", "open-file limit of the server"),
    "shm_total_bytes": ("bytes", "size of /dev/shm"),
    "shm_free_bytes": ("bytes", "free in /dev/shm"),
    "disk_free_bytes": ("bytes", "free on a file system; scope the mount point"),
    "kernel_oom_kill": ("", "a process the kernel killed for memory, its name; scope pid"),
    "probe_problem": ("", "why a probe brought nothing: missing, denied, timeout, refused; scope the probe"),
}

SERVER: Final = {
    "version": ("", "SGLang's version"),
    "install_path": ("", "folder of the sglang package"),
    "git_commit": ("", "commit of the tree it runs from"),
    "launch_argv": ("", "command line as typed, one shell-quoted string"),
    "launch_form": ("", "systemd, docker, compose, kubernetes, script, shell"),
    "unit_name": ("", "systemd unit"),
    "unit_state": ("", "active, failed, activating, inactive"),
    "restarts": ("", "automatic restarts systemd has counted"),
    "container": ("", "container the server runs in"),
    "flag": ("", "value typed on the command line, `true` for a switch; scope the flag, as --name"),
    "env": ("", "value of an environment variable of the unit (names only where private); scope NAME"),
    "server_arg": ("", "value in effect after resolution, from server_args= or /server_info; scope the destination"),
    "pid": ("", "process id of the server"),
    "started_at": ("", "start of the current process"),
    "running": ("", "true when a server process is there"),
    "port": ("", "port it listens on"),
    "model_path": ("", "model as launched"),
    "served_model": ("", "name the model is served under"),
    "model_config": ("", "the model's config.json as compact JSON text; scope `draft` for the draft model's"),
    "endpoint_status": ("", "HTTP status of a probed endpoint; scope the path"),
    "metric": ("", "value of a metric; scope its name without the sglang: prefix, labels summed or of rank 0"),
    "request_rate": ("", "reserved for series derived from metrics; scope the metric"),
}

BOOT: Final = {
    "ready": ("", "true once `fired up and ready to roll` was printed in the current start"),
    "starts": ("", "starts seen in the journal"),
    "weights_before_gib": (
        "GiB",
        "free GPU memory before weights, minimum over ranks; scope `draft` for the draft model",
    ),
    "weights_after_gib": ("GiB", "free GPU memory after weights, minimum over ranks; scope `draft` likewise"),
    "weights_gib": ("GiB", "memory the weights took, as printed; scope `draft` likewise"),
    "kv_dtype": ("", "element type of the KV cache as printed"),
    "kv_pool": ("tokens", "tokens of the KV pool (max_total_num_tokens); scope draft, full, swa for others"),
    "kv_pool_gib": ("GiB", "size of the KV pool per rank as printed; scope draft, full, swa for others"),
    "pool_end_gib": ("GiB", "free after memory pools; scope `draft` for the second"),
    "graph_gib": ("GiB", "memory a graph capture took; scope target, draft, draft extend"),
    "graph_end_gib": ("GiB", "free after a graph capture; scope likewise"),
    "graph_max_bs": ("requests", "largest captured decode batch"),
    "running_limit": ("requests", "max_running_requests in effect (the ready line; per DP rank where it says so)"),
    "context_len": ("tokens", "context_len of the ready line"),
    "chunked_prefill_size": ("tokens", "of the ready line"),
    "max_prefill_tokens": ("tokens", "of the ready line"),
    "free_after_boot_gib": ("GiB", "available_gpu_mem of the ready line"),
    "spec_default_reset": ("requests", "limit that speculative decoding set by default, from its warning"),
    "state_slots": ("slots", "recurrent-state slots"),
    "state_cap": ("requests", "running limit imposed by state slots; scope `slots_per_request` for the divisor"),
    "host_pool_gb": ("GB", "host memory of a HiCache pool per rank, decimal, as printed; scope the pool or rank"),
    "host_pool_ranks": ("ranks", "ranks that printed an allocation"),
    "load_seconds": ("s", "from start to ready, of past starts"),
}

LOAD: Final = {
    "decode_lines": ("lines", "decode lines looked at"),
    "prefill_lines": ("lines", "prefill lines looked at"),
    "load_window_s": ("s", "time from the first to the last of them"),
    "running_p50": ("requests", "median of #running-req"),
    "running_p95": ("requests", "95th percentile of #running-req"),
    "running_max": ("requests", "maximum of #running-req"),
    "queue_p50": ("requests", "median of #queue-req"),
    "queue_p95": ("requests", "95th percentile of #queue-req"),
    "queue_max": ("requests", "maximum of #queue-req"),
    "usage_p50": ("fraction", "median of token usage; scope full, swa, state for sub-pools"),
    "usage_p95": ("fraction", "95th percentile of token usage; scope likewise"),
    "usage_max": ("fraction", "maximum of token usage; scope likewise"),
    "usage_min": ("fraction", "minimum of token usage; scope likewise"),
    "pinned_share": ("fraction", "share of decode lines at the running limit with a queue"),
    "tokens_per_request": ("tokens", "median of #token / #running-req over decode lines"),
    "tokens_per_request_p95": ("tokens", "95th percentile of the same"),
    "cached_share": (
        "fraction",
        "cached / (cached + new) over prefill lines; scope first, last: of that third of the window",
    ),
    "new_tokens": ("tokens", "sum of #new-token"),
    "cached_tokens": ("tokens", "sum of #cached-token"),
    "new_tokens_p50": ("tokens", "median #new-token of a prefill line"),
    "accept_len_p50": ("tokens", "median accept length"),
    "gen_throughput_p50": ("tokens/s", "median generation throughput"),
    "graph_false_share": ("fraction", "share of decode lines with graph: False"),
    "retractions": ("events", "retraction lines"),
    "retracted_requests": ("requests", "sum of #retracted_reqs"),
    "retraction_gain_p50": ("tokens", "median tokens one retracted request gave back"),
    "new_token_ratio_max": ("fraction", "largest new_token_ratio after a retraction"),
}

FAILURE: Final = {
    "oom_phase": (
        "",
        "where GPU memory ran out: load, pools, graph_capture, warmup, prefill, decode, logits, multimodal",
    ),
    "oom_request_gib": ("GiB", "size of the allocation that failed"),
    "oom_free_gib": ("GiB", "free on the device then"),
    "minimum_fraction": ("fraction", "smallest mem-fraction-static that the server said is viable"),
    "rejected_flag": ("", "flag that the parser refused; scope unrecognized, invalid_choice, missing_value"),
    "error_line": ("", "an error line kept as it is; scope its exception class"),
    "warning_line": ("", "a warning kept as it is"),
}

VOCABULARY: Final = MappingProxyType({**HOST, **SERVER, **BOOT, **LOAD, **FAILURE})
