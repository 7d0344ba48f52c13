from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agent.cli import cli
from agent.commands import source as named
from agent.views.watching import download_progress
from tests.tools.source.trees import cache, tree
from tools.source.errors import NoSuchRelease
from transcripts.errors import ScoutError, UsageError


@pytest.fixture(autouse=True)
def _one_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLSCOUT_CACHE", str(cache()))


def document(*arguments: str) -> dict[str, Any]:
    ran = CliRunner().invoke(cli, [*arguments, "--json"], standalone_mode=False)
    assert ran.exception is None, ran.output
    found: dict[str, Any] = json.loads(ran.stdout)
    assert found["v"] == 1
    return found


def test_flags_are_one_document() -> None:
    found = document("flags", "hicache-size", "--version", "0.5.9")
    assert found["version"] == "0.5.9"
    assert found["flags"][0] == {
        "names": ["--hicache-size"],
        "dest": "hicache_size",
        "type": "int",
        "default": 0,
        "choices": None,
        "required": False,
        "help": tree("0.5.9").catalogue().get("--hicache-size").help,
        "deprecated": None,
        "source": "srt/server_args.py:4266",
    }
    assert len(document("flags", "--version", "0.5.23")["flags"]) == 531


def test_rules_are_one_document() -> None:
    found = document("rules", "hicache-ratio", "--version", "0.5.9")
    assert {"kind", "condition", "effect", "flags", "source", "quote"} <= set(found["rules"][0])


def printed(*arguments: str) -> str:
    ran = CliRunner().invoke(cli, [*arguments], standalone_mode=False)
    assert ran.exception is None, ran.output
    return ran.stdout


def test_rules_of_a_flag_are_spelled_out_and_what_only_follows_is_short() -> None:
    asked = ("rules", "hicache-ratio", "--version", "0.5.9")
    short, full = printed(*asked), printed(*asked, "--all")
    own, _, others = short.partition("with --disaggregation-decode-enable-offload-kvcache")
    assert "host_mem.available - ten_gb" in own
    assert full.startswith(own.rstrip())
    words = " ".join(others.split())
    for said in (
        "disable-radix-cache are mutually exclusive",
        "effective_decode_backend == 'fa3'",
        "hicache_mem_layout == 'page_first_direct' and hicache_io_backend == 'kernel'",
        "hicache_storage_backend == 'mooncake'",
        "'MiMoV2FlashForCausalLM' in model_arch",
        "'Step3p5ForCausalLM' in model_arch",
        "Spec v2 and decode offload kv cache are incompatible",
    ):
        assert said in words
    assert len(short.splitlines()) < len(full.splitlines()) / 2
    assert "srt/managers/io_struct.py" in full
    assert "srt/managers/io_struct.py" not in short
    assert "further away: --hicache-storage-backend" in words


def test_flags_that_only_mention_a_word_are_named_apart() -> None:
    text = " ".join(printed("flags", "hicache", "--version", "0.5.9").split())
    assert "--enable-hierarchical-cache (srt/server_args.py:4255) switch" in text
    assert text.endswith("in the help text of: --admin-api-key (srt/server_args.py:3621)")


def test_check_reads_a_command() -> None:
    command = "sglang serve --model-path m --max-num-seqs 4"
    assert document("check", command, "--version", "0.5.9")["problems"][0]["kind"] == "foreign"


@pytest.mark.parametrize(
    "text",
    [
        "[Service]\nExecStart=/v/sglang serve --model-path a/b \\\n  --tp 8 --page-size 0\n\n[Install]\nAlias=y\n",
        "services:\n  llm:\n    command: >-\n      sglang serve --model-path m\n      --page-size 0 --tp 8\n",
        '#!/bin/bash\nset -e\nA=(--page-size 0)\npython -m sglang.launch_server --model-path m --tp 8 "${A[@]}"\n',
        "sglang serve --model-path a/b \\\n  --page-size 0 \\\n  --tp 8",
        "docker run --gpus all lmsysorg/sglang:v0.5.9 --model-path a/b --page-size 0 --tp 8",
        "model-path: a/b\npage-size: 0\ntp: 8\n",
        "[Container]\nImage=a:1\nExec=sglang serve --model-path a/b --page-size 0 \\\n  --tp 8\n",
    ],
)
def test_check_reads_the_file_that_holds_the_command(text: str) -> None:
    problems = document("check", text, "--version", "0.5.9")["problems"]
    of_the_command = [(each["kind"], each["flag"]) for each in problems if each["kind"] != "around"]
    assert of_the_command == [("value", "--page-size"), ("abbreviation", "--tp")]


