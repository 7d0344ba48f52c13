"""What a sentence says that has to stay: `--page-size was tuned`, `no fp8`, `no restart before 6am`."""

from __future__ import annotations

import re
from typing import Final

from tools import spoken
from tools.host.parsers.page import Page
from transcripts.facts import Grade

_CARE: Final = re.compile(
    r"\b(?:(?:fine-?|hand-?)?tuned|on purpose|deliberately|hand-?picked|bench ?marked"
    r"|(?:do not|don't|dont|must not|never|not to) (?:touch|change|alter|move)"
    r"|(?:leave|keep) .{0,40}(?:alone|as (?:it|they) (?:is|are))|no changes? (?:to|of)|(?:must|has to|should) stay"
    r"|nicht (?:an(?:fassen|rühren)|ändern|verändern)|(?:muss|soll) (?:so )?bleiben|bleibt (?:so|wie)|so lassen)\b",
    re.IGNORECASE,
)
_UNDONE: Final = re.compile(r"\b(?:not|never|n't|un-?)\s*(?:been |yet |really |fine-?|hand-?)*tuned\b", re.IGNORECASE)
_OPTION: Final = re.compile(r"--[a-z][a-z0-9-]+|(?<![\w/.-])[a-z]+(?:[-_][a-z0-9]+){1,}(?![\w/.-])", re.IGNORECASE)
_SENTENCE: Final = re.compile(r"[.;!?](?:\s|$)|\n")
_CLAUSE: Final = re.compile(r"[,.;!?:](?:\s|$)|\n|\b(?:but|aber)\b", re.IGNORECASE)
_WORDS: Final = frozenset({"fine-tuned", "hand-tuned", "hand-picked", "on-purpose", "do-not"})
# How a clause begins that tells what is wanted; a symptom begins with what shows it.
_WANTED: Final = (
    r"^\W*(?:(?:and|so|then|also|please|pls|bitte|sorry|okay|ok|well|we need|we want|i want|wir wollen|"
    r"(?:the )?\w+(?: team)? (?:says?|said|wants?))[\s:,]+)*"
)
_FEW: Final = r"(?:\W+\w+){0,3}?\W+"
# Nothing follows that would make a report of it: `no fp8 kernels found` is one.
_ALONE: Final = r"(?:\s+(?:kv|cache|please|bitte|for us|here|at all|ever|then|today|off-?load\w*))*\W*$"
_CANNOT: Final = (
    r"\b(?:can'?t|cannot|can not|must not|mustn't|may not|won'?t|will not|don'?t|do not|not (?:allowed|permitted) to|"
    r"(?:dürfen|können|wollen|möchten))"
)
_USED: Final = r"\b(?:accept|use|do|have|run|take|enable|pin|go with|want|allow|set|turn on|switch on|tolerate|afford)"
_GONE: Final = (
    r"\b(?:off the table|(?:no|not an?) option|out of the question|(?:not |un)(?:allowed|acceptable|wanted|permitted)|"
    r"forbidden|banned|a no-?go|verboten|tabu|nicht (?:erlaubt|gewünscht)|kommt nicht in frage|scheidet aus|"
    r"geht nicht)\b"
)
_QUALITY: Final = re.compile(
    r"\b(?:nothing|no change|not anything|nichts)\b.*\b(?:quality|accuracy|qualität)\b"
    r"|\b(?:no|without|kein\w*|ohne) (?:any )?(?:quality|accuracy|qualitäts?)[ -]?(?:loss|hit|drop|verlust\w*)"
    r"|\b(?:quality|accuracy|qualität) (?:must|has to|may) (?:not|stay)|\blossless only\b|\bnur verlustfrei\w*",
    re.IGNORECASE,
)
_LOSSY: Final = (spoken.KV_DTYPE, "--quantization")
_RESTARTED: Final = r"(?:re-?start\w*|re-?boot\w*|downtime|outage|neu ?start\w*|ausfall)"
_NO_RESTART: Final = re.compile(
    rf"(?:\b(?:no|kein\w*|never|i|we|ich|wir)\b|^\W*(?:please |bitte )?(?:do not|don't))[^,.;]{{0,24}}?\b{_RESTARTED}"
    r"\W*(?P<when>(?:before|until|till|during|vor|bis|während|today|tonight|heute|this week|now|jetzt)\b[^,.;!?]{0,24}"
    r"|(?:nicht )?before .{1,16}|$)",
    re.IGNORECASE,
)
_UNTIL: Final = {"vor": "before", "bis": "until", "heute": "today", "jetzt": "now", "während": "during"}
_NEGATED: Final = re.compile(
    r"\b(?:no|kein\w*|never|nie|not|nicht|can'?t|cannot|don'?t|mustn't|unable)\b", re.IGNORECASE
)


def read(page: Page, text: str, grade: Grade) -> None:
    """`tuned` facts, each with the option as its scope, and `no_restart` with until when."""
    for number, line in enumerate(text.splitlines(), 1):
        for flag in dict.fromkeys([*_with_care(line), *_ruled_out(line)]):
            page.add("tuned", True, number, scope=flag, grade=grade)
        for clause in _CLAUSE.split(line):
            held_off = _NO_RESTART.search(clause) if _NEGATED.search(clause) else None
            if held_off:
                first, _, rest = (held_off["when"].strip() or "at all").partition(" ")
                until = f"{_UNTIL.get(first.lower(), first)} {rest}".strip()
                page.add("no_restart", until, number, grade=grade)


def _with_care(line: str) -> list[str]:
    """Options that are to stay as they are: in a sentence by their flags, in a clause by what people call them."""
    found = []
    for sentence in _SENTENCE.split(line):
        if _CARE.search(sentence) and not _UNDONE.search(sentence):
            named = (option for option in _OPTION.findall(sentence) if option.lower() not in _WORDS)
            found += [f"--{option.lstrip('-').replace('_', '-').lower()}" for option in named]
    for clause in _CLAUSE.split(line):
        if (_CARE.search(clause) or _KEEP.search(clause)) and not _UNDONE.search(clause):
            found += [flag for flag in spoken.options_called(clause) if _is_told_apart(clause, flag)]
    return found


_KEEP: Final = re.compile(rf"{_WANTED}keep\b", re.IGNORECASE)


def _is_told_apart(clause: str, flag: str) -> bool:
    """Whether words name an option that no flag in the clause names already."""
    return not any(option.lstrip("-").replace("_", "-").lower() in flag for option in _OPTION.findall(clause))


def _ruled_out(line: str) -> list[str]:
    """Options that are not to be used; speculation is left out, for it runs where it is spoken of."""
    found = []
    for clause in _CLAUSE.split(line):
        for flag in spoken.options_called(clause):
            called = rf"(?:{spoken.CALLED[flag]})"
            ways = (
                rf"{_WANTED}(?:no|kein\w*){_FEW}?{called}\w*{_ALONE}",
                rf"{_CANNOT}(?:\W+\w+){{0,2}}?\W+{_USED}{_FEW}{called}",
                rf"{_CANNOT}{_FEW}{called}.*\b(?:nutzen|verwenden|nehmen|einsetzen)\b",
                rf"{called}\w*{_FEW}?{_GONE}",
            )
            if flag != spoken.SPECULATION and any(re.search(way, clause, re.IGNORECASE) for way in ways):
                found.append(flag)
        if _QUALITY.search(clause):
            found += _LOSSY
    return found
