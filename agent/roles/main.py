"""The main agent's tools: look, weigh, compare, propose, calculate, read evidence, run a command, and the task tool."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import Field

from agent.case import COMPLAINT
from agent.found import server_port
from agent.limits import waiting
from agent.roles.beside import look_beside
from agent.session import Session
from agent.tasks import Tasks
from agent.told import not_taken
from agent.views.words import FLAG, visible
from agent.workbench import Workbench
from prompts import prompt
from tools.host.look import Observation
from tools.toolbox import Arguments, Emit, Tool, Toolbox, ToolRefused
from transcripts.errors import Inconclusive
from transcripts.facts import Evidence, Facts
from transcripts.parts import ClaimRow
from transcripts.records import Claimed, EvidenceTaken, FactsRead, Note, Record, Started, Weighed

if TYPE_CHECKING:
    from tools.diagnosis import Claim

NAMES = ("look", "weigh", "task", "compare", "propose", "calculate", "flag", "evidence", "run")
SHOWN_LINES = 200
LONG_LINE = 2_000  # characters
AROUND = 500  # characters of a long line, before and after what was looked for
OPERATORS_WORDS = "(the operator's words)"
LONG_CHARS = 4 << 20
T = TypeVar("T")


class NoArguments(Arguments):
    pass


class LookArguments(Arguments):
    again: bool = Field(False, description="ask anew what was answered before")


class ChangeArguments(Arguments):
    flag: str = Field(description="as in the launch command, such as --max-running-requests")
    to: str | None = Field(None, description="new value; null removes the flag")
    why: str
    evidence: list[str] = Field(description="ids such as E5 or S2")


class ProposeArguments(Arguments):
    changes: list[ChangeArguments] = Field(
        default_factory=list, description="leave empty for the change that the ranking suggests"
    )


class CalculateArguments(Arguments):
    what: str = Field(
        description="hicache_ratio, hicache_size, ram_for_hicache, running_requests, prompt_tokens, max_tokens, room, "
        "gpu_memory, levers or settings"
    )
    value: float | None = Field(
        None, description="the ratio, GB (hicache_size: per rank), number of requests, or tokens"
    )
    answers: float | None = Field(None, description="with prompt_tokens: tokens of an answer")
    settings: dict[str, str] = Field(
        default_factory=dict, description="with settings: memory options and values, summed together"
    )


class FlagArguments(Arguments):
    name: str = Field(description="such as --hicache-ratio")


class EvidenceArguments(Arguments):
    id: str
    first: int = Field(1, ge=1)
    last: int | None = None
    find: str = Field("", description="only lines that hold this text; of a long one, what stands around it")


class RunArguments(Arguments):
    command: str = Field(description="one read-only command line for the host")


def main_toolbox(bench: Workbench, tasks: Tasks) -> Toolbox:
    """The tools of the main agent over this session's host and source."""
    desk = _Desk(bench)
    return Toolbox(
        [
            Tool("look", "Ask the host for everything standard, in one round trip.", LookArguments, desk.look),
            Tool("weigh", "Rank hypotheses by the facts; judge the operator's claims.", NoArguments, desk.weigh),
            tasks.tool(prompt("task")),
            Tool("compare", "Put all options side by side, with arithmetic.", NoArguments, desk.compare),
            Tool("propose", "Check changes and make them the recommendation.", ProposeArguments, desk.propose),
            Tool("calculate", "Memory arithmetic on this server's facts.", CalculateArguments, desk.calculate),
            Tool("flag", "Look a flag up in the deployed version.", FlagArguments, desk.flag),
            Tool("evidence", "Read lines of evidence.", EvidenceArguments, desk.evidence),
            Tool("run", "Run a read-only command on the host.", RunArguments, desk.run),
        ]
    )


