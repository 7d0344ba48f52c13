"""What changes between two versions: flags added, removed, renamed, with other defaults or choices; and for a command.

A rename is believed when the newer version says so (an alias, a deprecation, a help text that stayed) or when the names
share all but one of their words and take the same kind of value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final

from tools.source.catalogue import Dynamic, Flag, FlagCatalogue
from tools.source.check import check
from tools.source.launch import Launch, parse_launch, values_of
from tools.source.problem import Problem
from tools.source.renames import elsewhere, named_here
from tools.source.rule import Rule
from tools.source.weigh import UNKNOWN, holds, value_of

if TYPE_CHECKING:
    from tools.source.source import Source

ALIKE: Final = 0.72
# Words that begin the names of flags of many kinds: two that share one are not about one thing.
MANY: Final = frozenset({"enable", "disable", "max", "min", "num", "use", "model", "log", "allow", "skip", "device"})
# Flags that do nothing until a switch is on, by the first word of their names.
SWITCHED: Final = {"hicache": "enable_hierarchical_cache"}
POOLS: Final = frozenset(
    {
        *("mem_fraction_static", "max_total_tokens", "max_running_requests", "page_size", "kv_cache_dtype"),
        *(
            "context_length",
            "swa_full_tokens_ratio",
            "mamba_full_memory_ratio",
            "max_mamba_cache_size",
            "chunked_prefill_size",
        ),
        *("cuda_graph_max_bs", "hicache_ratio", "hicache_size", "hicache_mem_layout", "hicache_io_backend"),
        *("hicache_write_policy", "dp_size", "tp_size"),
    }
)


@dataclass(frozen=True, slots=True)
class Change:
    """One flag that both versions have. `what` is renamed, default, choices, type, required or deprecated."""

    what: str
    flag: str
    before: Any
    after: Any
    at: str

    def document(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "flag": self.flag,
            "before": _plain(self.before),
            "after": _plain(self.after),
            "at": self.at,
        }


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Everything about flags that is not the same in two versions."""

    before: str
    after: str
    added: tuple[Flag, ...]
    removed: tuple[Flag, ...]
    renamed: tuple[Change, ...]
    changed: tuple[Change, ...]

    @property
    def direction(self) -> str:
        """`upgrade`, `downgrade`, or `the same` where both are one version."""
        old, new = order_of(self.before), order_of(self.after)
        return "the same" if old == new else "downgrade" if new < old else "upgrade"


