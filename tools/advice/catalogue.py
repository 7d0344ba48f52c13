"""What the checks ask of the flags of a version. `tools.source` answers; anything of this shape does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from tools.advice.change import Problem

ValueKind = Literal["switch", "int", "float", "bool", "text", "json", "path", "other"]


class Lies(Protocol):
    """Where numbers of one meaning lie; as text it says so."""

    def holds(self, value: float) -> bool: ...


class FlagInfo(Protocol):
    """One option of a version."""

    @property
    def spellings(self) -> Sequence[str]:
        """Every option string, the one the version's help names first."""

    @property
    def kind(self) -> ValueKind:
        """What its value is; `other` where a function reads it."""

    @property
    def choices(self) -> Sequence[str] | None:
        """Values the parser takes; None where it takes any, or where they cannot be read from the source."""

    @property
    def many(self) -> bool:
        """Whether it takes several values."""

    @property
    def retired(self) -> str:
        """What is used instead of a deprecated option, empty for one in use."""

    @property
    def lies(self) -> Lies | None:
        """Where its numbers can lie; None where that is not known."""

    @property
    def at(self) -> str:
        """`srt/server_args.py:4266`."""


class Catalogue(Protocol):
    """The options of one version and the rules that its code enforces."""

    @property
    def version(self) -> str: ...

    def listed_in(self, option: str) -> str:
        """The versions that were seen to list the option: this one, or those of several that do."""

    @property
    def knows_rules(self) -> bool:
        """Whether the code itself is at hand, so that `rules` can tell."""

    def lookup(self, option: str) -> FlagInfo | None:
        """The option by any of its spellings, None when that version has none."""

    def resolve(self, option: str) -> FlagInfo | None:
        """The same, an unambiguous beginning of a spelling included, as the parser takes it (`--tp`)."""

    def renamed(self, option: str) -> FlagInfo | None:
        """The option in use in that version for one that other versions spell differently; None where there is none."""

    def nearest(self, option: str) -> str:
        """The option most like it, empty when none is near."""

    def rules(self, options: Sequence[str]) -> Sequence[Problem]:
        """What the version's code says to these options together: rules that raise, assert or override."""

    def environment(self, name: str) -> bool | None:
        """Whether the version reads that variable; None when that is not known."""
