"""Copies of sessions: a fork goes its own way, an export is read by somebody else and shows nothing it must not."""

from __future__ import annotations

import io
import json
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.program import Done, sglscout
from transcripts.store import Store

Json = dict[str, Any]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("copied")
    assert sglscout(made, "demo", "slots").exit == 0
    return made


@pytest.fixture(scope="module")
def session(home: Path) -> str:
    return _sessions(home)[-1]


def _sessions(home: Path) -> list[str]:
    return [str(first["id"]) for first, _ in Store(home).heads() if first["role"] == "session"]


def _contents(home: Path, identity: str) -> list[Json]:
    """Records without what every copy has of its own."""
    records = Store(home).read(identity)
    return [{key: value for key, value in each.items() if key not in ("blob", "blob_chars")} for each in records]


def test_a_fork_has_ids_of_its_own_and_says_the_same(home: Path, session: str) -> None:
    before = {name: _contents(home, name) for name in Store(home).ids()}
    done = sglscout(home, "fork", session)
    made = done.out.strip()
    assert (done.exit, made in _sessions(home)) == (0, True)
    original, copied = _contents(home, session), _contents(home, made)
    assert copied[-1]["session"] == session
    assert [each["type"] for each in copied[:-1]] == [each["type"] for each in original]
    theirs = {each["id"] for each in original if each["type"] == "task"}
    own = {each["id"] for each in copied if each["type"] == "task"}
    assert (len(own), own & theirs) == (len(theirs), set())
    assert not [old for old in (session, *theirs) if old in json.dumps(copied[:-1])]
    assert {Store(home).read(task)[0]["parent"] for task in own} == {made}
    asked = sglscout(home, "resume", made, "why not ratio 8?", "--json")
    assert asked.exit == 0
    assert asked.document["id"] == made
    assert sglscout(home, "resume", next(iter(own)), "--json").document["task"] in own
    assert {name: _contents(home, name) for name in before} == before


@pytest.mark.parametrize("at", ["20", "E5"])
def test_a_fork_of_the_beginning_goes_on_to_an_end_of_its_own(home: Path, session: str, at: str) -> None:
    made = sglscout(home, "fork", session[:-2], "--at", at).out.strip()
    copied = _contents(home, made)
    named = next(number for number, each in enumerate(copied, 1) if at in (str(each["seq"]), each.get("id", "")))
    assert len(copied) == named + 1
    assert sglscout(home, "sessions", "--json").document["sessions"][0]["status"] == "open"
    resumed = sglscout(home, "resume", made, "--json")
    whole = sglscout(home, "show", session, "--document", "--json").document
    assert [change["to"] for change in resumed.document["changes"]] == [change["to"] for change in whole["changes"]]


def test_what_cannot_be_forked_is_said_in_a_line(home: Path, session: str) -> None:
    task = next(each["id"] for each in Store(home).read(session) if each["type"] == "task")
    for words, said in ((("fork", task), f"Fork {session}"), (("fork", session, "--at", "E999"), "no record E999")):
        done = sglscout(home, *words)
        assert (done.exit, said in done.err, "Traceback" in done.err) == (2, True, False)


def test_an_export_is_one_private_file_that_another_reads(home: Path, session: str, tmp_path: Path) -> None:
    file = tmp_path / "case.tar.gz"
    done = sglscout(home, "export", session, "-o", str(file))
    assert (done.exit, stat.S_IMODE(file.stat().st_mode)) == (0, 0o600)
    elsewhere = tmp_path / "elsewhere"
    for words in (("show", "ID"), ("writeup", "ID"), ("show", "ID", "--document", "--json")):
        here, there = (
            sglscout(place, *(name if each == "ID" else each for each in words))
            for place, name in ((home, session), (elsewhere, str(file)))
        )
        assert (there.exit, there.out) == (here.exit, here.out)
    assert not (elsewhere / "transcripts").exists()
    again = tmp_path / "again.tar.gz"
    sglscout(home, "export", session, "-o", str(again))
    assert again.read_bytes() == file.read_bytes()


def test_a_shared_export_says_nothing_of_whose_server_it_was(home: Path, session: str, tmp_path: Path) -> None:
    file = tmp_path / "shared.tar.gz"
    assert sglscout(home, "export", session, "-o", str(file), "--share").exit == 0
    document = sglscout(home, "show", session, "--document", "--json").document
    serials = {str(fact["value"]) for fact in document["facts"] if fact["name"] in ("gpu_uuid", "gpu_bus_id")}
    assert serials != set()
    with tarfile.open(file) as archive:
        texts = [_read(archive, member) for member in archive if member.isfile()]
    assert not [serial for serial in serials for text in texts if serial in text]
    shown = sglscout(tmp_path / "elsewhere", "show", str(file), "--document", "--json")
    assert shown.exit == 0
    assert "damaged" not in shown.err
    assert shown.document["target"]["host"] != document["target"]["host"]
    assert shown.document["diagnosis"]["label"] == document["diagnosis"]["label"]


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = archive.extractfile(member)
    assert file is not None
    return file.read().decode("utf-8", "replace")


def _tar(path: Path, name: str, kind: bytes = tarfile.REGTYPE) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname, member.size = kind, "/etc/passwd", 4 if kind == tarfile.REGTYPE else 0
        archive.addfile(member, io.BytesIO(b"text"))
    return path


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("../../ses_0/transcript.jsonl", tarfile.REGTYPE),
        ("/ses_0/transcript.jsonl", tarfile.REGTYPE),
        ("ses_0/blobs/../../x", tarfile.REGTYPE),
        ("ses_0/transcript.jsonl", tarfile.SYMTYPE),
        ("ses_0/transcript.jsonl", tarfile.LNKTYPE),
        ("ses_0/transcript.jsonl", tarfile.REGTYPE),
    ],
)
def test_a_file_that_is_no_export_is_refused_and_writes_nothing(tmp_path: Path, name: str, kind: bytes) -> None:
    done: Done = sglscout(tmp_path / "home", "show", str(_tar(tmp_path / "file.tar.gz", name, kind)))
    assert (done.exit, "sglscout export" in done.err, "Traceback" in done.err) == (2, True, False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.tar.gz"]
