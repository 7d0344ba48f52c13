"""The endpoint model against a real HTTP server that misbehaves in every way that was seen in the wild."""

from __future__ import annotations

import asyncio
import json
import time
from email.utils import formatdate
from typing import Any

import pytest

from agent.case import Case
from agent.model import Reply, Request
from agent.models.errors import ContextTooLong, EmptyAnswer, EndpointRefused, EndpointUnreachable
from agent.models.openai_compatible import OpenAICompatible
from tests.endpoint import (
    SAYS_HELLO,
    Answer,
    Connection,
    Endpoint,
    call_delta,
    chunk,
    endpoint,
    events,
    fails,
    raw,
    streams,
)
from transcripts.records import Opened

TOOL = {"type": "function", "function": {"name": "look", "description": "", "parameters": {"type": "object"}}}


def _request() -> Request:
    case = Case(Opened(id="ses_0", role="session", text="slow"))
    return Request([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}], [TOOL], case)


def _ask(*answers: Answer, **settings: Any) -> tuple[Reply, Endpoint]:
    async def work() -> tuple[Reply, Endpoint]:
        async with endpoint(*answers) as server:
            model = OpenAICompatible("m", server.url, "k", back_off_s=0.001, **settings)
            return await model.reply(_request()), server

    return asyncio.run(work())


def test_a_whole_answer_with_usage() -> None:
    reply, server = _ask(SAYS_HELLO)
    assert (reply.text, reply.finish, reply.model) == ("hello", "stop", "m")
    assert (reply.usage.tokens_in, reply.usage.tokens_out) == (7, 2)
    assert server.requests[0]["tools"] == [TOOL]


@pytest.mark.parametrize("name", ["crlf", "no space", "comments", "several data lines"])
def test_dialects_of_server_sent_events(name: str) -> None:
    plain = events([chunk({"content": "hi"}, "stop")]).decode()
    body = json.dumps(chunk({"content": "hi"}, "stop"))
    text = {
        "crlf": plain.replace("\n", "\r\n"),
        "no space": plain.replace("data: ", "data:"),
        "comments": ": ping\n\n" + plain + ": ping\n\n",
        "several data lines": f"data: {body[:40]}\ndata: {body[40:]}\n\ndata: [DONE]\n\n".replace(
            body[:40] + "\ndata: ", body[: body.index(",") + 1] + "\ndata: " + body[body.index(",") + 1 : 40]
        ),
    }[name]
    assert _ask(raw(text.encode()))[0].text == "hi"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_not_the_answer(field: str) -> None:
    reply, _ = _ask(streams(chunk({field: "thinking"}), chunk({"content": "done"}, "stop")))
    assert reply.text == "done"


def test_parallel_calls_that_all_say_index_0_stay_apart() -> None:
    reply, _ = _ask(
        streams(
            chunk(call_delta("look", '{"a"', 0, "x")),
            chunk(call_delta("", ": 1}", 0, None)),
            chunk(call_delta("look", '{"a": 2}', 0, "y")),
            chunk({}, "tool_calls"),
        )
    )
    assert [(call.id, call.arguments) for call in reply.calls] == [("x", '{"a": 1}'), ("y", '{"a": 2}')]


def test_calls_without_index_or_with_equal_ids_get_ids_of_their_own() -> None:
    reply, _ = _ask(
        streams(
            chunk(call_delta("look", "{}", 0, "same")),
            chunk(call_delta("look", "{}", 1, "same")),
            chunk(call_delta("look", "{}", 2, "")),
            chunk({}, "tool_calls"),
        )
    )
    assert len({call.id for call in reply.calls}) == 3


