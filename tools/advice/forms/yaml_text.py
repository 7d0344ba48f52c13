"""YAML with places: nodes by PyYAML's marks, scalars decoded character by character.

A scalar is only handed out when decoding it here gives what PyYAML read; text that it does not cover is left alone.
JSON as `docker inspect` prints it is read the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import yaml

from tools.advice.errors import LaunchUnreadable
from tools.advice.mapped import Item, Mapped, Word

_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|\r?\n[ \t]*|.)", re.S)
_PROPERTIES = re.compile(r"(?:[&!]\S*[ \t]+)+")
_ALIAS = re.compile(r"(?:[\s,:\[-]|#[^\n]*)*(\*[^\s,\[\]{}]+)")
_FOLD = re.compile(r"[ \t]*\r?\n(?:[ \t]*\r?\n)*[ \t]*")


def documents(text: str) -> list[yaml.Node]:
    """Root nodes of every document. Raises LaunchUnreadable when it is not YAML."""
    try:
        return [node for node in yaml.compose_all(text, Loader=yaml.SafeLoader) if node is not None]
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        first = str(error).splitlines()[0] if str(error) else "nested too deeply"
        raise LaunchUnreadable(f"this is not YAML: {first}.", "Pass the file as it is deployed.") from error


def pairs(node: yaml.Node | None) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
    """Key text, key node and value of a mapping; what is merged with `<<` comes first, as YAML has it overridden."""
    if not isinstance(node, yaml.MappingNode):
        return
    own = []
    for key, value in node.value:
        if key.value == "<<":
            merged = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for one in merged:
                yield from pairs(one)
        elif isinstance(key, yaml.ScalarNode):
            own.append((key.value, key, value))
    yield from own


def child(node: yaml.Node | None, *path: str) -> yaml.Node | None:
    """The value at a path of keys, None when it is not there."""
    for name in path:
        found = [value for key, _, value in pairs(node) if key == name]
        node = found[-1] if found else None
    return node


def text_of(node: yaml.Node | None) -> str:
    """The text of a scalar, empty for anything else."""
    return node.value if isinstance(node, yaml.ScalarNode) else ""


def span(source: str, node: yaml.Node) -> tuple[int, int]:
    """Where the text of a node stands, its anchor and tag left out."""
    start, end = node.start_mark.index, node.end_mark.index
    properties = _PROPERTIES.match(source, start, end)
    return properties.end() if properties else start, end


def alias(source: str, node: yaml.Node, after: int) -> Word | None:
    """The word that an alias stands for, in the place of the alias; None for a value that stands where it is used.

    `after` is where the text before the value ends. Raises LaunchUnreadable for an alias of more than a word.
    """
    if node.start_mark.index >= after:
        return None
    place = _ALIAS.match(source, after)
    if place is None or not isinstance(node, yaml.ScalarNode):
        raise LaunchUnreadable(
            f"a value of the command is an alias of line {node.start_mark.line + 1}.", "Write the value out."
        )
    where = (place.start(1), place.end(1))
    return Word(Mapped(node.value, (where,) * len(node.value)), *where)


def scalar(source: str, node: yaml.ScalarNode) -> Mapped | None:
    """The scalar with places, None where its text is written in a way that is not covered."""
    start, end = span(source, node)
    if node.style in ("|", ">"):
        found = _block(source, start, end, node)
    elif node.style == "'":
        found = _single(source, start, end)
    elif node.style == '"':
        found = _double(source, start, end)
    else:
        found = _folded(Mapped.of(source, start, end))
    return found if found is not None and found.text == node.value else None


def items(source: str, node: yaml.SequenceNode) -> list[Word]:
    """Items of a sequence of scalars as words that know how their sequence is written."""
    found: list[Word] = []
    before = node.start_mark.index
    for one in node.value:
        if not isinstance(one, yaml.ScalarNode):
            raise LaunchUnreadable("a list of words holds something else than words.", "Write one word an item.")
        stands = alias(source, one, before)
        if stands is not None:
            line_start = source.rfind("\n", 0, stands.start) + 1
            item = Item(not node.flow_style, "", before, line_start, alias=True)
            found.append(replace(stands, item=item))
            before = stands.end
            continue
        value = scalar(source, one)
        if value is None:
            raise LaunchUnreadable(
                f"line {one.start_mark.line + 1} is written in a way that cannot be edited safely.",
                "Write that item on one line.",
            )
        start, end = span(source, one)
        line_start = source.rfind("\n", 0, start) + 1
        item = Item(not node.flow_style, one.style or "", before, line_start)
        found.append(Word(value, start, end, item, not one.style))
        before = end
    return found


def _single(source: str, start: int, end: int) -> Mapped:
    inside = Mapped.of(source, start + 1, end - 1)
    parts: list[Mapped] = []
    at = 0
    while at < len(inside):
        width = 2 if inside.text.startswith("''", at) else 1
        parts.append(inside.as_char(at, at + width, inside.text[at]))
        at += width
    return _folded(Mapped.join(parts))


def _double(source: str, start: int, end: int) -> Mapped:
    inside = Mapped.of(source, start + 1, end - 1)
    parts: list[Mapped] = []
    at = 0
    while at < len(inside):
        escape = _ESCAPE.match(inside.text, at)
        fold = _FOLD.match(inside.text, at)
        if escape:
            raw = escape[0]
            if not raw[1:].startswith(("\n", "\r\n")):
                char = yaml.safe_load(f'"{raw}"') if raw != '\\"' else '"'
                parts.append(inside.as_char(at, escape.end(), char))
            at = escape.end()
        elif fold:
            parts.append(_fold_of(inside, at, fold.end()))
            at = fold.end()
        else:
            parts.append(inside.part(at, at + 1))
            at += 1
    return Mapped.join(parts)


def _folded(text: Mapped) -> Mapped:
    """Line breaks of a flow scalar: one is a blank, more are one fewer."""
    parts: list[Mapped] = []
    at = 0
    for fold in _FOLD.finditer(text.text):
        parts += [text.part(at, fold.start()), _fold_of(text, fold.start(), fold.end())]
        at = fold.end()
    return Mapped.join([*parts, text.part(at, len(text))])


def _fold_of(text: Mapped, start: int, end: int) -> Mapped:
    breaks = text.text[start:end].count("\n")
    if breaks == 1:
        return text.as_char(start, end, " ")
    first = text.as_char(start, end, "\n")
    return Mapped("\n" * (breaks - 1), first.spans * (breaks - 1))


def _block(source: str, start: int, end: int, node: yaml.ScalarNode) -> Mapped | None:
    """Literal and folded blocks: indentation removed; lines that are not indented more are joined by a blank."""
    header_end = source.find("\n", start, end)
    if header_end < 0:
        return Mapped("", ())
    lines: list[tuple[int, int]] = []
    at = header_end + 1
    while at < end:
        stop = source.find("\n", at)
        stop = len(source) if stop < 0 else stop
        lines.append((at, stop))
        at = stop + 1
    widths = [len(source[a:b]) - len(source[a:b].lstrip(" ")) for a, b in lines if source[a:b].strip()]
    if not widths:
        return None
    indent = min(widths)
    body = [_line(source, a, b, indent) for a, b in lines]
    joined = _literal(source, body, lines) if node.style == "|" else _fold_lines(body, lines, source)
    wanted = len(node.value)
    if joined.text[:wanted] == node.value and not joined.text[wanted:].strip():
        return joined.part(0, wanted)
    return None


def _line(source: str, start: int, end: int, indent: int) -> Mapped:
    stop = end - 1 if source[end - 1 : end] == "\r" else end
    return Mapped.of(source, min(start + indent, stop), stop)


def _literal(source: str, body: list[Mapped], lines: list[tuple[int, int]]) -> Mapped:
    parts: list[Mapped] = []
    for text, (_, stop) in zip(body, lines, strict=True):
        parts += [text, Mapped("\n", ((stop, min(stop + 1, len(source))),))]
    return Mapped.join(parts)


def _fold_lines(body: list[Mapped], lines: list[tuple[int, int]], source: str) -> Mapped:
    parts: list[Mapped] = []
    for number, (text, (_, stop)) in enumerate(zip(body, lines, strict=True)):
        parts.append(text)
        last = number + 1 == len(body)
        plain = not last and text.text and body[number + 1].text
        more_indented = any(one.text[:1] in (" ", "\t") for one in body[number : number + 2] if one.text)
        char = " " if plain and not more_indented else "\n"
        parts.append(Mapped(char, ((stop, min(stop + 1, len(source))),)))
    return Mapped.join(parts)
