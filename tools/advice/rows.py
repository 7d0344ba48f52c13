"""Rows and keys of YAML that are added, changed or taken out in place; every other byte stays."""

from __future__ import annotations

from collections.abc import Sequence

import yaml

from tools.advice.forms import yaml_text
from tools.advice.launch import Launch
from tools.advice.mapped import Edit, apply

# What compose calls an option of `docker run`; others have its name with underscores, or no key of one word.
_SERVICE = {"memory": "mem_limit", "memory-swap": "memswap_limit"}
_NO_KEY = frozenset({"ulimit", "init"})


def variable(launch: Launch, name: str, value: str | None) -> str | None:
    """The file with a variable of the service or container set, or without it; None where that cannot be written."""
    key = "env" if launch.form == "kubernetes" else "environment"
    node = yaml_text.child(launch.node, key)
    if isinstance(node, yaml.SequenceNode):
        return _env_list(launch, node, name, value)
    if isinstance(node, yaml.MappingNode):
        return _env_mapping(launch, node, name, value)
    if value is None or launch.node is None:
        return None
    if launch.form == "kubernetes":
        return new_key(launch.text, launch.node, key, [f"- name: {name}", f'  value: "{value}"'])
    return new_key(launch.text, launch.node, key, [f'{name}: "{value}"'])


def service_key(launch: Launch, option: str, value: str) -> str | None:
    """A compose file with an option of the container set; a memory limit where the service has it, under `deploy`."""
    if option in _NO_KEY or launch.node is None:
        return None
    limit = yaml_text.child(launch.node, "deploy", "resources", "limits", "memory") if option == "memory" else None
    held = limit or yaml_text.child(launch.node, _SERVICE.get(option, option.replace("-", "_")))
    if held is not None:
        return set_scalar(launch.text, launch.node, held, value)
    return new_key(launch.text, launch.node, _SERVICE.get(option, option.replace("-", "_")), [], value)


def within(holder: yaml.Node, node: yaml.Node) -> bool:
    """Whether a node stands where it is used; an alias stands elsewhere and may be shared."""
    return holder.start_mark.index <= node.start_mark.index < holder.end_mark.index


def set_scalar(text: str, holder: yaml.Node, node: yaml.Node, value: str) -> str | None:
    """A scalar replaced, its anchor kept; None for one that stands elsewhere and is shared, or is no scalar."""
    if not isinstance(node, yaml.ScalarNode) or not within(holder, node):
        return None
    return apply(text, [Edit(*yaml_text.span(text, node), value)])


def _env_list(launch: Launch, node: yaml.SequenceNode, name: str, value: str | None) -> str | None:
    text = launch.text
    for one in node.value:
        if isinstance(one, yaml.ScalarNode) and one.value.partition("=")[0] == name:
            mapped = yaml_text.scalar(text, one)
            if mapped is None or value is None or "=" not in one.value:
                return None
            inside = mapped.part(one.value.index("=") + 1, len(mapped))
            spot = (inside.spans[0][0], inside.spans[-1][1]) if len(inside) else (one.end_mark.index,) * 2
            return apply(text, [Edit(*spot, value)])
        named = yaml_text.child(one, "name")
        if isinstance(named, yaml.ScalarNode) and named.value == name:
            held = yaml_text.child(one, "value")
            if not isinstance(held, yaml.ScalarNode) or value is None:
                return None
            return apply(text, [Edit(held.start_mark.index, held.end_mark.index, f'"{value}"')])
    if value is None or node.flow_style or not node.value:
        return None
    first = node.value[0].start_mark.index
    lead = text[text.rfind("\n", 0, first) + 1 : first]
    indent = " " * lead.index("-")
    row = [f"{indent}- {name}={value}\n"]
    if launch.form == "kubernetes":
        row = [f"{indent}- name: {name}\n", f'{indent}  value: "{value}"\n']
    return insert_lines(text, last_end(node.value[-1]), "".join(row))


def _env_mapping(launch: Launch, node: yaml.MappingNode, name: str, value: str | None) -> str | None:
    text = launch.text
    for key, key_node, held in yaml_text.pairs(node):
        if key == name and within(node, key_node):
            if value is None:
                start = text.rfind("\n", 0, key_node.start_mark.index) + 1
                return _without_line(text, start) if not node.flow_style and len(node.value) > 1 else None
            return apply(text, [Edit(held.start_mark.index, held.end_mark.index, f'"{value}"')])
    if value is None or node.flow_style or not node.value:
        return None
    first = node.value[0][0].start_mark.index
    indent = " " * (first - text.rfind("\n", 0, first) - 1)
    return insert_lines(text, last_end(node.value[-1][1]), f'{indent}{name}: "{value}"\n')


def last_end(node: yaml.Node) -> int:
    """Where the last character of a node stands; a block collection's own mark lies behind it."""
    if isinstance(node, yaml.MappingNode) and node.value and not node.flow_style:
        return last_end(node.value[-1][1])
    if isinstance(node, yaml.SequenceNode) and node.value and not node.flow_style:
        return last_end(node.value[-1])
    end = node.end_mark.index
    return end - 1 if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">") else end


def insert_lines(text: str, after: int, lines: str) -> str:
    end = text.find("\n", after)
    return text + "\n" + lines.rstrip("\n") if end < 0 else text[: end + 1] + lines + text[end + 1 :]


def _without_line(text: str, start: int) -> str:
    end = text.find("\n", start)
    return text[:start] + ("" if end < 0 else text[end + 1 :])


def new_key(text: str, node: yaml.Node, key: str, rows: Sequence[str], value: str = "") -> str | None:
    """A new key behind the others of a block mapping, with its value or its rows; None for one in braces."""
    if not isinstance(node, yaml.MappingNode) or node.flow_style or not node.value:
        return None
    pad = " " * node.value[0][0].start_mark.column
    lines = [f"{pad}{key}: {value}".rstrip(), *(f"{pad}  {row}" for row in rows)]
    return insert_lines(text, last_end(node.value[-1][1]), "\n".join(lines) + "\n")


def new_item(text: str, node: yaml.Node, rows: Sequence[str]) -> str | None:
    """A new item of a block sequence, its rows in order; None for one in brackets or without items."""
    if not isinstance(node, yaml.SequenceNode) or node.flow_style or not node.value:
        return None
    pad = " " * node.start_mark.column
    lines = [f"{pad}{row}" for row in item(rows)]
    return insert_lines(text, last_end(node.value[-1]), "\n".join(lines) + "\n")


def item(rows: Sequence[str]) -> list[str]:
    """The rows of one item of a sequence, the first behind its dash."""
    return [f"{'  ' if at else '- '}{row}" for at, row in enumerate(rows)]
