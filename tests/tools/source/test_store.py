from __future__ import annotations

import asyncio
import io
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.tools.source.trees import cache, tree
from tools.source import TreeStore, obtain
from tools.source.errors import SourceUnavailable
from transcripts.errors import UsageError

ARGS = "from dataclasses import dataclass\n\n\n@dataclass\nclass ServerArgs:\n    depth: int = 3\n"


def wheel(folder: Path, version: str = "0.0.7", files: dict[str, bytes] | None = None) -> Path:
    path = folder / f"sglang-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (files or {"sglang/srt/server_args.py": ARGS.encode()}).items():
            archive.writestr(name, data)
    return path


async def stream(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 1 << 16):
        yield data[start : start + (1 << 16)]


def packed(root: Path, changes: dict[str, bytes | None]) -> bytes:
    """A tar of a tree as a host sends it, with some files changed, added or (None) left out."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.is_file() and name not in changes:
                archive.add(path, f"sglang/{name}")
        for name, data in changes.items():
            if data is not None:
                member = tarfile.TarInfo(f"sglang/{name}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo("sglang/srt/link.py")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        outside = tarfile.TarInfo("../../outside.py")
        outside.size = 1
        archive.addfile(outside, io.BytesIO(b"x"))
    return buffer.getvalue()


def test_a_wheel_and_the_folder_it_unpacks_to_are_the_same_tree(tmp_path: Path) -> None:
    source = wheel(tmp_path)
    with zipfile.ZipFile(source) as archive:
        archive.extractall(tmp_path / "site")
    packed_tree = asyncio.run(obtain(path=source, cache=tmp_path / "cache"))
    folder_tree = asyncio.run(obtain("0.0.7", path=tmp_path / "site", cache=tmp_path / "cache"))
    assert packed_tree.digest == folder_tree.digest
    assert (packed_tree.version, packed_tree.origin) == ("0.0.7", "path")


def test_a_changed_folder_is_another_tree(tmp_path: Path) -> None:
    srt = tmp_path / "sglang" / "srt"
    srt.mkdir(parents=True)
    (srt / "a.py").write_text("one = 1\n")
    first = asyncio.run(obtain(path=tmp_path, cache=tmp_path / "cache"))
    (srt / "a.py").write_text("one = 22\n")
    second = asyncio.run(obtain(path=tmp_path, cache=tmp_path / "cache"))
    assert first.digest != second.digest
    assert first.read("srt/a.py")[0] == (1, "one = 1")
    assert second.read("srt/a.py")[0] == (1, "one = 22")


def test_members_that_leave_the_wheel_are_not_taken(tmp_path: Path) -> None:
    files = {"sglang/srt/a.py": b"x = 1\n", "sglang/../../evil.py": b"x", "sglang/srt/../../../evil.py": b"x"}
    source = asyncio.run(obtain(path=wheel(tmp_path, files=files), cache=tmp_path / "cache"))
    assert source.files() == ["srt/a.py"]
    assert not list(tmp_path.rglob("evil.py"))


def test_what_is_no_tree_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.whl").write_bytes(b"no zip")
    for path in (tmp_path, tmp_path / "x.whl", tmp_path / "nowhere"):
        with pytest.raises(SourceUnavailable):
            asyncio.run(obtain(path=path, cache=tmp_path / "cache"))
    assert not list((tmp_path / "cache" / "source" / "trees").iterdir())


@pytest.mark.parametrize("version", ["", "x", "0.5.9; rm -rf /", "--help", "../0.5.9"])
def test_what_is_no_version_is_a_usage_error(version: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        asyncio.run(obtain(version, cache=tmp_path))


def test_a_release_that_is_not_to_be_had_says_what_else_can_be_done(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable) as unavailable:
        asyncio.run(obtain("99.9.9", cache=tmp_path))
    assert "folder or a .whl file" in unavailable.value.hint
    assert unavailable.value.exit_code == 3
    assert not list((tmp_path / "source").glob(".fetching-*"))


def test_an_index_that_is_not_reached_is_said_and_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    told: list[str] = []

    async def fetched() -> None:
        await obtain("0.5.9", cache=tmp_path, progress=lambda what, _done, _whole: told.append(what))

    with pytest.raises(SourceUnavailable, match=r"package index is not reached \(Connection refused\)"):
        asyncio.run(fetched())
    assert told == ["fetch sglang 0.5.9 from the package index"]


def test_a_hosts_patched_line_is_what_is_cited_and_the_difference_is_told() -> None:
    released = tree("0.4.6")
    path = "srt/mem_cache/memory_pool.py"
    text = released.text("srt/server_args.py").replace("max_running_requests = 48", "max_running_requests = 96")
    changes = {
        "srt/server_args.py": text.encode(),
        "srt/local_patch.py": b"x = 1\n",
        "srt/mem_cache/radix_cache.py": None,
    }
    data = packed(released.root, changes)
    host = asyncio.run(obtain("0.4.6", archive=stream(data), cache=cache()))
    assert host.origin == "host"
    assert host.difference is not None
    assert host.difference.changed == ("srt/server_args.py",)
    assert host.difference.added == ("srt/local_patch.py",)
    assert host.difference.removed == ("srt/mem_cache/radix_cache.py",)
    (hit,) = asyncio.run(host.search("max_running_requests = 96")).hits
    assert host.check_citation(hit.path, hit.line, hit.text)
    assert not released.check_citation(hit.path, hit.line, hit.text)
    assert host.text(path) == released.text(path)
    assert "srt/link.py" not in host.files()


def test_an_unpatched_host_has_the_digest_of_the_release() -> None:
    released = tree("0.4.6")
    host = asyncio.run(obtain("0.4.6", archive=stream(packed(released.root, {})), cache=cache()))
    assert host.digest == released.digest
    assert host.difference is not None
    assert not host.difference


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    data = packed(tree("0.4.6").root, {})
    with pytest.raises(SourceUnavailable):
        asyncio.run(obtain("0.4.6", archive=stream(data[: len(data) // 2]), cache=tmp_path))


FETCH = """
import asyncio, sys
from pathlib import Path
from tools.source import obtain
print(asyncio.run(obtain(path=Path(sys.argv[1]), cache=Path(sys.argv[2]))).digest)
"""


def test_several_processes_at_once_get_the_same_tree(tmp_path: Path) -> None:
    files = {f"sglang/srt/f{number}.py": b"x = 1\n" * 200 for number in range(300)}
    source = wheel(tmp_path, files=files)
    command = [sys.executable, "-c", FETCH, str(source), str(tmp_path / "cache")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    digests = {process.communicate()[0].strip() for process in running}
    assert len(digests) == 1
    assert [tree["digest"] for tree in TreeStore.at(tmp_path / "cache").trees()] == list(digests)


def test_a_kill_in_the_middle_leaves_no_half_tree(tmp_path: Path) -> None:
    files = {f"sglang/srt/f{number}.py": b"x = 1\n" * 2000 for number in range(2000)}
    source = wheel(tmp_path, files=files)
    trees = tmp_path / "cache" / "source" / "trees"
    process = subprocess.Popen([sys.executable, "-c", FETCH, str(source), str(tmp_path / "cache")])
    while process.poll() is None and not list(trees.glob(".building-*/sglang/srt/f1*.py")):
        continue
    process.kill()
    process.wait()
    assert all((folder / "manifest.json").exists() for folder in trees.iterdir() if not folder.name.startswith("."))
    assert len(asyncio.run(obtain(path=source, cache=tmp_path / "cache")).files()) == 2000


def test_prune_keeps_what_it_is_told_to(tmp_path: Path) -> None:
    for version in ("0.0.7", "0.0.10"):
        files = {"sglang/srt/server_args.py": f"{ARGS}# {version}\n".encode()}
        asyncio.run(obtain(path=wheel(tmp_path, version, files), cache=tmp_path / "cache"))
    store = TreeStore.at(tmp_path / "cache")
    assert [each["version"] for each in store.trees()] == ["0.0.7", "0.0.10"]
    assert [each["version"] for each in store.prune({"0.0.10"})] == ["0.0.7"]
    assert [each["version"] for each in store.trees()] == ["0.0.10"]


def test_a_tree_that_another_process_reads_is_not_pruned(tmp_path: Path) -> None:
    files = {"sglang/srt/server_args.py": ARGS.encode()}
    path, cache = wheel(tmp_path, "0.0.7", files), tmp_path / "cache"
    reads = (
        "import asyncio, sys; from pathlib import Path; from tools.source import obtain; "
        "source = asyncio.run(obtain(path=Path(sys.argv[1]), cache=Path(sys.argv[2]))); "
        "print('read', flush=True); input()"
    )
    words = [sys.executable, "-c", reads, str(path), str(cache)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "read\n"
        store = TreeStore.at(cache)
        assert store.prune(set()) == []
        assert [each["version"] for each in store.trees()] == ["0.0.7"]
        reader.communicate("\n", timeout=30)
    assert [each["version"] for each in store.prune(set())] == ["0.0.7"]


@pytest.mark.parametrize(
    ("version", "told"),
    [("9.9.9", "newest: 0.5.23"), ("0.5.22", "near: 0.5.2, 0.5.23, 0.5.19"), ("0.4.77", "near: 0.4.7")],
)
def test_a_version_that_no_index_has_is_compared_with_its_own_line_of_releases(version: str, told: str) -> None:
    from tools.source.wheel import _unavailable

    said = (
        "ERROR: Could not find a version (from versions: 0.1.19, 0.4.7, 0.4.9, 0.5.2, 0.5.23)\n"
        "ERROR: Could not find a version (from versions: 0.4.9, 0.5.2, 0.5.19)"
    )
    assert told in _unavailable(version, said).message
