"""`kill -9` at many moments of a diagnosis, then `resume`: nothing that was shown is lost, nothing is asked twice.

The short form runs with the tests; `SGLSCOUT_KILLS=500 pytest tests/agent/test_kill.py` is the long one.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.program import ROOT, command, environment, sglscout
from transcripts.store import Store

Json = dict[str, Any]
RECORDS = 230  # about so many are shown by a diagnosis that nobody disturbs
KILLS = int(os.environ.get("SGLSCOUT_KILLS", "12"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Json:
    made = sglscout(tmp_path_factory.mktemp("undisturbed"), "demo", "slots", "--json").document
    assert made["changes"]
    assert len(made["findings"]) > 10
    return made


def _killed(home: Path, after_records: int, after_s: float) -> list[str]:
    """Start a diagnosis, kill it so long after so many records were shown; what it had shown by then."""
    process = subprocess.Popen(
        command("demo", "slots", "--events"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        text=True,
        env=environment(home),
        cwd=ROOT,
    )
    timer = threading.Timer(after_s, lambda: os.kill(process.pid, signal.SIGKILL))
    assert process.stdout is not None
    shown = []
    for line in process.stdout:
        shown.append(line)
        if len(shown) == after_records:
            timer.start()
    process.wait()
    timer.cancel()
    return [line for line in shown if line.endswith("\n")]


def _settled(document: Json) -> Json:
    """What must be equal: evidence ids may differ where a look was cut in the middle, what they say may not."""
    changes = [
        {key: change[key] for key in ("do", "flag", "from", "to", "unit", "why", "confirmed")}
        for change in document["changes"]
    ]
    options = [(option["name"], option.get("running_factor"), option.get("host_gb")) for option in document["options"]]
    sums = {entry["name"]: entry["value"] for entry in document["arithmetic"]}
    hypotheses = [(row["label"], row["status"], row["weight"]) for row in document["hypotheses"]]
    findings = {(finding["subject"], finding["text"]) for finding in document["findings"]}
    return {
        "diagnosis": document["diagnosis"],
        "changes": changes,
        "options": options,
        "sums": sums,
        "hypotheses": hypotheses,
        "findings": findings,
    }


@pytest.mark.parametrize("number", range(KILLS))
def test_killed_then_resumed_comes_to_the_same_end(tmp_path: Path, undisturbed: Json, number: int) -> None:
    chance = random.Random(number)
    records, after_s = chance.randrange(1, RECORDS), chance.choice((0.0, chance.uniform(0.0, 0.1)))
    shown = [json.loads(line) for line in _killed(tmp_path, records, after_s)]
    store = Store(tmp_path)
    sessions = [first["id"] for first, _ in store.heads() if first.get("role") == "session"]
    (identity,) = sessions
    before = {record["seq"]: record["type"] for record in store.read(identity)}
    lost = [event for event in shown if "transcript" not in event and before.get(event["seq"]) != event["type"]]
    assert lost == []
    resumed = sglscout(tmp_path, "resume", identity, "--json")
    assert resumed.exit == 0, resumed.err
    assert _settled(resumed.document) == _settled(undisturbed)
    probes = [record["probe"] for record in store.read(identity) if record["type"] == "evidence"]
    assert len(probes) == len(set(probes))
    again = sglscout(tmp_path, "resume", identity, "--json")
    assert _settled(again.document) == _settled(undisturbed)
    assert all(task["status"] == "completed" for task in resumed.document["tasks"])
