"""Sessions as a person finds them on disk: whole, damaged, torn, stopped; through every command that reads one.

`SGLSCOUT_TRUNCATIONS=1 pytest -s tests/agent/test_sessions.py -k cut` cuts a session and its tasks at every byte, not
at one in some hundred; another number cuts at each so many.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.case import Case
from agent.cli import main
from agent.session import Session
from tests.needs import needs
from tests.program import ROOT, Done, command, environment, sglscout
from transcripts.parts import Call
from transcripts.records import (
    Concluded,
    Ended,
    EvidenceTaken,
    Note,
    Opened,
    Replied,
    Said,
    TaskChanged,
    dump,
    records_of,
)
from transcripts.store import BLOB_OVER, Store

Json = dict[str, Any]
Program = Callable[..., Done]
EVERY = int(os.environ.get("SGLSCOUT_TRUNCATIONS", "431"))
SESSION, TASK = "ses_01M8V1HTAZEB2DA2", "ses_01M8V1HVQ0PAAEVZ"
READING = ("show", "writeup", "resume", "verify")


@pytest.fixture
def program(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Program:
    """The program in this process, at the home of the test."""

    def run(*words: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["sglscout", *words])
        for name, value in environment(tmp_path).items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        return Done(int(left.value.code or 0), said.out, said.err)

    return run


def _opened(identity: str, parent: str = "", text: str = "requests queue up") -> Opened:
    return Opened(
        id=identity,
        role="task" if parent else "session",
        parent=parent,
        text=text,
        model="playbook",
        target={"kind": "bundle", "path": "/nowhere", "host": "crash.log"},
    )


def _filled(home: Path) -> Store:
    """A concluded session of eight records with one large text, and a task of it."""
    store = Store(home)
    with Session.create(store, _opened(SESSION)) as session:
        session.record(Replied(calls=(Call(id="c1", name="look", arguments="{}"),)))
        session.record(_evidence("E1", "x\n" * BLOB_OVER))
        session.record(_evidence("E2", "free 396 Gi"))
        session.record(Ended(call="c1", status="ok", text="E1, E2"))
        session.record(TaskChanged(id=TASK, description="limits", asked="1. Which limit?", status="completed"))
        session.record(Replied(text="It is the pool [E2]."))
        session.record(Concluded(text="It is the pool [E2].", exit=0))
    with Session.create(store, _opened(TASK, SESSION, "1. Which limit?")) as task:
        task.record(Replied(text="None."))
        task.record(Concluded(text="None.", exit=0))
    return store


def _evidence(identity: str, text: str) -> EvidenceTaken:
    return EvidenceTaken(id=identity, probe=f"p{identity}", command="c", host="h", taken="t", exit=0, text=text)


def _path(store: Store, identity: str = SESSION) -> Path:
    return store.folder / identity / "transcript.jsonl"


def _one_line(done: Done, code: int) -> str:
    lines = [line for line in done.err.splitlines() if line.startswith("sglscout: ")]
    assert (done.exit, len(lines)) == (code, 1), done.err
    assert "Traceback" not in done.err
    return lines[0]


def _without_line(path: Path, number: int) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: number - 1] + lines[number:]))


def _flipped(path: Path, number: int) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    lines[number - 1] = lines[number - 1].replace(b"free 396", b"free 397")
    path.write_bytes(b"".join(lines))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: _flipped(path, 4), "record 4 is damaged and was set aside: the checksum does not fit"),
        (lambda path: _without_line(path, 4), "record 4 is missing"),
    ],
)
def test_what_is_missing_is_said_by_every_command_and_view(
    tmp_path: Path, program: Program, spoil: Callable[[Path], None], said: str
) -> None:
    store = _filled(tmp_path)
    spoil(_path(store))
    shown = program("show", SESSION)
    assert said in _one_line(shown, 0)
    assert said in " ".join(shown.out.split())
    for words in (("writeup", SESSION), ("show", SESSION, "--document"), ("writeup", SESSION, "--format", "html")):
        done = program(*words)
        assert said in _one_line(done, 0)
        assert said in " ".join(done.out.split())
    assert json.loads(program("show", SESSION, "--document", "--json").out)["damage"] == [said]
    resumed = program("resume", SESSION, "which log line says so?", "--json")
    assert said in resumed.err
    assert said in resumed.document["answer"][-1]["text"]
    records = store.read(SESSION)
    assert [record["text"] for record in records if record["type"] == "damaged"] == [said]


def test_a_copy_of_a_damaged_session_tells_of_it(tmp_path: Path, program: Program) -> None:
    store = _filled(tmp_path)
    _without_line(_path(store), 4)
    made = program("fork", SESSION).out.strip()
    assert [record["text"] for record in store.read(made) if record["type"] == "note"] == ["record 4 is missing"]
    assert program("export", SESSION, "--share", "-o", str(tmp_path / "shared.tar.gz")).exit == 0
    shown = program("show", str(tmp_path / "shared.tar.gz"))
    assert (shown.exit, "record 4 is missing" in shown.out) == (0, True)


def test_evidence_gets_no_id_twice_where_a_record_of_it_is_lost(tmp_path: Path) -> None:
    store = _filled(tmp_path)
    _without_line(_path(store), 3)
    assert Case.fold(records_of(store.read(SESSION))).next_evidence() == "E3"


def test_a_torn_end_is_no_damage(tmp_path: Path, program: Program) -> None:
    store = _filled(tmp_path)
    with _path(store).open("ab") as file:
        file.write(b'{"v":1,"seq":9,"at":"2026')
    for name, code in (("show", 0), ("writeup", 0), ("resume", 3)):
        done = program(name, SESSION)
        assert (done.exit, "sglscout:" in done.err) == (code, False)
    assert store.read(SESSION)[-1]["type"] == "repaired"


def test_a_shape_that_is_not_known_is_set_aside_with_a_word(tmp_path: Path, program: Program) -> None:
    store = _filled(tmp_path)
    with store.open(SESSION) as transcript:
        transcript.append({"type": "weighed", "kind": "guess"})
        transcript.append({"type": "of the future", "text": "is passed over"})
    assert "record 9 (weighed) has a shape this version cannot read" in _one_line(program("show", SESSION), 0)


def _instead(path: Path, make: Callable[[], object]) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    make()


SPOILT: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "ten bytes": lambda path: path.write_bytes(b"0123456789"),
    "random bytes": lambda path: path.write_bytes(random.Random(3).randbytes(4_000)),
    "no first record": lambda path: _without_line(path, 1),
    "first line cut": lambda path: path.write_bytes(path.read_bytes()[:100]),
    "no file": lambda path: path.unlink(),
    "a folder": lambda path: _instead(path, path.mkdir),
    "a pipe": lambda path: _instead(path, lambda: os.mkfifo(path)),
    "no folder": lambda path: _instead(path.parent, path.parent.touch),
}


@pytest.mark.parametrize("how", SPOILT)
def test_a_session_of_which_nothing_is_left_is_refused_in_one_line(tmp_path: Path, program: Program, how: str) -> None:
    store = _filled(tmp_path)
    SPOILT[how](_path(store))
    for name in READING:
        assert SESSION in _one_line(program(name, SESSION), 2)
    listed = program("sessions", "--json")
    assert [(row["id"], row["status"], row["at"][:10]) for row in listed.document["sessions"]] == [
        (SESSION, "unreadable", "2026-12-02")
    ]
    assert SESSION in program("sessions").out
    assert [row["id"] for row in program("tasks", "--json").document["tasks"]] == [TASK]
    assert program("sessions", "forget", SESSION).exit == 0
    assert store.ids() == []


@pytest.mark.parametrize("how", SPOILT)
def test_a_task_of_which_nothing_is_left_does_not_keep_its_session(tmp_path: Path, program: Program, how: str) -> None:
    store = _filled(tmp_path)
    SPOILT[how](_path(store, TASK))
    assert program("show", SESSION).exit == 0
    assert program("resume", SESSION, "which log line says so?", "--json").document["tasks"][0]["id"] == TASK
    assert TASK in _one_line(program("resume", TASK), 2)
    assert set(store.forget(SESSION)) == {SESSION, TASK}


def test_a_large_text_that_is_gone_is_said_to_be_gone(tmp_path: Path, program: Program) -> None:
    store = _filled(tmp_path)
    shutil.rmtree(store.folder / SESSION / "blobs")
    for name in ("show", "writeup"):
        assert "the text of record 3 is gone" in _one_line(program(name, SESSION), 0)


def test_files_of_another_owner_are_refused_in_one_line(tmp_path: Path) -> None:
    store = _filled(tmp_path)
    _path(store).chmod(0)
    powerless = [needs("setpriv", "util-linux"), "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    for name in READING:
        done = _plain(tmp_path, [*powerless, *command(name, SESSION)])
        assert "Permission denied" in _one_line(done, 2)
    listed = _plain(tmp_path, [*powerless, *command("sessions")])
    assert (listed.exit, "unreadable" in listed.out) == (0, True)


def _plain(home: Path, words: list[str]) -> Done:
    done = subprocess.run(words, capture_output=True, text=True, env=environment(home), cwd=ROOT, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A diagnosis of a recorded host, with its tasks."""
    home = tmp_path_factory.mktemp("real")
    assert sglscout(home, "demo", "story").exit == 3
    return home


