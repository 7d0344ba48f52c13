"""What an operator says of the box: `GPU: 8x H200 (~140 GB usable each)`, `SGLang version: 0.5.9`, `on two 4090s`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tools.host.parsers.page import Page
from transcripts.facts import Grade

_NOTE: Final = re.compile(
    r"\s*(?:[-*] +)?\W{0,2}"
    r"(gpus?|gpu type|cards?|accelerators?|hardware|model|model[ _-](?:path|name)|sglang|(?:sglang[ _-])?version)"
    r"\W{0,2}\s*[:=]\W{0,2}\s*(\S.*?)\s*$",
    re.I,
)
_VERSION: Final = re.compile(r"(?<![\d.])v?(\d+\.\d+\.\d+(?:\.?post\d+|rc\d+)?)(?![\w.]*\d)")
# The version that a sentence has the server run, and what makes of it another: one that was, one that is asked about.
_RUNS: Final = re.compile(
    r"\bsglang(?:[ -]?(?:version|release|image|build))?[ :@-]{1,2}(?:is )?"
    r"v?(?P<after>0\.\d+\.\d+(?:\.?post\d+|rc\d+)?)(?![\w.]*\d)"
    r"|\bv?(?P<before>0\.\d+\.\d+(?:\.?post\d+|rc\d+)?) of sglang\b",
    re.I,
)
_NOT_NOW: Final = re.compile(
    r"\b(?:upgrad|downgrad|updat|migrat|mov(?:e|ing)|switch|roll(?:ed|ing)? ?back|fix(?:ed|es)?\b|before\b|earlier"
    r"|former|previous|used to|since\b|until\b|older|newer|was\b|were\b|worked|works in|went|should|would|could|can\b"
    r"|if\b|instead|compar|need|requir|at least|plan)",
    re.I,
)
_ARRIVED: Final = re.compile(r"\b(?:upgraded|updated|moved|migrated|switched|went|after|since)\b.{0,40}? to $", re.I)
_COUNT: Final = re.compile(r"\b(\d+) ?[x×*] ?(?=[A-Z\d])", re.I)
_UNSAID: Final = re.compile(r"(?:not (?:stated|known|given|said)|unknown|unspecified|n/?a|none|tbd|-+|\?+)\W*", re.I)
# Names of GPUs as sentences have them, with how many: `four L40S`, `8x H200`, `2 RTX 4090`, `a single MI300X`.
_COUNTS: Final = {
    **dict.fromkeys(("a", "an", "one", "single"), 1),
    **dict.fromkeys(("two", "dual"), 2),
    **dict.fromkeys(("four", "quad"), 4),
    "three": 3,
    "six": 6,
    "eight": 8,
    "sixteen": 16,
}
_CARD: Final = re.compile(
    rf"(?<![\w/.-])(?:(?P<count>\d{{1,3}}) ?(?:[x×*] ?)?|(?P<word>{'|'.join(_COUNTS)})[ -])?"
    r"(?:nvidia |amd |instinct |radeon |geforce |tesla )*"
    r"(?P<name>rtx pro \d000|rtx a?\d000(?: ada)?|rtx ?\d0[5-9]0(?: ?ti)?|[345]0[6-9]0(?: ?ti)?|a10g?|a[348]0"
    r"|[av][18]00|a6000|l40?s?|t4|h20|[hb][1238]00|gh200|gb10|g?b[23]00|dgx spark|jetson (?:thor|orin)"
    r"|mi2[15]0x?|mi3[0-5][05]x?|r9700)s?(?![\w/]|[.-]\w)",
    re.I,
)
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


def read_version(page: Page, lines: Sequence[str]) -> None:
    """The one version that sentences say runs, as a claim; none of two, or of one that was or might be."""
    short = [(number, line) for number, line in enumerate(lines, 1) if len(line) <= 1000]
    sentences = [(number, part) for number, line in short for part in re.split(r"(?<=[.;!?])\s+", line)]
    named = [(number, part, found) for number, part in sentences if (found := _RUNS.search(part))]
    versions = {found["after"] or found["before"] for _, _, found in named}
    if len(versions) == 1 and all(_now(part, found) for _, part, found in named):
        page.add("version", versions.pop(), named[0][0], grade="claimed")


def _now(sentence: str, found: re.Match[str]) -> bool:
    """Whether a sentence has its version run: nothing else is compared with it, or it is where one has come to."""
    if _ARRIVED.search(sentence[: found.start()]):
        return True
    return len(set(_VERSION.findall(sentence))) == 1 and _NOT_NOW.search(sentence) is None


def read_prose(page: Page, lines: Sequence[str], grade: Grade) -> None:
    """The one kind of GPU that sentences name: `B300 recipe on our H20` names two, and decides nothing."""
    short = [(number, line) for number, line in enumerate(lines, 1) if len(line) <= 1000]
    named = [(number, found) for number, line in short for found in _CARD.finditer(line)]
    if len({re.sub(r"\W|rtx", "", found["name"].lower()) for _, found in named}) != 1:
        return
    number, found = next((one for one in named if one[1]["count"] or one[1]["word"]), named[0])
    page.add("gpu_name", found["name"], number, grade=grade)
    if count := int(found["count"] or 0) or _COUNTS.get((found["word"] or "").lower(), 0):
        page.add("gpu_count", count, number, grade=grade)
    if capability := _generation(found["name"]):
        page.add("compute_capability", capability, number, grade=grade)


def _gpus(page: Page, text: str, line: int) -> None:
    if _UNSAID.fullmatch(text):
        return
    name = _COUNT.sub("", text, count=1).strip() if _COUNT.match(text) else text
    if _UNSAID.fullmatch(name):
        return
    page.add("gpu_name", name, line)
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
