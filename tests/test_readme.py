"""Every command that the README shows is run as it stands there, with the reader's own names filled in."""

from __future__ import annotations

import re
import shlex
import shutil
from functools import cache
from pathlib import Path

import pytest

from agent.cli import COMMANDS
from tests import screens
from tests.program import RECORDED, ROOT, Done, sglscout

README = (ROOT / "README.md").read_text()
FENCED = re.findall(r"^```(\w+)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
SHOWN = [
    re.split(r"\s{3,}", line)[0]
    for kind, text in FENCED
    if kind == "text"
    for line in text.splitlines()
    if line.startswith("sglscout ")
]
CASE = """\
id: one
complaint: why does it say no such option
evidence: ["launch_server.py: error: unrecognized arguments: --enable_dp_attention"]
expected: {root_cause: config.misspelled_flag}
"""


def test_the_first_two_blocks_are_the_two_commands() -> None:
    commands = [text.strip() for kind, text in FENCED if kind == "sh"]
    assert len(commands) == 2
    assert all("\n" not in command for command in commands)
    assert commands[0].endswith('sglscout" demo)')
    assert commands[1].endswith("-m pytest")


def test_every_command_is_known_and_every_exit_code_is_told() -> None:
    assert {command.split()[1] for command in SHOWN} <= {*COMMANDS, "eval"}
    assert {"0", "1", "2", "3", "4", "5", "6", "130"} <= set(re.findall(r"^\| (\d+) \|", README, re.MULTILINE))


def test_what_it_leans_on_is_what_it_declares() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {re.split(r"[<>=]", name)[0] for name in project["dependencies"]}
    table = README.partition("## What it leans on")[2].partition("##")[0]
    named = {name for row in re.findall(r"^\| ([a-zA-Z0-9_, -]+) \|", table, re.MULTILINE) for name in row.split(", ")}
    assert declared == named - {"package"}


def test_the_sample_is_what_the_demo_prints(tmp_path: Path) -> None:
    name, sample = re.findall(r"^<!-- demo: (\w+) -->\n```text\n(.*?)^```", README, re.MULTILINE | re.DOTALL)[0]
    *lines, cut = sample.splitlines()
    assert cut == "…"
    out = screens.without_ids(sglscout(tmp_path, "demo", name).out).strip("\n").splitlines()
    assert lines == out[: len(lines)], "README.md shows another first screen than the demo prints; take it over"


def test_the_picture_of_a_session_shows_what_the_demo_prints(tmp_path: Path) -> None:
    wanted = screens.printed(sglscout(tmp_path, "demo", screens.NAME).out)
    shown = screens.shown(screens.PICTURE.read_text(encoding="utf-8"))
    assert shown == wanted, "the picture is old; `python -m tests.screens` draws it anew"
    assert all((ROOT / name).is_file() for name in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README))


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["flags", "nosuchflagx", "--version", "0.5.9"], 3),
        (["check", "python -m sglang.launch_server --model-path m --nope 1", "--version", "0.5.9"], 3),
        (["policy", "nvidia-smi -pm 1"], 0),
        (["flags", "hicache", "--version", "0.5.999"], 3),
        (["collect", "--host", "nobody@127.0.0.1:9", "-o", "case.tar.gz"], 4),
        (["trust", "no-such-host.invalid"], 4),
    ],
)
def test_offline_commands_end_as_the_table_says(place: Path, words: list[str], code: int) -> None:
    done = sglscout(place / "home", *words)
    assert done.exit == code, done.err
    assert "Traceback" not in done.err


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    shutil.copy(RECORDED / "slots/root/models/Kimi-K2.5/config.json", folder / "config.json")
    (folder / "crash.log").write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
    (folder / "cases").mkdir()
    (folder / "cases/one.yaml").write_text(CASE)
    return folder


@cache
def _session(home: Path) -> str:
    return sglscout(home, "demo").err.split()[1]


def _filled(command: str, place: Path) -> list[str]:
    home = place / "home"
    text = (
        command.replace("root@gpu1", "local")
        .replace("crash.log", str(place / "crash.log"))
        .replace("config.json", str(place / "config.json"))
        .replace("incident.html", str(place / "incident.html"))
        .replace("LAUNCH COMMAND", "python -m sglang.launch_server --model-path m --tp 8")
        .replace(" DIR", f" {place / 'cases'}")
    )
    words = shlex.split(text.partition(" < ")[0])[1:]
    return [_session(home) if word == "ses_…" else word for word in words]


@pytest.mark.parametrize("command", SHOWN)
def test_it_runs(command: str, place: Path) -> None:
    done: Done = sglscout(place / "home", *_filled(command, place), stdin="/help\n/quit\n", timeout=400)
    assert done.exit in (0, 3), done.err
    assert "Traceback" not in done.err
    assert done.out or done.err
