"""Bad input gets one clear line with what to do next and the exit code of the README, never a traceback."""

from __future__ import annotations

import getpass
import os
import re
from pathlib import Path

import pytest
import yaml

from agent.settings import load_home
from tests.agent.test_demo import _altered
from tests.program import Done, sglscout
from tests.sshd import free_port, sshd
from transcripts.errors import UsageError

ME = getpass.getuser()


def _one_line(done: Done, code: int, *words: str) -> None:
    lines = [line for line in done.err.splitlines() if line.startswith("sglscout: ")]
    assert done.exit == code, done.err
    assert len(lines) == 1, done.err
    assert "Traceback" not in done.err + done.out
    for word in words:
        assert word in lines[0]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["diagnose", "slow"], 2, "no host is given"),
        (["chat"], 2, "--bundle PATH, --demo NAME (such as slots), --resume ID"),
        (["diagnose", "slow", "--host", "a b"], 2, "is no host"),
        (["diagnose", " ", "--host", "local"], 2, "complaint is empty"),
        (["diagnose", "slow", "--host", "root@no-such-host.invalid"], 4, "no address"),
        (["diagnose", "slow", "--host", "root@no-such-host.invalid", "--host", "local"], 4, "no-such-host.invalid"),
        (["resume", "ses_0123456789ABCDEF"], 2, "no session or task has the id"),
        (["resume", "../etc/passwd"], 2, "no session or task"),
        (["show", "x"], 2, "no session or task"),
        (["show", "x" * 300], 2, "no session or task"),
        (["resume", "ses_" + "A" * 5000], 2, "no session or task"),
        (["writeup", "a\n\u202eb"], 2, "u202e"),
        (["writeup", "ses_0123456789ABCDEF"], 2, "no session or task"),
        (["demo", "nowhere"], 2, "There are: slots"),
        (["collect"], 2, "needs --host"),
        (["rules", "tp", "--source", "x" * 300], 2, "too long"),
        (["upgrade", "0.5.9", "0.5.16", "--for", "x" * 300], 2, "too long"),
        (["diagnose", "slow", "--host", "local", "--model", "gpt"], 2, "needs an endpoint"),
    ],
)
def test_words_that_cannot_work(tmp_path: Path, words: list[str], code: int, said: str) -> None:
    _one_line(sglscout(tmp_path, *words), code, said)


@pytest.mark.parametrize("words", [["nonsense"], ["diagnose"], ["demo", "--nonsense"]])
def test_wrong_usage_is_exit_2(tmp_path: Path, words: list[str]) -> None:
    done = sglscout(tmp_path, *words)
    assert done.exit == 2
    assert "Traceback" not in done.err


def test_refused_login_unknown_and_wrong_key(tmp_path: Path) -> None:
    refused = sglscout(tmp_path / "home", "diagnose", "slow", "--host", f"{ME}@127.0.0.1:{free_port()}")
    _one_line(refused, 4, "refused the connection")
    assert "looked" not in refused.err  # the operator's own words are no look at the host
    with sshd(tmp_path / "sshd") as server:
        unknown = sglscout(tmp_path / "home", "diagnose", "slow", "--host", f"{ME}@127.0.0.1:{server.port}")
        _one_line(unknown, 4, "SHA256:", f"sglscout trust 127.0.0.1:{server.port}")


def test_a_host_without_sglang_is_said_to_be_one(tmp_path: Path) -> None:
    done = sglscout(tmp_path / "home", "diagnose", "slow", "--host", "local", "--json")
    assert done.exit == 3
    diagnosis = done.document["diagnosis"]
    assert diagnosis["kind"] == "abstain"
    assert done.document["target"]["found"] is False
    assert done.document["hypotheses"] == []
    assert done.document["tasks"] == []  # there is nothing to research
    assert "Traceback" not in done.err
    said = sglscout(
        tmp_path / "home", "diagnose", "low on parallel requests, 396 GB free, is it OOM?", "--host", "local"
    )
    assert said.exit == 3
    assert "Answer    No SGLang found on local." in said.out.splitlines()[:4]
    assert "lead" not in said.out
    assert "--bundle FILE" in said.out


@pytest.mark.parametrize("content", [b"\x1f\x8bnot really gzip", b"", bytes(range(256)) * 8])
def test_an_unreadable_bundle_is_refused_before_a_session_is_made_of_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bundle").write_bytes(content)
    done = sglscout(tmp_path / "home", "diagnose", "slow", "--bundle", str(tmp_path / "bundle"))
    _one_line(done, 2, "unreadable bundle")
    assert not (tmp_path / "home" / "transcripts").exists()


def test_a_device_is_no_bundle(tmp_path: Path) -> None:
    _one_line(
        sglscout(tmp_path / "home", "diagnose", "slow", "--bundle", "/dev/zero"), 2, "unreadable bundle", "device"
    )


