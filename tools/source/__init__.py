"""The SGLang tree of a version: fetched, cached, searched, its flags and the rules that its code enforces.

Reads text and syntax trees only. Nothing of SGLang is imported or run here, and nothing here knows a host or a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tools.source.catalogue import Dynamic, Flag, FlagCatalogue
from tools.source.check import check_command
from tools.source.launch import Launch, parse_launch
from tools.source.problem import Problem
from tools.source.renames import named_here
from tools.source.rule import Rule
from tools.source.search import Hit, SearchResult
from tools.source.source import Source, obtain
from tools.source.store import TreeStore
from tools.source.tree import Difference
from tools.source.values import Range, range_of
from tools.source.wheel import versions_named

if TYPE_CHECKING:
    from tools.toolbox import Tool

__all__ = [
    "Difference",
    "Dynamic",
    "Flag",
    "FlagCatalogue",
    "Hit",
    "Launch",
    "Problem",
    "Range",
    "Rule",
    "SearchResult",
    "Source",
    "TreeStore",
    "check_command",
    "named_here",
    "obtain",
    "parse_launch",
    "range_of",
    "tools_for",
    "versions_named",
]


def tools_for(source: Source) -> tuple[Tool[Any], ...]:
    """The tools of a researcher over one tree: search, read, list, flag, rules, usage."""
    from tools.source.toolset import tools_for as over

    return over(source)
