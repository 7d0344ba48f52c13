"""Sentences of an answer held against the case: what names no evidence and no source is marked as unsupported.

A reference stands in square brackets: `[E5]`, `[E5:88]`, `[S3]`, several as `[E5, S3]`. It counts when that evidence
(and that line of it) or that citation, checked, exists in the case.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from agent.case import Case

UNSUPPORTED: Final = "(unsupported)"
_REFERENCES: Final = re.compile(r"\[((?:[ES]\d+(?::\d+)?)(?:, ?[ES]\d+(?::\d+)?)*)\]")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])(?=\s+[^\sa-z])(?!\s+\(unsupported\))|(?<=[.!?]\])(?=\s+\S)")
_QUOTED: Final = re.compile(r"“[^”]*”")
_HEADING: Final = re.compile(r"^\s*(#{1,6} .*|\*\*[^*]+\*\*:?|[-=|:\s]*)$")


@dataclass(frozen=True, slots=True)
class Sentence:
    text: str
    references: tuple[str, ...]
    supported: bool


def commands_of(case: Case) -> frozenset[str]:
    """Lines of the commands that passed the checks, as they must be typed; they are no sentences."""
    advised = case.advised
    if advised is None:
        return frozenset()
    rollbacks = [advised.rollback, *(stage.get("rollback") or {} for stage in advised.stages)]
    each = [command for stage in advised.stages for command in stage["commands"]]
    each += [command for rollback in rollbacks for command in rollback.get("commands", ())]
    return frozenset(line for command in each for line in command.splitlines())


def _parts(line: str) -> list[str]:
    """The sentences of a line; what stands between quotation marks is never split."""
    shielded = _QUOTED.sub(lambda found: "x" * len(found[0]), line)
    ends = [found.start() for found in _SENTENCE_END.finditer(shielded)]
    return [line[start:end] for start, end in zip([0, *ends], [*ends, len(line)], strict=True)]


def sentences(text: str, case: Case) -> list[Sentence]:
    """Each sentence with the references that hold. Headings, rules and checked commands are no sentences."""
    found: list[Sentence] = []
    commands = commands_of(case)
    for line in text.splitlines():
        if _HEADING.match(line) or line in commands:
            continue
        for part in _parts(line):
            if part.strip():
                references = tuple(ref for ref in referenced(part) if exists(ref, case))
                found.append(Sentence(part.strip(), references, bool(references)))
    return found


def grounded(text: str, case: Case) -> str:
    """The text with every sentence that rests on nothing marked so; already marked ones stay as they are."""
    out = []
    commands = commands_of(case)
    for line in text.splitlines():
        if _HEADING.match(line) or line in commands:
            out.append(line)
            continue
        parts = []
        for part in _parts(line):
            bare = not part.strip() or any(exists(ref, case) for ref in referenced(part)) or UNSUPPORTED in part
            parts.append(part if bare else f"{part.rstrip()} {UNSUPPORTED}")
        out.append("".join(parts))
    return "\n".join(out)


def referenced(text: str) -> list[str]:
    """The references a text names, in order."""
    return [ref.strip() for group in _REFERENCES.findall(text) for ref in group.split(",")]


def exists(reference: str, case: Case) -> bool:
    """Whether the case has that evidence (with so many lines) or that checked citation."""
    name, _, line = reference.partition(":")
    if name.startswith("S"):
        citation = case.citations.get(name)
        return citation is not None and citation.checked and not line
    evidence = case.evidence.get(name)
    if evidence is None:
        return False
    return not line or 1 <= int(line) <= max(1, evidence.lines)
