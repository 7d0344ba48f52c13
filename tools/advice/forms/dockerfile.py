"""The command of a Dockerfile: the last `ENTRYPOINT` and `CMD` of its last stage, as lists of words or for a shell."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from tools.advice.errors import LaunchUnreadable
from tools.advice.forms import shell, yaml_text
from tools.advice.mapped import Mapped, Word

_INSTRUCTION = re.compile(
    r"^[ \t]*(FROM|ENTRYPOINT|CMD|ENV)[ \t]+((?:[^\n\\]|\\(?!\r?\n)|\\\r?\n(?:[ \t]*#[^\n]*\n)*)*)",
    re.MULTILINE | re.IGNORECASE,
)
_FROM = re.compile(r"^[ \t]*FROM[ \t]+\S", re.MULTILINE | re.IGNORECASE)
_RUNS = re.compile(r"^[ \t]*(?:ENTRYPOINT|CMD)[ \t]", re.MULTILINE | re.IGNORECASE)
_SET = re.compile(r"([A-Za-z_]\w*)=(\"[^\"]*\"|\S+)")


def holds(text: str) -> bool:
    """Whether the text is one that runs something."""
    base = _FROM.search(text)
    return base is not None and _RUNS.search(text, base.end()) is not None


def command(text: str) -> list[Word]:
    """Words of the entry point, then those of the command, each with its place. Raises LaunchUnreadable."""
    found = _last(text)
    return [word for key in ("ENTRYPOINT", "CMD") if key in found for word in _words(text, *found[key])]


def environment(text: str) -> dict[str, str]:
    return {
        name: value.strip('"')
        for key, start, end in _instructions(text)
        if key == "ENV"
        for name, value in _SET.findall(text[start:end])
    }


def _last(text: str) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for key, start, end in _instructions(text):
        if key == "FROM":
            found.clear()
        elif key != "ENV":
            found[key] = (start, end)
    return found


def _instructions(text: str) -> Iterator[tuple[str, int, int]]:
    for match in _INSTRUCTION.finditer(text):
        yield match[1].upper(), match.start(2), match.end(2)


def _words(text: str, start: int, end: int) -> list[Word]:
    """The words of one instruction: those of a JSON list where it is one, else as a shell reads them."""
    if not text[start:end].lstrip().startswith("["):
        return [word for words in shell.read(Mapped.of(text, start, end)).simple for word in words]
    # Everything else as blanks, so that each place in the list is one in the file.
    alone = re.sub(r"[^\n]", " ", text[:start]) + re.sub(r"\\(?=\r?\n)", " ", text[start:end])
    try:
        nodes = yaml_text.documents(alone)
    except yaml.YAMLError as error:
        raise LaunchUnreadable("a list of this Dockerfile cannot be read.", "Write it as JSON.") from error
    return yaml_text.items(alone, nodes[0]) if nodes and isinstance(nodes[0], yaml.SequenceNode) else []
