"""The load windows, and that what depends on a figure follows it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.tools.host.recorded.hosts import copy, journal, out
from tools.host.recorded import Recording, RecordingUnreadable, load

DECODE = re.compile(
    r"^\[(?P<at>[-0-9: ]{19}) TP0\] Decode batch, #running-req: (?P<running>\d+), #token: (?P<tokens>\d+), "
    r"token usage: (?P<usage>\d\.\d\d), accept len: \d\.\d\d, accept rate: \d\.\d\d, "
    r"cuda graph: True, gen throughput \(token/s\): \d+\.\d\d, #queue-req: (?P<queue>\d+)$"
)
PREFILL = re.compile(r"Prefill batch, #new-seq: \d+, #new-token: (\d+), #cached-token: (\d+), token usage")
RETRACT = re.compile(
    r"KV cache pool is full\. Retract requests\. #retracted_reqs: 1, #new_tokens_gained: (\d+), "
    r"#new_token_ratio: \d\.\d{4} -> \d\.\d{4}$"
)


@dataclass(frozen=True)
class Window:
    at: list[datetime]
    running: list[int]
    tokens: list[int]
    usage: list[float]
    queue: list[int]


def window(recording: Recording, skip: float = 0.25) -> Window:
    """Decode lines after the ramp."""
    found = [match for line in journal(recording) if (match := DECODE.match(line))]
    found = found[int(len(found) * skip) :]
    return Window(
        [datetime.fromisoformat(match["at"]) for match in found],
        [int(match["running"]) for match in found],
        [int(match["tokens"]) for match in found],
        [float(match["usage"]) for match in found],
        [int(match["queue"]) for match in found],
    )


def retractions(recording: Recording) -> list[int]:
    return [int(match[1]) for line in journal(recording) if (match := RETRACT.search(line))]


def test_slots_ramps_up_and_is_then_pinned_at_48() -> None:
    recording = load("slots")
    ramp = window(recording, skip=0)
    assert ramp.running[0] < 10
    seen = window(recording)
    assert (seen.at[-1] - seen.at[0]).total_seconds() >= 15 * 60
    assert set(seen.running) == {48}
    assert set(seen.queue) == {17}
    assert all(0.58 <= usage <= 0.61 for usage in seen.usage)
    assert retractions(recording) == []
    # 0.9 of the pool holds 72 of these requests, the whole pool about 80.
    each = median(tokens / running for tokens, running in zip(seen.tokens, seen.running, strict=True))
    assert int(0.9 * 159_209 / each) == 72
    assert int(159_209 / each) == 80


def test_kv_saws_below_a_full_pool_and_throws_requests_back() -> None:
    recording = load("kv")
    seen = window(recording)
    assert 19 <= median(seen.running) <= 21
    assert max(seen.running) < 48
    assert min(seen.queue) > 5
    inside = sum(1 for usage in seen.usage if usage >= 0.95) / len(seen.usage)
    assert inside > 0.9
    assert max(seen.usage) >= 0.99
    each = median(tokens / running for tokens, running in zip(seen.tokens, seen.running, strict=True))
    assert each == pytest.approx(7_700, rel=0.02)
    gained = retractions(recording)
    assert len(gained) >= 10
    assert all(7_400 <= tokens <= 8_000 for tokens in gained)


def shares(recording: Recording) -> list[float]:
    """Cached share of prefill tokens in each third of the last hour."""
    unit = "sglang-kimi.service"
    lines = out(recording, f"journalctl -u {unit} -n 12000 --no-pager -o short-iso --since=-1h").splitlines()
    found = [(datetime.fromisoformat(line.split()[0]), match) for line in lines if (match := PREFILL.search(line))]
    first, last = found[0][0], found[-1][0]
    sums = [[0, 0], [0, 0], [0, 0]]
    for at, match in found:
        third = sums[min(2, int((at - first) / (last - first) * 3))]
        third[0] += int(match[1])
        third[1] += int(match[2])
    return [cached / (new + cached) for new, cached in sums]


def metric(recording: Recording, name: str) -> float:
    text = out(recording, "curl -s http://127.0.0.1:30000/metrics")
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(f"sglang:{name}{{"))


def test_prefix_loses_its_hits_as_the_traffic_passes_the_pool() -> None:
    recording = load("prefix")
    first, middle, last = shares(recording)
    assert first > 0.8 > middle > 0.4 > 0.25 > last
    assert metric(recording, "evicted_tokens_total") > 10 * 159_209
    assert metric(recording, "load_back_tokens_total") == 0
    seen = window(recording, skip=0.6)
    assert max(seen.usage) < 0.35
    assert set(seen.queue) == {0}
    assert retractions(recording) == []


def test_a_host_copy_brings_back_what_the_pool_has_lost(tmp_path: Path) -> None:
    changes = {"flag:--enable-hierarchical-cache": True, "flag:--hicache-ratio": "4.0"}
    copied = load("prefix").altered(changes, tmp_path / "copy")
    assert shares(copied)[2] > 1.5 * shares(load("prefix"))[2]
    back = metric(copied, "load_back_tokens_total")
    text = out(copied, "curl -s http://127.0.0.1:30000/metrics")
    (host,) = re.findall(r'^sglang:cached_tokens_total\{cache_source="host"[^ ]* (\S+)$', text, re.MULTILINE)
    assert float(host) == back > 0
    assert 'cache_source="total"' not in text
    small = load("prefix").altered(changes | {"flag:--hicache-ratio": "1.5"}, tmp_path / "small")
    assert 0 < metric(small, "load_back_tokens_total") < 0.6 * back
    assert metric(load("slots").altered(changes, tmp_path / "slots"), "load_back_tokens_total") == 0


def test_counters_are_the_sums_of_the_lines() -> None:
    recording = load("prefix")
    found = [match for line in journal(recording) if (match := PREFILL.search(line)) and match[1] != "44"]
    assert metric(recording, "cached_tokens_total") == sum(int(match[2]) for match in found)
    total = sum(int(match[1]) + int(match[2]) for match in found)
    assert metric(recording, "prompt_tokens_total") == pytest.approx(total, rel=1e-3)


def test_less_ram_shows_everywhere(tmp_path: Path) -> None:
    recording = copy("slots", tmp_path, memory__available_gib=120.0)
    assert out(recording, "free -h").splitlines()[1].split()[6] == "120Gi"
    assert out(recording, "grep MemAvailable /proc/meminfo").split()[1] == str(120 << 20)
    top = out(recording, "top -b -n 1 | grep avail")
    assert top.rstrip().endswith(f"{120 * 1024:.1f} avail Mem")
    assert journal(recording) == journal(load("slots"))


def test_more_memory_after_weights_gives_a_larger_pool(tmp_path: Path) -> None:
    recording = copy("kv", tmp_path, boot__weights_after_gib=31.7068)
    tokens = int((31.7068 - 94.06 * (1 - 0.88)) * 2**30) // 70_272
    lines = journal(recording)
    assert sum(f"#tokens: {tokens}, KV size: 20.42 GB" in line for line in lines) == 16  # two starts of eight ranks
    assert any(f"max_total_num_tokens={tokens}," in line for line in lines)
    assert f'"max_total_num_tokens":{tokens}' in out(recording, "curl -s http://127.0.0.1:30000/v1/loads")
    # What was too small for 34 requests of 7,700 tokens now holds them.
    assert retractions(recording) == []
    assert median(window(recording).running) == 34
    # The pool takes what the reserve leaves: what is free after it stays. The draft's pool comes out of that reserve.
    ends, before = (pool_ends(recording), pool_ends(load("kv")))
    assert ends[0] == before[0]
    assert before[1] - ends[1] == pytest.approx((tokens - 159_209) * 4_096 / 2**30, abs=0.02)
    more_mib = recording.cards[0].used_mib - load("kv").cards[0].used_mib
    assert more_mib == pytest.approx((before[1] - ends[1]) * 1024, abs=12)


def pool_ends(recording: Recording) -> list[float]:
    """Free memory after the target's and the draft's pools, first rank, last start."""
    lines = journal(recording, "Memory pool end")
    return [float(line.split("avail mem=")[1].split()[0]) for line in lines if " TP0]" in line][-2:]


def test_a_typed_limit_is_no_default(tmp_path: Path) -> None:
    recording = load("slots").altered({"flag:--max-running-requests": 48}, tmp_path / "copy")
    assert not any("is reset to 48" in line for line in journal(recording))
    assert any("max_running_requests=48, context_len" in line for line in journal(recording))
    assert "\n  --max-running-requests 48 \\\n" in out(recording, "systemctl cat sglang-kimi")
    assert set(window(recording).running) == {48}


def test_a_higher_limit_lets_in_all_that_wait(tmp_path: Path) -> None:
    recording = load("slots").altered({"flag:--max-running-requests": 72}, tmp_path / "copy")
    seen = window(recording)
    assert set(seen.running) == {65}
    assert set(seen.queue) == {0}
    assert "Capture cuda graph bs [1, 2, 3, 4, 5, 6, 7, 8, 10" in "\n".join(journal(recording, "Capture cuda graph bs"))
    assert any(line.endswith("56, 60, 64, 72]") for line in journal(recording, "Capture cuda graph bs"))


def test_fp8_kv_doubles_the_tokens(tmp_path: Path) -> None:
    recording = load("kv").altered({"flag:--kv-cache-dtype": "fp8_e4m3"}, tmp_path / "copy")
    assert any("Using KV cache dtype: torch.float8_e4m3fn" in line for line in journal(recording))
    assert any("#tokens: 318418, KV size: 10.42 GB" in line for line in journal(recording))


def test_hicache_prints_one_allocation_a_rank(tmp_path: Path) -> None:
    changes = {"flag:--enable-hierarchical-cache": True, "flag:--hicache-ratio": "4.0"}
    recording = load("slots").altered(changes, tmp_path / "copy")
    lines = journal(recording, "host memory for hierarchical")
    assert len(lines) == 16
    assert all("Allocating 44.75 GB host memory for hierarchical KV cache." in line for line in lines)


def test_a_host_pool_that_one_rank_cannot_have_ends_the_start(tmp_path: Path) -> None:
    changes = {"memory.available_gib": 40.0, "flag:--enable-hierarchical-cache": True, "flag:--hicache-ratio": "4.0"}
    recording = load("slots").altered(changes, tmp_path / "copy")
    text = "\n".join(journal(recording))
    assert "Not enough host memory available. Requesting 44.75 GB but only have 32.21 GB free." in text
    assert recording.answer("curl -s http://127.0.0.1:30000/health").exit == 7


def test_dp_attention_divides_the_limit(tmp_path: Path) -> None:
    changes = {"flag:--enable-dp-attention": True, "flag:--dp": 4}
    recording = load("slots").altered(changes, tmp_path / "copy")
    ready = journal(recording, "max_total_num_tokens=")[-1]
    assert "max_running_requests=12," in ready
    assert " DP0 TP0]" in ready


def test_another_running_count(tmp_path: Path) -> None:
    recording = copy("slots", tmp_path, load__phases__0__running=30)
    seen = window(recording)
    assert set(seen.running) == {30}
    assert set(seen.queue) == {35}


def test_another_hit_rate(tmp_path: Path) -> None:
    recording = copy("prefix", tmp_path, load__phases__2__hit_rate=0.9)
    assert shares(recording)[2] > 0.85
    assert metric(recording, "evicted_tokens_total") < 0.65 * metric(load("prefix"), "evicted_tokens_total")


def test_a_recording_plays_the_same_way_every_time() -> None:
    assert journal(load("kv")) == journal(load("kv"))


@pytest.mark.parametrize(
    ("figures", "named"),
    [
        ({"memory__avail_gib": 3}, "memory.avail_gib"),
        ({"load__phases__0__hit_rate": 1.5}, "load.phases.0.hit_rate"),
        ({"boot__weights_after_gib": None}, "boot.weights_after_gib"),
        ({"server__state": "dreaming"}, "server.state"),
    ],
)
def test_a_figure_that_does_not_fit_is_named(tmp_path: Path, figures: dict[str, Any], named: str) -> None:
    with pytest.raises(RecordingUnreadable, match=re.escape(named)):
        copy("slots", tmp_path, **figures)


def test_a_folder_that_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(RecordingUnreadable, match=r"has no host\.yaml"):
        load(tmp_path)
    (tmp_path / "host.yaml").write_text("title: [", encoding="utf-8")
    with pytest.raises(RecordingUnreadable, match="cannot be read"):
        load(tmp_path)
