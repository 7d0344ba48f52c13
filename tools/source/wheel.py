"""A released SGLang from the package index, by the package client that is installed and as the user configured it.

Any platform's wheel will do: nothing in it is installed, imported or run.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from difflib import get_close_matches
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Final

from tools.source.errors import NoSuchRelease, SourceUnavailable
from tools.source.tree import FILE_LIMIT_BYTES, PACKAGE, Entry
from transcripts.errors import UsageError

_LONGEST_VERSION: Final = 64
VERSION: Final = re.compile(r"v?(\d+(?:\.\d+)*(?:(?:a|b|rc)\d+)?(?:\.?post\d+)?(?:\.dev\d+)?)(\+[a-z0-9.]+)?", re.ASCII)
_NAMED: Final = re.compile(
    r"(?<![\w.-])sglang(?:\[[\w,-]*\])?(?::v?|-[a-z]+:v?|[ \t]*[=~]=[ \t]*|[ \t]+(?:version[ \t:=]+)?v?|-v?)"
    r"(\d+\.\d+\.\d+(?:\.?(?:post|rc)\d+)?)(?![\w.]*\d)",
    re.I,
)
PLATFORMS: Final = (
    *(f"manylinux_2_{glibc}_{machine}" for machine in ("x86_64", "aarch64") for glibc in (39, 35, 34, 31, 28, 17)),
    "any",
)
PYTHONS: Final = ("3.12", "3.10")
BROKEN: Final = "after connection broken by"
UNREACHED_SECONDS: Final = 15.0  # how long the client may go on trying an index that does not answer
ELSEWHERE: Final = "Name a folder or a .whl file of that version, or another version."
Progress = Callable[[str, int, int | None], None]


def released(version: str) -> str:
    """The version as the package index names it: no leading v, no local part. Raises UsageError."""
    found = VERSION.fullmatch(version.strip()) if len(version) <= _LONGEST_VERSION else None
    if found is None:
        raise UsageError(
            f"{version[:_LONGEST_VERSION]!r} is no version of SGLang.", "Versions look like 0.5.9 or 0.5.10.post1."
        )
    return found[1]


def versions_named(text: str) -> list[str]:
    """The versions that a text names: an image's tag, a requirement, `sglang 0.5.9`; each once, as they come."""
    return list(dict.fromkeys(_NAMED.findall(text)))


def version_key(version: str) -> tuple[tuple[int, str], ...]:
    """Sorts versions as releases follow each other: 0.5.9 < 0.5.10rc0 < 0.5.10 < 0.5.10.post1."""
    key: list[tuple[int, str]] = []
    for part in version.replace("rc", ".rc").split("."):
        digits = "".join(character for character in part if character.isdigit())
        word = "".join(character for character in part if character.isalpha())
        key.append((int(digits or 0), word) if not word else (-1 if word == "rc" else 0, f"{word}{digits:>6}"))
    return (*key, (0, ""))


def download(version: str, folder: Path, progress: Progress, stop: threading.Event) -> Path:
    """The wheel of a version, in `folder`. Raises SourceUnavailable when it is not to be had."""
    told: list[str] = []  # each Python is told its own releases: those that it can run
    progress(f"fetch sglang {version} from the package index", 0, None)
    for python in PYTHONS:
        code, said = _run([*_client(), *_arguments(version, python, folder)], version, folder, progress, stop)
        wheels = sorted(folder.glob("*.whl"))
        if code == 0 and wheels:
            return wheels[0]
        told.append(said)
        if "No matching distribution" not in said or _unreached(said):
            break
    raise _unavailable(version, "\n".join(told))


def _client() -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    found = shutil.which("pip3") or shutil.which("pip")
    if found is None:
        raise SourceUnavailable("there is no pip here to fetch a release with.", ELSEWHERE)
    return [found]


def _arguments(version: str, python: str, folder: Path) -> list[str]:
    options = ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check"]
    options.append("--progress-bar=raw" if _tells_progress() else "--progress-bar=off")
    platforms = [f"--platform={name}" for name in PLATFORMS]
    return ["download", *options, f"--python-version={python}", *platforms, f"--dest={folder}", f"sglang=={version}"]


