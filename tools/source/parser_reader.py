"""The parser of a version, read from `add_cli_args`: explicit arguments, annotated fields, or both.

argparse up to 0.5.12 (`parser.add_argument` one by one), annotated dataclass in 0.5.16, namespaces in 0.5.23: the
statements of `ServerArgs.add_cli_args` are followed in order whatever the generation.
"""

from __future__ import annotations

import ast
import re
from typing import Any, Final

from tools.source.annotated import (
    Declared,
    element_of,
    fields_of,
    literal_values,
    option_of,
    record_fields,
    without_none,
)
from tools.source.catalogue import Choice, Dynamic, Flag, FlagCatalogue
from tools.source.errors import SourceUnavailable
from tools.source.folding import Folder
from tools.source.modules import MISSING, ClassRef, External, FunctionRef, Member, Modules, Scope
from tools.source.operations import Unfoldable

SERVER_ARGS: Final = "srt/server_args.py"
DEPRECATED: Final = re.compile(
    r"^\W*(?:note\W+)?(?:this (?:flag|option|argument) is )?(?:[\w-]+\W+){0,2}?deprecated\b"
    r"|[(\[]deprecated\b|\bis deprecated\b",
    re.I,
)
INSTEAD: Final = re.compile(
    r"(?:use|favou?r of|replaced by|renamed to|alias (?:of|for))\W+(?:the )?(--[a-z0-9][a-z0-9-]*)", re.I
)


def read_flags(modules: Modules, version: str) -> FlagCatalogue:
    """The catalogue of a tree. Raises SourceUnavailable when it has no server arguments that can be read."""
    module = modules.by_path(SERVER_ARGS)
    folder = Folder(modules, record_fields)
    owner = None if module is None else _class(module.tree)
    if module is None or owner is None:
        raise SourceUnavailable(
            f"{SERVER_ARGS} of this tree defines no ServerArgs.", "Name another version or another tree."
        )
    record = ClassRef(module, owner)
    reader = _Reader(folder, record)
    method = folder.class_attribute(record, "add_cli_args")
    if not isinstance(method, FunctionRef):
        raise SourceUnavailable(
            f"{SERVER_ARGS} of this tree has no add_cli_args.", "Name another version or another tree."
        )
    reader.follow(method.node.body, Scope(method.module))
    names = tuple(declared.name for declared in fields_of(record, folder))
    return FlagCatalogue(version, tuple(reader.flags), names)


def _class(tree: ast.Module) -> ast.ClassDef | None:
    return next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "ServerArgs"), None)


