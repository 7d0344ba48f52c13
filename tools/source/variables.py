"""Environment variables of a launch command: what code that asks for one is answered, and those that none asks for.

Only what is given is answered: what is not may be set where the server is started.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from tools.source.problem import Problem
from tools.source.syntax import dotted

if TYPE_CHECKING:
    from tools.source.source import Source

ENVIRONMENT: Final = "os.environ"  # the variables, among the values that conditions are weighed by
NOT_GIVEN: Final = object()
OWN: Final = re.compile(r"SGL(?:ANG)?_[A-Z0-9_]+")
OLDER: Final = "SGL_"  # such names are read as SGLANG_ ones (sglang 0.5.9 srt/environ.py)
_YES: Final = ("true", "1", "yes", "y", "on")
_NO: Final = ("false", "0", "no", "n", "off")


def asked_of(node: ast.expr, environment: Mapping[str, str]) -> Any:
    """What an expression that asks for a variable gets: `envs.NAME.get()`, `get_bool_env_var("NAME")`,
    `os.getenv("NAME")`; NOT_GIVEN for another expression, or a variable that is not given.
    """
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Attribute(attr=name), attr="get" | "is_set" as how), args=[]):
            found = environment.get(name)
            if found is None:
                return NOT_GIVEN
            return True if how == "is_set" else _typed(found)
        case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]) if name in environment:
            called, found = dotted(func), environment[name]
            if called in ("os.getenv", "os.environ.get"):
                return found
            if called.endswith("get_bool_env_var"):
                return found.lower() in _YES
            return _typed(found) if called.endswith("_env_var") else NOT_GIVEN
        case ast.Subscript(value=holder, slice=ast.Constant(value=str(name))) if dotted(holder) == ENVIRONMENT:
            return environment.get(name, NOT_GIVEN)
        case ast.Compare(left=ast.Constant(value=str(name)), ops=[ast.In()], comparators=[holder]):
            return True if dotted(holder) == ENVIRONMENT and name in environment else NOT_GIVEN
    return NOT_GIVEN


def _typed(text: str) -> Any:
    """A value as a declared variable reads it, whichever its type: 1 is as good as true, and 0 as false."""
    try:
        return int(text)
    except ValueError:
        return text.lower() in _YES if text.lower() in (*_YES, *_NO) else text


def unread(environment: Mapping[str, str], source: Source) -> list[Problem]:
    """SGLang's own variables that are given and that nothing in the tree reads."""
    asked = [name for name in environment if OWN.fullmatch(name)]
    known: set[str] = set()
    for path in source.files(kind="py") if asked else ():
        known.update(OWN.findall(source.text(path)))
    found = []
    for name in asked:
        if name in known or name.replace(OLDER, "SGLANG_", 1) in known:
            continue
        near = get_close_matches(name, sorted(known), 1, 0.8)
        said = f"nothing in sglang {source.version} reads the variable {name}"
        found.append(Problem("unknown", "warning", name, said, near[0] if near else ""))
    return found
