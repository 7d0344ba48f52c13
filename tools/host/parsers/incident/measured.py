"""What operators measured: tables over time or load, figures in a row, and one thing compared with and without another.

A table or a row gives the first and the last value of a quantity; a comparison gives the speed with something as a
multiple of the speed without it. Nothing is judged: which way a quantity should go is for whoever reads the facts.
"""

# ruff: noqa: E501  (a pattern reads better on one line)
from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from tools.host.parsers.page import Page
from transcripts.facts import Grade

# Words for a quantity, as column heads or before figures; the first that fits counts.
_QUANTITIES: Final = tuple(
    (name, re.compile(pattern, re.I))
    for name, pattern in (
        ("hit_share", r"(?:hit|cached|reus\w+)[ _-]?(?:share|rate|ratio|%|pct|percent\w*)|hit ?%|hits? %|cache hits?\b|prefix hits?\b|cached tokens %"),
        ("evicted", r"evict\w*"),
        ("accept_len", r"accept(?:ance|ed)?[ _-]?len(?:gth)?\b|tokens accepted"),
        ("accept_share", r"accept(?:ance)?[ _-]?rate"),
        ("rss_gib", r"(?<![a-z])(?:vm)?(?:rss|res|resident(?: set| memory)?|anon(?:ymous)?(?: memory)?|working[ _]set(?:_bytes)?|process memory|container memory|memory\.current|pss)\b"),
        ("ttft", r"ttft|first token"),
        ("gpu_used", r"(?:gpu ?\d*|hbm|vram)(?: memory)? used(?: gi?b)?\b|used (?:gpu |vram|hbm)|memory\.used"),
        ("gpu_free", r"avail(?:able)?[ _]?mem\w*|free (?:gpu|vram|device) mem\w*|gpu mem\w* free"),
    )
)  # fmt: skip
_FIGURE: Final = re.compile(
    r"(?<![\w.:/-])(\d+(?:[.,]\d+)?(?:e\+?\d+)?) ?(%|percent|[kKmM]\b|(?:[GMT]i?B?|g|m|t)\b|ms\b|s\b)?"
)
_SCALE: Final = {"k": 1e3, "m": 1e6, "%": 0.01, "percent": 0.01, "ms": 1e-3, "s": 1.0}
_GIB: Final = {
    "t": 1024.0,
    "tb": 931.3,
    "tib": 1024.0,
    "g": 1.0,
    "gb": 0.9313,
    "gib": 1.0,
    "m": 1 / 1024,
    "mb": 1 / 1073.7,
    "mib": 1 / 1024,
}
_COLUMNS: Final = re.compile(r"\s{2,}|\t| ?\| ?|(?<=\w),\s*")
_CLOCK: Final = re.compile(r"\d{1,2}:\d\d(?::\d\d)?|\d{4}-\d\d-\d\d")
_SERVER: Final = re.compile(r"#running-req|mem usage=|elapsed=|available_gpu_mem=")  # lines that other parsers read


def read(page: Page, lines: Sequence[str], grade: Grade) -> None:
    """Series and comparisons of one text, by its lines."""
    for number, line in enumerate(lines, 1):
        if len(line) > 600 or _SERVER.search(line):
            continue
        if not _table(page, lines, number, grade):
            _row(page, line, number, grade)
        _comparison(page, line, number, grade)
    _processes(page, lines, grade)
    _load(page, lines, grade)


_PS_ROW: Final = re.compile(
    r"^\s*(?:\d+\s+)?(\d+(?:\.\d+)?) ?([GMT]i?B?|kB?)\b\s+(?:\S+\s+)?(sglang::\w+|python3?\b)", re.I
)


def _processes(page: Page, lines: Sequence[str], grade: Grade) -> None:
    """Rows of `ps` over time that show one process: its resident memory as a series."""
    rows: dict[str, list[tuple[int, float]]] = {}
    for number, line in enumerate(lines, 1):
        if len(line) < 200 and (found := _PS_ROW.match(line)):
            amount, unit, name = found.groups()
            gib = float(amount) / (1 << 20) if unit.lower().startswith("k") else _value("rss_gib", amount, unit)
            rows.setdefault(name, []).append((number, gib))
    for series in rows.values():
        if len(series) >= 3:
            _series(page, "rss_gib", series, grade)


