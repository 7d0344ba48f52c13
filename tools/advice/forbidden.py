"""What may be spoken of and is never proposed as a change: options that name code, places, secrets or exposure.

Two ways in: a list of names that only a person can judge, and rules by name and type, so that an option which a later
version brings is forbidden until it is classified here.
"""

from __future__ import annotations

import re

from tools.advice.catalogue import FlagInfo

_NAMED = {
    "--trust-remote-code": "it runs code that comes with a model",
    "--trust-request-chat-template": "requests would bring their own template",
    "--forward-hooks": "it names code",
    "--custom-weight-loader": "it names code",
    "--enable-custom-logit-processor": "requests would bring their own code",
    "--custom-sigquit-handler": "it names code",
    "--tool-server": "it connects to another server",
    "--model-path": "it names what is served",
    "--model": "it names what is served",
    "--config": "it names a file",
    "--chat-template": "it is read from a file or text",
    "--completion-template": "it is read from a file or text",
    "--host": "it exposes the server",
    "--port": "it moves the server",
    "--grpc-mode": "it changes what the server speaks",
    "--revision": "it names what is served",
    "--speculative-draft-model-revision": "it names what is served",
    "--export-metrics-to-file": "it writes requests to files",
    "--skip-tokenizer-init": "clients could no longer send text",
    "--served-model-name": "clients call it by that name",
    "--delete-ckpt-after-loading": "it deletes files",
    "--device": "it moves the server",
    "--enable-trace": "it sends what requests do to another server",
}
_BY_NAME = (
    (r"path|dir|folder|file|cache-root", "it names a place in a file system"),
    (
        r"url|urls|uri|addr|address|ip|endpoint|endpoints|port|ports|host|hosts|seed-instance",
        "it names a network place",
    ),
    (r"api-key|key|keys|password|secret|credential|credentials|certfile|keyfile", "it holds a secret"),
    (r"ssl", "it concerns keys and certificates"),
    (r"command|cmd|script|hook|hooks|module|plugin|plugins|callable|callback|import|exec", "it names code"),
    (r"extra-config|override-args|json|config", "it holds free-form settings"),
    (r"dump|crash-dump|debug-tensor|inject", "it writes what users sent to files"),
    (r"trust", "it trusts what a model or a request brings"),
    (r"remote-instance", "it takes weights from another server"),
    (r"log-requests", "it writes what users sent to the log"),
    (r"lora-paths|template|templates|headers?|labels?", "it holds free text"),
)
_RULES = tuple((re.compile(rf"(?:^|-)(?:{names})(?:-|$)"), why) for names, why in _BY_NAME)
# Names that a rule above matches and that hold no such thing.
_CLEARED = frozenset({"--constrained-json-disable-any-whitespace", "--host-memory-reserve-ratio"})
# Text options without readable choices that were looked at: their values are names of built-in variants.
LOOKED_AT = frozenset(
    {
        "--attention-backend", "--prefill-attention-backend", "--decode-attention-backend", "--mm-attention-backend",
        "--speculative-draft-attention-backend", "--sampling-backend", "--grammar-backend", "--lora-backend",
        "--moe-a2a-backend", "--moe-runner-backend", "--speculative-moe-runner-backend",
        "--speculative-moe-a2a-backend",
        "--nsa-prefill-backend", "--nsa-decode-backend", "--fp8-gemm-backend", "--fp4-gemm-backend",
        "--flashinfer-mxfp4-moe-precision", "--tool-call-parser", "--reasoning-parser", "--quantization",
        "--speculative-draft-model-quantization", "--kv-cache-dtype", "--dtype", "--load-balance-method",
        "--schedule-policy", "--radix-eviction-policy", "--hicache-write-policy", "--hicache-io-backend",
        "--hicache-mem-layout", "--hicache-storage-prefetch-policy", "--speculative-algorithm",
        "--speculative-attention-mode", "--mamba-ssm-dtype", "--mamba-scheduler-strategy", "--mamba-backend",
        "--mamba-radix-cache-strategy", "--cuda-graph-bs", "--log-level", "--disaggregation-transfer-backend",
        "--piecewise-cuda-graph-compiler", "--deepep-mode", "--eplb-algorithm", "--linear-attn-backend",
        "--cuda-graph-backend-decode", "--cuda-graph-backend-prefill", "--sampling-defaults",
    }
)  # fmt: skip
# Options of which only some values run or unpickle code, or name a class.
SAFE_VALUES = {
    "--load-format": frozenset({"auto", "safetensors", "mistral", "bitsandbytes", "gguf", "dummy", "layered"}),
    "--speculative-draft-load-format": frozenset({"auto", "safetensors", "dummy"}),
    "--hicache-storage-backend": frozenset({"file", "mooncake", "hf3fs", "nixl", "aibrix", "eic", "simm"}),
    "--model-impl": frozenset({"auto", "sglang"}),
    "--log-level": frozenset({"info", "warning", "error"}),
    "--log-level-http": frozenset({"info", "warning", "error"}),
}


