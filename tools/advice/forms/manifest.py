"""Commands in YAML of any shape: containers of a manifest, else any list of words, also in YAML that a text holds.

So values of a chart, patches of a kustomization, inline or files of their own, and custom resources are read like a
manifest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import yaml

from tools.advice.command import HINT
from tools.advice.errors import LaunchUnreadable
from tools.advice.forms import shell, yaml_text
from tools.advice.mapped import Mapped, Word

_CONTAINERS = ("containers", "initContainers")
_PAIR = ("command", "args")
_HELD = re.compile(r"\s*(?:- op:|-? ?apiVersion:|[\w.-]+:\s*\n)")  # how YAML that a text holds begins
_NESTING = 3


@dataclass(frozen=True, slots=True)
class Found:
    """Words that may start a server, in the order of the file.

    `owner` is `kind/name` of the object they belong to, empty where the file is none of its own; `called` the
    container; `node` what holds them, None where the text of another file does.
    """

    owner: str
    called: str
    words: tuple[Word, ...]
    node: yaml.Node | None


def commands(text: str) -> Iterator[Found]:
    """Commands of the containers first, then every other list of words. Raises LaunchUnreadable."""
    roots = yaml_text.documents(text)
    for root in roots:
        for owner, container in _containers(root, ""):
            called = yaml_text.text_of(yaml_text.child(container, "name"))
            yield Found(owner, called, tuple(_pair(text, container)), container)
    for root in roots:
        yield from _lists(text, root)
        yield from _held(text, root, 0)
    for root in roots:
        yield from _scripts(text, root, "")


def command(text: str, node: yaml.Node | None, key: str) -> list[Word]:
    """A command of a compose service or container: a list of words, or one text that is split as a shell does."""
    value = yaml_text.child(node, key)
    if isinstance(value, yaml.SequenceNode):
        return yaml_text.items(text, value)
    if isinstance(value, yaml.ScalarNode) and value.value.strip() and value.tag.endswith(":str"):
        mapped = yaml_text.scalar(text, value)
        if mapped is None:
            raise LaunchUnreadable(
                f"`{key}` in line {value.start_mark.line + 1} is written in a way that cannot be edited safely.",
                "Write it as a list of words.",
            )
        return [word for words in shell.read(_unbroken(mapped)).simple for word in words]
    return []


def _pair(text: str, node: yaml.Node) -> list[Word]:
    return [word for key in _PAIR for word in command(text, node, key)]


def _unbroken(text: Mapped) -> Mapped:
    """Line breaks of a command text as blanks: compose splits words, it runs no shell."""
    return Mapped(re.sub(r"\\?\n", lambda found: " " * len(found[0]), text.text), text.spans)


def pods(node: yaml.Node) -> Iterator[tuple[yaml.Node, int]]:
    """Each mapping that has containers, once for each of them, with the place where that container begins."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from pods(item)
    for key, _, value in yaml_text.pairs(node):
        if key in _CONTAINERS and isinstance(value, yaml.SequenceNode):
            yield from ((node, one.start_mark.index) for one in value.value)
        elif not isinstance(value, yaml.ScalarNode):
            yield from pods(value)


def _containers(node: yaml.Node, owner: str) -> Iterator[tuple[str, yaml.Node]]:
    """Every container below a node, with `kind/name` of the object it belongs to."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _containers(item, owner)
    owner = _owner(node) or owner
    for key, _, value in yaml_text.pairs(node):
        if key in _CONTAINERS and isinstance(value, yaml.SequenceNode):
            yield from ((owner, one) for one in value.value)
        elif not isinstance(value, yaml.ScalarNode):
            yield from _containers(value, owner)


def _lists(text: str, node: yaml.Node) -> Iterator[Found]:
    """Pairs of `command` and `args`, and lists of words under any other key."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _lists(text, item)
    for key, _, value in yaml_text.pairs(node):
        if key == _PAIR[0] or (key == _PAIR[1] and yaml_text.child(node, _PAIR[0]) is None):
            yield from _readable(Found("", "", tuple(_pair(text, node)), node))
        elif key not in _PAIR and isinstance(value, yaml.SequenceNode) and _are_words(value):
            yield from _readable(Found("", "", tuple(yaml_text.items(text, value)), None))
        if not isinstance(value, yaml.ScalarNode):
            yield from _lists(text, value)


def _readable(found: Found) -> Iterator[Found]:
    if found.words:
        yield found


def _are_words(node: yaml.SequenceNode) -> bool:
    return all(isinstance(one, yaml.ScalarNode) for one in node.value)


def _held(text: str, node: yaml.Node, depth: int) -> Iterator[Found]:
    """Commands of YAML that stands as a text in another file, as patches of a kustomization do."""
    if isinstance(node, yaml.ScalarNode):
        mapped = yaml_text.scalar(text, node) if _HELD.match(node.value) and depth < _NESTING else None
        if mapped is not None:
            for found in commands(mapped.text):
                yield replace(found, words=tuple(_outside(text, mapped, word) for word in found.words), node=None)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _held(text, item, depth)
    for _, _, value in yaml_text.pairs(node):
        yield from _held(text, value, depth)


def _scripts(text: str, node: yaml.Node, owner: str) -> Iterator[Found]:
    """Texts of several lines that name a server, as scripts of a ConfigMap do; the object they belong to."""
    if isinstance(node, yaml.ScalarNode):
        mapped = yaml_text.scalar(text, node) if "\n" in node.value and HINT.search(node.value) else None
        if mapped is not None:
            yield Found(owner, "", (Word(mapped, *yaml_text.span(text, node)),), None)
    for item in node.value if isinstance(node, yaml.SequenceNode) else ():
        yield from _scripts(text, item, owner)
    owner = _owner(node) or owner
    for _, _, value in yaml_text.pairs(node):
        yield from _scripts(text, value, owner)


def _owner(node: yaml.Node) -> str:
    """`kind/name` of an object, empty for what is none."""
    kind = yaml_text.text_of(yaml_text.child(node, "kind")).lower()
    called = yaml_text.text_of(yaml_text.child(node, "metadata", "name"))
    return f"{kind}/{called}" if kind and called and kind != "list" else ""


def _outside(text: str, held: Mapped, word: Word) -> Word:
    """A word of held text with its places in the file."""
    spans = tuple((held.spans[start][0], held.spans[end - 1][1]) for start, end in word.value.spans)
    start, end = held.spans[word.start][0], held.spans[word.end - 1][1]
    item = word.item
    if item is not None:
        item = replace(item, before=held.spans[item.before][0], line_start=text.rfind("\n", 0, start) + 1)
    return Word(Mapped(word.value.text, spans), start, end, item, word.bare)
