"""What an operator notes of the box: `GPU: 8x H200 (~140 GB usable each)`, `Model: …`, `SGLang version: 0.5.9`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tools.host.parsers.page import Page

_NOTE: Final = re.compile(
    r"\s*(?:[-*] +)?\W{0,2}"
    r"(gpus?|gpu type|cards?|accelerators?|hardware|model|model[ _-](?:path|name)|sglang|(?:sglang[ _-])?version)"
    r"\W{0,2}\s*[:=]\W{0,2}\s*(\S.*?)\s*$",
    re.I,
)
_VERSION: Final = re.compile(r"(?<![\d.])v?(\d+\.\d+\.\d+(?:\.?post\d+|rc\d+)?)(?![\w.]*\d)")
_COUNT: Final = re.compile(r"\b(\d+) ?[x×*] ?(?=[A-Z])", re.I)
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?) ?G(?:i?B)?\b", re.I)
# Words for a GPU's generation and its compute capability, where the number itself is not given.
_GENERATIONS: Final = (
    (r"\bsm_?(\d\d)\b|\bsm_?(1\d\d)\b", ""),
    (r"ampere|\brtx ?30\d\d|\b30[6-9]0\b|\ba100|\ba800|\ba40\b|\ba10g?\b|\ba6000\b|\ba30\b", "8.0"),
    (r"\bt4\b|turing|\brtx ?20\d\d", "7.5"),
    (r"\bada\b|\bl40s?\b|\bl4\b|\b4090\b|\b40[6-8]0\b", "8.9"),
    (r"hopper|\bh100|\bh200|\bh20\b|\bh800|\bgh200", "9.0"),
    (r"\bb200|\bb300|\bgb200|\bgb300", "10.0"),
    (r"\brtx pro 6000|\b5090\b|\b50[6-8]0\b", "12.0"),
)


def noted(line: str) -> bool:
    """Whether a line is a note of the box and nothing else."""
    return _NOTE.match(line) is not None


def read(page: Page, lines: Sequence[str]) -> None:
    """Facts of one text. An unknown card gives no size; of two versions in one note the first counts."""
    for number, line in enumerate(lines, 1):
        found = _NOTE.match(line) if len(line) <= 400 else None
        if found is None:
            continue
        name, value = found.group(1).lower(), found.group(2)
        if name.startswith("model"):
            page.add("model_path", value, number)
        elif name.startswith(("sglang", "version")):
            if version := _VERSION.search(value):
                page.add("version", version.group(1), number)
        else:
            _gpus(page, value, number)


def _gpus(page: Page, text: str, line: int) -> None:
    page.add("gpu_name", text, line)
    if count := _COUNT.search(text):
        page.add("gpu_count", int(count.group(1)), line)
    if capability := _generation(text):
        page.add("compute_capability", capability, line, grade="derived")
    if size := _SIZE.search(text):
        page.add("gpu_total_gib", float(size.group(1)), line)


def _generation(text: str) -> str:
    for pattern, capability in _GENERATIONS:
        if found := re.search(pattern, text, re.IGNORECASE):
            digits = next((group for group in found.groups() if group), "") if not capability else ""
            return capability or f"{digits[:-1]}.{digits[-1]}"
    return ""
