"""The playbook: a model that needs no endpoint. It reads the case and chooses the next tool call.

What it knows stands in `tools.diagnosis`, what it computes in `tools.capacity`, what it reads in `tools.source`;
it holds no answer of its own, so another figure in the evidence is another answer.
"""

from __future__ import annotations

from agent.model import Reply, Request
from agent.models.playbook import investigation, research


class Playbook:
    """Answers as the main agent of a session, or as the researcher of a task."""

    name = "playbook"

    async def reply(self, request: Request) -> Reply:
        if request.case.opened.role == "task":
            return research.next_reply(request)
        return investigation.next_reply(request)
