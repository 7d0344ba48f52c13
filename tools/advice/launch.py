"""The launch command, wherever it lives: read with the place of every word, so that it can be written back.

`parse_launch` reads one file of a known form; `shown.py` picks the form from what a host showed or somebody pasted.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

import yaml

from tools.advice.command import Flag, Server, find, find_in
from tools.advice.errors import LaunchUnreadable
from tools.advice.forms import dockerfile, manifest, shell, systemd, yaml_text
from tools.advice.mapped import Edit, Mapped, Word, apply
from tools.entry_point import process_words

Form = Literal["systemd", "quadlet", "docker", "compose", "kubernetes", "dockerfile", "script", "shell", "config"]


@dataclass(frozen=True, slots=True)
class Launch:
    """A server command in its file.

    `argv` is everything that is run, `wrapper` its words before the server's program (`numactl …`, `bash -lc`,
    `uv run`, `docker run … IMAGE`), `command` the rest; `own` are the words of the command line before variables were
    looked up. `name` is the unit, service or container, `path` the file if it is known, `sources` are evidence ids.
    `environment` holds what the same file sets, `node` the YAML service, container or `--config` mapping.
    """

    form: Form
    text: str
    words: tuple[Word, ...]
    start: int
    entry: int
    outer: tuple[str, ...]
    flags: tuple[Flag, ...]
    own: tuple[Word, ...]
    name: str = ""
    path: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    node: yaml.Node | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        """Every word that is run; of a `--config` file, its options."""
        return (*self.wrapper, *self.command)

    @property
    def wrapper(self) -> tuple[str, ...]:
        """The words before the server's program."""
        return (*self.outer, *(word.text for word in self.words[: self.start]))

    @property
    def command(self) -> tuple[str, ...]:
        """The server's own command: program, entry point and options."""
        if self.form == "config":
            return tuple(word for flag in self.flags for word in (flag.name, *flag.values))
        return tuple(word.text for word in self.words[self.start :])

    @property
    def options(self) -> tuple[str, ...]:
        """What follows the entry point."""
        if self.form == "config":
            return self.command
        return tuple(word.text for word in self.words[self.entry :])

    def flag(self, *spellings: str) -> Flag | None:
        """The option as typed under any of its spellings; the last one typed counts."""
        found = [flag for flag in self.flags if flag.name in spellings]
        return found[-1] if found else None

    def written(self, edits: Iterable[Edit] = ()) -> str:
        """The file with edits made, every other byte kept."""
        return apply(self.text, edits)


def parse_launch(
    form: Form,
    text: str,
    *,
    name: str = "",
    path: str = "",
    files: Mapping[str, str] | None = None,
    sources: tuple[str, ...] = (),
) -> Launch:
    """Read a launch command. `text` is the file, or for `systemd` what `systemctl cat` printed.

    `name` chooses a compose service or a container where there are several; `files` are EnvironmentFiles by path.
    Raises LaunchUnreadable.
    """
    match form:
        case "systemd":
            return _systemd(text, name, files or {}, sources)
        case "quadlet":
            return _quadlet(text, name, path, sources)
        case "compose":
            return _compose(text, name, path, sources)
        case "kubernetes":
            return _kubernetes(text, name, path, sources)
        case "config":
            return _config(text, path, sources)
        case "dockerfile":
            server = find(dockerfile.command(text), bare_options=True)
            environment = dockerfile.environment(text)
            return _of(server, form, text, name=name, path=path, environment=environment, sources=sources)
        case "docker":
            return _docker(text, name, path, sources)
        case "script" | "shell":
            return _shell(form, text, name, path, sources)


def _of(
    server: Server | None,
    form: Form,
    text: str,
    *,
    name: str = "",
    path: str = "",
    environment: Mapping[str, str] | None = None,
    sources: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
    node: yaml.Node | None = None,
) -> Launch:
    if server is None:
        raise LaunchUnreadable(
            f"no command in this {form} text starts SGLang.",
            "Pass the file with `python -m sglang.launch_server …` or `sglang serve …` in it.",
        )
    return Launch(
        form,
        text,
        server.words,
        server.start,
        server.entry,
        server.outer,
        server.flags,
        server.own,
        name,
        path,
        environment or {},
        sources,
        notes,
        node,
    )


def _shell(form: Form, text: str, name: str, path: str, sources: tuple[str, ...]) -> Launch:
    words = process_words(text)
    if words is not None:
        text = shlex.join(words)
    commands = shell.read(Mapped.of(text))
    environment = {key: " ".join(word.text for word in words) for key, words in commands.variables.items()}
    return _of(find_in(commands), form, text, name=name, path=path, environment=environment, sources=sources)


