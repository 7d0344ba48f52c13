"""Text as operators paste it: what becomes a fact, from which line, and what does not."""

# ruff: noqa: E501  (pasted text is as wide as it was)
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.long import many
from tools.host.parsers import parse
from tools.host.parsers.incident import parse_text
from transcripts.facts import Evidence, Facts
from transcripts.vocabulary import VOCABULARY


def read(text: str, probe: str = "pasted") -> Facts:
    return Facts(parse_text(Evidence("E7", probe, "", "h", "", 0, text)))


OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 95.08 GiB "
    "of which 1.27 GiB is free. Of the allocated memory 92.83 GiB is allocated by PyTorch, and 5.54 MiB is reserved by "
    "PyTorch but unallocated."
)


@pytest.mark.parametrize(
    ("frames", "phase"),
    [
        ('File "srt/model_executor/model_runner.py", line 900, in forward_extend', "prefill"),
        ('File "srt/model_executor/model_runner.py", line 900, in forward_decode', "decode"),
        ('File "srt/layers/quantization/awq.py", line 518, in create_weights', "load"),
        ('File "srt/model_executor/cuda_graph_runner.py", line 600, in capture_one_batch_size', "graph_capture"),
        ('File "srt/layers/logits_processor.py", line 300, in forward', "logits"),
        ('File "srt/models/pixtral.py", line 77, in get_image_feature', "multimodal"),
        ('File "srt/model_executor/model_runner.py", line 300, in init_memory_pool', "pools"),
        ("nothing that tells", "unknown"),
    ],
)
def test_the_phase_comes_from_the_frames(frames: str, phase: str) -> None:
    facts = read(f"Traceback (most recent call last):\n  {frames}\n{OOM}")
    assert facts.text("oom_phase") == phase
    assert facts.number("oom_request_gib") == 2.0
    assert facts.number("oom_free_gib") == 1.27
    found = facts.get("oom_request_gib")
    assert found is not None
    assert found.source == "E7:3"


_PREFILL = "[2026-01-10 03:00:01 TP0] Prefill batch, #new-seq: 1, #new-token: 8192, #cached-token: 0, token usage: 0.41, #running-req: 9, #queue-req: 0"
_DECODE = "[2026-01-10 03:00:00 TP0] Decode batch, #running-req: 9, #token: 4096, token usage: 0.41, cuda graph: True, gen throughput (token/s): 310.20, #queue-req: 0"


@pytest.mark.parametrize(
    ("before", "phase"),
    [
        ([_DECODE, 'File "srt/model_executor/model_runner.py", line 900, in forward_extend'], "prefill"),
        ([_PREFILL, 'File "srt/model_executor/model_runner.py", line 900, in forward_decode'], "decode"),
        ([_DECODE, _PREFILL], "prefill"),
        ([_PREFILL, _DECODE], "decode"),
    ],
)
def test_frames_tell_the_phase_and_without_any_the_batch_that_was_last(before: list[str], phase: str) -> None:
    assert read("\n".join([*before, OOM])).text("oom_phase") == phase


def test_the_words_of_every_failed_allocation_are_no_complaint_and_a_symptom_has_its_line() -> None:
    text = f"{OOM.replace('Of the', 'Including non-PyTorch memory, this process has 93.8 GiB memory in use. Of the')}"
    facts = read(f"server up since Monday\n{text}\nIt hangs.")
    terms = {fact.scope: fact.source for fact in facts.all("symptom")}
    assert terms.keys().isdisjoint({"fragmented", "outside_pytorch"})
    assert terms["hangs"] == "E7:3"
    assert terms["gpu_memory_out"] == "E7:2"


def test_a_kill_by_the_kernel_is_no_gpu_failure() -> None:
    facts = read("Out of memory: Killed process 4711 (python3) total-vm:1kB")
    assert "oom_phase" not in facts
    assert facts.get("message", "kernel_oom") is not None


