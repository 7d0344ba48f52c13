"""The rules of the handlers, and which of a tree's rules are about one flag: its own, its switches', its family's.

Handlers (server_args.py and arg_groups/) are scanned once for a tree; following.py looks through the rest.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

from tools.source.catalogue import Flag, FlagCatalogue
from tools.source.modules import Module, Modules
from tools.source.reading import Reading
from tools.source.rule import CallSite, Rule, reached
from tools.source.rule_scan import Scanner
from tools.source.syntax import arguments, calls_in, dotted, inside

HANDLERS: Final = ("srt/server_args.py", "srt/arg_groups/")
PLAIN_WORDS: Final = frozenset(
    {
        *("enable", "disable", "max", "min", "num"),
        *("use", "no", "the", "is", "default"),
        *("prefer", "model", "custom", "log"),
    }
)
FAMILY_AT_LEAST: Final = 3
SWITCH_SHARE: Final = 0.2
Distance = Literal[0, 1, 2, 3]


@dataclass(frozen=True, slots=True)
class Family:
    """The flags that a question about one flag is about, as the code names their values."""

    flag: str
    switches: frozenset[str]
    siblings: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        return self.switches | self.siblings | {self.flag}

    def distance(self, rule: Rule) -> Distance:
        """How near a rule is to the flag: it is about it, about a switch of it, about siblings that are handled with
        it, or about siblings alone, somewhere in the server.
        """
        if self.flag in rule.flags:
            return 0
        if not self.switches.isdisjoint(rule.flags):
            return 1
        return 2 if rule.path.startswith(HANDLERS) else 3


def handler_paths(paths: Iterable[str]) -> list[str]:
    """The files whose business the flags are."""
    return [path for path in paths if path.endswith(".py") and path.startswith(HANDLERS)]


def names_of(catalogue: FlagCatalogue) -> frozenset[str]:
    """Destinations and record fields: what an attribute may be to count as a flag."""
    return frozenset(flag.dest for flag in catalogue.flags) | frozenset(catalogue.fields)


def scan_handlers(modules: Modules, paths: Iterable[str], catalogue: FlagCatalogue) -> list[Rule]:
    """Every rule in the handlers of a tree."""
    names = names_of(catalogue)
    found: list[Rule] = []
    calls: list[CallSite] = []
    read = [module for path in handler_paths(paths) if (module := modules.by_path(path)) is not None]
    handed = _handed_in(read, names)
    for module in read:
        scanner = Scanner(module.path, lines_of(modules, module.path), names, handed=handed)
        found += scanner.scan(module.tree)
        calls += scanner.calls
    return [rule for rule in reached(found, calls) if not _is_alias(rule, catalogue)]


def _is_alias(rule: Rule, catalogue: FlagCatalogue) -> bool:
    """Whether a value is only put under the code's name for it: `args.tp_size = args.tensor_parallel_size`."""
    changed, _, given = rule.effect.partition(" = ")
    flag = catalogue.find(given) if rule.sets == (changed,) else None
    return flag is not None and catalogue.field(flag) == changed


def _handed_in(handlers: list[Module], names: frozenset[str]) -> dict[str, dict[int | str, set[str]]]:
    """By the name of a function: the flags whose values the handlers call it with, as they are."""
    found: dict[str, dict[int | str, set[str]]] = {}
    reading = Reading(names, outside=False)
    for module in handlers:
        for function in inside(module.tree).functions:
            first = function.args.args[:1]
            reading.enter(function, own=bool(first) and first[0].arg == "self")
            for call in calls_in(function):
                for place, value in arguments(call):
                    flag = reading.flag(value)
                    name = dotted(call.func).rpartition(".")[2]
                    if flag is not None and name:
                        found.setdefault(name, {}).setdefault(place, set()).add(flag)
    return found


