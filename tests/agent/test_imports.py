"""Help and listings stay light: the heavy libraries are imported by the commands that need them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.endpoint import SAYS_HELLO, endpoint
from tests.program import ROOT, command, environment

HEAVY = ("openai", "paramiko", "pydantic", "rich", "prompt_toolkit", "yaml")


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["sessions"], ["tasks"], ["eval", "--help"]])
def test_help_and_listings_import_nothing_heavy(tmp_path: Path, words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "agent", *words],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {name.partition(".")[0] for name in _imported(done.stderr)}
    assert loaded.isdisjoint(HEAVY)
    assert "click" in loaded


def test_a_turn_in_which_no_tool_is_called_imports_no_tool(tmp_path: Path) -> None:
    """Nor what only a person sees: one headless turn costs little more than the endpoint's package."""

    async def work() -> str:
        log = tmp_path / "server.log"
        log.write_text("[2026-02-10 03:20:00] Decode batch, #running-req: 48, #token: 9, token usage: 0.60\n")
        words = command("diagnose", "slow", "--bundle", str(log), "--model", "m", "--json")
        async with endpoint(SAYS_HELLO) as server:
            env = environment(tmp_path) | {"OPENAI_BASE_URL": server.url, "PYTHONPROFILEIMPORTTIME": "1"}
            pipe = asyncio.subprocess.PIPE
            process = await asyncio.create_subprocess_exec(*words, env=env, cwd=ROOT, stdout=pipe, stderr=pipe)
            return (await process.communicate())[1].decode()

    loaded = _imported(asyncio.run(work()))
    assert "openai" in loaded
    tools = tuple(f"tools.{name}" for name in ("advice", "capacity", "diagnosis", "host.parsers", "source"))
    assert not [name for name in loaded if name.startswith((*tools, "rich", "yaml", "prompt_toolkit", "paramiko"))]


def _imported(timed: str) -> set[str]:
    """The modules that `-X importtime` named."""
    return {line.rpartition("|")[2].strip() for line in timed.splitlines() if line.startswith("import time:")}
