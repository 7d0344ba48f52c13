"""What an upgrade does to a command's memory pools, where two versions' code can be told apart by a line of it.

Each mark is a line that one way of sizing has and the other has not. It is looked for in both trees and cited.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tools.source.launch import Launch
from tools.source.problem import Problem
from tools.source.source import Source
from tools.source.upgrade import order_of


@dataclass(frozen=True, slots=True)
class Mark:
    """A line that tells one behaviour; `flags`: destinations of which one must be given for it to matter."""

    pattern: str
    globs: tuple[str, ...]
    flags: tuple[str, ...]
    pool: str
    says: str
    since: str  # the first release in which it is different from those before
    unless: frozenset[str] = frozenset()  # values of these flags with which it does not matter


MARKS: Final = (
    Mark(
        r"Loaded weights \(target \+ draft\)",
        ("srt/mem_cache/*.py", "srt/model_executor/**"),
        ("speculative_algorithm", "speculative_draft_model_path"),
        "KV pool",
        "draft weights and the draft KV pool are paid from the memory for KV: the same flags give a smaller KV pool",
        "0.5.14",
        frozenset({"NGRAM"}),  # has no draft model
    ),
    Mark(
        r"host memory should be larger than the device memory",
        ("srt/mem_cache/**",),
        ("enable_hierarchical_cache", "disaggregation_decode_enable_offload_kvcache"),
        "host pool",
        "the server refuses to start unless the host pool is larger than the device pool",
        "0.5.15",
    ),
    Mark(
        r"def _cgroup_memory_headroom",
        ("srt/mem_cache/*.py",),
        ("enable_hierarchical_cache", "disaggregation_decode_enable_offload_kvcache"),
        "host pool",
        "the check of free host memory divides by ranks and heeds cgroup limits",
        "0.5.21",
    ),
    Mark(
        r"min\(requested_per_worker, token_capacity // 2\)",
        ("srt/mem_cache/*.py", "srt/model_executor/*.py"),
        ("max_running_requests",),
        "request pool",
        "a given --max-running-requests is cut to half the tokens of the KV pool",
        "0.5.14",
    ),
)


async def pool_notes(launch: Launch, old: Source, new: Source) -> tuple[Problem, ...]:
    """What changes for the pools of a command from one tree to the other, each with the line that shows it."""
    given = {each.flag.dest: each.flag.name for each in launch.given}
    found: list[Problem] = []
    for mark in MARKS:
        asked = [given[dest] for dest in mark.flags if dest in given]
        if not asked or not mark.unless.isdisjoint(launch.value(dest) or "" for dest in mark.flags):
            continue
        before = (await old.search(mark.pattern, globs=mark.globs, limit=1)).hits
        after = (await new.search(mark.pattern, globs=mark.globs, limit=1)).hits
        if bool(before) != bool(after):
            hit = (after or before)[0]
            said = f"{mark.pool}, {_when(mark, bool(after), old, new)}: {mark.says}"
            tree = "" if after else f" of {old.version}"
            found.append(
                Problem("pool", "warning", asked[0], said, at=f"{hit.path}:{hit.line}{tree}", quote=hit.text.strip())
            )
    return tuple(found)


def _when(mark: Mark, there: bool, old: Source, new: Source) -> str:
    """The release that changed it where that lies between the two, else only which of them has it."""
    if order_of(old.version) < order_of(mark.since) <= order_of(new.version):
        return f"from {mark.since} on" if there else f"no longer from {mark.since} on"
    return f"in {new.version}, not in {old.version}" if there else f"in {old.version}, not in {new.version}"
