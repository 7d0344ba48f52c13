"""A host whose SGLang carries a local patch: the patched line is what gets cited, and the difference is reported."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.settings import load_settings
from tests.program import sglscout
from tools.source import obtain

PATCH = "self.max_running_requests = 48"


@pytest.fixture
def patched(tmp_path: Path) -> Iterator[Path]:
    """A stand-in for a server that runs from a patched tree, for as long as the test needs it."""
    release = asyncio.run(obtain("0.5.9", cache=load_settings().cache))
    tree = tmp_path / "checkout" / "sglang"
    shutil.copytree(release.root, tree)
    args = tree / "srt" / "server_args.py"
    args.chmod(0o644)
    args.write_text(args.read_text().replace(PATCH, f"{PATCH}  # ours: agreed on in the team", 1))
    words = [sys.executable, "-c", "import time; time.sleep(300)", "-m", "sglang.launch_server", "--model-path", "m"]
    process = subprocess.Popen(
        [*words, "--speculative-algorithm", "EAGLE3"], env=os.environ | {"PYTHONPATH": str(tree.parent)}
    )
    yield tree
    process.kill()
    process.wait()


def test_the_tree_that_runs_is_the_one_that_is_read(tmp_path: Path, patched: Path) -> None:
    home = tmp_path / "home"
    done = sglscout(home, "diagnose", "too few requests run, what can host RAM do?", "--host", "local", "--json")
    made: dict[str, Any] = done.document
    assert made["target"]["version"] == "0.5.9"
    assert made["target"]["source"].startswith("host 0.5.9")
    assert made["target"]["source_differs"] == ["changed srt/server_args.py"]
    quotes = [citation["quote"] for citation in made["citations"] if citation["path"] == "srt/server_args.py"]
    assert any("agreed on in the team" in quote for quote in quotes)
    assert all(citation["checked"] for citation in made["citations"])
    again = sglscout(home, "resume", made["id"], "does --hicache-ratio exist?", "--json")
    assert again.exit in (0, 3), again.err


def test_a_command_is_checked_against_the_tree_that_the_host_runs(tmp_path: Path, patched: Path) -> None:
    args = patched / "srt" / "server_args.py"
    moved = args.read_text().replace(f"{PATCH}  #", "self.max_running_requests = 56  #", 1)
    args.write_text(moved)
    done = sglscout(tmp_path / "home", "check", "--host", "local", "--json")
    assert done.exit == 0, done.err
    assert done.document["source"] == "host"
    assert done.document["source_differs"] == ["changed srt/server_args.py"]
    assert "--speculative-algorithm EAGLE3" in done.document["command"]
    set_there = [each for each in done.document["problems"] if each["flag"] == "--max-running-requests"]
    assert "max_running_requests = 56" in set_there[0]["message"]
    given = sglscout(
        tmp_path / "home", "check", "sglang serve --model-path m --nonsense 1", "--host", "local", "--json"
    )
    assert given.exit == 3
    assert given.document["problems"][0]["flag"] == "--nonsense"
    assert given.document["source"] == "host"


def test_a_server_from_a_folder_of_its_own_whose_output_is_piped_away(tmp_path: Path) -> None:
    tree = tmp_path / "checkout" / "sglang"
    tree.mkdir(parents=True)
    (tree / "launch_server.py").write_text("")
    (tree / "version.py").write_text('__version__ = "0.4.6"\n')
    words = [sys.executable, "-c", "import time; time.sleep(300)", "-m", "sglang.launch_server", "--model-path", "m"]
    process = subprocess.Popen(words, cwd=tree.parent, stdout=subprocess.PIPE)
    try:
        done = sglscout(tmp_path / "home", "diagnose", "too few requests run", "--host", "local", "--json")
    finally:
        process.kill()
        process.communicate()
    assert done.document["target"]["version"] == "0.4.6"
    assert "another program takes it" in json.dumps(done.document)