def _docker(text: str, name: str, path: str, sources: tuple[str, ...]) -> Launch:
    """A `docker run` line, or what `docker inspect` printed."""
    if not text.lstrip().startswith(("[", "{")):
        launch = _shell("docker", text, name, path, sources)
        found = re.search(r"--name[= ](\S+)", text)
        return _renamed(launch, name or (found[1].strip("'\"") if found else ""))
    root = yaml_text.documents(text)[0]
    nodes = root.value if isinstance(root, yaml.SequenceNode) else [root]
    for node in nodes:
        called = yaml_text.text_of(yaml_text.child(node, "Name")).lstrip("/")
        words = _inspect_words(text, node)
        server = find(words, bare_options=True) if words and name in ("", called) else None
        if server is not None:
            environment = dict(_pair(one.value) for one in _scalars(yaml_text.child(node, "Config", "Env")))
            return _of(server, "docker", text, name=called, environment=environment, sources=sources, node=node)
    return _of(None, "docker", text)


def _inspect_words(text: str, node: yaml.Node) -> list[Word]:
    words: list[Word] = []
    path = yaml_text.child(node, "Path")
    if isinstance(path, yaml.ScalarNode) and (value := yaml_text.scalar(text, path)) is not None:
        words.append(Word(value, path.start_mark.index, path.end_mark.index))
    arguments = yaml_text.child(node, "Args")
    if isinstance(arguments, yaml.SequenceNode):
        words += yaml_text.items(text, arguments)
    return words


def _renamed(launch: Launch, name: str) -> Launch:
    return replace(launch, name=name)


def _systemd(text: str, name: str, files: Mapping[str, str], sources: tuple[str, ...]) -> Launch:
    unit = systemd.read(text)
    environment: dict[str, str] = {}
    for setting in unit.environment:
        environment.update(_pair(word.text) for word in systemd.words(setting.value))
    notes = []
    for file in unit.environment_files:
        if file in files:
            environment.update(_environment_file(files[file]))
        else:
            notes.append(f"{file} was not read; what it sets wins over Environment=")
    called = name or _unit_name(unit.paths)
    for setting in reversed(unit.exec_start):
        for words in systemd.command_words(setting):
            server = find(words)
            if server is not None:
                notes += _variables(server, environment)
                return _of(
                    server,
                    "systemd",
                    text,
                    name=called,
                    path=setting.path,
                    environment=environment,
                    sources=sources,
                    notes=tuple(notes),
                )
    return _of(None, "systemd", text)


def _quadlet(text: str, name: str, path: str, sources: tuple[str, ...]) -> Launch:
    """A `.container` file of podman: the last `Exec=` counts, behind the entry point that the file or the image has."""
    paths: list[str] = []
    settings = [one for one in systemd.settings(text, paths) if one.section == "Container"]
    environment: dict[str, str] = {}
    for setting in settings:
        if setting.key == "Environment":
            environment.update(_pair(word.text) for word in systemd.words(setting.value))
    entry = [one.value.text for one in settings if one.key == "Entrypoint"][-1:]
    runs = [one for one in settings if one.key == "Exec" and one.value.text.strip()][-1:]
    server = find(systemd.words(runs[0].value), bare_options=True) if runs else None
    if server is not None and entry:
        server = replace(server, outer=(*_entry_words(entry[0]), *server.outer))
    file = path or next((one for one in paths if one.endswith(".container")), "")
    called = name or file.rpartition("/")[2].removesuffix(".container")
    return _of(server, "quadlet", text, name=called, path=file, environment=environment, sources=sources)


def _entry_words(text: str) -> list[str]:
    try:
        return [str(word) for word in json.loads(text)] if text.startswith("[") else shlex.split(text)
    except ValueError:
        return [text]


def _variables(server: Server, environment: Mapping[str, str]) -> list[str]:
    """Notes on options that come from variables: what is appended after them wins, as argparse takes the last.

    `${NAME}` is one word always, so behind an option it is that option's value and adds none; so is
    a value without a dash.
    """
    notes = []
    words = [word.text for word in server.words[max(0, server.entry - 1) :]]
    for before, word in pairwise(words):
        named = re.fullmatch(r"\$(\{?)([A-Za-z_]\w*)\}?", word)
        if named is None:
            continue
        value = environment.get(named[2])
        one = named[1] if value is None else not value.startswith("-")
        if not (one and before.startswith("-") and "=" not in before):
            notes.append(f"{word} adds options: {value}" if value else f"{word} may add options not seen here")
    return notes


