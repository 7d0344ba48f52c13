"""Patterns that several themes share, and how patterns are put together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agent.models.playbook.asked import NUMBER, Handler

Rows = Iterator[tuple[Handler, str] | tuple[Handler, str, str] | tuple[Handler, str, str, str]]
START: Final = r"\b(?:re-?start\w*|re-?boot\w*|boot\w*|start)\b"
TIME: Final = r"\b(?:long|take\w*|cost\w*|minutes?|seconds?|eta|duration|time)\b"
OF_A_FLAG: Final = r"exist|default|choice|mean|allowed|valid|what (?:is|does)|do(?:es)?\b"
REQUESTS: Final = r"request|session|stream|client|connection|user|traffic|job|prompt"
SPEED: Final = r"throughput|speed|performance"
SLOW: Final = r"\bslow\w*|latenc\w*|\bttft\b|\btpot\b|\bitl\b|time to first token"
PLAIN_NUMBER: Final = rf"(?<![\w.-])(?<!rtx )(?<!pro ){NUMBER}(?![\w.%]|\s*(?:gi?b|ranks?|gpus?)\b)"
JUDGED: Final = (
    "will|would|could|should|can|why|if|or|who|when|too|worst|best|hot|hottest|slowest|temperature|leak|longest|"
    "enabled|on|where|difference|between|tensor|pipeline|expert"
)
EVER: Final = r"why|did|was|were|has|have|had"


def any_of(*patterns: str) -> str:
    return "|".join(patterns)


def unless(words: str, pattern: str) -> str:
    """The pattern in a question that holds none of these words."""
    return rf"^(?!.*\b(?:{words})\b).*?(?:{pattern})"
