"""One thing that code does about flags, and under which calls it is reached at all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

Kind = Literal["raise", "assert", "warn", "override"]
CALLERS_LIMIT: Final = 6
CALLED: Final = "_is_called"
ENTRIES: Final = frozenset({"run_resolution_pipeline", "resolve_once", "check_server_args", "prepare_server_args"})


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing the code does about flags.

    `conditions` are expressions that all hold when it happens (empty: always); `flags` the destinations it depends on
    or changes; `sets` what an override changes; `terms` spell out the local names in the condition. `quote` is the line
    `line` of `path`, blanks at the ends removed. `also` are the other places, as `path:line`, that say the same.
    """

    kind: Kind
    condition: str
    effect: str
    flags: tuple[str, ...]
    path: str
    line: int
    quote: str
    conditions: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    where: str = ""
    terms: tuple[str, ...] = ()
    also: tuple[str, ...] = ()

    @property
    def at(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class CallSite:
    """One call of a function of the handlers, and what must hold for it to happen."""

    callee: str
    caller: str
    conditions: tuple[str, ...]
    flags: tuple[str, ...]


def joined(rules: list[Rule]) -> list[Rule]:
    """Overrides and the warning that announces them, from one block, as one rule."""
    out: list[Rule] = []
    for rule in rules:
        last = out[-1] if out else None
        if last is not None and last.conditions == rule.conditions and last.where == rule.where:
            change, said = (rule, last) if rule.kind == "override" else (last, rule)
            if {last.kind, rule.kind} == {"warn", "override"} and not change.effect.endswith('"'):
                out[-1] = _merged(change, said)
                continue
        out.append(rule)
    return out


def _merged(change: Rule, said: Rule) -> Rule:
    flags = tuple(sorted({*change.flags, *said.flags}))
    return replace(change, effect=f'{change.effect}; says "{said.effect}"', flags=flags)


def reached(rules: list[Rule], calls: list[CallSite]) -> list[Rule]:
    """Rules with the conditions under which their function is called at all, where it has one caller only."""
    sites: dict[str, list[CallSite]] = {}
    for call in calls:
        if call.callee != call.caller:
            sites.setdefault(call.callee, []).append(call)
    return [_called(rule, sites) for rule in rules]


def _called(rule: Rule, sites: dict[str, list[CallSite]]) -> Rule:
    outer: tuple[str, ...] = ()
    flags: set[str] = set(rule.flags)
    name = rule.where
    for _ in range(CALLERS_LIMIT):
        if name.startswith("__") or name in ENTRIES:
            break
        found = sites.get(name, [])
        if not found or (len(found) > 1 and all(site.conditions for site in found)):
            outer = (f"{name}{CALLED}", *outer)  # from a table, or by one of several: not to be weighed
            break
        if len(found) > 1:
            break
        outer = (*found[0].conditions, *outer)
        flags |= set(found[0].flags) if rule.kind != "warn" else set()
        name = found[0].caller
    if not outer:
        return rule
    return replace(rule, conditions=(*outer, *rule.conditions), flags=tuple(sorted(flags)))