def _cuts(whole: bytes) -> Iterator[int]:
    ends = [number for number, letter in enumerate(whole, 1) if letter == 10]
    near = {end + off for end in ends for off in (-1, 0, 1)}
    yield from sorted(near.union(range(0, len(whole), EVERY)) & set(range(len(whole) + 1)))


def test_cut_anywhere_every_whole_record_stays(real: Path, tmp_path: Path) -> None:
    """Of a session and of each of its tasks; `show` and `resume` are tried at the ends of lines."""
    shutil.copytree(real / "transcripts", tmp_path / "transcripts")
    store, cuts = Store(tmp_path), 0
    for name in store.ids():
        path = _path(store, name)
        whole = path.read_bytes()
        records = store.read(name)
        for cut in _cuts(whole):
            path.write_bytes(whole[:cut])
            kept = whole[:cut].count(b"\n")
            assert store.peek(name) == records[:kept]
            cuts += 1
        path.write_bytes(whole)
    print(f"{cuts} cuts of {len(store.ids())} transcripts")


def test_cut_between_two_records_it_goes_on_to_the_same_end(real: Path, tmp_path: Path, program: Program) -> None:
    shutil.copytree(real / "transcripts", tmp_path / "transcripts")
    store = Store(tmp_path)
    (session,) = [first["id"] for first, _ in store.heads() if first["role"] == "session"]
    whole = _path(store, session).read_bytes()
    ends = [number for number, letter in enumerate(whole, 1) if letter == 10]
    undisturbed = program("resume", session, "--json").document
    for end in ends[3 :: 3 if EVERY < 431 else 17]:
        _path(store, session).write_bytes(whole[:end])
        assert program("show", session).exit == 0
        resumed = program("resume", session, "--json")
        assert resumed.exit == 3
        for key in ("diagnosis", "hypotheses", "options", "state"):
            assert resumed.document[key] == undisturbed[key]


