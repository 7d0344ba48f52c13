"""The promises of the store: nothing acknowledged is lost, nothing damaged is believed, one writer."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from transcripts.errors import UsageError
from transcripts.files import BusyError
from transcripts.ids import new_id
from transcripts.lines import VERSION, line_of
from transcripts.reading import StoreError, UnreadableError
from transcripts.store import BLOB_OVER, DiskFullError, Store, UnknownIdError

OPENED = {"type": "opened", "role": "session", "text": "it is slow"}


def _filled(home: Path, count: int = 5) -> tuple[Store, str]:
    store = Store(home)
    identity = new_id()
    with store.create(identity, {**OPENED, "id": identity}) as transcript:
        for number in range(count):
            transcript.append({"type": "note", "text": f"line {number} – ü"})
    return store, identity


def _path(store: Store, identity: str) -> Path:
    return store.folder / identity / "transcript.jsonl"


def test_records_come_back_in_order_without_gaps(tmp_path: Path) -> None:
    store, identity = _filled(tmp_path)
    records = store.read(identity)
    assert [record["seq"] for record in records] == [1, 2, 3, 4, 5, 6]
    assert records[3]["text"] == "line 2 – ü"


def test_files_are_private(tmp_path: Path) -> None:
    store, identity = _filled(tmp_path / "home")
    assert stat.S_IMODE(_path(store, identity).stat().st_mode) == 0o600
    folder = _path(store, identity).parent
    assert {stat.S_IMODE(each.stat().st_mode) for each in (folder, store.folder, store.home)} == {0o700}


def test_large_text_lives_in_a_blob_and_comes_back(tmp_path: Path) -> None:
    store, identity = _filled(tmp_path)
    text = "x" * (BLOB_OVER + 1) + "\udcff"
    with store.open(identity) as transcript:
        transcript.append({"type": "note", "text": text})
    assert store.read(identity)[-1]["text"] == text
    assert _path(store, identity).stat().st_size < BLOB_OVER
    (blob,) = (_path(store, identity).parent / "blobs").iterdir()
    blob.write_text("changed")
    assert store.read(identity)[-2]["text"] == "(the stored text is damaged)"


def test_what_has_a_right_checksum_and_is_none_of_ours_is_not_believed(tmp_path: Path) -> None:
    store, identity = _filled(tmp_path)
    path, data = _path(store, identity), b"\xff"
    name = hashlib.sha256(data).hexdigest()
    (path.parent / "blobs").mkdir(exist_ok=True)
    (path.parent / "blobs" / name).write_bytes(data)
    whole = path.read_bytes()
    rest = {"v": VERSION, "at": "2026-02-10T03:20:00Z", "type": "note"}
    path.write_bytes(whole + line_of({**rest, "seq": 7, "text": "", "blob": name}))
    assert store.read(identity)[6]["text"] == "(the stored text is damaged)"
    path.write_bytes(whole + line_of({**rest, "seq": 10**400, "text": "x"}))
    assert len(str(store.read(identity)[6:])) < 400
    path.write_bytes(line_of({**rest, "seq": 1, "type": "opened", "id": identity}))
    with pytest.raises(UnreadableError):
        store.read(identity)
    assert list(store.heads()) == []


def test_cut_at_every_byte_opens_and_keeps_every_whole_line(tmp_path: Path) -> None:
    store, identity = _filled(tmp_path, 3)
    path = _path(store, identity)
    whole = path.read_bytes()
    for cut in range(whole.index(b"\n") + 1, len(whole)):
        path.write_bytes(whole[:cut])
        kept = whole[:cut].count(b"\n")
        with store.open(identity) as transcript:
            assert [record["seq"] for record in transcript.records[:kept]] == list(range(1, kept + 1))
            transcript.append({"type": "note", "text": "after"})
        again = store.read(identity)
        assert again[-1]["text"] == "after"
        assert [record["type"] for record in again].count("repaired") == (0 if whole[:cut].endswith(b"\n") else 1)


def test_no_flipped_bit_is_believed(tmp_path: Path) -> None:
    store, identity = _filled(tmp_path, 3)
    path = _path(store, identity)
    whole = path.read_bytes()
    good = {json.dumps(record, sort_keys=True) for record in store.read(identity)}
    chance = random.Random(7)
    for _ in range(2000):
        position, bit = chance.randrange(len(whole)), chance.randrange(8)
        damaged = bytearray(whole)
        damaged[position] ^= 1 << bit
        path.write_bytes(damaged)
        try:
            found = store.read(identity)
        except UnreadableError:
            assert position < whole.index(b"\n") + 1
            continue
        assert {json.dumps(record, sort_keys=True) for record in found if record["type"] != "damaged"} <= good
        assert len(found) < len(good) or [record for record in found if record["type"] == "damaged"]


def _damage(records: list[dict[str, object]]) -> list[tuple[object, object]]:
    return [(record["seq"], record["text"]) for record in records if record["type"] == "damaged"]


def _spoil(store: Store, identity: str, change: Callable[[list[bytes]], list[bytes]]) -> None:
    path = _path(store, identity)
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


@pytest.mark.parametrize(
    ("change", "damage"),
    [
        (
            lambda lines: [*lines[:2], lines[2].replace(b"line 1", b"line 9"), *lines[3:]],
            [(3, "record 3 is damaged and was set aside: the checksum does not fit")],
        ),
        (lambda lines: [*lines[:2], *lines[3:]], [(3, "record 3 is missing")]),
        (lambda lines: [*lines[:1], *lines[3:]], [(2, "records 2 to 3 are missing")]),
        (
            lambda lines: [*lines[:2], lines[2].replace(b"\n", b""), *lines[3:]],
            [(3, "records 3 to 4 are damaged or missing; 1 line was set aside: the checksum does not fit")],
        ),
        (lambda lines: [*lines[:3], lines[2], *lines[3:]], [(3, "record 3 stands out of its place and was set aside")]),
        (
            lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]],
            [(3, "record 3 is missing"), (3, "record 3 stands out of its place and was set aside")],
        ),
        (
            lambda lines: [*lines[:2], b"\0\0\n", b"hello\n", *lines[2:]],
            [(3, "2 lines before record 3 are no record and were set aside: no checksum")],
        ),
        (
            lambda lines: [*lines[:-1], b"x" + lines[-1]],
            [(5, "record 5 is damaged and was set aside: the checksum does not fit")],
        ),
        (
            lambda lines: [*lines[:1], *(line.replace(b"\n", b"\r\n") for line in lines[1:])],
            [(2, "records 2 to 5 are damaged and were set aside: no checksum")],
        ),
    ],
)
def test_what_is_missing_stands_in_its_place_and_the_rest_stays(
    tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], damage: list[tuple[int, str]]
) -> None:
    store, identity = _filled(tmp_path, 4)
    whole = store.read(identity)
    _spoil(store, identity, change)
    found = store.read(identity)
    assert _damage(found) == damage
    good = [record for record in found if record["type"] != "damaged"]
    assert [record for record in whole if record in good] == good
    with store.open(identity) as transcript:
        transcript.append({"type": "note", "text": "after"})
    again = store.read(identity)
    assert again[:-1] == found
    assert again[-1]["text"] == "after"
    assert again[-1]["seq"] > max(int(str(record["seq"])) for record in found)


@pytest.mark.parametrize("lost", ["gone", "damaged"])
def test_a_lost_text_is_said_to_be_lost(tmp_path: Path, lost: str) -> None:
    store, identity = _filled(tmp_path)
    with store.open(identity) as transcript:
        transcript.append({"type": "note", "text": "x" * (BLOB_OVER + 1)})
    (blob,) = (store.folder / identity / "blobs").iterdir()
    if lost == "gone":
        blob.unlink()
    else:
        blob.write_text("changed")
    ((seq, text),) = _damage(store.read(identity))
    assert (seq, str(text).startswith(f"the text of record 7 is {lost}")) == (7, True)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty"),
        (b"0123456789", "it is empty"),
        (b'{"v":1}\n', "record 1 is damaged and was set aside: no checksum"),
        (random.Random(1).randbytes(5_000), "records 1 to"),
        (line_of({"v": 1, "seq": 1, "at": "", "type": "note", "text": ""}), "it begins with 'note'"),
        (line_of({"v": 1, "seq": 2, "at": "", "type": "opened", "text": ""}), "record 1 is missing"),
        (
            line_of({"v": "1", "seq": 1, "at": "", "type": "opened"}),
            "record 1 is damaged and was set aside: not a record",
        ),
    ],
)
def test_a_transcript_without_its_beginning_is_refused_with_the_reason(
    tmp_path: Path, content: bytes, said: str
) -> None:
    store, identity = _filled(tmp_path)
    _, other = _filled(tmp_path)
    _path(store, identity).write_bytes(content)
    for use in (store.read, store.open):
        with pytest.raises(UnreadableError, match="cannot be opened") as raised:
            use(identity)
        assert said in raised.value.message
        assert f"sglscout forget {identity}" in raised.value.hint
    assert store.peek(identity) == []
    assert [first["id"] for first, _ in store.heads()] == [other]
    assert store.forget(identity) == [identity]


@pytest.mark.parametrize("kind", ["folder", "pipe", "nothing", "whole folder"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    store, identity = _filled(tmp_path)
    path = _path(store, identity)
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "whole folder":
        shutil.rmtree(path.parent)
        path.parent.write_text("")
    for use in (store.read, store.open):
        with pytest.raises(StoreError, match=r"cannot be (read|written)"):
            use(identity)
    assert store.forget(identity) == [identity]
    assert store.ids() == []


def test_a_process_that_dies_while_it_opens_a_session_leaves_none(tmp_path: Path) -> None:
    store, identity = _filled(tmp_path)
    (tmp_path / "transcripts" / f".{(wanted := new_id())}").mkdir()
    assert store.ids() == [identity]
    with store.create(wanted, {**OPENED, "id": wanted}) as transcript:
        assert transcript.folder.name == wanted
    assert store.ids() == [wanted, identity]


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    store, identity = _filled(tmp_path, 1)
    path = _path(store, identity)
    record = json.loads(path.read_bytes().splitlines()[0])
    del record["sum"]
    path.write_bytes(line_of({**record, "v": VERSION + 1}))
    with pytest.raises(StoreError, match="newer sglscout"):
        store.open(identity)


def test_second_writer_is_refused_by_process_id(tmp_path: Path) -> None:
    store, identity = _filled(tmp_path)
    with store.open(identity), pytest.raises(BusyError, match=f"in use by process {os.getpid()}"):
        store.open(identity)
    with store.open(identity) as again:
        assert again.records


def test_unknown_and_ambiguous_ids(tmp_path: Path) -> None:
    store, identity = _filled(tmp_path)
    _filled(tmp_path)
    assert store.resolve(identity) == identity
    assert store.resolve(identity[:-1]) == identity
    for wrong in ("ses_NOPE", "", "../etc", "x"):
        with pytest.raises(UnknownIdError):
            store.resolve(wrong)
    with pytest.raises(UnknownIdError, match="beginning of 2 ids"):
        store.resolve(identity[:8])


def test_unwritable_home_is_one_clear_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        Store(blocked).create(new_id(), OPENED)


def test_full_disk_keeps_what_was_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, identity = _filled(tmp_path)
    before = store.read(identity)
    with store.open(identity) as transcript:
        real = os.write

        def short(number: int, data: bytes) -> int:
            if len(data) > 20:
                return real(number, bytes(data)[:20])
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "write", short)
        with pytest.raises(DiskFullError, match=r"disk full: .*No space left"):
            transcript.append({"type": "note", "text": "does not fit at all, being far too long for what is left"})
        monkeypatch.undo()
        transcript.append({"type": "note", "text": "fits"})
    assert [*before, store.read(identity)[-1]] == store.read(identity)


def test_forget_deletes_a_session_with_its_tasks(tmp_path: Path) -> None:
    store, parent = _filled(tmp_path)
    child = new_id()
    store.create(child, {"type": "opened", "id": child, "role": "task", "parent": parent, "text": ""}).close()
    _, other = _filled(tmp_path)
    assert set(store.forget(parent)) == {parent, child}
    assert store.ids() == [other]


def test_redaction_comes_before_the_disk(tmp_path: Path) -> None:
    store = Store(tmp_path)
    identity = new_id()

    def redact(text: str) -> str:
        return text.replace("hunter2", "«secret»")

    with store.create(identity, {**OPENED, "id": identity, "deep": [{"a": "hunter2"}]}, redact) as transcript:
        transcript.append({"type": "note", "text": "hunter2" * 5000})
    for path in (store.folder / identity).rglob("*"):
        assert path.is_dir() or b"hunter2" not in path.read_bytes()


WRITER = """
import sys
from collections.abc import Callable
from pathlib import Path
from transcripts.store import Store
store = Store(Path(sys.argv[1]))
with store.open(sys.argv[2]) as transcript:
    number = 0
    while True:
        number += 1
        transcript.append({"type": "note", "text": "y" * (number % 7 * 3000), "number": number})
        print(number, flush=True)
"""


@pytest.mark.parametrize("round_", range(12))
def test_kill_loses_nothing_acknowledged(tmp_path: Path, round_: int) -> None:
    store, identity = _filled(tmp_path, 0)
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path), identity], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert process.stdout is not None
    seen = 0
    for _ in range(random.Random(round_).randrange(1, 60)):
        seen = int(process.stdout.readline())
    os.kill(process.pid, signal.SIGKILL)
    rest = process.stdout.read()
    process.wait()
    acknowledged = max([seen, *(int(line) for line in rest.splitlines() if line.isdigit())])
    with store.open(identity) as transcript:
        numbers = [record["number"] for record in transcript.records if record["type"] == "note"]
        assert numbers[:acknowledged] == list(range(1, acknowledged + 1))
        assert [record["seq"] for record in transcript.records] == list(range(1, len(transcript.records) + 1))
