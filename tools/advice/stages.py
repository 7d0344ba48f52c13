"""After the decision: what needs no restart first, what the restart costs, what to watch and when to go back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tools.advice import values
from tools.advice.change import Change
from tools.advice.expected import about_version
from tools.advice.patch import Patch
from transcripts.facts import Facts

_NOT_READY = "the server is not ready within twice the longest load seen"
_OUT_OF_MEMORY = "out of memory on a GPU or of the host"
_NOT_AS_EXPECTED = "an expectation of the boot log is not met"


@dataclass(frozen=True, slots=True)
class Restart:
    """What a restart costs. Seconds are of past starts on this host, None where the journal shows none.

    `unmeasured` is what the next start does beside, in words; empty where the past starts did the same.
    """

    starts: int
    seconds: float | None
    seconds_most: float | None
    running: float | None
    queued: float | None
    cached_tokens: float | None
    unmeasured: str
    sources: tuple[str, ...]

    def text(self) -> str:
        """The cost in a sentence each; what is not known is said."""
        if self.seconds is None or self.seconds_most is None:
            load = "The journal shows no complete start, so the load time is not known."
        else:
            load = (
                f"Not reachable for about {self.seconds:.0f} s (longest of {self.starts}: {self.seconds_most:.0f} s)"
                f"{self.unmeasured}; "
                f"with a rollback up to {2 * self.seconds_most:.0f} s."
            )
        if self.running is None:
            running = "Requests running now are not known."
        else:  # a stopped server drains until the stop timeout: sglang 0.5.9 srt/managers/tokenizer_manager.py:2113
            waiting = f" and {self.queued:.0f} wait" if self.queued is not None else ""
            running = f"{self.running:.0f} run{waiting}; unfinished ones are lost."
        cached = (
            "" if not self.cached_tokens else f" Up to {self.cached_tokens:,.0f} tokens in the pool are computed anew."
        )
        return f"{load} {running}{cached}"


@dataclass(frozen=True, slots=True)
class Stage:
    """One step the operator takes; commands are never run by this program."""

    title: str
    restart: bool
    changes: tuple[Change, ...]
    commands: tuple[str, ...] = ()
    cost: str = ""
    expected: tuple[Mapping[str, Any], ...] = ()
    watch: tuple[Mapping[str, Any], ...] = ()
    rollback: tuple[str, ...] = ()
    rollback_when: tuple[str, ...] = ()
    held_off: str = ""  # until when the operator rules a restart out

    def row(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "restart": self.restart,
            "changes": [change.flag for change in self.changes],
            "commands": list(self.commands),
            "cost": self.cost,
            "held_off": self.held_off,
            "expected": [dict(one) for one in self.expected],
            "verify": [dict(one) for one in self.watch],
            "rollback": {"commands": list(self.rollback), "when": list(self.rollback_when)},
        }


# Settings that are files of the kernel, with the fact that tells what they are now.
_KERNEL_FILES = {
    "transparent_hugepage": ("/sys/kernel/mm/transparent_hugepage/enabled", "transparent_hugepages"),
    values.SHMEM_HUGE: (values.SHMEM_HUGE, ""),
}
# sglang 0.5.9 srt/mem_cache/memory_pool_host.py:95 registers the whole host pool before the server is ready.
_PINS = " plus HiCache's pinning, unmeasured"


def restart_cost(facts: Facts, changes: Sequence[Change] = ()) -> Restart:
    """From load times of past starts, what the changes add to the next one, and what runs now."""
    loads = sorted(_starts_of_one_look(facts))
    pins = any(change.flag == "--enable-hierarchical-cache" and change.do != "remove" for change in changes)
    running = _first(facts, ("metric", "num_running_reqs"), ("running_p50", None))
    queued = _first(facts, ("metric", "num_queue_reqs"), ("queue_p50", None))
    pool, usage = facts.number("kv_pool", ""), facts.number("usage_p50")
    names = ("load_seconds", "running_p50", "queue_p50", "usage_p50")
    sources = tuple(dict.fromkeys(fact.source for name in names if (fact := facts.get(name)) is not None))
    return Restart(
        len(loads),
        loads[len(loads) // 2] if loads else None,
        loads[-1] if loads else None,
        running,
        queued,
        pool * usage if pool is not None and usage is not None else None,
        _PINS if pins and loads else "",
        sources,
    )


def _starts_of_one_look(facts: Facts) -> list[float]:
    """Seconds of the starts in the look that shows most of them: later looks read the same starts again."""
    looks: dict[str, list[float]] = {}
    for one in facts.all("load_seconds"):
        if _is_number(one.value):
            looks.setdefault(one.source.partition(":")[0], []).append(float(one.value))
    return max(looks.values(), key=len, default=[])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _first(facts: Facts, *names: tuple[str, str | None]) -> float | None:
    for name, scope in names:
        found = facts.number(name, scope)
        if found is not None:
            return found
    return None


def needs_restart(change: Change) -> bool:
    """Whether the running server must be started again; settings of the kernel take effect at once."""
    sysctl = change.flag not in values.UNIT_KEYS and "." in change.flag
    return not (change.kind == "host" and (sysctl or change.flag in _KERNEL_FILES))


def plan_after(
    changes: Iterable[Change],
    facts: Facts,
    *,
    patch: Patch | None = None,
    expected: Sequence[Mapping[str, Any]] = (),
    verify: Sequence[Mapping[str, Any]] = (),
) -> tuple[Stage, ...]:
    """Stages in the order to take them: looks for what is not confirmed, no restart, one restart, an upgrade last.

    An upgrade has a start of its own, so that what helped can be told apart.
    """
    wanted = tuple(changes)
    stages: list[Stage] = []
    doubtful = tuple(change for change in wanted if not change.confirmed)
    if doubtful:
        stages.append(Stage("Confirm first what the evidence does not", False, doubtful, _looks(doubtful)))
    at_once = tuple(change for change in wanted if not needs_restart(change))
    if at_once:
        stages.append(_at_once(at_once, facts))
    restarted = tuple(change for change in wanted if needs_restart(change) and change.kind != "upgrade")
    upgrades = tuple(change for change in wanted if change.kind == "upgrade")
    cost, held_off = restart_cost(facts, restarted).text(), _held_off(facts)
    if restarted:
        shown = [row for row in expected if not (upgrades and about_version(row))]
        stages.append(
            Stage(
                f"Restart once with every change of the command, {held_off or 'at a quiet time'}",
                True,
                restarted,
                patch.commands if patch is not None else (),
                cost,
                _boot_first(shown),
                tuple(verify),
                patch.rollback if patch is not None else (),
                _roll_back_when(shown),
                held_off,
            )
        )
    if upgrades:
        shown = [row for row in expected if not restarted or about_version(row)]
        note = tuple(
            f"# install sglang {change.to or 'of a version with the fix'} beside this one" for change in upgrades
        )
        stages.append(
            Stage(
                "Upgrade, in a start of its own",
                True,
                upgrades,
                note,
                cost,
                tuple(shown),
                tuple(verify),
                rollback_when=_roll_back_when(shown),
                held_off=held_off,
            )
        )
    return tuple(stages)


def _looks(doubtful: Sequence[Change]) -> tuple[str, ...]:
    """Each look once, with the changes that it would confirm."""
    confirmed: dict[str, list[str]] = {}
    for change in doubtful:
        confirmed.setdefault(change.confirm_by, []).append(change.flag)
    return tuple(f"# {', '.join(dict.fromkeys(flags))}: {look}" for look, flags in confirmed.items())


def _roll_back_when(expected: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Beside what is watched: what a start that went wrong shows."""
    return (_NOT_READY, _OUT_OF_MEMORY, *((_NOT_AS_EXPECTED,) if expected else ()))