class _Reader:
    def __init__(self, folder: Folder, record: ClassRef) -> None:
        self.folder = folder
        self.record = record
        self.flags: list[Flag] = []
        self._groups = {"parser"}

    def follow(self, body: list[ast.stmt], scope: Scope) -> None:
        """The statements of a function that fills a parser, in order."""
        for statement in body:
            match statement:
                case ast.Expr(value=ast.Call() as call) if self._registers(call, scope):
                    continue
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(attr=made))) if (
                    made.startswith("add_") and made.endswith("group")
                ):
                    self._groups.add(name)
                case ast.If(test=test, body=inner, orelse=other):
                    self.follow(self._branch(test, inner, other, scope), scope)
                case ast.For(target=ast.Name(id=name), iter=items, body=inner):
                    for item in self._items(items, scope):
                        scope.local[name] = item
                        self.follow(inner, scope)
                case ast.With(body=inner) | ast.Try(body=inner):
                    self.follow(inner, scope)
                case _:
                    self._carry_out(statement, scope)

    def _branch(self, test: ast.expr, body: list[ast.stmt], other: list[ast.stmt], scope: Scope) -> list[ast.stmt]:
        try:
            return body if self.folder.fold(test, scope) else other
        except Unfoldable:
            return [*body, *other]

    def _items(self, node: ast.expr, scope: Scope) -> list[Any]:
        try:
            return self.folder.iterate(self.folder.fold(node, scope))
        except Unfoldable:
            return []

    def _carry_out(self, statement: ast.stmt, scope: Scope) -> None:
        try:
            self.folder.execute(statement, scope)
        except Unfoldable:
            for target in getattr(statement, "targets", ()):
                if isinstance(target, ast.Name):
                    scope.local.pop(target.id, None)

    def _registers(self, call: ast.Call, scope: Scope) -> bool:
        """Whether a call fills the parser; if so it is followed."""
        match call.func:
            case ast.Attribute(value=ast.Name(id=receiver), attr="add_argument") if receiver in self._groups:
                self._explicit(call, scope)
                return True
            case ast.Name(id="add_cli_args_from_dataclass") | ast.Attribute(attr="add_cli_args_from_dataclass"):
                for declared in fields_of(self._record_of(call, scope), self.folder):
                    self._annotated(declared)
                return True
        passes_on = any(isinstance(each, ast.Name) and each.id in self._groups for each in call.args)
        if passes_on:
            try:
                function = self.folder.fold(call.func, scope)
            except Unfoldable:
                return False
            if isinstance(function, FunctionRef):
                self.follow(function.node.body, Scope(function.module))
                return True
        return False

    def _record_of(self, call: ast.Call, scope: Scope) -> ClassRef:
        if len(call.args) > 1:
            try:
                found = self.folder.fold(call.args[1], scope)
            except Unfoldable:
                return self.record
            if isinstance(found, ClassRef):
                return found
        return self.record

    def _explicit(self, call: ast.Call, scope: Scope) -> None:
        names = [str(name) for name in (self._value(each, scope) for each in call.args) if isinstance(name, str)]
        given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        for keyword in call.keywords:
            if keyword.arg is None and isinstance(keyword.value, ast.Dict):
                for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
                    if isinstance(key, ast.Constant):
                        given[str(key.value)] = value
        line = call.args[0].lineno if call.args else call.lineno
        self._add(names, given, scope, scope.module.path, line, {})

    def _annotated(self, declared: Declared) -> None:
        """What `add_cli_args_from_dataclass` does with a field (sglang 0.5.23 srt/arg_groups/arg_utils.py)."""
        option = option_of(declared, self.folder)
        if option is None:
            return
        given = dict(option.keywords)
        scope = declared.scope
        if self._folded(given.pop("no_cli", None), scope):
            return
        name = self._folded(given.pop("cli_name", None), scope) or "--" + declared.name.replace("_", "-")
        names = [name, *(self._folded(given.pop("aliases", None), scope) or [])]
        known: dict[str, Any] = {"dest": declared.name}
        if declared.node.value is not None:
            try:
                known["default"] = declared.default(self.folder)
            except Unfoldable:
                known["default"] = Dynamic(ast.unparse(declared.node.value))
        required = self._folded(given.pop("required", None), scope)
        known["fallback"] = self._folded(given.pop("fallback", None), scope)
        if "action" not in given:
            self._typed(option.kind, given, known, scope)
            without = known.get("default", MISSING) is MISSING
            known["required"] = bool(required is True or (required is None and without)) and known.pop("scalar", False)
        else:
            extra = given.pop("action_kwargs", None)
            if isinstance(extra, ast.Dict):
                for key, value in zip(extra.keys, extra.values, strict=True):
                    if isinstance(key, ast.Constant):
                        given[str(key.value)] = value
        self._add(names, given, scope, scope.module.path, declared.node.lineno, known)

    def _typed(self, kind: ast.expr, given: dict[str, ast.expr], known: dict[str, Any], scope: Scope) -> None:
        """How a field's type becomes type, choices and number of values."""
        inner = without_none(kind, scope, self.folder)
        parser = given.pop("type_parser", None)
        literals = literal_values(inner, scope, self.folder)
        element = element_of(inner)
        if literals is not None:
            known["type"] = _type_name(parser) if parser is not None else type(literals[0]).__name__
            if "choices" not in given:
                known["choices"] = literals
            given.pop("nargs", None)
        elif element is not None and parser is None:
            known["type"] = _plain_type(element)
            given.setdefault("nargs", ast.Constant("+"))
        elif isinstance(inner, ast.Name) and inner.id == "bool":
            known |= {"type": "bool", "action": "store_true"}
            for unused in ("choices", "nargs"):
                given.pop(unused, None)
        else:
            known["type"] = _type_name(parser) if parser is not None else _plain_type(inner)
            known["scalar"] = True

    def _add(
        self, names: list[str], given: dict[str, ast.expr], scope: Scope, path: str, line: int, known: dict[str, Any]
    ) -> None:
        """One action: what is known already, what its keywords say, what its class makes of the rest."""
        if not names:
            return
        values = {key: self._value(node, scope) for key, node in given.items() if key not in ("type", "action")}
        action = known.get("action") or self._action(given.get("action"), scope)
        values |= {key: value for key, value in known.items() if value is not MISSING}
        if isinstance(action, ClassRef):
            values = self._declared_by(action) | values
        kind = action.node.name if isinstance(action, ClassRef) else str(action)
        options = _with_negations(names) if kind == "BooleanOptionalAction" else tuple(names)
        nargs = values.get("nargs")
        if kind in ("store_true", "store_false", "store_const", "append_const", "count", "BooleanOptionalAction"):
            nargs = 0
        default = values.get("default", {"store_true": False, "store_false": True}.get(kind))
        help_text = _text(values.get("help"))
        deprecated, replacement = _retired(kind, help_text, values)
        type_name = values.get("type") or (_type_name(given["type"]) if "type" in given else "str")
        self.flags.append(
            Flag(
                names=options,
                dest=str(values.get("dest") or _dest(options)),
                type="bool" if nargs == 0 else str(type_name),
                default=_plain(default),
                choices=_choices(values.get("choices")),
                required=bool(values.get("required", False)),
                help=help_text,
                deprecated=deprecated,
                replacement=replacement,
                nargs=nargs if isinstance(nargs, (str, int)) else None,
                path=path,
                line=line,
                fallback=_plain(values.get("fallback")),
            )
        )

    def _declared_by(self, action: ClassRef) -> dict[str, Any]:
        """The keywords that an action class fills in itself: the defaults of its constructor."""
        for statement in action.node.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
                arguments = statement.args
                names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
                pairs = dict(zip(reversed(names), reversed(arguments.defaults), strict=False))
                pairs |= {
                    each.arg: node
                    for each, node in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
                    if node is not None
                }
                scope = Scope(action.module)
                known = {key: self._value(node, scope) for key, node in pairs.items()}
                for call in ast.walk(statement):
                    if (
                        isinstance(call, ast.Call)
                        and isinstance(call.func, ast.Attribute)
                        and call.func.attr == "__init__"
                    ):
                        for keyword in call.keywords:
                            if keyword.arg and isinstance(keyword.value, ast.Constant):
                                known[keyword.arg] = keyword.value.value
                wanted = ("nargs", "default", "const", "required", "choices", "type")
                return {key: value for key, value in known.items() if key in wanted}
        return {}

    def _action(self, node: ast.expr | None, scope: Scope) -> Any:
        if node is None:
            return ""
        value = self._value(node, scope)
        if isinstance(value, External):
            return value.name.rpartition(".")[2]
        return value if isinstance(value, (ClassRef, str)) else ast.unparse(node).rpartition(".")[2]

    def _value(self, node: ast.expr, scope: Scope) -> Any:
        try:
            return self.folder.fold(node, scope)
        except Unfoldable:
            return Dynamic(ast.unparse(node))

    def _folded(self, node: ast.expr | None, scope: Scope) -> Any:
        if node is None:
            return None
        value = self._value(node, scope)
        return None if isinstance(value, Dynamic) else value


