"""The promises of the store: nothing acknowledged is lost, nothing damaged is believed, one writer."""

from __future__ import annotations

import json
import os
import random
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from transcripts.errors import UsageError
from transcripts.ids import new_id
from transcripts.store import BLOB_OVER, BusyError, Store, StoreError, UnknownIdError

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
    store, identity = _filled(tmp_path)
    assert stat.S_IMODE(_path(store, identity).stat().st_mode) == 0o600
    assert stat.S_IMODE(_path(store, identity).parent.stat().st_mode) == 0o700


def test_large_text_lives_in_a_blob_and_comes_back(tmp_path: Path) -> None:
    store, identity = _filled(tmp_path)
    text = "x" * (BLOB_OVER + 1) + "\udcff"
    with store.open(identity) as transcript:
        transcript.append({"type": "note", "text": text})
    assert store.read(identity)[-1]["text"] == text
    assert _path(store, identity).stat().st_size < BLOB_OVER
    (blob,) = (_path(store, identity).parent / "blobs").iterdir()
    blob.write_text("changed")
    assert store.read(identity)[-1]["text"] == "(the stored text is damaged)"


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
        assert {json.dumps(record, sort_keys=True) for record in store.read(identity)} <= good


def test_a_bad_line_is_set_aside_reported_once_and_the_rest_stays(tmp_path: Path) -> None:
    store, identity = _filled(tmp_path, 4)
    path = _path(store, identity)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"line 1", b"line 9")
    path.write_bytes(b"".join(lines))
    for _ in range(2):
        with store.open(identity) as transcript:
            assert [r["text"] for r in transcript.records if r["type"] == "note"] == [
                "line 0 – ü",
                "line 2 – ü",
                "line 3 – ü",
            ]
    repaired = [record for record in store.read(identity) if record["type"] == "repaired"]
    assert [record["bad"] for record in repaired] == [[[len(lines[0] + lines[1]), "the checksum does not fit"]]]


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    store, identity = _filled(tmp_path, 1)
    import transcripts.store as module

    path = _path(store, identity)
    record = json.loads(path.read_bytes().splitlines()[0])
    del record["sum"]
    path.write_bytes(module._line({**record, "v": module.VERSION + 1}))
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
        with pytest.raises(StoreError, match="No space left"):
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
