"""Options that several commands take, and what they mean together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from agent.settings import FROM_HOST
from transcripts.errors import UsageError


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--model` and `--model-from-host`: which model decides; `model_of` says what they mean."""
    named = click.option("--model", help="Model name at the endpoint, or `playbook`.")
    of_host = click.option(
        "--model-from-host", is_flag=True, help="The server under diagnosis is the model, over the same connection."
    )
    return named(of_host(command))


def model_of(model: str | None, model_from_host: bool) -> str | None:
    """The model that was asked for by name, or the server's own; None when neither was. Raises UsageError for both."""
    if model and model_from_host:
        raise UsageError("--model and --model-from-host exclude each other.", "Give one of them.")
    return FROM_HOST if model_from_host else model
