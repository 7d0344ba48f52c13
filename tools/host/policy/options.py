"""How one command's arguments are read: the full grammar of its options, nothing taken on trust.

Two spellings exist. "gnu": short options cluster (`-Tc`), a value follows or is attached (`-n 5`, `-n5`), long ones
take `=v` or a following value; abbreviations are refused. "words": every option is one whole word (`-pm`, `-maxdepth`).
An option that an entry does not name is refused, since what is not known to read may write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from tools.host.policy import paths
from tools.host.policy.verdict import Finding, Privacy, ask, deny

Role = Callable[[str], Finding | None]
Check = Callable[["Parsed"], Iterable[Finding]]

_LONG: Final = re.compile(r"--[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class Option:
    """One option: `role` judges its value (None: takes none), `finding` is what it costs to use it at all.

    `optional`: a value may only be attached. `peek`: it may also follow as a word of this pattern.
    """

    role: Role | None = None
    finding: Finding | None = None
    optional: bool = False
    peek: str = ""


Options = Mapping[str, Option]


@dataclass(frozen=True, slots=True)
class Parsed:
    """Arguments read by an entry. `after_pipe`: the stage reads another stage's output. `paths`: those naming files.

    `ports` are those at which the server that is looked at listens on the loopback address.
    """

    used: tuple[tuple[str, str], ...]
    operands: tuple[str, ...]
    after_pipe: bool = False
    paths: tuple[str, ...] = ()
    ports: frozenset[int] = frozenset()

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.used)

    def value(self, *names: str) -> str:
        """The last value given under one of these names, "" if none was."""
        return next((value for name, value in reversed(self.used) if name in names), "")

    def values(self, *names: str) -> tuple[str, ...]:
        return tuple(value for name, value in self.used if name in names)


@dataclass(frozen=True, slots=True)
class Entry:
    """A command of the catalogue.

    `path` is what is sent as argv[0]. `operands` judges each operand, `most` is how many there may be. `first`
    judges the first one instead (a pattern, a script) unless an option of `instead` gave it. With one of `recurses`
    the operands are trees. `verbs` holds the entries behind a first word (`docker ps`). `check` sees everything
    together. `adds` are put right behind the command unless one of them stands there already. `reads_input`: may
    stand behind a pipe. `carves`: does it, called so, cut a value out of its line, and so out of the context by
    which redaction knows it. `bears_keys`: prints command lines.
    """

    path: str
    options: Options = field(default_factory=dict)
    operands: Role | None = None
    most: int = 0
    first: Role | None = None
    instead: tuple[str, ...] = ()
    recurses: tuple[str, ...] = ()
    verbs: Mapping[str, Entry] = field(default_factory=dict)
    check: Check | None = None
    adds: tuple[str, ...] = ()
    style: Literal["gnu", "words"] = "gnu"
    dashdash: bool = False
    reads_input: bool = False
    carves: Callable[[Parsed], bool] | None = None
    bears_keys: bool = False
    privacy: Privacy = "plain"
    unknown: Finding | None = None
    finding: Finding | None = None


def flags(names: str) -> dict[str, Option]:
    """Options without a value."""
    return {name: Option() for name in names.split()}


def valued(role: Role, names: str, *, optional: bool = False, peek: str = "") -> dict[str, Option]:
    """Options with a value that `role` judges."""
    return {name: Option(role, optional=optional, peek=peek) for name in names.split()}


def never(tag: str, why: str, names: str, *, takes: bool = False) -> dict[str, Option]:
    """Options that deny the whole command. `takes`: they have a value."""
    return {name: Option(_any_value if takes else None, deny(tag, why)) for name in names.split()}


def asking(tag: str, why: str, names: str, *, takes: bool = False) -> dict[str, Option]:
    """Options that need the operator's yes."""
    return {name: Option(_any_value if takes else None, ask(tag, why)) for name in names.split()}


def always(_: Parsed) -> bool:
    """However it is called."""
    return True


def anything(_: str) -> Finding | None:
    """Text that the command only compares or prints."""
    return None


def _any_value(_: str) -> None:
    return None


