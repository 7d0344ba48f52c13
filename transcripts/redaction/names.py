"""Secrets by the name before them: which names, and what may follow one.

Every pattern consumes what it looked at or fails at once, so that hostile text costs no more than its length. A pattern
names its secret `v`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from transcripts.redaction.found import Found, slug

_ANSI: Final = r"(?:\x1b\[[0-9;]*m)*"
_SECRET_NAME: Final = re.compile(
    r"(?:(?:.*[^a-z])?(?:api[_.-]?keys?|access[_-]?key(?:[_-]?id)?|identitytoken|secret[_-]?(?:access[_-]?)?keys?"
    r"|(?:admin|private|auth|signing"
    r"|master|account|encryption|storage|service|client|deploy"
    r"|webhook|(?:pre[_-]?)?shared|fernet|session|hmac|subscription|ssh|jwt|sas|app|application|consumer|bot|license|root|user)"
    r"[_-]?key(?:[_-]?id)?|api[_-]?secrets?|secrets?|passwd|passw(?:or)?ds?|passphrase|passcode|pwd|pw|psk|token|credentials?|x-amz-(?:signature|credential"
    r"|security-token)|connection[_-]?string|webhook[_-]?url)"
    r"|.*(?:secret|password|passwort|passwd|passphrase|apikey|accesskey|secretkey|authtoken|accesstoken|connectionstring)"
    r"|.*[_-](?:pass|pat|auth|pw)|auth"
    r"|(?:.*[^a-z])?(?:ssh|db|pg|ftp|sftp|smtp|imap|user|admin|root|mysql|redis|mongo|http|svn|ldap|bmc|ipmi|mail|proxy)pass)"
    r"(?:[_-](?:\d{1,3}|base|base64|b64|data|value|raw|plain|prod|production|staging|dev|test|live|old|new|primary|secondary"
    r"|main|backup))?"
)
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# An environment name in capitals may call anything a key: then the value must look like one.
_ENV_KEY: Final = re.compile(r"(?!.*PUBLIC)[A-Z][A-Z0-9_]*_KEY")
_LOOKS_RANDOM: Final = re.compile(r"(?=\D*\d)(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9+_.-][A-Za-z0-9+/=_.-]{15,}")
_CORES: Final = (
    "key",
    "secret",
    "pass",
    "pwd",
    "token",
    "credential",
    "_pat",
    "pw",
    "psk",
    "auth",
    "x-amz-sig",
    "string",
    "webhook",
)
_BEFORE: Final = re.compile(r"[A-Za-z0-9_.-]{1,60}\Z")
_AFTER: Final = re.compile(r"[A-Za-z0-9_-]{0,60}")
QUOTED: Final = r"(?P<q>\\*[\"'])(?P<v>.*?)(?:(?<!\\)(?P=q)|$)"
_NOT_NAMES: Final = re.compile(
    r"(?i)(?:eos|bos|pad|unk|sep|cls|mask|stop|start|end|image|audio"
    r"|video|vision|think|special|added|new|max|num|per|first|next|last"
    r"|last|draft|cached|prompt|completion|total|output|input|prefill"
    r"|decode|accept(?:ed)?|verify|swa|full|mamba|hit|out|each)[_-]?tokens?$"
    r"|^#?[_-]?tokens$|tokens$|key[_-]?value|^(?:load|import)_credential"
)
_NOT_VALUES: Final = re.compile(
    r"(?i)(?:is|was|for|the|none|null|nil|true|false|yes|no|on|off|undefined|unset|empty|required|optional|disabled"
    r"|enabled|redacted|expected|invalid|missing|unrecognized|ignored|deprecated|argument|not|cannot|must|requires"
    r"|str|string|int|bool|optional\[str\]|\*+|x{3,}|<[^>]{0,40}>|\[[^\]]{0,20}\]"
    r"|\$\{?[A-Za-z_]\w*\}?|\$\([^)]*\)|%[a-z]|-+|\.\.\.|)[.;,]?"
)
_NUMBER: Final = re.compile(r"-?\d{1,9}(?:\.\d+)?%?")
_MARKUP_QUOTE: Final = r"(?:&(?:quot|apos|#3[49]|#x2[27]);)?"
# Two colons stand before base64 in LDIF.
EQUALS: Final = rf"\\*[\"']?{_MARKUP_QUOTE}{_ANSI}[ \t]*(?:=>|:=|::|[:=])[ \t]*{_ANSI}{_MARKUP_QUOTE}"
# A line of a shell may go on below.
_BLANKS: Final = r"(?:[ \t]|\\\r?\n)+"
_BETWEEN: Final = rf"(?:=|{_BLANKS}|\0|\\0|[\"'],?\s*(?=[\"'])|[ \t]*\n[ \t]*-[ \t]+(?=[\"']))"

# What may follow a secret's name, tried in order from where the name ends.
# The type of a string may stand before it, as a call or as an annotation.
_STRING: Final = r"(?:Secret)?(?:[Ss]tr|String|[Bb]ytes)"
_TYPE: Final = rf"(?:{_STRING}\(|(?:Optional\[)?{_STRING}\]?(?: \| None)? = )?"
# The bracket of a subscript may close behind a quoted name.
_QUOTED_VALUE: Final = re.compile(rf"(?:\\*[\"']\])?{EQUALS}{_TYPE}[bru]?(?:\"\"(?=\")|''(?='))?{QUOTED}", re.MULTILINE)
_BLOCK_VALUE: Final = re.compile(r"[ \t]*:[ \t]*[|>][+-]?[ \t]*\n(?P<v>[ \t]+\S[^\n]*(?:\n[ \t]+\S[^\n]*)*)")
_BARE_VALUE: Final = re.compile(rf"{EQUALS}(?P<v>[^\s,;&)}}\]\"'«|>\\\0][^\s,;&)}}\]\"'«\\\0]{{0,8000}})")
_FLAG_QUOTED: Final = re.compile(rf"{_BETWEEN}(?!-){QUOTED}", re.MULTILINE)
# A line break ends a flag's name too: so the words of /proc/PID/cmdline come from a probe.
_FLAG_BARE: Final = re.compile(
    rf"{_ANSI}(?:=|{_BLANKS}|\n|\0|\\0){_ANSI}(?P<v>[^\s\0\x1b\"'«\\-][^\s\0\x1b\"'«\\]{{0,8000}})"
)
# One word a line: an argv as the kernel keeps it, or as a list of YAML.
_FLAG_BELOW: Final = re.compile(r"[ \t]*\r?\n[ \t]*(?:-[ \t]+)?(?P<v>[^\s\"'«-][^\s\"'«]*)[ \t]*(?=\r?\n|$)")
_CONTAINER: Final = re.compile(rf"{EQUALS}(?P<v>[\[{{(])")
_ITEM: Final = re.compile(
    r"(?P<q>\\*[\"'])(?P<v>[^\n]*?)(?<!\\)(?P=q)(?P<key>\s*:)?|(?P<mark>[\[\]{}()])|(?P<bare>[^\s\[\]{}()\"',:]+)(?P<named>\s*:)?"
)
_LIST_BELOW: Final = re.compile(r"[ \t]*:[ \t]*\r?\n(?P<v>(?:[ \t]*-[ \t]+[^\n]*(?:\n|$))+)")
_ENTRY_BELOW: Final = re.compile(r"^[ \t]*-[ \t]+[\"']?(?P<v>[^\s\"':][^\s\"':]*)[\"']?[ \t]*$", re.MULTILINE)
_LONGEST_CONTAINER: Final = 16_384
_IN_QUOTES: Final = {
    quote: re.compile(rf"=(?P<v>(?:\\.|[^{quote}\\\n])*)(?:{quote}|$)", re.MULTILINE) for quote in ('"', "'")
}


def named(text: str, lower: str, start: int, end: int) -> Iterator[Found]:
    """Values of names that hold secrets, between two places of a text; `lower` is the text in lower case."""
    covered = start
    for low, high in sorted(identifiers(text, lower, start, end, _CORES)):
        name = _HUMP.sub("_", text[low:high]).lower().lstrip("-.")
        if low < covered or text.startswith("://", low - 3):  # a user of a URL has its own rule
            continue
        sure = _SECRET_NAME.fullmatch(name) is not None
        if not sure and not _ENV_KEY.fullmatch(text, low, high):
            continue
        spans, done = _values(text, low, high, end)
        for span in spans:
            if not sure and not _LOOKS_RANDOM.fullmatch(text, *span):
                continue
            for secret in checked(text, name, span):
                done = max(done, secret.end)
                yield secret
        covered = max(covered, done)


def identifiers(text: str, lower: str, start: int, end: int, cores: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Where identifiers stand that hold one of the words."""
    seen: set[int] = set()
    for core in cores:
        at = lower.find(core, start, end)
        while at >= 0:
            before = _BEFORE.search(text, max(start, at - 60), at)
            after = _AFTER.match(text, at + len(core), end)
            low = before.start() if before else at
            high = after.end() if after else at + len(core)
            if text.startswith("\x1b[", low - 2):  # the end of a colour is no letter of the name
                low = min(high, max(low, text.find("m", low, high) + 1))
            if high not in seen:
                seen.add(high)
                yield low, high
            at = lower.find(core, max(high, at + 1), end)


