"""The table of commands beside the checkout, decoded."""

from __future__ import annotations

import json

from tests.needs import shared


def rows() -> list[tuple[str, str, str]]:
    """Command, verdict, reason."""
    found = []
    for line in shared("data/policy-cases.tsv").read_text(encoding="utf-8").splitlines():
        command, want, reason = line.split("\t")
        decoded = json.loads(command.removeprefix("@json:")) if command.startswith("@json:") else command
        found.append((decoded, want, reason))
    return found
