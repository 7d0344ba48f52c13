"""How secrets show themselves: by the name before them, by where they stand, by their own shape, and so in base64."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Final

from transcripts.redaction.found import Found, slug
from transcripts.redaction.names import named
from transcripts.redaction.places import placed
from transcripts.redaction.shapes import LONG_RUN, SHAPES, VENDORS

_BASE64_RUN: Final = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{24,}={0,2}")


def secrets(text: str, lower: str, start: int, end: int) -> Iterator[Found]:
    """Secrets by context and shape between two places of a text; `lower` is the text in lower case."""
    yield from named(text, lower, start, end)
    yield from placed(text, lower, start, end)
    for found in SHAPES.finditer(text, start, end):
        yield Found(*found.span("v"), f"secret:{_shape(found['v'])}", True)


def vendors(text: str) -> Iterator[Found]:
    """Tokens of vendors, in lines that hold a long run of letters and digits."""
    done = 0
    for run in LONG_RUN.finditer(text):
        if run.start() < done:
            continue
        start = max(done, text.rfind("\n", max(0, run.start() - 4_096), run.start()) + 1, run.start() - 4_096)
        done = text.find("\n", run.end())
        done = len(text) if done < 0 else done
        for found in VENDORS.finditer(text, start, done):
            yield Found(*found.span("v"), f"secret:{_shape(found['v'])}", True)


def encoded(text: str, start: int, end: int) -> Iterator[Found]:
    """base64 in whose plain text a secret shows itself."""
    for found in _BASE64_RUN.finditer(text, start, end):
        run = found.group().rstrip("=")
        try:
            plain = base64.b64decode(run + "=" * (-len(run) % 4), altchars=b"-_" if set("-_") & set(run) else None)
            inner = plain.decode()
        except ValueError:
            continue
        if next(secrets(inner, inner.lower(), 0, len(inner)), None) is not None:
            yield Found(*found.span(), "secret:encoded", False)


def _shape(value: str) -> str:
    """The vendor's prefix where one stands before a separator; a token without one would name its own beginning."""
    prefix = re.split(r"[-_.$]", value.lstrip("$"))[0]
    return f"{slug(prefix)}_key" if 0 < len(prefix) <= 8 else "vendor_key"