class _Desk:
    """What the tools share: the session they record in, the host and the tree behind it."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._asking = asyncio.Lock()

    @property
    def _session(self) -> Session:
        return self._bench.session

    async def look(self, arguments: LookArguments, emit: Emit) -> str:
        case = self._session.case
        if COMPLAINT not in case.probes_answered():
            _take(
                self._bench,
                Observation(COMPLAINT, OPERATORS_WORDS, "operator", "", None, case.complaint),
                emit,
            )
        await _look(self._bench, frozenset() if arguments.again else case.probes_answered(), emit)
        for name in self._bench.target.get("beside", ()):
            await look_beside(self._bench, name, emit)
        await self._look_up_options(emit)
        for text in _only_partly_seen(case.evidence.values()):
            if text not in case.notes:
                emit(Note(text=text))
        return _evidence_listed(case.evidence.values(), case.facts)

    async def _look_up_options(self, emit: Emit) -> None:
        """What the deployed version says to the options that were typed for it."""
        from agent.unlisted import asked_of_a_version, unlisted

        facts = self._session.case.facts
        if not asked_of_a_version(facts):
            return
        source = None
        with suppress(Inconclusive):  # told where advice is checked
            source = await self._bench.source()
        if found := unlisted(facts, source):
            emit(FactsRead.of(found))

    async def weigh(self, _arguments: NoArguments, emit: Emit) -> str:
        from agent.weighed import weighed
        from tools import diagnosis

        case = self._session.case
        for text in not_taken(case):
            _take(self._bench, Observation(COMPLAINT, OPERATORS_WORDS, "operator", "", None, text), emit)
        emit(weighed(case))
        claims = (*diagnosis.claims(case.complaint, case.facts), *await self._options_named())
        emit(
            Claimed(
                claims=tuple(
                    ClaimRow(id=f"C{n}", text=c.text, verdict=c.verdict, evidence=c.evidence, why=c.why)
                    for n, c in enumerate(claims, 1)
                )
            )
        )
        return _ranking(case.weighed, case.claims)

    async def _options_named(self) -> tuple[Claim, ...]:
        """What holds of the options that the complaint names."""
        case = self._session.case
        if not FLAG.search(case.complaint):
            return ()
        from agent.named import options_named

        source = None
        with suppress(Inconclusive):  # told where advice is checked
            source = await self._bench.source()
        return options_named(case.complaint, case.facts, source)

    async def compare(self, _arguments: NoArguments, emit: Emit) -> str:
        from agent import merge
        from agent.contradictions import contradictions

        compared = merge.compare(self._session.case)
        emit(compared)
        return merge.compared_text(compared, contradictions(self._session.case))

    async def propose(self, arguments: ProposeArguments, emit: Emit) -> str:
        from agent import advise

        source = None
        try:
            source = await self._bench.source()
        except Inconclusive as error:
            emit(Note(text=str(error)))
        wanted = [change.model_dump() for change in arguments.changes]
        advised = advise.advise(self._session.case, source, wanted)
        emit(advised)
        return advise.advised_text(advised)

    async def calculate(self, arguments: CalculateArguments, _emit: Emit) -> str:
        from agent.roles.calculate import calculated

        return calculated(
            self._session.case.facts, arguments.what, arguments.value, arguments.answers, arguments.settings
        )

    async def flag(self, arguments: FlagArguments, emit: Emit) -> str:
        from tools.source import tools_for

        source = await self._bench.source()
        lookup = Toolbox([tool for tool in tools_for(source) if tool.name == "flag"])
        return await lookup.call("flag", json.dumps({"name": arguments.name}), emit)

    async def evidence(self, arguments: EvidenceArguments, _emit: Emit) -> str:
        found = self._session.case.evidence.get(arguments.id)
        if found is None:
            raise ToolRefused(f"no evidence is {arguments.id}.", f"There is: {', '.join(self._session.case.evidence)}.")
        lines = list(enumerate(found.text.splitlines(), 1))[arguments.first - 1 : arguments.last]
        if arguments.find:
            lines = [(number, line) for number, line in lines if arguments.find in line]
        shown = [f"{found.id}:{number}: {_part_of(line, arguments.find)}" for number, line in lines[:SHOWN_LINES]]
        left = len(lines) - len(shown)
        return "\n".join([*shown, f"… {left} more lines"] if left > 0 else shown) or "no such line."

    async def run(self, arguments: RunArguments, emit: Emit) -> str:
        from tools.host.policy import judge, lookup_command, read_lookup, settle

        host = await self._bench.host()
        port = server_port(self._session.case)
        ports = frozenset({port} if port is not None else ())
        verdict, real = judge(arguments.command, ports=ports), dict[str, tuple[str, ...]]()
        if verdict.kind != "deny" and verdict.paths:  # a link may lead where the word does not say
            real = read_lookup(verdict, (await host.run(lookup_command(verdict))).text)
            verdict = settle(verdict, real)
        if verdict.kind == "deny":
            raise ToolRefused(f"deny: {verdict.reason}.", "Only the published read-only commands run.")
        if verdict.kind == "ask":
            await self._agreed(arguments.command, verdict.reason, real, emit)
        await self._bench.learn_start()
        result = await host.run(verdict.command)
        text = self._session.transcript.redact(result.text)
        evidence = _take(self._bench, replace(result, command=arguments.command, text=text), emit)
        return _brought(evidence)

    async def _agreed(self, command: str, reason: str, real: Mapping[str, tuple[str, ...]], emit: Emit) -> None:
        """The operator's yes, one question at a time: the command whole, which is plain ASCII, and where links lead."""
        links = [f"{word} is {', '.join(names)}" for word, names in real.items() if names not in ((), (word,))]
        async with self._asking, waiting():
            agreed = await self._bench.approve(command, visible("; ".join([reason, *links])))
        if not agreed:
            raise ToolRefused(f"ask: {reason}.", "The operator did not agree; do not ask for it again.")
        emit(Note(text=f"the operator agreed to: {command}"))


