"""Sentences to terms: what each states, what is denied left out, lines of a log and frames left to other parsers."""

# ruff: noqa: E501  (a pattern reads better on one line)
from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tools.host.parsers.incident.containers import without_container_images
from tools.host.parsers.incident.denials import without_denied
from tools.host.parsers.incident.stacks import is_frame
from tools.host.parsers.incident.symptoms import box, cache, memory, serving, speed
from tools.host.parsers.lines import unwrap
from tools.host.parsers.page import Page
from transcripts.facts import Grade

_TERMS: Final = (*memory.TERMS, *speed.TERMS, *cache.TERMS, *serving.TERMS, *box.TERMS)
_PATTERNS: Final = tuple((term, re.compile(pattern)) for term, pattern in _TERMS)


def _unused(feature: str) -> re.Pattern[str]:
    """What says that a feature is not in use: `no hicache here`, `kein MTP`, `hicache is off`."""
    return re.compile(
        rf"(?:^|[,:(–-] ?|\b(?:and|with|there is|there's|we have|we've|wir haben|mit|und) )(?:no|kein\w*) (?:{feature})\b"
        rf"(?! (?:hits?|lines?|room|space|benefit|gain|error))"
        rf"|\b(?:(?:do|does|did)(?: not|n't)|not|never) (?:use|using|run|running|have)(?: any)? (?:{feature})\b"
        rf"|\b(?:{feature}) (?:is |was |are )?(?:off|disabled|not (?:on|used|enabled|in use))\b"
    )


_NOT: Final = (
    (
        "requests_wait",
        re.compile(
            r"nothing (?:is )?(?:queued|waiting)|no queue|#queue-req: 0\b|queue (?:is )?(?:empty|0\b|zero)|without (?:a )?queue"
        ),
    ),
    ("forgets_conversations", re.compile(r"no eviction|not evicted")),
    ("container_limit", re.compile(r"oomkilled[\"'` ]*(?:[:=]|is|says|shows|was)?[\"'` ]*(?:false|no\b)")),
    ("after_eviction", re.compile(r"no eviction|nothing is being evicted")),
    ("cache_full", re.compile(r"nowhere near full|not (?:nearly )?full|third full|half full|quarter full")),
    ("creeps", re.compile(r"\bhost\b|\brss\b|resident|\bram\b")),
    (
        "gpu_memory_out",
        re.compile(
            r"oom[- ]?kill|decode out[- ]of[- ]memory (?:warning|happened)|titled|\bhost\b|\brss\b|resident|\bram\b"
        ),
    ),
    (
        "host_memory_short",
        re.compile(r"host (?:pool|cache)\b(?!.{0,40}(?:kill|out of memory|oom))|\b(?:half|third|quarter) full"),
    ),
    (
        "serves_then_fails",
        re.compile(r"(?:before|without|until|no|not even) (?:the |a |my )?(?:first|single|any) request"),
    ),
    ("hangs", re.compile(r"no crash, it just sits there in graph")),
    ("host_cache", _unused(r"hi-?cache|hierarchical cach\w*|host[- ](?:cache|tier|pool)|l2|kv offload\w*")),
    ("draft_on", _unused(r"draft(?: model)?|mtp|eagle3?|nextn|spec(?:ulative|ulation)?(?: decod\w*)?")),
    ("storage_tier", _unused(r"l3|mooncake|storage backend|nixl|external store")),
    ("lmcache", _unused(r"lmcache")),
    ("dp_attention", _unused(r"dp[- ]attention")),
    (
        "shm",
        re.compile(r"shm[-_]size[\"']?\s*[:= ]\s*[\"']?(?:\d+(?:\.\d+)?\s*[gt]|\d{4,}\s*m|\d{10,})"),
    ),  # it is given
)
_EXCEPT: Final = dict(_NOT)
_SENTENCE: Final = re.compile(r"(?<=[.!?;])\s+|\n")
_PREFIX: Final = (
    r"(?:[\w./-]+ *\| *|\S+ std(?:out|err) [fp] |\w{3} [ \d]?\d [\d:]{8} \S+ \S+: )?"  # of who kept the log
)
_LOG_LINE: Final = re.compile(
    rf"^{_PREFIX}(?:\[\d{{4}}-\d\d-\d\d|sglang[:_]\w+[{{ ]|capture (?:\w+ )*graph (?:begin|end)\b|load weight (?:begin|end)\b"
    r"|memory pool end\.|kv cache is allocated\.)|(?:prefill|decode) batch\b.*#|#(?:full |swa )?token: "
)
# What PyTorch says of every failed allocation: its figures are facts of their own, its words are no complaint.
_TORCH_SAYS: Final = re.compile(
    r"^(?:including non-pytorch memory, this process has\b|of the allocated memory\b.*by pytorch|if reserved but unallocated memory is large\b)"
)
_LONGEST_SENTENCE = 600


