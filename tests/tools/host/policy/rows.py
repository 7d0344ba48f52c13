"""The table of commands beside the checkout, decoded; and how much the long tests do."""

from __future__ import annotations

import json
import os

from tests.needs import shared

# SGLSCOUT_LONG_TESTS=1 runs the full numbers: 100,000 argument lists, every mutant. Without it a sample of each.
LONG = os.environ.get("SGLSCOUT_LONG_TESTS") == "1"


def rows() -> list[tuple[str, str, str]]:
    """Command, verdict, reason."""
    found = []
    for line in shared("data/policy-cases.tsv").read_text(encoding="utf-8").splitlines():
        command, want, reason = line.split("\t")
        decoded = json.loads(command.removeprefix("@json:")) if command.startswith("@json:") else command
        found.append((decoded, want, reason))
    return found
