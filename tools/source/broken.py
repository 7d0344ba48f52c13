"""The rules of a version's code that a launch command breaks, and the values that the server changes."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tools.source.catalogue import FlagCatalogue
from tools.source.later import refused_later
from tools.source.launch import Launch, values_of
from tools.source.problem import Problem, Severity
from tools.source.rule import CALLED, Rule
from tools.source.rules import names_of
from tools.source.variables import ENVIRONMENT
from tools.source.weigh import ARCHITECTURE, OF_MODEL, UNKNOWN, holds, value_of
from tools.source.words import worded

if TYPE_CHECKING:
    from tools.source.source import Source

FORMED: Final = "parsed_|normalized_|validated_|checked_"  # names for a value in its other form
EMPTY: Final = ("[]", "{}", "list()", "dict()", "set()")  # what begins so is filled after it


def broken(
    launch: Launch, catalogue: FlagCatalogue, rules: Sequence[Rule], architecture: str = "", *, guessed: bool = False
) -> list[Problem]:
    """Rules that are certain to apply to these values, and that something given brings about; without the model's
    architecture a note says how many of them wait for it. `guessed`: only the path names it, and what rests on it says
    so.
    """
    values, given = values_of(launch, catalogue)
    values |= {ARCHITECTURE: architecture} if architecture else {}
    values |= {ENVIRONMENT: dict(launch.environment)}
    waiting = 0
    plain, _ = values_of(Launch((), tuple(each for each in launch.given if each.flag.required), (), (), ()), catalogue)
    dispatched = _dispatched(launch, catalogue, rules)
    values |= dict.fromkeys(dispatched, True)
    chosen = {dest for dest in given if dest not in values or values[dest] != plain.get(dest)}
    names = names_of(catalogue)
    found: list[Problem] = []
    changed: dict[str, Rule] = {}
    for rule in rules:
        weighed = _condition_names(rule, names)
        asked = (chosen | set(changed)) & weighed
        asked |= {dispatched[each] for each in rule.conditions if each in dispatched}
        later = all(rule.path == changed[dest].path and rule.line > changed[dest].line for dest in asked - given)
        if not asked & chosen or not later:
            continue
        known = values
        if rule.kind in ("raise", "assert"):
            known = _certain(rule, weighed - given - set(changed), values, rules)
        held = [holds(each, known, rule.terms) for each in rule.conditions]
        if not all(held):
            refuses = rule.kind in ("raise", "assert")
            waiting += refuses and not architecture and False not in held and _of_model(rule)
            continue
        if all(holds(each, plain, rule.terms) for each in rule.conditions):
            continue  # the server does that whatever is given
        if rule.kind in ("raise", "assert"):
            nearest = set(re.findall(r"\w+", " ".join(rule.conditions[-1:]))) & asked & chosen
            name = _first_name(nearest or asked & chosen, catalogue)
            said = worded(replace(rule, effect=_filled_in(rule, values)), catalogue)
            said += _by_path(architecture) if guessed and _asks_model(rule) else ""
            found.append(Problem("rule", "error", name, said, at=rule.at, quote=rule.quote))
        elif rule.kind == "override" and not _settled(rule, values, given):
            set_here = [dest for dest in rule.sets if dest in given]
            severity: Severity = "warning" if set_here else "note"
            name = _first_name(set(set_here) or set(rule.sets), catalogue)
            said = _told(rule, values)
            found.append(Problem("override", severity, name, said, at=rule.at, quote=rule.quote))
            _apply(rule, values, changed)
    if waiting:
        said = f"{_rules(waiting)} for particular models went unweighed: the path does not name the architecture"
        found.append(Problem("unseen", "note", "--model-path", f"{said}; `--model-config config.json` gives it"))
    return found


def _filled_in(rule: Rule, values: dict[str, Any]) -> str:
    """The words of an error with the values that it names, where they are known."""

    def known(asked: re.Match[str]) -> str:
        held = [value_of(text, values, rule.terms) for text in (asked[1], asked[1].rpartition(".")[2])]
        value = next((each for each in held if each is not UNKNOWN), UNKNOWN)
        return asked[0] if value is UNKNOWN else ", ".join(map(str, value)) if isinstance(value, list) else str(value)

    return re.sub(r"\{([^{}]+)\}", known, rule.effect)


def _rules(count: int) -> str:
    return f"{count} rules" if count > 1 else "1 rule"


def _by_path(architecture: str) -> str:
    return f" (the path is taken for {architecture}; `--model-config config.json` says it for certain)"


def _asks_model(rule: Rule) -> bool:
    return any(OF_MODEL.search(each) for each in rule.conditions)


def _of_model(rule: Rule) -> bool:
    """Whether a rule is for models of some architectures, and not for all others than these."""
    return any(OF_MODEL.search(each) and not re.search(r"\bnot\b|!=", each) for each in rule.conditions)


def broken_later(launch: Launch, catalogue: FlagCatalogue, source: Source) -> list[Problem]:
    """What is refused once the server runs, of values that are typed: what it would change is not weighed."""
    values, given = values_of(launch, catalogue)
    return [
        Problem("rule", "error", _first_name({each.flag}, catalogue), each.why, at=each.at, quote=each.quote)
        for each in refused_later(values, source)
        if each.flag in given
    ]


def _dispatched(launch: Launch, catalogue: FlagCatalogue, rules: Sequence[Rule]) -> dict[str, str]:
    """Handlers that are reached through a table and named for a value that is given (`_handle_eagle` for EAGLE3).

    Their marker in conditions, and the destination of the flag that has the value.
    """
    stems: dict[str, str] = {}
    for each in launch.given:
        for value in each.values:
            match = re.match(r"[A-Za-z]{3,}", value)
            if match is not None and (isinstance(each.flag.choices, tuple) or value.isupper()):
                stems[match[0].lower()] = catalogue.field(each.flag)
    found: dict[str, str] = {}
    for marker in {each for rule in rules for each in rule.conditions if each.endswith(CALLED)}:
        words = marker.removesuffix(CALLED).lower().split("_")
        named = next((dest for stem, dest in stems.items() if stem in words), None)
        if named is not None:
            found[marker] = named
    return found


def _certain(rule: Rule, left: set[str], values: dict[str, Any], rules: Sequence[Rule]) -> dict[str, Any]:
    """The values without those that are `left` to their default and that some handler may have changed before."""
    unsure = {
        dest
        for other in rules
        if other.kind == "override" and other is not rule
        for dest in other.sets
        if dest in left
        if all(holds(each, values, other.terms) is not False for each in other.conditions)
    }
    return {dest: value for dest, value in values.items() if dest not in unsure} if unsure else values


def _settled(rule: Rule, values: dict[str, Any], given: set[str]) -> bool:
    """Whether an override sets what is there already, or puts what is given into another form: a list into a set, names
    into paths, `x = checked(x)`.
    """
    written = _written(rule)
    for dest, value in _set_to(rule, values).items():
        if value is UNKNOWN:
            text = ast.unparse(written[dest]) if dest in written else ""
            if dest not in given or not (text in EMPTY or re.search(rf"\b(?:{FORMED})?{dest}\b", text)):
                return False
        elif not _same(value, values.get(dest, UNKNOWN)):
            return False
    return True


def _same(value: Any, held: Any) -> bool:
    alike = isinstance(value, list | set | tuple) and isinstance(held, list | set | tuple)
    return {*map(str, value)} == {*map(str, held)} if alike else bool(value == held)


def _written(rule: Rule) -> dict[str, ast.expr]:
    """What the code gives to each flag that an override sets: `a = b, b = 1`; empty where that cannot be read."""
    try:
        written = ast.parse(f"dict({rule.effect.partition('; says ')[0]})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    keywords = written.keywords if isinstance(written, ast.Call) else []
    return {each.arg: each.value for each in keywords if each.arg in rule.sets}


def _set_to(rule: Rule, values: dict[str, Any]) -> dict[str, Any]:
    """What an override sets, all of it at once; UNKNOWN where it is worked out as the server starts."""
    found = dict.fromkeys(rule.sets, UNKNOWN)
    for dest, expression in _written(rule).items():
        text = ast.unparse(expression)
        found[dest] = UNKNOWN if text in EMPTY else value_of(text, values, rule.terms)
    return found


def _told(rule: Rule, values: dict[str, Any]) -> str:
    """What an override does, in words: what it sets, what it works out from more than the command, what it says."""
    to = _set_to(rule, values)
    known = ", ".join(f"{dest} = {value!r}" for dest, value in to.items() if value is not UNKNOWN)
    unknown = ", ".join(dest for dest, value in to.items() if value is UNKNOWN)
    parts = [f"sets {known}"] * bool(known) + [f"works out {unknown} as it starts"] * bool(unknown)
    _, says, words = rule.effect.partition("; says ")
    return f"the server {' and '.join(parts)}{says}{words}"


def _apply(rule: Rule, values: dict[str, Any], changed: dict[str, Rule]) -> None:
    for dest, value in _set_to(rule, values).items():
        if value is UNKNOWN:
            values.pop(dest, None)
        else:
            values[dest] = value
        changed[dest] = rule


def _condition_names(rule: Rule, names: frozenset[str]) -> set[str]:
    """The flags that the condition itself weighs; of an `or` as well as of an `and`."""
    return set(re.findall(r"\w+", " ".join((*rule.conditions, *rule.terms)))) & names


def _first_name(dests: set[str], catalogue: FlagCatalogue) -> str:
    for flag in catalogue.flags:
        if catalogue.field(flag) in dests:
            return flag.name
    return min(dests)
