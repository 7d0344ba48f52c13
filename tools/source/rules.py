"""The rules about one flag: its own, its switches', its family's, and those of the code that its value flows into.

Handlers (server_args.py and arg_groups/) are scanned once for a tree. The rest of the tree is scanned where it reads a
flag of the family, and followed one step further: into constructors that are handed its value, and their bases.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from tools.source.annotated import record_fields
from tools.source.catalogue import Flag, FlagCatalogue
from tools.source.folding import Folder, Unfoldable
from tools.source.modules import ClassRef, Module, Modules, Scope
from tools.source.rule import CallSite, Rule, reached
from tools.source.rule_scan import Scanner
from tools.source.syntax import functions

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
FILES_LIMIT: Final = 40
BASES_LIMIT: Final = 4
HOPS_LIMIT: Final = 2
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
    for path in handler_paths(paths):
        module = modules.by_path(path)
        if module is not None:
            scanner = Scanner(path, _lines(modules, path), names)
            found += scanner.scan(module.tree)
            calls += scanner.calls
    return reached(found, calls)


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
    """The rules that matter to a flag: its own first, then its switches', then its family's; by kind and place."""
    order = {"raise": 0, "assert": 1, "override": 2, "warn": 3}

    def rank(rule: Rule) -> tuple[int, int, str, int]:
        return family.distance(rule), order[rule.kind], rule.path, rule.line

    chosen = {
        (rule.path, rule.line, rule.kind, rule.sets): rule
        for rule in (*handlers, *elsewhere)
        if not family.all.isdisjoint(rule.flags)
    }
    return tuple(sorted(chosen.values(), key=rank))


class Follower:
    """Rules outside the handlers, for one family of flags."""

    def __init__(self, modules: Modules, catalogue: FlagCatalogue, family: Family) -> None:
        self._modules = modules
        self._folder = Folder(modules, record_fields)
        self._names = names_of(catalogue)
        self._family = family

    def rules(self, paths: Iterable[str]) -> list[Rule]:
        """Rules in files that read the family, and in constructors that its values are handed to."""
        found: list[Rule] = []
        for path in list(paths)[:FILES_LIMIT]:
            module = self._modules.by_path(path)
            if module is None:
                continue
            scanner = Scanner(path, _lines(self._modules, path), self._names, outside=True)
            found += [rule for rule in scanner.scan(module.tree) if not self._family.all.isdisjoint(rule.flags)]
            found += self._flows(module, scanner)
        return found

    def _flows(self, module: Module, scanner: Scanner) -> list[Rule]:
        """What the constructors do with the values that this file hands them."""
        found: list[Rule] = []
        chosen = _chosen_in(module.tree)
        for call in ast.walk(module.tree):
            if not isinstance(call, ast.Call):
                continue
            handed = [(index, each) for index, each in enumerate(call.args)] + [
                (keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg
            ]
            carried: dict[int | str, set[str]] = {}
            for place, value in handed:
                flags = scanner.reading.flags_in(value, scanner.copied) & self._family.all
                if flags and not isinstance(value, ast.Lambda):
                    carried[place] = flags
            if carried:
                for callee in chosen.get(id(call), [call.func]):
                    found += self._into(callee, carried, module)
        return found

    def _into(self, func: ast.expr, carried: dict[int | str, set[str]], module: Module, depth: int = 0) -> list[Rule]:
        callee = self._class(func, module)
        if callee is None:
            return []
        found: list[Rule] = []
        for _ in range(BASES_LIMIT):
            owner, constructor = self._constructor(callee)
            if constructor is None or owner is None:
                break
            tainted = _by_name(constructor, carried)
            if not tainted:
                break
            scanner = Scanner(owner.module.path, _lines(self._modules, owner.module.path), self._names)
            found += scanner.function(constructor, tainted)
            found += self._methods(owner, constructor, scanner, tainted)
            if depth < HOPS_LIMIT:
                for inner in _calls_in(constructor):
                    onward = self._passed_on(inner, tainted)
                    if onward:
                        found += self._into(inner.func, onward, owner.module, depth + 1)
            above = self._super_call(constructor)
            base = self._base(owner)
            if above is None or base is None:
                break
            carried = self._passed_on(above, tainted)
            callee = base
        return found

    def _methods(
        self, owner: ClassRef, constructor: ast.FunctionDef, scanner: Scanner, tainted: dict[str, set[str]]
    ) -> list[Rule]:
        """What methods that a constructor calls do with the attributes it filled and the values it hands them."""
        carried = scanner.carried
        own = {each.name: each for each in owner.node.body if isinstance(each, ast.FunctionDef)}
        given: dict[str, dict[str, set[str]]] = {}
        for call in _calls_in(constructor):
            method = own.get(_method_of_self(call))
            if method is not None:
                given.setdefault(method.name, {}).update(_by_name(method, self._passed_on(call, tainted)))
        starts = {name: carried | handed for name, handed in given.items() if carried or handed}
        return [rule for name, local in starts.items() for rule in scanner.function(own[name], local)]

    def _constructor(self, owner: ClassRef) -> tuple[ClassRef | None, ast.FunctionDef | None]:
        """The constructor of a class and the class that has it."""
        for _ in range(BASES_LIMIT):
            own = _own_constructor(owner)
            if own is not None:
                return owner, own
            base = self._base(owner)
            if base is None:
                break
            owner = base
        return None, None

    def _base(self, owner: ClassRef) -> ClassRef | None:
        """The base whose constructor `super()` finds: the first that has one or is given one by its own bases."""
        found = [base for each in owner.node.bases if (base := self._class(each, owner.module)) is not None]
        return next((base for base in found if _own_constructor(base) or base.node.bases), None)

    def _class(self, func: ast.expr, module: Module) -> ClassRef | None:
        try:
            found = self._folder.fold(func, Scope(module))
        except Unfoldable:
            return None
        return found if isinstance(found, ClassRef) else None

    def _super_call(self, constructor: ast.FunctionDef) -> ast.Call | None:
        for node in ast.walk(constructor):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__")):
                    return node
        return None

    def _passed_on(self, call: ast.Call, tainted: dict[str, set[str]]) -> dict[int | str, set[str]]:
        carried: dict[int | str, set[str]] = {}
        for index, value in enumerate(call.args):
            if isinstance(value, ast.Name) and value.id in tainted:
                carried[index] = tainted[value.id]
        for keyword in call.keywords:
            if keyword.arg and isinstance(keyword.value, ast.Name) and keyword.value.id in tainted:
                carried[keyword.arg] = tainted[keyword.value.id]
        return carried


def _by_name(method: ast.FunctionDef, carried: dict[int | str, set[str]]) -> dict[str, set[str]]:
    """What is handed to a method by place or by name, by the names of its parameters."""
    names = [each.arg for each in (*method.args.posonlyargs, *method.args.args)][1:]
    names_all = set(names) | {each.arg for each in method.args.kwonlyargs}
    return {
        (names[place] if isinstance(place, int) else place): flags
        for place, flags in carried.items()
        if (place < len(names) if isinstance(place, int) else place in names_all)
    }


def _own_constructor(owner: ClassRef) -> ast.FunctionDef | None:
    found = (each for each in owner.node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__")
    return next(found, None)


def _chosen_in(tree: ast.Module) -> dict[int, list[ast.expr]]:
    """By the id of a call of a local name: the classes that its function gives that name, `cls = A if x else B`."""
    found: dict[int, list[ast.expr]] = {}
    for function in functions(tree):
        given: dict[str, list[ast.expr]] = {}
        calls: list[tuple[int, str]] = []
        for node in ast.walk(function):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    values = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
                    given.setdefault(name, []).extend(each for each in values if isinstance(each, ast.Name))
                case ast.Call(func=ast.Name(id=name)):
                    calls.append((id(node), name))
        found |= {place: given[name] for place, name in calls if given.get(name)}
    return found


def _calls_in(function: ast.FunctionDef) -> list[ast.Call]:
    """Calls of a function's body, those of its base class's constructor apart."""
    found = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    return [call for call in found if not (isinstance(call.func, ast.Attribute) and call.func.attr == "__init__")]


def _method_of_self(call: ast.Call) -> str:
    """The method of `self.method(…)`, empty for another call."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
    return ""


def _lines(modules: Modules, path: str) -> list[str]:
    return (modules.root / path).read_bytes().decode("utf-8", "replace").split("\n")


def readers(modules: Modules, paths: Iterable[str], dest: str) -> list[tuple[str, int, str]]:
    """Where a flag's value is read outside its handlers: (path, line, function)."""
    found: list[tuple[str, int, str]] = []
    for path in paths:
        module = modules.by_path(path)
        if module is None:
            continue
        spans = [(each.lineno, each.end_lineno or each.lineno, each.name) for each in functions(module.tree)]
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute) and node.attr == dest and isinstance(node.ctx, ast.Load):
                inside = [span for span in spans if span[0] <= node.lineno <= span[1]]
                name = max(inside)[2] if inside else ""
                found.append((path, node.lineno, name))
    return found
