"""Options of the launch command that the deployed version does not list, and what they come nearest to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

from transcripts.facts import Fact, Facts

if TYPE_CHECKING:
    from tools.source import Source
    from tools.source.catalogue import FlagCatalogue

_ABBREVIATION: Final = 3  # letters


def asked_of_a_version(facts: Facts) -> bool:
    """Whether there are options that a version might not list: refused, or typed for a server that was not seen up."""
    return "rejected_flag" in facts or ("flag" in facts and not _came_up(facts))


def unlisted(facts: Facts, source: Source | None) -> tuple[Fact, ...]:
    """For each option that the version lacks: that it is refused, and the one that was meant where it is near enough.

    Without the tree the lists that ship are read; what a release lacks is then told only where its own list ships.
    """
    from tools.source.released import around, catalogue_of, listing

    version = facts.text("version")
    own = source.catalogue() if source is not None else catalogue_of(version)
    found: list[Fact] = []
    for name, fact in _options(facts, typed=own is not None and not _came_up(facts)):
        catalogue = own or around(version)
        if _listed(catalogue, name):
            continue
        near = [one for one in catalogue.nearest(name, 1) if _alike(name, one)]
        if fact.name == "flag":
            if not near and around("").find(name) is None:
                continue  # of no release and like none: the container runtime's, a launcher's, another program's
            found.append(Fact("rejected_flag", name, "", "derived", fact.source, "unrecognized"))
        if version and (later := listing(name, version)):
            found.append(Fact("flag_listed_later", later, "", "derived", fact.source, name))
        if near:
            found.append(Fact("flag_nearest", near[0], "", "derived", fact.source, name))
    known = set(facts)
    return tuple(one for one in dict.fromkeys(found) if one not in known)


def _came_up(facts: Facts) -> bool:
    """A server that runs has taken its options."""
    return "True" in (facts.text("ready"), facts.text("running"))


def _options(facts: Facts, *, typed: bool) -> Iterator[tuple[str, Fact]]:
    for fact in facts:
        name = str(fact.value) if fact.name == "rejected_flag" else fact.scope if fact.name == "flag" and typed else ""
        if name.startswith("--"):
            yield name, fact


def _listed(catalogue: FlagCatalogue, name: str) -> bool:
    found = catalogue.find(name)
    return (found is not None and name in found.names) or bool(catalogue.by_prefix(name))


def _alike(one: str, other: str) -> bool:
    """A slip of the pen: the same words but for one or two letters, or only - against _.

    A word of up to three letters is an abbreviation with a meaning of its own (tp, dp, dcp): it is the same or another.
    """
    if one.replace("_", "-") == other:
        return True
    words, others = (re.split(r"[-_]+", name.lstrip("-")) for name in (one, other))
    if len(words) == len(others) and any(
        word != same and min(len(word), len(same)) <= _ABBREVIATION for word, same in zip(words, others, strict=True)
    ):
        return False
    return SequenceMatcher(None, one, other).ratio() >= 0.9
