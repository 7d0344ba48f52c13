"""What prefill lines tell of reuse one by one: hits that end at whole steps, and equal prompts that find nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import gcd
from typing import Final

from tools.host.parsers.page import Page
from transcripts.facts import Grade

_LINE: Final = re.compile(r"Prefill batch.*?#new-seq: 1, #new-token: (\d+), #cached-token: (\d+)")
_LEAST_STEP: Final = 64  # tokens; smaller ones are pages
_REPEATED: Final = 2


def read(page: Page, lines: Sequence[str], grade: Grade) -> None:
    """Of lines with one new request: the greatest common step of hits, and how often an equal length found nothing."""
    hits: list[tuple[int, int]] = []
    missed: Counter[int] = Counter()
    last = 0
    for number, line in enumerate(lines, 1):
        found = _LINE.search(line) if "#new-seq: 1," in line else None
        if found is None:
            continue
        new, cached = int(found.group(1)), int(found.group(2))
        last = number
        if cached:
            hits.append((number, cached))
        elif new > _LEAST_STEP:
            missed[new] += 1
    if len(hits) >= _REPEATED:
        step = gcd(*(cached for _, cached in hits))
        if step >= _LEAST_STEP:
            page.add("cached_step_tokens", step, hits[-1][0], grade=grade)
    if missed:
        length, times = missed.most_common(1)[0]
        if times > _REPEATED:
            page.add("equal_prompts_missed", times, last, scope=str(length), grade=grade)
