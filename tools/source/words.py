"""The words of an error, an assertion or a log line, as code puts them together; what is filled in stands in braces.

A flag's value is `{page_size}`, whichever object the code asks for it; a name that was given a text, a number or a list
of such just before is what it was given.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Final

from tools.source.catalogue import FlagCatalogue
from tools.source.rule import Rule

AGAIN: Final = "the same error again"
DEPTH_LIMIT: Final = 6
_PLACES: Final = re.compile(r"%(?:\(\w+\))?[-+ #0]*[\d.*]*[sdrfgixeEG]")
_BRACES: Final = re.compile(r"\{([^{}]+)\}")
_FORMAT: Final = re.compile(r"\{(\w*)(?:![rsa])?(?::[^{}]*)?\}")


class Words:
    """`text` writes an expression with flags by their bare destination; `given` is what local names were given last."""

    def __init__(self, text: Callable[[ast.AST], str], given: Mapping[str, ast.expr]) -> None:
        self._text = text
        self._given = given
        self._depth = 0

    def of(self, node: ast.AST | None) -> str:
        """The words of what is raised, asserted or logged; empty for none."""
        match node:
            case None:
                return ""
            case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="format")):
                return self._of(node)
            case ast.Call(args=[first, *values]):
                return self._of(first, values)
            case ast.Call(func=func):
                return ast.unparse(func)
        return self._of(node)

    def _of(self, node: ast.expr | ast.AST, values: list[ast.expr] | None = None) -> str:
        """The words of a text; `values`: what is filled into it after the fashion of a log call."""
        match node:
            case ast.JoinedStr(values=parts):
                return "".join(self._part(part) for part in parts).strip()
            case ast.Constant(value=str(text)):
                text = " ".join(text.split()) if "\n" in text else text
                return self._filled(text, values) if values else text
            case ast.Constant(value=int() | float() as number):
                return str(number)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._of(left) + self._of(right)
            case ast.BinOp(left=left, op=ast.Mod(), right=right):
                return self._of(left, right.elts if isinstance(right, ast.Tuple) else [right])
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
                return self._formatted(text, node)
            case ast.Call(func=ast.Name(id="str" | "repr"), args=[inner]):
                return self._of(inner)
            case ast.Name(id=name) if name in self._given and self._depth < DEPTH_LIMIT:
                return self._name(name)
        return "{" + self._text(node) + "}"

    def _part(self, node: ast.expr) -> str:
        """A part of a text; what stands before and after it keeps its distance."""
        match node:
            case ast.Constant(value=str(text)):
                return re.sub(r"\s+", " ", text) if "\n" in text else text
            case ast.FormattedValue(value=value):
                return self._of(value)
        return self._of(node)

    def _name(self, name: str) -> str:
        """What a local name stands for, where that can be said in its place."""
        value = self._given[name]
        plain = _plain(value)
        if plain:
            return plain
        if isinstance(value, (ast.JoinedStr, ast.Attribute)):
            self._depth += 1
            try:
                return self._of(value)
            finally:
                self._depth -= 1
        return "{" + self._text(ast.Name(name, ast.Load())) + "}"

    def _filled(self, text: str, values: list[ast.expr]) -> str:
        left = iter(values)

        def put(place: re.Match[str]) -> str:
            value = next(left, None)
            return place[0] if value is None else self._of(value)

        return _PLACES.sub(put, text)

    def _formatted(self, text: str, call: ast.Call) -> str:
        named = {each.arg: each.value for each in call.keywords if each.arg}
        left = iter(call.args)

        def put(place: re.Match[str]) -> str:
            number = int(place[1]) if place[1].isdecimal() else len(call.args)
            indexed = call.args[number] if number < len(call.args) else None
            value = named.get(place[1]) or indexed if place[1] else next(left, None)
            return place[0] if value is None else self._of(value)

        return _FORMAT.sub(put, text)


def _plain(node: ast.expr) -> str:
    """A text, a number, or a list of such, as a person writes it; empty for anything else."""
    match node:
        case ast.Constant(value=str() | int() | float() as value):
            return str(value)
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            parts = [_plain(each) for each in items]
            return ", ".join(parts) if all(parts) else ""
    return ""


def placed_in(rule: Rule) -> list[str]:
    """The expressions whose values are filled into the words of a rule."""
    return [] if rule.kind == "override" else _BRACES.findall(rule.effect)


def worded(rule: Rule, catalogue: FlagCatalogue) -> str:
    """What a rule does, for a person: what is filled in later is the value of a flag, or named as the code names it."""
    known = {term.partition(" = ")[0]: term.partition(" = ")[2] for term in rule.terms}

    def said(place: re.Match[str]) -> str:
        kept = place[1].removeprefix("self.")
        flag = catalogue.find(place[1]) or (catalogue.find(kept) if kept in rule.flags else None)
        if flag is not None:
            return f"<value of {flag.name}>"
        if _is_list(place[1]):
            return place[0]
        return _literal(known.get(place[1], known.get(kept, ""))) or f"<{kept}>"

    return _BRACES.sub(said, rule.effect)


def _is_list(text: str) -> bool:
    """Whether braces are the code's own, around several things: `must be one of {log, raise}`."""
    try:
        return isinstance(ast.parse(text, mode="eval").body, ast.Tuple)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True


def _literal(text: str) -> str:
    try:
        return _plain(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
