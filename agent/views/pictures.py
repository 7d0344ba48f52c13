"""Pictures of the document as SVG text: memory of one GPU, load over time, host RAM. They load nothing.

Colours are classes, so that the page's style decides them for light and dark; every figure also stands in a table.
"""

from __future__ import annotations

from html import escape
from typing import Any, Final

Json = dict[str, Any]
WIDTH: Final = 640
_TONES: Final = ("a", "b", "c", "d", "e", "f")


def memory(document: Json) -> str:
    """One GPU as a stacked bar, step by step from its size to what is free; empty without figures."""
    steps = [step for step in document["memory"] if step["gib"] > 0 and step["name"] != "card"]
    if not steps:
        return ""
    whole = sum(step["gib"] for step in steps)
    tones = ["free" if step["name"] == "free" else _TONES[number % len(_TONES)] for number, step in enumerate(steps)]
    parts, x = [], 0.0
    for step, tone in zip(steps, tones, strict=True):
        width = step["gib"] / whole * WIDTH
        parts.append(
            f'<rect class="{tone}" x="{x:.1f}" y="8" width="{max(width, 0.5):.1f}" height="36">'
            f"<title>{escape(step['name'])}: {step['gib']:.2f} GiB</title></rect>"
        )
        x += width
    names = [(f"{step['name']} {step['gib']:.2f} GiB", tone) for step, tone in zip(steps, tones, strict=True)]
    height = 60 + 20 * ((len(steps) + 1) // 2)
    return _svg(f"Memory of one GPU, {whole:.1f} GiB in all", height, "".join(parts) + _legend(names, 60))


def host(document: Json) -> str:
    """Host RAM that each option would take, against the limit where one is known."""
    options = [option for option in document["options"] if option.get("host_gb")]
    if not options:
        return ""
    limits = [item["limit"] for item in document["arithmetic"] if item["name"].startswith("host") and item.get("limit")]
    limit = limits[0] if limits else 0.0
    top = max([limit, *(option["host_gb"] for option in options)]) * 1.05
    parts = []
    for number, option in enumerate(options):
        y = 8 + number * 30
        width = option["host_gb"] / top * (WIDTH - 230)
        tone = "a" if option.get("fits", True) else "bad"
        parts.append(
            f'<text x="0" y="{y + 15}">{escape(option["name"][:30])}</text>'
            f'<rect class="{tone}" x="220" y="{y}" width="{width:.1f}" height="20"/>'
            f'<text x="{226 + width:.1f}" y="{y + 15}">{option["host_gb"]:.1f} GB</text>'
        )
    height = 20 + 30 * len(options)
    if limit:
        x = 220 + limit / top * (WIDTH - 230)
        parts.append(f'<line class="limit" x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{height - 8}"/>')
        height += 14
        parts.append(f'<text x="{min(x, WIDTH - 130):.1f}" y="{height - 4}">limit {limit:.1f} GB</text>')
    return _svg("Host RAM that options would take", height, "".join(parts))


def load(document: Json) -> str:
    """Running, queued and usage over time, retractions marked; empty without a series."""
    points = document.get("series", [])
    if len(points) < 2:
        return ""
    span = max(point["seconds"] for point in points) or 1.0
    high = max(max(point["running"], point["queue"]) for point in points) or 1
    parts = [
        _curve("a", [(p["seconds"] / span, p["running"] / high) for p in points]),
        _curve("b", [(p["seconds"] / span, p["queue"] / high) for p in points]),
        _curve("c", [(p["seconds"] / span, p["usage"]) for p in points]),
    ]
    for mark in document.get("retraction_marks", []):
        x = mark / span * WIDTH
        parts.append(f'<line class="bad" x1="{x:.1f}" y1="4" x2="{x:.1f}" y2="164"/>')
    axis = f'<line class="axis" x1="0" y1="164" x2="{WIDTH}" y2="164"/>'
    names = [(f"running (to {high})", "a"), ("queued (same scale)", "b"), ("token usage (0 to 1)", "c")]
    return _svg(f"Load over {span / 60:.0f} minutes", 236, axis + "".join(parts) + _legend(names, 184))


def _curve(tone: str, points: list[tuple[float, float]]) -> str:
    path = " ".join(f"{x * WIDTH:.1f},{164 - min(y, 1.05) * 150:.1f}" for x, y in points)
    return f'<polyline class="line {tone}" points="{path}"/>'


def _legend(names: list[tuple[str, str]], top: int) -> str:
    parts = []
    for number, (name, tone) in enumerate(names):
        x, y = (number % 2) * WIDTH // 2, top + (number // 2) * 20
        parts.append(f'<rect class="{tone}" x="{x}" y="{y}" width="12" height="12"/>')
        parts.append(f'<text x="{x + 18}" y="{y + 11}">{escape(name)}</text>')
    return "".join(parts)


def _svg(title: str, height: int, body: str) -> str:
    return (
        f'<svg role="img" aria-label="{escape(title)}" viewBox="0 0 {WIDTH} {height}" '
        f'xmlns="http://www.w3.org/2000/svg"><title>{escape(title)}</title>{body}</svg>'
    )
