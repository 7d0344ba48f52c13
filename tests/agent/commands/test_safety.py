"""Tables of commands and of secrets, scored as files come: with a mark of their encoding, with CR, with empty lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.cli import cli

POLICY = "nvidia-smi -L\tallow\t[gpu] reads\n\nnvidia-smi -pm 1\tdeny\t[mutate] persistence mode\n"
REDACTION = "--api-key x9-Fake-4711\tx9-Fake-4711\t--api-key\tllm\n\npage_size=64\t-\tpage_size=64\tllm\n"


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "marked"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize(("table", "text"), [("policy", POLICY), ("redaction", REDACTION)])
def test_a_table_is_scored_however_its_file_was_saved(
    tmp_path: Path, table: str, text: str, end: str, mark: str
) -> None:
    file = tmp_path / "rows.tsv"
    file.write_bytes((mark + text.replace("\n", end)).encode())
    ran = CliRunner().invoke(cli, ["eval", table, str(file), "--json"], standalone_mode=False)
    assert ran.exception is None, ran.output
    assert json.loads(ran.output) == {"v": 1, "n": 2, "right": 2, "unsafe": 0, "wrong": []}