def read(
    entry: Entry, arguments: tuple[str, ...], after_pipe: bool, ports: frozenset[int] = frozenset()
) -> tuple[Parsed, list[Finding]]:
    """Arguments as the entry's grammar has them, and everything that speaks against them."""
    reader = _Reader(entry, arguments)
    reader.run()
    findings = reader.findings
    plain = Parsed(tuple(reader.used), tuple(reader.operands), after_pipe, ports=ports)
    operands = plain.operands
    findings.extend(_secrets_named(entry, plain))
    if entry.first is not None and not plain.has(*entry.instead):
        if not operands:
            findings.append(deny("operand", "the pattern or script is missing"))
        else:
            findings.extend(filter(None, [entry.first(operands[0])]))
        operands = operands[1:]
    role = paths.tree if plain.has(*entry.recurses) else entry.operands
    of_options = tuple(
        value for name, value in plain.used if (known := entry.options.get(name)) and known.role in paths.ROLES
    )
    parsed = replace(plain, paths=(*of_options, *(operands if role in paths.ROLES else ())))
    if after_pipe and role in paths.ROLES and operands:
        findings.append(deny("shape", "a stage behind a pipe reads the pipe, and no file beside it"))
    if len(parsed.operands) > entry.most:
        findings.append(deny("operand", f"{parsed.operands[entry.most]!r} is an operand too many"))
    if role is not None:
        findings.extend(filter(None, map(role, operands)))
    if entry.check is not None:
        findings.extend(entry.check(parsed))
    return parsed, findings


def _secrets_named(entry: Entry, parsed: Parsed) -> Iterable[Finding]:
    """A file of keys, whatever option or place it is given in; what is only compared or printed passes."""
    skipped = 1 if entry.first is not None and not parsed.has(*entry.instead) else 0
    words = [value for name, value in parsed.used if (known := entry.options.get(name)) and known.role is not anything]
    words += parsed.operands[skipped:] if entry.operands is not anything else ()
    for word in words:
        if paths.mentions_secret(word):
            yield deny("secret", f"{word} names a file that holds keys")
            return


class _Reader:
    """One pass over the arguments."""

    def __init__(self, entry: Entry, arguments: tuple[str, ...]) -> None:
        self.entry = entry
        self.rest = list(arguments)
        self.used: list[tuple[str, str]] = []
        self.operands: list[str] = []
        self.findings: list[Finding] = []

    def run(self) -> None:
        while self.rest:
            word = self.rest.pop(0)
            if word == "--":
                if not self.entry.dashdash:
                    self.findings.append(deny("unknown-opt", "'--' is not part of this command's grammar"))
                self.operands.extend(self.rest)
                return
            if word == "-" or not word.startswith("-"):
                self.operands.append(word)
            elif self.entry.style == "words" or _LONG.match(word):
                self._whole(word)
            else:
                self._cluster(word)

    def _whole(self, word: str) -> None:
        name, equals, value = word.partition("=")
        option = self.entry.options.get(name)
        if option is None:
            self._unknown(name)
        elif option.role is None:
            if equals:
                self._unknown(word)
            self._use(name, option, "")
        elif equals:
            self._use(name, option, value)
        else:
            self._following(name, option)

    def _cluster(self, word: str) -> None:
        for index in range(1, len(word)):
            name = f"-{word[index]}"
            option = self.entry.options.get(name)
            if option is None:
                number = re.fullmatch(r"-(\d+)", word)
                if number and (digits := self.entry.options.get("-#")):
                    self._use("-#", digits, number.group(1))
                else:
                    self._unknown(name)
                return
            if option.role is not None:
                attached = word[index + 1 :]
                if attached:
                    self._use(name, option, attached)
                else:
                    self._following(name, option)
                return
            self._use(name, option, "")

    def _following(self, name: str, option: Option) -> None:
        if option.optional:
            if option.peek and self.rest and re.fullmatch(option.peek, self.rest[0]):
                self._use(name, option, self.rest.pop(0))
            else:
                self.used.append((name, ""))
        elif self.rest:
            self._use(name, option, self.rest.pop(0))
        else:
            self.findings.append(option.finding or deny("operand", f"{name} lacks its value"))

    def _use(self, name: str, option: Option, value: str) -> None:
        self.used.append((name, value))
        if option.finding is not None:
            self.findings.append(option.finding)
        if option.role is not None and (finding := option.role(value)):
            self.findings.append(finding)

    def _unknown(self, name: str) -> None:
        self.findings.append(
            self.entry.unknown or deny("unknown-opt", f"the option {name} is not in this command's entry")
        )
