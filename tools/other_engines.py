"""Options of other inference servers that people bring along, and what SGLang calls the same thing.

One line each: engine, what to use instead (an option of SGLang), or why nothing is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from transcripts.facts import Fact, Facts


class Foreign(NamedTuple):
    """An option of another engine; `instead` is empty where SGLang needs none or has none.

    `value` is what the option of SGLang takes: the same as was given where it is empty, VALUE_DIFFERS where the two are
    written differently and nobody but the operator can say it.
    """

    engine: str
    instead: str
    why: str
    value: str = ""


VALUE_DIFFERS: Final = "other"
OTHER_ENGINE: Final = "other_engine"  # the kind of failure that a line of another engine's log is
VLLM: Final = "vLLM"
TGI: Final = "TGI"
TRTLLM: Final = "TensorRT-LLM"
LLAMACPP: Final = "llama.cpp"
LMDEPLOY: Final = "LMDeploy"
LIGHTLLM: Final = "LightLLM"

# What starts each of them; options follow, behind a model that is named by its place.
_STARTS: Final = (
    (("vllm", "serve"), VLLM),
    (("vllm.entrypoints.openai.api_server",), VLLM),
    (("text-generation-launcher",), TGI),
    (("trtllm-serve", "serve"), TRTLLM),
    (("trtllm-serve",), TRTLLM),
    (("llama-server",), LLAMACPP),
    (("lmdeploy", "serve", "api_server"), LMDEPLOY),
    (("lightllm.server.api_server",), LIGHTLLM),
)


def engine_of(words: Sequence[str]) -> tuple[str, int] | None:
    """The engine that a command starts and where its own words begin; None where it starts none of these."""
    names = [word.rpartition("/")[2] for word in words]
    for at in range(len(names)):
        for start, engine in _STARTS:
            if tuple(names[at : at + len(start)]) == start:
                return engine, at + len(start)
    return None


def log_of_another(facts: Facts) -> Fact | None:
    """The first line by which the log is another engine's; None where SGLang runs or its start stands there too."""
    if facts.text("running") == "True" or "server_arg" in facts:
        return None
    lines = (fact for fact in facts.all("failure") if fact.grade == "observed" and fact.scope == OTHER_ENGINE)
    return next(lines, None)