def _value(quantity: str, amount: str, unit: str) -> float:
    number = float(amount.replace(",", ""))
    unit = unit.lower()
    if quantity == "rss_gib" or (quantity in ("gpu_free", "gpu_used") and unit):
        return round(number * _GIB.get(unit, 1.0), 4)
    if quantity in ("hit_share", "accept_share"):
        return round(number * 0.01, 4) if unit in ("%", "percent") or number > 1 else number
    return round(number * _SCALE.get(unit, 1.0), 6)


def _named(text: str) -> str:
    return next((name for name, pattern in _QUANTITIES if pattern.search(text)), "")


def _cells(line: str) -> list[str]:
    return [cell for cell in _COLUMNS.split(line.strip().strip("|")) if cell.strip(" -:")]


def _table(page: Page, lines: Sequence[str], number: int, grade: Grade) -> bool:
    """A head with two or more named columns and at least two rows of figures under it."""
    head = _cells(lines[number - 1])
    if len(head) < 2 or sum(1 for cell in head if re.search(r"\d{2,}", cell)) > 1:
        return False
    columns = {index: name for index, cell in enumerate(head) if (name := _named(cell))}
    if not columns:
        return False
    rows: list[tuple[int, list[str]]] = []
    for at in range(number + 1, min(number + 60, len(lines) + 1)):
        cells = _cells(lines[at - 1])
        if not cells and re.fullmatch(r"[\s|:+-]+", lines[at - 1]):
            continue
        if len(cells) != len(head) or not any(re.search(r"\d", cell) for cell in cells):
            break
        rows.append((at, cells))
    if len(rows) < 2:
        return False
    for index, name in columns.items():
        unit = "%" if "%" in head[index] else ""
        found = [
            (at, _value(name, figure.group(1), figure.group(2) or unit))
            for at, cells in rows
            if (figure := _FIGURE.search(cells[index]))
        ]
        _series(page, name, found, grade)
    return True


def _row(page: Page, line: str, number: int, grade: Grade) -> None:
    """Figures of one quantity in a sentence: `RES: 77g at start, 96g after 8 h`, `hit rate 0.91 -> 0.12`."""
    for name, pattern in _QUANTITIES:
        found = pattern.search(line)
        if found is None:
            continue
        end = min(
            (
                other.start()
                for each, other_pattern in _QUANTITIES
                if each != name and (other := other_pattern.search(line, found.end()))
            ),
            default=len(line),
        )
        values = _figures(name, line[found.end() : end])
        if len(values) >= 2:
            _series(page, name, [(number, value) for value in values], grade)


def _figures(name: str, text: str) -> list[float]:
    """Figures of the quantity's own kind: where some carry its unit, those that do not are counts or hours."""
    text = _CLOCK.sub(" ", text)
    found = [(each.group(1), (each.group(2) or "").lower()) for each in _FIGURE.finditer(text)]
    wanted = {
        "hit_share": ("%", "percent"),
        "accept_share": ("%", "percent"),
        "rss_gib": tuple(_GIB),
        "gpu_free": tuple(_GIB),
    }.get(name)
    if wanted is not None:
        if any(unit in wanted for _, unit in found):
            found = [(amount, unit) for amount, unit in found if unit in wanted]
        elif name in ("rss_gib", "gpu_free"):
            return []
        else:
            found = [(amount, unit) for amount, unit in found if "." in amount and float(amount) <= 1]
    elif name == "accept_len":
        found = [(amount, unit) for amount, unit in found if "." in amount and not unit]
    elif name == "evicted":
        found = [(amount, unit) for amount, unit in found if unit not in ("s", "%")]
    return [_value(name, amount, unit) for amount, unit in found]


def _series(page: Page, name: str, found: Sequence[tuple[int, float]], grade: Grade) -> None:
    if len(found) < 2:
        return
    page.add("series_first", found[0][1], found[0][0], scope=name, grade=grade)
    page.add("series_last", found[-1][1], found[-1][0], scope=name, grade=grade)
    steps = [later[1] - earlier[1] for earlier, later in pairwise(found)]
    page.add(
        "series_steady",
        all(step >= 0 for step in steps) or all(step <= 0 for step in steps),
        found[-1][0],
        scope=name,
        grade=grade,
    )


