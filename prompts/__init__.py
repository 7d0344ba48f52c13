"""Every word said to a model, as Markdown templates read by name.

No logic beyond filling in; what a template needs is given by its caller.
"""

from __future__ import annotations

from importlib import resources
from string import Template


def prompt(name: str, **values: str) -> str:
    """The template `name`.md with `$value` filled in. Raises KeyError when a value is missing."""
    text = resources.files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    return Template(text).substitute(values).strip()
