"""Hosts named beside the one under diagnosis, such as the other nodes of one server or the other side of a PD pair.

Each is looked at the same way and kept as evidence of its own. Its facts stay out of the case, whose sums and causes
are of one host: what is told of it is where it differs from the first, what failed there, and how busy it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from agent.workbench import Workbench
from tools.toolbox import Emit
from transcripts.errors import HostError, UsageError
from transcripts.facts import Fact, Facts
from transcripts.records import EvidenceTaken, Note

_ALIKE: Final = {"version": "SGLang", "driver_version": "the GPU driver", "gpu_count": "the number of GPUs"}
_BUSY: Final = {
    "running_p95": "running requests (p95)",
    "queue_p95": "queued requests (p95)",
    "usage_p95": "token usage (p95)",
    "retractions": "retractions",
}
_OWN_ARGUMENTS: Final = frozenset(
    {"node_rank", "host", "port", "nccl_port", "random_seed", "dist_init_addr", "disaggregation_bootstrap_port"}
)
_MOST: Final = 12  # differences that are told


async def look_beside(bench: Workbench, name: str, emit: Emit) -> None:
    """Look at a host that was named beside the first, once in a session; a note says what that brought."""
    from tools.host import connect, look
    from tools.host.parsers import parse

    case, host = bench.session.case, name.rpartition("@")[2]
    if any(item.probe.startswith(f"{host}:") for item in case.evidence.values()):
        return
    first, found = case.next_evidence(), list[Fact]()
    try:
        async with connect(name) as connected:
            async for seen in look(connected, redact=bench.session.transcript.redact, learn=bench.session.learn):
                evidence = replace(seen, host=host).evidence(case.next_evidence())
                found += parse(evidence)
                emit(EvidenceTaken.of(replace(evidence, probe=f"{host}:{seen.probe}")))
    except (HostError, UsageError) as error:
        emit(Note(text=f"{name} was named too and is not seen, or not whole: {error}"))
        return
    told = list(_compared(case.facts, Facts(found)))
    more = [f"and {len(told) - _MOST} more"] if len(told) > _MOST else []
    said = "; ".join([*told[:_MOST], *more]) or "it differs in nothing that was compared"
    emit(Note(text=f"{name} was looked at beside it ({first} and on), no cause is weighed there: {said}"))


def _compared(here: Facts, there: Facts) -> Iterator[str]:
    """What of the other host is worth telling, gravest first, each with where it stands."""
    for name in ("kernel_oom_kill", "xid"):
        for fact in there.all(name)[-1:]:
            yield f"{name.replace('_', ' ')} {fact.value} there [{fact.source}]"
    known = {fact.scope for fact in here.all("message")}
    for scope, fact in {fact.scope: fact for fact in there.all("message") if fact.scope not in known}.items():
        yield f"{scope.replace('_', ' ')} there [{fact.source}]"
    for name, what in _ALIKE.items():
        yield from _differing(what, here.get(name), there.get(name))
    yield from _differing("the GPUs", here.get("gpu_name", "gpu0"), there.get("gpu_name", "gpu0"))
    scopes = {fact.scope for facts in (here, there) for fact in facts.all("server_arg")} - _OWN_ARGUMENTS
    for scope in sorted(scopes):
        yield from _differing(scope, here.get("server_arg", scope), there.get("server_arg", scope))
    for name, what in _BUSY.items():
        seen, own = there.get(name), here.get(name)
        if seen is not None:
            yield f"{what} {seen.value} there, {'not known' if own is None else own.value} here [{seen.source}]"


def _differing(what: str, here: Fact | None, there: Fact | None) -> Iterator[str]:
    if here is not None and there is not None and here.value != there.value:
        yield f"{what} is {there.value} there, {here.value} here [{there.source}, {here.source}]"