def _tells_progress() -> bool:
    """Whether this pip prints its progress for programs (from 24.1 on); an older one is watched through its files."""
    try:
        major, minor = (int(part) for part in metadata.version("pip").split(".")[:2])
    except (metadata.PackageNotFoundError, ValueError):
        return False
    return (major, minor) >= (24, 1)


def _arrived(folder: Path) -> int:
    """Bytes of everything below a folder that grows while it is looked at."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total


def _run(command: list[str], version: str, folder: Path, progress: Progress, stop: threading.Event) -> tuple[int, str]:
    """Exit status and text of the package client, which works in `folder`; ended when `stop` is set."""
    scratch = folder / "pip"
    scratch.mkdir(exist_ok=True)
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=os.environ | {"TMPDIR": str(scratch)},
    )
    finished, broken = threading.Event(), threading.Event()
    quiet, given_up = not _tells_progress(), time.monotonic() + UNREACHED_SECONDS

    def watch() -> None:
        while not finished.wait(0.1):
            if stop.is_set() or (broken.is_set() and time.monotonic() > given_up):
                process.kill()
                return
            if quiet and (done := _arrived(scratch)):
                progress(f"sglang {version}", done, None)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    said: list[str] = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            moved = re.fullmatch(r"Progress (\d+) of (\d+)\s*", line)
            if moved:
                progress(f"sglang {version}", int(moved[1]), int(moved[2]) or None)
            else:
                said.append(line)
            if BROKEN in line:
                broken.set()
            elif moved:
                broken.clear()
        code = process.wait()
    finally:
        finished.set()
        watcher.join()
    return code, "".join(said)


def _unreached(said: str) -> str:
    """Why the index was not reached, as the package client says it; empty where it was."""
    broken = re.findall(rf"{BROKEN} '(\w+)\((.*)", said)
    if not broken or re.search(r"from versions: (?!none)", said):
        return ""
    kind, rest = broken[-1]
    why = re.search(r"\[Errno -?\d+\] ([^'\")\\]+)", rest) or re.search(r"(timed out|timeout)", rest)
    return f"{why[1]}" if why else kind


def _unavailable(version: str, said: str) -> SourceUnavailable:
    listed = ",".join(re.findall(r"from versions: ([^)]*)\)", said))
    versions = sorted({name.strip() for name in listed.split(",")} - {"", "none"}, key=version_key)
    if versions:
        line = version.split(".")[:2]  # digits that look alike in another line of releases are another time's
        near = get_close_matches(version, [one for one in versions if one.split(".")[:2] == line], 3, 0.5)
        which = f"near: {', '.join(near)}" if near else f"newest: {versions[-1]}"
        return NoSuchRelease(f"the package index has no sglang {version} ({which}).", ELSEWHERE)
    unreached = _unreached(said)
    if unreached:
        said = f"sglang {version} could not be fetched: the package index is not reached ({unreached})."
        return SourceUnavailable(said, ELSEWHERE)
    if "space left" in said:
        return SourceUnavailable(f"there is no room to fetch sglang {version}.", "Run `sglscout source prune`.")
    reasons = [line.removeprefix("ERROR: ").strip() for line in said.splitlines() if "error" in line.lower()]
    why = f": {reasons[-1][:160].rstrip('.')}" if reasons else ""
    return SourceUnavailable(f"sglang {version} could not be fetched from the package index{why}.", ELSEWHERE)


def wheel_version(wheel: Path) -> str:
    """The version in a wheel's file name; empty if it has none."""
    parts = wheel.name.split("-")
    return parts[1] if len(parts) >= 5 else ""


def entries(wheel: Path) -> Iterator[Entry]:
    """The files of the package in a wheel. Raises SourceUnavailable for what is no wheel."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for info in archive.infolist():
                head, _, path = info.filename.partition("/")
                linked = (info.external_attr >> 16) & 0o170000 == 0o120000
                if head == PACKAGE and path and not info.is_dir() and not linked:
                    yield Entry(path, info.file_size, partial(_member, archive, info))
    except (zipfile.BadZipFile, OSError) as error:
        raise SourceUnavailable(f"{wheel.name} is not a wheel that can be read: {error}.", ELSEWHERE) from error


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """A member's bytes, never more than its header may claim and the tree takes."""
    try:
        with archive.open(info) as stream:
            return stream.read(FILE_LIMIT_BYTES + 1)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise OSError(f"damaged: {error}") from error
