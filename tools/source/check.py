"""A launch command held against the flags and the rules of a version."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tools.entry_point import ROUTER
from tools.other_engines import FOREIGN
from tools.source.architecture import named_by_path
from tools.source.broken import broken, broken_later
from tools.source.catalogue import Flag, FlagCatalogue
from tools.source.idle import idle
from tools.source.launch import Given, Launch, parse_launch
from tools.source.problem import Kind, Problem
from tools.source.renames import elsewhere, named_here
from tools.source.rule import Rule
from tools.source.serve import CLI, MODEL, Front, front_of
from tools.source.values import FILLED_LATER, near_choices, range_problem, unusual, value_problem
from tools.source.variables import unread

if TYPE_CHECKING:
    from tools.source.source import Source

OF_ROUTER: Final = "--router-"
NEAR: Final = 5  # options that are asked whether they take the value
HELP: Final = ("-h", "--help")
QUOTES: Final = re.compile("^[\u2018\u2019\u201c\u201d]|[\u2018\u2019\u201c\u201d]$")
LONG_DASH: Final = re.compile("-?[\u2010-\u2015\u2212]+")


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
    architecture: str = "",
) -> tuple[Problem, ...]:
    """The same for a command already read; without rules, `front` and tree where only a catalogue is to be had.

    `architecture` is the model's, where its `config.json` is at hand; else its path may name it.
    """
    guessed = "" if architecture else named_by_path(launch.value("model_path") or "")
    found = _front(launch, catalogue, front) if front is not None else []
    own = front.options if front is not None else frozenset()
    routers = tuple(name for name, _ in launch.unknown if launch.router and name.startswith(OF_ROUTER))
    launch = replace(launch, unknown=tuple(each for each in launch.unknown if each[0] not in (*own, *routers)))
    if routers:
        said = f"options of the router, which is no part of this tree, are not checked: {', '.join(routers)}"
        found.append(Problem("unseen", "note", routers[0], said))
    found += [*_names(launch, catalogue), *_given(launch, catalogue), *_missing(launch, catalogue), *_unseen(launch)]
    found += broken(launch, catalogue, rules, architecture or guessed, guessed=bool(guessed))
    if source is not None:
        found += [*broken_later(launch, catalogue, source), *unread(dict(launch.environment), source)]
        found += idle(launch, catalogue, rules, source)
    order = {"error": 0, "warning": 1, "note": 2}
    found = [_as_typed(problem, launch) for problem in found]
    return tuple(sorted(found, key=lambda problem: order[problem.severity]))


def _as_typed(problem: Problem, launch: Launch) -> Problem:
    """A problem that calls a flag of several names by the one that was typed, in whole."""
    for each in launch.given:
        name = each.flag.name
        if each.typed == name or problem.flag != name:
            continue
        typed = _whole_name(each)
        told = re.sub(rf"(?<![\w-]){name}(?![\w-])", typed, problem.message)
        return replace(problem, flag=typed, message=told, instead=problem.instead.replace(f"{name} ", f"{typed} "))
    return problem


def _whole_name(each: Given) -> str:
    """The name that was typed, spelled out."""
    names = [name for name in each.flag.names if name.startswith(each.typed)]
    return each.typed if each.typed in names else names[0]


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
    for name, place in launch.unknown:
        foreign = FOREIGN.get(name)
        if foreign is not None:
            engine, instead, why, _ = foreign
            known = catalogue.find(instead) if instead else None
            instead = known.name if known is not None else ""
            said = f"{name} is an option of {engine}, not of sglang {catalogue.version}"
            found.append(Problem("foreign", "error", name, said + (f"; {why}" if why else ""), instead))
        else:
            found.append(_renamed("unknown", name, catalogue) or _unknown(name, launch.after(place), catalogue))
    for name, _, completions in launch.ambiguous:
        said = f"{name} could be {', '.join(completions[:4])}"
        plain = Problem("ambiguous", "error", name, said, completions[0])
        found.append(_renamed("ambiguous", name, catalogue) or plain)
    if launch.lost:
        said = f"a comment between continued lines ends the command: not given are {', '.join(launch.lost)} after it"
        found.append(Problem("stray", "warning", launch.lost[0], f"{said}; put the comment above the command"))
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


def _unknown(name: str, values: tuple[str, ...], catalogue: FlagCatalogue) -> Problem:
    if name.startswith(OF_ROUTER):
        said = f"{name} is an option of {ROUTER}, not of sglang.launch_server"
        return Problem("unknown", "error", name, said, f"python3 -m {ROUTER}")
    if name in HELP:
        return Problem("unknown", "error", name, f"{name} prints the options and ends: no server is started")
    dashed = next((flag for flag in catalogue.flags if name.replace("_", "-") in flag.names), None)
    if dashed is not None:
        said = f"sglang {catalogue.version} has no {name}: its options are written with dashes"
        return Problem("unknown", "error", name, said, name.replace("_", "-"), dashed.at)
    opposite = _opposite(name, catalogue)
    if opposite is not None:
        state = "on" if name.startswith("--enable-") else "off"
        said = f"sglang {catalogue.version} has no {name}: that is {state} unless {opposite.name} is given"
        return Problem("unknown", "error", name, said, at=opposite.at)
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
    near = [catalogue.get(each) for each in catalogue.nearest(name, NEAR)]
    near = list({flag.name: flag for flag in near if not flag.deprecated}.values())
    near.sort(key=lambda flag: bool(value_problem(flag, values)) and not near_choices(flag, values))
    also = f" (also near: {', '.join(flag.name for flag in near[1:3])})" if len(near) > 1 else ""
    said = f"sglang {catalogue.version} has no {name}{also}"
    return Problem("unknown", "error", name, said, _repaired(near[0], near[0].name, values) if near else "")


def _opposite(name: str, catalogue: FlagCatalogue) -> Flag | None:
    """The switch that says the contrary of one that is not there: `--disable-x` for `--enable-x`."""
    way, _, what = name.removeprefix("--").partition("-")
    other = {"enable": "disable", "disable": "enable"}.get(way)
    found = catalogue.find(f"--{other}-{what}") if other else None
    return found if found is not None and not found.takes_value and not found.deprecated else None


def _repaired(flag: Flag, name: str, values: tuple[str, ...]) -> str:
    """An option as it is to be typed: with its value where the one that was given is none of its choices."""
    choices = near_choices(flag, values) if value_problem(flag, values) else []
    return " or ".join(f"{name} {choice}" if not at else choice for at, choice in enumerate(choices)) or name


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
        full = _whole_name(each)
        found.append(Problem("abbreviation", "note", each.typed, f"read as {full}", full, flag.at))
    if flag.deprecated:
        said = f"{flag.name} is deprecated: {' '.join(flag.deprecated.split())[:200]}"
        found.append(Problem("deprecated", "warning", flag.name, said, flag.replacement or "", flag.at))
    wrong = value_problem(flag, each.values) or (range_problem(flag, each.values) if counts else "")
    if wrong:
        instead = _repaired(flag, flag.name, each.values) if near_choices(flag, each.values) else ""
        found.append(Problem("value", "error", flag.name, wrong, instead, flag.at))
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
