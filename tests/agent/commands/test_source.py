from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from agent.cli import cli
from tests.tools.source.trees import cache, tree


@pytest.fixture(autouse=True)
def _one_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLSCOUT_CACHE", str(cache()))


def document(*arguments: str) -> dict[str, Any]:
    ran = CliRunner().invoke(cli, [*arguments, "--json"], standalone_mode=False)
    assert ran.exception is None, ran.output
    found: dict[str, Any] = json.loads(ran.stdout)
    assert found["v"] == 1
    return found


def test_flags_are_one_document() -> None:
    found = document("flags", "hicache-size", "--version", "0.5.9")
    assert found["version"] == "0.5.9"
    assert found["flags"][0] == {
        "names": ["--hicache-size"],
        "dest": "hicache_size",
        "type": "int",
        "default": 0,
        "choices": None,
        "required": False,
        "help": tree("0.5.9").catalogue().get("--hicache-size").help,
        "deprecated": None,
        "source": "srt/server_args.py:4266",
    }
    assert len(document("flags", "--version", "0.5.23")["flags"]) == 531


def test_rules_are_one_document() -> None:
    found = document("rules", "hicache-ratio", "--version", "0.5.9")
    assert {"kind", "condition", "effect", "flags", "source", "quote"} <= set(found["rules"][0])


def test_check_reads_a_command() -> None:
    command = "sglang serve --model-path m --max-num-seqs 4"
    assert document("check", command, "--version", "0.5.9")["problems"][0]["kind"] == "foreign"


def test_upgrade_is_one_document() -> None:
    found = document("upgrade", "0.5.9", "0.5.23", "--for", "sglang serve --model-path m --cuda-graph-max-bs 8")
    assert found["problems"][0]["instead"] == "--cuda-graph-max-bs-decode"
    assert len(found["added"]) > 100


def test_cached_trees_are_listed() -> None:
    tree("0.5.9")
    assert "0.5.9" in [each["version"] for each in document("source", "list")["trees"]]
