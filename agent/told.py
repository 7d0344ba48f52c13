"""What the operator answers or adds later: a statement is a claim like the complaint itself, a question is none."""

from __future__ import annotations

import re
from typing import Final

from agent.case import COMPLAINT, Case
from transcripts.facts import Evidence

# An answer, or somebody who tells of what is theirs; bare words of the field are a question put shortly.
_TELLS: Final = re.compile(
    r"\W*(?:(?:yes|yeah|yep|no|nope|correct|true|right|we|our|ours|my|i|only)\b"
    r"|(?:running|queue)[:= ]*\d|\d+ (?:(?:requests?|users?|are|is|of them) )*(?:run|running|wait|waiting|queued?)\b)",
    re.IGNORECASE,
)
_ASKS: Final = re.compile(r"\?|\b(?:what|whats|how|why|which|when|where|who|if|should|could|can)\b", re.IGNORECASE)


def states(text: str) -> bool:
    """Whether words tell of the server rather than ask about it, and something of what they tell can be read."""
    from tools.host.parsers import parse

    if not _TELLS.match(text) or _ASKS.search(text):
        return False
    return any(fact.grade == "claimed" for fact in parse(Evidence("E0", COMPLAINT, "", "operator", "", None, text)))


def not_taken(case: Case) -> list[str]:
    """Statements since the complaint that are no evidence yet, in the order in which they were made."""
    taken = {item.text for item in case.evidence.values() if item.probe == COMPLAINT}
    return [said.text for said in case.said if said.text not in taken and states(said.text)]
