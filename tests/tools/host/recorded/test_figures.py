"""The figures of the story stand where the real programs print them."""

from __future__ import annotations

import json
import re

import pytest

from tests.tools.host.recorded.hosts import NAMES, journal, out
from tools.host.recorded import RecordingUnreadable, load, names

UNIT = "sglang-kimi.service"


def test_four_recordings_ship_and_bring_the_same_complaint() -> None:
    assert tuple(sorted(name for name, _ in names())) == tuple(sorted(NAMES))
    assert names()[0][0] == "slots"
    assert all(title for _, title in names())
    complaint = (
        "seems like I'm kinda low on max parallel request context, what options do we have for ram offload of kv cache?"
    )
    assert {load(name).complaint for name in NAMES} == {complaint}


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    with pytest.raises(RecordingUnreadable, match=r"no recording 'slot'.*slots.*kv"):
        load("slot")


@pytest.mark.parametrize("name", NAMES)
def test_gpus(name: str) -> None:
    fields = "index,name,memory.total,memory.used,memory.free,memory.reserved"
    text = out(load(name), f"nvidia-smi --query-gpu={fields} --format=csv,noheader,nounits")
    rows = [line.split(", ") for line in text.splitlines()]
    assert [row[0] for row in rows] == [str(index) for index in range(8)]
    assert {row[1] for row in rows} == {"NVIDIA RTX PRO 6000 Blackwell Server Edition"}
    assert {row[2] for row in rows} == {"97887"}
    assert all(abs(int(row[3]) - 92_450) < 10 for row in rows)
    assert all(sum(int(value) for value in row[3:]) == 97_887 for row in rows)


@pytest.mark.parametrize("name", NAMES)
def test_free_shows_396_gi_available(name: str) -> None:
    recording = load(name)
    row = out(recording, "free -h").splitlines()[1].split()
    assert (row[0], row[1], row[6]) == ("Mem:", "503Gi", "396Gi")
    in_bytes = out(recording, "free -b").splitlines()[1].split()
    assert int(in_bytes[6]) == 396 << 30
    fields = dict(line.split(":") for line in out(recording, "cat /proc/meminfo").splitlines())
    assert int(fields["MemAvailable"].split()[0]) == 396 << 20
    # `used` is total minus available in procps 4.
    assert int(in_bytes[1]) - int(in_bytes[6]) == int(in_bytes[2])


@pytest.mark.parametrize("name", NAMES)
def test_boot_log(name: str) -> None:
    lines = journal(load(name))
    start = max(number for number, line in enumerate(lines) if line.startswith(f"Started {UNIT}"))
    boot = lines[start:]

    def count(pattern: str) -> int:
        return sum(1 for line in boot if re.search(pattern, line))

    assert count(r"TP0\] Load weight begin\. avail mem=94\.06 GB") == 1
    assert count(r"Load weight begin\. avail mem=") == 16
    loaded = r"type=KimiK25ForConditionalGeneration, dtype=torch\.bfloat16, avail mem=21\.71 GB, mem usage=72\.35 GB\.$"
    assert count(rf"TP0\] Load weight end\. elapsed=\d+\.\d\d s, {loaded}") == 1
    assert count(r"KV Cache is allocated\. #tokens: 159209, KV size: 10\.42 GB$") == 8
    assert count(r"KV Cache is allocated\. #tokens: 159209, K size: 0\.30 GB, V size: 0\.30 GB$") == 8
    ends = [float(line.split("avail mem=")[1].split()[0]) for line in boot if "TP0] Memory pool end." in line]
    assert ends == pytest.approx([11.2, 7.9], abs=0.05)
    assert count(r"Max running requests is reset to 48 for speculative decoding\. You can override this by") == 1
    assert count(r"TP0\] max_total_num_tokens=159209, chunked_prefill_size=8192, max_prefill_tokens=16384, "
                 r"max_running_requests=48, context_len=262144, available_gpu_mem=\d+\.\d\d GB$") == 1  # fmt: skip
    assert count(r"The server is fired up and ready to roll!$") == 1
    assert count(r"server_args=ServerArgs\(model_path='/models/Kimi-K2\.5'.*max_running_requests=48") == 1
    assert count(r"Spec v2 is enabled for eagle/eagle3") == 1


@pytest.mark.parametrize("name", NAMES)
def test_the_unit(name: str) -> None:
    recording = load(name)
    text = out(recording, f"systemctl cat --no-pager {UNIT}")
    assert text.startswith(f"# /etc/systemd/system/{UNIT}\n[Unit]\n")
    assert "\nEnvironment=SGLANG_ENABLE_SPEC_V2=True\n" in text
    assert "\n[Install]\nWantedBy=multi-user.target\n" in text
    assert "--max-running-requests" not in text
    pid = out(recording, f"systemctl show -p MainPID --value {UNIT}").strip()
    words = out(recording, f"cat /proc/{pid}/cmdline").split("\0")
    for flag, value in (
        ("--served-model-name", "kimi-k2.5"),
        ("--tp", "8"),
        ("--mem-fraction-static", "0.88"),
        ("--speculative-algorithm", "EAGLE3"),
        ("--speculative-num-steps", "3"),
        ("--speculative-eagle-topk", "1"),
        ("--speculative-num-draft-tokens", "4"),
        ("--tool-call-parser", "kimi_k2"),
        ("--reasoning-parser", "kimi_k2"),
    ):
        assert words[words.index(flag) + 1] == value


@pytest.mark.parametrize("name", NAMES)
def test_the_model(name: str) -> None:
    text = json.loads(out(load(name), "cat /models/Kimi-K2.5/config.json"))["text_config"]
    keys = ("num_hidden_layers", "kv_lora_rank", "qk_rope_head_dim", "max_position_embeddings")
    assert [text[key] for key in keys] == [61, 512, 64, 262_144]
    draft = json.loads(out(load(name), "cat /models/Kimi-K2.5-eagle3/config.json"))
    assert draft["architectures"] == ["LlamaForCausalLMEagle3"]


@pytest.mark.parametrize("name", NAMES)
def test_the_server_tells_what_the_log_tells(name: str) -> None:
    recording = load(name)
    info = json.loads(out(recording, "curl -s -S -m 5 http://127.0.0.1:30000/server_info"))
    assert (info["version"], info["max_running_requests"], info["max_total_num_tokens"]) == ("0.5.9", 48, 159_209)
    assert info["internal_states"][0]["memory_usage"] == {
        "weight": 72.35,
        "kvcache": 10.42,
        "token_capacity": 159_209,
        "graph": 1.48,
    }
    loads = json.loads(out(recording, "curl -s -m 5 'http://127.0.0.1:30000/v1/loads?include=all'"))["loads"][0]
    decodes = [line for line in journal(recording) if "Decode batch" in line]
    if name == "story":
        assert not decodes
        assert (loads["num_running_reqs"], loads["num_waiting_reqs"]) == (0, 0)
    else:
        last = decodes[-1]
        assert f"#running-req: {loads['num_running_reqs']}, #token: {loads['num_used_tokens']}," in last
        assert last.endswith(f"#queue-req: {loads['num_waiting_reqs']}")


def test_only_the_prefix_host_has_metrics() -> None:
    statuses = {}
    for name in NAMES:
        statuses[name] = out(load(name), "curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:30000/metrics")
    assert statuses == {"slots": "404", "kv": "404", "prefix": "200", "story": "404"}
