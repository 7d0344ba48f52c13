"""What single load lines tell that statistics over them do not: hits at whole steps, equal prompts, ranks, windows."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from math import gcd
from typing import Final

from tools.host.parsers.page import Page
from transcripts.facts import Grade

_PREFILL: Final = re.compile(
    r"(?:\b(DP\d+)\b.*?)?Prefill batch.*?#new-seq: (\d+), #new-token: (\d+), #cached-token: (\d+)"
)
_REPLICA: Final = re.compile(r"\s*([\w./-]+) *\|")  # `worker-1  | ` of several servers in one view
_BARE: Final = re.compile(r"#cached-token: (\d+)")  # all that was quoted of a line
_POOLS: Final = re.compile(r"#full token: (\d+).*?#swa token: (\d+)")
_LEAST_STEP: Final = 64  # tokens; smaller ones are pages
_REPEATED: Final = 2
_LONG: Final = 1024  # tokens of a prompt that a conversation has by its second turn
_CHUNK: Final = 1024  # tokens; the sizes that prompts are cut to are multiples of it
_FEW_LINES: Final = 40  # an excerpt; longer logs are measured by time


def read(page: Page, lines: Sequence[str], grade: Grade) -> None:
    """Facts of the load lines among these."""
    rows: list[tuple[int, str, int, int, int]] = []
    for number, line in enumerate(lines, 1):
        if "Prefill batch" in line and (found := _PREFILL.search(line)):
            rank, seqs, new, cached = found.groups()
            replica = _REPLICA.match(line)
            rows.append(
                (number, f"{replica[1] if replica else ''} {rank or ''}".strip(), int(seqs), int(new), int(cached))
            )
        elif "#swa token" in line and (pools := _POOLS.search(line)):
            full, window = int(pools.group(1)), int(pools.group(2))
            if window >= max(full, 8192):
                page.add("window_holds_all_tokens", window, number, grade=grade)
        elif line.startswith("#cached-token") and (bare := _BARE.fullmatch(line.strip())):
            rows.append((number, "", 1, 0, int(bare.group(1))))
    alone = [(number, new, cached) for number, _, seqs, new, cached in rows if seqs == 1]
    _steps(page, alone, grade)
    _equal(page, alone, grade)
    _ranks(page, rows, grade)
    _halves(page, rows, grade)


def _steps(page: Page, alone: Sequence[tuple[int, int, int]], grade: Grade) -> None:
    """The greatest common step of the hits of single requests."""
    hits = [(number, cached) for number, _, cached in alone if cached]
    if len(hits) >= _REPEATED and (step := gcd(*(cached for _, cached in hits))) >= _LEAST_STEP:
        page.add("cached_step_tokens", step, hits[-1][0], grade=grade)


def _equal(page: Page, alone: Sequence[tuple[int, int, int]], grade: Grade) -> None:
    """How often a request of one equal length found nothing; a whole chunk is a part of a longer one."""
    missed = Counter(new for _, new, cached in alone if not cached and new > _LEAST_STEP and new % _CHUNK)
    if missed:
        length, times = missed.most_common(1)[0]
        if times >= _REPEATED:
            page.add("equal_prompts_missed", times, alone[-1][0], scope=str(length), grade=grade)


def _ranks(page: Page, rows: Sequence[tuple[int, str, int, int, int]], grade: Grade) -> None:
    """Long prompts that found next to nothing on one rank or replica while another had a hit of about their size.

    A prompt that is cut into chunks shows its first chunk only: one length that comes again and again.
    """
    ranked = [(number, rank, new, cached) for number, rank, _, new, cached in rows if rank]
    if len({rank for _, rank, *_ in ranked}) < 2:
        return
    hits = sorted({cached for *_, cached in ranked if cached >= _LONG})
    lengths = Counter(new for _, _, new, _ in ranked)
    lost = [
        number
        for number, _, new, cached in ranked
        if hits
        and new >= _LONG
        and cached < 0.1 * new
        and (lengths[new] >= _REPEATED or ((at := bisect_right(hits, new)) and new < 2 * hits[at - 1]))
    ]
    if lost:
        page.add("missed_on_rank", len(lost), lost[-1], grade=grade)


def _halves(page: Page, rows: Sequence[tuple[int, str, int, int, int]], grade: Grade) -> None:
    """Of an excerpt, the share of cached tokens in its first and in its last half."""
    if not 2 * _REPEATED <= len(rows) <= _FEW_LINES:
        return
    half = len(rows) // 2
    for name, part in (("series_first", rows[:half]), ("series_last", rows[-half:])):
        cached, new = sum(row[4] for row in part), sum(row[3] for row in part)
        page.add(name, round(cached / max(cached + new, 1), 4), part[-1][0], scope="hit_share_of_lines", grade=grade)
