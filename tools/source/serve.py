"""What `sglang serve` itself takes before the server's parser sees the words: options of its own, a model by place."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tools.source.errors import PathError

if TYPE_CHECKING:
    from tools.source.source import Source

CLI: Final = "cli/serve.py"
MODEL: Final = "--model-path"


@dataclass(frozen=True, slots=True)
class Front:
    """`there`: whether the version has the command. `positional`: whether `sglang serve MODEL` names the model."""

    there: bool
    positional: bool
    options: frozenset[str]


def front_of(source: Source) -> Front:
    """Read from the syntax tree of the command: options it compares words with, a list it begins with the model's."""
    try:
        tree = ast.parse(source.text(CLI))
    except (PathError, SyntaxError, ValueError):
        return Front(there=False, positional=False, options=frozenset())
    options: set[str] = set()
    positional = False
    for node in ast.walk(tree):
        match node:
            case ast.Compare(ops=[ast.Eq()], comparators=[ast.Constant(value=str(text))]) if text.startswith("--"):
                options.add(text)
            case ast.List(elts=[ast.Constant(value=text), *_]) if text == MODEL:
                positional = True
    return Front(there=True, positional=positional, options=frozenset(options))