def _values(text: str, low: int, high: int, end: int) -> tuple[list[tuple[int, int]], int]:
    """The values behind a name, one or those of a list or mapping; and up to where all was looked at."""
    limit = min(len(text), high + _LONGEST_CONTAINER)
    if found := _CONTAINER.match(text, high, end):
        return _contained(text, found.start("v"), limit)
    if found := _BLOCK_VALUE.match(text, high, limit):
        return [found.span("v")], found.end()
    if found := _LIST_BELOW.match(text, high, limit):
        return [item.span("v") for item in _ENTRY_BELOW.finditer(text, *found.span("v"))], found.end()
    span = _value(text, low, high, end)
    return [span] if span else [], 0


def _contained(text: str, start: int, limit: int) -> tuple[list[tuple[int, int]], int]:
    """Values between a bracket and the one that closes it; in a mapping not its keys. To the limit where none does."""
    depth = 0
    spans: list[tuple[int, int]] = []
    for found in _ITEM.finditer(text, start, limit):
        if mark := found["mark"]:
            depth += 1 if mark in "[{(" else -1
            if depth <= 0:
                return spans, found.end()
        elif found["v"] and not found["key"]:
            spans.append(found.span("v"))
        elif found["bare"] and not found["named"]:
            spans.append(found.span("bare"))
    return spans, limit


