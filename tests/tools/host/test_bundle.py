"""Bundles: what `collect` writes, what its script prints, and whatever else an operator has."""

from __future__ import annotations

import asyncio
import base64
import gzip
import io
import json
import os
import socket
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.commands.host import collect, collection_script, trust
from tests.needs import needs
from tests.sshd import Sshd, sshd
from tools.host import STANDARD, Observation, look, open_bundle
from tools.host.bundle import MANIFEST
from tools.host.known_hosts import fingerprint
from transcripts.errors import UsageError


def _all(path: Path) -> list[Observation]:
    async def work() -> list[Observation]:
        async with open_bundle(path) as host:
            return [seen async for seen in look(host)]

    return asyncio.run(work())


def _read(path: Path) -> dict[str, Observation]:
    return {seen.probe: seen for seen in _all(path)}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "case.tar.gz"
    done = CliRunner().invoke(collect, ["--host", "local", "-o", str(path)], standalone_mode=False)
    assert done.exception is None, done.exception
    return path


def _changed(bundle: Path, to: Path, change: dict[str, bytes | None]) -> Path:
    with tarfile.open(bundle) as old, tarfile.open(to, "w:gz") as new:
        for member in old:
            file = old.extractfile(member)
            assert file is not None
            data = change.get(Path(member.name).name, file.read())
            if data is not None:
                member.size = len(data)
                new.addfile(member, io.BytesIO(data))
    return to


def test_a_bundle_brings_back_what_was_seen(bundle: Path) -> None:
    seen = _read(bundle)
    assert {probe.name for probe in STANDARD} <= set(seen)
    assert "MemTotal:" in seen["meminfo"].text
    assert seen["meminfo"].command == "cat /proc/meminfo"
    assert seen["unit"].problem == "skipped"
    assert bundle.stat().st_mode & 0o777 == 0o600


def test_a_folder_of_a_bundle_is_one(bundle: Path, tmp_path: Path) -> None:
    with tarfile.open(bundle) as archive:
        archive.extractall(tmp_path, filter="data")
    assert _read(tmp_path / "sglscout") == _read(bundle)


@pytest.mark.parametrize("change", ["a changed file", "a missing file", "no json", "no host", "an odd path"])
def test_a_bundle_that_was_changed_is_refused(bundle: Path, tmp_path: Path, change: str) -> None:
    with tarfile.open(bundle) as archive:
        manifest = json.loads(archive.extractfile(f"sglscout/{MANIFEST}").read())  # type: ignore[union-attr]
    if change == "an odd path":
        manifest["evidence"][0]["file"] = "../../etc/passwd"
    wanted: dict[str, dict[str, bytes | None]] = {
        "a changed file": {"meminfo.txt": b"MemTotal: 1 kB\n"},
        "a missing file": {"meminfo.txt": None},
        "no json": {MANIFEST: b"{"},
        "no host": {MANIFEST: b"{}"},
        "an odd path": {MANIFEST: json.dumps(manifest).encode()},
    }
    with pytest.raises(UsageError, match="manifest"):
        _read(_changed(bundle, tmp_path / "changed.tar.gz", wanted[change]))


@pytest.mark.parametrize("cut", [10, 100, 1000])
def test_a_torn_bundle_is_a_clear_error(bundle: Path, tmp_path: Path, cut: int) -> None:
    torn = tmp_path / "torn.tar.gz"
    torn.write_bytes(bundle.read_bytes()[:cut])
    with pytest.raises(UsageError):
        _read(torn)


def test_a_log_that_gzip_packed_is_read_as_the_log(tmp_path: Path) -> None:
    """What logrotate leaves is no archive of files."""
    text = "[2026-12-02 03:00:00 TP0] Load weight begin. avail mem=78.50 GB\n" * 20
    for name, log in (("long.log.gz", text), ("short.log.gz", text[:60])):
        (tmp_path / name).write_bytes(gzip.compress(log.encode()))
        assert [each.text for each in _all(tmp_path / name)] == [log]
    torn = tmp_path / "torn.log.gz"
    torn.write_bytes(gzip.compress(text.encode())[:-12])
    with pytest.raises(UsageError, match="unreadable bundle"):
        _all(torn)
    bomb = tmp_path / "bomb.log.gz"
    with gzip.open(bomb, "wb", compresslevel=1) as packed:
        for _ in range(300):
            packed.write(b"x" * (1 << 20))
    with pytest.raises(UsageError, match="swells"):
        _all(bomb)


def test_an_archive_that_swells_is_bounded(tmp_path: Path) -> None:
    large = tmp_path / "large.tar.gz"
    with tarfile.open(large, "w:gz", compresslevel=1) as archive:
        for name in ("a.log", "b.log"):
            entry = tarfile.TarInfo(name)
            entry.size = 48 << 20
            archive.addfile(entry, io.BytesIO(b"x" * (48 << 20)))
    seen = _all(large)
    assert [len(each.text) for each in seen] == [48 << 20, 0]
    assert "too many" in seen[1].problem


