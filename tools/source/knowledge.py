"""What is worked out about a tree, kept beside it: its catalogue, the rules of its handlers, those of a flag.

trees/DIGEST/catalogue-N.json   handlers-N.json   rules-N/FLAG.json   families-N/FLAG.json

N is the format of what is kept.
"""

from __future__ import annotations

import json
import re
import tempfile
import threading
from dataclasses import astuple, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from tools.source import search as searching
from tools.source.catalogue import FlagCatalogue, dump, load
from tools.source.following import Follower
from tools.source.modules import Modules, uncollected
from tools.source.parser_reader import read_flags
from tools.source.reading import GROUPS
from tools.source.rule import Rule
from tools.source.rules import HANDLERS, Family, about, family_of, read_under, readers, scan_handlers
from tools.source.search import Hit
from tools.source.spelled import spelled
from tools.source.store import Placed

FORMAT: Final = 22
READERS_SHOWN: Final = 8
HANDLERS_SHOWN: Final = 10
SECONDS: Final = 20.0


class Knowledge:
    """Of one tree; safe to ask from several threads."""

    def __init__(self, placed: Placed, version: str) -> None:
        self._placed = placed
        self._version = version
        self._turn = threading.RLock()
        self._catalogue: FlagCatalogue | None = None
        self._handlers: list[Rule] | None = None

    @cached_property
    def _modules(self) -> Modules:
        return Modules(self._placed.root)

    def catalogue(self) -> FlagCatalogue:
        with self._turn:
            if self._catalogue is None:
                path = self._placed.folder / f"catalogue-{FORMAT}.json"
                kept = _text(path)
                found = None if kept is None else load(kept)
                if found is None:
                    found = read_flags(self._modules, self._version)
                    _keep(path, dump(found))
                self._catalogue = found
            return self._catalogue

    def handlers(self) -> list[Rule]:
        with self._turn:
            if self._handlers is None:
                path = self._placed.folder / f"handlers-{FORMAT}.json"
                found = _rules_in(_text(path))
                if found is None:
                    paths = self._placed.manifest.files
                    found = scan_handlers(self._modules, paths, self.catalogue())
                    found = spelled(found, self._modules, paths, self.catalogue())
                    _keep(path, _rules_text(found))
                self._handlers = found
            return self._handlers

    def family(self, name: str) -> Family:
        with self._turn:
            flag = self.catalogue().get(name)
            found = family_of(flag, self.catalogue(), self.handlers())
            if found.switches or not found.siblings:
                return found
            path = self._placed.folder / f"families-{FORMAT}" / f"{flag.dest}.json"
            kept = _text(path)
            if kept is None:
                under = read_under(self._modules, self._outside([found.flag]), found.flag, self.catalogue())
                kept = json.dumps(sorted(under - found.all))
                _keep(path, kept)
            return replace(found, switches=frozenset(json.loads(kept)))

    def rules(self, name: str) -> tuple[Rule, ...]:
        with self._turn:
            flag = self.catalogue().get(name)
            family = self.family(name)
            path = self._placed.folder / f"rules-{FORMAT}" / f"{flag.dest}.json"
            elsewhere = _rules_in(_text(path))
            if elsewhere is None:
                paths = self._outside(sorted(family.all))
                with uncollected():
                    elsewhere = Follower(Modules(self._placed.root), self.catalogue(), family).rules(paths)
                _keep(path, _rules_text(elsewhere))
            return about(family, self.handlers(), elsewhere)

    def _outside(self, names: list[str]) -> list[str]:
        """Files of the server that name one of these as an attribute and are no handlers."""
        found = dict.fromkeys(hit.path for hit in self._naming(names))
        return [path for path in found if not path.startswith(HANDLERS)]

    def _naming(self, names: list[str]) -> tuple[Hit, ...]:
        """Lines of the server's Python files that name one of these as an attribute, or ask for the size of a process
        group that follows from it.
        """
        asked = [rf"\.(?:{'|'.join(re.escape(name) for name in names)})\b"]
        asked += [rf"\b{each}\b" for each, follows in GROUPS.items() if follows in names]
        files = [path for path in self._placed.manifest.files if path.startswith("srt/") and path.endswith(".py")]
        request = searching.request_for(
            "|".join(asked),
            files,
            ignore_case=False,
            literal=False,
            multiline=False,
            context=0,
            limit=searching.EVERYTHING,
        )
        request |= {"root": str(self._placed.root), "manifest": str(self._placed.folder / "manifest.json")}
        return searching.result_of(searching.SHARED.ask(request, SECONDS)).hits

    def usage(self, name: str) -> str:
        """Definition, handlers and readers of a flag, with the lines that matter."""
        catalogue = self.catalogue()
        flag = catalogue.get(name)
        lines = [f"{flag.name} (dest {flag.dest}, default {flag.default!r})", f"defined  {flag.at}"]
        name = catalogue.field(flag)
        own = [rule for rule in self.handlers() if name in rule.flags]
        lines += [f"handled  {rule.at}: in {rule.where}: {rule.quote}" for rule in own[:HANDLERS_SHOWN]]
        if len(own) > HANDLERS_SHOWN:
            lines.append(f"         and {len(own) - HANDLERS_SHOWN} more: ask for its rules")
        files = self._outside([name])
        with self._turn:
            found = readers(self._modules, files[: READERS_SHOWN * 2], name)
        for path, line, function in found[:READERS_SHOWN]:
            lines.append(f"read     {path}:{line}: in {function or 'the module'}: {self._line(path, line)}")
        left = len(found) - READERS_SHOWN
        if left > 0 or len(files) > READERS_SHOWN * 2:
            lines.append(f"         and {max(left, 0)} more in {len(files)} files: search for `.{name}`")
        if not found:
            lines.append("read     nowhere outside its handlers")
        return "\n".join(lines)

    def _line(self, path: str, line: int) -> str:
        text = (self._placed.root / path).read_bytes().decode("utf-8", "replace").split("\n")
        return text[line - 1].strip()[:160]


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None


def _keep(path: Path, text: str) -> None:
    """Put a file in its place in one step; a cache that cannot be written is no reason to fail."""
    try:
        path.parent.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", delete=False, encoding="utf-8") as handle:
            handle.write(text)
        Path(handle.name).replace(path)
    except OSError:
        return


def _rules_text(rules: list[Rule]) -> str:
    return json.dumps([astuple(rule) for rule in rules], separators=(",", ":"), ensure_ascii=False)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _rules_in(text: str | None) -> list[Rule] | None:
    try:
        rows: list[list[Any]] = json.loads(text) if text else []
        if not text:
            return None
        names = [each.name for each in fields(Rule)]
        return [Rule(**dict(zip(names, map(_plain, row), strict=True))) for row in rows]
    except (ValueError, TypeError):
        return None