def _value(text: str, low: int, high: int, end: int) -> tuple[int, int] | None:
    """The value behind a name: its span."""
    if text.startswith("--", low):
        found = next(
            filter(None, (kind.match(text, high, end) for kind in (_FLAG_QUOTED, _FLAG_BARE, _FLAG_BELOW))), None
        )
        if found:
            return found.span("v")
    quote = text[low - 1] if low else ""
    if quote in _IN_QUOTES and text[low - 2 : low - 1] != "\\" and (found := _IN_QUOTES[quote].match(text, high, end)):
        return found.span("v")
    for pattern in (_QUOTED_VALUE, _BARE_VALUE):
        if found := pattern.match(text, high, end):
            return found.span("v")
    return None


def checked(text: str, name: str, span: tuple[int, int]) -> Iterator[Found]:
    low, high = span
    if low < high and _is_secret(name, text[low:high]):
        yield Found(low, high, f"secret:{slug(name)}", True)


def _is_secret(name: str, value: str) -> bool:
    if value.startswith("«") or _NOT_VALUES.fullmatch(value):
        return False
    lowered = name.lower()
    if value.isupper() and slug(value) == slug(lowered):  # as a usage message names what follows a flag
        return False
    if _NOT_NAMES.search(lowered):
        return False
    if not re.fullmatch(r"\d", value) and ("pass" in lowered or "pwd" in lowered or "secret" in lowered):
        return True
    return not _NUMBER.fullmatch(value) and not re.fullmatch(r"/[\w./-]+|<\|.*\|>|[#@]?\w{1,3}", value)
