"""The launch command in what a host showed or somebody pasted: which form it is in, which of several counts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tools.advice.command import ENGINE_RUN
from tools.advice.errors import LaunchUnreadable
from tools.advice.forms import dockerfile
from tools.advice.launch import Form, Launch, parse_launch
from tools.advice.pasted import printed, typed
from tools.entry_point import USAGE
from tools.json_text import is_json
from transcripts.facts import Evidence, Facts

_MODEL_KEY = re.compile(r"^model[-_]path[ \t]*:", re.M)
_MODEL = re.compile(r"""(?<![^\s"'\[,])--(?:model|tp|mem-fraction)""")
_TYPED: Final = ("docker", "script", "shell")
_ELSEWHERE: Final = re.compile(r"[\"']?\$[\w{@*]")
_LONGEST = 200_000  # characters; longer text is a log, whose starts are read line by line

# Probe -> the form its text is read in, in the order in which they are preferred: a file an operator edits first.
_PROBES: tuple[tuple[str, Form], ...] = (
    ("unit_files", "systemd"),
    ("inspect", "docker"),
    ("compose", "compose"),
    ("manifest", "kubernetes"),
    ("script", "script"),
    ("process", "shell"),
)


def launch_from(evidence: Iterable[Evidence], facts: Facts | None = None) -> Launch | None:
    """The launch command of what a host showed: its unit, else a container's, else the process; None without any."""
    taken = tuple(evidence)
    for probe, form in _PROBES:
        for item in reversed(taken):
            if item.probe == probe and item.text.strip() and not item.problem:
                name = facts.text("unit_name") if facts is not None and form == "systemd" else ""
                launch = _try(form, item.text, name, (item.id,))
                if launch is not None:
                    return launch
    for item in reversed(taken):
        if item.probe in ("command", "pasted") and len(item.text) <= _LONGEST:
            launch = launch_in(item.text, (item.id,))
            if launch is not None:
                return launch
    argv = facts.get("launch_argv") if facts is not None else None
    return _try("shell", str(argv.value), "", (argv.source.partition(":")[0],)) if argv is not None else None


# What argparse prints of itself: the usage, and the error under the program's name.
_ARGPARSE: Final = re.compile(rf"{USAGE}\n?|^\S+: error: [^\n]*\n?", re.MULTILINE)


def launch_in(text: str, sources: tuple[str, ...] = ()) -> Launch | None:
    """The launch command in text of a form that nobody named: a unit, a compose file, a manifest, a script, a line."""
    text = _ARGPARSE.sub("", text)
    forms: list[Form] = [_form_of(text)]
    if forms[0] in _TYPED and (printed(text) or not text.startswith("#!")):
        found = _typed(text, sources)
        if found is not None:
            return found
    if _MODEL_KEY.search(text):
        forms.insert(0, "config")
    if _MODEL.search(text):
        forms.append("kubernetes")  # YAML or JSON of another kind with a list of options in it
    tried = (_try(form, text, "", sources) for form in dict.fromkeys(forms))
    return next((launch for launch in tried if launch is not None), None)


def _typed(text: str, sources: tuple[str, ...]) -> Launch | None:
    """One command that stands whole in its own line: it has options, and no word of it is set elsewhere in a script."""
    found = [_try(_form_of(line), line, "", sources) for line in typed(text)]
    read = [launch for launch in found if launch is not None and launch.flags]
    whole = [launch for launch in read if not any(map(_ELSEWHERE.match, launch.options))]
    return next(iter(whole or (read if printed(text) else ())), None)


def _form_of(text: str) -> Form:
    if re.search(r"^\[Container\]", text, re.M):
        return "quadlet"
    if re.search(r"^ExecStart=", text, re.M):
        return "systemd"
    if text.lstrip().startswith(("[{", "[\n", "{")) and is_json(text):
        return "docker"
    if dockerfile.holds(text):
        return "dockerfile"
    if re.search(r"^services:", text, re.M):
        return "compose"
    if re.search(r"^\s*kind:", text, re.M) and "containers:" in text:
        return "kubernetes"
    if ENGINE_RUN.search(text):
        return "docker"
    return "script" if text.startswith("#!") else "shell"


def _try(form: Form, text: str, name: str, sources: tuple[str, ...]) -> Launch | None:
    try:
        return parse_launch(form, text, name=name, sources=sources)
    except LaunchUnreadable:
        return None