def test_long_prompts_that_miss_on_one_rank_what_another_holds() -> None:
    batch = "[2026-01-10 03:00:0{} DP{} TP0] Prefill batch, #new-seq: 1, #new-token: {}, #cached-token: {}, token usage: 0.41"
    rows = [(0, 0, 512, 4096), (1, 1, 100, 20_000), (2, 1, 4095, 0), (3, 1, 4096, 0), (4, 0, 8191, 0), (5, 0, 8192, 0),
            (6, 1, 39_999, 0), (7, 0, 40_000, 0)]  # fmt: skip
    facts = read("\n".join(batch.format(*row) for row in rows))
    found = facts.get("missed_on_rank")
    assert found is not None
    assert (found.value, found.source) == (3, "E7:7")
    assert "missed_on_rank" not in read("\n".join(batch.format(at, 0, new, hit) for at, _, new, hit in rows))


def test_refusals_of_the_parser() -> None:
    facts = read(
        "error: unrecognized arguments: --enable_metrics --foo 3\nerror: argument --tool-call-parser: invalid choice: 'kimi-k2' (choose from kimi_k2, qwen)"
    )
    assert {fact.value for fact in facts.all("rejected_flag")} == {"--enable_metrics", "--foo", "--tool-call-parser"}
    assert facts.text("rejected_value") == "kimi-k2"


def test_figures_of_a_refused_input_and_of_a_failed_allocation() -> None:
    facts = read(
        "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).\n"
        "Try to allocate 148 tokens.\nAvaliable tokens: 2048"
    )
    assert facts.number("input_limit_tokens") == 59862
    assert facts.number("wanted_below_available") == 1900


@pytest.mark.parametrize(
    "text",
    [
        "python -m sglang.launch_server --model-path m --tp 8 --mem-fraction-static 0.9 --enable-metrics",
        "services:\n  llm:\n    image: lmsysorg/sglang\n    command: >\n      python3 -m sglang.launch_server --model-path m\n      --tp=8 --mem-fraction-static=0.9 --enable-metrics",
        'args: ["--model-path", "m", "--tp", "8", "--mem-fraction-static", "0.9", "--enable-metrics"]',
        '      args:\n        - --tp\n        - "8"\n        - --mem-fraction-static\n        - "0.9"\n        - --enable-metrics',
    ],
)
def test_a_command_a_compose_file_and_a_manifest_hold_the_same_flags(text: str) -> None:
    facts = read(text)
    assert facts.text("flag", "--tp") == "8"
    assert facts.text("flag", "--mem-fraction-static") == "0.9"
    assert facts.text("flag", "--enable-metrics") == "true"


def test_a_flag_that_is_named_as_absent_is_none_and_secrets_stay_out() -> None:
    facts = read("--tp 2 (container without --shm-size) --api-key abc123 SGLANG_ENABLE_SPEC_V2=True")
    assert "--shm-size" not in {fact.scope for fact in facts.all("flag")}
    assert "abc123" not in {str(fact.value) for fact in facts}
    assert facts.text("env", "SGLANG_ENABLE_SPEC_V2") == "True"


def test_options_without_their_command_and_a_note_of_the_box_are_read() -> None:
    options = "prefill: --tp 8 --hicache-size 150\nSGLANG_ENABLE_SPEC_V2=1 --max-running-requests=64"
    facts = read(f"GPU: 8x H200 (~140 GB usable each)\nsglang_version: 0.5.14 (a fork)\nmodel: org/m\n{options}")
    assert {fact.scope for fact in facts.all("flag")} == {"--tp", "--hicache-size", "--max-running-requests"}
    assert (facts.number("gpu_count"), facts.number("gpu_total_gib")) == (8, 140)
    assert (facts.text("compute_capability"), facts.text("version")) == ("9.0", "0.5.14")
    assert not read("error: ambiguous option: --x could match --xa, --xb").all("flag")


def test_what_the_operator_says_is_claimed_and_what_is_pasted_is_observed() -> None:
    said, pasted = read("the output is garbage", "complaint"), read("the output is garbage")
    assert {fact.grade for fact in said} == {"claimed"}
    assert {fact.grade for fact in pasted} == {"observed"}


@pytest.mark.parametrize("text", ["nothing is queued", "no queue at all", "#queue-req: 0"])
def test_an_empty_queue_is_no_wait(text: str) -> None:
    assert read(text).get("symptom", "requests_wait") is None


