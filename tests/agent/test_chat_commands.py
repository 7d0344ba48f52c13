"""What a `/command` of the chat shows, without a terminal around it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.chat import Chat
from agent.chat_commands import BESIDE_SHOWN, EVIDENCE_SHOWN, handle
from agent.repl import take
from agent.run import start
from agent.settings import Settings
from transcripts.facts import Evidence
from transcripts.parts import Usage
from transcripts.records import EvidenceTaken, Replied
from transcripts.store import Store

LONG = "server_args=" + "x" * 5_000


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a command says, over a case of two pieces of evidence and one answer, at a price."""
    told: list[str] = []
    monkeypatch.setattr(Chat, "say", lambda _chat, what: told.append(str(what)))
    settings = Settings(tmp_path, tmp_path, "", "", "", price_in=2.0, price_out=8.0)
    target = {"kind": "bundle", "path": "x", "host": "x"}
    session = start(settings, target, "slow")
    lines = ["first", "second", LONG, "fourth", *(["line"] * EVIDENCE_SHOWN)]
    for number, text in enumerate(("\n".join(lines), "alone"), 1):
        session.record(EvidenceTaken.of(Evidence(f"E{number}", "journal_boot", "journalctl", "x", "", 0, text)))
    session.record(Replied(text="done", usage=Usage(turns=1, tokens_in=500_000, tokens_out=250_000)))

    chat = Chat(settings, target)

    def run(line: str) -> str:
        async def work() -> None:
            if chat.session is None:
                chat.open(session)
            await handle(chat, line)

        told.clear()
        asyncio.run(work())
        return "\n".join(told)

    yield run
    asyncio.run(chat.close())


def test_what_was_spent_is_told_in_money_where_there_are_prices(said: Any) -> None:
    assert said("/cost").splitlines()[0] == "own: 1 turn, 500,000 tokens in, 250,000 out, 3.0000 in money"


def test_a_line_that_would_fill_the_screen_is_shown_whole_only_when_it_is_asked_for(said: Any) -> None:
    assert LONG in said("/evidence E1:3")
    for line in ("/evidence E1:2", "/evidence E1"):
        shown = said(line)
        assert f"3: {LONG[:BESIDE_SHOWN]} … (5,012 characters)" in shown
        assert LONG not in shown
    assert f"… 4 more lines: /evidence E1:{EVIDENCE_SHOWN + 1}" in said("/evidence e1")


def test_a_fork_goes_its_own_way_and_what_it_came_from_stays(said: Any, tmp_path: Path) -> None:
    before = said("/cost")
    made, _, rest = said("/fork").partition(" ")
    old = rest.rpartition("; ")[2].split()[0]
    store = Store(tmp_path)
    assert made != old
    assert {made, old} == set(store.ids())
    assert said("/cost") == before
    assert store.read(made)[-1]["type"] == "forked"
    assert said("/fork E1").split()[0] not in {made, old}
    assert "E2" not in said("/evidence")  # up to the record of E1
    assert "no record E9" in said("/fork E9")


def test_ids_are_taken_as_they_are_typed_and_what_is_not_there_is_said(said: Any) -> None:
    assert "1: first" in said("/evidence 1:1")
    assert said("/evidence E1:900") == f"E1 has no line 900. It has {EVIDENCE_SHOWN + 4} lines."
    assert said("/evidence e1:x").startswith("E1 has no line x.")
    assert "'a b' is no host" in said("/host a b")
    assert said("/host") == "x"  # the case goes on
    assert "1: first" in said("/EVIDENCE E1:1")
    assert said("/no such") == "/no is no command. /help names them."


@pytest.mark.parametrize("word", ["quit", "exit", "q", "/exit", "/Quit"])
def test_who_wants_to_leave_is_no_complaint(said: Any, word: str) -> None:
    chat = Chat(Settings(Path(), Path(), "", "", ""), None)
    asyncio.run(take(chat, word))
    assert chat.leaving
    assert chat.turn is None


def test_a_chat_without_a_terminal_answers_no_at_once(said: Any) -> None:
    """Nobody is there to say yes: an open question would hold it for ever."""

    async def work() -> bool:
        chat = Chat(Settings(Path(), Path(), "", "", ""), None)
        asked = asyncio.ensure_future(chat._approve("cat /root/start.sh", "it may hold a key"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return asked.done() and not asked.result()

    assert asyncio.run(work())
