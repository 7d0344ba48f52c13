"""The modules of a tree, parsed and never run, and the kinds of value that reading them can give."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class External:
    """A name of a package that is not in the tree, like argparse.SUPPRESS."""

    name: str


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record class; `default` is MISSING where there is none."""

    name: str
    default: Any


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an enum."""

    name: str
    value: Any


@dataclass(slots=True, eq=False)
class Module:
    """One file of the tree, parsed."""

    name: str
    path: str
    tree: ast.Module
    bound: dict[str, ast.AST] = field(default_factory=dict)
    stars: list[ast.ImportFrom] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class ClassRef:
    module: Module
    node: ast.ClassDef


@dataclass(frozen=True, slots=True, eq=False)
class FunctionRef:
    module: Module
    node: ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class Scope:
    """Where a name is looked up: local values, then the class, then the module."""

    module: Module
    local: dict[str, Any] = field(default_factory=dict)
    owner: ClassRef | None = None


MISSING: Final = External("MISSING")


@contextmanager
def uncollected() -> Iterator[None]:
    """While files are parsed the collector stands still: of the millions of nodes none is garbage, and to walk through
    them again and again takes three times as long as to make them.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


class Modules:
    """The modules of a tree, parsed when first asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: dict[str, Module | None] = {}

    def by_path(self, path: str) -> Module | None:
        """The module at a path from the package root; None if there is none or it does not parse."""
        name = _name_at(path)
        if name not in self._known:
            self._known[name] = self._parse(name, path)
        return self._known[name]

    def once(self, path: str) -> Module | None:
        """The same for a file that is looked through and let go: what is parsed here is not held on to."""
        name = _name_at(path)
        return self._known[name] if name in self._known else self._parse(name, path)

    def by_name(self, name: str) -> Module | None:
        """The module `sglang.a.b`; None if the tree has none."""
        if name in self._known:
            return self._known[name]
        if name != "sglang" and not name.startswith("sglang."):
            return None
        stem = name.removeprefix("sglang").lstrip(".").replace(".", "/")
        for path in (f"{stem}.py", f"{stem}/__init__.py".lstrip("/")):
            if (self.root / path).is_file():
                self._known[name] = self._parse(name, path)
                return self._known[name]
        self._known[name] = None
        return None

    def _parse(self, name: str, path: str) -> Module | None:
        try:
            tree = ast.parse((self.root / path).read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        module = Module(name, path, tree)
        _bind(module, tree.body)
        return module


def _name_at(path: str) -> str:
    return "sglang." + path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _bind(module: Module, body: list[ast.stmt]) -> None:
    """Note what each name of a module was last bound to; conditional bindings never replace plain ones."""
    nested: list[ast.stmt] = []
    for statement in body:
        match statement:
            case ast.Import() | ast.ImportFrom():
                _bind_import(module, statement)
            case ast.If(body=inner, orelse=other):
                nested += [*inner, *other]
            case ast.Try(body=inner, handlers=handlers):
                nested += [*inner, *(each for handler in handlers for each in handler.body)]
            case _:
                for name in _names_bound(statement):
                    module.bound[name] = statement
    if nested:
        behind = Module(module.name, module.path, module.tree)
        _bind(behind, nested)
        for name, node in behind.bound.items():
            module.bound.setdefault(name, node)
        module.stars += behind.stars


def _bind_import(module: Module, statement: ast.Import | ast.ImportFrom) -> None:
    for alias in statement.names:
        if alias.name == "*" and isinstance(statement, ast.ImportFrom):
            module.stars.append(statement)
        else:
            module.bound[alias.asname or alias.name.split(".")[0]] = statement


def _names_bound(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            return [name]
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
    return []


def absolute(module: Module, node: ast.ImportFrom) -> str:
    """The full name of the module an import reads from."""
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    if not module.path.endswith("__init__.py"):
        parts = parts[:-1]
    parts = parts[: len(parts) - node.level + 1]
    return ".".join([*parts, *([node.module] if node.module else [])])
