"""Words to a server command: what wraps it, where its own options begin, and its flags as typed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tools.advice.forms import shell
from tools.advice.mapped import Word
from tools.entry_point import options_begin

_PYTHON = re.compile(r"(?:^|/)python[\d.]*$")
HINT = re.compile(r"sglang(?:_router)?\.launch_server|launch_server(?:\.py)?\b|\bsglang\s+serve\b")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
FLAG = re.compile(r"--[A-Za-z][\w.\-]*")
_REST = re.compile(r"\$[@*]|\$\{[@*]|\$\{\w+\[[@*]\]")
_NESTING = 4
ENGINE_RUN = re.compile(r"\b(docker|podman|nerdctl)\s+(?:container\s+)?run\b")
_ENGINE = re.compile(r"(?:^|/)(?:docker|podman|nerdctl)$")
# Options of `docker run` and `podman run` that take no value; every other one takes the next word.
_SHORT_SWITCHES = re.compile(r"-[ditPq]+")
_ENGINE_SWITCHES = frozenset(
    {
        "--detach",
        "--interactive",
        "--tty",
        "--rm",
        "--init",
        "--privileged",
        "--read-only",
        "--publish-all",
        "--quiet",
        "--sig-proxy",
        "--no-healthcheck",
        "--no-hosts",
        "--oom-kill-disable",
        "--disable-content-trust",
        "--use-api-socket",
        "--replace",
        "--rmi",
        "--env-host",
        "--http-proxy",
        "--passwd",
        "--read-only-tmpfs",
    }
)
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ssh"})


@dataclass(frozen=True, slots=True)
class Flag:
    """One option as typed: `words` are the places of the option and its values, `joined` its `--name=value` form."""

    name: str
    values: tuple[str, ...]
    joined: bool
    words: tuple[Word, ...]

    @property
    def value(self) -> str:
        """Its values as one text, empty for a switch."""
        return " ".join(self.values)


@dataclass(frozen=True, slots=True)
class Server:
    """The words of a command that starts a server: its program stands at `start`, its options begin at `entry`.

    `outer` are the words of commands around it, up to the text that holds it (`bash -lc`). `own` are the command's
    words before variables were looked up: their places lie side by side in one line.
    """

    words: tuple[Word, ...]
    start: int
    entry: int
    outer: tuple[str, ...]
    flags: tuple[Flag, ...]
    own: tuple[Word, ...]


def find(words: Sequence[Word], *, bare_options: bool = False, depth: int = 0) -> Server | None:
    """The server that these words start, also inside `bash -lc "…"`, `tmux new -d '…'` and the like.

    `bare_options` takes words without an entry point for the options of an image's own entry point.
    """
    entry = options_begin([word.text for word in words])
    if entry is not None:
        return _server(words, entry)
    if depth < _NESTING:
        for index, word in enumerate(words):
            if HINT.search(word.text):
                named = _ASSIGNMENT.match(word.text)
                text = word.value.part(named.end(), len(word.value)) if named else word.value
                inner = find_in(shell.read(text), depth=depth + 1)
                if inner is not None:
                    before = tuple(one.text for one in words[:index])
                    return replace(inner, outer=(*before, *inner.outer))
    image = _image(words)
    if image is not None and _has_model(words[image + 1 :]):
        return replace(_server(words, image + 1), start=image + 1)
    if bare_options and _has_model(words):
        first = next(index for index, word in enumerate(words) if FLAG.match(word.text))
        return _server(words, first)
    return None


def _has_model(words: Sequence[Word]) -> bool:
    return any(word.text.startswith(("--model", "--tp", "--mem-fraction")) for word in words)


def engine_run(texts: Sequence[str]) -> int | None:
    """Index of the `run` of a container engine, behind which its own options begin."""
    found = (index for index, text in enumerate(texts) if text == "run" and any(map(_ENGINE.search, texts[:index])))
    return next(found, None)


def _image(words: Sequence[Word]) -> int | None:
    """Index of the image of `docker run … IMAGE`, whose own entry point gets the words behind it."""
    texts = [word.text for word in words]
    run = engine_run(texts)
    index = len(texts) if run is None else run + 1
    while index < len(texts) and texts[index].startswith("-"):
        alone = texts[index] in _ENGINE_SWITCHES or _SHORT_SWITCHES.fullmatch(texts[index])
        attached = "=" in texts[index] or re.match(r"-[A-Za-z].", texts[index])
        index += 1 if alone or attached else 2
    return index if index < len(texts) else None


def find_in(commands: shell.Commands, *, depth: int = 0) -> Server | None:
    """The last command of a shell text that starts a server, else one in a here-document, of a shell first."""
    for index, words in reversed([*enumerate(commands.simple)]):
        spliced = tuple(shell.splice(words, commands.variables_in(index)))
        server = find(spliced, depth=depth)
        if server is not None:
            return replace(server, own=tuple(words)) if server.own == spliced else server
    if depth < _NESTING:
        fed = sorted(commands.documents, key=lambda one: _is_shell(one[0]))
        for reader, body in reversed(fed):
            server = find_in(shell.read(body), depth=depth + 1)
            if server is not None:
                return replace(server, outer=(*(word.text for word in reader), *server.outer))
    return None


def _is_shell(words: Sequence[Word]) -> bool:
    return any(word.text.rpartition("/")[2] in _SHELLS for word in words)


def _server(words: Sequence[Word], entry: int) -> Server:
    return Server(tuple(words), _program(words, entry), entry, (), read_flags(words[entry:]), tuple(words))


def _program(words: Sequence[Word], entry: int) -> int:
    """Index of the program: `sglang` of `sglang serve`, else the last Python before the entry point."""
    if entry >= 2 and words[entry - 1].text == "serve":
        return entry - 2
    pythons = [index for index in range(entry) if _PYTHON.search(words[index].text)]
    return pythons[-1] if pythons else max(entry - 1, 0)


def _is_value(word: str, *, first: bool) -> bool:
    """Whether a word may be an option's value; `"$@"` and arrays are further options, later variables may be."""
    if FLAG.match(word) or _REST.match(word):
        return False
    return first or not word.startswith("$")


def read_flags(words: Sequence[Word]) -> tuple[Flag, ...]:
    """Options in order, repeated ones too; words up to the next option are its values."""
    found: list[Flag] = []
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        match = FLAG.match(word.text)
        if match is None:
            continue
        name, sign, value = word.text.partition("=")
        taken = [word]
        values = [value] if sign else []
        while not sign and index < len(words) and _is_value(words[index].text, first=not values):
            taken.append(words[index])
            values.append(words[index].text)
            index += 1
        found.append(Flag(name, tuple(values), bool(sign), tuple(taken)))
    return tuple(found)
