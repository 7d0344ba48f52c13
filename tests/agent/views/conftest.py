"""Real sessions for views: each recorded host diagnosed once, and what its transcript folds to."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agent.case import Case
from agent.document import document
from tests.program import Done, sglscout
from transcripts.records import Record, load
from transcripts.store import Store

Json = dict[str, Any]
HOSTS = ("slots", "kv", "prefix", "story")


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("views")


@pytest.fixture(scope="session")
def demo(home: Path) -> Callable[[str], Done]:
    """`demo NAME` as an operator sees it, at 80 columns without colour."""

    @cache
    def run(name: str) -> Done:
        return sglscout(home / name, "demo", name)

    return run


@pytest.fixture(scope="session")
def session(home: Path, demo: Callable[[str], Done]) -> Callable[[str], str]:
    """The id of the session of a recorded host."""

    def find(name: str) -> str:
        demo(name)
        return str(next(first["id"] for first, _ in Store(home / name).heads() if first["role"] == "session"))

    return find


@pytest.fixture(scope="session")
def records(home: Path, session: Callable[[str], str]) -> Callable[[str], list[Record]]:
    def read(name: str) -> list[Record]:
        stored = Store(home / name).read(session(name))
        return [record for each in stored if (record := load(each)) is not None]

    return read


@pytest.fixture(scope="session")
def made(records: Callable[[str], list[Record]]) -> Callable[[str], Json]:
    """The document of a recorded host."""

    @cache
    def make(name: str) -> Json:
        return document(Case.fold(records(name)))

    return make