POD = """
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      containers:
      - name: llm
        image: lmsysorg/sglang:{tag}
        command: ["python3", "-m", "sglang.launch_server"]
        args: ["--model-path", "a/b", "--hicache-sise", "3"]
"""


COMPOSED = """
services:
  llm:
    image: lmsysorg/sglang:v0.5.9-cu129-amd64
    command: python3 -m sglang.launch_server --model-path a/b --hicache-sise 3
"""


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (COMPOSED, "0.5.9"),
        (POD.format(tag="v0.5.16"), "0.5.16"),
        ("we run sglang 0.5.9:\npython -m sglang.launch_server --model-path a/b --hicache-sise 3\n", "0.5.9"),
        ("docker run --gpus all lmsysorg/sglang:v0.5.9 --model-path a/b --hicache-sise 3", "0.5.9"),
        ("pip install 'sglang[all]==0.4.6'\npython -m sglang.launch_server --model-path a/b --hicache-sise 3", "0.4.6"),
    ],
)
def test_a_text_that_names_its_version_is_checked_against_it(text: str, version: str) -> None:
    found = document("check", text)
    assert found["version"] == version
    assert [each["flag"] for each in found["problems"]] == ["--hicache-sise"]


@pytest.mark.parametrize(
    ("query", "version", "name"),
    [
        ("hicache", "0.5.9", "--enable-hierarchical-cache"),
        ("hicache", "0.4.6", "--enable-hierarchical-cache"),
        ("nsa-prefill", "0.5.23", "--dsa-prefill-backend"),
        ("dsa-prefill", "0.5.9", "--nsa-prefill-backend"),
    ],
)
def test_a_flag_is_found_by_the_name_that_another_version_gives_it(query: str, version: str, name: str) -> None:
    found = [each["names"][0] for each in document("flags", query, "--version", version)["flags"]]
    assert name in found
    assert "--admin-api-key" not in found[: found.index(name)]


def test_a_text_that_names_two_versions_is_asked_about() -> None:
    ran = CliRunner().invoke(cli, ["check", POD.format(tag="v0.5.16") + "# was sglang:v0.5.9"], standalone_mode=False)
    assert isinstance(ran.exception, UsageError)
    assert "0.5.16, 0.5.9" in str(ran.exception)


@pytest.mark.parametrize(
    "words",
    [
        ("check", "--host", "a", "--host", "b"),
        ("collect", "--host", "a", "--host", "b", "-o", "case.tar.gz"),
        ("plan", "--host", "a", "--host", "b"),
        ("doctor", "--model-from-host", "--host", "a", "--host", "b"),
        ("flags", "page", "--version", "a", "--version", "b"),
    ],
)
def test_of_several_values_none_is_dropped_in_silence(words: tuple[str, ...]) -> None:
    ran = CliRunner().invoke(cli, words, standalone_mode=False)
    assert isinstance(ran.exception, UsageError)
    assert "is given 2 times (a, b)" in str(ran.exception)


def test_upgrade_is_one_document() -> None:
    found = document("upgrade", "0.5.9", "0.5.23", "--for", "sglang serve --model-path m --cuda-graph-max-bs 8")
    assert found["problems"][0]["instead"] == "--cuda-graph-max-bs-decode"
    assert len(found["added"]) > 100


