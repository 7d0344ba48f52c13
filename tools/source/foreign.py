"""Options of other inference servers that people bring along, and what SGLang calls the same thing.

One line each: engine, what to use instead (an option of SGLang), or why nothing is needed.
"""

from __future__ import annotations

from typing import Final

VLLM: Final = "vLLM"
TGI: Final = "TGI"
TRTLLM: Final = "TensorRT-LLM"
LLAMACPP: Final = "llama.cpp"

FOREIGN: Final[dict[str, tuple[str, str, str]]] = {
    "--gpu-memory-utilization": (VLLM, "--mem-fraction-static", "it is a fraction of the memory free before weights"),
    "--max-model-len": (VLLM, "--context-length", "it caps a request; it does not size the KV pool"),
    "--max-num-seqs": (VLLM, "--max-running-requests", ""),
    "--max-num-batched-tokens": (VLLM, "--chunked-prefill-size", "it bounds the prefill of one step"),
    "--max-num-partial-prefills": (VLLM, "--prefill-max-requests", ""),
    "--enable-prefix-caching": (VLLM, "", "the radix cache is on unless --disable-radix-cache is given"),
    "--no-enable-prefix-caching": (VLLM, "--disable-radix-cache", ""),
    "--enable-chunked-prefill": (VLLM, "", "chunked prefill is on unless --chunked-prefill-size is -1"),
    "--no-enable-chunked-prefill": (VLLM, "--chunked-prefill-size", "give it -1"),
    "--enforce-eager": (VLLM, "--disable-cuda-graph", ""),
    "--swap-space": (
        VLLM,
        "",
        "running requests are not swapped; host RAM keeps prefixes (--enable-hierarchical-cache)",
    ),
    "--kv-offloading-size": (VLLM, "--hicache-size", "it is per rank, in decimal GB"),
    "--kv-offloading-backend": (VLLM, "--hicache-storage-backend", ""),
    "--kv-transfer-config": (VLLM, "--disaggregation-mode", ""),
    "--block-size": (VLLM, "--page-size", ""),
    "--num-gpu-blocks-override": (VLLM, "--max-total-tokens", "it counts tokens and can only lower the pool"),
    "--speculative-config": (VLLM, "--speculative-algorithm", "each of its keys is an option --speculative-..."),
    "--num-speculative-tokens": (VLLM, "--speculative-num-draft-tokens", ""),
    "--speculative-model": (VLLM, "--speculative-draft-model-path", ""),
    "--enable-expert-parallel": (VLLM, "--ep-size", ""),
    "--decode-context-parallel-size": (VLLM, "--dcp-size", ""),
    "--max-seq-len-to-capture": (VLLM, "--cuda-graph-max-bs", "graphs are captured by batch size"),
    "--cuda-graph-sizes": (VLLM, "--cuda-graph-bs", ""),
    "--compilation-config": (VLLM, "--cuda-graph-config", ""),
    "--max-loras": (VLLM, "--max-loras-per-batch", ""),
    "--lora-modules": (VLLM, "--lora-paths", ""),
    "--limit-mm-per-prompt": (VLLM, "--limit-mm-data-per-request", ""),
    "--enable-auto-tool-choice": (VLLM, "--tool-call-parser", "naming a parser is enough"),
    "--enable-reasoning": (VLLM, "--reasoning-parser", "naming a parser is enough"),
    "--guided-decoding-backend": (VLLM, "--grammar-backend", ""),
    "--disable-log-requests": (VLLM, "", "requests are not logged unless --log-requests is given"),
    "--disable-log-stats": (VLLM, "", "statistics are one line for each --decode-log-interval"),
    "--hf-overrides": (VLLM, "--json-model-override-args", ""),
    "--max-parallel-loading-workers": (VLLM, "", "weights are loaded by every rank at once"),
    "--distributed-executor-backend": (
        VLLM,
        "",
        "ranks are processes; use --nnodes and --dist-init-addr between hosts",
    ),
    "--async-scheduling": (VLLM, "", "the overlap scheduler is on unless --disable-overlap-schedule is given"),
    "--scheduling-policy": (VLLM, "--schedule-policy", ""),
    "--max-input-length": (TGI, "--context-length", ""),
    "--max-input-tokens": (TGI, "--context-length", ""),
    "--max-batch-prefill-tokens": (TGI, "--max-prefill-tokens", ""),
    "--max-batch-total-tokens": (TGI, "--max-total-tokens", ""),
    "--max-concurrent-requests": (TGI, "--max-running-requests", ""),
    "--num-shard": (TGI, "--tp-size", ""),
    "--model-id": (TGI, "--model-path", ""),
    "--cuda-memory-fraction": (TGI, "--mem-fraction-static", ""),
    "--kv_cache_free_gpu_memory_fraction": (TRTLLM, "--mem-fraction-static", "it is a fraction of another amount"),
    "--max_batch_size": (TRTLLM, "--max-running-requests", ""),
    "--max_num_tokens": (TRTLLM, "--chunked-prefill-size", ""),
    "--max_seq_len": (TRTLLM, "--context-length", ""),
    "--tp_size": (TRTLLM, "--tp-size", ""),
    "--ctx-size": (LLAMACPP, "--context-length", ""),
    "--n-gpu-layers": (LLAMACPP, "", "all layers are on the GPU"),
    "--parallel": (LLAMACPP, "--max-running-requests", ""),
    "--cache-type-k": (LLAMACPP, "--kv-cache-dtype", ""),
    "--cache-type-v": (LLAMACPP, "--kv-cache-dtype", ""),
}
