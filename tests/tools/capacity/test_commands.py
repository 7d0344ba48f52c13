"""`plan` and `eval kv` as an operator types them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.commands.capacity import eval_kv, plan
from tests.tools.capacity.boxes import KIMI
from transcripts.errors import UsageError

RUN = CliRunner()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model's folder: config and the index that says how large the checkpoint is."""
    (tmp_path / "config.json").write_text(json.dumps(KIMI))
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 595_100_000_000}}))
    return tmp_path


def test_plan_of_a_config_is_one_document(model: Path) -> None:
    words = [
        "--config",
        str(model),
        "--gpus",
        "8x96",
        "--set",
        "mem-fraction-static=0.88",
        "--ram-gib",
        "396",
        "--json",
    ]
    done = RUN.invoke(plan, words, catch_exceptions=False)
    document = json.loads(done.stdout)
    assert document["v"] == 1
    chosen = next(lever for lever in document["levers"] if lever["name"] == "as set")
    low, high = chosen["tokens_range"]
    assert low < 159209 < high


def test_plan_as_text_with_its_sums_and_a_picture(model: Path) -> None:
    picture = model / "plan.svg"
    words = ["--config", str(model), "--gpus", "8x96", "--explain", "--mix", "1500:1000", "--svg", str(picture)]
    done = RUN.invoke(plan, words, catch_exceptions=False)
    assert "pool_budget = after_weights - before_weights * (1 - fraction)" in done.stdout
    assert picture.read_text().startswith("<svg")


def test_a_hostile_name_in_a_config_moves_no_cursor(model: Path) -> None:
    (model / "config.json").write_text(json.dumps(KIMI | {"architectures": ["\x1b[31mEvil\u202e"], "model_type": "x"}))
    done = RUN.invoke(plan, ["--config", str(model), "--gpus", "8x96", "--all"], catch_exceptions=False)
    assert "Evil" in done.stdout
    assert not set("\x1b\u202e") & set(done.stdout)


def test_text_fits_the_terminal_and_says_what_was_assumed(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = ["--config", str(model), "--gpus", "8x96", "--explain", "--all", "--mix", "1500:1000"]
    shown = RUN.invoke(plan, words, catch_exceptions=False).stdout.splitlines()
    assert [line for line in shown if len(line) > 80 and " " in line.strip()] == []
    text = " ".join(shown)
    assert "taken as 97,887 MiB = 95.59 GiB" in text
    assert "--ram-gib gives it" in " ".join(text.split())
    assert "host memory in GB (10^9)" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gpus", "7x96"], "tp 7 does not divide"),
        (["--set", "page-size=0"], "--page-size 0: it is at least 1"),
        (["--set", "context-length=abc"], "takes int"),
        (["--set", "speculative-algorithm=NOPE"], "takes EAGLE"),
        (["--set", "dcp-size=2"], "0.5.9 has no --dcp-size"),
        (["--sglang-version", "abc"], "no version of SGLang"),
        (["--mix", "nan:1"], "not PROMPT:OUTPUT"),
        (["--mix", "1:inf"], "not PROMPT:OUTPUT"),
        (["--mix", "1:1:nan"], "not PROMPT:OUTPUT"),
        (["--mix", "1e300:1"], "not PROMPT:OUTPUT"),
        (["--set", "page-size=" + "9" * 400], "it is at least 1"),
        (["--set", "max-running-requests=1e6"], "takes int"),
        (["--set", "kv-cache-dtype="], "is not FLAG=VALUE"),
        (["--set", "disable-radix-cache=false"], "takes no value"),
        (["--sglang-version", "9" * 400], "no version of SGLang"),
    ],
)
def test_what_the_version_would_not_start_with_is_a_usage_error(model: Path, words: list[str], message: str) -> None:
    done = RUN.invoke(plan, ["--config", str(model), "--gpus", "8x96", *words])
    assert isinstance(done.exception, UsageError)
    assert message in str(done.exception)


def test_a_fraction_beyond_the_automatic_one_is_what_the_story_needed(model: Path) -> None:
    words = ["--config", str(model), "--gpus", "8x96", "--set", "speculative-algorithm=EAGLE3", "--json"]
    document = json.loads(RUN.invoke(plan, words, catch_exceptions=False).stdout)
    automatic = next(entry for entry in document["arithmetic"] if entry["name"] == "automatic_fraction")
    assert automatic["value"] == pytest.approx(0.752, abs=0.002)
    assert document["levers"][0]["fits"] is False


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "one of --host, --bundle and --config"),
        (["--gpus", "8x96"], "one of --host"),
        (["--mix", "many", "--host", "local"], "PROMPT:OUTPUT"),
    ],
)
def test_wrong_words_get_one_line(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        RUN.invoke(plan, words, catch_exceptions=False)


def test_a_config_needs_cards(model: Path) -> None:
    with pytest.raises(UsageError, match="--gpus"):
        RUN.invoke(plan, ["--config", str(model)], catch_exceptions=False)


def test_a_config_that_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"a": 1,\n "b": ]}')
    with pytest.raises(UsageError, match=r"cannot be read as JSON \(line 2, column 7\)"):
        RUN.invoke(plan, ["--config", str(tmp_path), "--gpus", "8x96"], catch_exceptions=False)


def test_eval_kv_prints_one_document(tmp_path: Path) -> None:
    file = tmp_path / "starts.csv"
    columns = ["id", "arch_src", "kv_kind", "max_total_num_tokens", "kv_size_gb", "kv_layers", "head_dim"]
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerows([columns, ["a", "known", "mla", "159209", "10.42", "61", "512+64"]])
    document = json.loads(RUN.invoke(eval_kv, [str(file), "--json"], catch_exceptions=False).stdout)
    assert document["size"] == {"n": 1, "inside_rounding": 1} | {
        key: pytest.approx(0, abs=0.0005) for key in ("median", "p90", "max")
    }
    assert document["rows"][0]["id"] == "a"


def test_eval_kv_of_an_empty_file(tmp_path: Path) -> None:
    file = tmp_path / "starts.csv"
    file.write_text("")
    with pytest.raises(UsageError, match="no rows"):
        RUN.invoke(eval_kv, [str(file)], catch_exceptions=False)
