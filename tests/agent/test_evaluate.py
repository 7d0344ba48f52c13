"""Scoring of recorded incidents: rules of the score, no leak of labels, targets, perturbations, honest abstention."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agent.by_model import by_model
from agent.cli import cli
from agent.evaluate import GIVEN, evaluate, load, matches
from agent.incident import assess, read_given
from agent.models.scripted import Scripted, calls, say
from agent.settings import Settings, load_settings
from agent.unlisted import unlisted
from tests.needs import shared
from tools.diagnosis import family
from tools.source import obtain
from transcripts.errors import LimitReached, UsageError
from transcripts.store import Store

Json = dict[str, Any]


@pytest.fixture(scope="module")
def cases() -> list[Json]:
    return load(shared("cases"))


def given(case: Json) -> Json:
    return {name: case.get(name) for name in GIVEN}


def test_targets_on_the_recorded_incidents(cases: list[Json]) -> None:
    scored = evaluate(cases)
    assert scored["n"] == len(cases)
    assert scored["solved"] >= 0.85
    assert scored["leaf"] >= 0.70
    assert scored["harmed"] <= 0.03


def test_labels_cannot_leak(cases: list[Json]) -> None:
    for case in cases:
        honest = assess(given(case))
        falsified = case | {"id": "x", "class": "HiCache", "expected": {"root_cause": "perf.admission_delayer"}}
        bare = {name: value for name, value in case.items() if name in GIVEN}
        assert assess(given(falsified)) == honest == assess(bare)


def variants(case: Json) -> Iterator[Json]:
    """Renamed, rephrased, figures moved a little, one line dropped."""
    base = given(case)
    lines = list(base["evidence"] or [])
    yield base | {"model": "Acme-Chat-70B"}
    complaint = str(base["complaint"])
    for word, other in (
        ("server", "instance"),
        ("crashes", "falls over"),
        ("requests", "queries"),
        ("users", "clients"),
    ):
        complaint = re.sub(rf"\b{word}\b", other, complaint)
    yield base | {"complaint": complaint}

    def move(found: re.Match[str]) -> str:
        return str(int(int(found[1]) * 1.03))

    yield base | {"evidence": [re.sub(r"(?<![\d.\w-])(\d{3,})(?![\d.\w])", move, str(line)) for line in lines]}
    if len(lines) > 1:
        for number in range(len(lines)):
            yield base | {"evidence": lines[:number] + lines[number + 1 :]}


def test_a_perturbed_incident_keeps_its_verdict_or_is_not_decided(cases: list[Json]) -> None:
    looked_at = flipped = 0
    for case in cases:
        before = assess(given(case))
        if before["kind"] != "cause":
            continue
        for variant in variants(case):
            after = assess(variant)
            looked_at += 1
            if after["kind"] == "cause":
                flipped += family(after["label"]) != family(before["label"])
            else:
                assert after["missing"], case["id"]
                assert not after["changes"], case["id"]
    assert looked_at > 200
    assert flipped <= 0.02 * looked_at


WRAPPINGS: dict[str, Callable[[str], str]] = {
    "docker compose": lambda line: f"sglang-1  | {line}" if line.startswith("[20") else line,
    "Kubernetes": lambda line: f"2026-02-10T03:11:00.123456789Z stdout F {line}" if line.startswith("[20") else line,
    "journald": lambda line: f"Feb 10 03:11:00 gpu7 sglang[4711]: {line}" if line.startswith("[20") else line,
    "quoted in a mail": lambda line: f"> {line}",
    "indented in a ticket": lambda line: f"    {line}",
    "another year and port": lambda line: re.sub(r"^\[202\d-", "[2028-", line).replace("30000", "8123"),
    "from Windows": lambda line: f"{line}\r",
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_how_a_log_was_wrapped_on_its_way_changes_nothing(cases: list[Json], wrapping: str) -> None:
    start = list(WRAPPINGS).index(wrapping)  # each wrapping meets other incidents
    for case in cases[start :: len(WRAPPINGS)]:
        before = assess(given(case))
        texts = [str(text).split("\n") for text in case.get("evidence") or ()]
        wrapped = ["\n".join(WRAPPINGS[wrapping](line) for line in lines) for lines in texts]
        after = assess(given(case) | {"evidence": wrapped})
        assert (after["kind"], after["label"]) == (before["kind"], before["label"]), case["id"]
        assert [(one["do"], one["flag"]) for one in after["changes"]] == [
            (one["do"], one["flag"]) for one in before["changes"]
        ]


def without_notes(case: Json) -> str:
    """The launch command without what its sender remarked beside it, which is evidence too."""
    return re.sub(r"\([^)]*\)", "", str(case.get("launch_args") or ""))


def test_without_evidence_nothing_is_decided(cases: list[Json]) -> None:
    cut = [assess(given(case) | {"evidence": [], "launch_args": without_notes(case)}) for case in cases]
    assert len(cut) >= 20
    assert [verdict["label"] for verdict in cut if verdict["kind"] != "abstain"] == []
    assert all(verdict["missing"] and not verdict["changes"] for verdict in cut)


def change(do: str, flag: str, was: object, to: object) -> Json:
    return {"do": do, "flag": flag, "from": was, "to": to}


@pytest.mark.parametrize(
    ("made", "action", "expected"),
    [
        (change("raise", "--page-size", 1, 64), {"do": "raise", "flag": "--page-size"}, True),
        (change("set", "--page-size", 64, 1), {"do": "raise", "flag": "--page-size"}, False),
        (change("set", "--page-size", 1, 64), {"do": "raise", "flag": "--page-size"}, True),
        (change("set", "--page-size", 64, 1), {"do": "set", "flag": "--page-size", "value": "1"}, True),
        (change("raise", "--page-size", 1, 64), {"do": "set", "flag": "--page-size"}, True),
        (change("remove", "--page-size", 1, None), {"do": "set", "flag": "--page-size"}, False),
        (change("remove", "--page-size", 1, None), {"do": "remove", "flag": "--page-size"}, True),
        (change("upgrade", "sglang", None, None), {"do": "upgrade"}, True),
        (change("set", "--tp-size", 1, 2), {"do": "set", "flag": "--tp", "value": "2"}, True),
        (change("set", "--speculative-algorithm", None, "EAGLE"), {"do": "set", "flag": "--speculative-"}, True),
    ],
)
def test_how_a_change_matches_an_action(made: Json, action: Json, expected: bool) -> None:
    assert matches(made, action) is expected


def test_a_folder_without_cases_and_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no case"):
        load(tmp_path)
    (tmp_path / "a.yaml").write_text("just: this\n")
    with pytest.raises(UsageError, match="is no case"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("typed", "there", "label"),
    [
        ("--dcp-size", "--dp-size", "config.flag_not_in_this_version"),  # another word, not a slip
        ("--attn-dp-size", "--attn-cp-size", "config.flag_not_in_this_version"),
        ("--chunked-prefil-size", "--chunked-prefill-size", "config.misspelled_flag"),
        ("--mem-fraction-statik", "--mem-fraction-static", "config.misspelled_flag"),
    ],
)
def test_an_abbreviation_is_the_same_or_another_flag(typed: str, there: str, label: str) -> None:
    given = {
        "complaint": "It stops at once.",
        "launch_args": f"{typed} 8",
        "flags_version": "0.5.9",
        "evidence": [f"launch_server.py: error: unrecognized arguments: {typed} 8"],
    }
    verdict = assess(given)
    assert verdict["label"] == label
    assert not [change for change in verdict["changes"] if change["flag"] == there] or label == "config.misspelled_flag"


@pytest.mark.parametrize("name", ["018", "057", "119", "123"])
def test_a_verdict_is_that_of_a_session_on_the_same_texts(cases: list[Json], tmp_path: Path, name: str) -> None:
    """What is scored is what a diagnosis of the same texts as a bundle brings: research changes none of it."""
    settings = Settings(tmp_path / "home", load_settings("playbook").cache, "playbook", "", "")
    case = next(each for each in cases if each["id"].startswith(name))
    version = str(case["flags_version"])
    source = asyncio.run(obtain(version, cache=settings.cache))
    worked = by_model(settings)(given(case), source)
    scored = assess(given(case), source)
    assert scored["kind"] == "cause"
    assert {key: worked[key] for key in scored} == scored


def test_a_model_is_scored_by_what_passed_the_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two incidents it proposes in one what the checks take, in the other what they refuse, up to its limit."""
    case = {
        "complaint": "It stops at once.",
        "launch_args": "python -m sglang.launch_server --model-path m --chunked-prefill-size 65536",
        "flags_version": "0.5.9",
        "evidence": ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."],
        "expected": {"root_cause": "config.misspelled_flag"},
    }
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(json.dumps(case))
    change = {"to": "8192", "why": "w", "evidence": ["E2"]}
    begun = [calls(("look", {})), calls(("weigh", {}))]
    asked: list[Scripted] = []

    def model(_settings: Settings, name: str, _notice: object) -> Scripted:
        flag = ("--made-up-flag", "--chunked-prefill-size")[not asked]
        proposed = calls(("propose", {"changes": [change | {"flag": flag}]}))
        last = say("done [E2].") if not asked else LimitReached("the limit of 60 turns is reached.")
        asked.append(Scripted(*begun, proposed, last, say("summed up")))
        asked[-1].name = name
        return asked[-1]

    monkeypatch.setattr("agent.run.make_model", model)
    settings = Settings(tmp_path / "home", load_settings("playbook").cache, "m", "http://127.0.0.1:9/v1", "")
    scored = evaluate(load(tmp_path), judge=by_model(settings))
    right, wrong = scored["cases"]
    assert right["got"]["label"] == wrong["got"]["label"] != ""
    assert [change["flag"] for change in right["got"]["changes"]] == ["--chunked-prefill-size"]
    assert wrong["got"]["changes"] == []
    assert {first["id"] for first, _ in Store(settings.home).heads()} == {right["session"], wrong["session"]}
    given = str(asked[0].requests[0].messages)
    assert "config.misspelled_flag" not in given


