"""Whether there is an SGLang at all in what was looked at: a process, a unit, an installation, a log, a failure.

What a host tells of itself (memory, GPUs, disks, kernel) and what the operator said do not count.
"""

from __future__ import annotations

from typing import Final

from agent.case import Case
from transcripts.facts import Fact
from transcripts.vocabulary import HOST

COMPLAINT: Final = "complaint"
_OF_ANY_HOST: Final = frozenset({*HOST, "login", "listening"})
_NAME: Final = "sglang"


def sglang_found(case: Case) -> bool:
    """Whether any fact is of a server, or names one; true before anything was looked at."""
    if all(item.probe == COMPLAINT for item in case.evidence.values()):
        return True
    return any(_tells_of_a_server(fact, case) for fact in case.facts)


def _tells_of_a_server(fact: Fact, case: Case) -> bool:
    evidence = case.evidence.get(fact.source.partition(":")[0])
    if fact.grade == "claimed" or (evidence is not None and evidence.probe == COMPLAINT):
        return False
    if fact.name in _OF_ANY_HOST or (evidence is not None and evidence.probe == "kernel_log"):
        return _NAME in str(fact.value).lower()
    return (fact.name, str(fact.value)) != ("running", "False")
