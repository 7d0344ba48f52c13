"""What two places say that cannot both be right is shown with both places, in every view."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agent.case import Case
from agent.contradictions import contradictions
from agent.settings import load_settings
from tests.agent.test_endpoint_case import calls, diagnosed_by, says, two_minds
from tests.endpoint import Answer, endpoint
from tests.program import sglscout
from tools.host.parsers import parse
from tools.source import obtain
from transcripts.facts import Evidence
from transcripts.parts import Finding
from transcripts.records import Compared, EvidenceTaken, Opened, Record, Reported

Json = dict[str, Any]


def _case(*records: Record) -> Case:
    return Case.fold([Opened(id="ses_01TESTTESTTEST00", role="session", text="slow"), *records])


def _found(subject: str, kind: str, text: str) -> Reported:
    row = {"question": "1", "subject": subject, "kind": kind, "text": text}
    return Reported(task=f"ses_{subject}{text}", findings=(Finding.model_validate(row),))


def _output(name: str, probe: str, text: str, host: str = "gpu1", command: str = "") -> EvidenceTaken:
    evidence = Evidence(name, probe, command, host, "", 0, text)
    return EvidenceTaken.of(evidence, parse(evidence))


@pytest.mark.parametrize(
    ("one", "other", "disagree"),
    [
        (("does", "the default is 2.0"), ("does", "the default is 4.0"), True),
        (("does", "the default is 2.0"), ("answer", "defaults to 4 when a size is not given"), True),
        (("answer", "48 is a default of speculative decoding, not of memory"), ("does", "the default is `32`"), True),
        (("does", "its default is `write_through`"), ("does", "default: write_back"), True),
        (("does", "it keeps the draft's KV"), ("does", "it does not keep the draft's KV"), True),
        (("does", "raises concurrent requests"), ("does_not", "never more running requests"), True),
        (("does", "the default is 1024 (srt/a.py:12)"), ("does", "the default is 1,024 (srt/b.py:99)"), False),
        (("does", "the default is chosen by the backend"), ("does", "the default is 4"), False),
        (("does", "the default is None"), ("does", "the default is 4"), False),
        (("does", "copies prefixes back"), ("contradicts", "each rank looks at the whole host's memory"), False),
        (("does", "the default is 2.0"), ("constraint", "it must be larger than 1"), False),
        (("does", "the default is 2.0"), ("does", "the default is 2.0"), False),
    ],
)  # fmt: skip
def test_findings_disagree_about_one_measure_of_one_option(
    one: tuple[str, str], other: tuple[str, str], disagree: bool
) -> None:
    case = _case(_found("--hicache-ratio", *one), _found("server_args.hicache_ratio", *other))
    told = contradictions(case)
    assert bool(told) is disagree
    assert all(one[1] in text and other[1] in text for text in told)


def test_a_promise_is_held_against_the_sums() -> None:
    row: Json = {
        "name": "HiCache, ratio 4",
        "running_factor": 1.0,
        "evidence": ["E5:1"],
        "changes": [["--hicache-ratio"]],
    }
    promise = _found("--enable-hierarchical-cache", "does", "allows more concurrent requests")
    (told,) = contradictions(_case(promise, Compared(options=(row,))))
    assert "allows more concurrent requests — against: by the sums, 1.00x the requests run [E5:1]" in told
    assert not contradictions(_case(promise, Compared(options=(row, {**row, "running_factor": 2.0}))))


ARGS = "server_args=ServerArgs(model_path='/m', tp_size=8, page_size={page}, max_running_requests={most})"


def test_a_default_is_held_against_what_is_in_force_and_was_not_typed() -> None:
    log = _output("E1", "journal_boot", ARGS.format(page=64, most=48))
    (told,) = contradictions(_case(log, _found("--page-size", "answer", "the default is 1")))
    assert told.startswith("--page-size: the default is 1 — against: 64 is in force, and nothing was typed [E1:1]")
    typed = _output("E2", "process", "python3\n-m\nsglang.launch_server\n--model-path\n/m\n--page-size\n64")
    assert not contradictions(_case(log, typed, _found("--page-size", "answer", "the default is 1")))


def test_outputs_of_one_host_that_differ_are_shown_once_and_only_the_last_of_each() -> None:
    command = "python3 -m sglang.launch_server --model-path /m --max-running-requests {}"
    unit = f"# /etc/systemd/system/a.service\n[Service]\nExecStart=/v/bin/{command.format(96)}\n"
    typed = _output("E1", "unit_files", unit, command="systemctl cat a")
    running = _output("E2", "process", command.format(64).replace(" ", "\n"), command="cat /proc/1/cmdline")
    (told,) = contradictions(_case(typed, running))
    assert told == "--max-running-requests: 96 typed in unit files [E1:3] — against: 64 typed in process [E2:1]"
    assert not contradictions(_case(typed, _output("E2", "process", "\n".join(command.format(64).split()), "gpu2")))
    assert not contradictions(
        _case(typed, running, _output("E3", "process", "\n".join(command.format(96).split()), command=running.command))
    )


@pytest.fixture(scope="module")
def two_logs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Home and session of a diagnosis of two logs and a launch command that do not agree."""
    folder = tmp_path_factory.mktemp("bundle") / "b"
    folder.mkdir()
    ready = "max_total_num_tokens={pool}, chunked_prefill_size=8192, max_prefill_tokens=16384, context_len=131072"
    for name, most, pool in (("monday.log", 64, 159209), ("tuesday.log", 48, 120000)):
        line = f"[2026-11-30 10:05:00 TP0] {ready.format(pool=pool)}, max_running_requests={most}"
        (folder / name).write_text(
            f"[2026-11-30 10:00:00] {ARGS.format(page=1, most=most)}\n{line}, available_gpu_mem=5.37 GB\n"
        )
    (folder / "launch.sh").write_text("python3 -m sglang.launch_server --model-path /m --max-running-requests 96\n")
    home = tmp_path_factory.mktemp("home")
    done = sglscout(home, "diagnose", "requests wait", "--bundle", str(folder), "--json")
    return home, done.document["id"]


