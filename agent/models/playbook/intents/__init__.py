"""What operators ask, and who answers: patterns over the plain question, first fit first; a theme a file.

Every pattern of a row must be found somewhere in the question, in whatever order its words stand; the groups of the
first are the answer's. A function that has nothing to say leaves the question to the next row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from agent.models.playbook.asked import Handler
from agent.models.playbook.intents.acting import on_other_things, on_the_change
from agent.models.playbook.intents.choosing import on_effects, on_options, on_values, with_numbers
from agent.models.playbook.intents.knowing import on_facts, on_the_case


@dataclass(frozen=True, slots=True)
class Intent:
    patterns: tuple[re.Pattern[str], ...]
    handler: Handler

    def heard(self, question: str) -> re.Match[str] | None:
        """The match of the first pattern if all are found."""
        found = [pattern.search(question) for pattern in self.patterns]
        return found[0] if all(found) else None


def _intents() -> Iterator[Intent]:
    for rows in (
        on_other_things, on_values, on_the_change, on_effects, with_numbers, on_options, on_the_case, on_facts,
    ):  # fmt: skip
        for handler, *patterns in rows():
            yield Intent(tuple(re.compile(pattern) for pattern in patterns), handler)


INTENTS: Final = tuple(_intents())
