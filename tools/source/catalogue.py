"""The flags of one version: every action its parser has, in the parser's order.

Read from the syntax tree once, then from a plain JSON file beside the tree.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from tools.source.errors import UnknownFlag

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Dynamic:
    """What is not known before the code runs: the expression that will decide."""

    expression: str


Choice = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Flag:
    """One option. `type` is how a value is read ("bool": the option takes none); `nargs` as argparse has it.

    `default` is the parser's; `fallback` what the code puts in for a default of None, if it is declared.
    """

    names: tuple[str, ...]
    dest: str
    type: str
    default: Any
    choices: tuple[Choice, ...] | Dynamic | None
    required: bool
    help: str
    deprecated: str | None
    replacement: str | None
    nargs: str | int | None
    path: str
    line: int
    fallback: Any = None

    @property
    def name(self) -> str:
        """The option string that stands for it: the first long one."""
        return next((name for name in self.names if name.startswith("--")), self.names[0])

    @property
    def at(self) -> str:
        return f"{self.path}:{self.line}"

    @property
    def takes_value(self) -> bool:
        return self.nargs != 0

    def document(self) -> dict[str, Any]:
        """The flag as `sglscout flags --json` prints it."""
        return {
            "names": list(self.names),
            "dest": self.dest,
            "type": self.type,
            "default": _document(self.default),
            "choices": None if self.choices is None else _document(self.choices),
            "required": self.required,
            "help": self.help,
            "deprecated": self.deprecated,
            "source": self.at,
        }


def _document(value: Any) -> Any:
    if isinstance(value, Dynamic):
        return {"dynamic": value.expression}
    if isinstance(value, tuple):
        return [_document(each) for each in value]
    return value


@dataclass(frozen=True)
class FlagCatalogue:
    """The flags of a version, found by any option string or destination."""

    version: str
    flags: tuple[Flag, ...]
    fields: tuple[str, ...] = ()
    _by_name: dict[str, Flag] = field(default_factory=dict, repr=False)
    _by_dest: dict[str, Flag] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for flag in self.flags:
            for name in flag.names:
                self._by_name.setdefault(name, flag)
            kept = self._by_dest.get(flag.dest)
            if kept is None or (kept.deprecated and not flag.deprecated):
                self._by_dest[flag.dest] = flag

    def find(self, name: str) -> Flag | None:
        """The flag with an option string (dashes may be left out) or destination; None if there is none."""
        word = name.strip().partition("=")[0]
        plain = word.lstrip("-").replace("_", "-")
        for spelling in (word, f"--{plain}", f"-{plain}"):
            if spelling in self._by_name:
                return self._by_name[spelling]
        return self._by_dest.get(word.lstrip("-").replace("-", "_"))

    def field(self, flag: Flag) -> str:
        """What the code calls a flag's value: its destination, or the record field that one of its names spells.

        sglang 0.5.9 srt/server_args.py parses `--tp-size` as `tensor_parallel_size` and keeps it as `tp_size`.
        """
        spelled = [name.lstrip("-").replace("-", "_") for name in flag.names]
        return next((name for name in (flag.dest, *spelled) if name in self.fields), flag.dest)

    def get(self, name: str) -> Flag:
        """The flag of that name. Raises UnknownFlag with the nearest ones."""
        found = self.find(name)
        if found is None:
            near = self.nearest(name)
            hint = f"Nearest: {', '.join(near)}." if near else "List them with `sglscout flags`."
            raise UnknownFlag(f"sglang {self.version} has no flag {name!r}.", hint)
        return found

    def nearest(self, name: str, count: int = 3) -> list[str]:
        """Option strings most like a name, best first: those that have all its words before those that look alike."""
        wanted = name.strip().partition("=")[0].lstrip("-").replace("_", "-").lower()
        known = {each.lstrip("-"): each for each in self._by_name if each.startswith("--")}
        found = get_close_matches(wanted, known, count, 0.6)
        words = set(wanted.split("-")) - {"enable", "disable", "no", "size"}
        if len(found) < count and words:
            shared = sorted(known, key=lambda each: (-len(words & set(each.split("-"))), len(each), each))
            need = max(1, len(words) // 2)
            found += [each for each in shared if len(words & set(each.split("-"))) >= need and each not in found]
        said = set(wanted.split("-"))
        whole = [each for each in known if len(said) > 1 and said <= set(each.split("-")) and each not in found]
        found = sorted([*found, *whole], key=lambda each: not (len(said) > 1 and said <= set(each.split("-"))))
        return [known[each] for each in found[:count]]

    def by_prefix(self, name: str) -> list[str]:
        """Option strings that argparse takes an abbreviation for."""
        return sorted(each for each in self._by_name if each.startswith(name)) if name.startswith("--") else []

    def matching(self, query: str) -> list[Flag]:
        """Flags whose name, destination or help holds every word of a query; the exact one first."""
        exact = self.find(query) if query.strip() else None
        words = query.lower().replace("_", "-").split()
        rest = [flag for flag in self.flags if flag is not exact and all(word in _haystack(flag) for word in words)]
        by_name = [flag for flag in rest if all(word.lstrip("-") in " ".join(flag.names) for word in words)]
        chosen = {id(flag) for flag in by_name}
        ranked = by_name + [flag for flag in rest if id(flag) not in chosen]
        return ([exact] if exact else []) + ranked


def _haystack(flag: Flag) -> str:
    return f"{' '.join(flag.names)} {flag.dest.replace('_', '-')} {flag.help}".lower()


_COLUMNS: Final = (
    "names", "dest", "type", "default", "choices", "required", "help",
    "deprecated", "replacement", "nargs", "path", "line", "fallback",
)  # fmt: skip


def dump(catalogue: FlagCatalogue, *, with_help: bool = True) -> str:
    """The catalogue as compact JSON; help texts are most of it and may be left out."""
    rows = []
    for flag in catalogue.flags:
        row = [_pack(getattr(flag, column)) for column in _COLUMNS]
        if not with_help:
            row[_COLUMNS.index("help")] = ""
        rows.append(row)
    document = {"v": FORMAT, "version": catalogue.version, "fields": catalogue.fields, "flags": rows}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def load(text: str) -> FlagCatalogue | None:
    """A catalogue written by `dump`; None for one of another format."""
    try:
        document = json.loads(text)
    except ValueError:
        return None
    if document.get("v") != FORMAT:
        return None
    flags = []
    for row in document["flags"]:
        values = dict(zip(_COLUMNS, (_unpack(value) for value in row), strict=True))
        flags.append(Flag(**values))
    return FlagCatalogue(document["version"], tuple(flags), tuple(document["fields"]))


def _pack(value: Any) -> Any:
    if isinstance(value, Dynamic):
        return {"dynamic": value.expression}
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return {"float": str(value)}
    return [_pack(each) for each in value] if isinstance(value, tuple) else value


def _unpack(value: Any) -> Any:
    if isinstance(value, dict) and len(value) == 1:
        if "dynamic" in value:
            return Dynamic(value["dynamic"])
        if "float" in value:
            return float(value["float"])
    return tuple(_unpack(each) for each in value) if isinstance(value, list) else value