GOOD_AFTER = {
    "500": fails(500),
    "502 page": raw(b"<html>bad gateway</html>", 502, "text/html"),
    "503": fails(503),
    "408": fails(408),
    "429": fails(429),
    "429 seconds": fails(429, retry_after="0"),
    "429 garbage": fails(429, retry_after="soon"),
    "429 negative": fails(429, retry_after="-5"),
    "429 past date": fails(429, retry_after=formatdate(0)),
    "200 page": raw(b"<html>login</html>", 200, "text/html"),
    "cut before anything": raw(b""),
    "cut in text": streams(chunk({"content": "ha"}), done=False),
    "cut in a call": streams(chunk(call_delta("look", '{"a"'))),
    "done without finish in a call": streams(chunk(call_delta("look", "{}"))),
    "bad json": raw(b"data: {nope}\n\ndata: [DONE]\n\n"),
    "bad json among good": raw(
        events([chunk({"content": "half"})], done=False) + b"data: {nope}\n\n" + events([chunk({}, "stop")])
    ),
    "error object": raw(b'data: {"object": "error", "message": "busy", "code": 503}\n\n'),
    "error in the stream": raw(b'data: {"error": {"message": "busy", "code": 503}}\n\n'),
    "no choices at all": raw(b'data: {"id": "x", "object": "chat.completion.chunk"}\n\ndata: [DONE]\n\n'),
    "empty": streams(chunk({}, "stop")),
    "only reasoning": streams(chunk({"reasoning_content": "hm"}), chunk({}, "stop")),
}


@pytest.mark.parametrize("name", GOOD_AFTER)
def test_what_may_pass_is_tried_again(name: str) -> None:
    reply, server = _ask(GOOD_AFTER[name], SAYS_HELLO)
    assert reply.text == "hello"
    assert len(server.requests) == 2


@pytest.mark.parametrize("name", ["500", "cut in text", "bad json"])
def test_attempts_end_and_say_where(name: str) -> None:
    with pytest.raises(EndpointUnreachable, match=r"127\.0\.0\.1:\d+ did not answer in 5 attempts"):
        _ask(GOOD_AFTER[name])


def test_nothing_again_and_again_is_said_so() -> None:
    with pytest.raises(EmptyAnswer, match="3 times with nothing"):
        _ask(streams(chunk({}, "stop")))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (fails(400, "tools are not supported"), "HTTP 400.*tools are not supported"),
        (fails(401, "bad key"), "Check OPENAI_API_KEY"),
        (fails(403), "OPENAI_API_KEY"),
        (fails(404), "SGLSCOUT_MODEL"),
        (fails(422), "HTTP 422"),
        (fails(429, "You exceeded your current quota"), "quota"),
        (fails(307, location="http://192.0.2.1/"), "not followed"),
        (streams(chunk({"content": "x"}, "content_filter")), "content_filter"),
    ],
)
def test_what_will_not_pass_is_not_tried_again(answer: Answer, said: str) -> None:
    async def work() -> int:
        async with endpoint(answer) as server:
            with pytest.raises(EndpointRefused, match=said):
                await OpenAICompatible("m", server.url, "k-secret-k", back_off_s=0.001).reply(_request())
            return sum("messages" in request for request in server.requests)

    assert asyncio.run(work()) == 1


@pytest.mark.parametrize(
    "text",
    [
        "Requested token count exceeds the model's maximum context length of 8192 tokens.",
        "This model's maximum context length is 8192 tokens.",
        "context_length_exceeded",
    ],
)
def test_too_long_is_told_apart(text: str) -> None:
    for answer in (fails(400, text), fails(413), raw(json.dumps({"error": {"message": text}}).encode(), 400)):
        with pytest.raises(ContextTooLong):
            _ask(answer)


def test_a_cut_call_is_never_carried_out_but_asked_for_anew() -> None:
    cut = streams(chunk(call_delta("look", '{"a": "xxx')), chunk({}, "length"))
    lying = streams(chunk(call_delta("look", '{"a": "xxx')), chunk({}, "tool_calls"))
    reply, server = _ask(cut, lying, SAYS_HELLO)
    assert reply.text == "hello"
    assert "smaller" in server.requests[2]["messages"][-1]["content"]
    with pytest.raises(EndpointUnreachable, match="keeps cutting"):
        _ask(cut)


