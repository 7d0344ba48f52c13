"""A Dockerfile: its last entry point and command are read, changed where they stand, and nothing else is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.program import sglscout
from tests.tools.advice import box
from tools.advice import patch
from tools.advice.shown import launch_in

BOTH = """# syntax=docker/dockerfile:1
FROM lmsysorg/sglang:v0.5.8 AS builder
CMD ["python3", "-m", "sglang.launch_server", "--model-path", "/old", "--tp", "2"]
FROM lmsysorg/sglang:v0.5.9
ENV NCCL_DEBUG=INFO HF_HOME="/m/hf"
ENTRYPOINT ["python3", "-m", "sglang.launch_server"]
CMD ["--model-path", "/m", "--tp", "8"]
"""
LISTED = """FROM a
CMD ["python3", "-m", "sglang.launch_server", \\
     "--model-path", "/m", \\
     "--tp", "8"]
EXPOSE 30000
"""
SHELL = "FROM a\nCMD python3 -m sglang.launch_server \\\n    --model-path /m \\\n    --tp 8\nEXPOSE 30000\n"


@pytest.mark.parametrize("text", [BOTH, LISTED, SHELL])
def test_it_is_read_changed_and_unchanged_is_the_same_bytes(text: str) -> None:
    launch = launch_in(text)
    assert launch is not None
    assert (launch.form, launch.options) == ("dockerfile", ("--model-path", "/m", "--tp", "8"))
    assert launch.written() == text
    made = patch(launch, [box.flag("set", "--tp", "4"), box.flag("set", "--page-size", 64)])
    again = launch_in(made.text)
    assert again is not None
    assert again.options == ("--model-path", "/m", "--tp", "4", "--page-size", "64")
    changed = [line for line in made.text.splitlines() if line not in text.splitlines()]
    assert 1 <= len(changed) <= 2
    assert made.path == "Dockerfile"
    assert made.commands[-1] == made.rollback[-1] == "# build the image anew, and start the container from it"


def test_what_it_sets_is_known_and_check_reads_it(tmp_path: Path) -> None:
    launch = launch_in(BOTH)
    assert launch is not None
    assert launch.environment == {"NCCL_DEBUG": "INFO", "HF_HOME": "/m/hf"}
    done = sglscout(
        tmp_path, "check", "-", "--version", "0.5.9", stdin=BOTH.replace('"8"]', '"8", "--page-size", "0"]')
    )
    assert done.exit == 3
    assert "--page-size 0" in done.out
