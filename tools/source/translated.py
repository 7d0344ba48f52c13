"""The launch command of another inference server, as SGLang takes it: its options under SGLang's names."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from tools.other_engines import FOREIGN, VALUE_DIFFERS, engine_of
from tools.source.catalogue import FlagCatalogue
from tools.source.launch import Launch, parse_launch
from tools.source.problem import Problem
from tools.source.serve import MODEL
from tools.source.values import near_choices, value_problem

STARTS = ("python3", "-m", "sglang.launch_server")


def as_started(command: str) -> tuple[str, tuple[str, ...]] | None:
    """The engine that a command starts and its options behind SGLang's entry; None for any other command."""
    try:
        words = shlex.split(command.replace("\\\n", " "))
    except ValueError:
        return None
    found = engine_of(words)
    if found is None:
        return None
    engine, begin = found
    own = words[begin:]
    model = (MODEL,) if own and not own[0].startswith("-") else ()
    return engine, (*STARTS, *model, *own)


def translated(words: Sequence[str], engine: str, catalogue: FlagCatalogue) -> Problem:
    """The whole command as SGLang takes it; what it has no word for is left out, and `check` says why of each option.

    VALUE stands where only the operator can say what is meant.
    """
    launch = parse_launch(words, catalogue)
    said = f"this starts {engine}, no SGLang; as sglang {catalogue.version} takes it:"
    return Problem(
        "foreign", "error", engine, said, " ".join([*STARTS, *map(shlex.quote, _options(launch, catalogue))])
    )


def _options(launch: Launch, catalogue: FlagCatalogue) -> list[str]:
    placed: dict[int, list[str]] = {}
    for each in launch.given:
        values = each.values
        if value_problem(each.flag, values):
            near = near_choices(each.flag, values)
            values = tuple(near) if len(near) == 1 else ("VALUE",)
        placed[each.place] = [each.typed if each.typed in each.flag.names else each.flag.name, *values]
    for name, place in launch.unknown:
        foreign = FOREIGN.get(name)
        known = catalogue.find(foreign.instead) if foreign is not None and foreign.instead else None
        if foreign is None or known is None:
            continue
        given = launch.after(place) or ("VALUE",)
        value = ("VALUE",) if foreign.value == VALUE_DIFFERS else (foreign.value,) if foreign.value else given
        placed[place] = [known.name, *(value if known.takes_value else ())]
    return [word for place in sorted(placed) for word in placed[place]]
