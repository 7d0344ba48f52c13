"""Options, memory and sums as a terminal shows them: the rows that matter after a diagnosis, all of them when asked.

`whole` is what `/options` and `show --document` print; without it a row that is left out is counted, and where it
stands is said.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from agent.views.layout import Line, columned, item, paragraph
from agent.views.words import amount, free_of_gpu, listed, plural, with_sources

Json = dict[str, Any]
OPTIONS_SHOWN: Final = 8
SUMS_SHOWN: Final = 4
_MARKS: Final = {"observed": "o", "derived": "d", "estimated": "e", "claimed": "c"}
SMALL_GIB: Final = 0.1
SMALL_GIB_IN_SHORT: Final = 0.5


def options(document: Json, width: int, *, whole: bool) -> list[Line]:
    """The options side by side; what each risks, and what the source tells of others, under the table."""
    measured = [option for option in document["options"] if option.get("running_factor") is not None]
    shown = sorted(measured, key=lambda option: (bool(option.get("combined")), not option.get("answers")))
    shown = shown if whole else [option for option in shown if not option.get("combined")][:OPTIONS_SHOWN]
    rows = [
        [
            option["name"],
            f"{option['running_factor']:.2f}x",
            amount(option["running"]) if option.get("running") else "",
            amount(option["prefix_tokens"]) if option.get("prefix_tokens") else "",
            amount(option["host_gb"]) if option.get("host_gb") else "",
            "does not fit" if option.get("fits") is False else ("restart" if option.get("restart") else "nothing"),
        ]
        for option in shown
    ]
    names = ["option", "GPU pool", "running", "prefix tokens", "host GB", "takes"]
    lines = columned(names, rows, width, indent=2, right=[False, True, True, True, True, False]) if rows else []
    if len(measured) > len(shown):
        left = f"and {plural(len(measured) - len(shown), 'more option')}; all of them, and what each risks:"
        lines += [*paragraph(left, width, 2), Line(f"  sglscout show {document['ids']['session']} --document")]
    if whole:
        for owners, said in _risks(shown):
            lines += item(f"{owners}: {said}", width)
        for title, told in _further(shown):
            lines += paragraph(title, width, 2)
            for said, owners in told:
                lines += item(f"{said}: {owners}", width)
    for text in told_options(document["options"], version=document["target"]["version"], whole=whole):
        lines += item(text, width)
    for text in document["contradictions"]:
        lines += item(f"findings disagree: {text}", width)
    return lines


def against(option: Json) -> list[str]:
    """What is said against an option, piece by piece: the limit it runs into, then its risks."""
    return [piece for text in (option.get("why_not"), option.get("risk")) if text for piece in text.split("; ")]


def felt(option: Json, when: str) -> str:
    """Time to the `first_token`, or between tokens in `decode`, in words; documents of before say nothing of it."""
    if option["name"] == "now":
        return "as now"
    return "as its parts together" if option.get("combined") else option.get(when) or "not known"


def gpu_memory(option: Json) -> str:
    """GiB of a GPU: what the pool takes, and what stays free with it."""
    pool, free = option.get("gpu_pool_gib"), option.get("gpu_free_gib")
    if pool is None or free is None:
        return "" if pool is None else f"pool {pool:.2f}"
    least = option.get("gpu_free_least_gib", free)
    return f"pool {pool:.2f}, free {free_of_gpu(free, least)}"


def _further(options: list[Json]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The measures that are words, each with the options that share it; of combinations their parts tell."""
    alone = [option for option in options if not option.get("combined")]
    changed = [option for option in alone if option.get("changes")]
    told = (
        ("GiB of a GPU:", [(gpu_memory(option), option["name"]) for option in alone]),
        ("Time to the first token:", [(felt(option, "first_token"), option["name"]) for option in changed]),
        ("Time of each token after it:", [(felt(option, "decode"), option["name"]) for option in changed]),
        ("How sure the sums are:", [(str(option.get("grade", "")), option["name"]) for option in alone]),
        ("Maturity:", [(str(option.get("maturity", "")), option["name"]) for option in changed]),
        (
            "What would rank it otherwise:",
            [(str(option.get("would_change", "")), option["name"]) for option in changed],
        ),
    )
    return [(title, rows) for title, pairs in told if (rows := _shared(pairs))]


