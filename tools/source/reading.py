"""Which flags an expression of the code reads: the record of all values, what stands for it, and its attributes.

A flag's value is `record.name`, `resolved_view(record).name`, `getattr(record, "name", default)`, or the attribute of
another object that is called as no other thing is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Final

from tools.source.syntax import Function, dotted, inside, pairs_of, walk

NO_NAMES: Final[frozenset[str]] = frozenset()

RECORDS: Final = frozenset({"server_args", "args", "cfg", "sa", "serverargs", "self_args", "params"})
VIEWS: Final = ("view", "copy", "replace", "_resolved")
# What is asked of process groups and follows from a flag, though it need not be its value.
GROUPS: Final[dict[str, str]] = {
    "get_tensor_model_parallel_world_size": "tp_size",
    "get_attn_tensor_model_parallel_world_size": "tp_size",
    "get_attention_tp_size": "tp_size",
    "attn_tp_size": "tp_size",
    "get_attention_dp_size": "dp_size",
    "attn_dp_size": "dp_size",
    "get_moe_expert_parallel_world_size": "ep_size",
    "moe_ep_size": "ep_size",
    "get_pipeline_model_parallel_world_size": "pp_size",
}


class Reading:
    """Reads the expressions of one file. `names` are destinations and record fields.

    `outside` tells that the file is no handler: objects there keep a flag's value under its own name
    (`self.page_size`, `self.model_runner.page_size`).
    """

    def __init__(self, names: frozenset[str], *, outside: bool) -> None:
        self.names = names
        self.outside = outside
        self.apart = self.standing = NO_NAMES
        self._own = False
        self._records = RECORDS
        self._texts: dict[int, tuple[ast.AST, str]] = {}

    def enter(self, function: Function, *, own: bool, handed: Mapping[str, set[str]] | None = None) -> None:
        """Read a function from here on; `own`: `self` is the record there; `handed`: flags by its parameters."""
        self._own, self._records = own, RECORDS
        for node in inside(function).assigned:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if self._is_record(value):
                    self._records |= {name}
        if not self.outside:
            self._locals(function, handed or {})

    def _locals(self, function: Function, handed: Mapping[str, set[str]]) -> None:
        """Sort out the local names of a handler that are called as a flag is: those that begin as its value stand for
        it, `page_size = view.page_size`; the others are something else.
        """
        wanted = function.args
        given = {each.arg for each in (*wanted.posonlyargs, *wanted.args, *wanted.kwonlyargs)} & self.names
        standing = {name for name in given if handed.get(name) == {name}}
        apart = given - standing
        for node in sorted(inside(function).assigned, key=lambda node: node.lineno):
            for target, value in pairs_of(node):
                if isinstance(target, ast.Name) and target.id in self.names - standing - apart:
                    (standing if self.flag(value) == target.id else apart).add(target.id)
        plain = {
            name for name in apart if "_" not in name
        }  # `config` is any configuration, unless the flag is read too
        read = {self.flag(node) for node in walk(function)} if plain else set()
        self.apart = frozenset(apart - plain | (plain & read))
        self.standing = frozenset(standing & _handed_back(function)) if standing else NO_NAMES

    def _is_record(self, node: ast.AST) -> bool:
        """Whether an expression is the record of all values, or a view of it."""
        match node:
            case ast.Name(id="self"):
                return self._own
            case ast.Name(id=name):
                return name in self._records
            case ast.Attribute(attr=name):
                return name in RECORDS
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *_]):
                return name.lower().endswith(VIEWS) and self._is_record(first)
            case ast.Call(func=ast.Attribute(value=receiver, attr=name), args=[], keywords=[]):
                return name.endswith(VIEWS) and self._is_record(receiver)
        return False

    def flag(self, node: ast.AST) -> str | None:
        """The destination whose value an expression is; None for anything else."""
        match node:
            case ast.Attribute(value=receiver, attr=name) if name in self.names:
                return name if self._has(receiver, name) else None
            case ast.Call(func=ast.Name(id="getattr"), args=[receiver, ast.Constant(value=str(name)), *_]):
                return name if name in self.names and self._is_record(receiver) else None
        return None

    def _has(self, receiver: ast.expr, name: str) -> bool:
        """Whether what an object keeps under the name of a flag is its value."""
        if self._is_record(receiver):
            return True
        match receiver:
            case ast.Name(id=holder):
                return holder != "self" and "_" in name
            case ast.Attribute():
                return self.outside and "_" in name and dotted(receiver).startswith("self.")
            case ast.Call(func=func):
                return dotted(func).startswith("get_")
        return False

    def flags_in(self, node: ast.AST, local: dict[str, set[str]]) -> set[str]:
        """The destinations that an expression depends on, through local names as well."""
        found: set[str] = set()
        for each in walk(node):
            name = self.flag(each)
            if name is None:
                name = _of_group(each)
            if name is not None:
                found.add(name)
            found |= local.get(dotted(each), set())
        return found

    def copied(self, tree: ast.Module) -> dict[str, set[str]]:
        """Attributes of `self` that are given a flag's value as it is, anywhere in the file."""
        found: dict[str, set[str]] = {}
        for node in inside(tree).assigned:
            match node:
                case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                    flag = self.flag(value)
                    if flag is not None:
                        found.setdefault(f"self.{name}", set()).add(flag)
        return found

    def named_in(self, text: str) -> set[str]:
        """Flags that a message spells out."""
        words = [word.strip("`'\".,:;()[]=") for word in text.split()]
        spelled = {word.removeprefix("--").replace("-", "_") for word in words if "-" not in word or word[:2] == "--"}
        return {word for word in spelled if "_" in word and word in self.names}

    def text(self, node: ast.AST) -> str:
        """An expression on one line, flags by their bare destination."""
        kept = self._texts.get(id(node))
        if kept is None:
            kept = self._texts[id(node)] = (node, self._written(node))  # holds the node, so that its id stays its own
        return kept[1]

    def _written(self, node: ast.AST) -> str:
        if self.apart and any(isinstance(each, ast.Name) and each.id in self.apart for each in walk(node)):
            node = deepcopy(node)
            for each in walk(node):
                if isinstance(each, ast.Name):
                    each.id = self.local(each.id)
        try:
            text = " ".join(ast.unparse(node).split())
        except (RecursionError, ValueError):
            return "..."
        spelled = {ast.unparse(each): name for each in ast.walk(node) if (name := self.flag(each)) is not None}
        for full, name in spelled.items():
            text = re.sub(rf"(?<![\w.]){re.escape(full)}(?!\w)", name, text)
        return text

    def local(self, name: str) -> str:
        """A local name as it is shown: one that is called as a flag and is none is told apart."""
        return f"{name}_here" if name in self.apart else name


def _handed_back(function: Function) -> set[str]:
    """The local names that a function sets or returns under their own name: `{"page_size": page_size}`."""
    found: set[str] = set()
    for node in walk(function):
        match node:
            case ast.Dict(keys=keys, values=values):
                pairs = [(getattr(key, "value", None), value) for key, value in zip(keys, values, strict=True)]
            case ast.Call(keywords=keywords):
                pairs = [(each.arg, each.value) for each in keywords]
            case ast.Assign(targets=[ast.Attribute(attr=name)], value=value):
                pairs = [(name, value)]
            case _:
                continue
        found |= {value.id for name, value in pairs if isinstance(value, ast.Name) and value.id == name}
    return found


def _of_group(node: ast.AST) -> str | None:
    """The flag that the size of a process group follows from."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[]):
            return GROUPS.get(name)
        case ast.Attribute(value=ast.Call(func=ast.Name(id="get_parallel")), attr=name):
            return GROUPS.get(name)
    return None
