"""Record fields that carry their own command-line option: `name: A[type, "help" or Arg(...)] = default`.

Since 0.5.16 one dataclass declares them; in 0.5.23 namespaces do, collected into one record in a fixed order.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from tools.source.folding import Folder, last_name
from tools.source.modules import MISSING, ClassRef, External, Field, Module, Scope, absolute
from tools.source.operations import Unfoldable


@dataclass(frozen=True, slots=True, eq=False)
class Declared:
    """A field as written: its class, annotation and default."""

    name: str
    owner: ClassRef
    node: ast.AnnAssign

    @property
    def scope(self) -> Scope:
        return Scope(self.owner.module)

    def default(self, folder: Folder) -> Any:
        """Its default, MISSING if it has none. Raises Unfoldable."""
        return MISSING if self.node.value is None else folder.default(self.node.value, self.scope)


def fields_of(owner: ClassRef, folder: Folder) -> list[Declared]:
    """The fields of a record class in the order of the record."""
    sources = _namespaces(owner.module, folder)
    found: dict[str, Declared] = {}
    for source in sources or [owner]:
        for statement in source.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                name = statement.target.id
                if name.startswith("_NS") or "ClassVar" in ast.unparse(statement.annotation)[:20]:
                    continue
                found[name] = Declared(name, source, statement)
    if not sources:
        return list(found.values())
    order = _positional_order(folder)
    known = [name for name in order if name in found]
    chosen = set(known)
    inputs = [found[name] for name in (*known, *(name for name in found if name not in chosen))]
    return [declared for declared in inputs if not _derived(declared)]


def record_fields(owner: ClassRef, folder: Folder) -> list[Field]:
    """The fields of a record class with their defaults, as `dataclasses.fields` of it would say."""
    found = []
    for declared in fields_of(owner, folder):
        try:
            found.append(Field(declared.name, declared.default(folder)))
        except Unfoldable:
            found.append(Field(declared.name, External("unknown")))
    return found


def _namespaces(module: Module, folder: Folder) -> list[ClassRef]:
    """The classes handed to `collect_input_fields` when a record is put together from namespaces."""
    for statement in module.tree.body:
        match statement:
            case ast.Assign(value=ast.Call(func=ast.Name(id="collect_input_fields"), args=[classes])):
                try:
                    found = folder.fold(classes, Scope(module))
                except Unfoldable:
                    return []
                return [each for each in found if isinstance(each, ClassRef)]
    return []


def _positional_order(folder: Folder) -> tuple[str, ...]:
    module = folder.modules.by_name("sglang.srt.arg_groups.field_order")
    if module is None:
        return ()
    try:
        return tuple(folder.module_name(module, "POSITIONAL_FIELD_ORDER"))
    except Unfoldable:
        return ()


def _derived(declared: Declared) -> bool:
    """Whether a field is worked out at run time and is no input."""
    annotation = ast.unparse(declared.node.annotation)
    return annotation.startswith("ClassVar") or "Derived(" in annotation


@dataclass(frozen=True, slots=True)
class Option:
    """What an annotation says about the option: the type expression, and Arg's keywords as nodes."""

    kind: ast.expr
    keywords: dict[str, ast.expr]


def option_of(declared: Declared, folder: Folder) -> Option | None:
    """The option an annotation declares; None for a field without one."""
    annotation = opened(declared.node.annotation, declared.scope, folder)
    if not isinstance(annotation, ast.Subscript) or last_name(annotation.value) not in ("A", "Annotated"):
        return None
    parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    for part in parts[1:]:
        if isinstance(part, ast.Call) and last_name(part.func) == "Arg":
            keywords = {keyword.arg: keyword.value for keyword in part.keywords if keyword.arg}
            if part.args:
                keywords.setdefault("help", part.args[0])
            return Option(parts[0], keywords)
        if isinstance(part, (ast.Constant, ast.JoinedStr, ast.BinOp)):
            return Option(parts[0], {"help": part})
    return None


def opened(node: ast.expr, scope: Scope, folder: Folder) -> ast.expr:
    """A type expression with a name that stands for one, or a quoted one, replaced by it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            return ast.parse(node.value, mode="eval").body
        except SyntaxError:
            return node
    if isinstance(node, ast.Name):
        bound = scope.module.bound.get(node.id)
        if isinstance(bound, ast.ImportFrom):
            source = folder.modules.by_name(absolute(scope.module, bound))
            bound = None if source is None else source.bound.get(node.id)
        if isinstance(bound, (ast.Assign, ast.AnnAssign)) and isinstance(bound.value, ast.Subscript):
            return bound.value
    return node


def without_none(node: ast.expr, scope: Scope, folder: Folder) -> ast.expr:
    """X for Optional[X], Union[X, None] and X | None; the node itself otherwise."""
    node = opened(node, scope, folder)
    if isinstance(node, ast.Subscript) and last_name(node.value) == "Optional":
        return opened(node.slice, scope, folder)
    parts: list[ast.expr] = []
    if isinstance(node, ast.Subscript) and last_name(node.value) == "Union" and isinstance(node.slice, ast.Tuple):
        parts = node.slice.elts
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        parts = _alternatives(node)
    others = [part for part in parts if not (isinstance(part, ast.Constant) and part.value is None)]
    return opened(others[0], scope, folder) if len(others) == 1 else node


def _alternatives(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_alternatives(node.left), *_alternatives(node.right)]
    return [node]


def literal_values(node: ast.expr, scope: Scope, folder: Folder) -> list[Any] | None:
    """The values of Literal[...]; None for any other type."""
    if not isinstance(node, ast.Subscript) or last_name(node.value) != "Literal":
        return None
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return [folder.fold(part, scope) for part in parts]


def element_of(node: ast.expr) -> ast.expr | None:
    """X for list[X] and List[X]; None for any other type."""
    if isinstance(node, ast.Subscript) and last_name(node.value) in ("list", "List"):
        return node.slice
    return None
