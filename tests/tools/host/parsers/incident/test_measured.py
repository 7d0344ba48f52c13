"""What operators measure beside a log: tables, rows of figures, with and without, sizes of traffic, stacks, disks."""

# ruff: noqa: E501  (pasted text is as wide as it was)
from __future__ import annotations

import pytest

from tools.host.parsers.incident import parse_text
from transcripts.facts import Evidence, Facts


def read(text: str, probe: str = "pasted") -> Facts:
    return Facts(parse_text(Evidence("E7", probe, "", "h", "", 0, text)))


@pytest.mark.parametrize(
    ("text", "quantity", "first", "last"),
    [
        ("users  hit rate  ttft\n5      88%       0.7 s\n25     41%       3 s\n80     6%        14 s", "hit_share", 0.88, 0.06),
        ("| clients | prefix hits | p50 |\n|---|---|---|\n| 4 | 0.93 | 1 |\n| 90 | 0.04 | 8 |", "hit_share", 0.93, 0.04),
        ("cache hit rate was 0.87 in March, 0.21 now", "hit_share", 0.87, 0.21),
        ("prefix hit rate: 81 % with 20 agents, 12 % with 200", "hit_share", 0.81, 0.12),
        ("accept len at 08:00 3.41, at 10:00 2.80, at 14:00 1.75", "accept_len", 3.41, 1.75),
        ("accept length 4.02 -> 1.31 within two hours", "accept_len", 4.02, 1.31),
        ("scheduler RSS 12 GiB on Monday, 19 GiB on Tuesday, 33 GiB today", "rss_gib", 12.0, 33.0),
        ("VmRSS of TP0\nhour  resident\n0     10g\n12    14g\n24    21g", "rss_gib", 10.0, 21.0),
        ("container_memory_working_set_bytes: 40 GiB after start, 71 GiB after 3 days", "rss_gib", 40.0, 71.0),
    ],
)  # fmt: skip
def test_a_series_has_a_first_and_a_last_value(text: str, quantity: str, first: float, last: float) -> None:
    facts = read(text)
    assert facts.number("series_first", quantity) == pytest.approx(first, rel=0.01)
    assert facts.number("series_last", quantity) == pytest.approx(last, rel=0.01)
    assert facts.text("series_steady", quantity) == "True"


@pytest.mark.parametrize(
    ("text", "subject", "ratio"),
    [
        ("fp8_e5m2: 512 tok/s, bf16: 1430 tok/s", "kv_dtype", 0.358),
        ("TPOT 88 ms with --kv-cache-dtype fp8_e4m3, 31 ms without", "kv_dtype", 0.352),
        ("throughput with hicache 2210 tok/s, without 2230 tok/s", "host_cache", 0.991),
        ("hierarchical cache on: 905 tokens/s; off: 900 tokens/s", "host_cache", 1.006),
        ("job took 812 s with the L3 store (420 s with it off)", "store", 0.517),
        ("mean TTFT without the storage tier: 1.2 s, with it 4.8 s", "store", 0.25),
        ("with and without it: 340 / 344 tok/s", "", 0.988),
        ("decode 410 tok/s now, 980 tok/s before", "", 0.418),
    ],
)
def test_speed_with_something_over_speed_without_it(text: str, subject: str, ratio: float) -> None:
    assert read(text).number("speed_ratio", subject) == pytest.approx(ratio, abs=0.002)


@pytest.mark.parametrize(
    "text",
    [
        "gen throughput 410 tok/s, accept len 2.9",
        "hit rate stays at 0.9 with 40 users",
        "[2026-01-01 10:00:00 TP0] Decode batch, #running-req: 3, #token: 900, token usage: 0.01, accept len: 3.1, gen throughput (token/s): 171.80, #queue-req: 0",
        "3 users with 2 cards at 08:00 and 4 at 09:00",
    ],
)
def test_figures_that_compare_nothing_are_no_series(text: str) -> None:
    facts = read(text)
    assert "speed_ratio" not in facts
    assert "series_last" not in facts


