"""The write-up: its order, its links, its bytes, and the machine checks that make it final."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.views import writeup
from agent.views.first import risk
from agent.views.html import html
from agent.views.markdown import markdown
from agent.views.sections.blocks import Block, Items, Paragraph, Section, Table
from agent.views.share import shared
from tests.agent.views.conftest import HOSTS
from tests.program import ROOT, command, environment, sglscout
from transcripts.facts import Evidence
from transcripts.records import Concluded, EvidenceTaken, Opened, Record, Said
from transcripts.redaction import Redactor
from transcripts.store import Store

Json = dict[str, Any]
ORDER = (
    "Summary", "Impact", "Timeline", "What one must know", "What was asked", "Evidence", "Hypotheses", "Assumptions",
    "What was wrong or is left open", "Options", "Decision", "What is known now", "The change", "Verification",
    "Follow-ups", "Appendix: commands", "Appendix: other commands", "Appendix: citations",
)  # fmt: skip
CLAIMING = ("Impact", "What is known now", "Decision", "Hypotheses", "What was asked", "The change")


def _section(document: Json, beginning: str) -> Section:
    return next(section for section in writeup.sections(document) if section.title.startswith(beginning))


def _paragraphs(blocks: list[Block]) -> list[Paragraph]:
    found: list[Paragraph] = []
    for block in blocks:
        if isinstance(block, Paragraph):
            found.append(block)
        elif isinstance(block, Items):
            found += block.items
    return found


@pytest.mark.parametrize("name", ["slots", "kv", "prefix"])
def test_sections_stand_in_the_order_of_a_reader(made: Callable[[str], Json], name: str) -> None:
    titles = [section.title for section in writeup.sections(made(name))]
    assert len(titles) == len(ORDER)
    assert [title.startswith(wanted) for title, wanted in zip(titles, ORDER, strict=True)] == [True] * len(ORDER)


@pytest.mark.parametrize("name", HOSTS)
def test_every_link_of_the_markdown_leads_to_a_heading(made: Callable[[str], Json], name: str) -> None:
    text = markdown(made(name))
    titles = [line.lstrip("#").strip().lower() for line in text.splitlines() if line.startswith("#")]
    headings = {re.sub(r"[^\w\s-]", "", title).replace(" ", "-") for title in titles}  # as Markdown makes ids of them
    links = re.findall(r"(?<!\\)\]\(#([^)]*)\)", text)
    assert len(links) > 40
    assert set(links) - headings == set()


@pytest.mark.parametrize("name", HOSTS)
def test_every_link_of_the_page_leads_to_an_id_that_is_there_once(made: Callable[[str], Json], name: str) -> None:
    text = html(made(name))
    ids = re.findall(r' id="([^"]*)"', text)
    links = re.findall(r'href="([^"]*)"', text)
    assert len(links) > 40
    assert all(link.startswith("#") for link in links)
    assert {link[1:] for link in links} - set(ids) == set()
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", HOSTS)
def test_the_summary_is_three_sentences_with_their_sources(made: Callable[[str], Json], name: str) -> None:
    told = [block for block in _section(made(name), "Summary").blocks if isinstance(block, Paragraph)]
    assert len(told) == 4  # the three, and the status
    assert all(paragraph.references for paragraph in told[:2])
    assert bool(told[2].references) == bool(made(name)["changes"])


def _figures(cells: tuple[str | Paragraph, ...]) -> bool:
    return any(re.search(r"\d", cell.text if isinstance(cell, Paragraph) else cell) for cell in cells)


def _sourced(row: tuple[str | Paragraph, ...]) -> bool:
    return any(isinstance(cell, Paragraph) and cell.references for cell in row)


@pytest.mark.parametrize("name", HOSTS)
def test_no_number_stands_without_a_source(made: Callable[[str], Json], name: str) -> None:
    """In the sections that claim something, a paragraph or table row with a figure names where it is from."""
    bare = []
    for section in writeup.sections(made(name)):
        if not section.title.startswith(CLAIMING):
            continue
        for paragraph in _paragraphs(section.blocks):
            settled = paragraph.text.startswith(("Asked", "Step ", "None"))
            if re.search(r"\d", paragraph.text) and not paragraph.references and not settled:
                bare.append(paragraph.text)
        first = 2 if section.title.startswith("Hypotheses") else 1  # a weight is the sum of the reasons beside it
        for table in section.blocks:
            if isinstance(table, Table) and section.title != "The change":
                bare += [str(row) for row in table.rows if _figures(row[first:]) and not _sourced(row)]
    assert bare == []


@pytest.mark.parametrize("name", HOSTS)
def test_times_go_forward_by_each_clock(made: Callable[[str], Json], name: str) -> None:
    for clock in ("log", "session"):
        times = [event["at"] for event in made(name)["timeline"] if event["clock"] == clock]
        assert times
        assert all(before <= after for before, after in itertools.pairwise(times))


@pytest.mark.parametrize("name", HOSTS)
def test_every_action_has_a_check_and_no_owner_is_made_up(made: Callable[[str], Json], name: str) -> None:
    tables = [block for block in _section(made(name), "Follow-ups").blocks if isinstance(block, Table)]
    actions = next((table.rows for table in tables if table.label == "Actions"), ())
    assert all(action and check and not owner for action, owner, check in actions)
    assert len(actions) >= len(made(name)["changes"])


@pytest.mark.parametrize("name", HOSTS)
def test_no_secret_is_left_for_the_redactor_to_find(made: Callable[[str], Json], name: str) -> None:
    text = markdown(made(name))
    assert Redactor().redact(text) == text


@pytest.mark.parametrize("name", HOSTS)
def test_lines_that_are_leaned_on_are_quoted_as_they_stand_in_the_evidence(
    made: Callable[[str], Json], records: Callable[[str], list[Record]], name: str
) -> None:
    texts = {record.id: record.text.splitlines() for record in records(name) if isinstance(record, EvidenceTaken)}
    quoted = made(name)["quoted"]
    assert len(quoted) > 5
    for reference, text in quoted.items():
        evidence, _, line = reference.partition(":")
        assert texts[evidence][int(line) - 1].startswith(text.removesuffix(" …"))


def test_retractions_are_moments_of_the_load(made: Callable[[str], Json]) -> None:
    document = made("kv")
    assert document["marks"]
    last = document["series"][-1]["seconds"]
    assert all(0 <= mark["seconds"] <= last + 60 for mark in document["marks"])
    assert all(
        "#retracted_reqs" in document["quoted"].get(mark["from"], "#retracted_reqs") for mark in document["marks"]
    )
    assert html(document).count('class="mark"') == len(document["marks"])
    assert made("slots")["marks"] == []


def test_the_timeline_has_each_line_at_its_own_time(made: Callable[[str], Json]) -> None:
    document = made("kv")
    for event in document["timeline"]:
        if event["clock"] == "log":
            (reference,) = event["references"]
            assert str(event["at"])[11:19] in document["quoted"][reference]


def test_the_timeline_says_what_there_is(made: Callable[[str], Json]) -> None:
    texts = [event["text"] for event in made("prefix")["timeline"]]
    assert "recommended: --enable-hierarchical-cache, --hicache-ratio 4" in texts
    assert not [text for text in texts if text.startswith("longest queue")]
    assert any(text.startswith("most at once: 14 running") for text in texts)


@pytest.mark.parametrize("name", HOSTS)
def test_what_was_read_from_a_line_is_told_once_and_is_not_the_line(made: Callable[[str], Json], name: str) -> None:
    told = re.findall(r"^ +\(read: (.*)\)$", markdown(made(name)), re.MULTILINE)
    values = [value for line in told for value in line.split("; ")]
    assert values
    assert [value for value in values if value.startswith("message ")] == []
    assert [line for line in told if len(set(line.split("; "))) < len(line.split("; "))] == []


@pytest.mark.parametrize("name", HOSTS)
def test_every_reference_is_an_id(made: Callable[[str], Json], name: str) -> None:
    """What a paragraph or a cell refers to is a piece of evidence, a line of it, or a citation of this document."""
    document = made(name)
    known = writeup.places(writeup.sections(document))
    named = re.findall(r"Paragraph\(text=.*?, references=\((.*?)\)\)", str(writeup.sections(document)))
    lost = {each for row in named for each in re.findall(r"'([^']*)'", row) if not writeup.target(each, known)}
    assert lost == set()


@pytest.mark.parametrize("name", ["slots", "kv"])
def test_memory_after_the_change_is_still_the_whole_card(made: Callable[[str], Json], name: str) -> None:
    document = made(name)
    after = {step["name"]: step["gib"] for step in document["memory_after"]}
    before = {step["name"]: step["gib"] for step in document["memory"]}
    assert after
    assert sum(after.values()) == pytest.approx(sum(before.values()), abs=0.05)
    assert after["free"] < before["free"]


@pytest.mark.parametrize("form", ["md", "html", "json"])
def test_bytes_do_not_depend_on_place_time_or_terminal(home: Path, session: Callable[[str], str], form: str) -> None:
    identity = session("kv")
    made = set()
    for zone, language, columns, terminal in (
        ("UTC", "C", "80", "dumb"),
        ("Asia/Tokyo", "de_DE.UTF-8", "200", "xterm-256color"),
        ("America/Los_Angeles", "C.UTF-8", "40", "linux"),
    ):
        place = {"TZ": zone, "LANG": language, "LC_ALL": language, "COLUMNS": columns, "TERM": terminal}
        done = subprocess.run(
            command("writeup", identity, "--format", form),
            capture_output=True,
            env=environment(home / "kv") | place | {"PYTHONHASHSEED": columns},
            cwd=ROOT,
            check=True,
        )
        made.add(done.stdout)
    assert len(made) == 1
    assert len(made.pop()) > 10_000


def test_the_suffix_chooses_the_format_and_only_the_owner_can_read_it(
    home: Path, session: Callable[[str], str], tmp_path: Path
) -> None:
    identity = session("kv")
    begins = {"a.md": "# ", "b.html": "<!doctype html>", "c.json": "{"}
    for name, beginning in begins.items():
        assert sglscout(home / "kv", "writeup", identity, "-o", str(tmp_path / name)).exit == 0
        assert (tmp_path / name).read_text().startswith(beginning)
        assert os.stat(tmp_path / name).st_mode & 0o077 == 0
    assert json.loads((tmp_path / "c.json").read_text())["schema"] == "sglscout.diagnosis/1"
    refused = sglscout(home / "kv", "writeup", identity, "-o", str(tmp_path / "missing" / "d.md"))
    assert refused.exit == 2
    assert "cannot be written" in refused.err
    promised = sglscout(home / "kv", "writeup", identity, "-o", str(tmp_path / "inc.pdf"))
    assert promised.exit == 2
    assert "inc.html" in promised.err
    assert not (tmp_path / "inc.pdf").exists()


def test_shared_names_neither_host_nor_user_nor_serial_nor_prompt() -> None:
    log = "2026-02-11T14:28:37+00:00 kaboom7 python3[1]: The server is fired up and ready to roll!\n"
    asked = (
        "2026-02-11T14:28:38+00:00 kaboom7 python3[1]: Receive: obj=GenerateReqInput(text='my diary', input_ids=None)\n"
    )
    gpus = "index, uuid\n0, GPU-8f2c1c3e-1111-2222-3333-444455556666\n"
    complaint = (
        "slow on kaboom7 (10.20.30.41), tell carla@corp.example; models in /home/dieter/models, db.corp.internal too"
    )
    found = [
        Opened(id="ses_01TESTTESTTEST00", role="session", text=complaint, target={"host": "ingrid@kaboom7"}),
        EvidenceTaken.of(_evidence("E1", "journal_boot", log + asked)),
        EvidenceTaken.of(_evidence("E2", "gpus", gpus)),
        Said(text="does ingrid see 00:1a:2b:3c:4d:5e from kaboom7?"),
        Concluded(text="kaboom7 is slow because ingrid said so [E1:1] [E1:2]. See 10.20.30.40 [E2:2].", exit=0),
    ]
    from agent.case import Case
    from agent.document import document

    made = shared(document(Case.fold(found)))
    texts = [markdown(made), html(made), json.dumps(made, ensure_ascii=False)]
    assert all("«host»" in text for text in texts)
    named = ["kaboom7", "ingrid", "carla", "dieter", "10.20.30.4", "8f2c1c3e", "corp.internal", "00:1a:2b", "diary"]
    assert [name for name in named for text in texts if name in text] == []
    assert re.findall(r"«host#\d+» python3", str(texts)) == []  # the one host has one name


def _evidence(identity: str, probe: str, text: str) -> Evidence:
    return Evidence(identity, probe, "cat", "ingrid@kaboom7", "2026-02-11T14:00:00Z", 0, text)


def test_one_decision_of_a_long_session(home: Path, session: Callable[[str], str], tmp_path: Path) -> None:
    """A follow-up is a second decision; the first can still be written up as it stood."""
    identity = session("slots")
    first = sglscout(home / "slots", "writeup", identity, "--at", "D1").out
    assert sglscout(home / "slots", "resume", identity, "why not ratio 8?").exit in (0, 3)
    later = sglscout(home / "slots", "writeup", identity).out
    assert sglscout(home / "slots", "writeup", identity, "--at", "D1").out == first
    assert sglscout(home / "slots", "writeup", identity, "--at", "E5").out == first
    second = sglscout(home / "slots", "writeup", identity, "--at", "D2").out
    assert "as it stood with decision D2, after “why not ratio 8?”." in second
    assert "as it stood with decision" not in later  # a question about the case does not head it
    assert "Speculative decoding set a default limit" in _part_of(later, "Decision")
    assert "Asked later, “why not ratio 8?”: HiCache at ratio 8 would take 8 ranks" in _part_of(later, "Decision")
    assert "HiCache at ratio 8" in _part_of(second, "Decision").partition("Asked later")[0]
    assert "why not ratio 8?" not in first
    unknown = sglscout(home / "slots", "writeup", identity, "--at", "D9")
    assert unknown.exit == 2
    assert "It has D1, D2." in unknown.err
    assert Store(home / "slots").read(identity)[-1]["type"] == "concluded"


def _part_of(text: str, title: str) -> str:
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize(
    ("name", "settled", "open_"),
    [
        ("slots", "as the limit allows while others wait", ""),
        ("kv", "while fewer run than allowed", "how far does new_token_ratio jump"),
        ("prefix", "with evicted_tokens_total rising", ""),
    ],
)
def test_what_named_the_cause_is_not_left_open(
    made: Callable[[str], Json], name: str, settled: str, open_: str
) -> None:
    """The question that tells a cause apart was answered where that cause is named; so is that of a dropped one."""
    told = str([_section(made(name), title) for title in ("What was wrong", "Follow-ups")])
    assert settled in str(made(name)["diagnosis"]["missing"])
    assert settled not in told
    assert told.count(open_) == 2 if open_ else "Find out" not in told


def test_what_was_asked_later_is_told() -> None:
    from agent.case import Case
    from agent.document import document

    case = Case.fold([Opened(id="ses_01TESTTESTTEST00", role="session", text="slow"), Said(text="why?")])
    assert [question["text"] for question in document(case)["questions"]] == ["why?"]


@pytest.mark.parametrize("name", HOSTS)
def test_one_thing_is_not_many_and_what_is_empty_is_not_told(made: Callable[[str], Json], name: str) -> None:
    document = made(name)
    text = markdown(document)
    assert re.findall(r"(?<![\d,.])1 (?:lines|values|turns|requests)\b", text) == []
    assert "exit None" not in text
    assert ", , " not in text


def test_a_value_that_changes_is_shown_with_its_option(made: Callable[[str], Json]) -> None:
    blocks = _section(made("kv"), "The change").blocks
    words = next(each for each in blocks if isinstance(each, Table) and each.label.startswith("Words"))
    assert words.rows[:3] == (("kept", "--mem-fraction-static"), ("removed", "0.88"), ("added", "0.885"))


def test_a_command_with_an_address_says_where_it_stands_as_it_is_typed(made: Callable[[str], Json]) -> None:
    document = made("kv")
    stages = [{**stage, "commands": ["docker run -e E=https://x.example i@sha256:ab"]} for stage in document["stages"]]
    text = markdown(document | {"stages": stages, "launch": {}})
    assert "    docker run -e E=https[:]//x.example i[@]sha256:ab\n" in text
    assert f"as it is typed it stands in: sglscout show {document['id']} --document" in text
    assert "as it is typed" not in markdown(document)


@pytest.mark.parametrize("name", ["slots", "kv", "prefix"])
def test_options_stand_on_the_same_measures_and_say_what_would_rank_them_otherwise(
    made: Callable[[str], Json], name: str
) -> None:
    blocks = _section(made(name), "Options").blocks
    table = next(block for block in blocks if isinstance(block, Table))
    measures = [table.columns.index(name) for name in ("first token", "each token", "GiB of a GPU")]
    sums = table.columns.index("its sums")
    assert len(table.rows) > 5
    assert all(row[measure] and row[measure] != "not known" for row in table.rows for measure in measures)
    assert {row[sums] for row in table.rows} <= {"observed", "derived", "estimated"}
    told = next(block for block in blocks if isinstance(block, Items))
    assert any(item.text.startswith("HiCache: a hit rate that stays high") for item in told.items)
    ages = [
        item.text for block in blocks if isinstance(block, Items) for item in block.items if "listed since" in item.text
    ]
    assert any("FP8 KV cache" in text and "since 0.4.6, in 5 releases known up to 0.5.9" in text for text in ages)
    assert any(text.startswith("--kt-weight-path: listed since 0.5.6") for text in ages)


CRASH = """\
[2026-02-11 08:15:55] server_args=ServerArgs(model_path='/models/Kimi-K2.5', tp_size=8, mem_fraction_static=0.95)
[2026-02-11 08:16:41 TP0] Load weight begin. avail mem=94.06 GB
[2026-02-11 08:20:17 TP0] Load weight end. elapsed=214.00 s, type=KimiK25ForConditionalGeneration, \
dtype=torch.bfloat16, avail mem=21.71 GB, mem usage=72.35 GB.
[2026-02-11 08:21:03 TP3] Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 1.21 GiB. \
GPU 3 has a total capacity of 94.97 GiB of which 512.00 MiB is free.
"""


def test_a_start_that_failed_is_told_as_such_at_its_own_time(tmp_path: Path) -> None:
    """What was never ready is not called so, a failure stands in the timeline, and a typed version is no id."""
    (tmp_path / "crash.log").write_text(CRASH)
    words = ("diagnose", "it dies at start", "--bundle", str(tmp_path / "crash.log"), "--sglang-version", "0.5.9")
    document = sglscout(tmp_path, *words, "--json").document
    told = [(event["at"], event["text"]) for event in document["timeline"] if event["clock"] == "log"]
    assert [at for at, text in told if text.startswith("failure: Exception: Capture")] == ["2026-02-11 08:21:03"]
    assert "server ready" not in [text for _, text in told]
    text = markdown(document)
    assert "With crash.log (SGLang 0.5.9, model unknown) the operator reported: “it dies at start”.\n" in text
    assert "1 look at crash.log brought something" in text


CHAT = "remember that our chief asked for this on Friday after a long talk about the office and much else that is dull"


def test_of_a_long_chat_only_what_bears_on_the_incident_is_told(made: Callable[[str], Json]) -> None:
    document = made("slots")
    answer = [{"text": "About 319 s [E20:311].", "references": ["E20:311"], "supported": True}]
    sums = {"text": "host_total = ranks * x = 7 GB (derived) [E20:311].", "references": ["E20:311"], "supported": True}
    asked = [("how long?", [*answer, sums]), (CHAT, [{"text": "No answer.", "references": [], "supported": False}])]
    follow_ups = [{"id": "D2", "at": "", "question": text, "answer": said} for text, said in asked]
    questions = [{"at": "", "text": text} for text, _ in asked]
    events = [{"at": "x", "text": f"operator: {CHAT}", "references": [], "clock": "session"}]
    text = markdown(document | {"follow_ups": follow_ups, "questions": questions, "timeline": events})
    assert "Asked later: “how long?”\n" in text
    assert "Asked later, “how long?”: About 319 s. (" in text
    assert "ranks \\* x = 7 GB" not in text
    assert CHAT not in text
    assert text.count("remember that our chief") == 2  # when it was said, and that it has no answer
    assert "Asked, and not answered by this case: “remember that our chief asked" in text


def test_a_healthy_server_needs_no_options_nor_a_question_behind_its_question(made: Callable[[str], Json]) -> None:
    document = made("slots")
    diagnosis = {**document["diagnosis"], "kind": "healthy", "checked": ["the queue stays short"]}
    asked = [{**option, "answers": True} for option in document["options"][:1]]
    bare = [{**option, "answers": False} for option in document["options"]]
    healthy = document | {"diagnosis": diagnosis, "changes": [], "options": bare}
    titles = [section.title for section in writeup.sections(healthy)]
    assert "Options" not in titles
    assert "The question behind it" not in markdown(healthy)
    assert "Options" in [section.title for section in writeup.sections(healthy | {"options": [*asked, *bare]})]


@pytest.mark.parametrize("name", HOSTS)
def test_nothing_is_said_three_times(made: Callable[[str], Json], name: str) -> None:
    """A sentence stands once where it belongs, and once more at most where a team acts on it."""
    body = markdown(made(name)).partition("## Appendix")[0]
    said = [line.lstrip("- ").partition(" ([")[0] for line in body.splitlines() if len(line) > 60 and "|" not in line]
    assert [line for line in set(said) if said.count(line) > 1] == []
    assert re.findall(r"[?.]”\.|\.\.(?!\.)| : |with these commands", body) == []


def test_what_a_second_look_at_the_same_log_shows_is_no_news(made: Callable[[str], Json], home: Path) -> None:
    """Looked at again, a log that has not moved tells of nothing since."""
    (identity,) = [first["id"] for first, _ in Store(home / "kv").heads() if first["role"] == "session"]
    copied = home / "again"
    shutil.copytree(home / "kv", copied)
    assert sglscout(copied, "verify", identity).exit in (0, 3)
    text = sglscout(copied, "writeup", identity).out
    assert "What another look found" in text
    assert "What the log shows since" not in text


@pytest.mark.parametrize("name", ["slots", "kv", "prefix"])
def test_the_summary_says_what_the_change_costs_and_risks(made: Callable[[str], Json], name: str) -> None:
    document = made(name)
    told = _paragraphs(_section(document, "Summary").blocks)
    advised = next(each.text for each in told if each.text.startswith("Recommended"))
    assert "it takes 1 restart: not reachable for about 319 s" in advised
    assert f"its risk: {risk(document)[0]}" in advised
    assert advised.count(". ") == 0  # one sentence


@pytest.mark.parametrize("name", HOSTS)
def test_what_it_rests_on_takes_a_line_for_each_line(made: Callable[[str], Json], name: str) -> None:
    """A look has one heading, a line of it or of the source stands beside its number: the appendix stays short."""
    document = made(name)
    body, _, appendix = markdown(document).partition("## Appendix")
    rested = len({reference.partition(":")[0] for reference in document["quoted"]})
    rows = len(document["quoted"]) + len(document["evidence"]) + len(document["citations"])
    assert appendix.count("\n#### ") == rested
    assert len(appendix.splitlines()) < 2 * rows + 8 * rested
    assert len(body.splitlines()) < 400
    number, text = next(iter(document["quoted"].items()))
    assert f"    {number.partition(':')[2]}  {text}\n" in appendix
