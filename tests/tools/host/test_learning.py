"""What a server was started with is known as secret in everything else that a look brings, whatever came first."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Iterable

import pytest

from agent.deployed import facts_of
from tools.host import STANDARD, Observation, Probe, learn_start, look
from transcripts.errors import HostError
from transcripts.redaction import Redactor

KEY = "opensesame"  # a common word: in its place it is a key, and only the server's start tells so


class Scripted:
    """A host whose answers come in the order they are written here."""

    name = "gpu1"

    def __init__(self, *answers: tuple[str, str], lost: bool = False) -> None:
        self._answers = answers
        self._lost = lost
        self.asked: list[str] = []

    async def observe(self, probes: Iterable[Probe]) -> AsyncGenerator[Observation, None]:
        self.asked = [probe.name for probe in probes]
        for probe, text in self._answers:
            yield Observation(probe, probe, self.name, "", 0, text)
        if self._lost:
            raise HostError("gpu1: the connection is lost.")

    async def run(self, command: str, *, limit_s: float = 20.0, limit_bytes: int = 0) -> Observation:
        raise NotImplementedError

    async def close(self) -> None:
        return None


def _looked(host: Scripted, skip: frozenset[str] = frozenset()) -> dict[str, str]:
    redactor = Redactor()
    seen: dict[str, str] = {}

    async def work() -> None:
        async for each in look(host, skip=skip, redact=redactor.redact, learn=redactor.learn_from):
            seen[each.probe] = each.text

    try:
        asyncio.run(work())
    except HostError:
        seen["lost"] = "yes"
    return seen


@pytest.mark.parametrize(
    "start", [("process", f"python3\n-m\nsglang.launch_server\n--api-key\n{KEY}\n--tp\n8\n"),
              ("unit_files", f"[Service]\nEnvironment=SGLANG_API_KEY={KEY}\n")]
)  # fmt: skip
def test_a_key_of_the_start_is_masked_in_a_log_that_came_before(start: tuple[str, str]) -> None:
    encoded = base64.b64encode(f"user:{KEY}".encode()).decode()
    log = f"rejected {KEY} then {encoded} then {KEY[:4]}%{ord(KEY[4]):02x}{KEY[5:]}"
    seen = _looked(Scripted(("journal_recent", log), start, ("meminfo", KEY)))
    assert list(seen) == ["journal_recent", start[0], "meminfo"]
    for text in seen.values():
        assert KEY not in text
    assert encoded not in seen["journal_recent"]
    assert seen["journal_recent"].count("«secret:") == 3
    assert "rejected" in seen["journal_recent"]


def test_what_had_come_is_handed_on_when_the_connection_is_lost() -> None:
    assert _looked(Scripted(("journal_recent", "one line"), lost=True)) == {"journal_recent": "one line", "lost": "yes"}


START = ("process", f"python3\n-m\nsglang.launch_server\n--api-key\n{KEY}\n")


def test_a_look_that_goes_on_learns_the_start_anew_and_keeps_none_of_it() -> None:
    host = Scripted(("journal_recent", f"rejected {KEY}"), START)
    assert _looked(host, frozenset({"process"})) == {"journal_recent": "rejected «secret:api_key#1»"}
    assert {"process", "unit_files"} <= set(host.asked)


def test_a_look_with_nothing_left_to_ask_asks_nothing() -> None:
    host = Scripted(START)
    assert _looked(host, frozenset({"discovery", *(probe.name for probe in STANDARD)})) == {}
    assert host.asked == []


def test_the_start_alone_is_learnt_before_a_single_command() -> None:
    redactor, host = Redactor(), Scripted(START)
    asyncio.run(learn_start(host, redactor.learn_from))
    assert redactor.redact(f"rejected {KEY}") == "rejected «secret:api_key#1»"
    assert set(host.asked) == {"process", "unit_files"}


def test_facts_that_no_session_keeps_know_the_start_too() -> None:
    refusal = f"error: argument --tool-call-parser: invalid choice: '{KEY}' (choose from kimi_k2, qwen)"
    host = Scripted(("journal_recent", refusal), START)
    facts = asyncio.run(facts_of(host))
    assert KEY not in repr(list(facts))
