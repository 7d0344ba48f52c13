"""Redaction: secrets and prompts out of every text before it is stored or sent; hosts and people too when it is shared.

Front: `Redactor` (text or stream), `has_placeholder`, and `score` for the evaluation. Standard library only; knows no
tool, no store and no model. A placeholder is never turned back into what it stands for.
"""

from transcripts.redaction.evaluate import score
from transcripts.redaction.placeholders import has_placeholder
from transcripts.redaction.redactor import Profile, Redactor, Stream

__all__ = ["Profile", "Redactor", "Stream", "has_placeholder", "score"]
