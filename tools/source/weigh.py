"""Whether a condition of the code holds for the values of a launch command: yes, no, or not known from here."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

UNKNOWN: Final = object()
DEPTH_LIMIT: Final = 40
TEXT_METHODS: Final = frozenset({"lower", "upper", "strip", "startswith", "endswith"})
COMPARE: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right, ast.NotIn: lambda left, right: left not in right,
}  # fmt: skip
ARITHMETIC: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip


def holds(condition: str, values: Mapping[str, Any], terms: tuple[str, ...] = ()) -> bool | None:
    """True or False where it is certain, None where it is not."""
    value = value_of(condition, values, terms)
    return None if value is UNKNOWN else bool(value)


def value_of(expression: str, values: Mapping[str, Any], terms: tuple[str, ...] = ()) -> Any:
    """The value of an expression, UNKNOWN where it is not certain."""
    try:
        node = _parsed(expression)
        spelled = {term.partition(" = ")[0]: term.partition(" = ")[2] for term in terms}
        return _value(node, values, spelled, 0)
    except (SyntaxError, TypeError, ValueError, ZeroDivisionError, KeyError, RecursionError, OverflowError):
        return UNKNOWN


@lru_cache(8192)
def _parsed(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


def _value(node: ast.expr, values: Mapping[str, Any], terms: dict[str, str], depth: int) -> Any:  # noqa: C901 - one case for each kind
    if depth > DEPTH_LIMIT:
        return UNKNOWN

    def of(inner: ast.expr) -> Any:
        return _value(inner, values, terms, depth + 1)

    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.Name(id=name) if name in terms:
            rest = {key: text for key, text in terms.items() if key != name}
            return _value(_parsed(terms[name]), values, rest, depth + 1)
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            found = [of(item) for item in items]
            return UNKNOWN if any(each is UNKNOWN for each in found) else found
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            value = of(inner)
            return UNKNOWN if value is UNKNOWN else not value
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            value = of(inner)
            return UNKNOWN if value is UNKNOWN else -value
        case ast.BoolOp(op=joined, values=parts):
            return _boolean([of(part) for part in parts], every=isinstance(joined, ast.And))
        case ast.Compare(left=left, ops=operators, comparators=others):
            return _compared([of(each) for each in (left, *others)], operators)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in ARITHMETIC:
            one, two = of(left), of(right)
            return UNKNOWN if UNKNOWN in (one, two) or None in (one, two) else ARITHMETIC[type(sign)](one, two)
        case ast.Call(func=ast.Attribute(value=inner, attr=method), args=arguments, keywords=[]) if (
            method in TEXT_METHODS
        ):
            text, given = of(inner), [of(each) for each in arguments]
            if not isinstance(text, str) or any(not isinstance(each, (str, list)) for each in given):
                return UNKNOWN
            return getattr(text, method)(*(tuple(each) if isinstance(each, list) else each for each in given))
        case ast.Call(func=ast.Name(id="str"), args=[inner], keywords=[]):
            value = of(inner)
            return UNKNOWN if value is UNKNOWN else str(value)
        case ast.IfExp(test=test, body=body, orelse=other):
            chosen = of(test)
            return UNKNOWN if chosen is UNKNOWN else of(body if chosen else other)
    return UNKNOWN


def _boolean(found: list[Any], *, every: bool) -> Any:
    decides = [each for each in found if each is not UNKNOWN and bool(each) is not every]
    if decides:
        return decides[0]
    return UNKNOWN if any(each is UNKNOWN for each in found) else found[-1]


def _compared(found: list[Any], operators: list[ast.cmpop]) -> Any:
    for left, sign, right in zip(found, operators, found[1:], strict=False):
        if left is UNKNOWN or right is UNKNOWN:
            return UNKNOWN
        ordered = isinstance(sign, (ast.Lt, ast.LtE, ast.Gt, ast.GtE))
        if ordered and (left is None or right is None):
            return UNKNOWN
        if not COMPARE[type(sign)](left, right):
            return False
    return True
