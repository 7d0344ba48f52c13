"""One lever with all that it changes, the moves that make it, and which of many levers are worth a look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tools.capacity.scenario import Settings
from tools.capacity.sums import Sum

Change = tuple[str, str | None, str | None]
AS_SET = "as set"  # the lever of what an operator named


@dataclass(frozen=True, slots=True)
class Lever:
    """One lever or combination. `factor` compares device tokens with now, `running_factor` running requests,
    `prefix_factor` tokens of cached prefixes. `fits` is None where it is not known.
    `why_not` is empty where nothing speaks against it."""

    name: str
    changes: tuple[Change, ...]
    tokens: int
    longest_request: int
    running: int | None
    prefix_tokens: int
    host_gb: float
    factor: float
    running_factor: float | None
    prefix_factor: float
    restart: bool
    risk: str
    fits: bool | None
    binds: str
    gpu_free_gib: float | None
    gpu_free_least_gib: float | None
    pool_gib: float
    sums: tuple[Sum, ...]
    why_not: str
    frontier: bool = False

    @property
    def flags(self) -> frozenset[str]:
        """Options that it changes."""
        return frozenset(flag for flag, _, _ in self.changes)


@dataclass(frozen=True, slots=True)
class Move:
    """A change of settings with its flags and its risk; moves compose into combinations.

    `unsupported` moves do not fit; of `uncertain` ones it is not known, and `why_not` says what is not."""

    name: str
    changes: tuple[Change, ...]
    apply: Callable[[Settings], Settings]
    risk: str
    why_not: str = ""
    unsupported: bool = False
    uncertain: bool = False


def marked(found: list[Lever]) -> tuple[Lever, ...]:
    """Mark the sensible frontier: what fits and is not beaten in running requests, cached prefixes, longest request,
    host memory and the cache's precision together. Of equals the one with the fewest changes."""

    def worth(lever: Lever) -> tuple[float, ...]:
        lossless = "--kv-cache-dtype" not in lever.flags
        running = lever.tokens if lever.running is None else lever.running
        return (running, lever.prefix_tokens, lever.longest_request, -lever.host_gb, lossless)

    fitting = [(worth(lever), len(lever.changes)) for lever in found if lever.fits]

    def beaten(lever: Lever) -> bool:
        mine, changes = worth(lever), len(lever.changes)
        return any(
            all(a >= b for a, b in zip(other, mine, strict=True)) and (other != mine or fewer < changes)
            for other, fewer in fitting
        )

    return tuple(replace(lever, frontier=lever.fits is True and not beaten(lever)) for lever in found)
