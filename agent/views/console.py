"""The console that pages are printed on: plain where it must be, and no reader of markup."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from agent.views.layout import Page, told


class PlainConsole(Console):
    """A console that reads no markup out of text and never cuts a line off."""

    def print(self, *objects: Any, **options: Any) -> None:
        options.setdefault("crop", False)
        options["markup"] = False
        super().print(*(Page(told(each)) if isinstance(each, str) else each for each in objects), **options)