def test_a_diagnosis_that_was_stopped_stays_so_when_a_question_is_answered(tmp_path: Path) -> None:
    with Session.create(Store(tmp_path), _opened(SESSION)) as session:
        case = session.case
        assert case.stopped == "requests queue up"
        session.record(Concluded(text="", exit=130, reason="stopped by the operator"))
        session.record(Said(text="why?"))
        assert (case.follow_up, case.question) == ("why?", "why?")
        session.record(Concluded(text="Since [E1].", exit=0, state="stopped"))
        assert (case.follow_up, case.stopped, case.diagnosed) == ("", "requests queue up", False)
        assert case.concluded is not None
        assert case.concluded.text == "Since [E1]."
        session.record(Concluded(text="The pool.", exit=0))
        assert (case.stopped, case.diagnosed) == ("", True)
        session.record(Said(text="and now?"))
        session.record(Concluded(text="", exit=6, reason="the endpoint failed"))
        assert (case.stopped, case.concluded.text) == ("and now?", "The pool.")


@pytest.mark.parametrize("code", [2, 4, 5, 6, 130])
def test_what_ended_without_an_answer_is_gone_on_with(tmp_path: Path, program: Program, code: int) -> None:
    """The bundle is not there, so going on means to be told so."""
    with Session.create(Store(tmp_path), _opened(SESSION)) as session:
        session.record(Concluded(text="", exit=code, reason="why it stopped"))
    first = program("resume", SESSION, "--json")
    assert "/nowhere" in _one_line(first, 2)
    assert [record["type"] for record in Store(tmp_path).read(SESSION)][2] == "resumed"


