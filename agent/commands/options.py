"""Options that several commands take, and what they mean together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from agent.settings import FROM_HOST
from transcripts.errors import UsageError

HOST_NAMED = "USER@HOST[:PORT], a name of your SSH configuration, or `local`"


def exclusive(*given: tuple[str, object], hint: str = "Give one of them.") -> None:
    """Of options that cannot be followed together at most one is given; none is ignored. Raises UsageError."""
    named = [name for name, value in given if value]
    if len(named) > 1:
        raise UsageError(f"{named[0]} and {named[1]} exclude each other.", hint)


def once(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> str | None:
    """For an option that `multiple` collects and that takes one value: what was given, none of several dropped."""
    if len(given) > 1:
        name = context.command.name
        said = f"{option.opts[0]} is given {len(given)} times ({', '.join(given)}); {name} takes one."
        raise UsageError(said, f"Run {name} once for each.")
    return given[0] if given else None


def one_host(
    says: str = f"{HOST_NAMED}.", metavar: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`--host` of a command that looks at one host alone."""
    return click.option("--host", metavar=metavar, multiple=True, callback=once, help=says)


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--model` and `--model-from-host`: which model decides; `model_of` says what they mean."""
    named = click.option("--model", help="Model name at the endpoint, or `playbook`.")
    of_host = click.option(
        "--model-from-host", is_flag=True, help="The server under diagnosis is the model, over the same connection."
    )
    return named(of_host(command))


def model_of(model: str | None, model_from_host: bool) -> str | None:
    """The model that was asked for by name, or the server's own; None when neither was. Raises UsageError for both."""
    exclusive(("--model", model), ("--model-from-host", model_from_host))
    return FROM_HOST if model_from_host else model
