"""Questions about pieces of syntax: names as they are written, a condition and its opposite, the words of a message."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Inside:
    """What a piece of syntax holds at any depth, itself included."""

    functions: tuple[Function, ...]
    assigned: tuple[ast.Assign, ...]


@lru_cache(512)
def inside(tree: ast.AST) -> Inside:
    """Asked of the same tree again and again while it is looked at; no more trees than that are held on to."""
    found = list(statements(tree))
    return Inside(
        tuple(each for each in found if isinstance(each, Function)),
        tuple(each for each in found if isinstance(each, ast.Assign)),
    )


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """The statements of a piece of syntax at any depth, itself included; what they are made of is not walked."""
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        for part in ("finalbody", "orelse", "handlers", "cases", "body"):
            held = getattr(node, part, ())
            if isinstance(held, list):
                pending += reversed(held)


def walk(tree: ast.AST) -> Iterator[ast.AST]:
    """What a piece of syntax is made of at any depth, itself included; in half the time of `ast.walk`."""
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        for part in node.__dict__.values():
            if isinstance(part, list):
                pending += [each for each in part if isinstance(each, ast.AST)]
            elif isinstance(part, ast.AST) and not isinstance(part, ast.expr_context):
                pending.append(part)


@lru_cache(512)
def calls_in(tree: ast.AST) -> tuple[ast.Call, ...]:
    """The calls in a piece of syntax at any depth."""
    return tuple(each for each in walk(tree) if isinstance(each, ast.Call))


def dotted(node: ast.AST) -> str:
    """`self.model.page_size` of names and attributes, empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""


def callee_of(node: ast.expr) -> ast.expr:
    """What a call calls; a decorator may stand without one."""
    return node.func if isinstance(node, ast.Call) else node


def locals_in(node: ast.AST) -> list[str]:
    """Names and attributes of self in an expression, in order."""
    return [dotted(each) for each in ast.walk(node) if isinstance(each, (ast.Name, ast.Attribute)) and dotted(each)]


def by_name(function: Function, handed: Mapping[int | str, set[str]], *, bound: bool) -> dict[str, set[str]]:
    """What is handed to a function by place or by name, by the names of its parameters; `bound`: to a method."""
    static = any(dotted(each) == "staticmethod" for each in function.decorator_list)
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)][1 if bound and not static else 0 :]
    names_all = set(names) | {each.arg for each in function.args.kwonlyargs}
    return {
        (names[place] if isinstance(place, int) else place): flags
        for place, flags in handed.items()
        if (place < len(names) if isinstance(place, int) else place in names_all)
    }


def arguments(call: ast.Call) -> list[tuple[int | str, ast.expr]]:
    """What a call hands over, by place or keyword."""
    return [*enumerate(call.args), *((keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg)]


def parts_of(value: ast.expr, count: int) -> list[ast.expr]:
    """What each of several targets is given."""
    if isinstance(value, ast.Tuple) and len(value.elts) == count:
        return value.elts
    return [ast.Subscript(value, ast.Constant(number), ast.Load()) for number in range(count)]


def pairs_of(node: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
    """Each target of an assignment with what it is given."""
    found: list[tuple[ast.expr, ast.expr]] = []
    for target in node.targets:
        if isinstance(target, ast.Tuple):
            found += zip(target.elts, parts_of(node.value, len(target.elts)), strict=True)
        else:
            found.append((target, node.value))
    return found


def leaves(body: list[ast.stmt]) -> bool:
    """Whether nothing after a block is reached from it."""
    return bool(body) and isinstance(body[-1], (ast.Return, ast.Continue))


def denied(test: ast.expr) -> ast.expr:
    """The opposite of a condition, without a double negation."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return inner
        case ast.Compare(left=left, ops=[operator], comparators=others) if type(operator) in _OPPOSITE:
            return ast.Compare(left, [_OPPOSITE[type(operator)]()], others)
    return ast.UnaryOp(ast.Not(), test)


_OPPOSITE: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
}  # fmt: skip


def fails(body: list[ast.stmt]) -> ast.expr:
    """What must have happened for an exception to be handled: `fails(…)`, by the first statement that was tried."""
    value = getattr(body[0], "value", None)
    tried = value if isinstance(value, ast.expr) else ast.Name("it", ast.Load())
    return ast.Call(ast.Name("fails", ast.Load()), [tried], [])


def is_fallback(guard: ast.expr) -> bool:
    """Whether a condition is that something else failed."""
    return isinstance(guard, ast.Call) and dotted(guard.func) == "fails"


def registered_for(node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[ast.expr, ...]:
    """When a function runs that a decorator registers: for the model architectures it names."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and "register" in dotted(decorator.func):
            names = [each for each in decorator.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            if names:
                architectures = ast.List([*names], ast.Load())
                return (ast.Compare(ast.Name("architecture", ast.Load()), [ast.In()], [architectures]),)
            tests = [each.body for each in decorator.args if isinstance(each, ast.Lambda)]
            if tests:
                return (tests[0],)
    return ()
