"""Options that cannot be followed together are refused by name: none is ignored, and nothing is begun."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.cli import cli
from transcripts.errors import UsageError

FOLDER = str(Path(__file__).parent)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["demo", "--json", "--events"], ("--json", "--events")),
        (["diagnose", "slow", "--host", "local", "--events", "--json"], ("--json", "--events")),
        (["resume", "ses_0", "--events", "--json"], ("--json", "--events")),
        (["demo", "slots", "--recorded", FOLDER], ("NAME", "--recorded")),
        (["demo", "--list", "slots"], ("--list", "NAME")),
        (["demo", "--list", "--recorded", FOLDER], ("--list", "--recorded")),
        (["demo", "--list", "--events"], ("--list", "--events")),
        (["collect", "--script", "--host", "gpu1"], ("--script", "--host")),
        (["collect", "--script", "-o", "collect.sh"], ("--script", "-o")),
        (["diagnose", "slow", "--host", "gpu1", "--bundle", FOLDER], ("--host", "--bundle")),
        (["diagnose", "slow", "--host", "gpu1", "--model", "m", "--model-from-host"], ("--model", "--model-from-host")),
        (["chat", "--demo", "slots", "--host", "gpu1"], ("--host", "--demo")),
        (["chat", "--demo", "slots", "--bundle", FOLDER], ("--bundle", "--demo")),
        (["chat", "--resume", "ses_0", "--host", "gpu1"], ("--host", "--resume")),
        (["chat", "--resume", "ses_0", "--model", "m"], ("--resume", "--model")),
        (["chat", "--resume", "ses_0", "--model-from-host"], ("--resume", "--model-from-host")),
        (["chat", "--resume", "ses_0", "--complaint", "slow"], ("--resume", "--complaint")),
        (["show", "ses_0", "--html", "page.html", "--json"], ("--html", "--json")),
        (["show", "ses_0", "--html", "page.html", "--document"], ("--html", "--document")),
        (["plan", "--bundle", FOLDER, "--gpus", "8x96"], ("--gpus", "--config")),
        (["plan", "--host", "gpu1", "--ram-gib", "100"], ("--ram-gib", "--config")),
    ],
)
def test_two_that_exclude_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], named: tuple[str, str]
) -> None:
    monkeypatch.setenv("SGLSCOUT_HOME", str(tmp_path / "home"))
    ran = CliRunner().invoke(cli, words, standalone_mode=False)
    assert isinstance(ran.exception, UsageError), ran.output
    assert all(name in ran.exception.message for name in named)
    assert (ran.stdout, (tmp_path / "home").exists()) == ("", False)


def test_a_file_given_for_a_launch_command_is_said_to_be_one(tmp_path: Path) -> None:
    file = tmp_path / "compose.yml"
    file.write_text("services: {}\n")
    with pytest.raises(UsageError, match="is a file") as caught:
        CliRunner().invoke(cli, ["check", str(file), "--version", "0.5.9"], catch_exceptions=False)
    assert f"check - < {file}" in str(caught.value.hint)


def test_the_recorded_hosts_as_one_document() -> None:
    ran = CliRunner().invoke(cli, ["demo", "--list", "--json"], standalone_mode=False)
    hosts = json.loads(ran.stdout)
    assert hosts["v"] == 1
    assert {"name": "slots", "title": hosts["hosts"][0]["title"]} in hosts["hosts"]
    assert all(host["title"] for host in hosts["hosts"])