@pytest.mark.parametrize(
    ("text", "name", "scope", "value"),
    [
        ("50 users with about 40k tokens of history each", "working_set_tokens", None, 2_000_000),
        ("agents: 24, context 90k", "working_set_tokens", None, 2_160_000),
        ("Total input tokens: 12,000\nTotal generated tokens: 900,000", "bench_output_tokens", None, 900_000),
        ("served by tier: device=120000 host=3400 storage=990000", "tier_tokens", "storage", 990_000),
        ("evicted_tokens_total 5.1e7 since the morning", "metric", "evicted_tokens_total", 51_000_000),
        ("$ df -h\nFilesystem Size Used Avail Use% Mounted on\n/dev/sdb1 100G 100G 20K 100% /data/kv", "disk_used_share", "/data/kv", 1.0),
        ("Device r/s w/s rMB/s wMB/s %util\nnvme1n1 20.0 31000.0 0.1 130.2 99.1", "disk_writes_per_s", "nvme1n1", 31000.0),
        ("sda r/s 12 w/s 8800 wMB/s 40 %util 93", "disk_busy_share", "sda", 0.93),
        ('"OOMKilled": true,\n"Memory": 68719476736,', "cgroup_limit_bytes", None, 68719476736),
        ("limits: {memory: 64Gi, nvidia.com/gpu: 8}", "cgroup_limit_bytes", None, 64 << 30),
        ('"limits":{"cpu":"8","memory":"64Gi"},"requests":{"memory":"32Gi"}', "cgroup_limit_bytes", None, 64 << 30),
        ("prefill_delayer_outcomes_total{output_reason=\"delay\"} 48211", "message", "prefill_held_back", "prefill_delayer_outcomes_total{output_reason=\"delay\"} 48211"),
        ("$ cat /sys/fs/cgroup/memory.max\n137438953472", "cgroup_limit_bytes", None, 137438953472),
        ("memory.events:\nlow 0\nhigh 0\nmax 0\noom 0", "cgroup_limit_hits", None, 0),
        ("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)", "kernel_oom_constraint", None, "CONSTRAINT_MEMCG"),
        ("SystemOOM: victim process: mysqld, pid: 4", "oom_victim", None, "mysqld"),
        ("$ ss -tn state established | wc -l\n812", "connections", None, 812),
        ("$ find /kv -type f | wc -l\n2400112", "stored_files", None, 2400112),
        ("  GPU0 GPU1\nGPU0 X SYS\nGPU1 SYS X", "gpu_link", None, "SYS"),
        ("nvidia-smi in the evening: 76 / 61 / 61 / 61 GB", "gpu0_extra_mib", None, 15360),
        ("GPU 0: 44 GB, GPU 1: 39 GB used", "gpu0_extra_mib", None, 5120),
        ("buffer of 9.7 GiB per rank\ncudaHostAlloc size=17179869184", "pin_taken_bytes", None, 17179869184),
        ("    evict (mem_cache/hiradix_cache.py:604)", "stack_frame", "hiradix_cache.py", "evict"),
        ('  File "/a/managers/scheduler.py", line 12 in get_next_batch_to_run', "stack_frame", "scheduler.py", "get_next_batch_to_run"),
        ("serve: error: ambiguous option: --cuda-graph-bs could match --cuda-graph-bs-decode, --cuda-graph-bs-prefill", "rejected_flag", "ambiguous", "--cuda-graph-bs"),
        ("server_args: page_size=64, mamba_scheduler_strategy='extra_buffer'", "server_arg", "page_size", "64"),
    ],
)  # fmt: skip
def test_notes_and_short_outputs(text: str, name: str, scope: str | None, value: object) -> None:
    facts = read(text)
    found = facts.get(name, scope)
    assert found is not None, facts
    assert found.value == value


@pytest.mark.parametrize(
    ("denied", "said", "name", "scope"),
    [
        ("sglang.launch_server in the previous image lmsysorg/sglang:v0.4.6", "sglang.launch_server in image lmsysorg/sglang:v0.4.6", "version", None),
        ("grep -c 'Retract requests' server.log -> 0", "grep -c 'Retract requests' server.log -> 12", "message", "retraction"),
        ("No hicache here, and kein MTP.", "With hicache it dies.", "symptom", "host_cache"),
        ("hicache is off", "hicache is on, no hit", "symptom", "host_cache"),
        ("7 of 8 gpus at 100 %", "7 of 8 on every rank", "symptom", "one_slot_short"),
    ],
)  # fmt: skip
def test_what_is_denied_looked_for_or_of_a_former_start_is_no_fact(
    denied: str, said: str, name: str, scope: str | None
) -> None:
    assert read(denied).get(name, scope) is None
    assert read(said).get(name, scope) is not None


def test_whole_chunks_are_no_prompts_of_one_length() -> None:
    line = "Prefill batch, #new-seq: 1, #new-token: 32768, #cached-token: 0, token usage: 0.02"
    assert "equal_prompts_missed" not in read("\n".join([line] * 3))


def test_pinned_memory_that_was_not_rounded_is_no_rounding() -> None:
    assert "pin_taken_bytes" not in read("requested 20.4 GiB\ncudaHostAlloc size=21904333619")


def test_a_row_of_df_is_no_usage_of_the_pool() -> None:
    assert "usage_p95" not in read("/dev/mapper/vg0-kv 40G 40G 0 100% /var/cache/kv")


def test_hits_at_whole_chunks_and_equal_prompts_that_miss() -> None:
    line = "Prefill batch, #new-seq: 1, #new-token: {}, #cached-token: {}, token usage: 0.02"
    hits = read("\n".join(line.format(new, cached) for new, cached in ((311, 4096), (902, 8192), (77, 4096))))
    assert hits.number("cached_step_tokens") == 4096
    missed = read("\n".join([line.format(1900, 0)] * 3))
    assert missed.number("equal_prompts_missed") == 3
    assert "equal_prompts_missed" not in read("\n".join(line.format(1900 + n, 0) for n in range(3)))


BOOT = "Load weight begin. avail mem=90 GB\nLoad weight end. type=LlamaForCausalLM, avail mem=40 GB\nCapture cuda graph begin. avail mem=6 GB\n"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB."


@pytest.mark.parametrize(
    ("log", "phase"),
    [
        (f"{BOOT}Capture cuda graph end. mem usage=2 GB\nLoad weight begin. avail mem=4 GB\n{OOM}", "draft"),
        (
            f"{BOOT}Capture cuda graph end.\nLoad weight begin.\nLoad weight end. type=Qwen3MTP, avail mem=1 GB\n{OOM}",
            "draft",
        ),
        (f"{BOOT}{OOM}", "graph_capture"),
    ],
)
def test_the_stage_of_the_start_tells_the_phase(log: str, phase: str) -> None:
    assert read(log).text("oom_phase") == phase


@pytest.mark.parametrize(
    "line", ["oom 0", "SystemOOM  System OOM encountered, victim process: java, pid: 1", '"OOMKilled": false']
)
def test_host_memory_is_no_gpu_memory(line: str) -> None:
    facts = read(line)
    assert "oom_phase" not in facts
    assert facts.get("message", "cuda_oom") is None
    assert facts.get("message", "cgroup_kill") is None
