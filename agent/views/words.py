"""Words that every view uses: figures, changes, references, and text that hides nothing. Nothing is drawn here."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Final

from transcripts.vocabulary import VOCABULARY

if TYPE_CHECKING:
    from transcripts.records import Reworded

Json = dict[str, Any]
REFERENCES_SHOWN: Final = 3
SHORT: Final = 100  # characters of what was said at length, where only what it was about matters
WORDING_SHOWN: Final = 24  # characters that tell which paragraph it is
REFERENCE: Final = re.compile(r"(?<![A-Za-z0-9])[ES]\d+(?::\d+)?(?![A-Za-z0-9])")
BRACKETED: Final = re.compile(r" ?\[((?:[ES]\d+(?::\d+)?)(?:, ?[ES]\d+(?::\d+)?)*)\]")
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_URL: Final = re.compile(r"\b([a-z][a-z0-9+.-]{1,15})://", re.IGNORECASE)
# `unit@1.service` is a unit of systemd, and has to be copied as it stands.
_BARE: Final = re.compile(
    r"\b(?:www\.(?=\w)|(?:mailto|javascript|vbscript):|(?:data|tel|xmpp|file):(?=\S))"
    r"|@(?=\w)(?![\w:.-]*\.(?:service|socket|timer|target|slice|scope|mount|path|device|swap)\b)",
    re.IGNORECASE,
)

VERDICTS: Final = {"supported": "holds", "contradicted": "does not hold", "untestable": "cannot be tested yet"}
FLAG: Final = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
GPU_WALL: Final = "GPU memory: "  # how the wall begins that a change brings nearer on the GPU
FILL_IN: Final = "it is left to the operator, who knows the place or the value"
_SHAPE: Final = "its name and the shape of its value are known, no source says more of it"
_CHECKED: Final = {
    "env": f"a variable of a library: {_SHAPE}",
    "container": f"an option of the container's engine: {_SHAPE}",
    "host": f"a setting of the host: {_SHAPE}",
    "upgrade": "newer than what runs, if that is known",
}
# Facts that tell how far users felt it, in words.
IMPACT: Final = {
    "running_p95": "requests running at once (95th percentile under load)",
    "queue_p95": "requests waiting (95th percentile under load)",
    "usage_p95": "share of the KV pool in use (95th percentile under load)",
    "retracted_requests": "running requests thrown back for lack of room",
    "cached_share": "share of prompt tokens that were still cached",
    "gen_throughput_p50": "tokens generated per second (median)",
    "restarts": "automatic restarts of the service",
    "oom_phase": "where GPU memory ran out",
}


def amount(value: object) -> str:
    """A figure as people read it: thousands apart, no false digits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.2f}" if abs(value) >= 1 else f"{value:.3f}".rstrip("0")


def measured(name: str, value: object, unit: str) -> tuple[str, str]:
    """What a fact is called and its value with its unit, as people read them; bytes in GiB."""
    called = name.replace("_", " ")
    if unit == "bytes" and isinstance(value, int | float):
        return called.removesuffix(" bytes"), f"{value / (1 << 30):,.1f} GiB"
    return called, f"{amount(value)} {unit}".rstrip()


def change_line(change: Json) -> str:
    """`set --max-running-requests: (not set) -> 72 requests`; a switch has no value, an upgrade may have no target."""
    before = "(not set)" if change["from"] is None else change["from"]
    without = {"set": "on", "remove": "(removed)", "upgrade": "a newer version"}
    after = without.get(change["do"], "?") if change["to"] is None else change["to"]
    return f"{change['do']} {change['flag']}: {before} -> {after} {change['unit'] or ''}".rstrip()


def change_told(change: Json) -> str:
    """The same as prose: `raise --mem-fraction-static from 0.88 to 0.89`."""
    before = "not set so far" if change["from"] is None else f"so far {change['from']}"
    if change["to"] is None:
        done = {"remove": f"remove {change['flag']}", "set": f"switch {change['flag']} on"}
        return f"{done.get(change['do']) or change['flag'] + ': a newer version'} ({before})"
    unit = "" if change["unit"] in (None, "", "fraction") else f" {change['unit']}"
    return f"{change['do']} {change['flag']} to {change['to']}{unit} ({before})"


def checked(change: Json) -> str:
    """What a change passed: `valid in 0.5.9 (srt/server_args.py:3145), its rules kept`; that nothing could check it."""
    if change.get("confirm_by") == FILL_IN:
        return "yours to fill in: nothing here checks what you give it"
    valid = change.get("valid")
    if not valid:
        return _CHECKED.get(change["kind"], "")
    at = f" ({valid['at']})" if valid["at"] else ""
    return f"valid in {valid['in']}{at}, its rules {valid['rules']}"


