"""What can go wrong at a model endpoint.

EndpointError (transcripts.errors, exit 6)
├── EndpointRefused       this will not go better by itself: key, model, request
├── EndpointUnreachable   it did, several times, not answer as it should
├── EmptyAnswer           it answered with nothing, again and again
└── ContextTooLong        the conversation does not fit; the loop shortens it once
"""

from __future__ import annotations

from transcripts.errors import EndpointError


class EndpointRefused(EndpointError):
    """Retrying would bring the same."""


class EndpointUnreachable(EndpointError):
    """All attempts failed."""


class EmptyAnswer(EndpointError):
    """Neither text nor a call, after every attempt."""


class ContextTooLong(EndpointError):
    """The endpoint says that the conversation is larger than its window."""