def test_a_stopped_diagnosis_is_gone_on_with_after_a_question(real: Path, tmp_path: Path) -> None:
    """Through the front: stopped after its first records, asked about, then resumed to its end."""
    shutil.copytree(real / "transcripts", tmp_path / "transcripts")
    store = Store(tmp_path)
    (identity,) = [first["id"] for first, _ in store.heads() if first["role"] == "session"]
    path = _path(store, identity)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:30]))
    asked = sglscout(tmp_path, "resume", identity, "how much RAM is free?", "--json")
    assert "The diagnosis itself is still stopped" in asked.err
    assert asked.document["state"] == "stopped"
    assert sglscout(tmp_path, "sessions", "--json").document["sessions"][0]["status"] == "stopped"
    done = sglscout(tmp_path, "resume", identity, "--json")
    assert done.document["state"] == "concluded"
    assert done.document["tasks"] != []
    assert {task["status"] for task in done.document["tasks"]} == {"completed"}


def test_lists_and_conversations_fit_the_terminal(tmp_path: Path, program: Program) -> None:
    store = Store(tmp_path)
    long = f"the server {'is slow ' * 40}{'x' * 20_000} 请求排队 " + "y" * 300
    with Session.create(store, _opened(SESSION, text=long)) as session:
        session.record(Note(text="z" * 500))
    store.create(TASK, dump(_opened(TASK, SESSION, long))).close()
    for words in (("sessions",), ("tasks",), ("show", SESSION)):
        done = program(*words)
        assert max(len(line) for line in done.out.splitlines()) <= 80
        assert SESSION in done.out or TASK in done.out or "the server" in done.out


def test_sessions_are_found_by_what_was_said_in_them(tmp_path: Path, program: Program) -> None:
    _filled(tmp_path)
    for wanted in ("QUEUE up", "crash.log", SESSION[-6:], "It is the pool"):
        assert [row["id"] for row in program("sessions", "--search", wanted, "--json").document["sessions"]] == [
            SESSION
        ]
    assert program("sessions", "--search", "396", "--json").document["sessions"] == []
    assert [row["id"] for row in program("tasks", "--search", "none.", "--json").document["tasks"]] == [TASK]


def test_a_task_that_died_among_its_searches_makes_them_again(real: Path, tmp_path: Path, program: Program) -> None:
    shutil.copytree(real / "transcripts", tmp_path / "transcripts")
    store = Store(tmp_path)
    tasks = [first["id"] for first, _ in store.heads() if first["role"] == "task"]
    assert tasks != []
    for task in tasks:
        records = store.read(task)
        (report,) = [record for record in records if record["type"] == "reported"]
        ended = next(number for number, record in enumerate(records) if record["type"] == "ended")
        lines = _path(store, task).read_bytes().splitlines(keepends=True)
        _path(store, task).write_bytes(b"".join(lines[:ended]))
        resumed = program("resume", task, "--events")
        assert resumed.exit == 0
        events = [json.loads(line) for line in resumed.out.splitlines()]
        kept = [record for record in store.read(task) if record["type"] != "repaired"][ended:]
        assert [(event["transcript"], event["seq"]) for event in events] == [(task, each["seq"]) for each in kept]
        again = [record for record in store.read(task) if record["type"] == "reported"]
        assert [each["findings"] for each in again] == [report["findings"]]


def test_ctrl_c_is_on_record_and_what_it_stopped_goes_on(tmp_path: Path, program: Program) -> None:
    process = subprocess.Popen(
        command("demo", "story", "--events"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(tmp_path),
        cwd=ROOT,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs are deaf to it
    )
    assert process.stdout is not None
    for _ in range(10):
        process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in err) == (130, False)
    (row,) = program("sessions", "--json").document["sessions"]
    assert row["status"] == "stopped"
    assert Store(tmp_path).read(row["id"])[-1]["reason"] == "stopped by the operator"
    resumed = program("resume", row["id"], "--json")
    assert resumed.document["state"] == "concluded"
    probes = [record["probe"] for record in Store(tmp_path).read(row["id"]) if record["type"] == "evidence"]
    assert len(probes) == len(set(probes))
