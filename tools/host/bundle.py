"""A bundle as a host: what was collected elsewhere, or whatever there is.

Read are: a bundle of `sglscout collect` (tar.gz or its folder), the output of the collection script, and any text file,
which becomes pasted evidence.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import Final

from tools.host.bundle_files import Member, is_archive, read_archive, read_file, read_folder, text_of, unreadable
from tools.host.framing import DISCOVERY, Splitter
from tools.host.look import COST, Observation, observation, slots_of
from tools.host.probes import STANDARD, Probe
from transcripts.errors import UsageError

MANIFEST: Final = "manifest.json"
PASTED: Final = "pasted"
_PROBES: Final = frozenset({probe.name for probe in STANDARD} | {DISCOVERY, COST, PASTED})
_LONGEST_NAME: Final = 200
_LONGEST_SECONDS: Final = 1e6
_GIVE: Final = "Give a bundle, a log file in UTF-8, or a folder of them."


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
    if path.is_dir():
        return _from_members(path.name, read_folder(path))
    file = read_file(path)
    if is_archive(file.data):
        return _from_members(path.name, read_archive(path))
    collected = _collected(path.name, file.data)
    if collected is not None:
        return collected
    pasted = _pasted(file)
    if not pasted.text:
        raise unreadable(path.name, pasted.problem, _GIVE)
    return BundleHost(path.name, (pasted,))


def _from_members(name: str, members: list[Member]) -> BundleHost:
    files = {member.name: member.data for member in members if not member.problem}
    if MANIFEST not in files:
        texts = tuple(map(_pasted, members))
        if not any(text.text for text in texts):
            raise unreadable(name, "it holds nothing to read", _GIVE)
        return BundleHost(name, texts)
    try:
        manifest = json.loads(files[MANIFEST])
        if manifest.get("v", 1) != 1:
            raise unreadable(name, f"a newer sglscout wrote it (format {manifest['v']!r:.20})", "Update sglscout.")
        host = str(manifest["host"])[:_LONGEST_NAME]
        observations = tuple(_observation(host, dict(row), files) for row in manifest["evidence"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise unreadable(name, f"the manifest does not fit ({error})", "Collect it again.") from error
    return BundleHost(host, observations)


def _observation(host: str, row: dict[str, object], members: dict[str, bytes]) -> Observation:
    file = str(row["file"])
    data = members.get(file)
    if data is None or hashlib.sha256(data).hexdigest() != row["sha256"]:
        raise ValueError(f"{file} is missing or was changed")
    probe, exit_status, seconds = str(row["probe"]), row.get("exit"), row.get("seconds")
    return Observation(
        # A name that no look has would pass for something else, such as the operator's own words.
        probe if probe in _PROBES else PASTED,
        str(row["command"]),
        host,
        str(row["at"])[:_LONGEST_NAME],
        exit_status if isinstance(exit_status, int) else None,
        data.decode("utf-8", "replace"),
        bool(row.get("truncated")),
        float(seconds) if isinstance(seconds, (int, float)) and 0 <= seconds < _LONGEST_SECONDS else 0.0,
        str(row.get("problem", ""))[:_LONGEST_NAME],
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
        raise unreadable(name, "it holds no answers", "Run the collection script again, to its end.")
    return BundleHost(host, tuple(seen))


def _pasted(member: Member) -> Observation:
    """A file's text as evidence; where it has none, why."""
    text = None if member.problem else text_of(member.data)
    problem = member.problem or ("" if text else "no text" if member.data.strip() else "empty")
    name = member.name[:_LONGEST_NAME]
    return Observation(PASTED, f"(pasted: {name})", name, "", None, text or "", member.left_out > 0, problem=problem)
