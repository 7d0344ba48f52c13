"""After a change: another look at the same host, row by row, with the figures of the day the advice was given."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from tests.agent.test_demo import _altered
from tests.program import sglscout

UNIT = "root/etc/systemd/system/sglang-kimi.service"


def _restarted_with(copy: Path, flags: str, pid: int, hour: int = 23) -> None:
    """The recorded host after its operator has added flags and restarted the unit."""
    unit = copy / UNIT
    unit.write_text(unit.read_text().replace("--mem-fraction-static 0.88", f"--mem-fraction-static 0.88 {flags}"))
    figures = yaml.safe_load((copy / "host.yaml").read_text())
    figures["server"]["pid"] = pid
    figures["server"]["started"] = figures["server"]["started"].replace(hour=hour)
    (copy / "host.yaml").write_text(yaml.safe_dump(figures))


def test_before_and_after_a_restart_and_what_the_write_up_says_of_it(tmp_path: Path) -> None:
    home, copy = tmp_path / "home", _altered(tmp_path, "slots", {})
    identity = sglscout(home, "demo", "--recorded", str(copy)).err.split()[1]
    first = sglscout(home, "writeup", identity).out

    untouched = sglscout(home, "verify", identity)
    assert untouched.exit == 3
    assert " ".join(untouched.out.split()).count("the server was not restarted") == 4
    assert "running requests, p95: above 48 (before 48 requests, now 48 requests;" in " ".join(untouched.out.split())
    assert max(len(line) for line in untouched.out.splitlines()) <= 80
    told = sglscout(home, "writeup", identity).out
    assert "could not yet tell whether the expectations are met: the server was not restarted" in told
    assert "0 of 4 expectations met, 4 not yet visible" in told

    _restarted_with(copy, "--max-running-requests 72", 51000)
    done = sglscout(home, "verify", identity, "--json")
    rows = {row["what"]: row for row in json.loads(done.out)["expectations"]}
    assert done.exit == 0, rows
    assert {row["outcome"] for row in rows.values()} == {"met"}
    assert rows["max_running_requests=72"]["before"] == "48 requests"
    assert rows["max_running_requests=72"]["after"] == "72 requests"
    running = rows["running requests, p95: above 48"]
    assert float(running["after"].split()[0]) > float(running["before"].split()[0]) == 48
    again = sglscout(home, "verify", identity)
    assert again.exit == 0, again.out  # what was before is before the change, however often was looked since

    text = sglscout(home, "writeup", identity).out
    assert "another look found 4 of 4 expectations met" in text
    assert "What another look found" in text
    assert "| requests running at once (95th percentile under load) | 48 requests |" in text
    assert "running limit in effect: 72 requests" in _part_of(text, "Verification and rollback")
    for title in ("Impact", "Evidence", "Hypotheses: kept or dropped, and why", "Decision", "The change"):
        assert _part_of(text, title) == _part_of(first, title) != ""  # what a later look saw changes none of it
    log = "By the clock of the host's log"
    assert _table_of(text, log) == _table_of(first, log) != ""
    folder = home / "transcripts" / identity
    assert (folder / "writeup.md").read_text() == text
    assert "What another look found" in (folder / "writeup.html").read_text()
    assert oct((folder / "writeup.html").stat().st_mode)[-3:] == "600"


def test_a_host_copy_that_helps_is_seen_to(tmp_path: Path) -> None:
    home, copy = tmp_path / "home", _altered(tmp_path, "prefix", {})
    identity = sglscout(home, "demo", "--recorded", str(copy)).err.split()[1]
    _restarted_with(copy, "--enable-hierarchical-cache --hicache-ratio 4", 51000, hour=7)
    done = sglscout(home, "verify", identity, "--json")
    rows = {row["what"].partition(":")[0]: row for row in json.loads(done.out)["expectations"]}
    assert done.exit == 0, rows
    back = rows["cached tokens by source host, and load_back_tokens_total"]
    assert back["outcome"] == "met"
    assert int(back["after"].split()[0].replace(",", "")) > 100_000
    assert rows["accept length"]["outcome"] == "met"


def _part_of(text: str, title: str) -> str:
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


def _table_of(text: str, label: str) -> str:
    return text.partition(f"{label}:\n\n")[2].partition("\n\n")[0]


def test_a_log_is_verified_by_a_newer_one(tmp_path: Path) -> None:
    log = tmp_path / "load.log"
    log.write_text(
        "python3 -m sglang.launch_server --model-path /m --tp 8\n"
        "[2026-12-02 03:00:00 TP0] Load weight begin. avail mem=78.50 GB\n"
        "[2026-12-02 03:01:40 TP5] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/sgl/python/sglang/srt/models/deepseek_v2.py", line 1520, in __init__\n'
        '  File "/sgl/python/sglang/srt/layers/quantization/fp8.py", line 512, in create_weights\n'
        "    torch.empty(\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB. GPU 5 has a total capacity of "
        "79.10 GiB of which 210.69 MiB is free.\n"
    )
    home = tmp_path / "home"
    case = sglscout(home, "diagnose", "it dies at load", "--bundle", str(log), "--json").document
    assert [row["what"] for row in case["expected"]] == ["the server is ready", "--tp 16", "--nnodes 2"]
    assert case["ids"]["verify"].endswith("--bundle NEW.log")
    same = sglscout(home, "verify", case["id"])
    assert same.exit == 3
    assert "met: the server is ready" not in same.out

    newer = tmp_path / "after.log"
    newer.write_text(
        "python3 -m sglang.launch_server --model-path /m --tp 16 --nnodes 2 --node-rank 0\n"
        "[2026-12-02 04:00:00] server_args=ServerArgs(model_path='/m', tp_size=16, nnodes=2)\n"
        "[2026-12-02 04:00:20 TP0] Load weight begin. avail mem=78.50 GB\n"
        "[2026-12-02 04:04:00] The server is fired up and ready to roll!\n"
    )
    looked = sglscout(home, "verify", case["id"], "--bundle", str(newer), "--json")
    rows = {row["what"]: row["outcome"] for row in looked.document["expectations"]}
    assert [rows[row["what"]] for row in case["expected"]] == ["met", "met", "met"]
