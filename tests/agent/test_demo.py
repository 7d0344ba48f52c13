"""The main job, end to end: four recorded hosts bring one complaint and get four answers, each with its proof."""

from __future__ import annotations

import json
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import program
from tests.needs import shared
from tests.program import RECORDED, Done, environment, sglscout

Json = dict[str, Any]
HOSTS = ("slots", "kv", "prefix", "story")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@cache
def _demo(home: Path, name: str) -> Done:
    return sglscout(home, "demo", name, "--json")


def test_without_a_package_index_the_whole_job_is_done_and_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setattr(program, "environment", lambda home: environment(home) | {"SGLSCOUT_CACHE": str(home / "none")})
    done = sglscout(tmp_path, "demo", "slots", "--json")
    change = _change(done.document, "--max-running-requests")
    assert (done.exit, change and (change["to"], change["valid"]["rules"])) == (0, (72, "not checked"))
    assert done.err.count("the package index is not reached") == 1
    assert "the rules of the code were not checked" in " ".join(done.document["launch"]["notes"])


def _altered(folder: Path, name: str, change: dict[str, Any]) -> Path:
    """A copy of a recording with figures of its `host.yaml` changed; keys are dotted paths."""
    copy = folder / "altered"
    shutil.copytree(RECORDED / name, copy)
    figures = yaml.safe_load((copy / "host.yaml").read_text())
    for dotted, value in change.items():
        place = figures
        *way, last = dotted.split(".")
        for part in way:
            place = place[int(part)] if part.isdigit() else place[part]
        place[last] = value
    (copy / "host.yaml").write_text(yaml.safe_dump(figures))
    return copy


def _fact(document: Json, name: str, scope: str = "") -> Any:
    found = [fact["value"] for fact in document["facts"] if fact["name"] == name and fact.get("scope", "") == scope]
    return found[-1] if found else None


def _change(document: Json, flag: str) -> Json | None:
    return next((change for change in document["changes"] if change["flag"] == flag), None)


def _sum(document: Json, name: str) -> Json:
    return next(entry for entry in document["arithmetic"] if entry["name"] == name)


def _hicache(document: Json, ratio: float = 4) -> Json:
    return next(option for option in document["options"] if option["name"] == f"HiCache, ratio {ratio:g}")


@pytest.mark.parametrize("name", HOSTS)
def test_the_document_has_the_shape_of_the_example(home: Path, name: str) -> None:
    example = json.loads(shared("diagnosis.example.json").read_text())
    made = _demo(home, name).document
    assert set(example) <= set(made)
    for key in ("target", "diagnosis", "usage"):
        assert set(example[key]) <= set(made[key])
    for key in ("tasks", "claims", "hypotheses", "evidence", "facts", "citations", "arithmetic"):
        assert set(example[key][0]) <= set(made[key][0]), key
    assert made["schema"] == "sglscout.diagnosis/1"


@pytest.mark.parametrize(
    ("name", "kind", "label"),
    [
        ("slots", "cause", "capacity.spec_default_cap"),
        ("kv", "cause", "capacity.kv_pool_too_small"),
        ("prefix", "cause", "cache.working_set_exceeds_hbm"),
        ("story", "abstain", ""),
    ],
)
def test_one_complaint_four_answers(home: Path, name: str, kind: str, label: str) -> None:
    done = _demo(home, name)
    diagnosis = done.document["diagnosis"]
    assert (diagnosis["kind"], diagnosis["label"]) == (kind, label)
    assert done.exit == (0 if kind == "cause" else 3)


@pytest.mark.parametrize("name", HOSTS)
def test_research_ran_in_at_least_two_tasks_and_every_citation_holds(home: Path, name: str) -> None:
    made = _demo(home, name).document
    assert len([task for task in made["tasks"] if task["status"] == "completed"]) >= 2
    assert len(made["citations"]) >= 10
    assert all(citation["checked"] and citation["version"] == "0.5.9" for citation in made["citations"])


@pytest.mark.parametrize("name", HOSTS)
def test_every_sentence_of_the_answer_rests_on_something(home: Path, name: str) -> None:
    made = _demo(home, name).document
    assert len(made["answer"]) >= 3
    assert [sentence["text"] for sentence in made["answer"] if not sentence["supported"]] == []


