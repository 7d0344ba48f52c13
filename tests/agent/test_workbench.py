"""What a process that takes a session up must learn anew of the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.session import Session
from agent.settings import Settings
from agent.workbench import Workbench
from tests.agent.research import session_in
from transcripts.facts import Evidence
from transcripts.records import EvidenceTaken

ARGV = "python3\n-m\nsglang.launch_server\n--tp\n8\n"
UNIT = "[Service]\nExecStart=/opt/sglang/start\n"


def _took(session: Session, probe: str, text: str, problem: str = "") -> None:
    identity = session.case.next_evidence()
    evidence = Evidence(identity, probe, probe, "gpu1", "2026-02-10T03:20:00Z", 0, text, problem=problem)
    session.record(EvidenceTaken.of(evidence, ()))


@pytest.mark.parametrize(
    ("process", "problem", "unit", "unlearnt"),
    [
        (ARGV, "", UNIT, set()),
        (ARGV, "", None, {"unit_files"}),
        (ARGV + "--api-key\n«secret:api_key#1»\n", "", UNIT, {"process"}),
        (ARGV, "", UNIT + "Environment=HF_TOKEN=«secret:hf_key#1»\n", {"unit_files"}),
        ("", "denied", UNIT, {"process"}),
    ],
)
def test_only_what_held_a_key_or_was_not_seen_is_learnt_anew(
    tmp_path: Path, process: str, problem: str, unit: str | None, unlearnt: set[str]
) -> None:
    session = session_in(tmp_path)
    _took(session, "process", process, problem)
    if unit is not None:
        _took(session, "unit_files", unit)
    bench = Workbench(Settings(tmp_path, tmp_path, "", "", ""), session)
    assert bench.start_unlearnt() == unlearnt
