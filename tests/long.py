"""The long form of the tests: SGLSCOUT_LONG_TESTS=1 draws new inputs on every run, and more of them.

Without it generated inputs are the same on every run, so that a red test is the change's doing.
"""

from __future__ import annotations

import os
from typing import Final

LONG: Final = os.environ.get("SGLSCOUT_LONG_TESTS") == "1"


def many(examples: int) -> int:
    """How many generated inputs: so many, or twenty times as many."""
    return examples * 20 if LONG else examples
