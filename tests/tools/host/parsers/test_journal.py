"""Logs as they reach the program: wrapped, coloured, cut, of several ranks and several starts, ramping up."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tools.host.parsers import parse, parse_stream, series
from transcripts.facts import Evidence, Facts

DECODE = (
    "Decode batch, #running-req: {running}, #token: {tokens}, token usage: {usage:.2f}, accept len: 2.50, "
    "accept rate: 0.62, cuda graph: True, gen throughput (token/s): 900.00, #queue-req: {queue}"
)
PREFILL = (
    "Prefill batch, #new-seq: 1, #new-token: {new}, #cached-token: {cached}, token usage: 0.40, #running-req: 3, "
    "#queue-req: 0, input throughput (token/s): 4000.00, cuda graph: False"
)
SUMMARY = (
    "max_total_num_tokens=159209, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=48, "
    "context_len=262144, available_gpu_mem=5.60 GB"
)


def read(text: str, probe: str = "journal_boot") -> Facts:
    return Facts(parse(Evidence("E5", probe, "journalctl", "h", "", 0, text)))


def stamp(second: int) -> str:
    return f"2026-02-10 03:{second // 60:02d}:{second % 60:02d}"


def decode(second: int, running: int, tokens: int, queue: int, rank: str = " TP0") -> str:
    text = DECODE.format(running=running, tokens=tokens, usage=tokens / 159_209, queue=queue)
    return f"[{stamp(second)}{rank}] {text}"


INNER = f"[2026-02-10 03:11:40 TP0] {SUMMARY}"
WRAPPINGS: dict[str, Callable[[str], str]] = {
    "bare": lambda line: line,
    "milliseconds": lambda line: line.replace("03:11:40", "03:11:40.125"),
    "short": lambda line: f"Feb 10 03:11:40 gpu1 python3[4242]: {line}",
    "short-iso": lambda line: f"2026-02-10T03:11:40+0000 gpu1 python3[4242]: {line}",
    "short-iso-precise": lambda line: f"2026-02-10T03:11:40.123456+00:00 gpu1 python[4242]: {line}",
    "short-full": lambda line: f"Tue 2026-02-10 03:11:40 UTC gpu1 python3[4242]: {line}",
    "journald json": lambda line: json.dumps({"MESSAGE": line, "__REALTIME_TIMESTAMP": "1770693100000000"}),
    "journald bytes": lambda line: json.dumps({"MESSAGE": list(f"\x1b[32m{line}\x1b[0m".encode())}),
    "docker json": lambda line: json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-02-10T03:11:40.1Z"}),
    "docker timestamps": lambda line: f"2026-02-10T03:11:40.123456789Z {line}",
    "compose": lambda line: f"sglang-kimi-1  | {line}",
    "kubernetes": lambda line: f"2026-02-10T03:11:40.123456789Z stderr F {line}",
    "kubectl": lambda line: f"[pod/sglang-0/server] {line}",
    "colours": lambda line: f"\x1b[32m{line}\x1b[0m",
    "escaped colours": lambda line: f"#033[1;32m{line}#033[0m",
    "carriage return": lambda line: f"Loading safetensors:  97%|█████▋| 61/63\r{line}",
}


@pytest.mark.parametrize("name", WRAPPINGS)
def test_wrapping_does_not_matter(name: str) -> None:
    facts = read(WRAPPINGS[name](INNER))
    assert facts.number("kv_pool") == 159_209
    assert facts.number("running_limit") == 48
    assert facts.number("free_after_boot_gib") == 5.6


def test_quoted_ranks_without_a_time() -> None:
    lines = [f"[TP{rank}] Allocating 150.00 GB host memory for hierarchical KV cache." for rank in range(4)]
    facts = read("\n".join(lines), "pasted")
    assert facts.number("host_pool_ranks") == 4
    assert facts.number("host_pool_total_gb") == 600.0


def test_ranks_that_differ_are_kept_and_the_least_counts() -> None:
    free = {"DP0 TP0": 3.1, "DP0 TP1": 2.9, "DP1 TP0": 3.4}
    text = "\n".join(f"[2026-02-10 03:11:40 {rank}] Memory pool end. avail mem={gib} GB" for rank, gib in free.items())
    facts = read(text)
    assert facts.number("pool_end_gib") == 2.9
    assert facts.number("pool_end_gib", "DP1 TP0") == 3.4


def test_limits_of_data_parallel_ranks() -> None:
    text = "\n".join(
        f"[2026-02-10 03:11:40 DP{rank} TP0] {SUMMARY.replace('=48', f'={12 + (rank == 3)}')}" for rank in range(4)
    )
    facts = read(text)
    assert facts.number("running_limit") == 12
    assert facts.number("running_limit", "DP3 TP0") == 13


def test_several_starts() -> None:
    def start(minute: int, limit: int) -> list[str]:
        return [
            f"[2026-02-10 03:{minute:02d}:00] Max running requests is reset to {limit} for speculative decoding.",
            f"[2026-02-10 03:{minute:02d}:01] server_args=ServerArgs(model_path='/m', max_running_requests={limit})",
            f"[2026-02-10 03:{minute:02d}:10 TP0] Load weight begin. avail mem=94.00 GB",
            f"[2026-02-10 03:{minute:02d}:31 TP0] {SUMMARY.replace('=48', f'={limit}')}",
        ]

    ready = "The server is fired up and ready to roll!"
    lines = [
        *start(0, 48),
        f"[2026-02-10 03:01:41] {ready}",
        decode(110, 48, 90_000, 5),
        "2026-02-10T03:02:30+0000 gpu1 systemd[1]: sglang.service: Scheduled restart job, restart counter is at 1.",
        *start(3, 24),
        f"[2026-02-10 03:04:11] {ready}",
        decode(300, 24, 40_000, 0),
        *start(6, 32),
    ]
    facts = read("\n".join(lines))
    assert facts.number("starts") == 3
    assert facts.number("restarts") == 1
    assert [fact.value for fact in facts.all("load_seconds")] == [100.0, 70.0]
    assert facts.number("running_limit") == 32
    assert facts.number("spec_default_reset") == 32
    assert facts.number("server_arg", "max_running_requests") == 32
    assert facts.get("ready") is not None
    assert facts.number("ready") == 0
    assert facts.get("running_p50") is None, "the last start that served had another limit"
    assert facts.get("load_of_past_start") is not None


def test_a_second_load_after_ready_is_a_start_where_the_arguments_were_cut_off() -> None:
    text = (
        "[2026-02-10 03:00:10 TP0] Load weight begin. avail mem=94.00 GB\n"
        "[2026-02-10 03:01:41] The server is fired up and ready to roll!\n"
        "[2026-02-10 03:05:10 TP0] Load weight begin. avail mem=60.00 GB\n"
    )
    facts = read(text)
    assert facts.number("starts") == 2
    assert facts.get("weights_before_gib") is None
    assert facts.get("ready") is None, "nothing says whether the second start failed"


def test_a_ramp_is_described_by_where_it_stands() -> None:
    idle = [decode(second, 1, 1_500, 0) for second in range(120)]
    ramp = [decode(120 + step, 2 * step, 4_000 * step, 0) for step in range(1, 24)]
    pinned = [decode(150 + second, 48, 95_500 + second, 10 + second % 7) for second in range(60)]
    facts = read("\n".join([INNER, *idle, *ramp, *pinned]))
    assert facts.number("running_p50") == 48
    assert facts.number("running_p50", "all") == 1
    assert facts.number("pinned_share") == 1.0
    assert facts.number("loaded_lines") == 60
    assert facts.number("decode_lines") == 203
    assert facts.number("loaded_window_s") == 59.0
    assert facts.number("tokens_per_request") == 1990.2


def test_without_a_known_limit_the_highest_count_stands_for_it() -> None:
    facts = read("\n".join(decode(second, 48, 95_000, 3) for second in range(20)), "journal_recent")
    assert facts.number("pinned_share") == 1.0


def test_a_sawtooth_is_not_pinned() -> None:
    lines = [decode(second, 18 + second % 5, 151_000 + 1_500 * (second % 5), 6) for second in range(100)]
    facts = read("\n".join([INNER, *lines]))
    assert facts.number("pinned_share") == 0.0
    assert facts.number("queued_share") == 1.0
    assert facts.number("running_p50") == 20
    assert facts.number("usage_max") == 0.99
    assert facts.number("usage_min") == 0.95


def test_no_load_no_queue() -> None:
    facts = read("\n".join([INNER, *(decode(second, second % 3, 900 * (second % 3), 0) for second in range(60))]))
    assert facts.number("queue_max") == 0
    assert facts.number("queued_share") == 0.0
    assert facts.number("pinned_share") == 0.0


def test_cached_share_of_thirds_goes_by_time() -> None:
    quiet = [f"[{stamp(second)} TP0] {PREFILL.format(new=100, cached=900)}" for second in range(0, 600, 60)]
    busy = [f"[{stamp(second)} TP0] {PREFILL.format(new=900, cached=100)}" for second in range(1200, 1800)]
    facts = read("\n".join([*quiet, f"[{stamp(900)} TP0] {PREFILL.format(new=500, cached=500)}", *busy]))
    assert facts.number("cached_share", "first") == 0.9
    assert facts.number("cached_share", "middle") == 0.5
    assert facts.number("cached_share", "last") == 0.1
    assert facts.number("new_tokens_per_hour", "first") == round(1000 / 540 * 3600)
    assert facts.number("new_tokens_per_hour", "last") == round(540_000 / 599 * 3600)


def test_percentiles_cite_a_line_that_holds_the_value() -> None:
    lines = [decode(second, 10 + second, 10_000, 0) for second in range(40)]
    found = read("\n".join(lines)).get("running_p95")
    assert found is not None
    number = int(found.source.removeprefix("E5:"))
    assert f"#running-req: {found.value}," in lines[number - 1]


def test_pools_of_hybrid_models() -> None:
    line = (
        "Decode batch, #running-req: 4, #full token: 2642688, full token usage: 1.00, #swa token: 14592, "
        "swa token usage: 0.06, cuda graph: False, gen throughput (token/s): 429.34, #queue-req: 3"
    )
    facts = read(f"[2026-02-10 03:11:40] {line}")
    assert facts.number("usage_max", "full") == 1.0
    assert facts.number("usage_max", "swa") == 0.06
    assert facts.number("usage_max") == 1.0
    assert facts.number("graph_false_share") == 1.0
    assert facts.number("tokens_per_request") == 660_672


@pytest.mark.parametrize("kept", range(10, len(decode(0, 48, 95_526, 17)), 7))
def test_a_cut_line_yields_no_shortened_number(kept: int) -> None:
    facts = read(decode(0, 48, 95_526, 17)[:kept])
    for name, value in (
        ("running_max", 48),
        ("tokens_per_request", 1990.1),
        ("usage_max", 0.6),
        ("accept_len_p50", 2.5),
    ):
        found = facts.number(name)
        assert found is None or found == value


def test_series_for_pictures() -> None:
    text = "\n".join([INNER, decode(0, 3, 5_000, 0), f"[{stamp(5)} TP0] {PREFILL.format(new=7, cached=1)}", "noise"])
    points = series(Evidence("E5", "journal_recent", "", "h", "", 0, text))
    assert [(point.kind, point.seconds, point.running, point.line) for point in points] == [
        ("decode", 0.0, 3, 2),
        ("prefill", 5.0, 3, 3),
    ]
    assert points[0].at == "2026-02-10 03:00:00"
    assert points[0].tokens == 5_000
    assert points[1].new == 7
    assert series(Evidence("E6", "meminfo", "", "h", "", 0, "MemTotal: 1 kB")) == ()


def test_a_stream_reads_the_same_as_the_whole() -> None:
    lines = [INNER, *(decode(second, second % 49, 1_000 * second, second % 4) for second in range(200))]
    whole = tuple(fact for fact in parse(Evidence("E1", "journal_boot", "", "h", "", 0, "\n".join(lines))))
    assert parse_stream(line + "\n" for line in lines) == whole


def test_arguments_as_text_are_no_summary() -> None:
    facts = read(
        "[2026-02-10 03:00:01] server_args=ServerArgs(max_total_tokens=5, max_running_requests=7, api_key='k')"
    )
    assert facts.get("running_limit") is None
    assert facts.number("server_arg", "max_total_tokens") == 5


def test_arguments_cut_in_the_middle() -> None:
    facts = read("[2026-02-10 03:00:01] server_args=ServerArgs(model_path='/m', tp_size=8, mem_fraction_static=0.8")
    assert facts.number("server_arg", "tp_size") == 8
    assert facts.get("server_arg", "mem_fraction_static") is None


def test_summary_in_an_operators_words() -> None:
    facts = read("max_total_num_tokens=211968, context_len=180000\ntoken usage: 0.01", "pasted")
    assert facts.number("kv_pool") == 211_968
    assert facts.number("context_len") == 180_000
    assert facts.number("usage_max") == 0.01


def test_prefill_lines_alone_show_who_runs_and_waits() -> None:
    line = (
        "Prefill batch. #new-seq: 8, #new-token: 16384, #cached-token: 0, token usage: 0.19, #running-req: 370, "
        "#queue-req: 646"
    )
    facts = read(f"[2025-06-01 03:11:40 TP0] {line}")
    assert facts.number("running_max") == 370
    assert facts.number("queue_p50") == 646
    assert facts.number("usage_max") == 0.19
    assert facts.get("decode_lines") is None


def test_a_retraction_without_figures_is_still_one() -> None:
    facts = read("KV cache pool is full. Retract requests. ...", "pasted")
    assert facts.number("retractions") == 1
    assert facts.get("retracted_requests") is None


def test_server_of_one_rank_without_draft() -> None:
    lines = [
        "[2026-02-10 03:11:00] Load weight begin. avail mem=78.50 GB",
        "[2026-02-10 03:11:10] Load weight end. type=LlamaForCausalLM, avail mem=63.00 GB, mem usage=15.50 GB.",
        "[2026-02-10 03:11:11] KV Cache is allocated. #tokens: 400000, K size: 24.41 GB, V size: 24.41 GB",
        "[2026-02-10 03:11:11] Memory pool end. avail mem=13.70 GB",
        "[2026-02-10 03:11:12] Capture cuda graph bs [1, 2, 4, 8, 160]",
        "[2026-02-10 03:11:20] Capture cuda graph end. Time elapsed: 8.00 s. mem usage=1.20 GB. avail mem=12.50 GB.",
    ]
    facts = read("\n".join(lines))
    assert facts.number("kv_pool") == 400_000, "the pool's own line counts where the summary was cut off"
    assert facts.number("kv_pool_gib") == 48.82
    assert facts.number("graph_max_bs") == 160
    assert facts.get("kv_pool", "draft") is None
    assert facts.get("weights_after_gib", "draft") is None


def test_a_rate_across_prefill_is_held_against_the_rate_before_it_on_the_same_rank() -> None:
    decode = "[2026-06-01 15:00:{:02} TP0] Decode batch, #running-req: {}, gen throughput (token/s): {}, #queue-req: 2"
    prefill = "[2026-06-01 15:00:02 TP0] Prefill batch, #new-seq: 1, #new-token: {}, #cached-token: 0, #running-req: 22"
    starved = [decode.format(1, 22, "800.0"), prefill.format(32768), decode.format(9, 23, "60.0")]
    assert read("\n".join(starved)).number("decode_rate_across_prefill") == 0.075
    fewer = [decode.format(1, 22, "800.0"), prefill.format(32768), decode.format(9, 3, "60.0")]
    short = [decode.format(1, 22, "800.0"), prefill.format(300), decode.format(9, 23, "60.0")]
    assert all("decode_rate_across_prefill" not in read("\n".join(one)) for one in (fewer, short))


@pytest.mark.parametrize(("limit", "counts"), [(48, True), (72, False)])
def test_the_load_of_a_start_with_another_limit_is_not_that_of_the_present_start(limit: int, counts: bool) -> None:
    begun = "[2026-02-10 03:{minute}:00] server_args=ServerArgs(model_path='/m', tp_size=8)"
    lines = [
        begun.format(minute=10),
        f"[2026-02-10 03:11:40 TP0] {SUMMARY}",
        *(decode(second, 48, 95_000, 17) for second in range(720, 760)),
        begun.format(minute=20),
        f"[2026-02-10 03:21:40 TP0] {SUMMARY.replace('requests=48', f'requests={limit}')}",
    ]
    facts = read("\n".join(lines))
    assert facts.number("running_limit") == limit
    assert facts.get("load_of_past_start") is not None
    assert (facts.get("running_p95") is not None) == counts
