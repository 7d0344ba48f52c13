"""What the server does with the values of a family of flags outside their handlers.

Files that read a flag of the family are scanned; what they hand its value to (a constructor and its bases, a plain
function, a method of the same class) is followed a few steps further, whatever the value is called there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Final

from tools.source.annotated import record_fields
from tools.source.catalogue import FlagCatalogue
from tools.source.folding import Folder
from tools.source.modules import ClassRef, FunctionRef, Module, Modules, Scope
from tools.source.operations import Unfoldable
from tools.source.rule import Rule
from tools.source.rule_scan import Scanner
from tools.source.rules import Family, lines_of, names_of
from tools.source.syntax import Function, arguments, by_name, calls_in, dotted, inside

BASES_LIMIT: Final = 4
HOPS_LIMIT: Final = 3
NO_FLAGS: Final[frozenset[str]] = frozenset()
Flags = dict[str, set[str]]  # flags by the name that carries their values
Handed = dict[int | str, set[str]]  # the same by the place or keyword of an argument


class Follower:
    """Rules outside the handlers, for one family of flags."""

    def __init__(self, modules: Modules, catalogue: FlagCatalogue, family: Family) -> None:
        self._modules = modules
        self._folder = Folder(modules, record_fields)
        self._names = names_of(catalogue)
        self._family = family
        self._found: list[Rule] = []
        self._been: dict[tuple[str, int, str], Flags] = {}

    def rules(self, paths: Iterable[str]) -> list[Rule]:
        """Rules in files that read the family, and in what its values are handed to; each file is let go again."""
        kept: dict[str, Flags] = {}
        for path in paths:
            module = self._modules.once(path)
            if module is not None:
                copied = self._read(module, {})
                for owner, filled in self._filled_for_mixins(module, copied).items():
                    kept[owner] = kept.get(owner, {}) | filled
        for path, filled in kept.items():
            module = self._modules.once(path)
            if module is not None:
                self._read(module, filled)
        return list({(rule.path, rule.line, rule.kind, rule.sets): rule for rule in self._found}.values())

    def _read(self, module: Module, kept: Flags) -> Flags:
        """The rules of a file and of what it hands the family's values to; `kept`: flags by attributes of its objects
        that other files fill. Returns these with those that the file fills itself.
        """
        scanner = self._scanner(module, self._family.all)
        found = scanner.scan(module.tree, kept)
        self._found += [rule for rule in found if not self._family.all.isdisjoint(rule.flags)]
        self._flows(module, scanner)
        return scanner.copied

    def _filled_for_mixins(self, module: Module, copied: Flags) -> dict[str, Flags]:
        """By the path of a file: attributes that its classes read and that a class made of them fills here."""
        found: dict[str, Flags] = {}
        copied = {name: flags for name, flags in copied.items() if not self._family.all.isdisjoint(flags)}
        bases = [base for node in module.tree.body if isinstance(node, ast.ClassDef) for base in node.bases]
        for base in bases if copied else ():
            owner = self._folded(base, module)
            if isinstance(owner, ClassRef) and owner.module.path != module.path:
                found[owner.module.path] = found.get(owner.module.path, {}) | copied
        return found

    def _scanner(self, module: Module, concerned: frozenset[str] = NO_FLAGS) -> Scanner:
        lines = lines_of(self._modules, module.path)
        return Scanner(module.path, lines, self._names, outside=True, concerned=concerned)

    def _flows(self, module: Module, scanner: Scanner) -> None:
        """Follow the values that a file hands on."""
        for function, owner in _functions_of(module):
            if not scanner.concerns(function):
                continue
            scanner.reading.enter(function, own=False)
            chosen = _chosen_in(function)
            for call in _calls_in(function):
                handed = {
                    place: flags
                    for place, value in arguments(call)
                    if not isinstance(value, ast.Lambda)
                    and (flags := scanner.reading.flags_in(value, scanner.copied) & self._family.all)
                }
                if handed:
                    for callee in chosen.get(dotted(call.func)) or [call.func]:
                        self._into(callee, handed, module, owner)

    def _into(
        self, callee: ast.expr, handed: Handed, module: Module, owner: ClassRef | None = None, depth: int = 0
    ) -> None:
        """Follow values into what is called, where it is a class or a function of the tree."""
        method = _method_of_self(callee)
        if method and owner is not None:
            found = self._method(owner, method)
            if found is not None:
                self._function(*found, handed, depth, own=True)
            return
        target = self._folded(callee, module)
        if isinstance(target, ClassRef):
            self._construct(target, handed, depth)
        elif isinstance(target, FunctionRef):
            self._function(None, target, handed, depth)

    def _function(
        self, owner: ClassRef | None, target: FunctionRef, handed: Handed, depth: int, *, own: bool = False
    ) -> None:
        tainted = by_name(target.node, handed, bound=own)
        if tainted and self._first_time(target.module.path, target.node, tainted):
            scanner = self._scanner(target.module)
            self._found += scanner.function(target.node, tainted)
            self._onward(target.node, tainted | scanner.carried, target.module, owner, depth)

    def _construct(self, callee: ClassRef, handed: Handed, depth: int) -> Flags:
        """Follow values into a constructor and those of its bases.

        Returns the attributes of the object that carry them afterwards.
        """
        owner, constructor = self._constructor(callee)
        if owner is None or constructor is None:
            return {}
        tainted = by_name(constructor, handed, bound=True)
        if not tainted or depth > HOPS_LIMIT:
            return {}
        key = _key(owner.module.path, constructor, tainted)
        if key not in self._been:
            self._been[key] = {}
            above, base = _super_call(constructor), self._base(owner)
            inherited = self._construct(base, _passed_on(above, tainted), depth) if above and base else {}
            scanner = self._scanner(owner.module)
            self._found += scanner.function(constructor, tainted | inherited)
            self._been[key] = dict(scanner.carried)
            self._methods(owner, constructor, tainted, self._been[key], depth)
            self._onward(constructor, tainted | self._been[key], owner.module, owner, depth)
        return self._been[key]

    def _methods(
        self, owner: ClassRef, constructor: ast.FunctionDef, tainted: Flags, attributes: Flags, depth: int
    ) -> None:
        """Follow the attributes that a constructor filled into the methods that it calls."""
        for name, handed in _methods_called(constructor, tainted | attributes).items():
            found = self._method(owner, name)
            if found is not None:
                where, method = found
                local = attributes | by_name(method.node, handed, bound=True)
                if local and self._first_time(method.module.path, method.node, local):
                    scanner = self._scanner(method.module)
                    self._found += scanner.function(method.node, local)
                    self._onward(method.node, local, method.module, where, depth)

    def _onward(self, function: Function, tainted: Flags, module: Module, owner: ClassRef | None, depth: int) -> None:
        """Follow what a function hands on of the values that it was handed."""
        for call in _calls_in(function) if depth < HOPS_LIMIT else ():
            onward = _passed_on(call, tainted)
            if onward:
                self._into(call.func, onward, module, owner, depth + 1)

    def _first_time(self, path: str, function: Function, tainted: Flags) -> bool:
        key = _key(path, function, tainted)
        new = key not in self._been
        self._been.setdefault(key, {})
        return new

    def _constructor(self, owner: ClassRef) -> tuple[ClassRef | None, ast.FunctionDef | None]:
        """The constructor of a class and the class that has it."""
        for each in self._line_of(owner):
            own = _own(each, "__init__")
            if isinstance(own, ast.FunctionDef):
                return each, own
        return None, None

    def _method(self, owner: ClassRef, name: str) -> tuple[ClassRef, FunctionRef] | None:
        """A method of a class or of its bases, and the class that has it."""
        for each in self._line_of(owner):
            own = _own(each, name)
            if own is not None:
                return each, FunctionRef(each.module, own)
        return None

    def _line_of(self, owner: ClassRef) -> Iterator[ClassRef]:
        """A class and those that it is made of."""
        here: ClassRef | None = owner
        for _ in range(BASES_LIMIT):
            if here is None:
                return
            yield here
            here = self._base(here)

    def _base(self, owner: ClassRef) -> ClassRef | None:
        """The base whose constructor `super()` finds: the first that has one or is given one by its own bases."""
        found = [base for each in owner.node.bases if isinstance(base := self._folded(each, owner.module), ClassRef)]
        return next((base for base in found if _own(base, "__init__") or base.node.bases), None)

    def _folded(self, callee: ast.expr, module: Module) -> ClassRef | FunctionRef | None:
        try:
            found = self._folder.fold(callee, Scope(module))
        except Unfoldable:
            return None
        return found if isinstance(found, ClassRef | FunctionRef) else None


def _key(path: str, function: Function, tainted: Flags) -> tuple[str, int, str]:
    return path, function.lineno, repr(sorted((name, sorted(flags)) for name, flags in tainted.items()))


def _own(owner: ClassRef, name: str) -> Function | None:
    """A method that a class itself has."""
    for each in owner.node.body:
        if isinstance(each, Function) and each.name == name:
            return each
    return None


def _passed_on(call: ast.Call, tainted: Flags) -> Handed:
    """The arguments of a call that carry values as they are."""
    return {place: tainted[name] for place, value in arguments(call) if (name := dotted(value)) in tainted}


def _methods_called(function: Function, tainted: Flags) -> dict[str, Handed]:
    """Methods of its own object that a function calls, and what it hands each of them."""
    found: dict[str, Handed] = {}
    for call in _calls_in(function):
        name = _method_of_self(call.func)
        if name:
            found.setdefault(name, {}).update(_passed_on(call, tainted))
    return found


def _super_call(constructor: ast.FunctionDef) -> ast.Call | None:
    for call in calls_in(constructor):
        match call.func:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"):
                return call
    return None


def _chosen_in(function: Function) -> dict[str, list[ast.expr]]:
    """By a local name: the classes that a function gives it, `cls = A if x else B`."""
    found: dict[str, list[ast.expr]] = {}
    for node in inside(function).assigned:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                values = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
                found.setdefault(name, []).extend(each for each in values if isinstance(each, ast.Name))
    return found


def _functions_of(module: Module) -> Iterator[tuple[Function, ClassRef | None]]:
    """The functions of a module and the methods of its classes, each with its class."""
    for node in module.tree.body:
        if isinstance(node, Function):
            yield node, None
        elif isinstance(node, ast.ClassDef):
            yield from ((inner, ClassRef(module, node)) for inner in node.body if isinstance(inner, Function))


def _calls_in(function: Function) -> list[ast.Call]:
    """Calls of a function's body, those of its base class's constructor apart."""
    found = calls_in(function)
    return [call for call in found if not (isinstance(call.func, ast.Attribute) and call.func.attr == "__init__")]


def _method_of_self(callee: ast.expr) -> str:
    """The method of `self.method`, empty for anything else."""
    match callee:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
    return ""