@pytest.mark.parametrize("name", HOSTS)
def test_the_question_about_ram_is_answered_in_each(home: Path, name: str) -> None:
    made = _demo(home, name).document
    option = _hicache(made)
    assert option["running_factor"] == 1.0
    assert option["host_gb"] == pytest.approx(358.0, abs=0.1)
    assert option["fits"] is True
    text = " ".join(sentence["text"] for sentence in made["answer"])
    assert "8 ranks x 44.75 GB = 358.0 GB" in text
    assert "1.00x" in text
    named = " ".join(option["name"] for option in made["options"]).lower()
    for word in ("lmcache", "cpu-offload-gb", "ktransformers", "storage"):
        assert word in named + " ".join(finding["text"].lower() for finding in made["findings"]), word


@pytest.mark.parametrize("name", HOSTS)
def test_the_operators_framing_is_judged_by_name(home: Path, name: str) -> None:
    claims = {claim["text"].lower(): claim["verdict"] for claim in _demo(home, name).document["claims"]}
    running = [verdict for text, verdict in claims.items() if "ram" in text and "running" in text]
    assert running == ["contradicted"]


@pytest.mark.parametrize("name", HOSTS)
def test_memory_of_one_gpu_goes_down_to_what_is_free(home: Path, name: str) -> None:
    steps = _demo(home, name).document["memory"]
    card, *taken = steps
    assert card["gib"] == pytest.approx(97887 / 1024, abs=0.01)
    assert sum(step["gib"] for step in taken) == pytest.approx(card["gib"], abs=0.1)
    assert all(step["why_not_spare"] for step in steps)


def test_slots_72_with_the_next_wall(home: Path) -> None:
    made = _demo(home, "slots").document
    change = _change(made, "--max-running-requests")
    assert change is not None
    assert str(change["to"]) == "72"
    assert change["valid"]["at"].startswith("srt/server_args.py:")
    assert change["valid"]["in"] == "0.5.9"
    assert change["confirmed"]
    assert _sum(made, "pool_wall")["value"] == pytest.approx(80, abs=1)
    assert any("max_running_requests=72" in item["what"] for item in made["expected"])
    assert made["rollback"]["commands"]
    assert any(rule["flag"] == "--mem-fraction-static" for rule in made["must_not"])


def test_kv_enlarges_the_pool_and_does_not_raise_the_limit(home: Path) -> None:
    made = _demo(home, "kv").document
    assert made["expected"][0]["what"].startswith("max_total_num_tokens above 159,209, by the sums 33")
    assert "FP8 KV cache: " not in "".join(each["what"] for each in made["alternatives"])
    flags = {change["flag"] for change in made["changes"]}
    assert "--max-running-requests" not in flags
    assert flags & {"--kv-cache-dtype", "--enable-dp-attention", "--dp-size", "--mem-fraction-static"}
    factors = {option["name"]: option["running_factor"] for option in made["options"] if option["running_factor"]}
    assert any(factor == pytest.approx(2.59, abs=0.02) for factor in factors.values())


def test_prefix_advises_a_ratio_that_fits(home: Path) -> None:
    made = _demo(home, "prefix").document
    flags = {change["flag"]: change["to"] for change in made["changes"]}
    assert "--enable-hierarchical-cache" in flags
    assert float(flags["--hicache-ratio"]) <= _hicache(made)["largest_ratio"]
    assert any("accept" in item["metric"] for item in made["verify"])
    assert made["expected"][0]["what"].startswith(
        "host memory about 44.75 GB in the `Allocating` line of each of 8 ranks"
    )


def test_story_abstains_names_three_and_the_one_look(home: Path) -> None:
    made = _demo(home, "story").document
    live = {row["label"] for row in made["hypotheses"] if row["status"] != "refuted"}
    assert {"capacity.spec_default_cap", "capacity.kv_pool_too_small", "cache.working_set_exceeds_hbm"} <= live
    assert made["diagnosis"]["missing"]
    assert made["changes"] == []


def _with_flags(folder: Path, name: str, flags: str) -> Path:
    """A copy of a recording whose unit has further flags."""
    copy = _altered(folder, name, {})
    unit = copy / "root/etc/systemd/system/sglang-kimi.service"
    unit.write_text(unit.read_text().replace("--mem-fraction-static 0.88", f"--mem-fraction-static 0.88 {flags}"))
    return copy


def test_a_limit_that_the_operator_typed_and_that_binds_is_raised(home: Path, tmp_path: Path) -> None:
    made = sglscout(
        home, "demo", "--recorded", str(_with_flags(tmp_path, "slots", "--max-running-requests 48")), "--json"
    ).document
    assert made["diagnosis"]["label"] == "capacity.running_limit_too_low"
    change = _change(made, "--max-running-requests")
    assert change is not None
    assert (change["do"], str(change["from"]), str(change["to"])) == ("raise", "48", "72")


