"""What folding may do with values: operators, methods, pure functions, formatting, and what a value may weigh.

A tree is read, not trusted: `x = x + x` forty times, a width of 900,000,000 or a list that holds itself would take all
memory or all day. What an operation makes is weighed, what would multiply is refused before it grows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, ItemsView, KeysView, ValuesView
from string import Formatter
from types import TracebackType
from typing import Any, Final

from tools.source.modules import External, Field, Member

VALUE_LIMIT: Final = 100_000
NESTING_LIMIT: Final = 40
DEPTH_LIMIT: Final = 40
EXPRESSION_LIMIT: Final = 2_000_000
TREE_LIMIT: Final = 20_000_000
INTEGER_BITS: Final = 64
WIDTH_DIGITS: Final = 3
PURE: Final[dict[str, Callable[..., Any]]] = {
    "len": len, "sorted": sorted, "min": min, "max": max, "str": str, "int": int, "float": float, "bool": bool,
    "tuple": tuple, "set": set, "frozenset": frozenset, "dict": dict, "list": list, "abs": abs, "repr": repr,
}  # fmt: skip
METHODS: Final = frozenset(
    {
        *("lower", "upper", "strip", "lstrip", "rstrip", "replace", "split", "join", "format", "title"),
        *("startswith", "endswith", "removeprefix", "removesuffix", "index", "count", "keys", "values", "items"),
        *("get", "copy", "union", "intersection", "difference"),
    }
)
MUTATORS: Final = frozenset(["append", "extend", "add", "update", "remove", "discard", "insert"])
_SEVERAL: Final = (list, tuple, set, frozenset, KeysView, ValuesView, ItemsView)
_CONVERSIONS: Final[dict[str, Callable[[Any], str]]] = {"r": repr, "a": ascii, "s": str}
_PLAIN: Final = (str, int, float, type(None))


class Unfoldable(Exception):
    """The value is not known before the code runs."""


class Meter:
    """How deep folding stands and what it may still spend: for the outermost expression, and for the whole tree.

    A unit is a step, an item or a character. Entered once for each expression inside another.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._left = 0
        self._left_of_tree = TREE_LIMIT

    def __enter__(self) -> None:
        if self._depth >= DEPTH_LIMIT:
            raise Unfoldable("too deep")
        if not self._depth:
            self._left = EXPRESSION_LIMIT
        self.spend(1)
        self._depth += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._depth -= 1

    def spend(self, units: int) -> None:
        """Raises Unfoldable when nothing is left."""
        self._left -= units
        self._left_of_tree -= units
        if min(self._left, self._left_of_tree) < 0:
            raise Unfoldable("too much to work out")

    def made(self, value: Any) -> Any:
        """A value that an operation made. Raises Unfoldable for one that is too large."""
        self.spend(weight(value))
        return value


def weight(value: Any) -> int:
    """Characters and items of a value at any depth, each as often as it is reached. Raises Unfoldable over the limit.

    A whole number of more than 64 bits is none that a flag has, and such numbers can be chosen to collide in a set.
    """
    total, layer = 1, [value]
    for _ in range(NESTING_LIMIT):
        inner: list[Any] = []
        for each in layer:
            if isinstance(each, (str, bytes)):
                total += len(each)
            elif isinstance(each, int):
                total += VALUE_LIMIT * (each.bit_length() > INTEGER_BITS)
            elif isinstance(each, (*_SEVERAL, dict)):
                total += 2 * len(each)
                if total <= VALUE_LIMIT:
                    inner += each
                    inner += each.values() if isinstance(each, dict) else ()
            elif isinstance(each, (Member, Field)):
                inner.append(each.value if isinstance(each, Member) else each.default)
            elif isinstance(each, External):
                total += len(each.name)
            if total > VALUE_LIMIT:
                raise Unfoldable("too large")
        if not inner:
            return total
        layer = inner
    raise Unfoldable("nested too deep")


def binary(operator: ast.operator, left: Any, right: Any) -> Any:
    """`left operator right`, at most the two together but for powers of two numbers. Raises Unfoldable."""
    match operator:
        case ast.Add() if isinstance(left, (list, tuple, str, int, float)):
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult() if isinstance(left, (int, float)) and isinstance(right, (int, float)):
            return left * right
        case ast.Div():
            return left / right
        case ast.FloorDiv():
            return left // right
        case ast.LShift() if isinstance(right, int) and right < 64:
            return left << right
        case ast.Pow() if isinstance(right, (int, float)) and abs(right) < 64 and isinstance(left, (int, float)):
            return left**right
        case ast.BitOr():
            return left | right
    raise Unfoldable(type(operator).__name__)


def compare(operator: ast.cmpop, left: Any, right: Any) -> bool:
    """`left operator right` for equality and membership. Raises Unfoldable for any other comparison."""
    match operator:
        case ast.Is() | ast.Eq():
            return bool(left == right)
        case ast.IsNot() | ast.NotEq():
            return bool(left != right)
        case ast.In():
            return left in right
        case ast.NotIn():
            return left not in right
    raise Unfoldable(type(operator).__name__)


def pure(name: str, arguments: list[Any]) -> Any:
    """What one of PURE gives. Raises Unfoldable for the text of what is no data."""
    if name in ("str", "repr"):
        _expect_plain(arguments)
    return PURE[name](*arguments)


def method(receiver: Any, name: str, arguments: list[Any]) -> Any:
    """What one of METHODS gives, called on a plain value. Raises Unfoldable for text that would grow past the limit."""
    if isinstance(receiver, str):
        if name == "format":
            return _filled(receiver, arguments)
        if name == "join":
            arguments = [list(*arguments)]
            _expect_room(sum(map(len, arguments[0])) + len(receiver) * len(arguments[0]))
        elif name == "replace":
            old, new = arguments[:2]
            _expect_room(len(receiver) + receiver.count(old) * len(new))
    elif not isinstance(receiver, (*_SEVERAL, dict)):
        raise Unfoldable(name)
    return getattr(receiver, name)(*arguments)


def changed(value: Any, mutator: str, arguments: list[Any]) -> Any:
    """What a list, set or dict is after one of MUTATORS: another one, so that none can hold itself."""
    other = value.copy()
    getattr(other, mutator)(*arguments)
    return other


def formatted(value: Any, conversion: str, spec: str) -> str:
    """A value as `{value!conversion:spec}` shows it. Raises Unfoldable for a width of more than three digits."""
    _expect_plain([value])
    if re.search(rf"\d{{{WIDTH_DIGITS + 1}}}", spec):
        raise Unfoldable(f"a width of {spec}")
    return format(_CONVERSIONS[conversion](value) if conversion else value, spec)


def _filled(template: str, arguments: list[Any]) -> str:
    """`template.format(*arguments)` for fields that are numbered or empty; any other name is a ValueError."""
    parts: list[str] = []
    size = following = 0
    for literal, field, spec, conversion in Formatter().parse(template):
        parts.append(literal)
        if field is not None:
            parts.append(formatted(arguments[int(field or following)], conversion or "", spec or ""))
            following += 1
        size += sum(map(len, parts[-2:]))
        _expect_room(size)
    return "".join(parts)


def _expect_room(size: int) -> None:
    if size > VALUE_LIMIT:
        raise Unfoldable("too large")


def _expect_plain(values: list[Any]) -> None:
    """Refuse the text of what is no data: that of a class or a module would be ours, not what the code prints."""
    pending = list(values)
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            pending += [*each, *each.values()]
        elif isinstance(each, _SEVERAL):
            pending += each
        elif not isinstance(each, _PLAIN):
            raise Unfoldable(type(each).__name__)
