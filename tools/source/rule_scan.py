"""What code enforces or changes about flags: every raise, assert, warning and override, with the conditions above it.

One walk over each function of a file. A condition is kept as text in which a flag's value is its bare destination
(`self.page_size`, `server_args.page_size`, `cfg.page_size` are all `page_size`), so that it can be shown and weighed.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from tools.source.reading import GROUPS, RECORDS, Reading
from tools.source.rule import CallSite, Kind, Rule, joined
from tools.source.syntax import (
    Function,
    by_name,
    callee_of,
    denied,
    dotted,
    fails,
    is_fallback,
    leaves,
    locals_in,
    parts_of,
    registered_for,
)
from tools.source.words import AGAIN, Words

LOGS: Final = frozenset(
    {"warning", "warn", "warning_once", "warn_once", "print_deprecated_warning", "print_warning_once"}
)
SEVERE_LOGS: Final = frozenset({"error", "critical"})
HOOKS: Final = "srt/arg_groups/"
RESOLVES: Final = ("declare", "override", "setdefault")
SETTERS: Final = ("set_field", "replace")
TEXT_LIMIT: Final = 400
GUARDS_SHOWN: Final = 4
TERMS_LIMIT: Final = 6
NOTHING: Final[Mapping[str, set[str]]] = MappingProxyType({})


@dataclass(slots=True)
class _Place:
    """Where the walk stands in one function."""

    function: str
    guards: tuple[ast.expr, ...] = ()
    denials: frozenset[int] = frozenset()
    local: dict[str, set[str]] = field(default_factory=dict)
    defined: dict[str, ast.expr] = field(default_factory=dict)

    def under(self, guard: ast.expr) -> _Place:
        """The same place where one more condition holds."""
        return _Place(self.function, (*self.guards, guard), self.denials, self.local, self.defined)

    def past(self, test: ast.expr) -> _Place:
        """The same place where a condition did not hold."""
        guard = denied(test)
        return _Place(self.function, (*self.guards, guard), self.denials | {id(guard)}, self.local, self.defined)

    def same(self, *, apart: bool = False) -> _Place:
        """The same place again; `apart` with names of its own."""
        local, defined = (dict(self.local), dict(self.defined)) if apart else (self.local, self.defined)
        return _Place(self.function, self.guards, self.denials, local, defined)


class Scanner:
    """Finds the rules of one file. `names` are destinations and record fields.

    `outside` tells that the file is no handler: objects there keep a flag's value under its own name
    (`self.page_size`, `self.model_runner.page_size`), and what they make of it is a rule too. `handed`: by the name of
    a function, the flags whose values it is called with. `concerned`: pass over functions that name none of these
    flags, nor what keeps their values; empty for no flag in particular.
    """

    def __init__(
        self,
        path: str,
        lines: list[str],
        names: frozenset[str],
        record_class: str = "ServerArgs",
        *,
        outside: bool = False,
        handed: Mapping[str, Mapping[int | str, set[str]]] = MappingProxyType({}),
        concerned: frozenset[str] = frozenset(),
    ) -> None:
        self.path = path
        self.outside = outside
        self.copied: dict[str, set[str]] = {}
        self.lines = lines
        self.names = names
        self._concerned = concerned
        self._named_at: list[int] = []
        self.record_class = record_class
        self._handed = handed
        self.reading = Reading(names, outside=outside)
        self.carried: dict[str, set[str]] = {}
        self._constants: dict[str, ast.expr] = {}
        self.rules: list[Rule] = []
        self.calls: list[CallSite] = []

    def scan(self, tree: ast.Module, kept: Mapping[str, set[str]] = NOTHING) -> list[Rule]:
        """Every rule of the file, in the order of its lines; `kept`: flags by the attributes of `self` that other files
        fill.
        """
        if self.outside:
            self.copied = {**kept, **self.reading.copied(tree)}
        if self._concerned:
            self._named_at = self._lines_naming(self._concerned)
        for node in tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if name.isupper():
                    self._constants[name] = value
            self._definition(node, own=False)
        return sorted(self.rules, key=lambda rule: rule.line)

    def concerns(self, function: Function) -> bool:
        """Whether a function names a flag that is asked for, or what keeps its value."""
        after = bisect_left(self._named_at, function.lineno)
        return not self._concerned or (
            after < len(self._named_at) and self._named_at[after] <= (function.end_lineno or function.lineno)
        )

    def _lines_naming(self, flags: frozenset[str]) -> list[int]:
        """The lines that name one of these flags, an attribute that keeps its value, or a size that follows from it."""
        words = {*flags, *(flag.replace("_", "-") for flag in flags)}
        words |= {name.rpartition(".")[2] for name, kept in self.copied.items() if not flags.isdisjoint(kept)}
        words |= {name for name, follows in GROUPS.items() if follows in flags}
        named = re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, words)))})\b")
        found: list[int] = []
        text = "\n".join(self.lines)
        number, counted = 1, 0
        for match in named.finditer(text):
            number, counted = number + text.count("\n", counted, match.start()), match.start()
            found.append(number)
        return found

    def function(self, node: Function, tainted: dict[str, set[str]]) -> list[Rule]:
        """The rules of one function whose parameters carry the values of flags.

        `carried` afterwards holds the attributes of its object that do so too.
        """
        self.rules = []
        self.reading.enter(node, own=False)
        place = _Place(node.name, local=dict(tainted))
        self._body(node.body, place)
        self.carried = {name: flags for name, flags in place.local.items() if name.startswith("self.") and flags}
        return sorted(self.rules, key=lambda rule: rule.line)

    def _definition(self, node: ast.stmt, *, own: bool, bound: bool = False) -> None:
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                self._definition(inner, own=node.name == self.record_class, bound=True)
        elif isinstance(node, Function) and self.concerns(node):
            handed = by_name(node, self._handed.get(node.name, {}), bound=bound)
            self.reading.enter(node, own=own, handed=handed)
            if any("register" in dotted(callee_of(each)) for each in node.decorator_list):
                self.calls.append(CallSite(node.name, "__registry__", (), ()))
            self._body(node.body, _Place(node.name, registered_for(node), local=self.copied | handed))

    def _body(self, body: list[ast.stmt], place: _Place) -> None:
        start = len(self.rules)
        for statement in body:
            self._statement(statement, place)
            if isinstance(statement, ast.If) and not statement.orelse and leaves(statement.body):
                after = place.past(statement.test)
                place.guards, place.denials = after.guards, after.denials
        self.rules[start:] = joined(self.rules[start:])

    def _statement(self, statement: ast.stmt, place: _Place) -> None:
        if not self.outside:
            self._note_calls(statement, place)
        match statement:
            case ast.If(test=test, body=body, orelse=other):
                self._body(body, place.under(test))
                self._body(other, place.past(test))
            case ast.Raise(exc=error):
                self._add("raise", self._words(error, place) or AGAIN, statement, place)
            case ast.Assert(test=test, msg=message):
                broken = place.under(denied(test))
                said = self._words(message, place) or f"{self.reading.text(test)} must hold"
                self._add("assert", said, statement, broken)
            case ast.Return(value=ast.Dict() as table):
                self._table(table, statement, place)
            case ast.Assign(targets=targets, value=value):
                if isinstance(value, ast.Dict):
                    self._table(value, statement, place)
                for target in targets:
                    self._assignment(target, value, statement, place)
                self._call_rules(value, statement, place)
            case ast.AugAssign(target=target, value=value):
                self._assignment(target, ast.BinOp(target, statement.op, value), statement, place)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assignment(target, value, statement, place)
            case ast.Expr(value=value):
                self._call_rules(value, statement, place)
            case _:
                self._inside(statement, place)

    def _inside(self, statement: ast.stmt, place: _Place) -> None:
        """Statements that hold others."""
        match statement:
            case ast.For(body=body) | ast.While(body=body) | ast.With(body=body):
                self._body(body, place.same())
            case ast.Try(body=body, handlers=handlers, orelse=other, finalbody=final):
                for part in (body, other, final):
                    self._body(part, place.same())
                for handler in handlers:
                    self._body(handler.body, place.under(fails(body)))
            case ast.FunctionDef(body=body):
                self._body(body, place.same(apart=True))

    def _note_calls(self, statement: ast.stmt, place: _Place) -> None:
        """Remember which functions a statement itself calls, or hands to one that calls them."""
        compound = isinstance(statement, (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.FunctionDef, ast.ClassDef))
        parts = [statement.test] if isinstance(statement, (ast.If, ast.While)) else []
        for part in parts if compound else [statement]:
            for call in ast.walk(part):
                if isinstance(call, ast.Call):
                    for name in (call.func, *call.args):
                        callee = dotted(name).rpartition(".")[2] if isinstance(name, (ast.Name, ast.Attribute)) else ""
                        if callee:
                            self._note_call(callee, place)

    def _note_call(self, callee: str, place: _Place) -> None:
        flags: set[str] = set()
        for guard in place.guards:
            flags |= self.reading.flags_in(guard, place.local)
        conditions = tuple(self.reading.text(guard) for guard in place.guards)
        self.calls.append(CallSite(callee, place.function, conditions, tuple(sorted(flags))))

    def _assignment(self, target: ast.expr, value: ast.expr, statement: ast.stmt, place: _Place) -> None:
        if isinstance(target, ast.Tuple):
            for each, part in zip(target.elts, parts_of(value, len(target.elts)), strict=True):
                self._assignment(each, part, statement, place)
            return
        changed = self.reading.flag(target)
        if changed is None and isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
            key = target.slice.value
            known = isinstance(key, str) and key in self.names and isinstance(target.value, ast.Name)
            changed = str(key) if known else None
        if changed is None and isinstance(target, ast.Name) and target.id in self.reading.standing:
            changed = target.id
        if changed is None and self.outside:
            changed = self._made_of_itself(target, value, place)
        if changed is not None and self.reading.text(value) != changed:
            self._add("override", f"{changed} = {self.reading.text(value)}", statement, place, (changed,), value)
        name = dotted(target)
        if name and self.reading.flag(target) is None:
            before = place.local.get(name, set()) if place.guards else set()
            place.local[name] = self.reading.flags_in(value, place.local) | before
            place.defined[name] = value

    def _made_of_itself(self, target: ast.expr, value: ast.expr, place: _Place) -> str | None:
        """The flag whose value is kept under its name, but not as it is (`self.x = min(args.x, 8)`), not for long
        (`self.x = args.x`, then `if self.x <= 0: self.x = None`), or as what it stands for (`if args.x == "fp8": self.x
        = torch.float8_e5m2`).
        """
        name = dotted(target).removeprefix("self.")
        if "_" not in name or name not in self.names or self.reading.flag(value) is not None:
            return None
        if isinstance(target, ast.Attribute) and place.guards and name in self.copied.get(f"self.{name}", set()):
            return name
        if name in place.local.get(dotted(value), set()):
            return None
        guards = [each for each in place.guards if not is_fallback(each)]
        made = [value, *guards] if isinstance(target, ast.Attribute) else guards
        return name if name in self.reading.flags_in(ast.Tuple([*made], ast.Load()), place.local) else None

    def _table(self, table: ast.Dict, statement: ast.stmt, place: _Place) -> None:
        """Overrides that a hook hands back as a dictionary of fields."""
        pairs = {
            key.value: value
            for key, value in zip(table.keys, table.values, strict=True)
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value in self.names
        }
        whole = len(pairs) == len(table.keys)
        pairs = {name: value for name, value in pairs.items() if self.reading.text(value) != name}
        if pairs and whole and self.path.startswith(HOOKS):
            effect = ", ".join(f"{name} = {self.reading.text(value)}" for name, value in pairs.items())
            self._add("override", effect, statement, place, tuple(pairs), ast.Tuple([*pairs.values()], ast.Load()))

    def _call_rules(self, value: ast.expr, statement: ast.stmt, place: _Place) -> None:
        if not isinstance(value, ast.Call):
            return
        name = value.func.attr if isinstance(value.func, ast.Attribute) else dotted(value.func)
        if name in LOGS or name in SEVERE_LOGS:
            self._add("warn", self._words(value, place), statement, place)
        elif any(word in name for word in RESOLVES) or name in SETTERS or (name == "update" and not self.outside):
            given = [each for each in value.keywords if each.arg in self.names]
            if given:
                effect = ", ".join(f"{each.arg} = {self.reading.text(each.value)}" for each in given)
                changed = tuple(str(each.arg) for each in given)
                parts = ast.Tuple([each.value for each in given], ast.Load())
                self._add("override", effect, statement, place, changed, parts)

    def _words(self, node: ast.AST | None, place: _Place) -> str:
        return Words(self.reading.text, self._constants | place.defined).of(node)

    def _add(
        self,
        kind: Kind,
        effect: str,
        statement: ast.stmt,
        place: _Place,
        sets: tuple[str, ...] = (),
        value: ast.expr | None = None,
    ) -> None:
        flags: set[str] = set(sets)
        for guard in place.guards:
            flags |= self.reading.flags_in(guard, place.local)
        if value is not None:
            flags |= self.reading.flags_in(value, place.local)
        if kind != "override":
            flags |= self.reading.named_in(effect)
        if not flags:
            return
        shown = [guard for guard in place.guards if self._tells(guard, place)][-GUARDS_SHOWN:]
        self.rules.append(
            Rule(
                kind=kind,
                condition=_cut(" and ".join(_bracketed(self.reading.text(guard)) for guard in shown)),
                effect=_cut(effect),
                flags=tuple(sorted(flags)),
                path=self.path,
                line=statement.lineno,
                quote=self.lines[statement.lineno - 1].strip() if statement.lineno <= len(self.lines) else "",
                conditions=tuple(self.reading.text(guard) for guard in place.guards),
                sets=sets,
                where=place.function,
                terms=tuple(self._terms(shown, place)),
            )
        )

    def _tells(self, guard: ast.expr, place: _Place) -> bool:
        """Whether a guard is worth showing: not the branches of a long chain that were not taken."""
        if id(guard) not in place.denials or guard is place.guards[-1]:
            return True
        match guard:
            case ast.Compare(ops=[ast.Eq() | ast.In() | ast.Is()]):  # what is left after `if x != …: return`
                return True
        calls = any(isinstance(each, ast.Call) for each in ast.walk(guard))
        return not calls and bool(self.reading.flags_in(guard, place.local))

    def _terms(self, guards: list[ast.expr], place: _Place) -> list[str]:
        """`name = expression` for the local names in conditions, and for those in these."""
        found: dict[str, str] = {}
        pending = [name for guard in guards for name in locals_in(guard)]
        while pending and len(found) < TERMS_LIMIT:
            name = pending.pop(0)
            spelled = name.rpartition(".")[2]
            value = place.defined.get(name) or self._constants.get(name)
            flag = spelled in self.names and name not in self.reading.apart
            if value is not None and name not in found and not flag and name not in RECORDS:
                found[name] = _cut(f"{self.reading.local(name)} = {self.reading.text(value)}")
                pending += locals_in(value)
        return list(found.values())


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 3] + "..."


def _bracketed(text: str) -> str:
    return f"({text})" if " or " in text and not text.startswith("not ") else text
