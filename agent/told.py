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
_ASKS: Final = re.compile(
    r"\?|\b(?:what|whats|how|why|which|when|where|who|if|should|could|can(?!'t)|was|wie\w*|warum|wieso|weshalb|welche\w*|wann"
    r"|wer|wenn|ob|kann|könnte\w*|darf)\b|(?:^|[,;]) *(?:does|do (?:i|we|you)|is|are|will|would|did|reicht|ist|sind)\b",
    re.IGNORECASE,
)
BINDING: Final = ("tuned", "no_restart")  # facts of what has to stay as it is


def states(text: str) -> bool:
    """Whether words tell of the server, or what has to stay, rather than ask; and something of it can be read."""
    from tools.host.parsers import parse

    if _ASKS.search(text):
        return False
    facts = parse(Evidence("E0", COMPLAINT, "", "operator", "", None, text))
    told = [fact for fact in facts if fact.grade == "claimed"]
    return bool(told) and (bool(_TELLS.match(text)) or any(fact.name in BINDING for fact in told))


def not_taken(case: Case) -> list[str]:
    """Statements since the complaint that are no evidence yet, in the order in which they were made."""
    taken = {item.text for item in case.evidence.values() if item.probe == COMPLAINT}
    return [said.text for said in case.said if said.text not in taken and states(said.text)]