@pytest.mark.parametrize(
    "words",
    [
        ("upgrade", "0.5.9", "0.5.23"),
        (
            "upgrade",
            "0.5.9",
            "0.5.23",
            "--for",
            "sglang serve --model-path m --cuda-graph-max-bs 8 --enable-dp-attention",
        ),
        ("rules", "hicache-ratio", "--version", "0.5.9"),
        ("flags", "speculative", "--version", "0.5.23"),
        ("check", "sglang serve --model-path m --kv-cache-dtype x", "--version", "0.5.23"),
    ],
)
def test_text_is_folded_at_the_width_of_the_terminal(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = CliRunner().invoke(cli, words, standalone_mode=False).stdout.splitlines()
    assert shown
    assert [line for line in shown if len(line) > 80 and " " in line.strip()] == []


def test_a_step_back_is_called_a_downgrade() -> None:
    assert document("upgrade", "0.5.23", "0.5.9")["direction"] == "downgrade"
    shown = CliRunner().invoke(cli, ["upgrade", "0.5.23", "0.5.9"], standalone_mode=False).stdout
    assert shown.startswith("downgrade from sglang 0.5.23 to 0.5.9\n")


@pytest.mark.parametrize(
    "words", [("flags",), ("rules", "page-size"), ("check", "sglang serve"), ("flags", "--version", "9.9.9")]
)
def test_an_error_names_the_options_of_the_command_at_hand(words: tuple[str, ...]) -> None:
    ran = CliRunner().invoke(cli, words, standalone_mode=False)
    assert isinstance(ran.exception, ScoutError)
    assert "--version V or --source PATH" in str(ran.exception)


@pytest.mark.parametrize("command", [("flags", "page-size"), ("check", "sglang serve --model-path m")])
@pytest.mark.parametrize("option", ["--version", "--sglang-version"])
def test_the_version_is_named_alike_everywhere(command: tuple[str, ...], option: str) -> None:
    ran = CliRunner().invoke(cli, [*command, option, "0.5.9"], standalone_mode=False)
    assert ran.exception is None


@pytest.mark.parametrize(
    "command", [("plan", "--config", "CONFIG", "--gpus", "8x96"), ("diagnose", "crash", "--bundle", "CONFIG")]
)
@pytest.mark.parametrize("option", ["--version", "--sglang-version"])
def test_a_release_that_the_index_does_not_have_stops_the_command(
    command: tuple[str, ...], option: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def refused(*_: object) -> None:
        raise NoSuchRelease("the package index has no sglang 9.9.9 (newest: 0.5.23).", "Name another version.")

    monkeypatch.setattr(named, "open_source", refused)
    config = tmp_path / "config.json"
    config.write_text("{}")
    words = [str(config) if word == "CONFIG" else word for word in command]
    ran = CliRunner().invoke(cli, [*words, option, "9.9.9"], standalone_mode=False)
    assert isinstance(ran.exception, NoSuchRelease)


def test_a_check_needs_a_command() -> None:
    ran = CliRunner().invoke(cli, ["check", "--version", "0.5.9"], standalone_mode=False)
    assert isinstance(ran.exception, UsageError)


def test_progress_is_a_line_at_start_and_end_where_no_terminal_is() -> None:
    out = io.StringIO()
    progress = download_progress(out)
    for done in (0, 2_000_000, 4_000_000):
        progress("sglang 9.9.9", done, 4_000_000)
    progress("unpack sglang 9.9.9", 0, None)
    for done in (1_000_000, 2_000_000):
        progress("tree of the host", done, None)
    assert out.getvalue().splitlines() == [
        "sglang 9.9.9: 0.0 of 4.0 MB",
        "sglang 9.9.9: 4.0 of 4.0 MB",
        "unpack sglang 9.9.9",
        "tree of the host",
    ]


def test_cached_trees_are_listed() -> None:
    tree("0.5.9")
    assert "0.5.9" in [each["version"] for each in document("source", "list")["trees"]]


def test_an_upgrade_takes_the_command_as_third_argument_and_says_what_choices_came_and_went(tmp_path: Path) -> None:
    def shown(*words: str) -> str:
        return CliRunner().invoke(cli, ["upgrade", "0.5.9", "0.5.23", *words], standalone_mode=False).stdout

    command = "sglang serve --model-path m --stream-output"
    assert shown(command) == shown("--for", command)
    assert "--stream-output is called --incremental-streaming-output" in shown(command)
    listed = " ".join(shown().split())
    assert "choices --kv-cache-dtype: + mxfp8, nvfp4, fp4_mx_block16; - fp4_e2m1" in listed
    assert "choices --speculative-algorithm: any value; no list any more" in listed


def test_a_command_with_notes_alone_is_said_to_be_taken() -> None:
    ran = CliRunner().invoke(cli, ["check", "sglang serve --model-path m --tp 8", "--version", "0.5.9"])
    assert ran.stdout.endswith("sglang 0.5.9 takes this command as it stands.\n")
    assert "note --tp: read as --tp-size" in ran.stdout


@pytest.mark.parametrize(
    ("command", "version", "taken"),
    [
        (
            "vllm serve a/b --max-num-seqs 256 --kv-cache-dtype fp8 --enable-prefix-caching --seed=1",
            "0.5.9",
            "--model-path a/b --max-running-requests 256 --kv-cache-dtype VALUE --random-seed 1",
        ),
        (
            "python -m vllm.entrypoints.openai.api_server --model m --enforce-eager",
            "0.5.9",
            "--model m --disable-cuda-graph",
        ),
        ("text-generation-launcher --model-id m --num-shard 2", "0.5.23", "--model-path m --tp-size 2"),
    ],
)
def test_a_command_of_another_engine_is_told_as_sglang_takes_it(command: str, version: str, taken: str) -> None:
    first = document("check", command, "--version", version)["problems"][0]
    assert (first["kind"], first["severity"]) == ("foreign", "error")
    assert first["instead"] == f"python3 -m sglang.launch_server {taken}"
