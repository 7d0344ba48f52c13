"""One option under the names that versions give it: aliases, and what a deprecated flag says is used instead.

The catalogues of released versions that ship are read for it, so that an option known from one version is found in
another, older or newer: 0.5.16 still has `--cuda-graph-max-bs` and says that it became `--cuda-graph-max-bs-decode`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from tools.source.catalogue import Flag, FlagCatalogue
from tools.source.released import every


def named_here(option: str, catalogue: FlagCatalogue) -> Flag | None:
    """The flag in use in a version for an option as any version spells it; None where there is none, or not one only.

    Both take a value of the same type, or both take none: a switch that became a number is another option.
    """
    found: dict[str, Flag] = {}
    for name in _same(option, _links(catalogue)):
        flag = next((each for each in catalogue.flags if name in each.names), None)
        if flag is not None and not flag.deprecated:
            found.setdefault(flag.name, flag)
    exact = found.get(option)
    return exact if exact is not None else next(iter(found.values())) if len(found) == 1 else None


def matching(query: str, catalogue: FlagCatalogue) -> list[Flag]:
    """Flags that a query is about: by name, then by a name that another version gives them, then by help text."""
    return [*by_name(query, catalogue), *by_help(query, catalogue)]


def by_name(query: str, catalogue: FlagCatalogue) -> list[Flag]:
    """Flags with the words of a query in their names, then those that another version names so."""
    found = catalogue.matching(query)
    words = [word.lstrip("-") for word in query.lower().replace("_", "-").split()]

    def named(names: Iterable[str]) -> bool:
        return all(word in " ".join(names) for word in words)

    exact = catalogue.find(query) if words else None
    here = [flag for flag in found if flag is exact or named(flag.names)]
    links = _links(catalogue) if words else {}
    elsewhere = [
        flag for flag in catalogue.flags if flag not in here and flag.name in links and named(_same(flag.name, links))
    ]
    return [*here, *elsewhere]


def by_help(query: str, catalogue: FlagCatalogue) -> list[Flag]:
    """Flags that a query is found in, and not by name."""
    named = by_name(query, catalogue)
    return [flag for flag in catalogue.matching(query) if flag not in named]


def elsewhere(option: str) -> tuple[str, Flag] | None:
    """The released version that has an option which another one has not, and its flag there: the last before it was
    removed, else the first that came with it.
    """
    having = [(known.version, flag) for known in every() for flag in known.flags if option in flag.names]
    if not having:
        return None
    return having[0] if having[-1][0] == every()[-1].version else having[-1]


def _same(option: str, links: Mapping[str, frozenset[str]]) -> list[str]:
    """Every name that one leads to."""
    reached, at = [option], 0
    while at < len(reached):
        reached += sorted(links.get(reached[at], frozenset()) - set(reached))
        at += 1
    return reached


def _links(catalogue: FlagCatalogue) -> dict[str, frozenset[str]]:
    links = dict(_released_links())
    for one, other in _pairs(catalogue):
        links[one] = links.get(one, frozenset()) | {other}
    return links


@cache
def _released_links() -> dict[str, frozenset[str]]:
    links: dict[str, set[str]] = {}
    for known in every():
        for one, other in _pairs(known):
            links.setdefault(one, set()).add(other)
    return {name: frozenset(others) for name, others in links.items()}


def _pairs(catalogue: FlagCatalogue) -> Iterator[tuple[str, str]]:
    """Names of one version that mean the same, each way."""
    by_name = {name: flag for flag in catalogue.flags for name in flag.names}
    for flag in catalogue.flags:
        long = [name for name in flag.names if name.startswith("--") and not name.startswith("--no-")]
        others = [name for name in long if name != flag.name]
        instead = by_name.get(flag.replacement or "")
        if instead is not None and (instead.nargs, instead.type) == (flag.nargs, flag.type):
            others.append(instead.name)
        for other in others:
            yield flag.name, other
            yield other, flag.name
