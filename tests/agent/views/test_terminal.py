"""What an operator reads at three in the morning: the answer first, nothing cut, the same without colour."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.case import Case
from agent.merge import compare
from agent.views import paper, tables, terminal, writeup
from agent.views.console import PlainConsole
from agent.views.first import first_screen
from agent.views.layout import columned
from agent.views.sections.blocks import Code, Quotes, quoted
from agent.views.tables import told_options
from agent.views.words import FILL_IN, checked, plainly, typed
from tests.agent.views.conftest import HOSTS
from tests.program import Done, sglscout
from transcripts.records import Record

Json = dict[str, Any]
SCREEN = 24
LINES_OF_ALL = 250


def _printed(document: Json, width: int, *, colour: bool = False) -> str:
    out = io.StringIO()
    console = PlainConsole(
        file=out, width=width, highlight=False, force_terminal=colour, color_system="standard" if colour else None
    )
    console.print(terminal.render(document))
    return out.getvalue()


def _commands(document: Json) -> list[str]:
    each = [
        *(line for stage in document["stages"] for line in stage["commands"]),
        *document["rollback"].get("commands", []),
    ]
    return [line for command in each for line in command.splitlines()]


@pytest.mark.parametrize("name", HOSTS)
def test_lines_fit_80_columns_except_commands_and_none_ends_in_blanks(
    demo: Callable[[str], Done], made: Callable[[str], Json], name: str
) -> None:
    commands = set(_commands(made(name)))
    lines = demo(name).out.splitlines()
    assert [line for line in lines if len(line) > 80 and line not in commands] == []
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_word_is_cut_at_any_width(made: Callable[[str], Json], name: str, width: int) -> None:
    wide = {word for line in terminal.render(made(name)).lines(10_000) for word in line.text.split()}
    narrow = {word for line in _printed(made(name), width).splitlines() for word in line.split()}
    rules = {word for word in narrow if set(word) <= {"-"}}
    assert narrow - wide - rules - {"…"} == set()


@pytest.mark.parametrize("name", ["slots", "kv", "prefix"])
def test_commands_are_printed_as_they_must_be_typed(
    demo: Callable[[str], Done], made: Callable[[str], Json], name: str
) -> None:
    lines = demo(name).out.splitlines()
    commands = _commands(made(name))
    assert commands
    assert [command for command in commands if command not in lines] == []


@pytest.mark.parametrize("name", ["slots", "kv", "prefix"])
def test_answer_then_change_then_commands_then_proof(demo: Callable[[str], Done], name: str) -> None:
    lines = demo(name).out.splitlines()
    titles = ["Change", "Apply", "Check", "Roll back", "Answer", "Options", "Arithmetic"]
    places = [lines.index(title) for title in titles]
    assert places == sorted(places)
    assert places[0] < SCREEN + 2


@pytest.mark.parametrize("name", HOSTS)
def test_the_first_screen_holds_what_must_be_known_first(made: Callable[[str], Json], name: str) -> None:
    document = made(name)
    lines = [line.text for line in first_screen(document, 80)]
    assert len(lines) <= SCREEN
    assert max(len(line) for line in lines) <= 80
    labels = [line[:10].strip() for line in lines if line[:10].strip()]
    order = [label for label in ("Asked", "Answer", "Cause", "Change", "Costs", "Watch", "Session") if label in labels]
    assert [label for label in labels if label in order] == order
    text = " ".join(" ".join(lines).split())
    assert document["complaint"] in text
    assert "358 GB of host RAM, which fits" in text
    assert "running requests 1.00x" in text
    assert f"certainty {document['diagnosis']['certainty']:.2f}" in text
    for change in document["changes"]:
        assert change["flag"] in text
    assert ("Next wall" in labels) == bool(document["walls"])
    for command in (document["ids"]["ask"], document["ids"]["writeup"]):
        assert command in text
    assert ("sglscout verify ses_" in text) == bool(document["changes"])


@pytest.mark.parametrize("name", HOSTS)
def test_a_diagnosis_is_shorter_than_all_there_is(made: Callable[[str], Json], name: str) -> None:
    short = terminal.render(made(name)).lines(80)
    assert len(short) <= LINES_OF_ALL
    whole = " ".join(line.text for line in terminal.render(made(name), whole=True).lines(80))
    assert len(whole) > sum(len(line.text) for line in short)
    assert "all of them, and what each risks" not in whole


def test_a_long_complaint_is_cut_between_words_and_said_to_be(made: Callable[[str], Json]) -> None:
    complaint = "requests queue up " * 40
    lines = [line.text for line in first_screen({**made("slots"), "complaint": complaint}, 80)]
    assert len(lines) <= SCREEN
    assert any(line.endswith("…") for line in lines)


def test_a_complaint_that_asks_nothing_about_ram_gets_no_answer_about_it(
    made: Callable[[str], Json], records: Callable[[str], list[Record]]
) -> None:
    first, *rest = records("slots")
    asked = first.model_copy(update={"text": "requests queue up while the cache is half empty"})
    case = Case.fold([asked, *(record for record in rest if record.type not in ("compared", "claimed"))])
    assert not any(option["answers"] for option in compare(case).options if "answers" in option)
    document = {**made("slots"), "complaint": case.complaint, "options": list(compare(case).options), "claims": []}
    assert "HiCache" not in " ".join(line.text for line in first_screen(document, 80))


@pytest.mark.parametrize("name", HOSTS)
def test_colour_adds_nothing_that_is_not_said_without_it(made: Callable[[str], Json], name: str) -> None:
    from rich.text import Text

    coloured = Text.from_ansi(_printed(made(name), 80, colour=True)).plain.splitlines()
    assert coloured == _printed(made(name), 80).splitlines()


@pytest.mark.parametrize("name", HOSTS)
def test_hypotheses_that_nothing_speaks_for_have_no_row(made: Callable[[str], Json], name: str) -> None:
    part = terminal.part(made(name), "hypotheses")
    rows = [line.text for line in part.lines(80)] if part else []
    unraised = [row["label"] for row in made(name)["hypotheses"] if not row["reasons_for"]]
    assert not [label for label in unraised for line in rows if line.startswith(f"  {label}:")]


WORDS = st.text(alphabet="abc-_/.", min_size=0, max_size=18)


@given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=5), st.integers(min_value=20, max_value=130))
def test_no_column_is_narrower_than_its_words(rows: list[tuple[str, str, str]], width: int) -> None:
    lines = columned(["first", "second", "third"], rows, width)
    printed = [word for line in lines for word in line.text.replace(";", " ").split()]
    assert {word for row in rows for word in row if word} <= set(printed)


CRASH = """\
[2026-03-03 10:00:01] server_args=ServerArgs(model_path='/models/Qwen3-32B', tp_size=2, mem_fraction_static=0.95)
[2026-03-03 10:00:20 TP0] Load weight begin. avail mem=78.50 GB
[2026-03-03 10:01:20 TP0] Load weight end. type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=47.60 GB
[2026-03-03 10:01:22 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=3.58 GB
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 79.11 GiB of which 1.10 GiB is free.
Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 2.00 GiB
"""


def test_a_crash_log_gets_words_to_type_and_the_way_back(tmp_path: Path) -> None:
    (tmp_path / "crash.log").write_text(CRASH)
    words = ("diagnose", "it dies at start", "--bundle", str(tmp_path / "crash.log"))
    unknown = sglscout(tmp_path / "home", *words).out
    flat = " ".join(unknown.split())
    assert "Change lower --mem-fraction-static to 0.9 (so far 0.95), NOT CONFIRMED" in flat
    assert "its rules not checked" in flat
    assert "the version of SGLang is not known. Name a version or a tree. Here that is --sglang-version V" in flat
    assert "0 of 0" not in unknown
    told = sglscout(tmp_path / "home", *words, "--sglang-version", "0.5.9").out
    apply = told.partition("\nApply\n")[2].partition("\n\n")[0]
    assert "in the launch command, which was not seen as a file: --mem-fraction-static 0.9, --cuda" in " ".join(
        apply.split()
    )
    assert not [line for line in apply.splitlines() if line.startswith("#")]
    back = told.partition("\nRoll back\n")[2].partition("\n\n")[0]
    assert "as before: --mem-fraction-static 0.95" in " ".join(back.split())
    assert max(len(line) for line in told.splitlines()) <= 80


def test_facts_are_told_in_words() -> None:
    told = plainly("the pool is full (usage_p95 0.98 fraction; queue_p95 14 requests; no_such_name 3)")
    assert told == (
        "the pool is full (95th percentile of token usage: 0.98; 95th percentile of #queue-req: 14 requests; "
        "no_such_name 3)"
    )


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("width", [80, 120])
def test_the_write_up_on_a_terminal_fits_it_and_has_every_section(
    made: Callable[[str], Json], name: str, width: int
) -> None:
    document = made(name)
    lines = [line.text for line in paper.page(document).lines(width)]
    code = {
        line
        for section in writeup.sections(document)
        for block in section.blocks
        if isinstance(block, Code | Quotes)
        for line in (quoted(block) if isinstance(block, Quotes) else block.text).splitlines()
    }
    whole = [line for line in lines if len(line) > width and len(line.split()) > 1]  # one word is never cut
    assert [line for line in whole if line not in code] == []
    assert [section.title for section in writeup.sections(document) if section.title not in lines] == []


def test_the_hint_to_the_flags_names_the_version_that_was_read() -> None:
    options = [{"name": "--hicache-io-backend", "does": "moves pages"}]
    assert told_options(options, version="0.5.9", whole=False) == [
        "flags that tune HiCache: 1, see sglscout flags hicache --version 0.5.9"
    ]


def test_a_change_says_what_it_passed_and_where_nothing_could_check_it() -> None:
    found = {"in": "0.4.1", "at": "", "rules": "not checked"}
    assert checked({"kind": "flag", "valid": found}) == "valid in 0.4.1, its rules not checked"
    placed = found | {"at": "srt/server_args.py:3145"}
    assert checked({"kind": "flag", "valid": placed}).startswith("valid in 0.4.1 (srt/server_args.py:3145), its rules")
    open_ = {"kind": "flag", "valid": None, "confirm_by": FILL_IN}
    assert checked(open_) == "yours to fill in: nothing here checks what you give it"
    assert "no source says more" in checked({"kind": "host", "valid": None})


def test_a_variable_is_typed_as_one() -> None:
    on = {"kind": "env", "do": "set", "flag": "SGLANG_ENABLE_SPEC_V2", "from": None, "to": "1"}
    half = {"kind": "flag", "do": "lower", "flag": "--page-size", "from": 64, "to": 32}
    switch = {"kind": "flag", "do": "set", "flag": "--enable-metrics", "from": None, "to": None}
    assert typed([on, half, switch]) == "SGLANG_ENABLE_SPEC_V2=1, --page-size 32, --enable-metrics"
    assert typed([on, half], "from") == "without SGLANG_ENABLE_SPEC_V2, --page-size 64"


def test_a_risk_is_said_of_the_option_that_has_it_and_not_of_each_combination(made: Callable[[str], Json]) -> None:
    said = [line.text for line in tables.options(made("kv"), 400, whole=True) if line.text.startswith("  - ")]
    quality = [text for text in said if "quality: compare answers" in text]
    assert [text.partition(":")[0].strip() for text in quality] == ["- FP8 KV cache"]


def test_a_change_of_the_container_names_no_option_that_was_looked_up(tmp_path: Path) -> None:
    (tmp_path / "launch.txt").write_text("python -m sglang.launch_server --model-path /m --tp 2\n")
    (tmp_path / "log.txt").write_text(
        "NCCL WARN Error: failed to extend /dev/shm/nccl-abc to 9637892 bytes\n"
        "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-abc (size 9637888)\n"
        "RuntimeError: NCCL error: unhandled system error\n"
    )
    done = sglscout(tmp_path / "home", "diagnose", "two GPUs die, one works", "--bundle", str(tmp_path))
    assert "set --shm-size" in done.out
    assert "was looked up" not in " ".join(done.out.split())


def test_a_change_that_the_operator_fills_in_costs_a_restart_all_the_same(made: Callable[[str], Json]) -> None:
    document = made("slots")
    assert "1 restart." in " ".join(line.text for line in first_screen(document, 80))
    unfilled = " ".join(" ".join(line.text for line in first_screen(document | {"stages": []}, 80)).split())
    assert "Costs a restart, once what is yours is filled in" in unfilled


def test_what_stands_on_the_first_screen_is_not_told_again_below_it(
    made: Callable[[str], Json], tmp_path: Path
) -> None:
    """Where nothing is decided: no risk of a change that there is not, and each explanation once, with its reasons."""
    shown = " ".join(word for line in terminal.render(made("story")).lines(80) for word in line.text.split())
    assert "also a risk" not in shown
    for text in ("Live: ", "The strongest lead: ", "In a busy minute", "Not checked, since nothing of it was seen"):
        assert text not in shown
    (tmp_path / "dead.log").write_text(
        "Feb 11 03:12:40 gpu1 kernel: NVRM: Xid (PCI:0000:a1:00): 79, pid=41233, GPU has fallen off the bus.\n"
    )
    told = sglscout(tmp_path / "home", "diagnose", "it died at night", "--bundle", str(tmp_path / "dead.log")).out
    assert told.count("The driver reports an error of a GPU") + told.count("the driver reports an error") == 1
    assert told.count("SGLang of unknown version") == 1
    assert told.count("the version of SGLang is not known") < 2
    assert "one task" not in told  # none read anything
