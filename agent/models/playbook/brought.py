"""What the playbook's own calls brought, read off the conversation."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from agent.history import bare
from agent.model import Message

_AGAIN: Final = re.compile(r"_\d+$")  # what the loop adds to the id of a call that is made once more
_INTERRUPTED: Final = "interrupted"


def results(messages: Iterable[Message]) -> dict[str, str]:
    """Texts by the id under which the playbook made the call; one that was interrupted brought nothing."""
    found: dict[str, str] = {}
    for message in messages:
        if message["role"] == "tool":
            text = bare(str(message["content"]))
            if not text.startswith(_INTERRUPTED):
                found[_AGAIN.sub("", str(message["tool_call_id"]))] = text
    return found
