"""What of a document the verdict was weighed by; what a later look brought tells of other days."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def facts_weighed(document: Json) -> list[Json]:
    """The facts that were read by then; all of them before a verdict."""
    facts: list[Json] = document["facts"]
    return facts[: document["facts_weighed"] or None]


def looks_weighed(document: Json) -> tuple[list[Json], list[Json]]:
    """The looks of then that brought evidence, and those that failed."""
    looked = document["evidence"][: document["evidence_weighed"]]
    brought = [each for each in looked if not each["problem"]]
    return brought, [each for each in looked if each["problem"] not in ("", "skipped", "missing")]
