"""What an operator reads at three in the morning: the answer first, nothing cut, the same without colour."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.views import terminal
from agent.views.layout import PlainConsole, columned
from tests.agent.views.conftest import HOSTS
from tests.program import Done

Json = dict[str, Any]


def _printed(document: Json, width: int, *, colour: bool = False) -> str:
    out = io.StringIO()
    console = PlainConsole(
        file=out, width=width, highlight=False, force_terminal=colour, color_system="standard" if colour else None
    )
    console.print(terminal.render(document))
    return out.getvalue()


def _commands(document: Json) -> list[str]:
    each = [
        *(line for stage in document["stages"] for line in stage["commands"]),
        *document["rollback"].get("commands", []),
    ]
    return [line for command in each for line in command.splitlines()]


@pytest.mark.parametrize("name", HOSTS)
def test_lines_fit_80_columns_except_commands_and_none_ends_in_blanks(
    demo: Callable[[str], Done], made: Callable[[str], Json], name: str
) -> None:
    commands = set(_commands(made(name)))
    lines = demo(name).out.splitlines()
    assert [line for line in lines if len(line) > 80 and line not in commands] == []
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_word_is_cut_at_any_width(made: Callable[[str], Json], name: str, width: int) -> None:
    wide = {word for line in terminal.render(made(name)).lines(10_000) for word in line.text.split()}
    narrow = {word for line in _printed(made(name), width).splitlines() for word in line.split()}
    rules = {word for word in narrow if set(word) <= {"-"}}
    assert narrow - wide - rules == set()


@pytest.mark.parametrize("name", ["slots", "kv", "prefix"])
def test_commands_are_printed_as_they_must_be_typed(
    demo: Callable[[str], Done], made: Callable[[str], Json], name: str
) -> None:
    lines = demo(name).out.splitlines()
    commands = _commands(made(name))
    assert commands
    assert [command for command in commands if command not in lines] == []


@pytest.mark.parametrize("name", ["slots", "kv", "prefix"])
def test_answer_then_change_then_commands_then_proof(demo: Callable[[str], Done], name: str) -> None:
    lines = demo(name).out.splitlines()
    titles = ["Change", "Apply", "Check", "Roll back", "Answer", "Options", "Arithmetic"]
    places = [lines.index(title) for title in titles]
    assert places == sorted(places)
    assert lines[1].strip()
    assert places[0] < 10


@pytest.mark.parametrize("name", HOSTS)
def test_colour_adds_nothing_that_is_not_said_without_it(made: Callable[[str], Json], name: str) -> None:
    from rich.text import Text

    coloured = Text.from_ansi(_printed(made(name), 80, colour=True)).plain.splitlines()
    assert coloured == _printed(made(name), 80).splitlines()


@pytest.mark.parametrize("name", HOSTS)
def test_hypotheses_that_nothing_speaks_for_have_no_row(made: Callable[[str], Json], name: str) -> None:
    part = terminal.part(made(name), "hypotheses")
    rows = [line.text for line in part.lines(80)] if part else []
    unraised = [row["label"] for row in made(name)["hypotheses"] if not row["reasons_for"]]
    assert not [label for label in unraised for line in rows if line.startswith(f"  {label}:")]


WORDS = st.text(alphabet="abc-_/.", min_size=0, max_size=18)


@given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=5), st.integers(min_value=20, max_value=130))
def test_no_column_is_narrower_than_its_words(rows: list[tuple[str, str, str]], width: int) -> None:
    lines = columned(["first", "second", "third"], rows, width)
    printed = [word for line in lines for word in line.text.replace(";", " ").split()]
    assert {word for row in rows for word in row if word} <= set(printed)
