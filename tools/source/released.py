"""Catalogues of released versions that ship with the program, for sites with no package index: no help texts, no rules.

One compressed file, a catalogue a line. `tests/tools/source/pack_released.py` writes it.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable
from importlib import resources
from typing import Final

from tools.source.catalogue import FlagCatalogue, dump, load

FILE: Final = "released.json.xz"


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


def _lines() -> list[str]:
    data = resources.files(__package__).joinpath(FILE).read_bytes()
    return lzma.decompress(data).decode().split("\n")
