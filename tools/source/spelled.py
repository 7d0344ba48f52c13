"""What the conditions of rules ask small functions of the tree for, spelled out among a rule's terms.

`attn_dp_enabled_of(cfg)` is `attn_dp_size > 1 or …`, `self.get_attention_backends()` a pair of flags, `Backend.FULL`
and `SUPPORTED` what they stand for. A function is small when it comes down to one expression: names that it gives,
branches that return. Nothing is run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from tools.source.annotated import record_fields
from tools.source.catalogue import FlagCatalogue
from tools.source.folding import Folder
from tools.source.modules import MISSING, FunctionRef, Member, Module, Modules, Scope
from tools.source.operations import Unfoldable
from tools.source.reading import Reading
from tools.source.rule import Rule
from tools.source.rules import handler_paths, names_of
from tools.source.syntax import Function, dotted, inside, parts_of
from tools.source.words import placed_in

TERMS_LIMIT: Final = 16
TEXT_LIMIT: Final = 800
RECORD: Final = "ServerArgs"


def spelled(rules: Iterable[Rule], modules: Modules, paths: Iterable[str], catalogue: FlagCatalogue) -> list[Rule]:
    """The rules, each with what its conditions ask for among its terms."""
    speller = _Speller(modules, handler_paths(paths), names_of(catalogue))
    return [speller.rule(rule) for rule in rules]


class _Speller:
    def __init__(self, modules: Modules, paths: list[str], names: frozenset[str]) -> None:
        self._folder = Folder(modules, record_fields)
        self._names = names
        self._handlers = [module for path in paths if (module := modules.by_path(path)) is not None]
        self._scopes: dict[tuple[str, str], Scope] = {}
        self._known: dict[tuple[str, str, str], tuple[str, Module] | None] = {}
        classes = (node for module in self._handlers for node in module.tree.body if isinstance(node, ast.ClassDef))
        record = next((node for node in classes if node.name == RECORD), None)
        self._methods = {each.name: each for each in record.body if isinstance(each, Function)} if record else {}
        self._record = next((each for each in self._handlers if record in each.tree.body), None)

    def rule(self, rule: Rule) -> Rule:
        module = next((each for each in self._handlers if each.path == rule.path), None)
        if module is None:
            return rule
        known = {term.partition(" = ")[0]: term.partition(" = ")[2] for term in rule.terms}
        found: list[str] = []
        pending = [(text, module) for text in (*rule.conditions, *known.values(), *placed_in(rule))]
        while pending and len(found) < TERMS_LIMIT:
            text, where = pending.pop(0)
            for asked in _asked(text):
                name = ast.unparse(asked)
                if name in known or name in self._names or len(found) >= TERMS_LIMIT:
                    continue
                spelling = self._spelling(asked, name, where, rule.where)
                if spelling is not None:
                    known[name] = spelling[0]
                    found.append(f"{name} = {spelling[0]}")
                    pending.append(spelling)
        return replace(rule, terms=(*rule.terms, *found)) if found else rule

    def _spelling(self, asked: ast.expr, name: str, module: Module, function: str) -> tuple[str, Module] | None:
        key = (module.path, function, name)
        if key not in self._known:
            self._known[key] = self._spell(asked, module, function)
        return self._known[key]

    def _spell(self, asked: ast.expr, module: Module, function: str) -> tuple[str, Module] | None:
        """What an expression stands for and the module in which that is to be read; None where it is not small."""
        if _of_self(asked):
            method = self._methods.get(_called(asked).removeprefix("self."))
            called = isinstance(asked, ast.Call) or (method is not None and bool(method.decorator_list))
            target = FunctionRef(self._record, method) if method and called and self._record else None
        elif isinstance(asked, ast.Call):
            found = self._named(asked.func, module, function)
            target = found if isinstance(found, FunctionRef) else None
        else:
            value = self._named(asked, module, function)
            plain = _plain(value.value if isinstance(value, Member) else value)
            return None if plain is None or len(plain) > TEXT_LIMIT else (plain, module)
        expression = None if target is None else self._expression(target, asked)
        return None if target is None or expression is None else (expression, target.module)

    def _named(self, node: ast.expr, module: Module, function: str) -> Any:
        """What a name stands for in the function of a rule, else in another handler that leads to it."""
        for where in (module, *self._handlers):
            try:
                return self._folder.fold(node, self._scope(where, function if where is module else ""))
            except Unfoldable:
                continue
        return MISSING

    def _scope(self, module: Module, function: str) -> Scope:
        """The names of a module, and those that one of its functions imports for itself."""
        key = (module.path, function)
        if key not in self._scopes:
            scope = self._scopes[key] = Scope(module)
            for node in inside(module.tree).functions if function else ():
                for each in ast.walk(node) if node.name == function else ():
                    if isinstance(each, (ast.Import, ast.ImportFrom)):
                        try:
                            self._folder.execute(each, scope)
                        except Unfoldable:
                            continue
        return self._scopes[key]

    def _expression(self, function: FunctionRef, asked: ast.expr) -> str | None:
        """What a small function returns for a call, on one line with flags by their bare destination."""
        given = _given(function.node, asked, bound=_of_self(asked))
        if given is None:
            return None
        reading = Reading(self._names, outside=False)
        reading.enter(function.node, own=_of_self(asked))
        returned = _Returned(reading, given).of(function.node.body)
        if returned is None:
            return None
        text = " ".join(ast.unparse(returned).split())
        return text if len(text) <= TEXT_LIMIT else None


class _Returned(ast.NodeTransformer):
    """What a body returns as one expression: flags bare, names replaced by what they were given."""

    def __init__(self, reading: Reading, given: dict[str, ast.expr]) -> None:
        self._reading = reading
        self._given = given

    def of(self, body: list[ast.stmt]) -> ast.expr | None:
        for place, statement in enumerate(body):
            match statement:
                case ast.Return(value=ast.expr() as value):
                    return self._put(value)
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self._given[name] = self._put(value)
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                    parts = [self._put(part) for part in parts_of(value, len(targets))]
                    self._given.update(zip(map(dotted, targets), parts, strict=True))
                case ast.If(test=test, body=inner, orelse=other) if _returns(inner):
                    rest = [*other, *body[place + 1 :]]
                    first, second = (_Returned(self._reading, dict(self._given)).of(each) for each in (inner, rest))
                    return ast.IfExp(self._put(test), first, second) if first and second else None
                case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.Pass():
                    pass
                case _:
                    return None
        return None

    def _put(self, node: ast.expr) -> ast.expr:
        # A copy: the tree is shared with whoever reads the module next.
        changed = self.visit(ast.parse(ast.unparse(node), mode="eval").body)
        return changed if isinstance(changed, ast.expr) else node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._given.get(node.id, node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        flag = self._reading.flag(node)
        return self.generic_visit(node) if flag is None else ast.Name(flag, ast.Load())

    def visit_Call(self, node: ast.Call) -> ast.AST:
        flag = self._reading.flag(node)
        return self.generic_visit(node) if flag is None else ast.Name(flag, ast.Load())


def _returns(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], (ast.Return, ast.If))


def _called(asked: ast.expr) -> str:
    return dotted(asked.func if isinstance(asked, ast.Call) else asked)


def _of_self(asked: ast.expr) -> bool:
    return _called(asked).startswith("self.")


def _given(function: Function, asked: ast.expr, *, bound: bool) -> dict[str, ast.expr] | None:
    """What the parameters of a function are given by a call; None where that is not plain."""
    wanted = function.args
    if wanted.vararg or wanted.kwarg:
        return None
    names = [each.arg for each in (*wanted.posonlyargs, *wanted.args)]
    found: dict[str, ast.expr] = dict(zip(reversed(names), reversed(wanted.defaults), strict=False))
    found |= {each.arg: value for each, value in zip(wanted.kwonlyargs, wanted.kw_defaults, strict=True) if value}
    if bound and names:
        found[names.pop(0)] = ast.Name("self", ast.Load())
    if isinstance(asked, ast.Call):
        if len(asked.args) > len(names) or any(isinstance(each, ast.Starred) for each in asked.args):
            return None
        found |= dict(zip(names, asked.args, strict=False))
        found |= {each.arg: each.value for each in asked.keywords if each.arg}
    everything = {*names, *(each.arg for each in wanted.kwonlyargs)}
    return found if everything <= set(found) else None


def _asked(text: str) -> Iterator[ast.expr]:
    """Calls, attributes and constants in a condition, those of `self` and of modules, the outermost first."""
    try:
        pending: list[ast.AST] = [ast.parse(text, mode="eval").body]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.Call) and dotted(node.func):
            yield node
            pending += [*node.args, *(each.value for each in node.keywords)]
            if isinstance(node.func, ast.Attribute):
                pending.append(node.func.value)
            continue
        if isinstance(node, (ast.Attribute, ast.Name)) and dotted(node):
            yield node
            continue
        pending += ast.iter_child_nodes(node)


def _plain(value: Any) -> str | None:
    """A constant as it would be written; None for what is none."""
    if isinstance(value, (str, int, float, bool)):
        return repr(value)
    if isinstance(value, (list, tuple, set, frozenset)) and value:
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else list(value)
        parts = [_plain(each.value if isinstance(each, Member) else each) for each in items]
        return None if None in parts else f"[{', '.join(part for part in parts if part)}]"
    return None