def test_an_archive_that_swells_without_end_is_refused(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.tar.gz"
    entry = tarfile.TarInfo("a.log")
    entry.size = 300 << 20
    with gzip.open(bomb, "wb", compresslevel=1) as packed:
        packed.write(entry.tobuf())
        for _ in range(300):
            packed.write(bytes(1 << 20))
    with pytest.raises(UsageError, match=r"unreadable bundle .*swells"):
        _read(bomb)


def test_an_archive_of_countless_members_is_refused(tmp_path: Path) -> None:
    many = tmp_path / "many.tar"
    with tarfile.open(many, "w") as archive:
        for number in range(3_000):
            archive.addfile(tarfile.TarInfo(f"{number}.log"))
    with pytest.raises(UsageError, match="more than 2000 files"):
        _read(many)


def test_a_chain_of_headers_in_an_archive_is_refused(tmp_path: Path) -> None:
    entry = tarfile.TarInfo("././@LongLink")
    entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, 2
    (tmp_path / "deep.tar").write_bytes((entry.tobuf(tarfile.GNU_FORMAT) + b"a\0".ljust(512, b"\0")) * 5_000)
    with pytest.raises(UsageError, match="unreadable bundle"):
        _read(tmp_path / "deep.tar")


def test_links_of_a_folder_lead_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "secret"
    outside.write_text("outside the folder")
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "a.log").write_text("inside")
    (folder / "b.log").symlink_to(outside)
    (folder / "c").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(folder / "d")
    assert [(seen.text, seen.problem) for seen in _all(folder)] == [
        ("inside", ""),
        ("", "a link"),
        ("", "a link"),
        ("", "a pipe"),
    ]
    (folder / "a.log").unlink()
    with pytest.raises(UsageError, match="nothing to read"):
        _read(folder)


def test_links_of_an_archive_lead_nowhere(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "links.tar.gz", "w:gz") as archive:
        for name, kind in (("a.log", tarfile.SYMTYPE), ("b.log", tarfile.LNKTYPE), ("c.log", tarfile.CHRTYPE)):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "/etc/hostname"
            archive.addfile(entry)
        entry = tarfile.TarInfo("d.log")
        entry.size = 3
        archive.addfile(entry, io.BytesIO(b"one"))
    seen = _all(tmp_path / "links.tar.gz")
    assert [(each.text, each.problem) for each in seen] == [
        ("", "a link"),
        ("", "a link"),
        ("", "no plain file"),
        ("one", ""),
    ]


def test_a_linked_manifest_brings_nothing_in(bundle: Path, tmp_path: Path) -> None:
    with tarfile.open(bundle) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / "sglscout"
    kept = tmp_path / "meminfo.txt"
    (folder / "meminfo.txt").rename(kept)
    (folder / "meminfo.txt").symlink_to(kept)
    with pytest.raises(UsageError, match="missing or was changed"):
        _read(folder)


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0, 10**400, "soon"])
def test_a_manifest_cannot_speak_for_the_operator(bundle: Path, tmp_path: Path, seconds: object) -> None:
    with tarfile.open(bundle) as archive:
        manifest = json.loads(archive.extractfile(f"sglscout/{MANIFEST}").read())  # type: ignore[union-attr]
    manifest["evidence"][0]["probe"] = "complaint"
    manifest["evidence"][0]["seconds"] = seconds
    changed = _changed(bundle, tmp_path / "changed.tar.gz", {MANIFEST: json.dumps(manifest).encode()})
    first = _all(changed)[0]
    assert (first.probe, first.seconds) == ("pasted", 0.0)


@pytest.mark.parametrize("kind", ["device", "endless device", "pipe", "socket"])
def test_what_is_no_plain_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    named = {"device": Path("/dev/null"), "endless device": Path("/dev/zero")}.get(kind, tmp_path / "x")
    if kind == "pipe":
        os.mkfifo(named)
    with socket.socket(socket.AF_UNIX) as listening:
        if kind == "socket":
            listening.bind(str(named))
        with pytest.raises(UsageError, match=f"unreadable bundle .*: a {kind.split()[-1]}"):
            _read(named)


@pytest.mark.parametrize(
    "noise", [b"", b" \n\n", bytes(range(256)) * 40, b"PK\3\4" + bytes(200), b"\x89PNG\r\n\x1a\n\0\0"]
)
def test_what_is_no_text_is_refused(tmp_path: Path, noise: bytes) -> None:
    (tmp_path / "junk").write_bytes(noise)
    with pytest.raises(UsageError, match=r"unreadable bundle junk: (?:no text|empty)"):
        _read(tmp_path / "junk")


