"""Answers about what was chosen and what was not: why this value, why not that option, what another value would do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, Final

from agent.case import Case
from agent.models.playbook.answer import cited
from agent.models.playbook.operating import looks, sources
from agent.views.first import hicache_in_short
from agent.views.words import amount, change_told
from tools import capacity
from tools.spoken import CALLED, HICACHE, KV_DTYPE, SPECULATION

Json = dict[str, Any]
Found = re.Match[str]
QUANT: Final = CALLED[KV_DTYPE]
# Options whose row among those that were compared is named by another word than the flag's.
_ROWS: Final = {
    HICACHE: "hicache", KV_DTYPE: "fp8", "--enable-dp-attention": "dp attention", "--mem-fraction-static": "fraction",
    "--max-running-requests": "slots", "--speculative-algorithm": "speculative", "--enable-lmcache": "lmcache",
    "--cpu-offload-gb": "cpu-offload", "--schedule-conservativeness": "conservativeness",
    "--enable-mixed-chunk": "mixed",
    "--chunked-prefill-size": "chunk", "--context-length": "context", "--attention-backend": "attention backend",
    "--page-size": "page size", "--max-queued-requests": "queue", "--cuda-graph-max-bs": "graph",
    "--disable-radix-cache": "radix", "--schedule-policy": "schedule policy",
}  # fmt: skip
# How people call an option, its flag, and the word that names its row.
ALIASES: Final = tuple((called, flag, _ROWS[flag]) for flag, called in CALLED.items())
SHOWN: Final = 4
NEAR: Final = 0.85  # alike enough to be a slip of the keyboard


def why_not(case: Case, found: Found) -> str:
    """Why an option that was named is not what is recommended; empty where nothing is known of it."""
    told = named(found.string)
    if not told:
        return ""
    _, flag, word = told[0]
    chosen = [each for each in _changes(case) if each["flag"] == flag]
    if chosen:
        return cited(
            f"It is part of the change: {change_told(chosen[0])}: {chosen[0]['why']}", chosen[0]["evidence"], case
        )
    return "\n".join(dict.fromkeys(line for line in _against(case, flag, word) if line))


def _against(case: Case, flag: str, word: str) -> Iterator[str]:
    advised = case.advised
    for rule in advised.must_not if advised else ():
        if rule["flag"] == flag:
            yield cited(f"Since {rule['why']}; so do not {rule['do']} {flag} for this", sources(case), case)
    for other in advised.alternatives if advised else ():
        if word in other["what"].lower():
            yield cited(f"Not chosen: {other['what']}: {_first(other['why_not'])}", sources(case), case)
            break
    for refused in advised.refused if advised else ():
        if flag in refused["what"]:
            yield cited(f"Refused: {refused['what']}: {refused['reason']}", sources(case), case)
    for row in alone(case, word)[:2]:
        yield cited(in_short(row), row.get("evidence", ()), case)


def alone(case: Case, word: str) -> list[Json]:
    """Rows of an option by itself: those with figures, else what the source tells of it."""
    rows = [row for row in options_of(case) if word in row["name"].lower() and not row.get("combined")]
    return [row for row in rows if row.get("running_factor") is not None] or rows[:1]


def in_short(row: Json) -> str:
    """An option's figures, then what speaks against it."""
    if row.get("prefix_factor"):
        return hicache_in_short(row)
    if row.get("running_factor") is None:
        limits = f"; {row['risk']}" if row.get("risk") else ""
        return f"{row['name']}: {row['does']}{limits}"
    text = f"{row['name']}: {row['running_factor']:.2f}x the pool"
    text += f", runs {amount(row['running'])}" if row.get("running") else ""
    against = [each for each in (row.get("why_not"), row.get("risk")) if each]
    return f"{text}; {'; '.join(against)}" if against else text


def why_this_value(case: Case, found: Found) -> str:
    """Why a value that stands in the change is that value; empty for another number."""
    for each in _changes(case):
        if str(each["to"]) == found[1]:
            lines = [cited(f"{change_told(each)}: {each['why']}", each["evidence"], case)]
            rows = case.advised.arithmetic if case.advised else ()
            lines += [_sum(row, case) for row in rows[:SHOWN]]
            lines += [_other_limit(case, each, int(other)) for other in _COUNT.findall(found.string)]
            return "\n".join(line for line in lines if line)
    return ""


