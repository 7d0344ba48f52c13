"""Pictures of the document as SVG text: memory of one GPU, load over time, host RAM. They load nothing.

Colours are classes, so that the page's style decides them for light and dark; every figure also stands as text.
"""

from __future__ import annotations

from html import escape
from typing import Any, Final

from agent.views.words import amount, defanged

Json = dict[str, Any]
WIDTH: Final = 640
SMALL_GIB: Final = 0.3
_TONES: Final = ("a", "b", "c", "d", "e", "f")


def memory(document: Json) -> str:
    """One GPU as a stacked bar, before and after the change, and a row for each part; empty without figures."""
    steps, later = document["memory"], document.get("memory_after", [])
    large = {step["name"] for step in (*steps, *later) if step["gib"] >= SMALL_GIB}
    before, after = _steps(steps, large), _steps(later, large)
    if not before:
        return ""
    whole = sum(before.values())
    tones = {name: "free" if name == "free" else _TONES[number % 6] for number, name in enumerate(before)}
    parts, y = [], 4
    for label, steps in (("before the change" if after else "now", before), ("after it (estimated)", after)):
        if steps:
            parts.append(f'<text x="0" y="{y + 12}">{label}</text>{_bar(steps, tones, whole, y + 18)}')
            y += 62
    return _figure(
        f"Memory of one GPU, {whole:.1f} GiB in all", y, "".join(parts), _parts(document, before, after, tones)
    )


