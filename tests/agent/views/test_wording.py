"""The prose of a write-up worded by a model: taken where it says the same, refused where it does not, never needed."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.case import Case
from agent.chat import Chat
from agent.chat_commands import handle
from agent.document import document
from agent.model import Reply, Request
from agent.models.scripted import Scripted, say
from agent.rewording import refusal
from agent.roles.writer import reword
from agent.run import take_up
from agent.session import Session
from agent.settings import Settings
from agent.views.html import html
from agent.views.markdown import markdown
from agent.views.share import shared
from agent.views.writeup import prose
from tests.agent.test_endpoint_case import says
from tests.endpoint import endpoint, fails
from tests.program import sglscout
from transcripts.errors import EndpointError
from transcripts.parts import Limits, Usage
from transcripts.records import Reworded, records_of
from transcripts.redaction import Redactor
from transcripts.store import Store

Json = dict[str, Any]
WAS = (
    "Recommended: raise --mem-fraction-static to 0.885 (so far 0.88); on gpu1 the pool at /models/Kimi is likely full, "
    "as the operator said at 14:02:11: “pool is full”; it takes 1 restart."
)
SOURCES = ("E5:88", "E7", "S1")
SAME = (
    "Recommended: raise --mem-fraction-static to 0.885 (so far 0.88). On gpu1 the pool at /models/Kimi is likely full; "
    "the operator said so at 14:02:11: “pool is full”. It takes 1 restart. [E5:88, E7, S1]"
)


def test_the_same_in_other_words_is_taken() -> None:
    assert refusal(WAS, SOURCES, SAME) == ""


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("0.885", "0.9", "new: 0.9"),
        ("0.885 (so far 0.88)", "0.88 (so far 0.885)", "in their order"),
        ("1 restart", "2 restarts", "new: 2"),
        ("1 restart", "1 restart of twenty minutes", "new: twenty"),
        ("14:02:11", "14:02", "lost: 14:02:11"),
        ("/models/Kimi", "the model's folder", "lost: /models/Kimi"),
        ("/models/Kimi", "/models/Kimi on gpu2", "new: gpu2"),
        ("/models/Kimi", "/models/Kimi of db.corp", "new: db.corp"),
        ("gpu1", "gpu1 of Kaboom", "new: Kaboom"),
        ("gpu1", "the host", "lost: gpu1"),
        ("--mem-fraction-static", "the static fraction", "lost: --mem-fraction-static"),
        ("It takes", "Set --disable-radix-cache. It takes", "new: --disable-radix-cache"),
        ("“pool is full”", "“pool is nearly full”", "“pool is full”"),
        ("“pool is full”", "pool is full", "lost: “pool is full”"),
        ("is likely full", "is not likely full", "“not”"),
        ("is likely full", "is full", "“likely”"),
        ("is likely full", "is certainly likely full", "“certain”"),
        ("raise", "lower", "“more”"),
        ("restart", "crash and 1 restart", "new: 1"),
        ("[E5:88, E7, S1]", "[E5:88, E7]", "lost: S1"),
        ("[E5:88, E7, S1]", "[E5:88, E7, S1, E9]", "new: E9"),
        ("[E5:88, E7, S1]", "", "references differ"),
        ("On gpu1", "On **gpu1**", "characters that the paragraph does not have: *"),
        ("On gpu1", "On <b>gpu1</b>", "characters"),
        ("On gpu1", "On `gpu1`", "characters"),
        ("On gpu1", "On [gpu1](#x)", "characters"),
        ("On gpu1", "On gpu1 ![x](a)", "characters"),
        ("It takes", "See https://evil.example. It takes", "new: https://evil.example"),
        ("It takes", "See www.evil.example. It takes", "new: www.evil.example"),
        ("It takes", "Mail ops@evil.example. It takes", "characters"),
        ("It takes", "\x1b[2JIt takes", "characters that the paragraph does not have: \\x1b ["),
        ("It takes", "\u202eIt takes", "\\u202e"),
        ("It takes", "It tak\u0435s", "\\u0435"),  # a letter of another alphabet that looks the same
        (
            "It takes",
            "The vendor blames a broken cable in another building which nobody ever looked into. It takes",
            "",
        ),
        ("The operator", "The operator " + "and the operator " * 20, ""),
    ],
)
def test_what_says_something_else_is_refused_with_the_reason(old: str, new: str, why: str) -> None:
    said = SAME.replace(old, new) if old in SAME else SAME.replace(old.lower(), new)
    assert said != SAME
    assert refusal(WAS, SOURCES, said) != ""
    assert why in refusal(WAS, SOURCES, said)


def test_what_says_less_than_half_is_refused() -> None:
    assert "characters in the place of" in refusal("It waits for the pool to be free again. " * 3, (), "It waits.")


@pytest.fixture
def own(home: Path, session: Callable[[str], str], tmp_path: Path) -> tuple[Path, str]:
    """A home with a copy of the diagnosed host `slots`, and its id."""
    identity = session("slots")
    shutil.copytree(home / "slots", tmp_path / "home")
    return tmp_path / "home", identity


@pytest.fixture
def copy(own: tuple[Path, str]) -> Callable[[], Session]:
    """That copy, opened for going on."""
    return lambda: Session.open(Store(own[0]), own[1], Redactor().redact)


def _answer(request: Request) -> Reply:
    """The verdict in other words, the recommendation with a figure of its own, the background with markup."""
    lines = dict(line.split(": ", 1) for line in request.messages[1]["content"].splitlines() if line.startswith("P"))
    cause = next(number for number, text in lines.items() if text.startswith("The cause is"))
    change = next(number for number, text in lines.items() if text.startswith("Recommended:"))
    terms = next(number for number, text in lines.items() if text.startswith("A running request"))
    worded = lines[cause].replace("running requests; the", "running requests, and the")
    assert worded != lines[cause]
    return Reply(
        text="\n".join(
            (
                "Here is what I made of it:",
                f"{cause}: {worded}",
                f"{change}: {lines[change].replace('72', '96')}",
                f"{terms}: {lines[terms].replace('A running', '**A** running')}",
                "P99: no such paragraph",
            )
        ),
        usage=Usage(turns=1, tokens_in=900, tokens_out=300),
        model="m",
    )


def test_each_paragraph_is_taken_or_refused_by_itself_and_recorded(copy: Callable[[], Session]) -> None:
    with copy() as session:
        plain = markdown(document(session.case))
        turns = session.case.usage.turns
        model = Scripted(_answer)
        record = asyncio.run(reword(session, model))
        model.finished()
        assert [bool(row.refused) for row in record.rows] == [False, True, True]
        assert "new: 96" in record.rows[1].refused
        made = document(session.case)
        text = markdown(made)
        assert "a default limit on running requests, and the pool has room. ([E20:159](#e20)" in text
        assert "96 requests" not in text
        assert "A model worded 1 paragraph of prose" in text
        differing = [line for line in text.splitlines() if line not in plain.splitlines()]
        assert [line[:12] for line in differing] == ["The cause is", "Decided by p", "A model word"]
        assert session.case.usage.turns == turns  # a step over the text is no turn of the diagnosis
        assert session.case.usage.tokens_in == 900
        stored = Store(session.transcript.folder.parents[1]).read(session.id)
    again = document(Case.fold(records_of(stored)))
    assert (markdown(again), html(again)) == (text, html(made))
    assert "running requests, and the pool has room" in markdown(shared(made))


def test_nothing_of_a_table_a_command_or_the_evidence_is_offered(copy: Callable[[], Session]) -> None:
    with copy() as session:
        model = Scripted(say("no change"))
        record = asyncio.run(reword(session, model))
        (request,) = model.requests
        told = str(request.messages[1]["content"])
        assert request.tools == []
        assert len(re.findall(r"^P\d+: ", told, re.MULTILINE)) == len(prose(document(session.case)))
        assert "systemctl" not in told
        assert "Decode batch" not in told
        assert told.startswith(f"<data {session.id[-6:]}>\n")
        assert Redactor().redact(told) == told
    assert record.failed == "the answer holds no paragraph of the write-up."


class _Silent:
    """A model that never answers."""

    name = "silent"

    async def reply(self, _request: Request) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError


def test_a_model_that_fails_costs_a_note_and_nothing_else(copy: Callable[[], Session]) -> None:
    silent = _Silent()
    for model, why in (
        (Scripted(EndpointError("the endpoint is not there.", "Start it.")), "the endpoint is not there."),
        (Scripted(say("P1\nP2: \n{}")), "no paragraph"),
        (silent, "no answer within 0.01 s."),
    ):
        with copy() as session:
            plain = markdown(document(session.case))
            record = asyncio.run(reword(session, model, 0.01 if model is silent else 60))
            assert why in record.failed
            assert record.rows == ()
            assert markdown(document(session.case)) == plain


def test_where_the_money_is_spent_the_model_is_not_asked(copy: Callable[[], Session]) -> None:
    with copy() as session:
        limits = Limits(cost=0.001, price_in=1.0, price_out=1.0)
        session.case.opened = session.case.opened.model_copy(update={"limits": limits})
        session.case.usage_of_question = Usage(turns=1, tokens_in=2_000)
        model = Scripted()
        assert "in money is reached" in asyncio.run(reword(session, model)).failed
        assert model.requests == []


def test_what_is_worded_is_not_asked_again_and_gives_way_to_what_is_new(copy: Callable[[], Session]) -> None:
    with copy() as session:
        asyncio.run(reword(session, Scripted(_answer)))
        model = Scripted(say("P1: x"))
        asyncio.run(reword(session, model))
        assert "The cause is nearly certain" not in str(model.requests[0].messages[1]["content"])
        assert session.case.weighed is not None
        session.case.apply(session.case.weighed.model_copy(update={"certainty": 0.8}))
        assert "The cause is likely (certainty 0.80, capacity.spec_default_cap): Spec" in markdown(
            document(session.case)
        )


def test_on_the_command_line_and_in_the_chat(
    own: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, named = own
    store = Store(home)
    alone = sglscout(home, "writeup", named, "--improve")
    assert (alone.exit, alone.out) == (2, "")
    assert "no model is there" in alone.err
    both = sglscout(home, "writeup", named, "--improve", "--at", "D1")
    assert both.exit == 2
    told: list[str] = []
    monkeypatch.setattr(Chat, "say", lambda _chat, what: told.append(str(what)))

    async def chatted() -> None:
        async with endpoint(says(_in_place(store, named)), fails(400)) as server:
            settings = Settings(home, tmp_path, "m", server.url, "k")
            chat = Chat(settings, None)
            chat.open(take_up(settings, named))
            for _ in range(2):
                await handle(chat, f"/writeup --improve {tmp_path / 'a.md'}")
                assert chat.turn is not None
                await chat.turn
            await chat.close()
            assert len(server.requests) == 2
            assert "tools" not in server.requests[0]

    asyncio.run(chatted())
    assert "1 paragraph worded by m" in told
    assert any(line.startswith("the prose stays as it is: ") for line in told)
    assert "running requests, and the pool has room" in (tmp_path / "a.md").read_text()
    assert "running requests, and the pool has room" in (store.folder / named / "writeup.md").read_text()
    steps = [each for each in records_of(store.read(named)) if isinstance(each, Reworded)]
    assert len(steps) == 2
    page = sglscout(home, "show", named)
    assert "write-up: 1 paragraph worded by m" in page.out


def _in_place(store: Store, named: str) -> str:
    """What a model answers to the paragraphs of this session."""
    made = document(Case.fold(records_of(store.read(named))))
    offered = "\n".join(
        f"P{number}: {each.text} [{', '.join(each.references)}]" for number, each in enumerate(prose(made), 1)
    )
    lines = [line for line in offered.splitlines() if ": The cause is" in line]
    return lines[0].replace("requests; the", "requests, and the")
