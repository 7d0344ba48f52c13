"""Settings that a sentence says were chosen with care: `--page-size was tuned`, `leave chunked-prefill-size alone`."""

from __future__ import annotations

import re
from typing import Final

from tools.host.parsers.page import Page
from transcripts.facts import Grade

_CARE: Final = re.compile(
    r"\b(?:(?:fine-?|hand-?)?tuned|on purpose|deliberately|hand-?picked|bench ?marked"
    r"|(?:do not|don't|dont|must not|never|not to) (?:touch|change|alter|move)"
    r"|(?:leave|keep) .{0,40}(?:alone|as (?:it|they) (?:is|are)))\b",
    re.IGNORECASE,
)
_UNDONE: Final = re.compile(r"\b(?:not|never|n't|un-?)\s*(?:been |yet |really |fine-?|hand-?)*tuned\b", re.IGNORECASE)
_OPTION: Final = re.compile(r"--[a-z][a-z0-9-]+|(?<![\w/.-])[a-z]+(?:[-_][a-z0-9]+){1,}(?![\w/.-])", re.IGNORECASE)
_SENTENCE: Final = re.compile(r"[.;!?](?:\s|$)|\n")
_WORDS: Final = frozenset({"fine-tuned", "hand-tuned", "hand-picked", "on-purpose", "do-not"})


def read(page: Page, text: str, grade: Grade) -> None:
    """`tuned` facts, each with the option as its scope."""
    for number, line in enumerate(text.splitlines(), 1):
        for sentence in _SENTENCE.split(line):
            if _CARE.search(sentence) and not _UNDONE.search(sentence):
                for option in _OPTION.findall(sentence):
                    if option.lower() not in _WORDS:
                        name = option.lstrip("-").replace("_", "-").lower()
                        page.add("tuned", True, number, scope=f"--{name}", grade=grade)
