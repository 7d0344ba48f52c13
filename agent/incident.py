"""A recorded incident as an operator brings it: its texts as a bundle has them, and the playbook's verdict on them.

The same steps as those of a session, in the same functions: parsers, weighing, the checks of the advice. What a session
does besides (research in the source, comparing options, records on disk) changes neither verdict nor advice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent.advise import advise
from agent.case import COMPLAINT, Case
from agent.unlisted import unlisted
from agent.weighed import weighed
from tools.host.bundle import PASTED
from tools.host.parsers import parse
from transcripts.facts import Evidence, Facts
from transcripts.records import EvidenceTaken, FactsRead, Opened, Weighed
from transcripts.redaction import Redactor

if TYPE_CHECKING:
    from tools.source import Source

Json = dict[str, Any]


def texts_of(given: Mapping[str, Any]) -> dict[str, str]:
    """The box, what was seen and the launch command, each as a file of its own; one that says nothing is not there."""
    box = "\n".join(f"{name}: {given[name]}" for name in ("gpu", "model", "sglang_version") if given.get(name))
    evidence = "\n".join(str(text) for text in given.get("evidence") or ())
    texts = {"box.txt": box, "evidence.txt": evidence, "launch.txt": str(given.get("launch_args") or "")}
    return {name: text for name, text in texts.items() if text.strip()}


def version_of(given: Mapping[str, Any]) -> str:
    """The version that an incident names, empty where it names none."""
    text = str(given.get("flags_version") or given.get("sglang_version") or "")
    found = re.search(r"\d+\.\d+\.\d+(?:\.?post\d+|rc\d+)?", text)
    return found[0] if found else ""


def read_given(given: Mapping[str, Any]) -> Facts:
    """Facts of what is handed over: evidence observed, the launch command typed, the complaint claimed."""
    return _taken(given).facts


def assess(given: Mapping[str, Any], source: Source | None = None) -> Json:
    """The verdict on what an operator hands over: `{kind, label, certainty, why, missing, hypotheses, changes}`."""
    case = _taken(given)
    case.apply(FactsRead.of(unlisted(case.facts, source)))
    case.apply(weighed(case))
    if case.weighed is not None and case.weighed.kind == "cause":
        case.apply(advise(case, source, ()))
    return verdict(case)


def verdict(case: Case) -> Json:
    """What reached the operator: the first hypothesis and the changes that passed the checks."""
    found = case.weighed or Weighed(kind="abstain")
    leading = found.hypotheses[0] if found.hypotheses and found.hypotheses[0].supporting else None
    return {
        "kind": found.kind,
        "label": found.label or (leading.label if leading else ""),
        "certainty": found.certainty,
        "why": found.why,
        "missing": list(found.missing),
        "hypotheses": [row.model_dump() for row in found.hypotheses[:8]],
        "changes": list(case.advised.changes) if case.advised is not None else [],
    }


def _taken(given: Mapping[str, Any]) -> Case:
    """The case once everything was looked at."""
    target = {"kind": "bundle", "host": "incident", "version": version_of(given)}
    case = Case.fold([Opened(id="", role="session", text=str(given.get("complaint") or ""), target=target)])
    redact = Redactor().redact
    for evidence in _evidence(given):
        seen = replace(evidence, text=redact(evidence.text))
        case.apply(EvidenceTaken.of(seen, parse(seen)))
    return case


def _evidence(given: Mapping[str, Any]) -> Iterator[Evidence]:
    yield Evidence("E1", COMPLAINT, "", "operator", "", None, str(given.get("complaint") or ""))
    for number, (name, text) in enumerate(sorted(texts_of(given).items()), 2):
        yield Evidence(f"E{number}", PASTED, f"(pasted: {name})", name, "", None, text)
