"""One incident per cause, made up from the messages of the real trees, through text to the first hypothesis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.evaluate import assess, read_given
from tools import diagnosis

INCIDENTS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "incidents.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda incident: incident["label"])
def test_the_cause_is_named_with_reasons_from_the_facts(incident: dict[str, Any]) -> None:
    verdict = assess(incident["given"])
    assert (verdict["kind"], verdict["label"]) == ("cause", incident["label"]), verdict["why"]
    first = verdict["hypotheses"][0]
    assert any(reason["from"] for reason in first["for"])


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda incident: incident["label"])
def test_a_change_never_does_what_the_same_cause_forbids(incident: dict[str, Any]) -> None:
    facts = read_given(incident["given"])
    actions = diagnosis.actions(incident["label"], facts)
    forbidden = {(one.do, one.flag) for one in actions.must_not}
    assert not [one for one in actions.changes if (one.do, one.flag) in forbidden]
    assert all(one.why for one in actions.changes)
    assert all(one.why for one in actions.must_not)
    assert len(actions.changes) <= 4


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda incident: incident["label"])
def test_a_raise_goes_up_and_a_lower_goes_down(incident: dict[str, Any]) -> None:
    for change in diagnosis.actions(incident["label"], read_given(incident["given"])).changes:
        if isinstance(change.from_, int | float) and isinstance(change.to, int | float) and change.do != "set":
            assert (change.to > change.from_) == (change.do == "raise"), change


def test_every_label_of_the_taxonomy_has_one_entry_with_a_way_to_act() -> None:
    assert len(diagnosis.LABELS) == len(set(diagnosis.LABELS))
    from transcripts.facts import Facts

    for label in diagnosis.LABELS:
        actions = diagnosis.actions(label, Facts())
        assert actions.changes or actions.alternatives or actions.notes, label
