"""A change set as the smallest change of the operator's own file, with what applies it and what takes it back.

Nothing here is run: the operator applies it.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tools.advice import pods, rows, values
from tools.advice.catalogue import Catalogue
from tools.advice.change import Change
from tools.advice.check import typed_as
from tools.advice.command import ENGINE_RUN, engine_run
from tools.advice.edits import remove_flag, set_flag
from tools.advice.forms import systemd
from tools.advice.launch import Form, Launch, parse_launch
from tools.advice.mapped import Edit, Word
from tools.advice.steps import steps

DROP_IN = "zz-sglscout.conf"
_REDACTED = re.compile(r"redacted|\*{3,}|‹[^›]*›|«[^»]*»", re.I)
_NODES = re.compile(r"(?:^| )--nnodes[= ](\d{1,4})(?= |$)")
_OWN_TO_A_NODE = {
    "--node-rank": "--node-rank (0 on the first, then 1, 2, …)",
    "--dist-init-addr": "--dist-init-addr (address and a free port of the first, the same on all)",
}
Op = Literal["same", "removed", "added"]


@dataclass(frozen=True, slots=True)
class Patch:
    """`text` is the new file: a drop-in, compose file, manifest, script, config or command line.

    `path` is where it goes, `diff` the merged command word by word, `unified` the file's own difference (empty for a
    drop-in, which is new). `fill_in` names options whose value was redacted and must be put back by the operator.
    `notes` are things that no file of this form can say, or that weaken the change.
    """

    form: Form
    path: str
    argv_before: tuple[str, ...]
    argv_after: tuple[str, ...]
    text: str
    diff: tuple[tuple[Op, str], ...]
    unified: str
    commands: tuple[str, ...]
    rollback: tuple[str, ...]
    fill_in: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def row(self) -> dict[str, Any]:
        """The `launch` of the diagnosis document."""
        return {
            "form": self.form,
            "path": self.path,
            "argv": list(self.argv_after),
            "argv_before": list(self.argv_before),
            "patch": self.text,
            "diff": [list(one) for one in self.diff],
            "commands": list(self.commands),
            "fill_in": list(self.fill_in),
            "notes": list(self.notes),
        }


def patch(launch: Launch, changes: Iterable[Change], *, catalogue: Catalogue | None = None) -> Patch:
    """Write checked changes into the launch command. Raises ValueError for a value that is no plain word.

    Changes of kind `upgrade`, and of `host` outside a unit, are named in `notes`.
    """
    wanted = tuple(changes)
    made = _patched(launch, wanted, catalogue)
    return replace(made, notes=(*made.notes, *_other_nodes(made)))


def _other_nodes(made: Patch) -> tuple[str, ...]:
    """What the nodes need that are not the one looked at: they run the same command, each with a rank of its own."""
    typed = [word.partition("=")[0] for word in made.argv_after]
    nodes = next((int(count) for count in _NODES.findall(" ".join(made.argv_after))), 1)
    if nodes < 2 or made.argv_after == made.argv_before:
        return ()
    others = "the other node" if nodes == 2 else f"each of the {nodes - 1} other nodes"
    said = f"The server spans {nodes} nodes: make the same change on {others}, and restart all of them together."
    missing = [what for name, what in _OWN_TO_A_NODE.items() if name not in typed]
    return (f"{said} Yours to fill in on every node: {' and '.join(missing)}." if missing else said,)


def _patched(launch: Launch, wanted: Sequence[Change], catalogue: Catalogue | None) -> Patch:
    after = launch
    for change in wanted:
        if change.kind == "flag":
            after = _reread(after, after.written(_edits(after, change, catalogue)))
    others = [change for change in wanted if change.kind != "flag"]
    if launch.form == "systemd":
        return _drop_in(launch, after, others)
    text, notes = after.text, list(launch.notes)
    for change in others:
        changed = _other(_reread(after, text), change)
        if changed is None:
            notes.append(_left_over(change))
        else:
            text = changed
    return _finish(launch, _reread(after, text), text, notes)


def _edits(launch: Launch, change: Change, catalogue: Catalogue | None) -> list[Edit]:
    info = catalogue.lookup(change.flag) if catalogue is not None else None
    spellings = typed_as(launch, info, catalogue) if info is not None and catalogue is not None else ()
    if change.do == "remove":
        return remove_flag(launch, change.flag, spellings, switch=change.from_ in (True, None))
    return set_flag(launch, change.flag, values.words(change.to), spellings)


def _reread(launch: Launch, text: str) -> Launch:
    fresh = parse_launch(launch.form, text, name=launch.name if launch.form != "docker" else "", sources=launch.sources)
    return replace(fresh, path=launch.path, name=launch.name, notes=launch.notes)


def _left_over(change: Change) -> str:
    if change.kind == "upgrade":
        return f"Install SGLang {change.to or 'of a version that has the fix'} before the next start."
    value = "" if change.to is None else f" to {change.to}"
    return f"Set {change.flag}{value} yourself: this form has no place for it."


def word_diff(before: Sequence[str], after: Sequence[str]) -> tuple[tuple[Op, str], ...]:
    """Two commands word by word."""
    found: list[tuple[Op, str]] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            found += [("same", word) for word in before[a:b]]
        else:
            found += [("removed", word) for word in before[a:b]]
            found += [("added", word) for word in after[c:d]]
    return tuple(found)


def _fill_in(launch: Launch) -> tuple[str, ...]:
    return tuple(flag.name for flag in launch.flags if _REDACTED.search(flag.value))


# systemd


def _drop_in(launch: Launch, after: Launch, others: Sequence[Change]) -> Patch:
    name = _drop_in_name(launch.text)
    path = f"/etc/systemd/system/{launch.name or 'UNIT.service'}.d/{name}"
    lines, notes = ["[Service]"], list(launch.notes)
    for change in others:
        inside = _in_container(after, change)
        if inside is not None:
            after = inside
            continue
        written = _unit_line(change)
        if written:
            lines.append(written)
        else:
            notes.append(_left_over(change))
    if after.text != launch.text:
        unit = systemd.read(after.text)
        lines += ["ExecStart=", *(f"ExecStart={_raw(after.text, setting)}" for setting in unit.exec_start)]
    text = "\n".join(lines) + "\n"
    unit_name = shlex.quote(launch.name or "UNIT.service")
    folder, quoted = shlex.quote(path.rpartition("/")[0]), shlex.quote(path)
    reload = "systemctl daemon-reload"
    end = "SGLSCOUT"
    while end in text.splitlines():  # no line of the unit may end the here-document
        end += "_"
    commands = (
        f"install -d -m 0755 {folder}",
        f"cat > {quoted} <<'{end}'\n{text}{end}",
        f"systemd-analyze verify {unit_name}",
        reload,
        f"systemctl show -p ExecStart -p Environment {unit_name}",
        f"systemctl restart {unit_name}",
    )
    rollback = (f"rm {quoted}", reload, f"systemctl reset-failed {unit_name}", f"systemctl restart {unit_name}")
    return Patch(
        "systemd",
        path,
        launch.argv,
        after.argv,
        text,
        word_diff(launch.argv, after.argv),
        "",
        commands,
        rollback,
        _fill_in(launch),
        tuple(notes),
    )


def _raw(text: str, setting: systemd.Setting) -> str:
    """A value as typed, comment lines between continuations included: systemd skips them there too."""
    return text[setting.start : setting.end].replace("\r\n", "\n")


def _in_container(launch: Launch, change: Change) -> Launch | None:
    """The unit with a change as an option of `docker run`: a variable of the unit does not reach a container."""
    run = None if launch.outer else engine_run([word.text for word in launch.words[: launch.entry]])
    if run is None or change.do == "remove" or change.kind not in ("env", "container") or change.to is None:
        return None
    if change.kind == "env":
        name, option, value = change.flag, f"-e {change.flag}=", _env_text(change)
    else:
        name = f"--{_container_option(change)}"
        option, value = f"{name}=", str(change.to)
    option += systemd.quote(value)
    for word, following in zip(launch.words[run:], launch.words[run + 1 : launch.entry + 1], strict=False):
        if word.text.startswith(f"{name}="):
            return _reread(launch, launch.written([_within_word(word, len(name) + 1, value)]))
        if word.text == name and change.kind == "container":
            return _reread(launch, launch.written([_within_word(following, 0, value)]))
    end = launch.words[run].end
    return _reread(launch, launch.written([Edit(end, end, f" {option}")]))


def _within_word(word: Word, start: int, value: str) -> Edit:
    """Replace a word from one of its characters on, inside the quotes it has."""
    spans = word.value.spans[start:]
    return Edit(spans[0][0], spans[-1][1], value) if spans else Edit(word.end, word.end, value)


def _drop_in_name(text: str) -> str:
    """A file name that sorts after every drop-in there is, since systemd reads them in that order."""
    unit = systemd.read(text)
    there = [path.rpartition("/")[2] for path in unit.paths if path.endswith(".conf")]
    name = DROP_IN
    while any(one >= name for one in there):
        name = "z" + name
        if len(name) > 64:
            name = "~" + DROP_IN
            break
    return name


def _unit_line(change: Change) -> str:
    """A setting of the unit for a change that is no option, empty where a unit has no place for it."""
    if change.kind == "env":
        if change.do == "remove":
            return f"UnsetEnvironment={change.flag}"
        return f"Environment={systemd.quote(f'{change.flag}={_env_text(change)}')}"
    key = values.UNIT_LIMITS.get(change.flag, change.flag)
    if change.kind == "host" and key in values.UNIT_KEYS:
        return f"{key}={'infinity' if change.to == 'unlimited' else change.to}"
    return ""


def _env_text(change: Change) -> str:
    return " ".join(values.words(1 if change.to is True else change.to))


# files that are edited in place


def _other(launch: Launch, change: Change) -> str | None:
    """The file with a change that is no option; None where this form has no place for it."""
    if launch.form == "quadlet":
        return _quadlet_line(launch, change)
    if change.kind == "env":
        if launch.form in ("compose", "kubernetes") and launch.node is not None:
            return rows.variable(launch, change.flag, None if change.do == "remove" else _env_text(change))
        if launch.form in ("docker", "script", "shell") and launch.node is None:
            return _shell_env(launch, change)
    if change.kind == "container" and change.to is not None:
        option = _container_option(change)
        if launch.form == "compose":
            return rows.service_key(launch, option, str(change.to))
        if launch.form == "kubernetes":
            return pods.written(launch, option, str(change.to))
        if launch.form == "docker" and launch.node is None:
            return _docker_option(launch, f"--{option}", str(change.to))
    return None


def _container_option(change: Change) -> str:
    """A setting of a container as `docker run` and podman name it, without its dashes."""
    return change.flag.removeprefix("--").replace("_", "-")


def _quadlet_line(launch: Launch, change: Change) -> str | None:
    """A further line behind `Exec=`; of a variable that is set twice the last one counts."""
    if change.kind == "env" and change.do != "remove":
        line = f"Environment={systemd.quote(f'{change.flag}={_env_text(change)}')}"
    elif change.kind == "container" and change.to is not None:
        line = f"PodmanArgs=--{_container_option(change)}={change.to}"
    else:
        return None
    return rows.insert_lines(launch.text, launch.own[-1].end, line + "\n")


def _shell_env(launch: Launch, change: Change) -> str | None:
    value = _env_text(change)
    typed = re.search(rf"(?<![\w]){re.escape(change.flag)}=(\"[^\"]*\"|'[^']*'|[^\s;&|]*)", launch.text)
    if change.do == "remove":
        if typed is None:
            return None
        before = re.search(r"(?:(?:-e|--env|export)[ \t=]+)?\Z", launch.text[: typed.start()])
        start = before.start() if before else typed.start()
        end = typed.end()
        if launch.text[end : end + 1] in (" ", "\n") and (start == 0 or launch.text[start - 1] in " \n"):
            end += 1
        return launch.text[:start] + launch.text[end:]
    if typed is not None:
        return launch.text[: typed.start(1)] + value + launch.text[typed.end(1) :]
    if launch.form == "docker":
        return _docker_option(launch, "-e", f"{change.flag}={value}")
    first = launch.text.rfind("\n", 0, launch.words[0].start) + 1
    if launch.form == "script":
        return f"{launch.text[:first]}export {change.flag}={value}\n{launch.text[first:]}" if not launch.outer else None
    return f"env {change.flag}={value} {launch.text}"


def _docker_option(launch: Launch, option: str, value: str) -> str | None:
    run = ENGINE_RUN.search(launch.text)
    if run is None:
        return None
    typed = re.compile(rf"(?<=\s){re.escape(option)}[= ](\S+)").search(launch.text, run.end())
    if typed is not None and option not in ("-e", "--ulimit"):
        return launch.text[: typed.start(1)] + value + launch.text[typed.end(1) :]
    return f"{launch.text[: run.end()]} {option} {value}{launch.text[run.end() :]}"


# What a file is called whose path is not known.
_FILES = {
    "compose": "compose.yaml",
    "kubernetes": "manifest.yaml",
    "config": "config.yaml",
    "script": "launch.sh",
    "quadlet": "sglang.container",
    "dockerfile": "Dockerfile",
}


def _finish(launch: Launch, after: Launch, text: str, notes: Sequence[str]) -> Patch:
    path = launch.path or _FILES.get(launch.form, "")
    unified = "".join(
        difflib.unified_diff(
            launch.text.splitlines(keepends=True), text.splitlines(keepends=True), f"a/{path}", f"b/{path}"
        )
    )
    commands, rollback = steps(launch, text, path)
    shown = "" if launch.form == "docker" and launch.node is not None else text
    return Patch(
        launch.form,
        path,
        launch.argv,
        after.argv,
        shown or shlex.join(after.command),
        word_diff(launch.argv, after.argv),
        unified,
        commands,
        rollback,
        _fill_in(launch),
        tuple(notes),
    )
