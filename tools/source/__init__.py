"""The SGLang tree of a version: fetched, cached, searched, its flags and the rules that its code enforces.

Reads text and syntax trees only. Nothing of SGLang is imported or run here, and nothing here knows a host or a model.
"""

from __future__ import annotations

from tools.source.search import Hit, SearchResult
from tools.source.source import Difference, Source, obtain

__all__ = ["Difference", "Hit", "SearchResult", "Source", "obtain"]
