"""Options that the complaint names: whether the version has them, and whether the values are those that run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from agent.views.words import FLAG
from tools.diagnosis.model import Claim
from tools.other_engines import FOREIGN
from transcripts.facts import Facts

if TYPE_CHECKING:
    from tools.source import Source
    from tools.source.catalogue import FlagCatalogue

_VALUE: Final = re.compile(r"[ =]+([\w.+-]*\w)")
# Words before an option by which it is said to be set, and those by which it is only thought of or taken back.
_SET: Final = re.compile(
    r"\b(?:already|with|set|sets|using|use|have|has|run|runs|running|started|gave|added|typed)\b", re.I
)
_THOUGHT: Final = re.compile(
    r"\b(?:should|shall|can|could|would|may|might|if|try|trying|want|wanted|without|no longer|removed|not)\b", re.I
)


def options_named(complaint: str, facts: Facts, source: Source | None) -> tuple[Claim, ...]:
    """A claim for each option that the version lacks, and for each value that is not the one that runs."""
    from tools.source.released import around, catalogue_of

    version = facts.text("version")
    own = source.catalogue() if source is not None else catalogue_of(version)
    catalogue = own or around(version)
    refused = {str(fact.value) for fact in facts.all("rejected_flag")}
    found: list[Claim] = []
    for sentence in re.split(r"(?<=[.;!?])\s+|\n", complaint):
        for named in FLAG.finditer(sentence):
            name = named[0]
            if not catalogue.find(name) and not catalogue.by_prefix(name):
                found += [] if name in refused else [_lacked(name, catalogue, facts, known=own is not None)]
            elif given := _VALUE.match(sentence, named.end()):
                found += _differs(name, given[1], sentence, named.start(), catalogue, facts)
    return tuple(dict.fromkeys(found))


def _lacked(name: str, catalogue: FlagCatalogue, facts: Facts, *, known: bool) -> Claim:
    from tools.source.released import listing

    version, releases = facts.get("version"), listing(name)
    here = f"{version.value} has no such option" if version is not None and known else ""
    if name in FOREIGN:
        engine, instead, *_ = FOREIGN[name]
        other = f"it is {engine}'s" + (f", SGLang has {instead}" if instead else "")
    elif releases:
        other = f"releases that have it: {releases}"
    else:
        other = "no release known has it" + "".join(f"; nearest in name: {near}" for near in catalogue.nearest(name, 1))
    return Claim(
        f"{name} is an option of this server",
        "contradicted" if here or not releases else "untestable",
        (version.source,) if version is not None else (),
        "; ".join(part for part in (here, other) if part),
    )


def _differs(name: str, said: str, sentence: str, at: int, catalogue: FlagCatalogue, facts: Facts) -> Iterator[Claim]:
    """Where the server's own record of its arguments has another value than the one that is said to be set."""
    full = [name] if catalogue.find(name) else catalogue.by_prefix(name)
    flag = catalogue.find(full[0]) if len(full) == 1 else None
    runs = facts.get("server_arg", flag.dest) if flag is not None else None
    if runs is None or runs.grade == "claimed" or not _SET.search(sentence[:at]) or _THOUGHT.search(sentence[:at]):
        return
    if str(runs.value).strip("'\"").lower() != said.lower() and not _same_number(str(runs.value), said):
        now = "not given" if str(runs.value) == "None" else str(runs.value)
        why = f"the server tells {now}: this start has not that change, or is another's"
        yield Claim(f"{name} {said} is in effect", "contradicted", (runs.source,), why)


def _same_number(one: str, other: str) -> bool:
    try:
        return float(one) == float(other)
    except ValueError:
        return False