# ------------------------------------------------------------------------------------------- with and without
_SPEED: Final = re.compile(
    r"(\d[\d,]*(?:\.\d+)?) ?(tok(?:en)?s?(?:/s|ps| per second| a second|/sec)|t/s|tps|req(?:uest)?s?/s|it/s|ms\b|s(?:ec(?:onds)?)?\b|min(?:utes)?\b)?"
)
_ABOUT: Final = re.compile(
    r"tok\w*(?:/s| per second)|\btps\b|t/s|throughput|ttft|tpot|itl|latency|wall|duration|took|elapsed|took|seconds|first token|\d ?s\b|\bms\b|speed",
    re.I,
)
_SCORED: Final = re.compile(
    r"gsm-?8k|mmlu|gpqa|aime|humaneval|accuracy|\bscores?\b|\beval\w*|pass@|exact match|needle", re.I
)
_FASTER_IS_MORE: Final = re.compile(r"tok\w*(?:/s|ps| per| a)|\btps\b|t/s|throughput|req\w*/s|it/s|speed", re.I)
_WITHOUT: Final = re.compile(
    r"\bwithout\b|\bw/o\b|\boff\b|disabled|control|baseline|\bbefore\b|\bauto\b|\bbf16\b|bfloat16|\bfp16\b|\bno (?:hicache|cache|tier|host|l3|store|draft|spec\w*)\b|\bplain\b|\bnone\b|was\b|(?:re)?computed\b|recomput\w+|write_through_selective",
    re.I,
)
_WITH: Final = re.compile(r"\bwith\b(?! and\b)|\bon\b|enabled|\bafter\b|\bnow\b|fp8\w*|e4m3|e5m2|\bsince\b", re.I)
_SUBJECTS: Final = (
    ("kv_dtype", re.compile(r"fp8|e4m3|e5m2|kv[-_ ]cache[-_ ]dtype|bf16|bfloat16", re.I)),
    ("store", re.compile(r"\bl3\b|storage|\bstore\b|mooncake|nixl|hf3fs|3fs|disk|file backend|\bfile\b|nvme", re.I)),
    ("host_cache", re.compile(r"hicache|hierarchical|host (?:cache|tier|pool)|\bl2\b|ram cache", re.I)),
    ("draft", re.compile(r"\bspec\w*|draft|\bmtp\b|eagle", re.I)),
)
_BOTH: Final = re.compile(
    r"with(?:out)? (?:and|/|or) with(?:out)?[^\d]{0,60}?(\d[\d,.]*)\s*(?:/|vs\.?|against|and|,)\s*(\d[\d,.]*)|\bon ?/ ?off\b[^\d]{0,40}(\d[\d,.]*)\s*(?:/|vs\.?|,)\s*(\d[\d,.]*)",
    re.I,
)  # fmt: skip
_PARTS: Final = re.compile(
    r"\bvs\.?\b|\bversus\b|\bagainst\b|;|\binstead of\b|, (?=\D{0,40}\d)|\((?=[^)]*\d)|\band\b(?=[^.]*\d)|\bbut\b|->",
    re.I,
)


_POOL: Final = re.compile(r"max_total_num_tokens|\bkv pool\b|\btokens in the pool\b", re.I)


def _comparison(page: Page, line: str, number: int, grade: Grade) -> None:
    scored = _SCORED.search(line) is not None
    sized = not scored and _POOL.search(line) is not None
    if not scored and not sized and not _ABOUT.search(line):
        return
    subject = next((name for name, pattern in _SUBJECTS if pattern.search(line)), "")
    pair = _BOTH.search(line)
    if pair is not None:
        first, second = (float(group.replace(",", "").rstrip(".")) for group in pair.groups() if group)
        if pair.group(0).lower().startswith("without"):
            first, second = second, first
    else:
        found = _sides(line)
        if found is None:
            return
        first, second = found
    if not first or not second:
        return
    ratio = first / second if scored or sized or _FASTER_IS_MORE.search(line) else second / first
    name = "quality_ratio" if scored else "pool_ratio" if sized else "speed_ratio"
    page.add(name, round(ratio, 3), number, scope=subject, grade=grade)