def test_text_cut_at_the_limit_is_gone_on_with_then_kept_and_marked() -> None:
    half = streams(chunk({"content": "half "}, "length"), {**chunk(), "choices": [], "usage": {"completion_tokens": 5}})
    whole = streams(chunk({"content": "rest"}, "stop"), {**chunk(), "choices": [], "usage": {"completion_tokens": 2}})
    reply, server = _ask(half, whole)
    assert (reply.text, reply.finish, reply.usage.tokens_out) == ("half rest", "stop", 7)
    assert server.requests[1]["messages"][-2]["content"] == "half "
    reply, server = _ask(half)
    assert (reply.text, reply.finish, len(server.requests)) == ("half half half ", "length", 3)


def test_silence_and_pings_do_not_hold_a_turn_for_ever() -> None:
    async def silent(connection: Connection) -> None:
        await connection.head()
        await connection.send(events([chunk({"content": "a"})], done=False))
        for _ in range(100):
            await connection.send(": ping\n\n")
            await asyncio.sleep(0.01)

    notices: list[str] = []
    reply, server = _ask(silent, SAYS_HELLO, idle_s=0.2, notice=notices.append)
    assert reply.text == "hello"
    assert len(server.requests) == 2
    assert ["fell silent" in notice for notice in notices] == [True]


def test_retry_after_closes_the_gate_for_everybody_at_that_endpoint() -> None:
    """One is told to wait; three others, who come to ask a moment later, ask no earlier than that one does again."""

    async def work() -> list[float]:
        asked, told = list[float](), asyncio.Event()

        async def answer(connection: Connection) -> None:
            asked.append(time.monotonic())
            await (SAYS_HELLO if told.is_set() else fails(429, retry_after="1"))(connection)
            told.set()

        async with endpoint(answer) as server:
            models = [OpenAICompatible("m", server.url, "k", back_off_s=0.001) for _ in range(4)]
            first = asyncio.create_task(models[0].reply(_request()))
            while not models[0]._gate.opens_at:  # noqa: ASYNC110  that it was told is seen nowhere else
                await asyncio.sleep(0)
            await asyncio.gather(first, *(model.reply(_request()) for model in models[1:]))
        return asked

    first, *later = asyncio.run(work())
    assert len(later) == 4
    assert min(later) - first >= 1


def test_waits_between_attempts_differ_and_end_somewhere() -> None:
    """Otherwise those who failed together come back together."""
    model = OpenAICompatible("m", "http://127.0.0.1:9/v1", "k")
    waits = [model._back_off(attempt) for attempt in range(1, 60) for _ in range(20)]
    assert len(set(waits)) > 1_000
    assert 0 <= min(waits) <= max(waits) <= 30


def test_cancelling_closes_the_connection() -> None:
    async def work() -> bool:
        started = asyncio.Event()

        async def hang(connection: Connection) -> None:
            await connection.head()
            await connection.send(events([chunk({"content": "a"})], done=False))
            started.set()
            while not connection.writer.is_closing():
                await connection.send(": ping\n\n")
                await asyncio.sleep(0.01)

        async with endpoint(hang) as server:
            turn = asyncio.create_task(OpenAICompatible("m", server.url, "k").reply(_request()))
            await started.wait()
            turn.cancel()
            await asyncio.gather(turn, return_exceptions=True)
            await asyncio.wait_for(server.gone.wait(), 5)
            return True

    assert asyncio.run(work())


def test_no_endpoint_is_one_clear_line() -> None:
    model = OpenAICompatible("m", "http://127.0.0.1:9/v1", "k", back_off_s=0.001)
    with pytest.raises(EndpointUnreachable, match=r"127\.0\.0\.1:9 did not answer"):
        asyncio.run(model.reply(_request()))
