"""The recorded grep answers as the real one does: text and exit code."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.needs import needs
from tools.host.recorded.files import Files
from tools.host.recorded.grep_program import grep

TEN = "".join(f"[TP{n % 2}] Decode batch. #running-req: {n}\n" for n in range(10)) + "Prefill batch. usage (0.5)\n"


@pytest.mark.parametrize(
    "options",
    [
        "-c Decode",
        "-c Nothing",
        "-n -i prefill",
        "-o #running-req:.[0-9]*",
        "-v Decode",
        "-m 3 TP1",
        "-cv batch",
        "-F (0.5)",
        "-E TP(0|1)] -c",
        "-n -A1 -B1 req:.[37]$",
        "-w batch -c",
        "-x Decode",
        "-q Decode",
        "-q Nothing",
        "-l Decode",
    ],
)
def test_as_the_real_one(options: str, tmp_path: Path) -> None:
    real = needs("grep", "grep")
    files = Files(tmp_path, datetime.now(UTC), {})
    said = subprocess.run([real, *options.split()], input=TEN, capture_output=True, text=True, check=False, timeout=20)
    assert grep(files, ["grep", *options.split()], TEN)[:2] == (said.returncode, said.stdout)
