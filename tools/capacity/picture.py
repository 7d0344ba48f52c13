"""One GPU's memory before and after, as stacked bars: rows for a terminal and an SVG that needs nothing else.

Every bar is the whole card, so that lengths compare; what no line of the log accounts for is a part of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Final

from tools.capacity.gpu import GpuBudget
from tools.capacity.lever import Lever

# name, sign in the terminal, colour by day and by night
_PARTS: Final = (
    ("driver", "d", "#8a8f98", "#737a86"),
    ("weights", "W", "#3b6fb6", "#6b9be0"),
    ("KV pool", "K", "#2f8f5b", "#55bd84"),
    ("state", "S", "#7a5bb0", "#a68ad8"),
    ("draft, graphs, buffers", "g", "#c2792b", "#e0a35c"),
    ("unassigned", "?", "#b9a9a9", "#57494b"),
    ("free", ".", "#d9dde3", "#2e343d"),
)
_OF_STEP: Final = {
    "driver, context, communication": "driver",
    "weights": "weights",
    "KV pool": "KV pool",
    "padding page": "KV pool",
    "recurrent state": "state",
    "free": "free",
}
_RESERVE: Final = "draft, graphs, buffers"
_OVERFULL: Final = 1.05


@dataclass(frozen=True, slots=True)
class Bar:
    """A GPU: its label and GiB by part, in the order of stacking."""

    label: str
    parts: tuple[tuple[str, float], ...]

    @property
    def total_gib(self) -> float:
        return sum(gib for _, gib in self.parts)


def bars(budget: GpuBudget, now: Lever, levers: Sequence[Lever], first: str) -> tuple[Bar, ...]:
    """The GPU as it is, called `first`, and as each lever would leave it.

    Empty where the card is not known or is too small for it.
    """
    if len(budget.steps) < 2 or too_much_gib(budget):
        return ()
    card = budget.steps[0].gib
    sizes = {name: 0.0 for name, *_ in _PARTS}
    for step in budget.steps[1:]:
        sizes[_OF_STEP.get(step.name, _RESERVE)] += max(0.0, step.gib)
    found = [Bar(first, _stacked(sizes, card))]
    for lever in levers:
        after = dict(sizes)
        repeated = sum(entry.value for entry in lever.sums if entry.name == "attention_weights_repeated")
        after["KV pool"] += lever.pool_gib - now.pool_gib
        after["weights"] += repeated
        if lever.gpu_free_gib is not None and now.gpu_free_gib is not None:
            after["free"] = lever.gpu_free_gib
            after[_RESERVE] = 0.0
            after[_RESERVE] = max(0.0, card - sum(after.values()))
        found.append(Bar(lever.name, _stacked(after, card)))
    return tuple(found)


def too_much_gib(budget: GpuBudget) -> float:
    """What all parts would take where that is more than the card has beyond any rounding, else 0: a bar of it would
    show other sizes than the steps."""
    if not budget.steps:
        return 0.0
    taken = sum(max(0.0, step.gib) for step in budget.steps[1:])
    return taken if taken > _OVERFULL * budget.steps[0].gib else 0.0


def _stacked(sizes: dict[str, float], card: float) -> tuple[tuple[str, float], ...]:
    """The parts, filled up to the card; parts of more than the card are shown in their proportion."""
    parts = {name: max(0.0, sizes[name]) for name, *_ in _PARTS}
    taken = sum(parts.values())
    parts["unassigned"] += max(0.0, card - taken)
    scale = card / taken if taken > card * 1.001 else 1.0
    return tuple((name, gib * scale) for name, gib in parts.items())


def terminal(found: Sequence[Bar], width: int = 72) -> list[str]:
    """Rows of plain text: a bar a row, longer names above theirs, then what the signs stand for and the sizes now."""
    signs = {name: sign for name, sign, *_ in _PARTS}
    rows = []
    label = min(max((len(bar.label) for bar in found), default=0), width // 4)
    space = max(20, width - label - 3)
    for bar in found:
        cells = "".join(signs[name] * count for name, count in _cells(bar, space))
        if len(bar.label) > label:
            rows.append(bar.label)
        rows.append(f"{bar.label if len(bar.label) <= label else '':<{label}} |{cells}|")
    if found:
        legend = (f"{signs[name]} {name} {gib:.1f}" for name, gib in found[0].parts if gib >= 0.05)
        rows += wrap(
            f"GiB {found[0].label}: " + ", ".join(legend), width, subsequent_indent="  ", break_long_words=False
        )
    return rows


def _cells(bar: Bar, space: int) -> list[tuple[str, int]]:
    """Whole cells per part that add up to `space`; no part that is there vanishes."""
    total = bar.total_gib or 1.0
    exact = [(name, gib / total * space) for name, gib in bar.parts if gib > 0]
    counts = [max(1, int(share)) for _, share in exact]
    order = sorted(range(len(exact)), key=lambda index: exact[index][1] % 1, reverse=True)
    missing = space - sum(counts)
    for index in order[: max(0, missing)]:
        counts[index] += 1
    if missing < 0:
        counts[counts.index(max(counts))] += missing
    return [(name, count) for (name, _), count in zip(exact, counts, strict=True)]


def svg(found: Sequence[Bar], title: str = "Memory of one GPU") -> str:
    """A self-contained SVG, readable on light and dark ground, with every size as text."""
    if not found:
        return ""
    width, left, bar_height, gap = 980, 270, 30, 18
    top = 64
    height = top + len(found) * (bar_height + gap) + 50
    largest = max(bar.total_gib for bar in found) or 1.0
    scale = (width - left - 20) / largest
    light = "".join(f".p{index}{{fill:{day}}}" for index, (_, _, day, _) in enumerate(_PARTS))
    dark = "".join(f".p{index}{{fill:{night}}}" for index, (_, _, _, night) in enumerate(_PARTS))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(title, quote=True)}" font-family="system-ui, sans-serif" font-size="13">'
    )
    style = (
        f"<style>text{{fill:#1c2026}}.in{{fill:#ffffff}}.bg{{fill:#ffffff}}{light}@media (prefers-color-scheme: dark)"
        f"{{text{{fill:#e6e9ee}}.in{{fill:#14171c}}.bg{{fill:#14171c}}{dark}}}</style>"
    )
    lines = [
        head,
        style,
        f'<rect class="bg" width="{width}" height="{height}"/>',
        f'<text x="16" y="28" font-size="16" font-weight="600">{escape(title)}</text>',
    ]
    for row, bar in enumerate(found):
        y = top + row * (bar_height + gap)
        lines.append(f'<text x="{left - 10}" y="{y + 20}" text-anchor="end">{escape(_short_label(bar.label))}</text>')
        x = float(left)
        for index, (name, gib) in enumerate(bar.parts):
            if gib <= 0:
                continue
            wide = gib * scale
            lines.append(
                f'<rect class="p{index}" x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{bar_height}">'
                f"<title>{escape(name)}: {gib:.2f} GiB</title></rect>"
            )
            if wide > 44:
                inside = "" if name == "free" else ' class="in"'
                lines.append(f'<text{inside} x="{x + wide / 2:.1f}" y="{y + 20}" text-anchor="middle">{gib:.1f}</text>')
            x += wide
    x = float(left)
    y = height - 22
    for index, (name, *_rest) in enumerate(_PARTS):
        if not any(part == name and gib > 0 for bar in found for part, gib in bar.parts):
            continue
        lines.append(f'<rect class="p{index}" x="{x:.0f}" y="{y - 11}" width="12" height="12"/>')
        lines.append(f'<text x="{x + 17:.0f}" y="{y}">{escape(name)}</text>')
        x += 32 + 7.2 * len(name)
    lines.append(f'<text x="16" y="{y}">GiB</text></svg>')
    return "\n".join(lines) + "\n"


def _short_label(label: str) -> str:
    return label if len(label) <= 36 else label[:35] + "…"
