"""The README's picture of a session: what `sglscout demo kv` prints first, drawn as it stands in a dark terminal.

python -m tests.screens        draws it anew
"""

from __future__ import annotations

import re
import tempfile
from html import escape
from pathlib import Path

from tests.program import ROOT, sglscout

PICTURE = ROOT / ".pictures" / "session.svg"
NAME = "kv"
ENDS = "Check"  # the first heading that is not drawn
WIDE, HIGH, LEFT, TOP = 8.4, 18, 16, 30
_ID = re.compile(r"ses_[0-9A-HJKMNP-TV-Z]{16}")
_LABEL = re.compile(r"^(\S[\w ]{1,9})(?= )")
_HEADINGS = ("Change", "Apply")


def without_ids(text: str) -> str:
    """Ids differ from run to run; what is shown of them is that they are ids."""
    return _ID.sub("ses_…", text)


def printed(out: str) -> list[str]:
    """The lines of a diagnosis up to where the picture ends."""
    lines = without_ids(out).splitlines()
    return [f"$ sglscout demo {NAME}", *lines[: lines.index(ENDS)]]


def drawn(lines: list[str]) -> str:
    """The lines as an SVG; nothing in it is loaded."""
    width, height = 80 * WIDE + 2 * LEFT, TOP + len(lines) * HIGH
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
        'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" fill="#e6edf3">'
        f"<title>What sglscout demo {NAME} prints</title>"
        f'<rect width="{width:.0f}" height="{height}" rx="6" fill="#0d1117"/>'
    )
    return "\n".join([head, *(_line(line, number) for number, line in enumerate(lines)), "</svg>\n"])


def _line(line: str, number: int) -> str:
    label = _LABEL.match(line) if line[10:11].strip() and len(line) > 10 else None
    bold = ' font-weight="bold"' if line in _HEADINGS else ""
    text = escape(line, quote=False)
    if label is not None and not line.startswith(("$", "systemctl", "install", "cat", "ExecStart")):
        text = f'<tspan fill="#79bbff">{label[1]}</tspan>{escape(line[len(label[1]) :], quote=False)}'
    return f'<text xml:space="preserve" x="{LEFT}" y="{TOP + number * HIGH}"{bold}>{text}</text>'


def shown(svg: str) -> list[str]:
    """The lines that a drawn picture shows."""
    from html import unescape

    return [unescape(re.sub(r"<[^>]+>", "", row)) for row in re.findall(r"<text [^>]*>(.*)</text>", svg)]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        PICTURE.write_text(drawn(printed(sglscout(Path(home), "demo", NAME).out)), encoding="utf-8")
