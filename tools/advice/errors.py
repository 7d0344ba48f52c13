"""What can go wrong with a launch command that was handed over.

UsageError               exit 2
└── LaunchUnreadable     no server command in it, or text that cannot be edited without touching other bytes
"""

from __future__ import annotations

from transcripts.errors import UsageError


class LaunchUnreadable(UsageError):
    """The text starts no SGLang server that can be read; the hint names the form that can."""