def _held_off(facts: Facts) -> str:
    """When a restart may be, as the operator says: `not before 6am`; empty where nothing was said."""
    said = facts.text("no_restart")
    return {"": "", "at all": "when you allow one"}.get(said, said if said.startswith("not ") else f"not {said}")


def _at_once(changes: tuple[Change, ...], facts: Facts) -> Stage:
    commands, back = [], []
    for change in changes:
        if change.flag in _KERNEL_FILES:
            file, known = _KERNEL_FILES[change.flag]
            was = facts.text(known, "") if known else ""
            commands += [f"echo {change.to} > {file}"] if was else [f"cat {file}", f"echo {change.to} > {file}"]
            back.append(f"echo {was} > {file}" if was else f"# the word in brackets that {file} had before")
        else:
            commands.append(f"sysctl -w {change.flag}={change.to}")
            back.append(
                f"sysctl -w {change.flag}={change.from_}"
                if change.from_ is not None
                else f"# note `sysctl -n {change.flag}` before, and set it again"
            )
    return Stage("Without a restart", False, changes, tuple(commands), "No request is lost.", rollback=tuple(back))


def _boot_first(expected: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """What the next boot must print before what only shows under load."""
    return tuple(sorted(expected, key=lambda one: "boot" not in str(one.get("where", ""))))