def order_of(version: str) -> tuple[tuple[int, ...], int]:
    """Sorts versions as they were released: candidates before the release, posts after it."""
    release = re.match(r"v?(\d+(?:\.\d+)*)(?:(rc|a|b)(\d+)|\.?post(\d+))?", version)
    if release is None:
        return (), 0
    numbers = tuple(int(part) for part in release[1].split("."))
    early, post = release[3], release[4]
    return numbers, int(early) - 1000 if early else int(post or 0)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one version: its flags, and the rules and the tree where its source is to be had."""

    catalogue: FlagCatalogue
    rules: Sequence[Rule] = ()
    source: Source | None = None


def compare(old: FlagCatalogue, new: FlagCatalogue) -> Upgrade:
    """The differences from `old` to `new`."""
    kept: list[tuple[Flag, Flag]] = []
    gone: list[Flag] = []
    for flag in old.flags:
        now = next((found for name in flag.names if (found := _exact(new, name)) is not None), None)
        if now is None:
            gone.append(flag)
        else:
            kept.append((flag, now))
    known = {id(now) for _, now in kept}
    added = [flag for flag in new.flags if id(flag) not in known]
    renamed: list[Change] = []
    removed: list[Flag] = []
    for flag in gone:
        now = _successor(flag, old, added, new)
        if now is None:
            removed.append(flag)
        else:
            renamed.append(Change("renamed", flag.name, flag.name, now.name, now.at))
    taken = {change.after for change in renamed}
    changed = [change for flag, now in kept for change in _changes(flag, now)]
    fresh = tuple(flag for flag in added if flag.name not in taken)
    return Upgrade(old.version, new.version, fresh, tuple(removed), tuple(renamed), tuple(changed))


def _exact(catalogue: FlagCatalogue, name: str) -> Flag | None:
    return next((flag for flag in catalogue.flags if name in flag.names), None)


def _successor(flag: Flag, old: FlagCatalogue, added: Sequence[Flag], new: FlagCatalogue) -> Flag | None:
    """The flag that took the place of one that is gone."""
    if flag.replacement is not None:
        named = _exact(new, flag.replacement)
        if named is not None:
            return named
    followed = named_here(flag.name, new)
    if followed is not None:
        return followed
    same_value = [each for each in added if each.takes_value == flag.takes_value and not each.deprecated]
    mentions = [each for each in same_value if any(name in each.help for name in flag.names if len(name) > 6)]
    if len(mentions) == 1:
        return mentions[0]
    scored = [(max(_alike(flag, each), 0.0), each) for each in same_value]
    best = max(scored, key=lambda pair: pair[0], default=None)
    return best[1] if best is not None and best[0] >= ALIKE else None


def _alike(flag: Flag, other: Flag) -> float:
    """How likely one name became the other: shared words and a help text that stayed."""
    mine, others = set(flag.name[2:].split("-")), set(other.name[2:].split("-"))
    words = len(mine & others) / max(len(mine | others), 1)
    helped = 0.0
    if len(flag.help) > 20 and len(other.help) > 20:
        helped = SequenceMatcher(None, flag.help[:200], other.help[:200]).ratio()
    swapped = (
        len(mine - others) <= 1 and len(others - mine) <= 1 and len(mine & others) >= 2 and flag.type == other.type
    )
    longer = mine < others and len(mine) >= 3 and len(others - mine) == 1 and flag.type == other.type
    if longer:
        return 0.9 if helped > 0.4 else ALIKE
    return max(
        helped if words >= 0.3 else 0.0, words if helped > 0.5 else 0.0, 0.73 if swapped and helped > 0.45 else 0.0
    )


def _changes(flag: Flag, now: Flag) -> list[Change]:
    found: list[Change] = []
    before, after = _effective(flag), _effective(now)
    if before != after and not (before in (None, False) and after in (None, False)):
        found.append(Change("default", now.name, before, after, now.at))
    known = not isinstance(now.choices, Dynamic) and not isinstance(flag.choices, Dynamic)
    if known and set(_listed(flag)) != set(_listed(now)):
        found.append(Change("choices", now.name, flag.choices, now.choices, now.at))
    if flag.required != now.required:
        found.append(Change("required", now.name, flag.required, now.required, now.at))
    if flag.takes_value != now.takes_value:
        found.append(Change("type", now.name, flag.type, now.type, now.at))
    if now.deprecated and not flag.deprecated:
        found.append(Change("deprecated", now.name, None, now.deprecated, now.at))
    return found


def _effective(flag: Flag) -> Any:
    return flag.default if flag.default is not None else flag.fallback


def _listed(flag: Flag) -> tuple[Any, ...]:
    return flag.choices if isinstance(flag.choices, tuple) else ()


def for_command(
    command: str | Sequence[str],
    old: Known,
    new: Known,
    upgrade: Upgrade,
    architecture: str = "",
) -> tuple[Launch, tuple[Problem, ...]]:
    """The command as the newer version reads it, and what happens to it there that does not happen in the older one.

    What stops the server is told whether it is new or not. Raises UsageError.
    """
    before = parse_launch(command, old.catalogue)
    after = parse_launch(command, new.catalogue)
    known = {_same(each) for each in check(before, old.catalogue, old.rules, None, old.source, architecture)}
    found = check(after, new.catalogue, new.rules, None, new.source, architecture)
    earlier = _possible(before, old)
    problems = [
        _informed(each, upgrade, new.catalogue)
        for each in found
        if each.severity == "error" or (_same(each) not in known and not _happened(each, new, earlier))
        if each.kind != "unseen"  # what cannot be judged from here has not changed
    ]
    given = {each.flag.dest for each in before.given}
    topics = {_topic(dest) for dest in given} - MANY
    pools = [
        Problem("override", "note", change.flag, _said(change, upgrade), at=change.at)
        for change in upgrade.changed
        if change.what == "default"
        and (flag := new.catalogue.find(change.flag)) is not None
        and flag.dest not in given
        and (flag.dest in POOLS or ("_" in flag.dest and _topic(flag.dest) in topics))
        and SWITCHED.get(_topic(flag.dest), "") in given | {""}
    ]
    return after, (*problems, *pools)


def _possible(launch: Launch, version: Known) -> list[Rule]:
    """Overrides of a version that are not known to stay away from a command."""
    values, _ = values_of(launch, version.catalogue)
    overrides = [rule for rule in version.rules if rule.kind == "override"]
    return [rule for rule in overrides if all(holds(each, values, rule.terms) is not False for each in rule.conditions)]


def _happened(problem: Problem, new: Known, earlier: Sequence[Rule]) -> bool:
    """Whether an override may have been there before: the same in words, or worked out as the server starts."""
    rule = next((each for each in new.rules if each.kind == "override" and each.at == problem.at), None)
    if problem.kind != "override" or rule is None:
        return False
    said = rule.effect.partition("; says ")[0]
    worked_out = len(rule.sets) > 1 or value_of(said.partition(" = ")[2], {}) is UNKNOWN
    before = [each for each in earlier if not set(each.sets).isdisjoint(rule.sets)]
    return any(worked_out or each.effect.partition("; says ")[0] == said for each in before)


def _topic(dest: str) -> str:
    return dest.partition("_")[0]


def _same(problem: Problem) -> tuple[str, str, str]:
    """What two versions say alike of a command, whatever line says it and in which words the server tells."""
    return problem.kind, problem.flag, problem.message.partition("; says ")[0]


def _said(change: Change, upgrade: Upgrade) -> str:
    before, after = _plain(change.before), _plain(change.after)
    return f"not given: its default was {before!r} in {upgrade.before} and is {after!r} in {upgrade.after}"


def _informed(problem: Problem, upgrade: Upgrade, new: FlagCatalogue) -> Problem:
    """A flag that is unknown in the newer version, said with what became of it."""
    if problem.kind not in ("unknown", "ambiguous"):
        return problem
    last = elsewhere(problem.flag)
    advised = f"; {last[0]} said: {' '.join((last[1].deprecated or '').split())[:200]}" if last else ""
    renamed = next((change for change in upgrade.renamed if change.flag == problem.flag), None)
    if renamed is not None and last is not None and last[1].deprecated:
        now = new.find(str(renamed.after))
        if now is not None and now.takes_value and not last[1].takes_value:  # a switch that became a value of another
            said = f"{problem.flag} is gone in {upgrade.after}: {renamed.after} takes its place{advised}"
            whole = re.search(rf"{renamed.after}=\w+", advised)
            instead = whole[0] if whole is not None else str(renamed.after)
            return Problem("unknown", "error", problem.flag, said, instead, renamed.at)
    if renamed is not None:
        said = f"{problem.flag} is called {renamed.after} in {upgrade.after}"
        return Problem("unknown", "error", problem.flag, said, str(renamed.after), renamed.at)
    removed = next((flag for flag in upgrade.removed if problem.flag in flag.names), None)
    if removed is not None:
        said = f"{problem.flag} is gone in {upgrade.after}: the server will not start with it"
        if last is not None and last[1].deprecated:
            said += advised
        return Problem("unknown", "error", problem.flag, said, problem.instead if last is not None else "")
    return problem


def _plain(value: Any) -> Any:
    if isinstance(value, Dynamic):
        return {"dynamic": value.expression}
    return list(value) if isinstance(value, tuple) else value