_COUNT: Final = re.compile(r"(?<![\w.])\d+(?![\w.])")
_FEWEST: Final = 8  # requests; a smaller count in a question is no limit


def _other_limit(case: Case, change: Json, other: int) -> str:
    """How much of the pool another limit would hold beside the chosen one; empty where that cannot be summed."""
    slots, to = capacity.slots_for(case.facts), change["to"]
    if change["flag"] != "--max-running-requests" or other < _FEWEST or other == to or not isinstance(to, int):
        return ""
    if not isinstance(slots, capacity.Slots):
        return ""
    held, wanted = (count / slots.groups / slots.wall for count in (to, other))
    text = f"{other} would hold {wanted:.2f} of the pool at the length seen, {to} hold {held:.2f}"
    return cited(text, change["evidence"], case)


def _sum(row: Json, case: Case) -> str:
    inputs = ", ".join(f"{name} {amount(value)}" for name, value in row["inputs"].items())
    text = f"{row['name']} = {row['expression']} = {amount(row['value'])} {row['unit']}, with {inputs} ({row['grade']})"
    return cited(text, row.get("evidence", ()), case)


def together(case: Case, found: Found) -> str:
    """Options named together, as they were summed together; empty unless two are named."""
    words = [word for _, _, word in named(found.string)]
    if len(words) < 2:
        return ""
    rows = [row for row in options_of(case) if all(word in row["name"].lower() for word in words)]
    rows.sort(key=lambda row: row["name"].count(" + "))
    lines = [cited(in_short(row), row.get("evidence", ()), case) for row in rows[:2]]
    if not lines and (beside := _beside_what_runs(case, found.string)):
        return beside
    if not lines:
        lines.append(cited(f"{' and '.join(words)} were not summed together; each alone", looks(case), case))
        lines += [cited(in_short(row), row["evidence"], case) for word in words for row in alone(case, word)[:1]]
    return "\n".join(lines)


def _beside_what_runs(case: Case, text: str) -> str:
    """One option beside others that are on as the server runs: whatever is summed here is summed with those."""
    on = {flag: held for _, flag, _ in named(text) if flag in _SWITCHED and (held := _on(case, flag))}
    rest = [word for _, flag, word in named(text) if flag not in on]
    if not on or not rest or re.search(_OFF, text):
        return ""
    lines = [cited(f"{flag} is on as the server runs ({held[0]}); what follows is with it", [held[1]], case)
             for flag, held in on.items()]  # fmt: skip
    lines += [cited(row.get("says") or in_short(row), row["evidence"], case)
              for word in rest for row in alone(case, word)[:1]]  # fmt: skip
    return "\n".join(lines) if len(lines) > len(on) else ""


_SWITCHED: Final = frozenset({HICACHE, SPECULATION, "--enable-dp-attention"})
_OFF: Final = r"\b(?:without|drop|disable|turn(?:ing)? off|switch(?:ing)? off|remove|off)\b"


def _on(case: Case, flag: str) -> tuple[str, str] | None:
    held = in_force(case, flag)
    return held if held is not None and held[0].lower() not in ("none", "false", "") else None


def instead(case: Case, found: Found) -> str:
    """Two options, one in the place of the other: each as it was summed, and which of them is recommended."""
    told = named(found.string)
    if len(told) != 2:
        return ""
    lines = []
    for _, flag, word in told:
        chosen = [each for each in _changes(case) if each["flag"] == flag]
        lines += [cited(in_short(row), row.get("evidence", ()), case) for row in alone(case, word)[:1]]
        lines += [cited(f"Recommended: {change_told(each)}", each["evidence"], case) for each in chosen]
    claimed = re.search(r"(\d+(?:\.\d+)?) ?gi?b\b.*\bfree\b|\bfree\b.*?(\d+(?:\.\d+)?) ?gi?b\b", found.string)
    free = min(case.facts.all("gpu_free_mib"), key=lambda fact: float(fact.value), default=None)
    if claimed and free is not None:
        gib = float(free.value) / 1024
        text = f"At the last look {gib:.2f} GiB were free on the fullest GPU, not {claimed[1] or claimed[2]}"
        lines.insert(0, cited(text, [free.source], case))
    return "\n".join(line for line in lines if line)