def option_typed(flag: str, value: object, *, gone: bool | None = None) -> str:
    """One option as it is typed: a switch without a value, one that is left out as `without --flag`."""
    if gone or (gone is None and value is None):
        return f"without {flag}"
    return flag if value is None or str(value).lower() in ("true", "on", "") else f"{flag} {value}"


def typed(changes: Iterable[Json], side: str = "to") -> str:
    """Flags and `VARIABLE=value` as they stand with a launch command after the changes, or before them: `from`."""
    words = []
    for change in changes:
        value = change[side]
        gone = value is None and (side == "from" or change["do"] == "remove")
        if change["kind"] == "env" and not gone:
            words.append(f"{change['flag']}={value}")
        else:
            words.append(option_typed(change["flag"], value, gone=gone))
    return ", ".join(words)


def visible(text: str) -> str:
    """Text in which nothing is hidden: control, bidirectional, zero-width and tag characters are written out."""
    return _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text.replace("\r\n", "\n"))


def columns(text: str) -> int:
    """How many columns of a terminal the text takes: wide characters two, combining ones none."""
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text
    )


def defanged(text: str) -> str:
    """Text that hides nothing and in which no viewer finds an address to link: `https[:]//`, `a[@]b`, `www[.]`."""
    shown = _URL.sub(lambda found: f"{found[1]}[:]//", visible(text))
    return _BARE.sub(lambda found: f"{found[0][:-1]}[{found[0][-1]}]", shown)


def references(text: str) -> list[str]:
    """The ids of evidence and citations that a text names in brackets, in order, each once."""
    return list(dict.fromkeys(ref.strip() for group in BRACKETED.findall(text) for ref in group.split(",")))


def without_references(text: str) -> str:
    """The text with its bracketed references taken out, for views that show them apart."""
    return BRACKETED.sub("", text)


_NAMED: Final = re.compile(r"\b([a-z][a-z0-9]*(?:_[a-z0-9]+)+) (-?\d[\d.,]*\b)(?: (\w+))?")


def plainly(text: str) -> str:
    """Names of facts with their values as people say them: `95th percentile of token usage: 0.98`."""

    def said(found: re.Match[str]) -> str:
        known = VOCABULARY.get(found[1])
        if known is None:
            return found[0]
        unit = "" if found[3] in (None, "fraction") else f" {found[3]}"
        return f"{re.split('[;:,]', known[1])[0]}: {found[2]}{unit}"

    return _NAMED.sub(said, text)


def with_sources(text: str, sources: Iterable[str]) -> str:
    """The text with the first few of its sources in brackets behind it."""
    named = [source for source in sources if source]
    return fewer(f"{without_references(text)} [{', '.join(named)}]") if named else fewer(text)


def fewer(text: str) -> str:
    """Long rows of references cut to the first few; the write-up has them all."""

    def shorter(found: re.Match[str]) -> str:
        named = [name.strip() for name in found[1].split(",")]
        more = len(named) - REFERENCES_SHOWN
        return f" [{', '.join(named[:REFERENCES_SHOWN])}{f' +{more}' if more > 0 else ''}]"

    return BRACKETED.sub(shorter, text)


def plural(count: int, thing: str) -> str:
    """`1 change`, `3 changes`."""
    return f"{count:,} {thing}" + ("" if count == 1 else "s")


def wording(record: Reworded) -> str:
    """What came of asking a model to word a write-up: how many paragraphs, and why the others stay as they are."""
    if record.failed:
        return f"the prose stays as it is: {record.failed}"
    left = [f"“{row.was[:WORDING_SHOWN]} …”: {row.refused}" for row in record.rows if row.refused]
    stay = f"; {plural(len(left), 'wording')} refused: {'; '.join(left)}" if left else ""
    return f"{plural(len(record.rows) - len(left), 'paragraph')} worded by {record.model}{stay}"


def listed(items: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)


def ended(text: str) -> str:
    """The text with a full stop, also behind a quotation that has no mark of its own at its end."""
    text = text.strip()
    mark = text[-2:-1] if text.endswith("”") else text[-1:]
    return text if mark in (".", "!", "?", "…", ":") or not text else f"{text}."


def in_short(text: str, characters: int = SHORT) -> str:
    """As many whole words of a text as there is room for, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= characters else shorten(line, characters, placeholder=" …")


def sentence(text: str) -> str:
    """The text with a capital and a full stop; what begins with a flag or a name in code stays as it is."""
    text = text.strip()
    if not text:
        return ""
    first = text.split(maxsplit=1)[0]
    if first.isalpha() and first.islower():
        text = text[0].upper() + text[1:]
    return text if text.endswith((".", "!", "?", "…", "”", ":")) else f"{text}."


def free_of_gpu(most: float, least: float | None) -> str:
    """GiB that stay free: one figure, or the two that it lies between."""
    return f"{most:.2f}" if least is None or most - least < 0.05 else f"{least:.2f} to {most:.2f}"
