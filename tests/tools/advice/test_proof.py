"""What a change rests on, by kind of evidence, wherever the server runs."""

from __future__ import annotations

import pytest

from tools.advice.proof import confirmed, kinds
from tools.host import STANDARD
from transcripts.facts import Evidence


def brought(*probes: str) -> frozenset[str]:
    evidence = {f"E{n}": Evidence(f"E{n}", probe, "", "gpu1", "", 0, "text") for n, probe in enumerate(probes)}
    return kinds(tuple(evidence), evidence)


@pytest.mark.parametrize("probe", [each.name for each in STANDARD])
def test_what_a_look_at_a_host_brings_was_not_pasted(probe: str) -> None:
    assert "pasted" not in brought(probe)


@pytest.mark.parametrize("log", ["journal_boot", "container_log", "podman_log", "log_recent", "log_boot"])
def test_a_log_of_any_place_needs_a_second_kind_that_no_request_can_write(log: str) -> None:
    assert not confirmed(brought(log), live=True)
    assert not confirmed(brought(log, "model_config"), live=True)
    assert confirmed(brought(log, "gpus"), live=True)
    assert confirmed(brought(log, "process"), live=True)
    assert not confirmed(brought(log, "gpus"), live=False)


def test_what_was_pasted_confirms_nothing() -> None:
    assert not confirmed(brought("pasted", "gpus", "process"), live=True)
