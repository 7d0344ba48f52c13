"""Streams that are nearly what they should be: what is meant is taken, the rest is the endpoint's fault and no bug."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from typing import Any

import pytest

from agent.models.errors import ContextTooLong, EndpointRefused, EndpointUnreachable
from agent.models.openai_compatible import OpenAICompatible
from agent.settings import load_settings
from tests.agent.models.test_fault_matrix import ask, refused, request
from tests.endpoint import Answer, Connection, chunk, endpoint, events, fails, raw, streams
from transcripts.errors import EndpointError, UsageError

Json = dict[str, Any]
HELLO = chunk({"content": "hello"}, "stop")
CALL = {"index": 0, "id": "a", "function": {"name": "look", "arguments": "{}"}}
WHOLE = {
    "object": "chat.completion",
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2},
}


def calling(**part: Any) -> Answer:
    return streams(chunk({"tool_calls": [CALL | part]}, "tool_calls"))


def used(**usage: Any) -> Answer:
    return streams(HELLO, {"choices": [], "usage": usage})


def first(**choice: Any) -> Answer:
    return streams({"choices": [{"index": 0, "delta": {"content": "hello"}, "finish_reason": "stop"} | choice]})


@pytest.mark.parametrize(
    "answer",
    [
        raw(json.dumps(WHOLE).encode(), kind="application/json"),
        raw(json.dumps(WHOLE, indent=2).encode(), kind="text/event-stream"),
        streams(WHOLE),
        raw(events([HELLO]), kind="text/html"),
        raw(gzip.compress(events([HELLO])), content_encoding="gzip"),
        streams(chunk({"content": [{"type": "text", "text": "hel"}, "lo"]}, "stop")),
        streams(chunk({"content": "hello", "reasoning_content": ["so"]}, "stop")),
        streams({"choices": [{"index": 0, "delta": None}]}, HELLO),
        streams({"choices": None}, HELLO),
        streams(HELLO | {"error": None, "model": ["m"]}),
        first(index="0"),
        first(index=None),
        first(finish_reason={"type": "stop", "matched": 2}),
        used(prompt_tokens="many", completion_tokens=None),
        used(prompt_tokens={"cached": 1}, completion_tokens=-3),
        raw(events([HELLO], False) + b'data: {"choices": [], "usage": {"prompt_tokens": 1e999}}\n\ndata: [DONE]\n\n'),
    ],
)
def test_what_is_meant_is_taken(answer: Answer) -> None:
    reply, server = ask(answer)
    assert (reply.text, reply.finish, len(server.requests)) == ("hello", "stop", 1)
    assert reply.usage.tokens_in in (0, 7)
    assert reply.usage.tokens_out >= 0


@pytest.mark.parametrize(
    ("answer", "arguments"),
    [
        (calling(function={"name": "look", "arguments": {"x": 1}}), '{"x": 1}'),
        (calling(index="0"), "{}"),
        (calling(index=[0]), "{}"),
        (calling(id=7), "{}"),
        (streams(chunk({"tool_calls": CALL}, "tool_calls")), "{}"),
    ],
)
def test_a_call_of_another_shape_is_the_call_that_is_meant(answer: Answer, arguments: str) -> None:
    reply, _ = ask(answer)
    (call,) = reply.calls
    assert (call.name, call.arguments, bool(call.id)) == ("look", arguments, True)


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (streams(chunk({"content": 5}, "stop")), EndpointUnreachable, "held int where text belongs"),
        (streams({"choices": ["hello"]}), EndpointUnreachable, "held str where choices belong"),
        (first(delta="hello"), EndpointUnreachable, "held str where deltas belong"),
        (streams(chunk({"tool_calls": ["look"]}, "tool_calls")), EndpointUnreachable, "where tool calls belong"),
        (calling(function="look"), EndpointUnreachable, "held str where functions belong"),
        (first(finish_reason="error"), EndpointUnreachable, "ended the answer with an error"),
        (first(finish_reason={"type": "abort"}), EndpointRefused, "ended the answer: abort"),
        (raw(b"data: " + b"[" * 100_000 + b"\n\n"), EndpointUnreachable, "no JSON"),
        (raw(b"<html>log in</html>", kind="text/html"), EndpointUnreachable, "not a stream: <html>log in</html>"),
        (raw(b'{"error": {"message": "boom", "code": 400}}'), EndpointRefused, "HTTP 400): boom"),
        (streams(chunk({"content": "he"}), {"detail": "boom"}), EndpointUnreachable, "boom"),
        (streams(chunk({"content": "he"}), {"message": "boom", "code": 503}), EndpointUnreachable, "HTTP 503: boom"),
        (raw(b'{"message": "longer than the model\'s context length", "code": 400}'), ContextTooLong, "too long"),
        (fails(500, "CUDA out of memory"), EndpointUnreachable, 'HTTP 500: {"error": {"message": "CUDA out of'),
        (fails(524), EndpointUnreachable, "HTTP 524"),
        (fails(501), EndpointRefused, "HTTP 501"),
        (fails(429, "Quota exceeded for a minute", retry_after="0"), EndpointUnreachable, "HTTP 429"),
        (fails(429, "You exceeded your current quota"), EndpointRefused, "used up"),
    ],
)
def test_what_cannot_be_meant_is_the_endpoints_fault(answer: Answer, kind: type[EndpointError], said: str) -> None:
    error, asked = refused(answer, kind)
    assert said in str(error)
    assert len(asked) == (5 if kind is EndpointUnreachable else 1)


def for_ever(piece: bytes) -> Answer:
    """A word, and then one piece again and again until nobody listens."""

    async def answer(connection: Connection) -> None:
        await connection.head()
        await connection.send(events([chunk({"role": "assistant"})], False))
        while not connection.writer.is_closing():
            await connection.send(piece)
            await asyncio.sleep(0)

    return answer


@pytest.mark.parametrize(
    ("piece", "said"),
    [
        (chunk({}), "fell silent"),
        ({"choices": [], "usage": {"prompt_tokens": 1}}, "fell silent"),
        (chunk({"content": "\n" * 100}), "round in circles"),
        (chunk({"tool_calls": [CALL | {"function": {"arguments": " \n" * 50}}]}), "round in circles"),
        (chunk({"reasoning_content": "hm " * 50}), "round in circles"),
    ],
)
def test_a_stream_that_goes_on_and_brings_nothing_does_not_hold_a_turn(piece: Json, said: str) -> None:
    patience = 0.1 if said == "fell silent" else 30.0
    error, _ = refused(for_ever(events([piece], False)), EndpointUnreachable, first_token_s=patience, idle_s=patience)
    assert said in str(error)


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:30000/v1", "http://", "ftp://x/v1", "http://[::1/v1", "http://h:abc/v1", "http://h:0/v1", "http://a b"],
)
def test_an_address_that_is_none_is_said_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with pytest.raises(UsageError, match=re.escape(f"OPENAI_BASE_URL is no address: {url!r}")):
        load_settings("m")
    assert load_settings("playbook").model == ""


@pytest.mark.parametrize("key", ["sk-kö", "sk-a\nb", "sk a", "“sk-a”"])
def test_a_key_that_no_request_can_carry_is_said_and_not_shown(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(UsageError, match="OPENAI_API_KEY holds a character") as caught:
        load_settings("m")
    assert key not in str(caught.value)


def test_what_a_file_or_a_shell_leaves_around_a_key_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-abc\r\n")
    monkeypatch.setenv("OPENAI_BASE_URL", " http://127.0.0.1:30000/v1 ")
    settings = load_settings("m")
    assert (settings.api_key, settings.base_url) == ("sk-abc", "http://127.0.0.1:30000/v1")


def test_a_password_in_the_address_is_not_told() -> None:
    async def work() -> str:
        model = OpenAICompatible("m", "http://me:hidden@127.0.0.1:9/v1", "k", back_off_s=0.001)
        with pytest.raises(EndpointUnreachable) as caught:
            await model.reply(request())
        return str(caught.value)

    assert asyncio.run(work()).startswith("127.0.0.1:9 did not answer in 5 attempts")


@pytest.mark.parametrize(
    ("listed", "window"),
    [
        ({"data": [{"id": "other", "max_model_len": 9}, {"id": "m", "max_model_len": 32_768}]}, 32_768),
        ({"data": [{"id": "m", "context_length": 16_384}]}, 16_384),
        ({"data": [{"id": "m", "max_model_len": "long"}]}, 0),
        ({"data": ["m"]}, 0),
        ({"data": None}, 0),
        ({"error": "no"}, 0),
    ],
)
def test_the_window_is_asked_for_once_a_conversation_is_long(listed: Json, window: int) -> None:
    async def work() -> tuple[list[int], int]:
        long, short = ({"choices": [], "usage": {"prompt_tokens": tokens}} for tokens in (20_000, 100))
        told = raw(json.dumps(listed).encode(), kind="application/json")
        async with endpoint(streams(HELLO, short), streams(HELLO, long), told, streams(HELLO, long)) as server:
            model = OpenAICompatible("m", server.url, "k", back_off_s=0.001)
            return [(await model.reply(request())).window for _ in range(3)], len(server.requests)

    assert asyncio.run(work()) == ([0, window, window], 4)