def reason(flag: str, value: str, info: FlagInfo) -> str:
    """Why this option, or this value of it, is not proposed; empty when it may be."""
    for name in (flag, *info.spellings):
        if name in _NAMED:
            return _NAMED[name]
    safe = next((SAFE_VALUES[name] for name in info.spellings if name in SAFE_VALUES), None)
    if safe is not None:
        return "" if not value or value in safe else f"{value!r} is not one of {', '.join(sorted(safe))}"
    cleared = any(name in _CLEARED or name in LOOKED_AT for name in info.spellings)
    for name in info.spellings:
        for pattern, why in _RULES:
            if not cleared and pattern.search(name.removeprefix("--")):
                return why
    return _by_type(info)


def _by_type(info: FlagInfo) -> str:
    if LOOKED_AT.intersection(info.spellings):
        return ""
    if info.kind in ("path", "json", "other"):
        return "its value is a path, JSON or read by a function, and nobody has classified it"
    if info.kind == "text" and info.choices is None:
        return "it takes free text, and nobody has classified it"
    return ""


_ENV_FORBIDDEN = re.compile(
    r"(?:^|_)(?:PATH|DIR|FOLDER|FILE|HOME|URL|URI|ENDPOINT|PROXY|HOST|ADDR|ADDRESS|PORT|KEY|TOKEN|SECRET|PASSWORD|"
    r"PRELOAD|AUDIT|PLUGIN|CMD|COMMAND|HOOK|HOOKS|MODULE|MODULES|PACKAGE|CONFIG|CONF|INJECTION\w*|CREDENTIALS?|LIBRARY|"
    r"DUMP|LOG_REQUESTS?|TRUST_REMOTE_CODE|LOADER)(?:_|$)"
)
# Variables that a rule above matches and that name no such thing.
_CLEARED_VARIABLES = frozenset({"NCCL_CUMEM_HOST_ENABLE"})
_ENV_FAMILIES = re.compile(
    r"(?:SGLANG|SGL|NCCL|RCCL|HICACHE|MOONCAKE|FLASHINFER|TRITON|PYTORCH|CUDA|HSA|HIP|UCX|OMP|MALLOC|VLLM_ROCM)_[A-Z0-9_]+"
)


# Variables named like a place, of which only these values are proposed.
_SAFE_VARIABLES = {
    "PYTORCH_CUDA_ALLOC_CONF": re.compile(r"expandable_segments:(?:True|False)|max_split_size_mb:\d{2,5}"),
}


def environment_reason(name: str, value: str) -> str:
    """Why this variable, or this value of it, is not proposed; empty when it may be."""
    if name in _SAFE_VARIABLES and _SAFE_VARIABLES[name].fullmatch(value):
        return ""
    if not _ENV_FAMILIES.fullmatch(name):
        return "it is no variable of SGLang or of the libraries below it"
    if _ENV_FORBIDDEN.search(name) and name not in _CLEARED_VARIABLES:
        return "it names a place, a secret or code"
    return ""