def _parts(document: Json, before: dict[str, float], after: dict[str, float], tones: dict[str, str]) -> str:
    """The figures behind the bar, as a table that stays readable where the picture is small."""
    columns = ["part", "GiB", *(["GiB after"] if after else [])]
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    rows = []
    for name, gib in before.items():
        cells = [f'<td><span class="key {tones[name]}"></span> {_said(name)}</td><td>{gib:.2f}</td>']
        if after:
            moved = abs(after[name] - gib) >= 0.005
            cells.append(f"<td>{'<strong>' if moved else ''}{after[name]:.2f}{'</strong>' if moved else ''}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    note = f"<p>{told}</p>" if (told := _beside(document, bool(after))) else ""
    return f'<table class="parts"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>{note}'


def _steps(memory: list[Json], large: set[str]) -> dict[str, float]:
    """GiB by part; what is too small to be seen in one part."""
    steps: dict[str, float] = {}
    small = 0.0
    for step in memory:
        if step["name"] == "card":
            continue
        if step["name"] in large or step["name"] == "free":
            steps[step["name"]] = steps.get(step["name"], 0.0) + step["gib"]
        else:
            small += step["gib"]
    if small:
        free = steps.pop("free", None)
        steps["small parts"] = round(small, 2)
        if free is not None:
            steps["free"] = free
    return steps


def _beside(document: Json, moves: bool) -> str:
    """What the figures do not show of the change: tokens that take less room, or that nothing moves."""
    if any(change["flag"] == "--kv-cache-dtype" and "fp8" in str(change["to"]) for change in document["changes"]):
        return "After the change each GiB of the pool holds about twice the tokens."
    if moves or not document["changes"]:
        return ""
    return "The change moves none of these by 0.01 GiB, or by what cannot be summed beforehand."


def _bar(steps: dict[str, float], tones: dict[str, str], whole: float, y: int) -> str:
    parts, x = [], 0.0
    for name, gib in steps.items():
        width = gib / whole * WIDTH
        title = f"<title>{_said(name)}: {gib:.2f} GiB</title>"
        size = f'width="{max(width - 1, 0.5):.1f}" height="32"'
        parts.append(f'<rect class="{tones[name]}" x="{x:.1f}" y="{y}" {size}>{title}</rect>')
        if width > 8 * len(name):
            parts.append(f'<text class="on" x="{x + 6:.1f}" y="{y + 20}">{_said(name)}</text>')
        x += width
    return "".join(parts)


def host(document: Json) -> str:
    """Host RAM that each option would take, against the limit where one is known."""
    options = [option for option in document["options"] if option.get("host_gb")]
    if not options:
        return ""
    limits = [item["limit"] for item in document["arithmetic"] if item["name"] == "host_total" and item.get("limit")]
    limit = limits[0] if limits else 0.0
    top = max([limit, *(option["host_gb"] for option in options)]) * 1.15
    parts, y = [], 4
    for option in options:
        width = option["host_gb"] / top * WIDTH
        tone = "bad" if option.get("fits") is False else "a"
        fits = {True: "fits", False: "does not fit"}.get(option.get("fits", True), "not known to fit")
        parts.append(f'<text x="0" y="{y + 12}">{_said(option["name"])}: {amount(option["host_gb"])} GB, {fits}</text>')
        parts.append(f'<rect class="{tone}" x="0" y="{y + 18}" width="{width:.1f}" height="18"/>')
        y += 48
    if limit:
        x = limit / top * WIDTH
        parts.append(f'<line class="limit" x1="{x:.1f}" y1="16" x2="{x:.1f}" y2="{y}"/>')
        parts.append(f'<text x="{x:.1f}" y="{y + 14}" text-anchor="end">most that may be taken: {limit:.1f} GB</text>')
        y += 20
    return _figure("Host RAM that options would take, all ranks together", y + 4, "".join(parts))


def load(document: Json) -> str:
    """Running and queued requests over time, token usage below, retractions marked; empty without a series."""
    points = document.get("series", [])
    if len(points) < 2:
        return ""
    start, end = points[0]["seconds"], points[-1]["seconds"]
    span = (end - start) or 1.0
    limit = next((fact["value"] for fact in document["facts"] if fact["name"] == "running_limit"), None)
    high = max(max(point["running"], point["queue"]) for point in points) or 1
    top = max(high, limit or 0) if limit is None or limit <= 4 * high else high
    at = [(point["seconds"] - start) / span for point in points]
    parts = [_axes(24, 130, f"requests, 0 to {top}"), _axes(190, 110, "token usage, 0 to 1")]
    parts += [
        _curve("a", at, [point["running"] / top for point in points], 24, 130),
        _curve("b", at, [point["queue"] / top for point in points], 24, 130),
        _curve("c", at, [min(point["usage"], 1.0) for point in points], 190, 110),
    ]
    if limit is not None and limit <= top:
        y = 154 - limit / top * 130
        parts.append(f'<line class="limit" x1="0" y1="{y:.1f}" x2="{WIDTH}" y2="{y:.1f}"/>')
    marks = document.get("marks", [])
    for mark in marks:
        x = (mark["seconds"] - start) / span * WIDTH
        parts.append(f'<line class="mark" x1="{x:.1f}" y1="300" x2="{x:.1f}" y2="312"/>')
    first, last = str(points[0]["at"])[:19], str(points[-1]["at"])[:19]
    parts.append(f'<text class="dim" x="0" y="328">{_said(first)}</text>')
    parts.append(f'<text class="dim" x="{WIDTH}" y="328" text-anchor="end">{_said(last)}</text>')
    names = [("running", "a"), ("queued", "b"), ("token usage", "c")]
    names += [(f"running limit {amount(limit)}", "limit")] if limit is not None and limit <= top else []
    names += [(f"retractions ({len(marks)} moments)", "mark")] if marks else []
    keys = " ".join(
        f'<span class="keyed"><span class="key {tone}"></span> {_said(name)}</span>' for name, tone in names
    )
    return _figure(f"Load over {span / 60:.0f} minutes", 336, "".join(parts), f'<p class="legend">{keys}</p>')


def _axes(y: int, height: int, title: str) -> str:
    lines = "".join(
        f'<line class="axis" x1="0" y1="{y + height * part:.1f}" x2="{WIDTH}" y2="{y + height * part:.1f}"/>'
        for part in (0, 0.5, 1)
    )
    return f'<text class="dim" x="0" y="{y - 8}">{title}</text>{lines}'


def _curve(tone: str, at: list[float], values: list[float], y: int, height: int) -> str:
    """Steps, not slopes: a figure holds until the next line of the log."""
    path: list[str] = []
    for x, value in zip(at, values, strict=True):
        place = f"{y + height - min(value, 1.02) * height:.1f}"
        path.append(f"H{x * WIDTH:.1f}V{place}" if path else f"M{x * WIDTH:.1f} {place}")
    return f'<path class="line {tone}" d="{"".join(path)}"/>'


def _said(text: object) -> str:
    return escape(defanged(str(text)))


def _figure(title: str, height: float, body: str, below: str = "") -> str:
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg role="img" aria-label="{escape(title)}" '
        f'viewBox="0 0 {WIDTH} {height:g}">{body}</svg>{below}</figure>'
    )
