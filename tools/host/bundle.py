"""A bundle as a host: what was collected elsewhere, or whatever there is.

Read are: a bundle of `sglscout collect` (tar.gz or its folder), the output of the collection script, and any text file,
which becomes pasted evidence.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import AsyncGenerator, Iterable, Iterator
from pathlib import Path
from typing import Final

from tools.host.framing import DISCOVERY, Splitter
from tools.host.look import Observation, observation, slots_of
from tools.host.probes import STANDARD, Probe
from transcripts.errors import UsageError

MANIFEST: Final = "manifest.json"
LIMIT_BYTES: Final = 64 << 20


class BundleHost:
    """Answers probes from what was collected; runs nothing."""

    def __init__(self, name: str, observations: tuple[Observation, ...]) -> None:
        self.name = name
        self._observations = observations

    async def observe(self, probes: Iterable[Probe]) -> AsyncGenerator[Observation, None]:
        for seen in self._observations:
            yield seen

    async def run(self, command: str, *, limit_s: float = 20.0, limit_bytes: int = 256 * 1024) -> Observation:
        raise UsageError("a bundle runs no commands.", "Ask for what is missing to be collected.")

    async def close(self) -> None:
        return None


def open_bundle_file(path: Path) -> BundleHost:
    """A bundle, a folder of one, collected output, or any text. Raises UsageError when it cannot be read."""
    try:
        if path.is_dir():
            return _from_members(
                path.name, {child.name: child.read_bytes() for child in path.iterdir() if child.is_file()}
            )
        head = path.read_bytes()[:LIMIT_BYTES]
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", "Check the path and its mode.") from error
    if head[:2] == b"\x1f\x8b":
        return _from_members(path.name, dict(_unpacked(path)))
    collected = _collected(path.name, head)
    if collected is not None:
        return collected
    return BundleHost(path.name, (_pasted(path.name, head),))


def _unpacked(path: Path) -> Iterator[tuple[str, bytes]]:
    """Members of the archive, by their last name, read in memory and bounded; nothing is written."""
    left = LIMIT_BYTES
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                if not member.isfile() or member.size > left:
                    continue
                file = archive.extractfile(member)
                data = file.read(left) if file else b""
                left -= len(data)
                yield Path(member.name).name, data
    except (tarfile.TarError, EOFError, OSError) as error:
        raise UsageError(f"{path} is no readable bundle: {error}.", "Collect it again.") from error


def _from_members(name: str, members: dict[str, bytes]) -> BundleHost:
    if MANIFEST not in members:
        texts = [_pasted(file, data) for file, data in sorted(members.items()) if data]
        if not texts:
            raise UsageError(f"{name} holds nothing to read.", "Give a bundle, a log file or a folder of them.")
        return BundleHost(name, tuple(texts))
    try:
        manifest = json.loads(members[MANIFEST])
        rows = [dict(row) for row in manifest["evidence"]]
        host = str(manifest["host"])
        observations = tuple(_observation(host, row, members) for row in rows)
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"the manifest of {name} cannot be read ({error}).", "Collect it again.") from error
    return BundleHost(host, observations)


def _observation(host: str, row: dict[str, object], members: dict[str, bytes]) -> Observation:
    file = str(row["file"])
    data = members.get(file)
    if data is None or hashlib.sha256(data).hexdigest() != row["sha256"]:
        raise ValueError(f"{file} is missing or was changed")
    exit_status = row.get("exit")
    seconds = row.get("seconds")
    return Observation(
        str(row["probe"]),
        str(row["command"]),
        host,
        str(row["at"]),
        exit_status if isinstance(exit_status, int) else None,
        data.decode("utf-8", "replace"),
        bool(row.get("truncated")),
        float(seconds) if isinstance(seconds, (int, float)) else 0.0,
        str(row.get("problem", "")),
    )


def _collected(name: str, data: bytes) -> BundleHost | None:
    """Output of the collection script, whose first line names the marker."""
    line, _, rest = data.partition(b"\n")
    words = line.decode("utf-8", "replace").split()
    if len(words) != 3 or words[0] != "sglscout-collected":
        return None
    probes = {probe.name: probe for probe in STANDARD}
    host, splitter, slots = words[2], Splitter(words[1]), dict[str, str]()
    seen = []
    for answer in splitter.feed(rest):
        probe = probes.get(answer.name)
        if probe is not None:
            seen.append(observation(probe, answer, slots, host, ""))
        elif answer.name == DISCOVERY:
            text = answer.output.decode("utf-8", "replace")
            slots = slots_of(text)
            seen.append(Observation(DISCOVERY, "(the probe script's own discovery)", host, "", answer.exit, text))
    if not seen:
        raise UsageError(f"{name} holds no answers.", "Run the collection script again, to its end.")
    return BundleHost(host, tuple(seen))


def _pasted(name: str, data: bytes) -> Observation:
    return Observation("pasted", f"(pasted: {name})", name, "", None, data.decode("utf-8", "replace"))
