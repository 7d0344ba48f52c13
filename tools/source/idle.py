"""Options that are given and change nothing: nothing in the tree reads them, or what they tune is off."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tools.source.catalogue import FlagCatalogue
from tools.source.launch import Launch, values_of
from tools.source.problem import Problem
from tools.source.rule import Rule
from tools.source.rules import HANDLERS
from tools.source.weigh import holds

if TYPE_CHECKING:
    from tools.source.source import Source

# By what names begin with: what must be given for them to matter, the usual one first.
TUNES: Final = (
    (
        "hicache_",
        (
            "enable_hierarchical_cache",
            *("enable_hisparse", "enable_lmcache", "disaggregation_decode_enable_offload_kvcache"),
            "disaggregation_mode",
        ),
    ),
    ("speculative_", ("speculative_algorithm",)),
    ("max_lora", ("enable_lora", "lora_paths")),
    ("lora_", ("enable_lora", "lora_paths")),
)
OFF: Final[tuple[object, ...]] = (None, False, "", "null", "none", [])


def idle(launch: Launch, catalogue: FlagCatalogue, rules: Sequence[Rule], source: Source) -> list[Problem]:
    """A note for each option that is given and changes nothing in this version."""
    values, _ = values_of(launch, catalogue)
    named = {catalogue.field(each.flag): each.flag for each in launch.given if not each.flag.deprecated}
    found = []
    for dest, flag in named.items():
        switch = _missing(dest, catalogue, values, rules)
        if switch:
            said = f"changes nothing without {switch}"
            found.append(Problem("idle", "note", flag.name, said, at=flag.at))
    for dest in _unread({dest for dest in named if not any(named[dest].name == each.flag for each in found)}, source):
        said = f"changes nothing: nothing in sglang {source.version} reads it"
        found.append(Problem("idle", "note", named[dest].name, said, at=named[dest].at))
    return found


def _missing(dest: str, catalogue: FlagCatalogue, values: dict[str, Any], rules: Sequence[Rule]) -> str:
    """The option without which one changes nothing, where it is off for certain; empty where it may matter."""
    asked = next((switches for begins, switches in TUNES if dest.startswith(begins)), ())
    known = [switch for switch in asked if catalogue.find(switch) is not None]
    if dest in known or not known or any(values.get(switch, dest) not in OFF for switch in known):
        return ""
    turns_on = (rule for rule in rules if not set(known).isdisjoint(rule.sets))
    may = any(all(holds(each, values, rule.terms) is not False for each in rule.conditions) for rule in turns_on)
    return "" if may else catalogue.get(known[0]).name


def _unread(dests: set[str], source: Source) -> set[str]:
    """Those that no code of the server reads: as an attribute in the handlers, in any way elsewhere."""
    left = set(dests)
    for path in source.files(path="srt", kind="py"):
        if not left:
            break
        before = r"\." if path.startswith(HANDLERS) else r"\b"
        left -= set(re.findall(rf"{before}({'|'.join(map(re.escape, sorted(left)))})\b", source.text(path)))
    return left