def test_a_log_longer_than_the_limit_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    log = tmp_path / "long.log"
    with log.open("wb") as out:
        out.write(b"the first line\n")
        for _ in range(70):
            out.write(b"filler line\n" * (1 << 20 >> 3))
        out.write(b"the last line\n")
    seen = _read(log)["pasted"]
    assert seen.truncated
    assert len(seen.text) <= 65 << 20
    lines = seen.text.splitlines()
    assert (lines[0], lines[-1]) == ("the first line", "the last line")
    assert set(lines[1:-1]) == {"filler line", next(line for line in lines if line.startswith("(sglscout left out "))}


def test_text_of_windows_is_read(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes("Decode batch, #running-req: 48\r\n".encode("utf-16"))
    assert _read(tmp_path / "notes.txt")["pasted"].text.startswith("Decode batch")


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_the_collection_script_prints_what_a_bundle_is(tmp_path: Path, shell: str) -> None:
    script = tmp_path / "collect.sh"
    script.write_text(collection_script())
    output = tmp_path / "collected.txt"
    with output.open("wb") as out:
        subprocess.run([needs(shell, apt=shell), str(script)], stdout=out, check=True, cwd=tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["collect.sh", "collected.txt"]
    seen = _read(output)
    assert {probe.name for probe in STANDARD} <= set(seen)
    assert "MemTotal:" in seen["meminfo"].text


def test_what_is_left_of_a_collection_that_was_cut_is_read(tmp_path: Path) -> None:
    script = subprocess.run(["sh", "-c", collection_script()], capture_output=True, check=True).stdout
    (tmp_path / "cut").write_bytes(script[: len(script) // 2])
    assert "discovery" in _read(tmp_path / "cut")


@pytest.mark.parametrize("name", ["server.log", "notes", "odd name.txt"])
def test_any_text_is_pasted_evidence(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"Decode batch, #running-req: 48\n\xff\xfe")
    seen = _read(tmp_path / name)
    assert list(seen) == ["pasted"]
    assert seen["pasted"].text.startswith("Decode batch")


def test_a_folder_of_logs_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("one")
    (tmp_path / "b.log").write_text("two")
    assert [seen.text for seen in _all(tmp_path)] == ["one", "two"]


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "no.gz").write_bytes(gzip.compress(bytes(600)))
    for path in (tmp_path / "none", tmp_path / "empty", tmp_path / "no.gz"):
        with pytest.raises(UsageError):
            _read(path)


def test_a_bundle_runs_nothing(bundle: Path) -> None:
    async def work() -> None:
        async with open_bundle(bundle) as host:
            await host.run("uptime")

    with pytest.raises(UsageError, match="runs no commands"):
        asyncio.run(work())


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Sshd, Path]]:
    """A server known to the configuration as `gpu`, whose key is not known yet."""
    known = tmp_path / "known"
    with sshd(tmp_path / "server") as server:
        config = tmp_path / "config"
        config.write_text(
            f"Host gpu\n  HostName 127.0.0.1\n  Port {server.port}\n  UserKnownHostsFile {known}\n"
            f"  IdentityFile {server.key}\n"
        )
        monkeypatch.setattr("tools.host.ssh.SshOptions", lambda: server.options(config_file=config, known_hosts=None))
        yield server, known


def _shown(server: Sshd) -> str:
    return fingerprint(base64.b64decode((server.folder / "host.pub").read_text().split()[1]))


def test_trust_shows_the_fingerprint_and_remembers_only_what_was_confirmed(named: tuple[Sshd, Path]) -> None:
    server, known = named
    refused = CliRunner().invoke(trust, ["gpu"], standalone_mode=False)
    assert isinstance(refused.exception, UsageError)
    assert _shown(server) in refused.output
    wrong = CliRunner().invoke(trust, ["gpu", "--fingerprint", "SHA256:wrong"], standalone_mode=False)
    assert isinstance(wrong.exception, UsageError)
    assert not known.exists()
    done = CliRunner().invoke(trust, ["gpu", "--fingerprint", _shown(server)], standalone_mode=False)
    assert done.exception is None
    assert known.read_text().startswith(f"[127.0.0.1]:{server.port} ssh-ed25519 ")
    again = CliRunner().invoke(trust, ["gpu"], standalone_mode=False)
    assert (again.exception, "known already" in again.output) == (None, True)


def test_trust_never_replaces_a_key(named: tuple[Sshd, Path], tmp_path: Path) -> None:
    server, known = named
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")], check=True)
    kind, key = (tmp_path / "other.pub").read_text().split()[:2]
    known.write_text(f"[127.0.0.1]:{server.port} {kind} {key}\n")
    before = known.read_text()
    done = CliRunner().invoke(trust, ["gpu", "--fingerprint", _shown(server)], standalone_mode=False)
    assert isinstance(done.exception, UsageError)
    assert known.read_text() == before
