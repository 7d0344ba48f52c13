"""What a sum lacked, and how to get it."""

from __future__ import annotations

from tools.capacity.shape import ModelShape
from tools.capacity.sums import Missing


def missing_shape() -> Missing:
    return Missing("the model's shape", ("model_config",), "read config.json in the model's folder on the host")


def missing_memory() -> Missing:
    return Missing(
        "free GPU memory before and after the weights",
        ("weights_before_gib", "weights_after_gib"),
        "the `Load weight begin` and `Load weight end` lines of the current start in the journal",
    )


def missing_pool() -> Missing:
    return Missing(
        "the size of the KV pool", ("kv_pool",), "the `KV Cache is allocated` or the ready line of the current start"
    )


def missing_load() -> Missing:
    return Missing(
        "tokens that one running request holds",
        ("tokens_per_request",),
        "five minutes of decode lines under load: #token over #running-req",
    )


def missing_layout(shape: ModelShape) -> Missing:
    """For a model whose bytes per token do not follow from its config here."""
    how = "the `KV Cache is allocated` line of a start"
    if shape.compressed:
        how = "the server's own bytes_per_full_token line"
    return Missing(f"bytes per token of {shape.unsummed}", ("kv_pool_gib",), how)
