"""The line of a failure is named, whatever the cause: as the kernel, PyTorch, the hub and SGLang print it."""

# ruff: noqa: E501  (log lines are as wide as they are printed)
from __future__ import annotations

import pytest

from agent.incident import assess, read_given
from tools.diagnosis import failed
from transcripts.facts import Facts

START = "[2026-11-30 02:10:01] server_args=ServerArgs(model_path='/models/m', tp_size=8, trust_remote_code=False, host='0.0.0.0', port=30000)"
LINES = [
    ("gpu_error", "NVRM: Xid (PCI:0000:81:00): 79, pid=4321, name=sglang::schedul, GPU has fallen off the bus."),
    ("gpu_error", "Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost. Reboot the system to recover this GPU"),
    ("gpu_error", "RuntimeError: CUDA error: uncorrectable ECC error encountered"),
    ("kernel_failed", "[2026-11-30 02:12:09 TP3] RuntimeError: CUDA error: unspecified launch failure"),
    ("kernel_failed", "NVRM: Xid (PCI:0000:81:00): 31, pid=4321, name=sglang::schedul, Ch 00000008, MMU Fault"),
    ("fabric_not_ready", "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized"),
    ("gpu_not_there", "RuntimeError: CUDA error: invalid device ordinal"),
    ("gpu_too_old", "RuntimeError: SGLang only supports sm75 and above."),
    ("driver_too_old", "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver / cuda driver combination"),
    ("path_missing", "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name'"),
    ("segfault", "!!!!!!! Segfault encountered !!!!!!! Segmentation fault (core dumped)"),
    ("port_taken", "[2026-11-30 02:12:01] ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address already in use"),
    ("disk_full", "OSError: [Errno 28] No space left on device"),
    ("driver_not_visible", "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory"),
    ("driver_not_visible", "RuntimeError: No CUDA GPUs are available"),
    ("driver_too_old", "RuntimeError: The NVIDIA driver on your system is too old (found version 12020)."),
    ("builds_do_not_match", "ImportError: /x/sgl_kernel/common_ops.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEab"),
    ("gpu_memory", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.31 GiB. GPU 3 has a total capacity of 79.11 GiB of which 1.20 GiB is free."),
    ("collective_timeout", "[rank3]:[E1130 02:12:09.123 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn=7168, NumelOut=7168, Timeout(ms)=600000) ran for 600021 milliseconds before timing out."),
    ("collective_failed", "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.cpp:77, unhandled cuda error"),
    ("illegal_access", "RuntimeError: CUDA error: an illegal memory access was encountered"),
    ("no_kernel", "RuntimeError: CUDA error: no kernel image is available for execution on the device"),
    ("access_refused", "huggingface_hub.errors.GatedRepoError: 401 Client Error."),
    ("path_missing", "FileNotFoundError: [Errno 2] No such file or directory: '/models/m/config.json'"),
    ("path_denied", "PermissionError: [Errno 13] Permission denied: '/models/m/config.json'"),
    ("weights_broken", "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer"),
    ("model_not_known", "ValueError: Model architectures ['FooForCausalLM'] are not supported for now. Supported architectures: dict_keys(['LlamaForCausalLM'])"),
    ("custom_code", "ValueError: The repository /models/m contains custom code which must be executed to correctly load the model. Please pass the argument `trust_remote_code=True` to allow custom code to be run."),
    ("not_divisible", "AssertionError: 56 is not divisible by 16"),
    ("open_files", "OSError: [Errno 24] Too many open files: '/models/m/model-00001-of-00064.safetensors'"),
    ("killed", "Nov 30 02:12:09 gpu1 kernel: Out of memory: Killed process 4242 (sglang::schedul) total-vm:912345678kB, anon-rss:501234567kB"),
    ("peers_missing", "torch.distributed.DistStoreError: Timed out after 301 seconds waiting for clients. 4/8 clients joined."),
    ("rdma_missing", "E1130 02:12:09.000000 812 rdma_context.cpp:120] No RDMA devices found, check your device installation"),
    ("package_missing", "ModuleNotFoundError: No module named 'deep_ep'"),
    ("package_missing", "ImportError: DeepEP is not installed. Please install DeepEP package."),
    ("pool_leak", "ValueError: token_to_kv_pool_allocator memory leak detected! available_size=3"),
    ("exception", "KeyError: 'model.layers.3.mlp.gate_up_proj.weight'"),
]  # fmt: skip


def facts(*lines: str) -> Facts:
    return read_given({"evidence": [START, *lines]})


@pytest.mark.parametrize(("kind", "line"), LINES)
def test_the_line_is_quoted_with_what_it_means(kind: str, line: str) -> None:
    found = failed(facts(line))
    assert found is not None
    assert (found.kind, found.source) == (kind, "E2:2")
    assert found.line.rstrip(" …") in line.replace("    ", " ")
    assert found.means
    assert found.do


def test_what_the_machine_did_comes_before_what_the_server_made_of_it() -> None:
    found = failed(
        facts("RuntimeError: CUDA error: an illegal memory access was encountered", LINES[0][1], "KeyError: 1")
    )
    assert found is not None
    assert (found.kind, found.source) == ("gpu_error", "E2:3")


def test_the_card_that_the_driver_names_is_named() -> None:
    found = failed(facts("gpu1 kernel: NVRM: Xid (PCI:0000:a1:00): 79, pid=41233, GPU has fallen off the bus."))
    assert found is not None
    assert found.do.startswith("the card at 0000:a1:00")


VLLM = "INFO 11-30 02:12:01 [api_server.py:1010] vLLM API server version 0.12.1"


def test_the_log_of_another_engine_is_named_and_nothing_of_sglang_is_advised() -> None:
    oom = "ERROR 11-30 02:12:09 [core.py:700] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB"
    found = failed(read_given({"evidence": [f"{VLLM}\n{oom}"]}))
    assert (found.kind if found else "") == "other_engine"
    verdict = assess({"complaint": "oom while serving long prompts", "evidence": [f"{VLLM}\n{oom} in forward_extend"]})
    assert (verdict["kind"], verdict["changes"]) == ("abstain", [])
    assert failed(facts(VLLM)) is None


@pytest.mark.parametrize(
    "line",
    [
        "[2026-11-30 02:12:01 TP0] Decode batch, #running-req: 12, #token: 41000, token usage: 0.31, gen throughput (token/s): 512.10, #queue-req: 0",
        "[2026-11-30 02:12:01] Setting it lower may help to avoid CUDA out of memory errors",
        "[2026-11-30 02:12:01 TP0] Load weight begin. avail mem=78.50 GB",
        "[2026-11-30 02:12:01] INFO:     127.0.0.1:4242 - \"POST /v1/chat/completions HTTP/1.1\" 200 OK",
    ],
)  # fmt: skip
def test_an_ordinary_line_is_no_failure(line: str) -> None:
    assert failed(facts(line)) is None


@pytest.mark.parametrize("path", ["/models/m/config.json", "/srv/.cache/m9/model-00001-of-00002.safetensors"])
def test_a_model_that_may_not_be_read_is_no_cache(path: str) -> None:
    line = f"PermissionError: [Errno 13] Permission denied: '{path}'"
    assert assess({"evidence": [START, line], "complaint": "it does not start"})["kind"] == "abstain"


WORK = "[2026-11-30 02:12:01 TP0] Decode batch. #running-req: 12, #token: 41000, token usage: 0.31, #queue-req: 0"


@pytest.mark.parametrize("line", [line for kind, line in LINES if kind == "gpu_error"])
def test_a_broken_card_is_not_healthy_and_what_follows_it_is_no_cause(line: str) -> None:
    follows = "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)"
    for lines in ([WORK, WORK, line], [WORK, line, follows]):
        verdict = assess({"complaint": "is it fine?", "evidence": [START, *lines]})
        assert (verdict["kind"], verdict["changes"]) == ("abstain", [])
    assert assess({"complaint": "it died", "evidence": [START, follows]})["label"] == "parallel.nccl_transport"


def test_settings_beside_a_failed_allocation_do_not_tell_its_phase() -> None:
    settings = START.replace("tp_size=8", "tp_size=8, chunked_prefill_size=8192")
    verdict = assess({"complaint": "it died", "evidence": [f"{settings}\ntorch.OutOfMemoryError: CUDA out of memory."]})
    assert (verdict["kind"], verdict["changes"]) == ("abstain", [])


@pytest.mark.parametrize(("kind", "line"), LINES)
def test_a_line_is_the_cause_where_it_settles_what_is_to_be_done(kind: str, line: str) -> None:
    found = failed(facts(line))
    told_further = {"gpu_memory", "illegal_access", "kernel_failed", "segfault", "collective_timeout", "exception"}
    told_further |= {
        "killed",
        "disk_full",
        "open_files",
        "path_denied",
        "collective_failed",
        "peers_missing",
        "pool_leak",
    }
    assert found is not None
    assert found.certain is (kind not in told_further)
