"""Values of expressions in a tree, worked out from its syntax alone: constants, lists, enums, small functions.

What cannot be known without running code raises Unfoldable with the expression. Environment variables have the default
that the tree declares for them, `sys.modules` is empty: the state of a process that has just started.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import Any, Final

from tools.source.modules import (
    MISSING,
    ClassRef,
    External,
    Field,
    FunctionRef,
    Member,
    Module,
    Modules,
    Scope,
    absolute,
)
from tools.source.operations import (
    METHODS,
    MUTATORS,
    PURE,
    Meter,
    Unfoldable,
    binary,
    changed,
    compare,
    formatted,
    method,
    pure,
)

TYPES: Final = ("str", "int", "float", "bool", "list", "dict", "set", "tuple", "object", "bytes")
# What an expression of these kinds gives is made by it; a name or an attribute gives what was made before.
_MAKERS: Final = (
    *(ast.Constant, ast.JoinedStr, ast.BinOp, ast.List, ast.Tuple, ast.Set, ast.Dict),
    *(ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.Call),
)
_FAILURES: Final = (*(TypeError, ValueError, KeyError, IndexError, AttributeError, ZeroDivisionError, OverflowError),)


class Folder:
    """Works values out. One for each tree; results of module names are kept.

    `record_fields` collects the fields of a record class, see annotated.py: how is the catalogue's to say.
    """

    def __init__(self, modules: Modules, record_fields: Callable[[ClassRef, Folder], list[Field]]) -> None:
        self.modules = modules
        self._record_fields = record_fields
        self._values: dict[tuple[str, str], Any] = {}
        self._busy: set[tuple[str, str]] = set()
        self._members: dict[ast.ClassDef, list[Member]] = {}
        self._meter = Meter()

    def fold(self, node: ast.AST, scope: Scope) -> Any:
        """The value of an expression. Raises Unfoldable."""
        with self._meter:
            try:
                value = self._fold(node, scope)
                return self._meter.made(value) if isinstance(node, _MAKERS) else value
            except _FAILURES as error:
                raise Unfoldable(str(error)) from error

    def _fold(self, node: ast.AST, scope: Scope) -> Any:  # noqa: C901 - one case for each kind of expression
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self.name(name, scope)
            case ast.Attribute(value=inner, attr=attribute):
                return self._attribute(self.fold(inner, scope), attribute)
            case ast.List(elts=items):
                return self._items(items, scope)
            case ast.Tuple(elts=items):
                return tuple(self._items(items, scope))
            case ast.Set(elts=items):
                return set(self._items(items, scope))
            case ast.Dict(keys=keys, values=values):
                found: dict[Any, Any] = {}
                for key, item in zip(keys, values, strict=True):
                    if key is None:
                        found.update(self.fold(item, scope))
                    else:
                        found[self.fold(key, scope)] = self._loosely(item, scope)
                return found
            case ast.JoinedStr(values=parts):
                return "".join(self._part(part, scope) for part in parts)
            case ast.BinOp(left=left, op=operator, right=right):
                return binary(operator, self.fold(left, scope), self.fold(right, scope))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.fold(operand, scope)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self.fold(operand, scope)
            case ast.BoolOp(op=operator, values=values):
                return self._boolean(operator, values, scope)
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                return compare(operator, self.fold(left, scope), self.fold(right, scope))
            case ast.IfExp(test=test, body=body, orelse=other):
                return self.fold(body if self.fold(test, scope) else other, scope)
            case ast.Subscript(value=inner, slice=index):
                return self.fold(inner, scope)[self.fold(index, scope)]
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
                return self._comprehension(node, scope)
            case ast.Call():
                return self._call(node, scope)
        raise Unfoldable(ast.unparse(node))

    def _items(self, items: list[ast.expr], scope: Scope) -> list[Any]:
        found: list[Any] = []
        for item in items:
            if isinstance(item, ast.Starred):
                found.extend(self.iterate(self.fold(item.value, scope)))
            else:
                found.append(self.fold(item, scope))
        return found

    def _loosely(self, node: ast.expr, scope: Scope) -> Any:
        """A value of a dict whose keys are what matters."""
        try:
            return self.fold(node, scope)
        except Unfoldable:
            return External(ast.unparse(node))

    def _part(self, part: ast.expr, scope: Scope) -> str:
        if not isinstance(part, ast.FormattedValue):
            return str(self.fold(part, scope))
        spec = "" if part.format_spec is None else str(self.fold(part.format_spec, scope))
        conversion = "" if part.conversion < 0 else chr(part.conversion)
        return str(self._meter.made(formatted(self.fold(part.value, scope), conversion, spec)))

    def _boolean(self, operator: ast.boolop, values: list[ast.expr], scope: Scope) -> Any:
        result: Any = None
        for value in values:
            result = self.fold(value, scope)
            if bool(result) is isinstance(operator, ast.Or):
                return result
        return result

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp, scope: Scope) -> Any:
        if len(node.generators) != 1 or not isinstance(node.generators[0].target, ast.Name):
            raise Unfoldable(ast.unparse(node))
        loop = node.generators[0]
        assert isinstance(loop.target, ast.Name)
        found: list[Any] = []
        inner = Scope(scope.module, dict(scope.local), scope.owner)
        for item in self.iterate(self.fold(loop.iter, scope)):
            inner.local[loop.target.id] = item
            if all(self.fold(test, inner) for test in loop.ifs):
                found.append(self.fold(node.elt, inner))
        return set(found) if isinstance(node, ast.SetComp) else found

    def iterate(self, value: Any) -> list[Any]:
        """The items of a value, members for an enum. Raises Unfoldable."""
        if isinstance(value, ClassRef):
            return self.members(value)
        if isinstance(value, (list, tuple, set, frozenset, dict, str)) or type(value).__name__.startswith("dict_"):
            return list(value)
        raise Unfoldable("not a sequence that is known")

    def name(self, name: str, scope: Scope) -> Any:
        """What a name stands for. Raises Unfoldable."""
        if name in scope.local:
            return scope.local[name]
        if scope.owner is not None:
            value = self.class_attribute(scope.owner, name)
            if value is not MISSING:
                return value
        return self.module_name(scope.module, name)

    def module_name(self, module: Module, name: str) -> Any:
        """What a name of a module stands for. Raises Unfoldable."""
        key = (module.name, name)
        if key not in self._values:
            if key in self._busy:
                raise Unfoldable(name)
            self._busy.add(key)
            try:
                with self._meter:
                    self._values[key] = self._module_name(module, name)
            finally:
                self._busy.discard(key)
        return self._values[key]

    def _module_name(self, module: Module, name: str) -> Any:
        node = module.bound.get(name)
        match node:
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                try:
                    return self.fold(value, Scope(module))
                except Unfoldable:
                    earlier = self._class_of(module, name)
                    if earlier is not None:
                        return earlier
                    raise
            case ast.ClassDef():
                return ClassRef(module, node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return FunctionRef(module, node)
            case ast.Import() | ast.ImportFrom():
                return self.imported(module, node, name)
        for star in module.stars:
            source = self.modules.by_name(absolute(module, star))
            if source is not None:
                try:
                    return self.module_name(source, name)
                except Unfoldable:
                    continue
        if name in TYPES or name in PURE or hasattr(builtins, name):
            return External(name)
        raise Unfoldable(name)

    def _class_of(self, module: Module, name: str) -> ClassRef | None:
        """A class that was written down before its name was bound again to something made from it."""
        self._meter.spend(len(module.tree.body))
        for statement in module.tree.body:
            if isinstance(statement, ast.ClassDef) and statement.name == name:
                return ClassRef(module, statement)
        return None

    def imported(self, module: Module, node: ast.Import | ast.ImportFrom, name: str) -> Any:
        """What an import binds a name to. Raises Unfoldable."""
        self._meter.spend(len(node.names))
        for alias in node.names:
            if (alias.asname or alias.name.split(".")[0]) != name:
                continue
            if isinstance(node, ast.Import):
                found = self.modules.by_name(alias.name if alias.asname else alias.name.split(".")[0])
                return found or External(alias.name if alias.asname else name)
            base = absolute(module, node)
            source = self.modules.by_name(base)
            if source is None:
                inner = self.modules.by_name(f"{base}.{alias.name}")
                return inner or External(f"{base}.{alias.name}")
            try:
                return self.module_name(source, alias.name)
            except Unfoldable:
                inner = self.modules.by_name(f"{base}.{alias.name}")
                if inner is None:
                    raise
                return inner
        raise Unfoldable(name)

    def _attribute(self, value: Any, attribute: str) -> Any:
        match value:
            case Module():
                return self.module_name(value, attribute)
            case External(name=name):
                return External(f"{name}.{attribute}")
            case Member(name=name, value=inner):
                if attribute == "name":
                    return name
                if attribute == "value":
                    return inner
            case Field(name=name, default=default):
                return name if attribute == "name" else default
            case ClassRef():
                member = next((each for each in self.members(value) if each.name == attribute), None)
                found = member if member is not None else self.class_attribute(value, attribute)
                if found is not MISSING:
                    return found
        raise Unfoldable(attribute)

    def class_attribute(self, owner: ClassRef, name: str) -> Any:
        """The value of a name in a class body, or of a record's field by default; MISSING if it has none."""
        with self._meter:
            self._meter.spend(len(owner.node.body))
            found = self._own_attribute(owner, name)
            return self._inherited(owner, name) if found is MISSING else found

    def _own_attribute(self, owner: ClassRef, name: str) -> Any:
        for statement in reversed(owner.node.body):
            match statement:
                case ast.AnnAssign(target=ast.Name(id=found), value=value) if found == name:
                    return MISSING if value is None else self.default(value, Scope(owner.module))
                case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                    return self.fold(value, Scope(owner.module, {}, _before(owner, statement)))
                case ast.FunctionDef(name=found) if found == name:
                    return FunctionRef(owner.module, statement)
        return MISSING

    def _inherited(self, owner: ClassRef, name: str) -> Any:
        for base in owner.node.bases:
            try:
                above = self.fold(base, Scope(owner.module))
            except Unfoldable:
                continue
            if isinstance(above, ClassRef):
                value = self.class_attribute(above, name)
                if value is not MISSING:
                    return value
        return MISSING

    def default(self, node: ast.expr, scope: Scope) -> Any:
        """A field's default: `field(default=...)` and factories opened. Raises Unfoldable."""
        if isinstance(node, ast.Call) and last_name(node.func) == "field":
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            if "default" in given:
                return self.fold(given["default"], scope)
            if "default_factory" in given:
                factory = given["default_factory"]
                body = factory.body if isinstance(factory, ast.Lambda) else ast.Call(factory, [], [])
                return self.fold(body, scope)
            return MISSING
        return self.fold(node, scope)

    def members(self, owner: ClassRef) -> list[Member]:
        """The members of an enum class in order; empty for any other class."""
        if owner.node not in self._members:
            with self._meter:
                self._meter.spend(len(owner.node.body))
                self._members[owner.node] = self._read_members(owner)
        return self._members[owner.node]

    def _read_members(self, owner: ClassRef) -> list[Member]:
        names = [last_name(base) for base in owner.node.bases]
        if not any(name.endswith(("Enum", "Flag")) for name in names):
            return []
        found: list[Member] = []
        for statement in owner.node.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if not name.startswith("_"):
                    if isinstance(value, ast.Call) and last_name(value.func) == "auto":
                        text = any(base in ("StrEnum", "str") for base in names)
                        found.append(Member(name, name.lower() if text else len(found) + 1))
                    else:
                        found.append(Member(name, self._loosely(value, Scope(owner.module))))
        return found

    def _call(self, node: ast.Call, scope: Scope) -> Any:
        if isinstance(node.func, ast.Attribute):
            declared = self._environment(node, scope)
            if declared is not MISSING:
                return declared
            text = ast.unparse(node.func)
            if text == "sys.modules.get":
                return None
            if text.endswith(("structs.fields", "dataclasses.fields")) and len(node.args) == 1:
                owner = self.fold(node.args[0], scope)
                if isinstance(owner, ClassRef):
                    return self._record_fields(owner, self)
            receiver = self.fold(node.func.value, scope)
            if isinstance(receiver, (Module, ClassRef)):
                callee = self._attribute(receiver, node.func.attr)
                return self._invoke(callee, node, scope)
            if node.func.attr in METHODS and not node.keywords:
                return method(receiver, node.func.attr, self._items(node.args, scope))
            raise Unfoldable(ast.unparse(node))
        return self._invoke(self.fold(node.func, scope), node, scope)

    def _invoke(self, callee: Any, node: ast.Call, scope: Scope) -> Any:
        if isinstance(callee, External):
            if callee.name == "next" and node.args:
                return self.iterate(self.fold(node.args[0], scope))[0]
            if callee.name in PURE and not node.keywords:
                arguments = [self.fold(each, scope) for each in node.args]
                if callee.name in ("list", "tuple", "set", "sorted", "len", "frozenset") and arguments:
                    arguments[0] = self.iterate(arguments[0])
                return pure(callee.name, arguments)
        if isinstance(callee, FunctionRef):
            return self.run(callee, node, scope)
        if isinstance(callee, ClassRef) and len(node.args) == 1:
            value = self.fold(node.args[0], scope)
            for member in self.members(callee):
                if member.value == value:
                    return member
        raise Unfoldable(ast.unparse(node))

    def _environment(self, node: ast.Call, scope: Scope) -> Any:
        """The declared default of `envs.NAME.get()`; MISSING for any other call."""
        match node.func:
            case ast.Attribute(attr="get", value=ast.Attribute(value=ast.Name(id="envs"), attr=name)):
                module = self.modules.by_name("sglang.srt.environ")
                owner = None if module is None else module.bound.get("Envs")
                body = owner.body if isinstance(owner, ast.ClassDef) else []
                self._meter.spend(len(body))
                for statement in body:
                    match statement:
                        case ast.Assign(targets=[ast.Name(id=found)], value=ast.Call(args=[default, *_])):
                            if found == name and module is not None:
                                return self.fold(default, Scope(module))
        return MISSING

    def run(self, function: FunctionRef, call: ast.Call, scope: Scope) -> Any:
        """The value a small function returns. Raises Unfoldable for what is not small."""
        arguments = function.node.args
        names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
        local: dict[str, Any] = {}
        for name, default in zip(reversed(names), reversed(arguments.defaults), strict=False):
            local[name] = self.fold(default, Scope(function.module))
        for each, default_node in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if default_node is not None:
                local[each.arg] = self.fold(default_node, Scope(function.module))
        local.update(zip(names, self._items(call.args, scope), strict=False))
        local.update({each.arg: self.fold(each.value, scope) for each in call.keywords if each.arg})
        inner = Scope(function.module, local)
        for statement in function.node.body:
            returned = self.execute(statement, inner)
            if returned is not MISSING:
                return returned
        return None

    def execute(self, statement: ast.stmt, scope: Scope) -> Any:
        """Carry out one statement on the scope's local values; what it returns, or MISSING. Raises Unfoldable."""
        with self._meter:
            return self._execute(statement, scope)

    def _execute(self, statement: ast.stmt, scope: Scope) -> Any:
        match statement:
            case ast.Return(value=value):
                return None if value is None else self.fold(value, scope)
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                scope.local[name] = self.fold(value, scope)
            case ast.AugAssign(target=ast.Name(id=name), op=operator, value=value):
                made = binary(operator, self.name(name, scope), self.fold(value, scope))
                scope.local[name] = self._meter.made(made)
            case ast.Import() | ast.ImportFrom():
                for alias in statement.names:
                    name = alias.asname or alias.name.split(".")[0]
                    scope.local[name] = self.imported(scope.module, statement, name)
            case ast.If(test=test, body=body, orelse=other):
                for inner in body if self.fold(test, scope) else other:
                    returned = self.execute(inner, scope)
                    if returned is not MISSING:
                        return returned
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=mutator)) as call) if (
                mutator in MUTATORS and isinstance(scope.local.get(name), (list, set, dict))
            ):
                made = changed(scope.local[name], mutator, self._items(call.args, scope))
                scope.local[name] = self._meter.made(made)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case _:
                raise Unfoldable(ast.unparse(statement)[:200])
        return MISSING


def _before(owner: ClassRef, statement: ast.stmt) -> ClassRef:
    """The class as far as it was defined when a statement of its body ran."""
    node = ast.ClassDef(owner.node.name, [], [], owner.node.body[: owner.node.body.index(statement)], [])
    return ClassRef(owner.module, node)


def last_name(node: ast.AST) -> str:
    """The last part of a dotted name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
