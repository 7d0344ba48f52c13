"""A launch command held against the flags and the rules of a version."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from tools.source.begun import begun_in
from tools.source.catalogue import Dynamic, Flag, FlagCatalogue
from tools.source.foreign import FOREIGN
from tools.source.later import refused_later
from tools.source.renames import elsewhere, named_here
from tools.source.rule import CALLED, Rule
from tools.source.serve import CLI, MODEL, Front, front_of
from tools.source.values import FILLED_LATER, range_problem, read_value, unusual, value_problem
from tools.source.weigh import UNKNOWN, holds, value_of

if TYPE_CHECKING:
    from tools.source.source import Source

Severity = Literal["error", "warning", "note"]
Kind = Literal[
    "unknown",
    "foreign",
    "abbreviation",
    "ambiguous",
    "value",
    "missing",
    "deprecated",
    "repeated",
    "stray",
    "rule",
    "override",
    "pool",
    "unseen",
]
HELP: Final = ("-h", "--help")
QUOTES: Final = re.compile("^[\u2018\u2019\u201c\u201d]|[\u2018\u2019\u201c\u201d]$")
LONG_DASH: Final = re.compile("-?[\u2010-\u2015\u2212]+")
NUMBER: Final = re.compile(r"-\d+(?:\.\d*)?|-\.\d+")


@dataclass(frozen=True, slots=True)
class Given:
    """One option as typed: its flag, the values after it, and where it stands among the arguments."""

    flag: Flag
    typed: str
    values: tuple[str, ...]
    place: int


@dataclass(frozen=True, slots=True)
class Launch:
    """The arguments of a server in a launch command. `rest` are words that belong to no option.

    `serve` tells that `sglang serve` starts it, `positional` the model that it is given by its place.
    """

    arguments: tuple[str, ...]
    given: tuple[Given, ...]
    unknown: tuple[tuple[str, int], ...]
    ambiguous: tuple[tuple[str, int, tuple[str, ...]], ...]
    rest: tuple[str, ...]
    serve: bool = False
    positional: str = ""

    def value(self, dest: str) -> str | None:
        """The last value given for a destination; None if it is not given."""
        found = [each for each in self.given if each.flag.dest == dest]
        return None if not found else " ".join(found[-1].values)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something about a command. `at` and `quote` are the line of the tree that says so, empty if none does."""

    kind: Kind
    severity: Severity
    flag: str
    message: str
    instead: str = ""
    at: str = ""
    quote: str = ""

    def document(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("kind", "severity", "flag", "message", "instead", "at", "quote")}


def parse_launch(command: str | Sequence[str], catalogue: FlagCatalogue) -> Launch:
    """Read a command as argparse would, abbreviations included. Raises UsageError for text that cannot be split."""
    begun = begun_in(command)
    words = list(begun.arguments)
    given: list[Given] = []
    unknown: list[tuple[str, int]] = []
    ambiguous: list[tuple[str, int, tuple[str, ...]]] = []
    rest: list[str] = []
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        if not word.startswith("-") or word == "-" or NUMBER.fullmatch(word):
            rest.append(word)
            continue
        name, equals, attached = word.partition("=")
        found = _named(name, catalogue)
        if isinstance(found, tuple):
            ambiguous.append((name, place - 1, found))
        if not isinstance(found, Flag):
            if not isinstance(found, tuple):
                unknown.append((name, place - 1))
            while not equals and place < len(words) and not _is_option(words[place]):
                place += 1
            continue
        start = place - 1
        values, place = ((attached,), place) if equals else _values(words, place, found.nargs)
        given.append(Given(found, name, values, start))
    found_words = tuple(words), tuple(given), tuple(unknown), tuple(ambiguous), tuple(rest)
    return Launch(*found_words, serve=begun.serve, positional=begun.positional)


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not NUMBER.fullmatch(word) and " " not in word


def _named(name: str, catalogue: FlagCatalogue) -> Flag | tuple[str, ...] | None:
    """The flag of an option string or of its only possible completion; all completions if there are several."""
    exact = next((flag for flag in catalogue.flags if name in flag.names), None)
    if exact is not None:
        return exact
    completions = catalogue.by_prefix(name) if len(name) > 2 else []
    flags = {id(flag): flag for each in completions if (flag := catalogue.find(each)) is not None}
    if len(flags) == 1 and len(completions) == 1:
        return next(iter(flags.values()))
    return tuple(completions) or None


