"""Whether there is an SGLang at all in what was looked at: a process, a unit, an installation, a log, a failure;
and where it serves.

What a host tells of itself (memory, GPUs, disks, kernel) and what the operator said do not count.
"""

from __future__ import annotations

from typing import Final

from agent.case import COMPLAINT, Case
from tools.host.framing import DISCOVERY
from tools.host.look import slots_of
from tools.other_engines import log_of_another
from transcripts.facts import Fact, Facts
from transcripts.vocabulary import HOST

_OF_ANY_HOST: Final = frozenset({*HOST, "login", "listening"})
_NAME: Final = "sglang"


def sglang_found(case: Case) -> bool:
    """Whether any fact is of a server, or names one, and the log is no other engine's; true before any look."""
    if all(item.probe == COMPLAINT for item in case.evidence.values()):
        return True
    if log_of_another(case.facts) is not None:
        return False
    return any(_tells_of_a_server(fact, case) for fact in case.facts)


def _tells_of_a_server(fact: Fact, case: Case) -> bool:
    evidence = case.evidence.get(fact.source.partition(":")[0])
    if fact.grade == "claimed" or (evidence is not None and evidence.probe == COMPLAINT):
        return False
    if fact.name in _OF_ANY_HOST or (evidence is not None and evidence.probe == "kernel_log"):
        return _NAME in str(fact.value).lower()
    return (fact.name, str(fact.value)) != ("running", "False")


def server_port(case: Case) -> int | None:
    """Where the server was found to listen by the look itself, never by what a log, a model or the operator says."""
    looks = [item for item in case.evidence.values() if item.probe == DISCOVERY]
    return port_of(looks[-1].text) if looks else None


def port_of(discovery: str) -> int | None:
    """The server's port in what the probe script found for itself."""
    port = slots_of(discovery).get("PORT", "")
    return int(port) if port.isdecimal() else None


def served_by(case: Case) -> tuple[int, str] | None:
    """Port of the server and the name it serves its model under; None before the look has found it."""
    port = server_port(case)
    return (port, served_name(case.facts)) if port is not None else None


def served_name(facts: Facts) -> str:
    """What a request to the server names its model."""
    return facts.text("served_model") or facts.text("model_path") or "default"