FOREIGN: Final[dict[str, Foreign]] = {
    "--gpu-memory-utilization": Foreign(
        VLLM, "--mem-fraction-static", "it is a fraction of the memory free before weights"
    ),
    "--max-model-len": Foreign(VLLM, "--context-length", "it caps a request; it does not size the KV pool"),
    "--max-num-seqs": Foreign(VLLM, "--max-running-requests", ""),
    "--max-num-batched-tokens": Foreign(VLLM, "--chunked-prefill-size", "it bounds the prefill of one step"),
    "--max-num-partial-prefills": Foreign(VLLM, "--prefill-max-requests", ""),
    "--enable-prefix-caching": Foreign(VLLM, "", "the radix cache is on unless --disable-radix-cache is given"),
    "--no-enable-prefix-caching": Foreign(VLLM, "--disable-radix-cache", ""),
    "--enable-chunked-prefill": Foreign(VLLM, "", "chunked prefill is on unless --chunked-prefill-size is -1"),
    "--no-enable-chunked-prefill": Foreign(VLLM, "--chunked-prefill-size", "give it -1", "-1"),
    "--enforce-eager": Foreign(VLLM, "--disable-cuda-graph", ""),
    "--swap-space": Foreign(
        VLLM, "", "running requests are not swapped; host RAM keeps prefixes (--enable-hierarchical-cache)"
    ),
    "--kv-offloading-size": Foreign(VLLM, "--hicache-size", "it is per rank, in decimal GB"),
    "--kv-offloading-backend": Foreign(VLLM, "--hicache-storage-backend", "", VALUE_DIFFERS),
    "--kv-transfer-config": Foreign(VLLM, "--disaggregation-mode", "", VALUE_DIFFERS),
    "--block-size": Foreign(VLLM, "--page-size", ""),
    "--num-gpu-blocks-override": Foreign(
        VLLM, "--max-total-tokens", "it counts tokens and can only lower the pool", VALUE_DIFFERS
    ),
    "--speculative-config": Foreign(
        VLLM, "--speculative-algorithm", "each of its keys is an option --speculative-...", VALUE_DIFFERS
    ),
    "--num-speculative-tokens": Foreign(VLLM, "--speculative-num-draft-tokens", ""),
    "--speculative-model": Foreign(VLLM, "--speculative-draft-model-path", ""),
    "--enable-expert-parallel": Foreign(VLLM, "--ep-size", "", VALUE_DIFFERS),
    "--max-seq-len-to-capture": Foreign(
        VLLM, "--cuda-graph-max-bs", "graphs are captured by batch size", VALUE_DIFFERS
    ),
    "--cuda-graph-sizes": Foreign(VLLM, "--cuda-graph-bs", ""),
    "--compilation-config": Foreign(VLLM, "--cuda-graph-config", "", VALUE_DIFFERS),
    "--max-loras": Foreign(VLLM, "--max-loras-per-batch", ""),
    "--lora-modules": Foreign(VLLM, "--lora-paths", ""),
    "--limit-mm-per-prompt": Foreign(VLLM, "--limit-mm-data-per-request", ""),
    "--enable-auto-tool-choice": Foreign(VLLM, "--tool-call-parser", "naming a parser is enough", VALUE_DIFFERS),
    "--enable-reasoning": Foreign(VLLM, "--reasoning-parser", "naming a parser is enough", VALUE_DIFFERS),
    "--guided-decoding-backend": Foreign(VLLM, "--grammar-backend", "", VALUE_DIFFERS),
    "--disable-log-requests": Foreign(VLLM, "", "requests are not logged unless --log-requests is given"),
    "--disable-log-stats": Foreign(VLLM, "", "statistics are one line for each --decode-log-interval"),
    "--hf-overrides": Foreign(VLLM, "--json-model-override-args", ""),
    "--max-parallel-loading-workers": Foreign(VLLM, "", "weights are loaded by every rank at once"),
    "--distributed-executor-backend": Foreign(
        VLLM, "", "ranks are processes; use --nnodes and --dist-init-addr between hosts"
    ),
    "--async-scheduling": Foreign(VLLM, "", "the overlap scheduler is on unless --disable-overlap-schedule is given"),
    "--scheduling-policy": Foreign(VLLM, "--schedule-policy", "", VALUE_DIFFERS),
    "--num-scheduler-steps": Foreign(VLLM, "", "the scheduler overlaps with the forward step by itself"),
    "--seed": Foreign(VLLM, "--random-seed", ""),
    "--max-cpu-loras": Foreign(VLLM, "--max-loaded-loras", ""),
    "--generation-config": Foreign(VLLM, "--sampling-defaults", "", VALUE_DIFFERS),
    "--rope-scaling": Foreign(VLLM, "--json-model-override-args", "it is a key of that JSON", VALUE_DIFFERS),
    "--rope-theta": Foreign(VLLM, "--json-model-override-args", "it is a key of that JSON", VALUE_DIFFERS),
    "--mm-processor-kwargs": Foreign(VLLM, "", "image sizes are set per request or in the model's processor"),
    "--calculate-kv-scales": Foreign(VLLM, "", "scales come from the checkpoint or --quantization-param-path"),
    "--use-v2-block-manager": Foreign(VLLM, "", "there is one allocator of pages"),
    "--worker-use-ray": Foreign(VLLM, "", "ranks are processes; use --nnodes and --dist-init-addr between hosts"),
    "--max-logprobs": Foreign(VLLM, "", "a request asks for as many as it wants"),
    "--api-server-count": Foreign(VLLM, "--tokenizer-worker-num", ""),
    "--chat-template-content-format": Foreign(VLLM, "", "it is found out from the template"),
    "--max-input-length": Foreign(TGI, "--context-length", ""),
    "--max-input-tokens": Foreign(TGI, "--context-length", ""),
    "--max-batch-prefill-tokens": Foreign(TGI, "--max-prefill-tokens", ""),
    "--max-batch-total-tokens": Foreign(TGI, "--max-total-tokens", ""),
    "--max-concurrent-requests": Foreign(TGI, "--max-running-requests", ""),
    "--num-shard": Foreign(TGI, "--tp-size", ""),
    "--model-id": Foreign(TGI, "--model-path", ""),
    "--cuda-memory-fraction": Foreign(TGI, "--mem-fraction-static", ""),
    "--kv_cache_free_gpu_memory_fraction": Foreign(
        TRTLLM, "--mem-fraction-static", "it is a fraction of another amount"
    ),
    "--max_batch_size": Foreign(TRTLLM, "--max-running-requests", ""),
    "--max_num_tokens": Foreign(TRTLLM, "--chunked-prefill-size", ""),
    "--max_seq_len": Foreign(TRTLLM, "--context-length", ""),
    "--max-batch-size": Foreign(TRTLLM, "--max-running-requests", ""),
    "--kv-cache-free-gpu-memory-fraction": Foreign(
        TRTLLM, "--mem-fraction-static", "it is a fraction of another amount"
    ),
    "--ctx-size": Foreign(LLAMACPP, "--context-length", ""),
    "--n-gpu-layers": Foreign(LLAMACPP, "", "all layers are on the GPU"),
    "--parallel": Foreign(LLAMACPP, "--max-running-requests", ""),
    "--cache-type-k": Foreign(LLAMACPP, "--kv-cache-dtype", "", VALUE_DIFFERS),
    "--cache-type-v": Foreign(LLAMACPP, "--kv-cache-dtype", "", VALUE_DIFFERS),
    "--session-len": Foreign(LMDEPLOY, "--context-length", ""),
    "--cache-max-entry-count": Foreign(
        LMDEPLOY, "--mem-fraction-static", "it is a share of what is left after the weights", VALUE_DIFFERS
    ),
    "--max-total-token-num": Foreign(LIGHTLLM, "--max-total-tokens", ""),
}
