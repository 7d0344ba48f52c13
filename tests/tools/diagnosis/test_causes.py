"""One incident per cause, made up from the messages of the real trees, through text to the first hypothesis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.incident import assess, read_given
from tools import diagnosis
from tools.diagnosis.view import SPELLINGS


def _read(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / name).read_text(encoding="utf-8"))
    return rows


INCIDENTS, WORDINGS = _read("incidents.yaml"), _read("wordings.yaml")


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda incident: incident["label"])
def test_the_cause_is_named_with_reasons_from_the_facts(incident: dict[str, Any]) -> None:
    verdict = assess(incident["given"])
    assert (verdict["kind"], verdict["label"]) == ("cause", incident["label"]), verdict["why"]
    first = verdict["hypotheses"][0]
    assert any(reason["source"] for reason in first["supporting"])


def _proposes(change: dict[str, Any], wanted: str) -> bool:
    do, flag = wanted.split()
    return change["flag"] == flag and (change["do"] == do or (do == "set" and change["do"] in ("raise", "lower")))


@pytest.mark.parametrize("incident", WORDINGS, ids=lambda incident: incident["label"])
def test_the_cause_is_named_in_other_words_and_what_helps_is_proposed(incident: dict[str, Any]) -> None:
    verdict = assess(incident["given"])
    assert (verdict["kind"], verdict["label"]) == ("cause", incident["label"]), verdict["why"]
    helps = incident.get("helps", [])
    assert not helps or any(_proposes(change, one) for change in verdict["changes"] for one in helps)
    assert not [one for one in incident.get("never", []) for change in verdict["changes"] if _proposes(change, one)]


@pytest.mark.parametrize("incident", WORDINGS, ids=lambda incident: incident["label"])
def test_a_change_fits_the_flags_in_use(incident: dict[str, Any]) -> None:
    typed = {fact.scope: str(fact.value) for fact in read_given(incident["given"]).all("flag")}
    for change in assess(incident["given"])["changes"]:
        if change["kind"] != "flag":
            continue
        if change["do"] == "remove":
            assert any(change["flag"] in (name, *SPELLINGS.get(name, ())) or name in SPELLINGS.get(change["flag"], ())
                       for name in typed), change  # fmt: skip
        elif change["to"] is not None:
            assert str(change["to"]) != typed.get(change["flag"]), change


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


@pytest.mark.parametrize(
    "reason", ["", "[pair.cc:534] Connection closed by peer", "RuntimeError: CUDA error: an illegal memory access"]
)
def test_a_failed_capture_is_a_lack_of_memory_only_where_it_says_so(reason: str) -> None:
    given = {"complaint": "it does not start", "launch_args": "--tp 8", "sglang_version": "0.4.4"}
    line = "Exception: Capture cuda graph failed: "
    verdict = assess({**given, "evidence": [line + reason]})
    assert (verdict["kind"], verdict["changes"]) == ("abstain", [])
    assert assess({**given, "evidence": [line + "CUDA out of memory."]})["label"] == "oom.cuda_graph_capture"


def test_a_later_spelling_that_was_refused_is_answered_with_the_first() -> None:
    line = "launch_server.py: error: unrecognized arguments: --enable-hicache --max-num-seqs 64"
    changes = assess({"complaint": "it does not start", "evidence": [line], "sglang_version": "0.5.9"})["changes"]
    assert {"--enable-hierarchical-cache", "--max-running-requests"} <= {one["flag"] for one in changes}
    assert not [one for one in changes if one["do"] == "upgrade"]


@pytest.mark.parametrize(("usage", "to"), [("0.80", [54]), ("0.88", []), ("0.90", [])])
def test_the_limit_is_not_raised_by_so_little_that_no_restart_is_worth_it(usage: str, to: list[int]) -> None:
    line = f"Decode batch, #running-req: 48, #token: 95123, token usage: {usage}, accept len: 2.91, #queue-req: 17"
    reset = "Max running requests is reset to 48 for speculative decoding."
    flags = "--speculative-algorithm EAGLE3 --speculative-num-steps 3"
    verdict = assess(
        {"complaint": "Only 48 ever run.", "launch_args": flags, "evidence": [reset, "max_running_requests=48", line]}
    )
    assert verdict["label"] == "capacity.spec_default_cap"
    assert [change["to"] for change in verdict["changes"]] == to


HUNG = [
    (
        "2026-12-01T05:05:01.0Z [2026-12-01 05:05:01 TP0] Prefill batch. #new-seq: 1, #new-token: 8192, "
        "#cached-token: 0, token usage: 0.12, #running-req: 3, #queue-req: 1, "
    ),
    (
        "2026-12-01T05:10:05.0Z [2026-12-01 05:10:05 TP0] Watchdog timeout (self.watchdog_timeout=300, "
        "self.watchdog_last_forward_ct=8812, self.forward_ct=8812)"
    ),
    (
        "2026-12-01T05:10:06.0Z [2026-12-01 05:10:06] Health check failed. Server couldn't get a response from "
        "detokenizer for last 20 seconds. tic start time: 05:09:46. last_heartbeat time: 05:05:01"
    ),
]


@pytest.mark.parametrize("version", ["", "0.5.9", "0.5.12"])
def test_a_step_that_never_returned_is_blamed_on_nothing_that_no_line_says(version: str) -> None:
    verdict = assess({"complaint": "server hangs", "evidence": HUNG, "sglang_version": version})
    assert (verdict["kind"], verdict["changes"]) == ("abstain", [])
    assert verdict["certainty"] < 0.5
    assert any("py-spy" in text and "Xid" in text for text in verdict["missing"])


@pytest.mark.parametrize(("version", "kind"), [("0.5.9", "abstain"), ("0.5.12", "cause")])
def test_prefill_graphs_are_at_fault_only_where_the_version_captures_them(version: str, kind: str) -> None:
    said = ["Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.", "/health 503"]
    given = {"complaint": "The first request never returns.", "evidence": said, "sglang_version": version}
    assert assess(given)["kind"] == kind
    asked_for = assess({**given, "sglang_version": "0.5.9", "launch_args": "--enable-piecewise-cuda-graph"})
    assert [(one["do"], one["flag"]) for one in asked_for["changes"]] == [("remove", "--enable-piecewise-cuda-graph")]


def test_what_a_server_stamped_is_no_sentence_of_the_operator_and_each_term_has_its_own_line() -> None:
    text = "Since noon it is slow.\nThe health check fails.\n" + HUNG[2]
    found = {fact.scope: fact.source for fact in read_given({"evidence": [text]}).all("symptom")}
    assert found["health_fails"] == "E2:2"
    assert "health_fails" not in {fact.scope for fact in read_given({"evidence": HUNG}).all("symptom")}


def test_a_server_that_served_for_days_did_not_hang_at_its_prefill_graphs() -> None:
    silent = "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds."
    given = {"launch_args": "--model-path org/m --tp 8", "sglang_version": "0.5.10", "evidence": [silent]}
    assert assess({**given, "complaint": "After a few days /health gives 503."})["kind"] == "abstain"


REFUSED = [
    (
        "[2026-12-01 03:01:00] server_args=ServerArgs(model_path='m/q', tp_size=4, mem_fraction_static=0.85, "
        "enable_hierarchical_cache=True, hicache_ratio=2.0, hicache_size=200)"
    ),
    "[2026-12-01 03:03:11 TP0] KV Cache is allocated. #tokens: 309600, K size: 18.90 GB, V size: 18.90 GB",
    "[2026-12-01 03:03:12 TP0] Allocating 200.00 GB host memory for hierarchical KV cache.",
    (
        "ValueError: Not enough host memory available. Requesting 200.00 GB but only have 113.42 GB free. "
        "Please reduce the size of the hierarchical cache."
    ),
]


@pytest.mark.parametrize("version", ["", "0.5.9", "0.5.16"])
def test_what_one_rank_was_let_have_is_room_that_all_may_share(version: str) -> None:
    given = {"complaint": "crash at start after enabling hicache", "evidence": REFUSED, "sglang_version": version}
    changes = assess(given)["changes"]
    assert [(one["do"], one["flag"], one["to"]) for one in changes] == [("lower", "--hicache-size", 49)]


@pytest.mark.parametrize(("version", "to"), [("", 28), ("0.5.16", 28), ("0.4.9", 25)])
def test_the_reserve_is_taken_off_once(version: str, to: int) -> None:
    small = [REFUSED[0], REFUSED[3]]  # no other rank had printed anything, nor is the GPU pool known
    given = {"complaint": "crash at start after enabling hicache", "evidence": small, "sglang_version": version}
    assert [one["to"] for one in assess(given)["changes"]] == [to]
