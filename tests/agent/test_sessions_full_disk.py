"""A full disk: said in one line with exit 2, nothing that was shown is lost, and with room again it comes to its end.

A limit on the size of files stands for the disk: writes beyond it fail in the middle, as they do on a full one.
"""

from __future__ import annotations

import json
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.program import ROOT, Done, command, environment, sglscout
from transcripts.store import Store

Json = dict[str, Any]
SETTLED = ("diagnosis", "options", "state", "changes")


def _limited(limit: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def _with_room_for(limit: int, home: Path, *words: str, stdin: str = "") -> Done:
    done = subprocess.run(
        command(*words), input=stdin, capture_output=True, text=True, env=environment(home), cwd=ROOT, check=False,
        preexec_fn=_limited(limit), timeout=120,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Json:
    return sglscout(tmp_path_factory.mktemp("undisturbed"), "demo", "story", "--json").document


def _settled(made: Json) -> str:
    """All of it that has neither ids nor times in it."""
    return json.dumps({key: made[key] for key in SETTLED}, sort_keys=True).replace(made["id"], "ID")


@pytest.mark.parametrize("limit", [200, 9_000, 60_000, 150_000])
def test_a_diagnosis_stops_with_a_word_and_goes_on_when_there_is_room(
    tmp_path: Path, undisturbed: Json, limit: int
) -> None:
    done = _with_room_for(limit, tmp_path, "demo", "story", "--events")
    (said,) = [line for line in done.err.splitlines() if line.startswith("sglscout: ")]
    assert (done.exit, "disk full: " in said, "Traceback" in done.err) == (2, True, False), done.err
    store = Store(tmp_path)
    sessions = [first["id"] for first, _ in store.heads() if first["role"] == "session"]
    if not sessions:
        assert (limit, done.out) == (200, "")
        return
    (identity,) = sessions
    assert said.endswith(f"Free some space, then `sglscout resume {identity}`.")
    for event in map(json.loads, done.out.splitlines()):
        on_disk = {record["seq"]: record for record in store.read(event.get("transcript", identity))}
        assert on_disk[event["seq"]]["type"] == event["type"]
    again = _with_room_for(limit, tmp_path, "resume", identity)
    assert (again.exit, "disk full: " in again.err) == (2, True), again.err
    assert _settled(sglscout(tmp_path, "resume", identity, "--json").document) == _settled(undisturbed)


def test_a_chat_says_so_and_leaves_with_2(tmp_path: Path) -> None:
    done = _with_room_for(20_000, tmp_path, "chat", "--demo", "story", stdin="requests queue up\n")
    assert (done.exit, "disk full: " in done.out + done.err, "a bug" in done.out + done.err) == (2, True, False)


def test_a_view_that_does_not_fit_is_refused_in_a_line(tmp_path: Path) -> None:
    sglscout(tmp_path, "demo", "story")
    identity = next(first["id"] for first, _ in Store(tmp_path).heads() if first["role"] == "session")
    done = _with_room_for(1_000, tmp_path, "writeup", identity, "-o", str(tmp_path / "incident.html"))
    assert (done.exit, "Traceback" in done.err) == (2, False)
    assert "incident.html cannot be written: File too large" in done.err