def family_of(flag: Flag, catalogue: FlagCatalogue, handlers: list[Rule]) -> Family:
    """Flags that begin with the same word, and the switches that stand with them in conditions of its handlers.

    A handler is of the family by its name, or because all that it changes are values of the family. A switch that
    stands in many other handlers (`enable_dp_attention` beside one scheduling value) is no switch of the family.
    """
    own = catalogue.field(flag)
    word = _subject(own)
    named = frozenset(catalogue.field(each) for each in catalogue.flags if _subject(catalogue.field(each)) == word)
    siblings = named if len(named) >= FAMILY_AT_LEAST else frozenset()
    family = siblings | {own}
    together: set[str] = set()
    near = [rule for rule in handlers if word in rule.where or not family.isdisjoint(rule.flags)]
    for rule in near:
        text = " ".join(rule.conditions)
        own_handler = word in rule.where and any(name in text for name in family)
        if own_handler or (siblings and rule.sets and family.issuperset(rule.sets)):
            together |= {name for name in rule.flags if "enable" in name and name in text}
    here, anywhere = (Counter(name for rule in rules for name in rule.flags) for rules in (near, handlers))
    switches = frozenset(
        name for name in together if _is_switch(name, catalogue) and here[name] > anywhere[name] * SWITCH_SHARE
    )
    return Family(own, switches - family, siblings - {own})


def read_under(modules: Modules, paths: Iterable[str], dest: str, catalogue: FlagCatalogue) -> frozenset[str]:
    """Switches under which code outside the handlers reads a flag: `if self.enable_x: Cache(server_args.x_ratio)`.

    Versions up to 0.5.4 have no handler that would tie the two.
    """
    found: set[str] = set()

    def walk(node: ast.AST, under: frozenset[str]) -> None:
        if isinstance(node, ast.Attribute) and node.attr == dest and isinstance(node.ctx, ast.Load):
            found.update(under)
        if isinstance(node, ast.If):
            asked = node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]
            names = {each.attr for each in asked if isinstance(each, ast.Attribute) and "enable" in each.attr}
            for taken in node.body:
                walk(taken, under | {name for name in names if _is_switch(name, catalogue)})
            for other in node.orelse:
                walk(other, under)
        else:
            for inner in ast.iter_child_nodes(node):
                walk(inner, under)

    for path in paths:
        module = modules.by_path(path)
        if module is not None:
            walk(module.tree, frozenset())
    return frozenset(found)


def _subject(dest: str) -> str:
    words = [word for word in dest.split("_") if word not in PLAIN_WORDS]
    return words[0] if words else dest


def _is_switch(dest: str, catalogue: FlagCatalogue) -> bool:
    found = catalogue.find(dest)
    return found is not None and found.type == "bool" and not found.deprecated


def about(family: Family, handlers: list[Rule], elsewhere: list[Rule]) -> tuple[Rule, ...]:
    """The rules that matter to a flag: its own first, then its switches', then its family's; those of the handlers,
    which every start goes through, before those of the rest; by kind and place. What many files say alike is one rule.
    """
    order = {"raise": 0, "assert": 1, "override": 2, "warn": 3}

    def rank(rule: Rule) -> tuple[int, bool, int, str, int]:
        return family.distance(rule), not rule.path.startswith(HANDLERS), order[rule.kind], rule.path, rule.line

    chosen = {
        (rule.path, rule.line, rule.kind, rule.sets): rule
        for rule in (*handlers, *elsewhere)
        if not family.all.isdisjoint(rule.flags)
    }
    return tuple(_folded(sorted(chosen.values(), key=rank)))


def _folded(rules: list[Rule]) -> list[Rule]:
    """Rules outside the handlers that say the same under the same condition as one, at the first of their places."""
    alike: dict[tuple[str, ...], list[Rule]] = {}
    for rule in rules:
        place = (rule.at,) if rule.path.startswith(HANDLERS) else ()
        alike.setdefault((rule.kind, rule.condition, rule.effect, *rule.sets, *place), []).append(rule)
    return [replace(first, also=tuple(each.at for each in others)) for first, *others in alike.values()]


def lines_of(modules: Modules, path: str) -> list[str]:
    """The lines of a file, as its syntax tree counts them."""
    return (modules.root / path).read_bytes().decode("utf-8", "replace").split("\n")


def readers(modules: Modules, paths: Iterable[str], dest: str) -> list[tuple[str, int, str]]:
    """Where a flag's value is read outside its handlers: (path, line, function)."""
    found: list[tuple[str, int, str]] = []
    for path in paths:
        module = modules.by_path(path)
        if module is None:
            continue
        spans = [(each.lineno, each.end_lineno or each.lineno, each.name) for each in inside(module.tree).functions]
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute) and node.attr == dest and isinstance(node.ctx, ast.Load):
                around = [span for span in spans if span[0] <= node.lineno <= span[1]]
                name = max(around)[2] if around else ""
                found.append((path, node.lineno, name))
    return found
