"""Writes the catalogues that ship: `python -m tests.tools.source.pack_released`, by hand, when a version is added."""

from __future__ import annotations

from pathlib import Path

import tools.source
from tests.tools.source.trees import tree
from tools.source.released import FILE, pack

SHIPPED = ("0.4.6", "0.4.10", "0.5.3", "0.5.6", "0.5.9", "0.5.12", "0.5.16", "0.5.23")

if __name__ == "__main__":
    content = pack(tree(version).catalogue() for version in SHIPPED)
    Path(tools.source.__file__).with_name(FILE).write_bytes(content)