def _values(words: list[str], place: int, nargs: str | int | None) -> tuple[tuple[str, ...], int]:
    most = {None: 1, "?": 1, 0: 0}.get(nargs, nargs if isinstance(nargs, int) else len(words))
    end = place
    while end < len(words) and end - place < most and not _is_option(words[end]):
        end += 1
    return tuple(words[place:end]), end


def check_command(command: str | Sequence[str], source: Source) -> tuple[Problem, ...]:
    """What is wrong with a launch command in this version, errors first. Raises UsageError, SourceUnavailable."""
    launch = parse_launch(command, source.catalogue())
    front = front_of(source) if launch.serve else None
    return check(launch, source.catalogue(), source.handler_rules(), front, source)


def check(
    launch: Launch,
    catalogue: FlagCatalogue,
    rules: Sequence[Rule],
    front: Front | None = None,
    source: Source | None = None,
) -> tuple[Problem, ...]:
    """The same for a command already read; without rules, `front` and tree where only a catalogue is to be had."""
    found = _front(launch, catalogue, front) if front is not None else []
    own = front.options if front is not None else frozenset()
    launch = replace(launch, unknown=tuple(each for each in launch.unknown if each[0] not in own))
    found += [*_names(launch, catalogue), *_given(launch, catalogue), *_missing(launch, catalogue), *_unseen(launch)]
    found += _rules(launch, catalogue, rules)
    found += _later(launch, catalogue, source) if source is not None else []
    order = {"error": 0, "warning": 1, "note": 2}
    return tuple(sorted(found, key=lambda problem: order[problem.severity]))


def _front(launch: Launch, catalogue: FlagCatalogue, front: Front) -> list[Problem]:
    """What is wrong with the way `sglang serve` is called."""
    if not front.there:
        said = f"sglang {catalogue.version} has no command `sglang serve`"
        return [Problem("unknown", "error", "serve", said, "python3 -m sglang.launch_server")]
    if launch.positional and not front.positional:
        said = f"`sglang serve` of {catalogue.version} takes no model by its place: {launch.positional}"
        return [Problem("stray", "error", launch.positional, said, f"{MODEL} {launch.positional}", CLI)]
    return []


def _names(launch: Launch, catalogue: FlagCatalogue) -> list[Problem]:
    found: list[Problem] = []
    for name, _ in launch.unknown:
        foreign = FOREIGN.get(name)
        if foreign is not None:
            engine, instead, why = foreign
            known = catalogue.find(instead) if instead else None
            instead = known.name if known is not None else ""
            said = f"{name} is an option of {engine}, not of sglang {catalogue.version}"
            found.append(Problem("foreign", "error", name, said + (f"; {why}" if why else ""), instead))
        else:
            found.append(_renamed("unknown", name, catalogue) or _unknown(name, catalogue))
    for name, _, completions in launch.ambiguous:
        said = f"{name} could be {', '.join(completions[:4])}"
        plain = Problem("ambiguous", "error", name, said, completions[0])
        found.append(_renamed("ambiguous", name, catalogue) or plain)
    stray = [word for word in launch.rest if not FILLED_LATER.search(word)]
    if stray:
        found.append(Problem("stray", "error", stray[0], f"belongs to no option: {_stray(stray, launch)}"))
    for word in (word for word in launch.arguments if QUOTES.search(word) or LONG_DASH.match(word)):
        said = f"{word} is typed with a typographic dash or quote, which the server does not read as one"
        found.append(Problem("stray", "error", word, said, LONG_DASH.sub("--", QUOTES.sub("", word))))
    return found


def _stray(stray: list[str], launch: Launch) -> str:
    """The words that belong to no option, and the switch that a first one stands behind."""
    before = launch.arguments[: launch.arguments.index(stray[0])][-1:]
    switch = any(each.typed in before and each.flag.nargs == 0 for each in launch.given)
    return " ".join(stray[:5]) + (f"; {before[0]} is a switch and takes no value" if switch else "")


def _unseen(launch: Launch) -> list[Problem]:
    """What is filled in when the server is started, and so was not held against anything."""
    words = [word for word in launch.rest if FILLED_LATER.search(word)]
    found = [
        Problem("unseen", "note", word, f"{word} is not seen here: options in it are not checked") for word in words
    ]
    config = launch.value("config")
    if config:
        said = f"what {config} sets is not seen here; `check - <FILE` reads such a file"
        found.append(Problem("unseen", "note", "--config", said))
    typed = [each for each in launch.given if any(FILLED_LATER.search(value) for value in each.values)]
    if typed:
        values = ", ".join(f"{each.typed} {' '.join(each.values)}" for each in typed)
        found.append(Problem("unseen", "note", typed[0].flag.name, f"values not seen here: {values}"))
    return found