def test_two_logs_and_a_launch_command_are_shown_in_every_view_with_their_places(two_logs: tuple[Path, str]) -> None:
    home, session = two_logs
    told = sglscout(home, "show", session, "--document").out
    assert "kv pool: 159209 in pasted: monday.log [E3:2] — against: 120000 in pasted: tuesday.log [E4:2]" in " ".join(
        told.split()
    )
    document = json.loads(sglscout(home, "writeup", session, "--format", "json").out)
    (limit,) = [text for text in document["contradictions"] if text.startswith("--max-running-requests:")]
    assert all(place in limit for place in ("96 typed", "[E2:1]", "64 in force", "[E3:1]", "48 in force", "[E4:1]"))
    assert {"E2:1", "E3:1", "E3:2", "E4:1", "E4:2"} <= set(document["quoted"])
    page = sglscout(home, "writeup", session, "--format", "html").out
    shown = page.partition("Findings disagree: kv pool")[2].partition("</li>")[0]
    assert all(f">{place}</a>" in shown for place in ("E3:2", "E4:2"))
    assert "Findings disagree: kv pool" in sglscout(home, "writeup", session).out


def test_two_tasks_of_a_model_that_disagree_are_shown_even_where_it_compares_nothing(tmp_path: Path) -> None:
    """Two reports over one real tree about the default of one option, each under another of its spellings."""

    async def line() -> Json:
        tree = await obtain("0.5.9", cache=load_settings("playbook").cache)
        path = "srt/server_args.py"
        lines = enumerate(tree.lines(path), 1)
        number, quote = next(each for each in lines if "max_running_requests = 48" in each[1])
        return {"path": path, "line": number, "quote": quote.strip()}

    def report(subject: str, text: str, cited: Json) -> Answer:
        finding = {"question": "1", "subject": subject, "kind": "answer", "text": text, **cited}
        return calls(("report", {"findings": [finding]}))

    async def work() -> Json:
        cited = await line()
        asked = [("task", {"description": text, "prompt": f"1. {text}?"}) for text in ("the default", "the limit")]
        main = [calls(("look", {})), calls(("weigh", {})), calls(*asked), says("They disagree [S1].")]
        research = [
            report("--max-running-requests", "48 is the default of speculative decoding, not a result", cited),
            report("server_args.max_running_requests", "with a draft the default is 32", cited),
            says("done"),
        ]
        async with endpoint(says("unused")) as server:
            server.answers[:] = [two_minds(main, research)]
            return await diagnosed_by(tmp_path, server)

    document = asyncio.run(work())
    (told,) = document["contradictions"]
    one, other = sorted(told.partition(": ")[2].split(" — against: "))
    assert one.startswith("48 is the default of speculative decoding, not a result (srt/server_args.py:")
    assert other.startswith("with a draft the default is 32 (srt/server_args.py:")
    held = {citation["id"] for citation in document["citations"] if citation["checked"]}
    assert {text.rpartition("[")[2].rstrip("]") for text in (one, other)} <= held
