"""Launch commands of real shapes: read, written back, changed, and changed back."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.advice import Change, Launch, LaunchUnreadable, launch_from, launch_in, parse_launch, patch
from transcripts.facts import Evidence

FOLDER = Path(__file__).with_name("launches")
SHAPES: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("shapes.yaml").read_text("utf-8"))
EXPECTED: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "expected.yaml").read_text("utf-8")) | SHAPES
NAMES = sorted(EXPECTED)


def file_text(name: str) -> str:
    """A file of the folder, or one of the shapes that stand together in one."""
    return str(SHAPES[name]["text"]) if name in SHAPES else (FOLDER / name).read_bytes().decode()


def _launch(name: str) -> Launch:
    return parse_launch(EXPECTED[name]["form"], file_text(name))


def _set(flag: str, value: str | None) -> Change:
    return Change("flag", "set", flag, None, value)


def test_there_are_forty_of_every_kind_of_file() -> None:
    assert len(NAMES) >= 40
    assert {row["form"] for row in EXPECTED.values()} == {
        "systemd", "quadlet", "docker", "compose", "kubernetes", "script", "shell", "config",
    }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_reads_what_the_file_holds(name: str) -> None:
    launch, expected = _launch(name), EXPECTED[name]
    flags = {flag.name: flag.value for flag in launch.flags}
    assert {flag: flags.get(flag) for flag in expected["flags"]} == expected["flags"]
    if expected.get("wrapper") is not None:
        assert list(launch.wrapper) == expected["wrapper"]
    if "name" in expected:
        assert launch.name == expected["name"]


@pytest.mark.parametrize("name", NAMES)
def test_unchanged_is_the_same_bytes(name: str) -> None:
    launch = _launch(name)
    assert launch.written() == file_text(name)
    assert [launch.text[word.start : word.end] for word in launch.words]


@pytest.mark.parametrize("name", NAMES)
def test_a_value_set_and_set_back_is_the_same_bytes(name: str) -> None:
    """One value is replaced where it stands; nothing else in the file moves."""
    from tools.advice.edits import set_flag

    launch = _launch(name)
    valued = [flag for flag in launch.flags if len(flag.values) == 1]
    flag = next((one for one in valued if one.value.isdecimal()), valued[-1])
    changed = launch.written(set_flag(launch, flag.name, ["17"]))
    again = parse_launch(launch.form, changed)
    assert [(one.name, "17" if one.name == flag.name else one.value) for one in launch.flags] == [
        (one.name, one.value) for one in again.flags
    ]
    if flag.value.isdecimal():
        assert again.written(set_flag(again, flag.name, list(flag.values))) == launch.text


@pytest.mark.parametrize("name", NAMES)
def test_an_option_added_is_read_and_removed_again(name: str) -> None:
    from tools.advice.edits import remove_flag, set_flag

    launch = _launch(name)
    text = launch.written(set_flag(launch, "--max-queued-requests", ["72"]))
    added = parse_launch(launch.form, text)
    assert added.options.count("--max-queued-requests") + added.options.count("--max-queued-requests=72") == 1
    typed = added.flag("--max-queued-requests")
    assert typed is not None
    assert typed.value == "72"
    assert [flag.name for flag in added.flags[: len(launch.flags)]] == [flag.name for flag in launch.flags]
    back = parse_launch(launch.form, added.written(remove_flag(added, "--max-queued-requests")))
    assert back.argv == launch.argv


@pytest.mark.parametrize("name", NAMES)
def test_an_option_removed_leaves_the_others(name: str) -> None:
    from tools.advice.edits import remove_flag

    launch = _launch(name)
    flag = launch.flags[-1]
    left = parse_launch(launch.form, launch.written(remove_flag(launch, flag.name)))
    assert [one.name for one in left.flags] == [one.name for one in launch.flags if one.name != flag.name]
    kept = [word for other in launch.flags if other.name != flag.name for word in (other.name, *other.values)]
    assert [word for other in left.flags for word in (other.name, *other.values)] == kept


@pytest.mark.parametrize("name", NAMES)
def test_a_patch_shows_the_merged_command(name: str) -> None:
    launch = _launch(name)
    made = patch(launch, [_set("--max-running-requests", "72"), _set("--enable-cache-report", None)])
    added = [word for op, word in made.diff if op == "added"]
    assert "--enable-cache-report" in added
    assert made.argv_before == launch.argv
    assert made.rollback


@pytest.mark.parametrize(
    ("form", "flag", "text"),
    [
        ("config", "--ep-size", "tp-size: &ranks 8\nep-size: *ranks\nmodel-path: /m\n"),
        ("compose", "--ep", "services:\n  a:\n    command: [sglang, serve, --tp, &t '8', --ep, *t]\n"),
    ],
)
def test_an_alias_gives_way_to_the_value_and_its_anchor_stays(form: Any, flag: str, text: str) -> None:
    from tools.advice.edits import set_flag

    launch = parse_launch(form, text)
    typed = launch.flag(flag)
    assert typed is not None
    assert typed.value == "8"
    written = launch.written(set_flag(launch, flag, ["4"]))
    assert written == re.sub(r"\*\w+", "4" if form == "config" else '"4"', text)


def test_an_alias_of_more_than_a_word_is_not_edited() -> None:
    with pytest.raises(LaunchUnreadable, match="alias"):
        parse_launch("config", "model-path: /m\nlora: &l [a, b]\nlora-paths: *l\n")


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_text_whose_form_nobody_named_is_read_alike(name: str) -> None:
    launch = launch_in(file_text(name))
    assert launch is not None
    assert launch.options == _launch(name).options


def test_an_anchor_is_no_part_of_its_value() -> None:
    from tools.advice.edits import set_flag

    launch = parse_launch("config", "tp-size: &ranks 8\nmodel-path: /m\n")
    assert launch.flags[0].value == "8"
    assert launch.written(set_flag(launch, "--tp-size", ["4"])) == "tp-size: &ranks 4\nmodel-path: /m\n"


def test_the_spelling_of_the_operator_stays() -> None:
    from tools.advice.edits import set_flag

    launch = parse_launch("shell", "sglang serve --tp=\"8\" --page-size '64'")
    edits = [*set_flag(launch, "--tp-size", ["4"], ("--tp",)), *set_flag(launch, "--page-size", ["32"])]
    assert launch.written(edits) == "sglang serve --tp=\"4\" --page-size '32'"


def test_a_variable_that_is_one_value_adds_no_options() -> None:
    unit = "[Service]\nEnvironment=TP=8 'MORE=--tp 4'\nExecStart=/v/bin/sglang serve --model-path ${MODEL} --tp $TP"
    notes = parse_launch("systemd", f"{unit} --enable-metrics $MORE --page-size=1 ${{OTHER}}\n").notes
    assert notes == ("$MORE adds options: --tp 4", "${OTHER} may add options not seen here")


def test_text_without_a_server_is_refused_with_what_to_do() -> None:
    for form, text in (("systemd", "[Service]\nExecStart=/bin/true\n"), ("shell", "ls -l"), ("config", "[]")):
        with pytest.raises(LaunchUnreadable) as caught:
            parse_launch(form, text)  # type: ignore[arg-type]
        assert caught.value.hint


@pytest.mark.parametrize("end", ["\0", "\n"])
def test_process_words_are_parted_as_in_proc_or_as_a_probe_brings_them(end: str) -> None:
    words = ("python3", "-m", "sglang.launch_server", "--model-path", "/a b", "--tp", "8")
    launch = parse_launch("shell", "".join(word + end for word in words))
    assert launch.argv == ("python3", "-m", "sglang.launch_server", "--model-path", "/a b", "--tp", "8")


def test_a_long_log_is_no_launch_command() -> None:
    """Words of a log are not read as a shell script: that takes minutes and finds nothing that was typed."""
    command = "python3 -m sglang.launch_server --model-path /models/m --tp 8\n"
    assert launch_from([Evidence("E1", "pasted", "", "h", "", None, command)]) is not None
    assert launch_from([Evidence("E1", "pasted", "", "h", "", None, command + "a line of the log\n" * 20_000)]) is None


def test_what_argparse_prints_is_no_launch_command() -> None:
    text = (
        "usage: launch_server.py [-h] --model-path MODEL_PATH [--tokenizer-path TOKENIZER_PATH]\n"
        "                        [--max-running-requests MAX_RUNNING_REQUESTS]\n"
        "launch_server.py: error: unrecognized arguments: --enable-hicache --max-num-seqs 64\n"
    )
    assert launch_in(text) is None
    typed = "python -m sglang.launch_server --model-path /models/m --enable-hicache\n"
    assert launch_in(typed + text) is not None


LOGGED = """
[2026-12-02 03:00:00 TP0] Load weight begin. avail mem=78.50 GB, it can't say more
[2026-12-02 03:01:40 TP5] Scheduler hit an exception: Traceback (most recent call last):
  File "/sgl/python/sglang/srt/models/deepseek_v2.py", line 1520, in __init__
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB. GPU 5 has a total capacity of 79.10 GiB
"""
TYPED = "python3 -m sglang.launch_server --model-path /m --tp 8"
CONTINUED = "docker run --gpus all --name s \\\n  lmsysorg/sglang:v0.5.9 \\\n  sglang serve --model-path /m --tp 8"
PASTED = {
    "python": (TYPED, TYPED),
    "docker run": (f"docker run --gpus all lmsysorg/sglang:v0.5.9 {TYPED}",) * 2,
    "a prompt": (f"$ {TYPED}", TYPED),
    "root's prompt": (f"# {TYPED}", TYPED),
    "a prompt with a host": (f"root@gpu1:~# {TYPED}", TYPED),
    "a prompt in brackets, behind an environment": (f"(venv) [ops@gpu1 ~]$ {TYPED}", TYPED),
    "continued lines": (f"$ {CONTINUED}", CONTINUED),
    "indented": (f"    $ {TYPED}", TYPED),
    "traced": (f"+ {TYPED}", TYPED),
    "behind a journal's head": (f"Dec 02 03:00:00 gpu1 start.sh[812]: + {TYPED}", TYPED),
    "words in brackets behind it": (f"{TYPED} (container without --shm-size / --ipc=host)", TYPED),
    "settings above it": (f"$ export NCCL_DEBUG=INFO\n$ {TYPED}", f"export NCCL_DEBUG=INFO\n{TYPED}"),
    "a variable": (f"{TYPED} --port $PORT", f"{TYPED} --port $PORT"),
    "a script that was shown": (f"#!/bin/bash\nset -e\nexec {TYPED}", f"set -e\nexec {TYPED}"),
    "in quotes over lines": (f"bash -lc '\n  cd /opt\n  {TYPED}\n'",) * 2,
}


@pytest.mark.parametrize("quote", ["", "> "])
@pytest.mark.parametrize(
    "before", ["", "it can't start, see:\n\n", "[2026-12-01 02:00:00] Received sigquit from a child\n"]
)
@pytest.mark.parametrize("name", PASTED)
def test_a_command_in_a_log_ends_with_its_line_and_has_no_prompt(name: str, before: str, quote: str) -> None:
    pasted, expected = PASTED[name]
    text = "".join(f"{quote}{line}\n" for line in f"{before}{pasted}{LOGGED}".splitlines())
    launch = launch_in(text)
    assert launch is not None
    assert launch.text == f"{expected}\n"
    made = patch(launch, [_set("--tp", "16")])
    shown = "\n".join((made.text, *made.commands, *made.rollback))
    assert all(word not in shown for word in ("avail mem", "Traceback", "sigquit", "# python", "$ python", "$ docker"))