@pytest.mark.parametrize(
    ("text", "running", "queue"),
    [
        ("48 running, 20 waiting", 48, 20),
        ("yes, 48 are running and 120 requests wait in the queue", 48, 120),
        ("only 16 run, 300 others queued", 16, 300),
        ("running 48, queue 20", 48, 20),
        ("it runs 31 while others wait", 31, None),
        ("we have 8 running servers and the queue is 3 min", None, None),
        ("we run 8 gpus and requests wait 30 seconds", None, None),
        ("48 running", None, None),  # of what, and beside whom
    ],
)
def test_running_and_waiting_requests_as_an_operator_tells_them(text: str, running: int, queue: int) -> None:
    facts = read(text, "complaint")
    assert (facts.number("running_p95"), facts.number("queue_p95")) == (running, queue)
    assert {fact.grade for fact in facts if fact.name in ("running_p95", "queue_p95")} <= {"claimed"}


@pytest.mark.parametrize(
    "text",
    [
        "no oom",
        "it never hangs",
        "we did not see an oom",
        "without a crash",
        "yes, others wait in the queue",
        "no leak",
    ],
)
def test_what_did_not_befall_them_is_no_symptom(text: str) -> None:
    facts = read(text, "complaint")
    happened = {fact.scope for fact in facts if fact.name in ("symptom", "message")}
    assert happened & {"hangs", "gpu_memory_out", "cuda_oom", "looks_like_leak"} == set()
    assert facts.get("oom_phase") is None


@pytest.mark.parametrize("text", ["no OOM, but it hangs", "it hung twice", "OOM: it did not recover"])
def test_what_befell_them_beside_it_is_one(text: str) -> None:
    happened = {fact.scope for fact in read(text, "complaint") if fact.name == "symptom"}
    assert happened & {"hangs", "gpu_memory_out"}


@settings(max_examples=many(60))
@given(st.text(max_size=400))
def test_any_text_is_read_without_complaint(text: str) -> None:
    for fact in read(text):
        assert fact.name in VOCABULARY
        assert fact.unit == VOCABULARY[fact.name][0]


def _pasted(text: str) -> list[tuple[str, str, object]]:
    return [(fact.name, fact.scope, fact.value) for fact in parse(Evidence("E1", "pasted", "", "h", "", 0, text))]


@pytest.mark.parametrize("prompt", ["$ ", "root@gpu1:~# ", "[ops@n3 ~]$ ", "ops@n3:/srv/sglang$ "])
def test_a_command_that_was_typed_is_no_output(prompt: str) -> None:
    assert _pasted(f"{prompt}grep 'CUDA out of memory' server.log") == []
    assert _pasted(f"{prompt}nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader") == []
    assert _pasted(f"{prompt}dmesg | grep -i 'killed process'") == []


def test_a_launch_that_was_typed_is_still_a_launch() -> None:
    facts = _pasted("$ python3 -m sglang.launch_server --model-path m --tp 8 \\\n  --mem-fraction-static 0.9")
    assert ("flag", "--mem-fraction-static", "0.9") in facts


def test_what_grep_counted_is_counted() -> None:
    assert ("retractions", "", 0) in _pasted("$ grep -c 'Retract requests' sglang.log\n0")
    assert ("retractions", "", 17) in _pasted("root@g:~# zgrep -ci retract sglang.log.1.gz\n17")
    assert [name for name, *_ in _pasted("$ grep -c 'CUDA out of memory' s.log\n0")] == []
    assert ("message", "cuda_oom", "CUDA out of memory") in _pasted("$ grep -c 'CUDA out of memory' s.log\n3")