def test_a_typed_limit_with_room_above_what_runs_is_a_healthy_server(home: Path, tmp_path: Path) -> None:
    done = sglscout(
        home, "demo", "--recorded", str(_with_flags(tmp_path, "slots", "--max-running-requests 200")), "--json"
    )
    assert (done.exit, done.document["diagnosis"]["kind"]) == (0, "healthy")
    assert done.document["changes"] == []


def test_few_requests_in_flight_are_a_healthy_server(home: Path, tmp_path: Path) -> None:
    copy = _altered(tmp_path, "slots", {"load.phases.0.in_flight": 20})
    done = sglscout(home, "demo", "--recorded", str(copy), "--json")
    assert (done.exit, done.document["diagnosis"]["kind"]) == (0, "healthy")
    assert not [row for row in done.document["hypotheses"] if row["status"] == "supported"]


def test_fewer_running_than_allowed_is_not_the_limit(home: Path, tmp_path: Path) -> None:
    copy = _altered(tmp_path, "slots", {"load.phases.0.running": 20, "load.phases.0.tokens_per_request": 3980})
    made = sglscout(home, "demo", "--recorded", str(copy), "--json").document
    assert made["diagnosis"]["label"] != "capacity.spec_default_cap"
    assert _change(made, "--max-running-requests") is None
    assert not any("at the limit" in reason["text"] for row in made["hypotheses"] for reason in row["reasons_for"])


@pytest.mark.parametrize(("held", "ends"), [(3050, 109), (3300, 100)])
def test_a_limit_that_the_pool_just_carries_is_not_lowered_in_its_own_name(
    home: Path, tmp_path: Path, held: int, ends: int
) -> None:
    """Pools that end at 52 and 48 of a limit of 48: short is the pool, and FP8 doubles it."""
    copy = _altered(tmp_path, "slots", {"load.phases.0.tokens_per_request": held})
    made = sglscout(home, "demo", "--recorded", str(copy), "--json").document
    assert made["diagnosis"]["label"] == "capacity.kv_pool_too_small"
    assert _change(made, "--kv-cache-dtype") is not None
    change = _change(made, "--max-running-requests")
    assert change is not None
    assert 48 < int(change["to"]) <= 0.92 * ends
    assert any(f"about {ends} requests" in wall["what"] for wall in made["walls"])
    assert not any(rule["flag"] == "--max-running-requests" for rule in made["must_not"])


def test_more_of_the_card_alone_where_that_carries_all_that_wait(home: Path, tmp_path: Path) -> None:
    """22 of 48 run in a pool at 0.8, 43 wait: 166,259 tokens carry them, and the limit goes past the 65."""
    copy = _with_flags(tmp_path, "slots", "--mem-fraction-static 0.8")
    made = sglscout(home, "demo", "--recorded", str(copy), "--json").document
    assert made["diagnosis"]["label"] == "capacity.kv_pool_too_small"
    assert _change(made, "--kv-cache-dtype") is None
    assert _change(made, "--mem-fraction-static") is not None
    change = _change(made, "--max-running-requests")
    assert change is not None
    assert 65 < int(change["to"]) <= 0.9 * 85
    assert not made["refused"]


def test_a_pool_that_ends_below_the_limit_is_what_is_short(home: Path, tmp_path: Path) -> None:
    copy = _altered(tmp_path, "slots", {"boot.weights_after_gib": 14})
    made = sglscout(home, "demo", "--recorded", str(copy), "--json").document
    assert made["diagnosis"]["label"] == "capacity.kv_pool_too_small"
    change = _change(made, "--max-running-requests")
    assert change is not None
    assert "65 that run and wait" in change["why"]
    assert 48 < int(change["to"]) <= 0.9 * 57, "FP8 and 0.89 make a pool that ends at 57"


def test_data_parallel_ranks_are_counted_in_the_sum_that_is_shown(home: Path, tmp_path: Path) -> None:
    copy = _with_flags(tmp_path, "kv", "--enable-dp-attention --dp 8")
    made = sglscout(home, "demo", "--recorded", str(copy), "--json").document
    assert _change(made, "--max-running-requests") is None, "the GPUs have no memory for the graphs of more"
    assert not next(row for row in made["options"] if row["name"] == "more slots")["fits"]
    refused = next(rule["why"] for rule in made["must_not"] if rule["flag"] == "--max-running-requests")
    assert re.search(r"carries 144 requests .* are 18 on each of 8 ranks", refused)
    assert not any(row["label"] == "version.dp_attention_collective_hang" for row in made["hypotheses"])


