"""Whatever stands in the text, `parse` returns facts that the vocabulary lists, and raises nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.long import many
from tests.tools.host.parsers.test_endpoints import METRICS
from tests.tools.host.parsers.test_journal import INNER, decode
from tools.host.parsers import parse
from tools.host.parsers.table import JOURNALS, PARSERS, PASTED
from transcripts.facts import Evidence
from transcripts.vocabulary import VOCABULARY

PROBES = sorted({*PARSERS, *JOURNALS, *PASTED, "command"})
LINES = (
    INNER,
    decode(0, 48, 95_526, 17),
    "[2026-02-10 03:00:01] server_args=ServerArgs(model_path='/m', tp_size=8)",
    "[2026-02-10 03:00:01] server_args={'a': 1, 'b': [1, {'c': 2}]}",
    "[2026-02-10 03:00:01 TP0] Load weight end. type=X, avail mem=1.00 GB, mem usage=2.00 GB.",
    "[2026-02-10 03:00:01 TP0] KV Cache is allocated. #tokens: 5, K size: 1.00 GB, V size: 1.00 GB",
    "Filesystem 1B-blocks Used Available Use% Mounted on",
    "index, name, memory.total [MiB]",
    "ExecStart={ path=x ; argv[]=python -m sglang.launch_server --tp 8 ; }",
    '{"loads": [{"num_running_reqs": 1, "memory": {}}], "internal_states": [{}], "version": 3}',
    '[{"Config": {"Cmd": ["sglang", "serve"]}, "HostConfig": null}]',
    "               total        used        free      shared  buff/cache   available",
    METRICS,
)
PIECES = st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=60)), max_size=6).map("\n".join)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    text = draw(PIECES)
    if not text:
        return text
    position = draw(st.integers(0, len(text) - 1))
    length = draw(st.integers(0, 20))
    return text[:position] + draw(st.text(max_size=5)) + text[position + length :]


@given(probe=st.sampled_from(PROBES), text=damaged())
@settings(max_examples=many(400))
def test_nothing_is_raised(probe: str, text: str) -> None:
    for fact in parse(Evidence("E1", probe, "", "h", "", 0, text)):
        assert fact.name in VOCABULARY
        assert fact.unit == VOCABULARY[fact.name][0]
        number = fact.source.partition(":")[2]
        assert not number or 1 <= int(number) <= len(text.splitlines())


def test_ten_megabytes_of_one_line_and_of_noise() -> None:
    one_line = "x" * 10_000_000
    brackets = "server_args=ServerArgs(" + "((" * 2_000_000
    noise = "\x00\ufffd\x1b[31m|,{[=:\n" * 500_000
    for probe in PROBES:
        for text in (one_line, brackets) if probe not in PASTED else (one_line, noise):
            assert all(fact.name in VOCABULARY for fact in parse(Evidence("E1", probe, "", "h", "", 0, text)))


@pytest.mark.parametrize(
    "dump", ["ServerArgs(nccl_port=None, watchdog_timeout=300)", "{'nccl_port': None, 'watchdog_timeout': 300}"]
)
def test_the_dump_of_settings_is_no_message(dump: str) -> None:
    for probe in PASTED:
        line = f"[2026-02-10 03:00:01] server_args={dump}"
        facts = parse(Evidence("E1", probe, "", "h", "", 0, line))
        assert not [fact for fact in facts if fact.name in ("message", "symptom")]


def test_figures_that_no_server_prints_are_no_figures() -> None:
    line = decode(0, 48, 95_526, 17)
    for absurd in (
        line.replace("token usage: 0.60", "token usage: 1e308"),
        line.replace("#queue-req: 17", "#queue-req: 10000000000000000000000000"),
    ):
        assert absurd != line
        facts = parse(Evidence("E1", "pasted", "", "h", "", 0, absurd))
        assert not [fact for fact in facts if isinstance(fact.value, float | int) and fact.value > 1e12]


def test_a_long_pasted_log_is_read_as_a_log_and_its_failures_are_found() -> None:
    """Read as prose, each line would be taken for somebody's statement of a figure."""
    line = "[2026-01-10 03:00:01 TP0] Decode batch, #running-req: 31, #token: 1184, token usage: 0.93, #queue-req: 7\n"
    access = '[2026-01-10 03:00:01] INFO:     127.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    died = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. of which 1.02 GiB is free.\n"
    facts = parse(Evidence("E1", "pasted", "", "h", "", None, (line + access) * 2_200 + died))
    assert len(facts) < 60
    named = {fact.name: fact for fact in facts}
    assert named["oom_request_gib"].value == 2.0
    assert named["oom_phase"].source == "E1:4401"
    assert named["usage_p95"].value == 0.93
