"""Errors of recordings.

UsageError                 exit 2
└── RecordingUnreadable    no such recording, or its folder cannot be read as one
"""

from __future__ import annotations

from transcripts.errors import UsageError


class RecordingUnreadable(UsageError):
    """The folder is not a recording; the message names the field or the file."""