def _shared(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    owners: dict[str, list[str]] = {}
    for said, name in pairs:
        if said:
            owners.setdefault(said, []).append(name)
    return [(said, "; ".join(_together(names))) for said, names in owners.items()]


def _risks(options: list[Json]) -> list[tuple[str, str]]:
    """What each option risks or runs into: what several share said once, what a combination shares said of its part."""
    owners: dict[str, list[Json]] = {}
    for option in options:
        for piece in against(option):
            owners.setdefault(piece, []).append(option)
    said: dict[str, list[str]] = {}
    for piece, rows in owners.items():
        alone = [row["name"] for row in rows if not row.get("combined")]
        said.setdefault("; ".join(_together(alone or [row["name"] for row in rows])), []).append(piece)
    return [(names, "; ".join(pieces)) for names, pieces in said.items()]


def _together(names: list[str]) -> list[str]:
    """`DP attention, dp 2`, `… dp 4` as `DP attention, dp 2, dp 4`."""
    groups: dict[str, list[str]] = {}
    for name in names:
        family, _, member = name.partition(", ")
        groups.setdefault(family, []).append(member)
    return [", ".join([family, *filter(None, members)]) for family, members in groups.items()]


def told_options(options: Iterable[Json], *, version: str = "", whole: bool = True) -> list[str]:
    """Options that only the source tells of, a line each; flags that only tune another option in one line."""
    told = [option for option in options if option.get("running_factor") is None and option.get("does")]
    tuning = [option["name"] for option in told if "hicache" in option["name"]]
    lines = []
    for option in told:
        if option["name"] not in tuning:
            limits = (option.get("risk") or "").split("; ")
            said = [option["does"], *filter(None, limits if whole else limits[-1:])]
            lines.append(f"{option['name']}: {'; '.join(said)}")
    look = "sglscout flags hicache" + (f" --version {version}" if version else "")
    told_of = ", ".join(tuning) if whole else f"{len(tuning)}, see {look}"
    return [*lines, f"flags that tune HiCache: {told_of}"] if tuning else lines


def memory(document: Json, width: int, *, whole: bool) -> list[Line]:
    """The steps from the card to what is free; those too small to matter in one row."""
    if not document["memory"]:
        return []
    small_gib = SMALL_GIB if whole else SMALL_GIB_IN_SHORT
    steps = document["memory"]
    large = [step for step in steps if step["gib"] >= small_gib or step is steps[-1]]
    small = [step for step in steps if step not in large]
    rows: list[list[str]] = []
    told: set[str] = set()
    for step in large:
        why = "as above" if step["why_not_spare"] in told else step["why_not_spare"]
        told.add(step["why_not_spare"])
        rows.append(
            [
                step["name"],
                f"{step['gib']:.2f} {_MARKS.get(step['grade'], step['grade'])}",
                with_sources(why, [step["source"]]),
            ]
        )
    if small:
        names = [step["name"] for step in small]
        of = listed(names) if whole else f"{plural(len(small), 'step')} under {small_gib:g} GiB each"
        rows.insert(-1, ["small parts", f"{sum(step['gib'] for step in small):.2f} d", of])
    lines = columned(["one GPU", "GiB", "why it is not spare"], rows, width, indent=2, right=[False, True, False])
    return [*lines, *paragraph("o observed, d derived from what was observed, e estimated", width, 2, style="dim")]


def arithmetic(document: Json, width: int, *, whole: bool) -> list[Line]:
    """A sum a line: name = formula = value, inputs, where they stand. Those of the change first, if it has any."""
    rows = document["arithmetic"]
    if not whole:
        chosen = [row for row in rows if row.get("for_change") or row["name"] == "host_total"]
        rows = (chosen if any(row.get("for_change") for row in rows) else rows)[:SUMS_SHOWN]
    lines: list[Line] = []
    for row in rows:
        inputs = ", ".join(f"{name} {amount(value)}" for name, value in row["inputs"].items())
        limit = f"; limit {amount(row['limit'])} ({row['limit_from']})" if row.get("limit") is not None else ""
        span = f"; {amount(row['range'][0])} to {amount(row['range'][1])}" if row.get("range") else ""
        text = f"{row['name']} = {row['expression']} = {amount(row['value'])} {row['unit']}"
        known = f"{text} ({row['grade']}: {inputs}{span}{limit})"
        lines += item(with_sources(known, row.get("evidence", ())), width)
    left = len(document["arithmetic"]) - len(rows)
    lines += paragraph(f"and {plural(left, 'more sum')}: see the write-up", width, 2) if left else []
    return lines