def _sides(line: str) -> tuple[float, float] | None:
    """The figures with and without, where the line has just one side of each kind that holds a figure.

    Of one side's figures those with a unit of speed count, where it has any: the others are sizes and counts.
    """
    with_: list[tuple[float, bool]] = []
    without: list[tuple[float, bool]] = []
    for part in _PARTS.split(line):
        found = [
            (float(amount.replace(",", "")), bool(unit))
            for amount, unit in _SPEED.findall(
                re.sub(r"--[\w-]+|fp\d+\w*|bf16|e\dm\d|float\d+|bs ?\d+|batch \d+|[A-Za-z]+\d+", " ", part)
            )
        ]
        if any(unit for _, unit in found):
            found = [one for one in found if one[1]]
        if found:
            (without if _WITHOUT.search(part) else with_).append(found[-1])
    sides = []
    for side in (with_, without):
        measured = [one for one in side if one[1]] or side
        if len(measured) != 1:
            return None
        sides.append(measured[0][0])
    if not (_WITH.search(line) or _WITHOUT.search(line)):
        return None
    return sides[0], sides[1]


# ------------------------------------------------------------------------------------------------- what was sent
_CROWD: Final = re.compile(
    r"(\d[\d,]*) (?:open |active |parallel |distinct |concurrent |live )?(?:sessions?|conversations?|users?|agents?|chats?|documents?|prefixes|tenants?|threads)\b[^.;\n]{0,60}?(\d+(?:\.\d+)?) ?([kK]|thousand)\b(?:[- ]?tok\w*)?"
    r"|(?:sessions?|conversations?|users?|agents?|chats?|prefixes)[:= ]+(\d[\d,]*)[^.;\n]{0,40}?(\d+(?:\.\d+)?) ?([kK]|thousand)\b"
    r"|(\d[\d,]*) ?[x×*] ?(\d+(?:\.\d+)?) ?([kK]|thousand)\b(?: ?tok\w*)?"
)  # fmt: skip
_INPUT: Final = re.compile(r"#?(?:total )?(?:input|prompt) tokens?:? +([\d,]+)", re.I)
_OUTPUT: Final = re.compile(r"#?(?:total )?(?:generated|output|completion) tokens?:? +([\d,]+)", re.I)
_TIERS: Final = re.compile(
    r"\b(storage|host|device|l1|l2|l3|gpu|computed|recomputed)(?:[_ -]?(?:hits?|cached|loaded))?(?:[_ -]tokens?)?[:= ]+(\d[\d,]{2,}(?:\.\d+)?(?:e\+?\d+)?)\b",
    re.I,
)
_TIER_NAMES: Final = {"l1": "device", "gpu": "device", "l2": "host", "l3": "storage", "recomputed": "computed"}
_COUNTER: Final = re.compile(
    r"\b(?:sglang:)?((?:evicted|load_back|prefetched|backuped|cached|prompt|generation)_tokens_total)\b(?!\{)[^\d\n{]{0,12}(\d[\d,.]*(?:e\+?\d+)?)"
)


def _load(page: Page, lines: Sequence[str], grade: Grade) -> None:
    for number, line in enumerate(lines, 1):
        if len(line) > 2000:
            continue
        if found := _CROWD.search(line):
            count, each, _ = [group for group in found.groups() if group is not None]
            tokens = int(float(count.replace(",", "")) * float(each) * 1000)
            page.add("working_set_tokens", tokens, number, grade=grade)
        if found := _INPUT.search(line):
            page.add("bench_input_tokens", int(found.group(1).replace(",", "")), number, grade=grade)
        if found := _OUTPUT.search(line):
            page.add("bench_output_tokens", int(found.group(1).replace(",", "")), number, grade=grade)
        tiers = _TIERS.findall(line)
        if len({tier.lower() for tier, _ in tiers}) >= 2:
            for tier, amount in tiers:
                name = _TIER_NAMES.get(tier.lower(), tier.lower())
                page.add("tier_tokens", int(float(amount.replace(",", ""))), number, scope=name, grade=grade)
        if not line.startswith("sglang:"):  # whole metric lines are read by the metrics parser
            for name, amount in _COUNTER.findall(line):
                page.add("metric", int(float(amount.replace(",", "").rstrip("."))), number, scope=name, grade=grade)