def test_a_model_needs_an_endpoint_and_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("SGLSCOUT_HOME", str(tmp_path / "home"))
    for words, said in (
        (["--model", "m"], "needs an endpoint"),
        (["--model", "m", "--offline"], "exclude each other"),
        (["--model", "from-host"], "no server"),
    ):
        ran = CliRunner().invoke(cli, ["eval", "cases", str(tmp_path), *words], standalone_mode=False)
        assert isinstance(ran.exception, UsageError)
        assert said in str(ran.exception)


@pytest.mark.parametrize(
    ("before", "after", "rejected"),
    [
        ("docker run --privileged --runtime nvidia --restart always --cpus 32 --cap-add SYS_NICE IMAGE", "--tp 8", []),
        ("numactl --interleave all python3 -m sglang.launch_server", "--tp 8", []),
        ("torchrun --nproc-per-node 8 -m sglang.launch_server", "--tp 8", []),
        ("python3 -m sglang.launch_server", "--mem-fraction-statik 0.9", ["--mem-fraction-statik"]),
        ("python3 -m sglang.launch_server", "--cuda-graph-max-bs-decode 8", ["--cuda-graph-max-bs-decode"]),
    ],
)
def test_options_of_the_launchers_around_a_server_are_not_its_own(before: str, after: str, rejected: list[str]) -> None:
    command = f"{before} --model-path /m/Qwen3-32B {after}".replace("IMAGE", "lmsysorg/sglang:v0.5.9 launch_server")
    given = {"complaint": "the server is slow", "launch_args": command, "flags_version": "0.5.9"}
    found = [fact.value for fact in unlisted(read_given(given), None) if fact.name == "rejected_flag"]
    assert found == rejected