_ONES: Final = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS: Final = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SPELT: Final = re.compile(
    rf"\b(?:({'|'.join(_TENS)})(?:[- ]({'|'.join(_ONES[:9])}))?|({'|'.join(_ONES)}))(?: per ?cent| %)"
)


def _percents(sentence: str) -> str:
    """`ninety two percent` as `92 %`."""

    def figure(found: re.Match[str]) -> str:
        tens, ones, alone = found.groups()
        number = (_TENS.index(tens) + 2) * 10 if tens else 0
        number += _ONES.index(ones or alone) + 1 if ones or alone else 0
        return f"{number} %"

    return _SPELT.sub(figure, sentence)


# Output of a model that repeats one word or sign: `of of of of`, `// // // //`, `!!!!!!!!`.
_REPEATS: Final = re.compile(r"(?<![\w/])([a-z]{2,}|[/!?.,*#<>]{1,3})(?: \1){3,}(?![\w-])|(?<!!)!{6,}")
# `no 'Retract' and no 'leak' in the log`: what was looked for and is not there.
_DENIED: Final = re.compile(
    r"\b(?:no|zero|0|without(?: any)?|not a single|never an?y?)(?: of)? ['\"`]?[\w #-]{2,30}['\"`]?(?:,? (?:and|or|nor) (?:no )?['\"`]?[\w #-]{2,30}['\"`]?)*"
    r" (?:lines? |messages? |warnings? |errors? )?(?:in (?:the |our |any )?(?:\w+ )?(?:logs?|journal|output|dmesg|kernel log)|anywhere|(?:was|were|is|are) (?:seen|printed|logged|found))"
)


def _without_denials(sentence: str) -> str:
    return without_denied(_DENIED.sub(" ", sentence))


def read(page: Page, text: str, grade: Grade) -> None:
    """Every term that a sentence of the text states, with its line; none of a line that a server stamped."""
    stamped = {number for number, row in enumerate(text.split("\n"), 1) if unwrap(number, row).at}
    for line, sentence in _sentences(text):
        if line in stamped:  # what a server prints is read by its messages: no word of it is the operator's
            continue
        low = without_container_images(" ".join(sentence.lower().split())[:_LONGEST_SENTENCE])
        low = _without_denials(_percents(low))
        if len(low) > 3 and not (_LOG_LINE.search(low) or _TORCH_SAYS.search(low) or is_frame(sentence)):
            if _REPEATS.search(low):
                page.add("symptom", True, line, scope="repeats_token", grade=grade)
                page.add("symptom", True, line, scope="garbled_output", grade=grade)
            for term, pattern in _PATTERNS:
                if pattern.search(low) and not (term in _EXCEPT and _EXCEPT[term].search(low)):
                    page.add("symptom", True, line, scope=term, grade=grade)


def _sentences(text: str) -> Iterator[tuple[int, str]]:
    """Each sentence with the number of the line that it begins on; a line ends one."""
    line, start = 1, 0
    for gap in _SENTENCE.finditer(text):
        yield line, text[start : gap.start()]
        line += text.count("\n", start, gap.end())
        start = gap.end()
    yield line, text[start:]
