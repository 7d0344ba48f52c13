"""Catalogues of released versions that ship with the program, for sites with no package index: no help texts, no rules.

One compressed file, a catalogue a line. `tests/tools/source/pack_released.py` writes it.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Final

from tools.source.catalogue import Flag, FlagCatalogue, dump, load
from tools.source.wheel import version_key

FILE: Final = "released.json.xz"
_UNTAGGED: Final = "0.0.0"  # of a build from a checkout without tags


def pack(catalogues: Iterable[FlagCatalogue]) -> bytes:
    """The file's content."""
    return lzma.compress("\n".join(dump(each, with_help=False) for each in catalogues).encode(), preset=9)


def versions() -> tuple[str, ...]:
    """The versions there are."""
    return tuple(json.loads(line)["version"] for line in _lines())


def catalogue_of(version: str) -> FlagCatalogue | None:
    """The catalogue that ships for a version; None if none does."""
    for line in _lines():
        catalogue = load(line) if f'"version":"{version}"' in line[:80] else None
        if catalogue is not None and catalogue.version == version:
            return catalogue
    return None


@cache
def every() -> tuple[FlagCatalogue, ...]:
    """All catalogues that ship, oldest first."""
    return tuple(one for line in _lines() if (one := load(line)) is not None)


def listing(option: str, after: str = "") -> str:
    """The releases whose list has that spelling: `0.4.6 to 0.5.16`, stretches in order; empty where none has.

    Only those after a version where one is given.
    """
    shipped = [one for one in every() if not after or version_key(one.version) > version_key(after)]
    has = [_lists(one, option) for one in shipped]
    stretches: list[list[str]] = []
    for at, one in enumerate(shipped):
        if has[at] and at and has[at - 1]:
            stretches[-1].append(one.version)
        elif has[at]:
            stretches.append([one.version])
    return ", ".join(" to ".join(dict.fromkeys((each[0], each[-1]))) for each in stretches)


def _lists(catalogue: FlagCatalogue, option: str) -> bool:
    """Whether a release has that very spelling, not one that it is short for."""
    found = catalogue.find(option)
    return found is not None and option in found.names


def since(option: str, version: str) -> tuple[str, int]:
    """The first of the releases that all list the option up to that version, and how many they are; empty for none."""
    upto = [one for one in every() if version_key(one.version) <= version_key(version)]
    count = 0
    for one in reversed(upto):
        if not _lists(one, option):
            break
        count += 1
    return (upto[-count].version, count) if count else ("", 0)


@cache
def around(version: str) -> FlagCatalogue:
    """What is known of a version whose catalogue does not ship; of an unknown one for an empty `version`.

    Options that the nearest releases before and after it both have, as the older spells them; of an unknown version
    those that any release has, in the newest form that is not deprecated. `at` names the release that was read.
    """
    shipped = every()
    if not version or version.startswith(_UNTAGGED):
        return _joined(f"{shipped[0].version} to {shipped[-1].version}", shipped[::-1])
    key = version_key(version)
    older = [one for one in shipped if version_key(one.version) <= key][-1:]
    newer = [one for one in shipped if version_key(one.version) > key][:1]
    near = [*older, *newer]
    found = _joined(" and ".join(one.version for one in near), near)
    listed = [{name for flag in one.flags for name in flag.names} for one in near]
    shared = [flag for flag in found.flags if all(not names.isdisjoint(flag.names) for names in listed)]
    return FlagCatalogue(found.version, tuple(shared), found.fields)


def _joined(title: str, catalogues: Iterable[FlagCatalogue]) -> FlagCatalogue:
    """The options of all, each from the first that has it in use, else from the first that has it."""
    found: dict[str, Flag] = {}
    fields: dict[str, None] = {}
    for one in catalogues:
        fields |= dict.fromkeys(one.fields)
        for flag in one.flags:
            kept = found.get(flag.name)
            if kept is None or (kept.deprecated and not flag.deprecated):
                found[flag.name] = replace(flag, path=f"{one.version} {flag.path}")
    return FlagCatalogue(title, tuple(found.values()), tuple(fields))


def _lines() -> list[str]:
    data = resources.files(__package__).joinpath(FILE).read_bytes()
    return lzma.decompress(data).decode().split("\n")