def _renamed(kind: Kind, name: str, catalogue: FlagCatalogue) -> Problem | None:
    """An option of another version that this one has under another name."""
    here = named_here(name, catalogue)
    if here is None:
        return None
    said = f"sglang {catalogue.version} has no {name}: it is called {here.name} there"
    return Problem(kind, "error", name, said, here.name, here.at)


def _unknown(name: str, catalogue: FlagCatalogue) -> Problem:
    if name in HELP:
        return Problem("unknown", "error", name, f"{name} prints the options and ends: no server is started")
    dashed = next((flag for flag in catalogue.flags if name.replace("_", "-") in flag.names), None)
    if dashed is not None:
        said = f"sglang {catalogue.version} has no {name}: its options are written with dashes"
        return Problem("unknown", "error", name, said, name.replace("_", "-"), dashed.at)
    had = elsewhere(name)
    if had is not None:
        version, flag = had
        advice = " ".join((flag.deprecated or "").split())[:200]
        said = f"sglang {catalogue.version} has no {name}; {version} has it" + (
            f" and says: {advice}" if advice else ""
        )
        named = [flag.replacement or "", *re.findall(r"--[a-z][a-z0-9-]+", advice)]
        here = [each for each in named if each != name and each.startswith("--") and catalogue.find(each) is not None]
        return Problem("unknown", "error", name, said, here[0] if here else "")
    near = catalogue.nearest(name)
    also = f" (also near: {', '.join(near[1:])})" if len(near) > 1 else ""
    said = f"sglang {catalogue.version} has no {name}{also}"
    return Problem("unknown", "error", name, said, near[0] if near else "")


def _given(launch: Launch, catalogue: FlagCatalogue) -> list[Problem]:
    found: list[Problem] = []
    places: dict[str, list[Given]] = {}
    for each in launch.given:
        places.setdefault(each.flag.dest, []).append(each)
    for typed in places.values():
        last = typed[-1]
        if len(typed) > 1:
            said = ", ".join(" ".join(each.values) or each.typed for each in typed)
            times = "twice" if len(typed) == 2 else f"{len(typed)} times"
            said = f"{last.typed} is given {times} ({said}); the last one counts"
            same = all(each.values == last.values for each in typed)
            found.append(Problem("repeated", "note" if same else "warning", last.flag.name, said))
        for each in typed:
            found += _of_one(each, counts=each is last)
    return list(dict.fromkeys(found))


def _of_one(each: Given, *, counts: bool) -> list[Problem]:
    """What is wrong with one option as typed; whether its value makes sense is asked of the one that counts."""
    flag = each.flag
    found: list[Problem] = []
    if each.typed not in flag.names:
        full = next(name for name in flag.names if name.startswith(each.typed))
        found.append(Problem("abbreviation", "note", each.typed, f"read as {full}", full, flag.at))
    if flag.deprecated:
        said = f"{flag.name} is deprecated: {' '.join(flag.deprecated.split())[:200]}"
        found.append(Problem("deprecated", "warning", flag.name, said, flag.replacement or "", flag.at))
    wrong = value_problem(flag, each.values) or (range_problem(flag, each.values) if counts else "")
    if wrong:
        found.append(Problem("value", "error", flag.name, wrong, at=flag.at))
    rare = unusual(flag, each.values) if counts and not wrong else ""
    if rare:
        found.append(Problem("value", "warning", flag.name, rare, at=flag.at))
    return found


def _missing(launch: Launch, catalogue: FlagCatalogue) -> list[Problem]:
    given = {each.flag.dest for each in launch.given}
    elsewhere = launch.value("config") is not None or any(FILLED_LATER.search(word) for word in launch.rest)
    return [
        Problem("missing", "error", flag.name, f"{flag.name} is required and not given", at=flag.at)
        for flag in catalogue.flags
        if flag.required and flag.dest not in given and not elsewhere
    ]