def test_a_pool_that_is_enlarged_is_not_given_to_fewer_requests(home: Path, tmp_path: Path) -> None:
    copy = _with_flags(tmp_path, "kv", "--dp-size 2 --enable-dp-attention --max-running-requests 200")
    document = sglscout(home, "demo", "--recorded", str(copy), "--json").document
    assert _change(document, "--kv-cache-dtype") is not None
    assert _change(document, "--max-running-requests") is None


def test_a_typed_cap_on_tokens_is_taken_off_before_anything_else_is_traded(home: Path, tmp_path: Path) -> None:
    copy = _with_flags(tmp_path, "slots", "--max-total-tokens 100000")
    document = sglscout(home, "demo", "--recorded", str(copy), "--json").document
    assert [(change["do"], change["flag"]) for change in document["changes"]] == [
        ("remove", "--max-total-tokens"),
        ("set", "--max-running-requests"),
    ]
    assert document["expected"][0]["what"] == "max_total_num_tokens above 100,000, by the sums 159,258"
    assert "--max-total-tokens" not in document["launch"]["argv"]
    assert any("at about 80 requests" in wall["what"] for wall in document["walls"])


def test_traffic_without_prefixes_is_no_model_with_recurrent_state(home: Path, tmp_path: Path) -> None:
    copy = _altered(tmp_path, "prefix", {f"load.phases.{phase}.hit_rate": 0.0 for phase in range(3)})
    document = sglscout(home, "demo", "--recorded", str(copy), "--json").document
    labels = [row["label"] for row in document["hypotheses"] if row["status"] == "supported"]
    assert [label for label in labels if label.startswith("hicache")] == [], "the host cache is off"
    assert _change(document, "--mamba-scheduler-strategy") is None


def test_less_ram_makes_the_ratio_not_worth_it(home: Path, tmp_path: Path) -> None:
    copy = _altered(tmp_path, "prefix", {"memory.available_gib": 120.0})
    made = sglscout(home, "demo", "--recorded", str(copy), "--json").document
    option = _hicache(made)
    assert option["fits"] is False
    assert option["largest_ratio"] <= 1.1
    assert option["own_check_passes"] is True
    assert "--enable-hierarchical-cache" not in {change["flag"] for change in made["changes"]}


def test_more_memory_after_weights_is_a_larger_pool_and_a_larger_limit(home: Path, tmp_path: Path) -> None:
    copy = _altered(tmp_path, "slots", {"boot.weights_after_gib": 25.0})
    made = sglscout(home, "demo", "--recorded", str(copy), "--json").document
    assert _fact(made, "kv_pool") > 200_000
    change = _change(made, "--max-running-requests")
    assert change is not None
    assert int(change["to"]) > 72


def test_another_version_on_the_host_is_the_one_that_is_read(home: Path, tmp_path: Path) -> None:
    copy = _altered(tmp_path, "slots", {"server.version": "0.5.10"})
    made = sglscout(home, "demo", "--recorded", str(copy), "--json", timeout=400).document
    assert made["target"]["version"] == "0.5.10"
    assert {citation["version"] for citation in made["citations"]} == {"0.5.10"}


def test_a_proposal_takes_the_name_that_the_deployed_version_has_for_it(home: Path, tmp_path: Path) -> None:
    copy = _altered(tmp_path, "slots", {"server.version": "0.5.23"})
    made = sglscout(home, "demo", "--recorded", str(copy), "--json").document
    assert made["target"]["version"] == "0.5.23"
    change = _change(made, "--cuda-graph-max-bs-decode")
    assert change is not None
    assert "--cuda-graph-max-bs is called --cuda-graph-max-bs-decode in 0.5.23" in change["why"]
    assert made["refused"] == []
    assert made["launch"]["notes"] == []
    assert [wall["what"] for wall in made["walls"] if "about 0 requests" in wall["what"]] == []


def test_what_the_version_refuses_in_the_operators_own_command_is_said(home: Path, tmp_path: Path) -> None:
    copy = _altered(tmp_path, "slots", {"server.version": "0.4.6"})
    done = sglscout(home, "demo", "--recorded", str(copy))
    text = " ".join(done.out.split())
    assert "The launch command as it stands is refused by sglang 0.4.6: --tool-call-parser takes" in text
    assert "--reasoning-parser takes deepseek-r1; 'kimi_k2' is none of them (srt/server_args.py:743)" in text
    assert "set --max-running-requests: (not set) -> 72 requests" in text