@pytest.mark.parametrize("probe", ["pasted", "journal_boot"])
def test_what_may_be_typed_is_not_what_was(probe: str) -> None:
    text = (
        "usage: launch_server.py [-h] --model-path MODEL_PATH\n"
        "                        [--max-running-requests MAX_RUNNING_REQUESTS]\n"
        "launch_server.py: error: unrecognized arguments: --enable-hicache --max-num-seqs 64\n"
        "Decode batch. #running-req: 3, token usage: 0.60, #queue-req: 0\n"
    )
    facts = Facts(parse(Evidence("E2", probe, "", "h", "", 0, text)))
    typed = {fact.scope: fact.source for fact in facts.all("flag")}
    assert "--max-running-requests" not in typed
    assert facts.get("launch_argv") is None


def test_an_image_tag_gives_the_version_and_gigabytes_of_shared_memory_are_no_shortage() -> None:
    compose = "services:\n  a:\n    image: lmsysorg/sglang:v0.5.9-cu129\n    shm_size: {}\n    command: sglang serve\n"
    facts = read(compose.format("32g"))
    assert facts.text("version") == "0.5.9"
    assert facts.get("symptom", "shm") is None
    assert read(compose.format("64m")).get("symptom", "shm") is not None
    two = compose.format("32g") + "  b:\n    image: lmsysorg/sglang:v0.5.12\n"
    assert read(two).text("version") == ""


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("--mem-fraction-static was tuned; it is slow", ["--mem-fraction-static"]),
        ("do not touch chunked_prefill_size. Why is it slow", ["--chunked-prefill-size"]),
        ("we set --tp and --page-size on purpose", ["--tp", "--page-size"]),
        ("please leave schedule-policy as it is", ["--schedule-policy"]),
        ("--mem-fraction-static was never tuned", []),
        ("mem-fraction-static is 0.88. We tuned the rest", []),
        ("our fine-tuned model is slow", []),
        ("we cannot accept fp8, quality matters", ["--kv-cache-dtype"]),
        ("no quantization", ["--kv-cache-dtype"]),
        ("kein fp8 bitte, qualität geht vor", ["--kv-cache-dtype"]),
        ("fp8 is off the table, accuracy team said no", ["--kv-cache-dtype"]),
        ("fp8 kommt nicht in Frage", ["--kv-cache-dtype"]),
        ("wir dürfen kein fp8 einsetzen", ["--kv-cache-dtype"]),
        ("nothing that costs quality", ["--kv-cache-dtype", "--quantization"]),
        ("keep the context length", ["--context-length"]),
        ("keep the context length as it is", ["--context-length"]),
        ("die kontextlänge muss so bleiben", ["--context-length"]),
        ("don't touch conservativeness, we need the throughput", ["--schedule-conservativeness"]),
        ("chunk 4096 only, leave the fraction alone", ["--mem-fraction-static"]),
        ("boss says no change to max running requests", ["--max-running-requests"]),
        ("we can't pin host memory, compliance", ["--enable-hierarchical-cache"]),
        ("requests queue and fp8 is on", []),
        ("the server runs without hicache and is slow", []),
        ("no speculative decoding, then it is fast", []),
        ("it cannot load the quantized model", []),
        ("Not enough host memory available", []),
        ("no fp8 kernels found for this card", []),
        ("we do not see why the context length is refused", []),
    ],
)
def test_a_setting_that_was_chosen_with_care(words: str, options: list[str]) -> None:
    facts = parse_text(Evidence("E1", "complaint", "", "operator", "", None, words))
    assert [fact.scope for fact in facts if fact.name == "tuned"] == options
    assert {fact.grade for fact in facts} <= {"claimed"}


@pytest.mark.parametrize(
    ("words", "until"),
    [
        ("no restart before 6am", "before 6am"),
        ("I can't reboot", "at all"),
        ("please do not restart until tomorrow", "until tomorrow"),
        ("kein Neustart vor 6 Uhr", "before 6 Uhr"),
        ("no downtime tonight", "tonight"),
        ("I cannot restart today", "today"),
        ("after the change it cannot restart", ""),
        ("no restart helped", ""),
        ("we restart it every night", ""),
        ("the pod restarts before it is ready", ""),
    ],
)
def test_a_restart_that_is_ruled_out(words: str, until: str) -> None:
    facts = parse_text(Evidence("E1", "complaint", "", "operator", "", None, words))
    assert "".join(str(fact.value) for fact in facts if fact.name == "no_restart") == until