def near(case: Case, found: Found) -> str:
    """What a mistyped option is likely meant for, and how that stands here."""
    name = found[1].lstrip("-").replace("_", "-")
    known = [flag.lstrip("-") for flag in CALLED] + [
        fact.scope.replace("_", "-") for fact in case.facts.all("server_arg")
    ]
    meant = get_close_matches(name, known, 1, NEAR)
    if not meant or name in known:
        return ""
    lines = list(_as_it_runs(case, f"--{meant[0]}"))
    return "\n".join([cited(f"There is no --{name}; --{meant[0]} is meant", looks(case), case), *lines])


def options(case: Case, _found: Found) -> str:
    """Those that were summed alone, then where the rest is."""
    rows = [row for row in options_of(case) if not row.get("combined") and row.get("running_factor") is not None]
    told = [row for row in options_of(case) if row.get("running_factor") is None and row.get("does")]
    rows.sort(key=lambda row: not row.get("answers"))
    lines = [cited(_figures(row), row.get("evidence", ()), case) for row in rows[: 2 * SHOWN]]
    names = ", ".join(row["name"] for row in told if "hicache" not in row["name"])
    if names:
        cites = [ref for row in told for ref in row.get("evidence", ())]
        lines.append(cited(f"In the source besides: {names}", cites, case))
    lines.append(_where_more(case))
    return "\n".join(line for line in lines if line)


def _figures(row: Json) -> str:
    text = f"{row['name']}: {row['running_factor']:.2f}x running" if row.get("prefix_factor") else (
        f"{row['name']}: {row['running_factor']:.2f}x the pool"
    )  # fmt: skip
    text += f", {amount(row['host_gb'])} GB of host RAM" if row.get("host_gb") else ""
    return text + (", does not fit" if row.get("fits") is False else "")


def option(case: Case, found: Found) -> str:
    """What the tree and the sums say about an option that was named."""
    word = _squeezed(found[1]).replace("ktransformers", "kt")
    word = re.sub(r"write.?(?:back|through)", "writepolicy", word)
    rows = [row for row in options_of(case) if word in _squeezed(row["name"]) and row.get("says")]
    lines = [cited(row["says"], row.get("evidence", ()), case) for row in rows]
    lines += [line for row in rows if row["name"].startswith("--") for line in _as_it_runs(case, row["name"])]
    said = " ".join(row["says"] for row in rows)
    lines += [
        cited(f"{finding.subject}: {finding.text}", [c.id for c in finding.citations], case)
        for finding in case.findings
        if word in _squeezed(f"{finding.subject} {finding.text}") and finding.text not in said
    ]
    return "\n".join(list(dict.fromkeys(line for line in lines if line))[: 2 * SHOWN])


def ratio_or_size(case: Case, _found: Found) -> str:
    """The two ways to size the host pool, and what the ratio that was summed comes to in GB."""
    rows = [row for row in options_of(case) if row["name"] in ("--hicache-ratio", "--hicache-size") and row.get("says")]
    if not rows:
        return ""
    cites = [reference for row in rows for reference in row.get("evidence", ())]
    follows = "A ratio follows the KV pool when another change makes that larger or smaller; a size stays what it is"
    lines = [cited(row["says"], row.get("evidence", ()), case) for row in rows]
    lines.append(cited(follows, cites, case))
    summed = [row for row in options_of(case) if row.get("host_gb") and not row.get("combined")]
    lines += [cited(row["says"].partition("; ")[0], row["evidence"], case) for row in summed[:1]]
    return "\n".join(line for line in lines if line)


def setting(case: Case, found: Found) -> str:
    """A setting that was named and not summed: its value, what is known of it here, and where more of it stands."""
    told = named(found.string)
    if len(told) != 1:
        return ""
    _, flag, word = told[0]
    lines = [*_as_it_runs(case, flag), *_against(case, flag, word)]
    version = case.facts.get("version")
    if version is not None:
        looked = f"`sglscout rules {flag.lstrip('-')} --version {version.value}` tells what the code enforces about it"
        lines.append(cited(f"What another value would bring was not summed; {looked}", [version.source], case))
    return "\n".join(line for line in dict.fromkeys(lines) if line) if len(lines) > 1 else ""


