"""The redactor: finds what to mask, names it, puts the placeholder there; at once or as a stream.

Rules with a name or a shape run only over lines that hold one of a few literal triggers, which keeps long logs cheap.
A value found in its context is known from then on and masked wherever else it stands.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from transcripts.redaction import rules, share, views
from transcripts.redaction.found import Found, slug
from transcripts.redaction.known import Known
from transcripts.redaction.placeholders import PLACEHOLDER, Placeholders
from transcripts.redaction.places import PEM, kube_secrets
from transcripts.redaction.prompts import prompts
from transcripts.redaction.triggers import TRIGGER_FORMS, TRIGGERS

Profile = Literal["llm", "share"]

_HOLD_BACK: Final = 1_024
_STEP: Final = 65_536
_IN_VIEW: Final = 16_384  # as long as a list of keys is read
_LONGEST_LINE: Final = 1 << 20
_PASSES: Final = 4
_LOOKED_OVER_AGAIN: Final = 200_000
_SHORT: Final = 2_000
_REMEMBERED: Final = 5_000
_LEARNABLE: Final = re.compile(r"(?=.*\d)(?=.*[A-Za-z]).{10,400}", re.DOTALL)


def _encoded_triggers() -> tuple[str, ...]:
    """How telling words look in base64, at each offset."""
    words = ("TOKEN", "token", "_KEY=", "api_key", "api-key", "SECRET", "secret", "PASSW", "passw", "hf_", "Bearer")
    pieces: set[str] = set()
    for word in words:
        for offset in range(3):
            text = base64.b64encode(b"\0" * offset + word.encode()).decode()
            piece = text[-(-offset * 8 // 6) : (offset + len(word)) * 8 // 6]
            if len(piece) >= 4:
                pieces.add(piece)
    return tuple(sorted(pieces))


_ENCODED: Final = _encoded_triggers()


class Redactor:
    """Masks secrets and prompts ("llm"), and hosts, addresses and people too ("share").

    One redactor serves one session: the same value gets the same placeholder throughout.
    """

    def __init__(self, profile: Profile = "llm") -> None:
        self.profile: Profile = profile
        self._names = Placeholders()
        self._known = Known()
        self._done: dict[str, str] = {}
        self._done_knowing = 0

    def learn(self, value: str, label: str) -> None:
        """Make a value known, so that it is masked in any place and encoding. Values under 6 characters are not."""
        kind = label if label in {"host", "user", "bucket"} else f"secret:{slug(label)}"
        if self._known.add(value, kind):
            self._names.name(value, kind)

    def learn_from(self, text: str) -> None:
        """Make every secret known that a command line or unit holds, also one that looks like a common word."""
        for each in self._found(text, views.views_of(text)):
            if each.kind.startswith("secret"):
                self._known.add(text[each.start : each.end], each.kind)

    def redact(self, text: str) -> str:
        """The text with placeholders. Linear in its length; a second pass changes nothing.

        What is masked may lay bare the edge of something beside it: shorter texts are looked over until nothing moves.
        Records repeat their short texts, so these are looked over once for as long as nothing more becomes known.
        """
        if len(self._known) != self._done_knowing or len(self._done) > _REMEMBERED:
            self._done.clear()
            self._done_knowing = len(self._known)
        if text not in self._done:
            whole = self._looked_over(text)
            if len(text) > _SHORT or len(self._known) != self._done_knowing:
                return whole
            self._done[text] = whole
        return self._done[text]

    def _looked_over(self, text: str) -> str:
        for _ in range(_PASSES):
            spans = self._find(text)
            text = self._replace(text, spans)
            if not spans or len(text) > _LOOKED_OVER_AGAIN:
                break
        return text

    def stream(self) -> Stream:
        """A text that comes in pieces."""
        return Stream(self)

    def _found(self, text: str, plain: list[views.View]) -> list[Found]:
        """What shows itself by name, shape or place."""
        found = [
            Found(*match.span("v"), "secret:private_key", False)
            for match in PEM.finditer(text)
            if "PRIVATE KEY" in text
        ]
        found.extend(kube_secrets(text))
        lower = _lower(text)
        for start, end in _regions(text, lower, TRIGGERS, TRIGGER_FORMS):
            found.extend(rules.secrets(text, lower, start, end))
            found.extend(prompts(text, lower, start, end))
        found.extend(rules.vendors(text))
        found.extend(views.found(plain))
        for start, end in _regions(text, text, _ENCODED):
            found.extend(rules.encoded(text, start, end))
        if self.profile == "share":
            found.extend(share.identities(text))
        return found

    def _find(self, text: str) -> list[tuple[int, int, str]]:
        """Spans to mask with their placeholders, in order, without overlaps."""
        plain = views.views_of(text)
        found = self._found(text, plain)
        for each in found:
            value = text[each.start : each.end]
            if each.learn and len(value) >= 6 and (not each.kind.startswith("secret") or _LEARNABLE.fullmatch(value)):
                self._known.add(value, each.kind)
        spans = [(each.start, each.end, text[each.start : each.end], each.kind) for each in found]
        spans.extend(self._known.find(text))
        spans.extend(views.known(plain, self._known))
        return list(self._merge(text, spans))

    def _merge(self, text: str, spans: list[tuple[int, int, str, str]]) -> Iterator[tuple[int, int, str]]:
        taken = [match.span() for match in PLACEHOLDER.finditer(text)] if "«" in text else []
        low = high = 0
        value = kind = ""
        for start, end, inner, of in sorted(_outside(spans, taken), key=lambda span: (span[0], -span[1])):
            if start < high:
                if end > high:
                    high, value = end, text[low:end]
                continue
            if high:
                yield low, high, self._names.name(value, kind)
            low, high, value, kind = start, end, inner, of
        if high:
            yield low, high, self._names.name(value, kind)

    def _replace(self, text: str, spans: Iterable[tuple[int, int, str]]) -> str:
        parts: list[str] = []
        at = 0
        for start, end, name in spans:
            parts += (text[at:start], name)
            at = end
        parts.append(text[at:])
        whole = "".join(parts)
        return share.defang(whole) if self.profile == "share" else whole


class Stream:
    """`feed` gives what can no longer change, `finish` the rest. A secret cut anywhere between pieces is masked.

    What was given last stays in view: a list of keys may be longer than what is held back, and begin with its name.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._before = ""
        self._held: list[str] = []
        self._size = 0
        self._again = _STEP

    def feed(self, chunk: str) -> str:
        """Take a piece; the redacted text that is complete, often empty."""
        self._held.append(chunk)
        self._size += len(chunk)
        if self._size < self._again:
            return ""
        text = self._before + "".join(self._held)
        spans = self._redactor._find(text)
        cut = max(_cut(text, spans), len(self._before))
        ready = self._given(text, cut, spans)
        self._held = [text[cut:]]
        self._size = len(text) - cut
        self._again = max(_STEP, self._size * 2)
        self._before = text[text.rfind("\n", 0, max(0, cut - _IN_VIEW)) + 1 : cut][-2 * _IN_VIEW :]
        return ready

    def finish(self) -> str:
        """What was held back."""
        text = self._before + "".join(self._held)
        rest = self._given(text, len(text), self._redactor._find(text))
        self._before, self._held, self._size = "", [], 0
        return self._redactor.redact(rest)

    def _given(self, text: str, cut: int, spans: list[tuple[int, int, str]]) -> str:
        """The text between what was given before and the cut, with its placeholders."""
        low = len(self._before)
        inside = [(max(start, low) - low, end - low, name) for start, end, name in spans if low < end <= cut]
        return self._redactor._replace(text[low:cut], inside)


