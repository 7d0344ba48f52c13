"""Whether a paragraph as a model words it says what the paragraph said: the checks, in words why not. Pure.

A wording is taken when the same references stand in it, the same figures, flags, times, paths and quotations in the
same order, the same names, as many words that turn a sentence (not, likely, more, raise), nothing that a viewer could
take for markup, and mostly the words that were there. What cannot be told apart from an invention is refused: that
costs nothing, since the text it would have stood for is right as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from string import ascii_letters, digits
from typing import Final

from agent.views.words import references, without_references

LONGER: Final = 1.4  # a wording is no longer than this, in characters of the paragraph
SHORTER: Final = 0.5
NEW_WORDS: Final = 0.3  # of all words, at most
STEM: Final = 5
_PLAIN: Final = frozenset(f"{ascii_letters}{digits} .,;:()'-")
_WORD: Final = re.compile(r"“[^”]*”|[^\s“”]+")
_EDGES: Final = ".,;:!?()'\""
_COUNTED: Final = re.compile(
    r"(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)(?:-\w+)?|(?:thir|four|fif|six|seven|eigh|nine)teen"
    r"|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|zero|half|halve[sd]?|twice|thrice|percent"
    r"|(?:hundred|thousand|million|billion|dozen|third|quarter|double|triple)[sd]?"
)
# Words that turn what a sentence says, each group under one name.
_TURNS: Final = {
    name: re.compile(pattern)
    for name, pattern in {
        "not": r"not|no|never|none|nothing|nobody|nor|neither|cannot|without|\w+n't|hardly|fails?|failed|lacks?",
        "certain": r"nearly|almost|certain(?:ly)?|surely|definite(?:ly)?|proven|clear(?:ly)?|undoubtedly|confirmed",
        "likely": r"likely|probably|possibl[ey]|perhaps|maybe|may|might|could|seems?|appears?|estimated|about",
        "undecided": r"un(?:likely|certain|decided|known|confirmed|supported|clear)",
        "more": r"rais(?:e[sd]?|ing)|increas(?:e[sd]?|ing)|grow(?:s|n|ing)?|grew|more|above|over|larger?|high(?:er)?",
        "less": r"lower(?:s|ed|ing)?|decreas(?:e[sd]?|ing)|reduc(?:e[sd]?|ing)|less|fewer|below|under|small(?:er)?",
        "on": r"enabl(?:e[sd]?|ing)|switch(?:es|ed|ing)?|turn(?:s|ed|ing)?|add(?:s|ed|ing)?",
        "off": r"off|disabl(?:e[sd]?|ing)|remov(?:e[sd]?|ing)|drop(?:s|ped|ping)?|delet(?:e[sd]?|ing)",
        "before": r"before|until|earlier",
        "after": r"after(?:wards)?|since|later",
        "must": r"must|should|recommend(?:s|ed)?|requir(?:e[sd]?|ing)|always|only",
        "restart": r"restart(?:s|ed|ing)?|reboots?|kill(?:s|ed)?|stop(?:s|ped)?|crash(?:es|ed)?",
    }.items()
}


def refusal(was: str, sources: Iterable[str], text: str) -> str:
    """Why the wording is not taken, empty where it is. `sources` are the references of the paragraph."""
    named, said = references(text), without_references(text).strip()
    if set(named) != set(sources):
        return _differing("references", sorted(set(sources)), sorted(set(named)))
    strange = sorted(set(said) - _PLAIN - set(was))
    if strange:
        return f"characters that the paragraph does not have: {' '.join(ascii(each)[1:-1] for each in strange[:6])}"
    old, new = _words(was), _words(said)
    figures = [[word for word in words if _is_figure(word)] for words in (old, new)]
    if figures[0] != figures[1]:
        return _differing("figures, flags and quotations", *figures)
    names = [sorted(set(_names(each))) for each in (was, said)]
    if names[0] != names[1]:
        return _differing("names", *names)
    for name, pattern in _TURNS.items():
        before, after = _turning(pattern, old), _turning(pattern, new)
        if after != before:
            return f"words of the kind “{name}” stand {before} times in the paragraph, {after} times in the wording"
    if not SHORTER * len(was) <= len(said) <= LONGER * len(was):
        return f"{len(said)} characters in the place of {len(was)}"
    return _too_new(old, new)


def _words(text: str) -> list[str]:
    """Words without the marks around them; what is quoted is one word."""
    found = (word if word.startswith("“") else word.strip(_EDGES) for word in _WORD.findall(text))
    return [word for word in found if word]


def _is_figure(word: str) -> bool:
    """Figures, times, versions, flags, paths, addresses, ids, quotations: whatever is right to the letter or wrong."""
    return (
        any(letter.isdigit() or letter in "/\\_@=+%~<>|{}[]“#$&*`" for letter in word)
        or word.startswith("--")
        or any(mark in word for mark in ".:")
        or _COUNTED.fullmatch(word.lower()) is not None
    )


def _names(text: str) -> Iterator[str]:
    """Words with a capital that no beginning of a sentence gives them: Blackwell, GiB, HiCache, KV."""
    begins = True
    for raw in _WORD.findall(text):
        word = raw.strip(_EDGES)
        capitals = word[1:] if begins else word
        if any(letter.isupper() for letter in capitals) and not _is_figure(word):
            yield word
        begins = raw.endswith((".", "!", "?", ":", "”"))


def _turning(pattern: re.Pattern[str], words: Iterable[str]) -> int:
    return sum(pattern.fullmatch(word.lower()) is not None for word in words)


def _too_new(old: list[str], new: list[str]) -> str:
    known = {word.lower()[:STEM] for word in old}
    fresh = [word for word in new if len(word) > 3 and word.lower()[:STEM] not in known]
    if len(fresh) > NEW_WORDS * len(new):
        return f"{len(fresh)} of {len(new)} words are new: {', '.join(fresh[:6])}"
    return ""


def _differing(what: str, before: list[str], after: list[str]) -> str:
    lost = list((Counter(before) - Counter(after)).elements())
    come = list((Counter(after) - Counter(before)).elements())
    told = [f"{word}: {', '.join(each[:6])}" for word, each in (("lost", lost), ("new", come)) if each]
    return f"{what} differ ({'; '.join(told) or 'in their order'})"
