"""The catalogue of `tools.source` in the shape that the checks ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from tools.advice.catalogue import Lies, ValueKind
from tools.advice.change import Problem

if TYPE_CHECKING:
    from tools.source import Source


class SourceFlag(Protocol):
    """A flag as `tools.source` has it."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def choices(self) -> Any: ...
    @property
    def nargs(self) -> str | int | None: ...
    @property
    def at(self) -> str: ...
    @property
    def replacement(self) -> str | None: ...
    @property
    def deprecated(self) -> str | None: ...


class SourceCatalogue(Protocol):
    """A catalogue as `tools.source` has it."""

    @property
    def version(self) -> str: ...
    def find(self, name: str) -> SourceFlag | None: ...
    def nearest(self, name: str, count: int = 3) -> list[str]: ...
    def by_prefix(self, name: str) -> list[str]: ...


_SHORTEST = len("--x")
Rules = Callable[[Sequence[str]], Sequence[Problem]]


@dataclass(frozen=True, slots=True)
class Flag:
    """One option, its preferred spelling first."""

    spellings: tuple[str, ...]
    kind: ValueKind
    choices: tuple[str, ...] | None
    many: bool
    at: str
    retired: str
    lies: Lies | None = None


@dataclass(frozen=True, slots=True)
class Flags:
    """Flags of a version. `problems` checks a list of options against the rules of its code (`check_command`).

    `elsewhere` gives the name here of an option as another version spells it, empty where there is none; `ranges` where
    the numbers of an option can lie, `seen` the releases that list it where the version is not known.
    """

    flags: SourceCatalogue
    problems: Rules | None = None
    variables: Callable[[str], bool | None] | None = None
    elsewhere: Callable[[str], str] | None = None
    ranges: Callable[[str], Lies | None] | None = None
    seen: Callable[[str], str] | None = None

    @classmethod
    def of(cls, source: Source) -> Flags:
        """Flags, rules and variables of a tree. Raises SourceUnavailable when its parser cannot be read."""
        from tools.source import check_command, named_here, range_of

        @lru_cache(maxsize=64)
        def known(options: tuple[str, ...]) -> tuple[Problem, ...]:
            # A word before any option is the model of `sglang serve MODEL`.
            placed = bool(options) and not options[0].startswith(("-", "$"))
            begins = ("sglang", "serve") if placed else ("sglang.launch_server",)
            found = check_command([*begins, *options], source)
            return tuple(Problem(one.message, one.at) for one in found if one.severity == "error")

        def problems(options: Sequence[str]) -> tuple[Problem, ...]:
            return known(tuple(options))

        def reads(name: str) -> bool | None:
            if not name.startswith(("SGLANG_", "SGL_")):
                return None
            return any(name in source.text(path) for path in source.files(kind="py"))

        def here(option: str) -> str:
            flag = named_here(option, source.catalogue())
            return flag.name if flag is not None else ""

        def lies(option: str) -> Lies | None:
            flag = source.catalogue().find(option)
            return range_of(flag) if flag is not None else None

        return cls(source.catalogue(), problems, reads, here, lies)

    @classmethod
    def shipped(cls, version: str) -> Flags:
        """Flags from the catalogues that ship, where the tree is not to be had: rules are not known.

        Those of the release itself, of the releases around it, or of all of them where the version is empty.
        """
        from tools.source import named_here, range_of
        from tools.source.released import around, catalogue_of, listing

        found = catalogue_of(version) or around(version)

        def here(option: str) -> str:
            flag = named_here(option, found)
            return flag.name if flag is not None else ""

        def lies(option: str) -> Lies | None:
            flag = found.find(option)
            return range_of(flag) if flag is not None else None

        return cls(found, elsewhere=here, ranges=lies, seen=None if version else listing)

    @property
    def version(self) -> str:
        return self.flags.version

    def listed_in(self, option: str) -> str:
        return (self.seen(option) if self.seen is not None else "") or self.version

    @property
    def knows_rules(self) -> bool:
        return self.problems is not None

    def lookup(self, option: str) -> Flag | None:
        found = self.flags.find(option)
        if found is None or option not in found.names:
            return None
        names = (found.name, *(name for name in found.names if name != found.name and name.startswith("--")))
        choices = tuple(str(one) for one in found.choices) if isinstance(found.choices, tuple) else None
        retired = found.replacement or found.deprecated or ""
        lies = self.ranges(option) if self.ranges is not None else None
        return Flag(names, _kind(found), choices, found.nargs in ("+", "*"), found.at, retired, lies)

    def resolve(self, option: str) -> Flag | None:
        exact = self.lookup(option)
        if exact is not None or len(option) < _SHORTEST:
            return exact
        found = {flag.spellings: flag for name in self.flags.by_prefix(option) if (flag := self.lookup(name))}
        return next(iter(found.values())) if len(found) == 1 else None

    def renamed(self, option: str) -> Flag | None:
        name = self.elsewhere(option) if self.elsewhere is not None else ""
        return self.lookup(name) if name else None

    def nearest(self, option: str) -> str:
        near = self.flags.nearest(option, 1)
        return near[0] if near else ""

    def rules(self, options: Sequence[str]) -> Sequence[Problem]:
        return self.problems(options) if self.problems is not None else ()

    def environment(self, name: str) -> bool | None:
        return self.variables(name) if self.variables is not None else None


def _kind(flag: SourceFlag) -> ValueKind:
    if flag.nargs == 0:
        return "switch"
    # `human_readable_int` reads 32768 as well as 32k (0.5.23 srt/utils/common.py).
    kinds: dict[str, ValueKind] = {
        "int": "int",
        "human_readable_int": "int",
        "float": "float",
        "str": "text",
        "bool": "bool",
        "json": "json",
    }
    return kinds.get(flag.type, "other")
