"""Text that operators paste to facts: tracebacks, refusals, kills, launch commands, manifests, sentences with figures.

Log series, GPUs and memory tables are read by `tools.host.parsers`; nothing is judged here. `parse_text` takes any text
and leaves what it does not know.
"""

from __future__ import annotations

import re
from typing import Final

from tools.host.parsers.incident import (
    box,
    containers,
    devices,
    failure_lines,
    failures,
    figures,
    former,
    launch,
    load_lines,
    measured,
    messages,
    stacks,
    symptoms,
    tuned,
)
from tools.host.parsers.lines import routine
from tools.host.parsers.page import Page
from transcripts.facts import Evidence, Fact, Grade

__all__ = ["parse_text"]

_LONGEST: Final = 400_000  # characters of prose that are read; a text of that length is a log


_SERIES = re.compile(r"\b(?:Decode|Prefill) batch\b.*#running-req")


def _without_load(text: str) -> str:
    """The text with lines of the load series emptied: what they hold is measured by the load parser."""
    return "\n".join("" if _SERIES.search(line) else line for line in text.split("\n"))


_OPTION = re.compile(r"(?<![\w-])--[a-z]")
_PRINTED = re.compile(r"error|unrecognized|ambiguous|invalid|warning|deprecated|please|\btry\b|^\[?\d{4}-\d\d", re.I)


def _brought(text: str) -> bool:
    """Whether every line is of options, or notes the box: nothing that a machine has printed or a run has shown."""
    return all(
        not line.strip() or box.noted(line) or (_of_options(line) and not _PRINTED.search(line))
        for line in text.split("\n")
    )


def _of_options(line: str) -> bool:
    """Whether options and their values make up a good part of a line; a sentence only mentions one."""
    options = len(_OPTION.findall(line))
    return options > 0 and len(line.split()) < 8 * options


def parse_text(evidence: Evidence) -> tuple[Fact, ...]:
    """Facts of one text, each with its line; those of a complaint are claims."""
    page = Page(evidence.id)
    grade: Grade = "claimed" if evidence.probe == "complaint" else "observed"
    pasted = evidence.probe == "pasted"
    prose = (pasted or grade == "claimed") and len(evidence.text) <= _LONGEST
    lines = evidence.text.splitlines()
    # What stands beside options, and what is noted of the box, is the operator's word as well.
    said: Grade = "claimed" if prose and _brought(evidence.text) else grade
    told = [(number, line) for number, line in enumerate(lines, 1) if prose or not routine(line)]
    for number, line in told:
        messages.read(page, line, number, grade)
        failures.read(page, line, number, grade)
        if prose and not _SERIES.search(line):
            figures.read(page, line, number, said)
    failures.read_phase(page, lines, told, grade)
    failure_lines.read(page, told, grade)
    stacks.read(page, told, grade)
    load_lines.read(page, lines, grade)
    if prose:
        measured.read(page, lines, said)
        containers.read(page, lines, said)
        devices.read(page, lines, said)
        if said == "claimed":
            tuned.read(page, evidence.text, said)
        symptoms.read(page, _without_load(evidence.text), said)
        launch.read(page, evidence.text, options=pasted)
    if prose:
        box.read_version(page, lines)
    if pasted and prose:
        box.read(page, lines)
        former.read(page, lines)
    if grade == "claimed" and prose:
        box.read_prose(page, lines, grade)
    return tuple(dict.fromkeys(page.facts))