def test_what_is_done_with_a_long_log_is_told(tmp_path: Path) -> None:
    line = "[2026-01-10 03:00:01 TP0] Decode batch, #running-req: 31, #token: 1184, token usage: 0.93, #queue-req: 7\n"
    (tmp_path / "long.log").write_text(line * 60_000)
    done = sglscout(tmp_path / "home", "diagnose", "slow", "--bundle", str(tmp_path / "long.log"), "--json")
    assert done.document["evidence"]
    for what in ("redacting", "reading"):
        assert re.search(rf"^{what} 6.\d MB$", done.err, re.MULTILINE)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    _one_line(sglscout(tmp_path / "file", "demo"), 2, "cannot be written", "SGLSCOUT_HOME")


def test_an_altered_recording_that_makes_no_sense_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = sglscout(tmp_path / "home", "demo", "--recorded", str(tmp_path / "empty"))
    _one_line(done, 2, "host.yaml")


def test_no_source_to_be_had_still_answers_what_the_evidence_says(tmp_path: Path) -> None:
    copy = _altered(tmp_path, "slots", {"server.version": "0.5.9.post77"})
    done = sglscout(tmp_path / "home", "demo", "--recorded", str(copy), "--json", timeout=300)
    made = done.document
    assert made["diagnosis"]["label"] == "capacity.spec_default_cap"
    assert made["changes"] == []
    assert "options of the deployed version" in " ".join(row["reason"] for row in made["refused"])
    assert {task["status"] for task in made["tasks"]} == {"failed"}


def test_a_session_in_use_is_refused_by_process(tmp_path: Path) -> None:
    done = sglscout(tmp_path, "demo", "story")
    identity = done.err.split()[1]
    from transcripts.store import Store

    with Store(tmp_path).open(identity):
        _one_line(sglscout(tmp_path, "resume", identity, "why?"), 2, f"in use by process {os.getpid()}")


def test_no_nvidia_smi_and_an_empty_journal_lose_only_their_own_probes(tmp_path: Path) -> None:
    copy = _altered(tmp_path, "slots", {})
    figures = yaml.safe_load((copy / "host.yaml").read_text())
    del figures["gpus"]
    del figures["load"]
    (copy / "host.yaml").write_text(yaml.safe_dump(figures))
    done = sglscout(tmp_path / "home", "demo", "--recorded", str(copy), "--json")
    assert done.exit in (0, 2, 3)
    assert "Traceback" not in done.err


def test_a_version_that_the_operator_gives_is_not_asked_for(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    line = "Decode batch, #running-req: 48, #token: 95000, token usage: 0.60, #queue-req: 17\n"
    log.write_text(line * 3)
    words = ("diagnose", "few requests run", "--bundle", str(log), "--json")
    given = sglscout(tmp_path / "a", *words, "--sglang-version", "0.5.9").document
    assert (given["target"]["version"], given["target"]["version_from"]) == ("0.5.9", "operator")
    assert "SGLang's version." not in given["diagnosis"]["not_checked"]
    unknown = sglscout(tmp_path / "b", *words).document
    assert unknown["target"]["version"] == ""
    assert "SGLang's version." in unknown["diagnosis"]["not_checked"]


def test_a_config_nested_without_end_is_no_bug_and_a_port_is_a_port(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text("[" * 100_000)
    _one_line(sglscout(tmp_path, "plan", "--config", str(config), "--gpus", "8x80"), 2, "cannot be read as JSON")
    assert sglscout(tmp_path, "policy", "ls", "--port", "65536").exit == 2


@pytest.mark.parametrize(
    "config", [b"\xff", b"max_cost = inf\nprice_in = 1\n", b"max_cost = " + b"9" * 5000, b"[" * 100_000]
)
def test_a_configuration_that_is_none_is_named(tmp_path: Path, config: bytes) -> None:
    (tmp_path / "config.toml").write_bytes(config)
    _one_line(sglscout(tmp_path, "doctor"), 2, "config.toml")


def test_a_configuration_that_is_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    _one_line(sglscout(tmp_path, "doctor"), 2, "config.toml cannot be read: Is a directory")


def test_what_memory_is_cannot_be_planned_from_nothing(tmp_path: Path) -> None:
    (tmp_path / "nothing.log").write_text("hello\n")
    done = sglscout(tmp_path / "home", "plan", "--bundle", str(tmp_path / "nothing.log"))
    assert (done.exit, done.err) == (3, "")
    assert "not known: the model's shape" in done.out


def test_a_home_of_nobody_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLSCOUT_HOME", "~nobody-here/x")
    with pytest.raises(UsageError, match="SGLSCOUT_HOME: there is no home folder '~nobody-here'"):
        load_home()
