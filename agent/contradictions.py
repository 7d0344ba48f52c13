"""What two places say of one thing and cannot both be right about: shown with both places, never averaged.

Findings of tasks against each other, what the source says against what the server printed, and one value in two
outputs of the host. A finding that contradicts what its own question took for granted is no such pair: it answers it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from agent.case import COMPLAINT, Case
from transcripts.facts import Evidence, Fact, Facts
from transcripts.parts import Finding
from transcripts.records import Compared

_FIGURE: Final = re.compile(r"\d[\d,]*(?:\.\d+)?")
_DENIED: Final = re.compile(r"\b(?:not|never|no longer|does not|cannot|isn't|doesn't|can't|won't)\b\s*")
_PLACE: Final = re.compile(r"\([^()]*:\d+\)|\S+\.py:\d+|\blines? \d+")
# A figure, a word in quotation marks, or a name that no sentence has: `write_back`.
_VALUE: Final = r"(?:(?P<{0}>-?\d[\d,]*(?:\.\d+)?)|[`'\"“](?P<{0}_quoted>[\w.-]+)[`'\"”]|(?P<{0}_name>[a-z]\w*_\w+))"
_DEFAULT: Final = re.compile(
    rf"\bdefaults?(?: value)?(?: is| of| to| =|=|:) *{_VALUE.format('after')}"
    rf"|(?<!\w){_VALUE.format('before')} is (?:the|a|its) default\b",
    re.IGNORECASE,
)
_HOLDER: Final = re.compile(r"^(?:self\.)?(?:server_args\.)?")
_OPEN: Final = frozenset({"", "none", "null", "auto"})
# An effect that options are measured by, as a sentence names it.
_MORE_RUN: Final = re.compile(
    r"\b(?:more|raises?|increases?|adds?|higher|extends?|multipl\w+)\b[^.;:]{0,50}"
    r"\b(?:running|concurrent|parallel|simultaneous)\b[^.;:]{0,12}\b(?:requests?|batch\w*)",
    re.IGNORECASE,
)
_STILL: Final = 0.005
_HICACHE: Final = frozenset({"hicache", "hierarchical-cache", "hicache-ratio", "hicache-size"})
# Facts of one value each: what two outputs of one host give differently is worth a look before anything rests on it.
_SINGLE: Final = ("version", "kv_pool", "running_limit", "context_len", "kv_dtype", "chunked_prefill_size")
_STANDS: Final = {"flag": "typed ", "server_arg": "in force "}
_OWN_TO_A_PLACE: Final = frozenset({"node-rank", "port", "host", "nccl-port", "base-gpu-id", "random-seed"})


@dataclass(frozen=True, slots=True)
class _Said:
    """One statement: of what, as people call it, which value, in which words, where.

    `found`: by research, not by the host.
    """

    about: tuple[str, str]
    name: str
    value: str
    words: str
    at: str
    found: bool = True


def contradictions(case: Case) -> tuple[str, ...]:
    """Each as `SUBJECT: what one says (place) [id] — against: what the other says [id]`. Pure."""
    evidence, facts = case.seen
    seen = _latest(evidence.values())
    said = [
        *_findings(case.findings),
        *_sums(case.compared),
        *_in_force(facts),
        *_outputs([fact for fact in facts if _output(fact) in seen], seen),
    ]
    groups: dict[tuple[str, str], list[_Said]] = defaultdict(list)
    for one in said:
        groups[one.about].append(one)
    return tuple(dict.fromkeys(_told(each) for about, each in groups.items() if _disagree(about, each)))


def _disagree(about: tuple[str, str], said: list[_Said]) -> bool:
    """What the host says of a default or an effect is no contradiction until research says otherwise."""
    needs_research = about[1] in ("default", "more requests run")
    return len({one.value for one in said}) > 1 and (not needs_research or any(one.found for one in said))


def _told(said: list[_Said]) -> str:
    each = {one.value: one for one in reversed(said)}
    ordered = sorted(each.values(), key=said.index)
    return f"{ordered[0].name}: " + " — against: ".join(f"{one.words}{one.at}" for one in ordered)


def _findings(findings: Iterable[Finding]) -> Iterator[_Said]:
    for finding in findings:
        text = _PLACE.sub("", finding.text)
        lowered = text.lower()
        subject, at = _option(finding.subject), _cited(finding)
        default = _DEFAULT.search(text)
        named = _plain(next(filter(None, default.groups())) if default else "")
        denied = bool(_DENIED.search(lowered)) or finding.kind == "does_not"
        if default and named not in _OPEN:
            yield _Said((subject, "default"), finding.subject, named, finding.text, at)
        elif _MORE_RUN.search(text):
            more = "no" if denied else "yes"
            yield _Said((_family(subject), "more requests run"), finding.subject, more, finding.text, at)
        else:
            figures = " ".join(_FIGURE.findall(text))
            yield _Said((subject, _measure(lowered)), finding.subject, f"{denied} {figures}", finding.text, at)


def _sums(compared: Compared | None) -> Iterator[_Said]:
    """Whether an option lets more requests run, by the sums: only where they come out alike for all its values."""
    factors: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for option in compared.options if compared else ():
        changes, factor = option.get("changes") or (), option.get("running_factor")
        if factor is not None and changes and not option.get("combined"):
            cited = [source for source in option.get("evidence", ()) if source.startswith("E")][:3]
            factors[_family(_option(changes[0][0]))].append((factor, f" [{', '.join(cited)}]" if cited else ""))
    for subject, rows in factors.items():
        more = {factor > 1 + _STILL for factor, _ in rows}
        if len(more) == 1:
            factor, at = rows[0]
            words = f"by the sums, {factor:.2f}x the requests run"
            yield _Said((subject, "more requests run"), subject, "yes" if more.pop() else "no", words, at, found=False)


def _in_force(facts: Facts) -> Iterator[_Said]:
    """What the server uses where nothing was typed: to be held against a default that research names."""
    typed = {_option(fact.scope) for fact in facts.all("flag")}
    for fact in facts.all("server_arg"):
        subject, value = _option(fact.scope), _plain(fact.value)
        if subject not in typed and value not in _OPEN:
            words = f"{value} is in force, and nothing was typed"
            yield _Said((subject, "default"), f"--{subject}", value, words, f" [{fact.source}]", found=False)


def _outputs(facts: Iterable[Fact], seen: dict[str, Evidence]) -> Iterator[_Said]:
    """The last value that each output of a host gives, for what has one value on it."""
    last: dict[tuple[str, str, str], Fact] = {}
    for fact in facts:
        if fact.grade == "observed" and _one_value(fact):
            last[fact.name, _option(fact.scope), _output(fact)] = fact
    for (name, scope, output), fact in last.items():
        item = seen[output]
        where = item.command.strip("()") if item.command.startswith("(") else item.probe.replace("_", " ")
        words = f"{fact.value} {_STANDS.get(name, '')}in {where}"
        about = (scope or name, f"{'option' if scope else name} on {item.host}")
        called = f"--{scope}" if scope else name.replace("_", " ")
        yield _Said(about, called, _plain(fact.value), words, f" [{fact.source}]", found=False)


def _one_value(fact: Fact) -> bool:
    if fact.name in _STANDS:
        apart = _option(fact.scope) in _OWN_TO_A_PLACE or _plain(fact.value) in _OPEN
        return not apart and not set(str(fact.value)) & set(" [{<\n")
    return fact.name in _SINGLE and not fact.scope


def _latest(evidence: Iterable[Evidence]) -> dict[str, Evidence]:
    """The last output of each command by its id: an earlier one of the same tells of another day."""
    last = {(item.host, item.probe, item.command): item for item in evidence if item.probe != COMPLAINT}
    return {item.id: item for item in last.values()}


def _output(fact: Fact) -> str:
    return fact.source.partition(":")[0]


def _option(name: str) -> str:
    """`--hicache-ratio`, `hicache_ratio` and `server_args.hicache_ratio` are one option."""
    return _HOLDER.sub("", name.strip().lower()).lstrip("-").replace("_", "-").replace(" ", "-")


def _family(option: str) -> str:
    return "hicache" if option.removeprefix("enable-") in _HICACHE else option


def _plain(value: object) -> str:
    """One spelling for one value: `1,024` and 1024.0, `True` and true."""
    text = str(value).strip(" `'\"“”.").lower()
    try:
        return f"{float(text.replace(',', '')):g}" if text[:1] in "-.0123456789" else text
    except ValueError:
        return text


def _measure(lowered: str) -> str:
    """What a statement is about, without its figures and without its denial."""
    words = _FIGURE.sub("#", _DENIED.sub("", lowered)).rstrip(".").split()
    return " ".join(word.removesuffix("s") for word in words)


def _cited(finding: Finding) -> str:
    """Where it stands, as the views link it; that its line does not read so."""
    held = [citation for citation in finding.citations if citation.checked]
    if held:
        return f" ({held[0].path}:{held[0].line})" + (f" [{held[0].id}]" if held[0].id else "")
    return " (its citation does not hold)" if finding.citations else ""