def _with_negations(names: list[str]) -> tuple[str, ...]:
    """Each long option followed by its `--no-` twin, as argparse.BooleanOptionalAction adds them."""
    return tuple(each for name in names for each in ((name, f"--no-{name[2:]}") if name.startswith("--") else (name,)))


def _dest(names: tuple[str, ...]) -> str:
    longest = next((name for name in names if name.startswith("--")), names[0])
    return longest.lstrip("-").replace("-", "_")


def _type_name(node: ast.expr) -> str:
    return "callable" if isinstance(node, ast.Lambda) else ast.unparse(node)


def _plain_type(node: ast.expr) -> str:
    name = node.id if isinstance(node, ast.Name) else ""
    return name if name in ("str", "int", "float") else "str"


def _text(value: Any) -> str:
    if isinstance(value, Dynamic):
        try:
            node = ast.parse(value.expression, mode="eval").body
        except SyntaxError:
            return value.expression
        parts = [
            str(each.value) if isinstance(each, ast.Constant) else "{...}"
            for each in (node.values if isinstance(node, ast.JoinedStr) else [])
        ]
        return "".join(parts) or value.expression
    return value if isinstance(value, str) else ""


def _retired(kind: str, help_text: str, values: dict[str, Any]) -> tuple[str | None, str | None]:
    """The text that says a flag is deprecated, and the flag to use instead."""
    said = help_text
    error = values.get("error_message")
    if isinstance(error, str):
        said = f"{help_text} {error}".strip()
    if "Deprecated" not in kind and not DEPRECATED.search(help_text):
        return None, None
    new = values.get("new_flag")
    if isinstance(new, str):
        return said or f"Use {new} instead.", new.split("=")[0].split(" ")[0]
    found = INSTEAD.search(said)
    return said or "deprecated", found[1] if found else None


def _plain(value: Any) -> Any:
    """A value as data: what is no data is dynamic."""
    match value:
        case External(name=name):
            return "==SUPPRESS==" if name == "argparse.SUPPRESS" else _external(name)
        case Member(value=inner):
            return _plain(inner)
        case list() | tuple():
            return tuple(_plain(each) for each in value)
        case set() | frozenset():
            return tuple(sorted((_plain(each) for each in value), key=str))
        case dict():
            return Dynamic(repr(value)) if value else Dynamic("{}")
        case str() | int() | float() | bool() | None | Dynamic():
            return value
    return Dynamic(str(value))


def _external(name: str) -> Any:
    return {"sys.maxsize": 2**63 - 1, "math.inf": float("inf")}.get(name, Dynamic(name))


def _choices(value: Any) -> tuple[Choice, ...] | Dynamic | None:
    match value:
        case None:
            return None
        case Dynamic():
            return value
        case dict():
            return tuple(value)
        case list() | tuple() | set() | frozenset():
            plain = _plain(value)
            return (
                plain
                if isinstance(plain, tuple) and not any(isinstance(x, Dynamic) for x in plain)
                else Dynamic(str(value))
            )
        case range():
            return tuple(value)
    if type(value).__name__.startswith("dict_"):
        return tuple(value)
    return Dynamic(str(value))