def brought_by_run(records: Iterable[Record], call: str) -> str:
    """What a `run` call that a dead process left open had brought by then; empty where nothing of it is on record."""
    later = iter(records)
    arguments = next((each.arguments for each in later if isinstance(each, Started) and each.call == call), "")
    kept = (each for each in later if isinstance(each, EvidenceTaken) and each.probe == "command")
    return next((_brought(each) for each in kept if json.dumps(each.command) in arguments), "")


def _brought(evidence: Evidence | EvidenceTaken) -> str:
    return f"{evidence.id}, exit {evidence.exit}:\n{evidence.text}"


# Where the output of a server without a unit goes (tools/host/probe.sh), and what would show it.
_OUTPUT_NOT_SEEN: Final = {
    "unreadable": "this login may not see where it goes, nor where its package lies; a login as the server's own user",
    "terminal": "it goes to a terminal and is kept nowhere; paste it from there, with --bundle or into the chat",
    "pipe": "another program takes it; the log that one writes, with --bundle",
    "other": "it goes to a place that is not read; a copy of it, with --bundle",
}


def _part_of(line: str, wanted: str) -> str:
    """A line whole, or of a very long one what stands around `wanted`, so that it is not what a cut leaves out."""
    if len(line) <= LONG_LINE:
        return line
    whole = f"({len(line):,} characters; `find` shows the part around a text)"
    if not wanted:
        return f"{line[:LONG_LINE]} … {whole}"
    place = line.index(wanted)
    return f"… {line[max(0, place - AROUND) : place + len(wanted) + AROUND]} … {whole}"


def _only_partly_seen(evidence: Iterable[Evidence]) -> Iterator[str]:
    """What a look could not show: what this login may not see, and servers beside or behind the one looked at."""
    from tools.host import least_rights

    for item in evidence:
        if item.problem == "denied" and (rights := least_rights(item.probe)):
            yield f"{item.probe} was denied to this login; {rights}"
        if item.probe == "discovery":
            found = dict(line.partition("=")[::2] for line in item.text.splitlines())
            if not found.get("unit") and (unseen := _OUTPUT_NOT_SEEN.get(found.get("output", ""))):
                yield f"what the server prints: {unseen}"
            if found.get("routers", "").strip():
                yield "a router runs on this host: requests it holds back are not seen here"
            if found.get("role") not in ("", "null", None):
                yield f"the server has the disaggregation role {found['role']}: its other side is not seen here"
            if found.get("nodes", "") not in ("", "1"):
                yield f"the server spans {found['nodes']} nodes: only this one is seen"


async def look_anew(bench: Workbench) -> None:
    """Every standard probe once more, as new evidence."""
    await _look(bench, frozenset(), bench.session.record)


async def _look(bench: Workbench, skip: frozenset[str], emit: Emit) -> None:
    from tools.host import look

    host = await bench.host()

    def redact(text: str) -> str:
        return _told(bench, "redacting", text, bench.session.transcript.redact)

    asked = False
    learn, unlearnt = bench.session.learn, bench.start_unlearnt()
    async for seen in look(host, skip=skip, redact=redact, learn=learn, unlearnt=unlearnt):
        _take(bench, replace(seen, host=bench.host_name), emit)
        asked = True
    bench.start_read = bench.start_read or asked


def _take(bench: Workbench, seen: Observation, emit: Emit) -> Evidence:
    """Number what was seen, read its facts, and record both at once."""
    from tools.host.parsers import parse

    evidence = seen.evidence(bench.session.case.next_evidence())
    facts = _told(bench, "reading", seen.text, lambda _: parse(evidence))
    emit(EvidenceTaken.of(evidence, facts))
    return evidence


def _told(bench: Workbench, what: str, text: str, work: Callable[[str], T]) -> T:
    """Work on a text; of a long one it is told before, since it takes seconds."""
    if len(text) >= LONG_CHARS:
        bench.progress(f"{what} {len(text) / 1e6:.1f} MB", 0, None)
    return work(text)


def _evidence_listed(evidence: Any, facts: Facts) -> str:
    lines = [
        f"{item.id} {item.probe}: " + (item.problem or f"{item.lines} lines, exit {item.exit}") for item in evidence
    ]
    return "\n".join([*lines, f"{len(facts)} facts."])


def _ranking(weighed: Weighed | None, claims: tuple[ClaimRow, ...]) -> str:
    if weighed is None:
        return "nothing was weighed."
    lines = [f"{weighed.kind}: {weighed.label or weighed.why} (certainty {weighed.certainty:.2f})"]
    for row in weighed.hypotheses[:8]:
        lines.append(f"{row.id} {row.label} {row.status} {row.weight:+.1f}")
        lines += [f"  + {reason.text} [{', '.join(reason.source)}]" for reason in row.supporting]
        lines += [f"  - {reason.text} [{', '.join(reason.source)}]" for reason in row.against]
    lines += [f"missing: {text}" for text in weighed.missing]
    lines += [
        f"{claim.id} {claim.verdict}: {claim.text}: {claim.why} [{', '.join(claim.evidence)}]" for claim in claims
    ]
    return "\n".join(lines)