def values_of(launch: Launch, catalogue: FlagCatalogue) -> tuple[dict[str, Any], set[str]]:
    """Value by the code's name for it, defaults included where they are known; and the names that are given."""
    values: dict[str, Any] = {}
    for flag in catalogue.flags:
        if not isinstance(flag.default, Dynamic) and flag.default != "==SUPPRESS==":
            default = list(flag.default) if isinstance(flag.default, tuple) else flag.default
            values.setdefault(catalogue.field(flag), default)
    given: set[str] = set()
    for each in launch.given:
        dest = catalogue.field(each.flag)
        given.add(dest)
        if each.flag.nargs == 0:
            values[dest] = not (each.typed.startswith("--no-") or each.flag.default is True)
            continue
        try:
            typed = [read_value(each.flag, value) for value in each.values]
        except ValueError:
            values.pop(dest, None)
            continue
        if any(FILLED_LATER.search(value) for value in each.values):
            values.pop(dest, None)
        else:
            values[dest] = typed if each.flag.nargs in ("+", "*") else (typed[0] if typed else None)
    return values, given


def _rules(launch: Launch, catalogue: FlagCatalogue, rules: Sequence[Rule]) -> list[Problem]:
    """Rules that are certain to apply to these values, and that something given brings about."""
    values, given = values_of(launch, catalogue)
    plain, _ = values_of(Launch((), tuple(each for each in launch.given if each.flag.required), (), (), ()), catalogue)
    dispatched = _dispatched(launch, catalogue, rules)
    values |= dict.fromkeys(dispatched, True)
    chosen = {dest for dest in given if dest not in values or values[dest] != plain.get(dest)}
    found: list[Problem] = []
    changed: dict[str, Rule] = {}
    for rule in rules:
        asked = (chosen | set(changed)) & _condition_names(rule)
        asked |= {dispatched[each] for each in rule.conditions if each in dispatched}
        later = all(rule.path == changed[dest].path and rule.line > changed[dest].line for dest in asked - given)
        if not asked & chosen or not later:
            continue
        known = values
        if rule.kind in ("raise", "assert"):
            known = _certain(rule, values, given | set(changed), rules)
        if not all(holds(each, known, rule.terms) for each in rule.conditions):
            continue
        if all(holds(each, plain, rule.terms) for each in rule.conditions):
            continue  # the server does that whatever is given
        if rule.kind in ("raise", "assert"):
            name = _first_name(asked & chosen, catalogue)
            found.append(Problem("rule", "error", name, rule.effect, at=rule.at, quote=rule.quote))
        elif rule.kind == "override" and not _settled(rule, values):
            set_here = [dest for dest in rule.sets if dest in given]
            severity: Severity = "warning" if set_here else "note"
            name = _first_name(set(set_here) or set(rule.sets), catalogue)
            said = f"the server sets {rule.effect}"
            found.append(Problem("override", severity, name, said, at=rule.at, quote=rule.quote))
            _apply(rule, values, changed)
    return found


def _later(launch: Launch, catalogue: FlagCatalogue, source: Source) -> list[Problem]:
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


def _certain(rule: Rule, values: dict[str, Any], fixed: set[str], rules: Sequence[Rule]) -> dict[str, Any]:
    """The values without those left to their default that some handler may have changed before."""
    unsure = {
        dest
        for other in rules
        if other.kind == "override" and other is not rule
        for dest in other.sets
        if dest in rule.flags and dest not in fixed
        if all(holds(each, values, other.terms) is not False for each in other.conditions)
    }
    return {dest: value for dest, value in values.items() if dest not in unsure} if unsure else values


def _settled(rule: Rule, values: dict[str, Any]) -> bool:
    """Whether an override sets what is there already."""
    return len(rule.sets) == 1 and _set_to(rule, values) == values.get(rule.sets[0], UNKNOWN)


def _set_to(rule: Rule, values: dict[str, Any]) -> Any:
    """The value that an override of one flag sets; UNKNOWN if it is worked out as the server starts."""
    text = rule.effect.partition('; says "')[0].removeprefix(f"{rule.sets[0]} = ")
    return value_of(text, values, rule.terms)


def _apply(rule: Rule, values: dict[str, Any], changed: dict[str, Rule]) -> None:
    for dest in rule.sets:
        value = _set_to(rule, values) if len(rule.sets) == 1 else UNKNOWN
        if value is UNKNOWN:
            values.pop(dest, None)
        else:
            values[dest] = value
        changed[dest] = rule


def _condition_names(rule: Rule) -> set[str]:
    """The flags that the condition itself weighs; of an `or` as well as of an `and`."""
    words = set(re.findall(r"\w+", " ".join((*rule.conditions, *rule.terms))))
    return {flag for flag in rule.flags if flag in words}


def _first_name(dests: set[str], catalogue: FlagCatalogue) -> str:
    for flag in catalogue.flags:
        if catalogue.field(flag) in dests:
            return flag.name
    return min(dests)
