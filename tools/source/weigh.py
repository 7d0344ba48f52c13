"""Whether a condition of the code holds for the values of a launch command: yes, no, or not known from here."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from tools.source.variables import ENVIRONMENT, NOT_GIVEN, asked_of

UNKNOWN: Final = object()
ARCHITECTURE: Final = "architecture"  # the model's, among the values where it is known
# What code calls it: what a model's configuration says, and the parameters that it is handed on by.
OF_MODEL: Final = re.compile(r"\barchitectures\b|\b(?:model_)?arch(?:itecture)?\b")
DEPTH_LIMIT: Final = 40
# What a server on NVIDIA cards answers when its code asks for the platform: `is_npu()`, `get_platform().is_hip`.
PLATFORM: Final = re.compile(
    r"(?:\w+\.)?is_(cuda|hip|npu|xpu|hpu|mps|musa)\(\)|get_platform\(\)\.is_(cuda|hip|npu|xpu|hpu|mps|musa)"
)
TEXT_METHODS: Final = frozenset({"lower", "upper", "strip", "startswith", "endswith", "group"})
COMPARE: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right, ast.NotIn: lambda left, right: left not in right,
}  # fmt: skip
ARITHMETIC: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
PLAIN: Final[dict[str, Callable[..., Any]]] = {
    "str": str, "int": int, "float": float, "bool": bool, "len": len, "min": min, "max": max, "set": set, "list": list,
}  # fmt: skip
TYPES: Final = {"str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict}
# No group is repeated, and little is: whatever the tree says, matching ends soon.
HARMLESS: Final = re.compile(r"(?!.*\)[*+?{])(?:[^*+{]*[*+{]){0,2}[^*+{]*")
MATCHED_LIMIT: Final = 2_000


def holds(condition: str, values: Mapping[str, Any], terms: tuple[str, ...] = ()) -> bool | None:
    """True or False where it is certain, None where it is not."""
    value = value_of(condition, values, terms)
    return None if value is UNKNOWN else bool(value)


def value_of(expression: str, values: Mapping[str, Any], terms: tuple[str, ...] = ()) -> Any:
    """The value of an expression, UNKNOWN where it is not certain. `terms` are `name or call = expression`."""
    try:
        return _whole(_Weigher(values, _spelled(terms)).value(_parsed(expression)))
    except (SyntaxError, TypeError, ValueError, ZeroDivisionError, LookupError, RecursionError, OverflowError):
        return UNKNOWN


@lru_cache(8192)
def _parsed(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


@lru_cache(4096)
def _spelled(terms: tuple[str, ...]) -> dict[str, str]:
    return {term.partition(" = ")[0]: term.partition(" = ")[2] for term in terms}


@lru_cache(8192)
def _text(node: ast.expr) -> str:
    return ast.unparse(node)


class _Weigher:
    """Works one expression out. Each term once: a tree may spell one by another again and again."""

    def __init__(self, values: Mapping[str, Any], terms: Mapping[str, str]) -> None:
        self._values = values
        self._terms = terms
        self._environment: Mapping[str, str] = values.get(ENVIRONMENT) or {}
        self._found: dict[str, Any] = {}
        self._depth = 0

    def value(self, node: ast.expr) -> Any:
        self._depth += 1
        try:
            if self._depth > DEPTH_LIMIT:
                return UNKNOWN
            told = asked_of(node, self._environment) if self._environment else NOT_GIVEN
            return self._value(node) if told is NOT_GIVEN else told
        finally:
            self._depth -= 1

    def _all(self, nodes: list[ast.expr]) -> list[Any]:
        return [self.value(each) for each in nodes]

    def _value(self, node: ast.expr) -> Any:  # noqa: C901 - one case for each kind
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name) if name in self._values:
                return self._values[name]
            case ast.Subscript(value=ast.Attribute(attr="architectures"), slice=ast.Constant(value=0)):
                return self._values.get(ARCHITECTURE, UNKNOWN)
            case ast.Attribute() | ast.Call() if (asked := PLATFORM.fullmatch(_text(node))) is not None:
                return (asked[1] or asked[2]) == "cuda" if self._values.get("device", "") in (None, "cuda") else UNKNOWN
            case ast.Name() | ast.Attribute() | ast.Call() if self._terms and _text(node) in self._terms:
                return self._term(_text(node))
            case ast.Name(id=name) if OF_MODEL.fullmatch(name):
                return self._values.get(ARCHITECTURE, UNKNOWN)
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                return self._all(items)  # one of them may be asked for though another is not known
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                value = self.value(inner)
                return UNKNOWN if value is UNKNOWN else not value
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                value = self.value(inner)
                return UNKNOWN if value is UNKNOWN else -value
            case ast.BoolOp(op=joined, values=parts):
                return _boolean(self._all(parts), every=isinstance(joined, ast.And))
            case ast.Compare(left=left, ops=operators, comparators=others):
                return _compared(self._all([left, *others]), operators)
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in ARITHMETIC:
                one, two = self.value(left), self.value(right)
                return ARITHMETIC[type(sign)](one, two) if _number(one) and _number(two) else UNKNOWN
            case ast.IfExp(test=test, body=body, orelse=other):
                chosen = self.value(test)
                return UNKNOWN if chosen is UNKNOWN else self.value(body if chosen else other)
            case ast.Subscript(value=inner, slice=ast.Constant(value=key)):
                value = self.value(inner)
                if isinstance(value, list) and isinstance(key, int):
                    return value[key]
                return value[key] if isinstance(value, dict) else UNKNOWN
            case ast.Call(keywords=[]):
                return self._called(node)
        return UNKNOWN

    def _term(self, name: str) -> Any:
        if name not in self._found:
            self._found[name] = UNKNOWN  # while it is asked for itself
            self._found[name] = self.value(_parsed(self._terms[name]))
        return self._found[name]

    def _called(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            return self._instance(*node.args)
        given = [_whole(each) for each in self._all(node.args)]
        if UNKNOWN in given:
            return UNKNOWN
        match node.func:
            case ast.Name(id=name) if name in PLAIN:
                return PLAIN[name](*given)
            case ast.Attribute(value=ast.Name(id="re"), attr="match"):
                pattern, text = given
                short = isinstance(text, str) and len(text) <= MATCHED_LIMIT
                return re.match(pattern, text) if short and HARMLESS.fullmatch(pattern) else UNKNOWN
            case ast.Attribute(value=inner, attr=method) if method in TEXT_METHODS:
                receiver = self.value(inner)
                if isinstance(receiver, re.Match if method == "group" else str):
                    return getattr(receiver, method)(*map(_hashed, given))
        return UNKNOWN

    def _instance(self, of: ast.expr, kinds: ast.expr) -> Any:
        value = _whole(self.value(of))
        named = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
        known = tuple(TYPES[each.id] for each in named if isinstance(each, ast.Name) and each.id in TYPES)
        return UNKNOWN if value is UNKNOWN or len(known) < len(named) else isinstance(value, known)


def _hashed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _whole(value: Any) -> Any:
    """The value, UNKNOWN for a list with a part that is not known."""
    return UNKNOWN if isinstance(value, list) and UNKNOWN in value else value


def _number(value: Any) -> bool:
    return isinstance(value, int | float)


def _boolean(found: list[Any], *, every: bool) -> Any:
    decides = [each for each in found if each is not UNKNOWN and bool(each) is not every]
    if decides:
        return decides[0]
    return UNKNOWN if any(each is UNKNOWN for each in found) else found[-1]


def _compared(found: list[Any], operators: list[ast.cmpop]) -> Any:
    for left, sign, right in zip(found, operators, found[1:], strict=False):
        if _whole(left) is UNKNOWN or _whole(right) is UNKNOWN:
            return UNKNOWN
        ordered = isinstance(sign, (ast.Lt, ast.LtE, ast.Gt, ast.GtE))
        if ordered and (left is None or right is None):
            return UNKNOWN
        if not COMPARE[type(sign)](left, right):
            return False
    return True