def _environment_file(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in re.sub(r"\\\r?\n", "", text).splitlines():
        stripped = line.strip()
        key, sign, value = stripped.partition("=")
        if sign and not stripped.startswith(("#", ";")):
            try:
                words = shlex.split(value)
            except ValueError:
                words = [value]
            found[key.strip()] = words[0] if len(words) == 1 else value.strip()
    return found


def _unit_name(paths: list[str]) -> str:
    for path in paths:
        if path.endswith(".service"):
            return path.rsplit("/", 1)[-1]
    for path in paths:
        folder = path.rsplit("/", 2)[-2] if path.count("/") > 1 else ""
        if folder.endswith(".service.d"):
            return folder.removesuffix(".d")
    return ""


def _compose(text: str, name: str, path: str, sources: tuple[str, ...]) -> Launch:
    for root in yaml_text.documents(text):
        for called, _, service in yaml_text.pairs(yaml_text.child(root, "services")):
            if name not in ("", called):
                continue
            words = [*manifest.command(text, service, "entrypoint"), *manifest.command(text, service, "command")]
            server = find(words, bare_options=True) if words else None
            if server is not None:
                environment = _compose_environment(yaml_text.child(service, "environment"))
                return _of(
                    server,
                    "compose",
                    text,
                    name=called,
                    path=path,
                    environment=environment,
                    sources=sources,
                    node=service,
                )
    return _of(None, "compose", text)


def _compose_environment(node: yaml.Node | None) -> dict[str, str]:
    if isinstance(node, yaml.SequenceNode):
        return dict(_pair(one.value) for one in _scalars(node))
    return {key: yaml_text.text_of(value) for key, _, value in yaml_text.pairs(node)}


def _kubernetes(text: str, name: str, path: str, sources: tuple[str, ...]) -> Launch:
    for found in manifest.commands(text):
        server = find(found.words, bare_options=True) if name in ("", found.called, found.owner) else None
        if server is not None:
            rows = yaml_text.child(found.node, "env")
            environment = {
                yaml_text.text_of(yaml_text.child(row, "name")): yaml_text.text_of(yaml_text.child(row, "value"))
                for row in (rows.value if isinstance(rows, yaml.SequenceNode) else ())
            }
            return _of(
                server,
                "kubernetes",
                text,
                name=found.owner or found.called,
                path=path,
                environment=environment,
                sources=sources,
                node=found.node,
            )
    return _of(None, "kubernetes", text)


def _config(text: str, path: str, sources: tuple[str, ...]) -> Launch:
    roots = yaml_text.documents(text)
    if not roots or not isinstance(roots[0], yaml.MappingNode):
        raise LaunchUnreadable("a --config file is a mapping of options.", "Pass the file that --config names.")
    flags: list[Flag] = []
    words: list[Word] = []
    for key, key_node, value in yaml_text.pairs(roots[0]):
        place = yaml_text.span(text, key_node)
        name = Word(Mapped.of(text, *place), *place)
        stands = yaml_text.alias(text, value, key_node.end_mark.index)
        values = _config_values(text, value) if stands is None else (stands,)
        if values is None:
            continue  # `false` leaves an option out
        taken = (name, *values)
        words += taken
        flags.append(Flag(f"--{key.replace('_', '-')}", tuple(word.text for word in values), False, taken))
    if not flags:
        raise LaunchUnreadable("this --config file sets no option.", "Pass the file that --config names.")
    return Launch("config", text, tuple(words), 0, 0, (), tuple(flags), (), path=path, sources=sources, node=roots[0])


def _config_values(text: str, node: yaml.Node) -> tuple[Word, ...] | None:
    if isinstance(node, yaml.SequenceNode):
        return tuple(yaml_text.items(text, node))
    if not isinstance(node, yaml.ScalarNode):
        value = Mapped.of(text, *yaml_text.span(text, node))
        return (Word(value, *yaml_text.span(text, node)),)
    if node.tag.endswith(":bool"):
        return () if node.value.lower() in ("true", "yes", "on") else None
    mapped = yaml_text.scalar(text, node)
    place = yaml_text.span(text, node)
    return (Word(mapped if mapped is not None else Mapped.of(text, *place), *place),)


def _scalars(node: yaml.Node | None) -> list[yaml.ScalarNode]:
    return (
        [one for one in node.value if isinstance(one, yaml.ScalarNode)] if isinstance(node, yaml.SequenceNode) else []
    )


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value