def _cut(text: str, spans: list[tuple[int, int, str]]) -> int:
    """The last place where the text may be parted: behind a line, outside every span, with enough held back."""
    limit = len(text) - _HOLD_BACK
    for opening in ("-----BEGIN ",):
        at = text.rfind(opening)
        if at >= 0 and "-----END " not in text[at:]:
            limit = min(limit, at)
    cut = text.rfind("\n", 0, max(0, limit)) + 1
    if cut == 0 and len(text) > _LONGEST_LINE:
        cut = max(text.rfind(" ", 0, limit), text.rfind(",", 0, limit)) + 1 or limit
    inside = next((span for span in spans if span[0] < cut < span[1]), None)
    while inside is not None:
        cut = text.rfind("\n", 0, inside[0]) + 1 if "\n" in text[: inside[0]] else inside[0]
        inside = next((span for span in spans if span[0] < cut < span[1]), None)
    return cut


def _outside(
    spans: Iterable[tuple[int, int, str, str]], taken: list[tuple[int, int]]
) -> Iterator[tuple[int, int, str, str]]:
    """Spans that do not touch a placeholder which stands there already."""
    if not taken:
        yield from spans
        return
    from bisect import bisect_left

    starts = [start for start, _ in taken]
    for span in spans:
        at = bisect_left(starts, span[1])
        if at == 0 or taken[at - 1][1] <= span[0]:
            yield span


def _regions(
    text: str, searched: str, triggers: tuple[str, ...], forms: tuple[re.Pattern[str], ...] = ()
) -> Iterator[tuple[int, int]]:
    """Runs of lines that hold a trigger, with the two lines behind each, in order and without overlaps."""
    first = text.find("\n")
    lines = {
        (0, len(text) if first < 0 else first)
    }  # a name at the very beginning has nothing before it to be found by
    for trigger in triggers:
        at = searched.find(trigger)
        while at >= 0:
            start = searched.rfind("\n", 0, at) + 1
            end = searched.find("\n", at + len(trigger))
            end = len(searched) if end < 0 else end
            lines.add((start, end))
            at = searched.find(trigger, end)
    for form in forms:
        hit = form.search(searched)
        while hit:
            start = searched.rfind("\n", 0, hit.start()) + 1
            end = searched.find("\n", hit.end())
            end = len(searched) if end < 0 else end
            lines.add((start, end))
            hit = form.search(searched, end)
    low, high = -1, -2
    for start, end in sorted(lines):
        if start <= high + 1:
            high = max(high, end)
            continue
        if low >= 0:
            yield low, _further(text, high, start)
        low, high = start, end
    if low >= 0:
        yield low, _further(text, high, len(text))


def _lower(text: str) -> str:
    """Lower case of the same length: the few letters that would grow stay as they are."""
    lower = text.lower()
    return (
        lower
        if len(lower) == len(text)
        else "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)
    )


def _further(text: str, end: int, limit: int) -> int:
    for _ in range(2):
        following = text.find("\n", end + 1)
        end = len(text) if following < 0 else following
    return min(end, limit) if limit > 0 else end
