"""Limits in money: prices and a limit from the configuration, counted over a question and its research tasks."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent.model import Reply
from agent.models.scripted import Scripted, calls, say
from agent.run import Run, start
from agent.settings import Settings, load_settings
from tests.agent.research import ASK, main_agent, results, session_in, tasks_of
from transcripts.errors import LimitReached, UsageError
from transcripts.parts import Limits, Usage
from transcripts.records import Said

PRICED = Limits(cost=1.0, price_in=1.0, price_out=10.0)


def _turn(name: str, tokens_in: int, tokens_out: int) -> Reply:
    return Reply(
        calls=calls((name, ASK if name == "task" else {})).calls,
        usage=Usage(turns=1, tokens_in=tokens_in, tokens_out=tokens_out),
    )


def test_a_price_is_per_million_tokens() -> None:
    assert PRICED.price(Usage(turns=1, tokens_in=500_000, tokens_out=20_000)) == pytest.approx(0.7)


def test_a_question_ends_at_its_limit_with_a_turn_to_sum_up(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        steps = [_turn("none", 400_000, 0), _turn("none", 400_000, 30_000), say("so far: x")]
        agent, model = main_agent(session, tasks_of(session, tmp_path), *steps, limits=PRICED)
        with pytest.raises(LimitReached, match="the limit of 1 in money"):
            asyncio.run(agent.run())
        assert session.case.concluded is not None
        assert (session.case.concluded.text, session.case.concluded.exit) == ("so far: x", 5)
    model.finished()


def test_what_tasks_cost_counts_and_a_task_alone_is_bound_too(tmp_path: Path) -> None:
    spent = Usage(turns=1, tokens_in=0, tokens_out=100_001)
    researcher = Scripted(Reply(calls=calls(("report", {})).calls, usage=spent), say("found"))
    with session_in(tmp_path) as session:
        tasks = tasks_of(session, tmp_path, None, researcher)
        tasks.limits = PRICED
        agent, model = main_agent(session, tasks, _turn("task", 1, 1), say("summed up"), limits=PRICED)
        with pytest.raises(LimitReached, match="research tasks included"):
            asyncio.run(agent.run())
        (task,) = session.case.tasks.values()
        assert task.status == "limit"
    assert "status: limit" in results(model.requests[-1])[0]


def test_the_next_question_has_its_own_money(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        steps = [_turn("none", 2_000_000, 0), say("x")]
        agent, _ = main_agent(session, tasks_of(session, tmp_path), *steps, limits=PRICED)
        with pytest.raises(LimitReached):
            asyncio.run(agent.run())
        session.record(Said(text="and now?"))
        agent, _ = main_agent(session, tasks_of(session, tmp_path), say("an answer"), limits=PRICED)
        assert asyncio.run(agent.run()).text == "an answer"


def test_the_configuration_sets_it_for_sessions_and_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLSCOUT_HOME", str(tmp_path))
    monkeypatch.setenv("SGLSCOUT_CACHE", str(tmp_path))
    (tmp_path / "config.toml").write_text("price_in = 0.6\nprice_out = 2\nmax_cost = 1.5\n")
    settings = load_settings("playbook")
    with start(settings, {"kind": "bundle", "path": "x", "host": "x"}, "slow") as session:
        run = Run.on(settings, session, lambda *_: None)
        for limits in (session.case.opened.limits, run.tasks.limits):
            assert (limits.cost, limits.price_in, limits.price_out) == (1.5, 0.6, 2.0)
    assert Settings(tmp_path, tmp_path, "", "", "").limited(Limits()).cost is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_cost = 1\n", "needs price_in and price_out"),
        ("price_in = -1\n", "no setting, or its value is none"),
        ('max_cost = "1"\n', "no setting, or its value is none"),
        ("max_cost = true\n", "no setting, or its value is none"),
        ("colour = 1\n", "'colour' is no setting"),
    ],
)
def test_a_wrong_setting_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    monkeypatch.setenv("SGLSCOUT_HOME", str(tmp_path))
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(UsageError, match=said):
        load_settings("playbook")