def _as_it_runs(case: Case, flag: str) -> Iterator[str]:
    """The value in force, and what is recommended of it."""
    held = in_force(case, flag)
    if held is not None:
        yield cited(f"{flag} is {'not set' if held[0] == 'None' else held[0]}, as the server runs", [held[1]], case)
    for each in _changes(case):
        if each["flag"] == flag:
            yield cited(f"What is recommended: {change_told(each)}", each["evidence"], case)


def hicache(case: Case, found: Found) -> str:
    """HiCache on this host: what it would keep and take, and that it runs no more requests."""
    lines = [
        cited(row["says"], row.get("evidence", ()), case)
        for row in options_of(case)
        if row["name"].startswith("HiCache")
    ]
    lines += [cited(f"“{c.text}” is {c.verdict}: {c.why}", c.evidence, case) for c in case.claims if "RAM" in c.text]
    return "\n".join(list(dict.fromkeys(line for line in lines if line))[:SHOWN]) or option(case, found)


def _where_more(case: Case) -> str:
    return cited(f"What each risks: /options, or `sglscout show {case.opened.id} --document`", looks(case), case)


def named(text: str) -> list[tuple[str, str, str]]:
    """Options that a text names."""
    return [alias for alias in ALIASES if re.search(alias[0], text)]


def named_outside_the_change(case: Case, text: str) -> list[str]:
    """Words of the options that a text names when none of them is part of the change."""
    flags = {each["flag"] for each in _changes(case)}
    told = named(text)
    return [] if any(flag in flags for _, flag, _ in told) else [word for _, _, word in told]


def in_force(case: Case, flag: str) -> tuple[str, str] | None:
    """The value that a server's flag has, as it printed it, else as it was typed; and where that stands."""
    fact = case.facts.get("server_arg", flag.lstrip("-").replace("-", "_")) or case.facts.get("flag", flag)
    return (str(fact.value), fact.source) if fact is not None else None


def is_on(case: Case, found: Found) -> str:
    """Whether an option that was named is in force on the server as it runs."""
    lines = []
    for _, flag, _ in named(found.string)[:2]:
        held = in_force(case, flag)
        argv = case.facts.get("launch_argv")
        if held is not None:
            value, source = held
            word = {"True": "on", "true": "on", "False": "off", "None": "not set"}.get(value, f"set: {value}")
            lines.append(cited(f"{flag} is {word}, as the server runs", [source], case))
        elif argv is not None:
            lines.append(cited(f"{flag} is not in the launch command, so its default holds", [argv.source], case))
        else:
            lines.append(cited(f"Nothing that was looked at tells whether {flag} is set", looks(case), case))
        wanted = [each for each in _changes(case) if each["flag"] == flag]
        lines += [cited(f"What is recommended: {change_told(each)}", each["evidence"], case) for each in wanted]
    return "\n".join(lines)


def without(case: Case, found: Found) -> str:
    """The best options that do without the one that was named; whether it is part of the change at all."""
    told = named(found.string)
    if not told:
        return ""
    _, flag, word = told[0]
    lines = []
    if flag not in {each["flag"] for each in _changes(case)} and _changes(case):
        change = "; ".join(change_told(each) for each in _changes(case))
        lines.append(cited(f"Yes: {word} is no part of what is recommended: {change}", sources(case), case))
    rows = [row for row in options_of(case) if row.get("fits") and word not in row["name"].lower()]
    grown = [row for row in rows if (row.get("running_factor") or 0) > 1 or (row.get("prefix_factor") or 0) > 1]
    grown.sort(key=lambda row: (bool(row.get("combined")), -max(row["running_factor"], row.get("prefix_factor") or 0)))
    lines += [cited(f"Without it: {in_short(row)}", row.get("evidence", ()), case) for row in grown[:SHOWN]]
    return "\n".join(lines) or cited(f"No option that fits does without {word}", looks(case), case)


def options_of(case: Case) -> tuple[Json, ...]:
    """Every option that was compared."""
    return case.compared.options if case.compared else ()


def _changes(case: Case) -> tuple[Json, ...]:
    return case.advised.changes if case.advised else ()


def _first(text: str) -> str:
    return text.partition("; ")[0]


def _squeezed(text: str) -> str:
    return text.lower().replace(" ", "").replace("-", "")
