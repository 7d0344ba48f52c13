"""The faults of model endpoints, F01 to F50, against the real client through a server that sends any bytes at any pace.

Rows that hold elsewhere: `ELSEWHERE` names their tests; every other row has its test here, by its number.
"""

from __future__ import annotations

import ast
import asyncio
import json
import re
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from agent.case import Case
from agent.loop import Agent
from agent.model import Reply, Request
from agent.models.errors import ContextTooLong, EmptyAnswer, EndpointRefused, EndpointUnreachable
from agent.models.openai_compatible import OpenAICompatible
from agent.models.scripted import Scripted, calls, say
from tests.agent.research import session_in
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
from tests.long import LONG
from tools.toolbox import Arguments, Emit, Tool, Toolbox
from transcripts.errors import EndpointError, LimitReached
from transcripts.parts import Limits
from transcripts.records import Opened
from transcripts.store import Store

TOOL = {"type": "function", "function": {"name": "look", "description": "", "parameters": {"type": "object"}}}

KEY = "k-not-to-be-shown-0123456789"
USED = {**chunk(), "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}

ENDPOINT, LOOP, CASE = "agent/models/test_endpoint.py", "agent/test_loop_and_tasks.py", "agent/test_endpoint_case.py"
ELSEWHERE = {
    "F15": f"{ENDPOINT}::test_what_may_pass_is_tried_again",
    "F19": f"{ENDPOINT}::test_silence_and_pings_do_not_hold_a_turn_for_ever",
    "F21": f"{ENDPOINT}::test_what_may_pass_is_tried_again",
    "F24": f"{ENDPOINT}::test_dialects_of_server_sent_events",
    "F25": f"{ENDPOINT}::test_what_may_pass_is_tried_again",
    "F27": f"{ENDPOINT}::test_text_cut_at_the_limit_is_gone_on_with_then_kept_and_marked",
    "F28": f"{ENDPOINT}::test_a_cut_call_is_never_carried_out_but_asked_for_anew",
    "F29": f"{ENDPOINT}::test_a_cut_call_is_never_carried_out_but_asked_for_anew",
    "F32": f"{LOOP}::test_a_wrong_call_is_an_answer_not_an_end",
    "F36": f"{ENDPOINT}::test_calls_without_index_or_with_equal_ids_get_ids_of_their_own",
    "F41": f"{ENDPOINT}::test_what_may_pass_is_tried_again",
    "F43": f"{LOOP}::test_a_model_that_repeats_itself_in_spite_of_that_is_stopped",
    "F45": "agent/test_complaints.py::test_of_very_many_calls_in_one_message_only_the_first_are_carried_out",
    "F49": "agent/test_kill.py",
    "F50": "agent/test_model_from_host.py::test_a_diagnosis_comes_to_its_change_though_the_server_is_no_model",
}


def test_every_row_has_a_test() -> None:
    tests = Path(__file__).resolve().parents[2]
    here = {node.name for node in ast.parse(Path(__file__).read_text(encoding="utf-8")).body if hasattr(node, "name")}
    for number in range(1, 51):
        row = f"F{number:02d}"
        path, _, name = ELSEWHERE.get(row, "").partition("::")
        if path:
            assert name in (tests / path).read_text(encoding="utf-8")
        assert path or any(re.match(rf"test_(f\d\d_)*{row.lower()}_", test) for test in here), row


def request(*, tools: bool = True) -> Request:
    case = Case(Opened(id="ses_0", role="session", text="slow"))
    asked = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    return Request(asked, [TOOL] if tools else [], case)


def ask(*answers: Answer, **settings: Any) -> tuple[Reply, Endpoint]:
    async def work() -> tuple[Reply, Endpoint]:
        async with endpoint(*answers) as server:
            model = OpenAICompatible("m", server.url, KEY, back_off_s=0.001, **settings)
            return await model.reply(request()), server

    return asyncio.run(work())


def refused(answer: Answer, kind: type[EndpointError], **settings: Any) -> tuple[EndpointError, list[Any]]:
    """What it was refused with, and the questions that were asked until then."""

    async def work() -> tuple[EndpointError, list[Any]]:
        async with endpoint(answer) as server:
            with pytest.raises(kind) as caught:
                await OpenAICompatible("m", server.url, KEY, back_off_s=0.001, **settings).reply(request())
            return caught.value, [body for body in server.requests if "messages" in body]

    return asyncio.run(work())


def unreachable(url: str, **settings: Any) -> EndpointError:
    with pytest.raises(EndpointError) as caught:
        asyncio.run(OpenAICompatible("m", url, KEY, back_off_s=0.001, **settings).reply(request()))
    return caught.value


def test_f01_a_name_that_is_none_and_a_closed_port() -> None:
    for where in ("no-such-host.invalid:1", "127.0.0.1:9"):
        error = unreachable(f"http://{where}/v1")
        assert isinstance(error, EndpointUnreachable)
        assert str(error).startswith(f"{where} did not answer in 5 attempts: no connection")


def test_f02_a_certificate_that_does_not_hold_is_not_tried_again(tmp_path: Path) -> None:
    async def work() -> tuple[EndpointError, list[str]]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(_self_signed(tmp_path))

        async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        notices: list[str] = []
        with pytest.raises(EndpointRefused) as caught:
            await OpenAICompatible("m", f"https://127.0.0.1:{port}/v1", KEY, notice=notices.append).reply(request())
        server.close()
        return caught.value, notices

    error, tried_again = asyncio.run(work())
    assert tried_again == []
    assert "certificate does not hold" in str(error)


def _self_signed(folder: Path) -> Path:
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "self-signed.pem"
    path.write_bytes(private + pem)
    return path


def test_f03_a_connection_that_hangs_counts_as_an_attempt() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]  # the backlog is full: further connections get no answer
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        error = unreachable(f"http://127.0.0.1:{port}/v1", connect_s=0.05)
        for each in waiting:
            each.close()
    assert isinstance(error, EndpointUnreachable)
    assert "in 5 attempts: no connection" in str(error)


TOO_LONG = (
    "Requested token count exceeds the model's maximum context length of 8192 tokens.",
    "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
    "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
    "litellm.ContextWindowExceededError: the prompt is too long",
    "the request exceeds the available context size (4096 tokens), try increasing it",
    "Please reduce the length of the messages or completion.",
)


@pytest.mark.parametrize("text", TOO_LONG)
def test_f04_f09_too_long_in_all_known_words_is_one_kind(text: str) -> None:
    in_stream = raw(b"data: " + json.dumps({"error": {"message": text, "code": 400}}).encode() + b"\n\n")
    for answer in (fails(400, text), fails(413), in_stream):
        _, asked = refused(answer, ContextTooLong)
        assert len(asked) == 1


def test_f04_f09_it_is_shortened_once_and_said_when_that_does_not_help(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        model = Scripted(ContextTooLong("a", ""), ContextTooLong("b", ""))
        with pytest.raises(ContextTooLong):
            asyncio.run(Agent(session, model, Toolbox([]), "s", Limits()).run())
    assert len(model.requests) == 2


def test_f05_f06_a_refusal_shows_what_was_said_and_never_the_key() -> None:
    for status, hint in ((400, "settings"), (401, "OPENAI_API_KEY"), (403, "OPENAI_API_KEY")):
        error, asked = refused(
            fails(status, f"Incorrect key provided: {KEY}, or sk-abcdefghij0123456789abcd"), EndpointRefused
        )
        assert len(asked) == 1
        assert f"HTTP {status}" in str(error)
        assert "Incorrect key provided" in str(error)
        assert hint in str(error)
        assert KEY not in str(error)
        assert "sk-abcdefghij" not in str(error)


def test_f07_an_unknown_model_is_answered_with_the_ones_there_are() -> None:
    async def answer(connection: Connection) -> None:
        if connection.path.endswith("/models"):
            listed = {"object": "list", "data": [{"id": "kimi-k2.5", "object": "model", "created": 1, "owned_by": "x"}]}
            await raw(json.dumps(listed).encode(), 200, "application/json")(connection)
        else:
            await fails(404, "no such model")(connection)

    error, asked = refused(answer, EndpointRefused)
    assert len(asked) == 1
    assert "It has: kimi-k2.5." in str(error)
    error, _ = refused(fails(404), EndpointRefused)
    assert "SGLSCOUT_MODEL" in str(error)


@pytest.mark.parametrize("status", [408, 409, 425, 500, 502, 503, 504, 529])
def test_f08_f14_what_may_pass_is_tried_again_at_most_five_times(status: int) -> None:
    reply, server = ask(fails(status), fails(status), SAYS_HELLO)
    assert (reply.text, len(server.requests)) == ("hello", 3)
    _, asked = refused(fails(status), EndpointUnreachable)
    assert len(asked) == 5


def test_f10_a_schema_that_is_refused_is_not_tried_again() -> None:
    error, asked = refused(fails(422, "tools: extra fields not permitted"), EndpointRefused)
    assert len(asked) == 1
    assert "extra fields" in str(error)


def test_f11_four_who_are_told_to_wait_wait_together_and_it_is_noticed() -> None:
    async def work() -> tuple[float, int, list[str]]:
        notices: list[str] = []
        async with endpoint(fails(429, retry_after="0.2"), SAYS_HELLO) as server:
            models = [OpenAICompatible("m", server.url, KEY, back_off_s=0.001, notice=notices.append) for _ in range(4)]
            await models[0].reply(request())
            began = time.monotonic()
            models[0]._gate.close_for(0.2)
            await asyncio.gather(*(model.reply(request()) for model in models[1:]))
            return time.monotonic() - began, len(server.requests), notices

    waited, asked, notices = asyncio.run(work())
    assert asked == 2 + 3
    assert waited >= 0.2
    assert len(notices) == 1
    assert "HTTP 429" in notices[0]


@pytest.mark.parametrize("value", ["1e9", "99999", formatdate(4_000_000_000), "-5", "nan", "inf", "soon", ""])
def test_f12_no_word_about_waiting_keeps_it_for_longer_than_two_minutes(value: str) -> None:
    assert _gate_after(value) <= 120


def test_f12_a_date_is_waited_for() -> None:
    assert 30 < _gate_after(formatdate(time.time() + 60)) <= 60


def _gate_after(value: str) -> float:
    """Seconds until anybody asks again, after a 429 with that word about waiting."""

    async def work() -> float:
        async with endpoint(fails(429, retry_after=value)) as server:
            model = OpenAICompatible("m", server.url, KEY, back_off_s=0.001)
            turn = asyncio.create_task(model.reply(request()))
            while not model._gate.opens_at:  # noqa: ASYNC110  that it was told is seen nowhere else
                await asyncio.sleep(0)
            turn.cancel()
            await asyncio.gather(turn, return_exceptions=True)
            return model._gate.opens_at - time.monotonic()

    return asyncio.run(work())


def test_f13_a_quota_that_is_used_up_is_not_tried_again() -> None:
    _, asked = refused(fails(429, "insufficient_quota: you exceeded your current quota"), EndpointRefused)
    assert len(asked) == 1


def test_f16_a_redirect_is_not_followed_and_carries_no_key_away() -> None:
    async def work() -> int:
        async with (
            endpoint(SAYS_HELLO) as other,
            endpoint(fails(307, location=f"{other.url}/chat/completions")) as server,
        ):
            with pytest.raises(EndpointRefused, match="not followed"):
                await OpenAICompatible("m", server.url, KEY).reply(request())
            return len(other.requests)

    assert asyncio.run(work()) == 0


def test_f17_an_answer_that_never_begins_is_given_up() -> None:
    async def silent(connection: Connection) -> None:
        await asyncio.Event().wait()

    error, asked = refused(silent, EndpointUnreachable, first_token_s=0.05)
    assert len(asked) <= 5  # on a busy machine an attempt may be over before it has reached the server
    assert "in 5 attempts" in str(error)


def test_f18_what_had_come_before_the_silence_is_kept_as_partial_and_the_answer_asked_for_anew() -> None:
    async def silent(connection: Connection) -> None:
        await connection.head()
        await connection.send(events([chunk({"content": "half of it"})], done=False))
        await asyncio.sleep(30)

    async def work() -> tuple[Reply, list[str]]:
        notices: list[str] = []
        async with endpoint(silent, SAYS_HELLO) as server:
            model = OpenAICompatible("m", server.url, KEY, back_off_s=0.001, idle_s=0.5, notice=notices.append)
            return await model.reply(request()), notices

    reply, notices = asyncio.run(work())
    assert reply.text == "hello"
    assert [text.partition(": ")[2] for text in notices] == ["it fell silent. Partial: half of it"]


def test_f20_slow_and_steady_is_not_cut() -> None:
    async def slow(connection: Connection) -> None:
        await connection.head()
        for letter in "slowly":
            await connection.send(events([chunk({"content": letter})], done=False))
            await asyncio.sleep(0.1)
        await connection.send(events([chunk({}, "stop")]))

    reply, server = ask(slow, idle_s=0.5)
    assert (reply.text, len(server.requests)) == ("slowly", 1)


def test_f22_a_finish_without_done_is_whole() -> None:
    assert ask(streams(chunk({"content": "hi"}, "stop"), done=False))[0].text == "hi"


def test_f23_done_without_a_finish_is_asked_for_again_and_no_call_is_carried_out() -> None:
    reply, server = ask(streams(chunk(call_delta("look", "{}"))), streams(chunk({"content": " "})), SAYS_HELLO)
    assert (reply.text, reply.calls, len(server.requests)) == ("hello", (), 3)


def test_f23_text_that_is_done_is_taken_with_a_mark_and_text_that_breaks_off_is_not() -> None:
    """The mark of the end counts as a line of its own, in any pieces; the same letters within an answer do not."""
    said = streams(chunk({"content": "as in data: [DONE]"}), done=False)
    reply, server = ask(said, streams(chunk({"content": "hi"})))
    assert (reply.text, reply.finish, len(server.requests)) == ("hi", "unmarked", 2)

    async def in_pieces(connection: Connection) -> None:
        await connection.head()
        for byte in events([chunk({"content": "hi"})]):
            await connection.send(bytes([byte]))

    assert ask(in_pieces)[0].finish == "unmarked"


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_f24_split_at_every_byte(cut: int) -> None:
    """A third of all places each; one connection a place."""
    data = events([chunk({"content": "hé ü"}), chunk(call_delta("look", '{"ä": 1}')), chunk({}, "tool_calls"), USED])

    def answer(place: int) -> Answer:
        async def send(connection: Connection) -> None:
            await connection.head()
            await connection.send(data[:place])
            await asyncio.sleep(0)
            await connection.send(data[place:])

        return send

    async def work() -> set[tuple[str, str]]:
        places = range(cut, len(data), 3)
        async with endpoint(*[answer(place) for place in places]) as server:
            model = OpenAICompatible("m", server.url, KEY)
            replies = [await model.reply(request()) for _ in places]
            assert len(server.requests) == len(places)
            return {(reply.text, reply.calls[0].arguments) for reply in replies}

    assert asyncio.run(work()) == {("hé ü", '{"ä": 1}')}


@pytest.mark.parametrize(
    ("code", "kind", "asked"), [(401, EndpointRefused, 1), (503, EndpointUnreachable, 5), (500, EndpointUnreachable, 5)]
)
def test_f26_an_error_inside_a_stream_counts_as_its_code(code: int, kind: type[EndpointError], asked: int) -> None:
    told = {"error": {"message": "no", "code": code}}
    assert len(refused(raw(f"data: {json.dumps(told)}\n\n".encode()), kind)[1]) == asked


class Word(Arguments):
    word: str


def run_calls(home: Path, *steps: Any) -> tuple[list[str], Scripted]:
    """What the tools said to a scripted model whose only tool says a word back."""

    async def echo(arguments: Word, _emit: Emit) -> str:
        return f"echo {arguments.word}"

    model = Scripted(*steps)
    with session_in(home) as session:
        asyncio.run(Agent(session, model, Toolbox([Tool("echo", "", Word, echo)]), "s", Limits()).run())
    return [str(m["content"]) for m in model.requests[-1].messages if m["role"] == "tool"], model


def malformed(name: str = "echo", arguments: str = "{") -> Reply:
    (call,) = calls((name, {})).calls
    return Reply(calls=(call.model_copy(update={"arguments": arguments}),))


def test_f30_f34_calls_in_vain_are_answered_three_times_over_all_names_together(tmp_path: Path) -> None:
    vain = [malformed(), malformed("shout"), malformed("echo", '{"word": 1}')]
    told, _ = run_calls(tmp_path / "a", *vain, calls(("echo", {"word": "a"})), say("done"))
    assert "echo a" in told[-1]
    with pytest.raises(LimitReached, match="could not be carried out"):
        run_calls(tmp_path / "b", *vain, malformed("other"), say("never carried out"))


def test_f31_arguments_that_are_too_large_too_deep_or_no_json(tmp_path: Path) -> None:
    deep = "[" * 100_000
    told, _ = run_calls(
        tmp_path, malformed(arguments=deep), malformed(arguments='{"word": "a", "word": "b"}'), say("x")
    )
    assert all("not valid JSON" in text for text in told)
    huge = streams(chunk(call_delta("look", '{"a": "' + "x" * 1_100_000)), chunk({}, "tool_calls"))
    assert ask(huge, SAYS_HELLO)[0].text == "hello"


def test_f33_arguments_written_as_a_text_of_json_are_read_once(tmp_path: Path) -> None:
    once = json.dumps(json.dumps({"word": "a"}))
    told, _ = run_calls(tmp_path, malformed(arguments=once), malformed(arguments=json.dumps(once)), say("done"))
    assert "echo a" in told[0]
    assert "echo" not in told[1].replace("echo:", "")


def test_f35_a_name_with_stray_tokens_is_unknown_and_shown_as_text(tmp_path: Path) -> None:
    told, _ = run_calls(tmp_path, malformed("echo<|channel|>\x1b[2J", "{}"), say("done"))
    assert "no tool is named 'echo<|channel|>" in told[0]
    assert "\x1b" not in told[0]


def test_f37_calls_without_index_and_with_their_id_only_once() -> None:
    first = [chunk(call_delta("look", '{"a"', None, "x")), chunk(call_delta("", ": 1}", None, None))]
    second = [chunk(call_delta("look", '{"a"', None, "y")), chunk(call_delta("", ": 2}", None, None))]
    reply, _ = ask(streams(*first, *second, chunk({}, "tool_calls")))
    assert [(call.id, call.name, call.arguments) for call in reply.calls] == [
        ("x", "look", '{"a": 1}'),
        ("y", "look", '{"a": 2}'),
    ]


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "look"}</tool_call>',
        "<|tool_calls_section_begin|><|tool_call_begin|>look",
        '[TOOL_CALLS] [{"name": "look"}]',
        "<function=look></function>",
    ],
)
def test_f38_a_call_as_text_is_not_carried_out_and_the_parser_is_named(text: str) -> None:
    reply, server = ask(streams(chunk({"content": text}, "stop")), SAYS_HELLO)
    assert (reply.text, reply.calls) == ("hello", ())
    assert "as a tool call" in server.requests[1]["messages"][-1]["content"]
    error, asked = refused(streams(chunk({"content": text}, "stop")), EndpointRefused)
    assert len(asked) == 3
    assert "--tool-call-parser" in str(error)


def test_f39_chunks_without_choices_and_null_content() -> None:
    empty = {**chunk(), "choices": []}
    reply, _ = ask(streams(empty, chunk({"content": None}), chunk({"content": "hi"}), chunk({}, "stop"), USED))
    assert (reply.text, reply.usage.tokens_in, reply.usage.tokens_out) == ("hi", 3, 4)
    assert ask(streams(empty, USED), SAYS_HELLO)[0].text == "hello"


def test_f40_nothing_is_asked_for_again_twice() -> None:
    error, asked = refused(streams(chunk({"content": " "}, "stop")), EmptyAnswer)
    assert len(asked) == 3
    assert "with nothing" in str(error)


@pytest.mark.parametrize("reason", ["content_filter", "abort"])
def test_f42_an_answer_that_the_endpoint_ended_is_said_so(reason: str) -> None:
    error, asked = refused(streams(chunk({"content": "x"}, reason)), EndpointRefused)
    assert len(asked) == 1
    assert reason in str(error)


@pytest.mark.parametrize("piece", ["the same again, ", "x", "lorem ipsum dolor sit amet consectetur adipiscing "])
def test_f44_an_answer_that_goes_round_in_circles_is_cut_off(piece: str) -> None:
    async def endless(connection: Connection) -> None:
        await connection.head()
        with_piece = events([chunk({"content": piece * 20})], done=False)
        while not connection.writer.is_closing():
            await connection.send(with_piece)

    error, asked = refused(endless, EndpointUnreachable)
    assert len(asked) == 5
    assert "circles" in str(error)


def test_f44_a_long_answer_that_says_new_things_is_not_cut_off() -> None:
    text = " ".join(f"line {number}: {number * 37 % 1009} tokens" for number in range(2_000))
    assert ask(streams(chunk({"content": text}, "stop")))[0].text == text


def test_f46_characters_that_are_none_are_stored_and_sent_again(tmp_path: Path) -> None:
    odd = "a\x1b[2J\u202e\x00\ud800b"
    body = json.dumps(chunk({"content": odd}, "stop"))

    async def work() -> str:
        async with endpoint(raw(f"data: {body}\n\ndata: [DONE]\n\n".encode())) as server:
            model = OpenAICompatible("m", server.url, KEY)
            with session_in(tmp_path) as session:
                reply = await Agent(session, model, Toolbox([]), "s", Limits()).run()
                await Agent(session, model, Toolbox([]), "s", Limits()).run()
                identity = session.id
            stored = [record["text"] for record in Store(tmp_path).read(identity) if record["type"] == "replied"]
            assert stored == [reply.text, reply.text]
            assert server.requests[1]["messages"][-1]["content"] == reply.text
            return reply.text

    assert asyncio.run(work()) == "a\x1b[2J\u202e\x00\ufffdb"


def test_f47_another_model_that_answers_is_noticed() -> None:
    async def work() -> list[str]:
        notices: list[str] = []
        other = {**chunk({"content": "hi"}, "stop"), "model": "other"}
        async with endpoint(SAYS_HELLO, streams(other)) as server:
            model = OpenAICompatible("m", server.url, KEY, notice=notices.append)
            assert [(await model.reply(request())).model for _ in range(2)] == ["m", "other"]
        return notices

    (notice,) = asyncio.run(work())
    assert "other instead of m" in notice


def test_f48_a_clock_that_jumps_moves_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 10.0**10)
    reply, server = ask(fails(429, retry_after="0.01"), SAYS_HELLO)
    assert (reply.text, len(server.requests)) == ("hello", 2)


FAULTS: tuple[Callable[[], Answer], ...] = (
    lambda: fails(500),
    lambda: fails(429, retry_after="0"),
    lambda: raw(b""),
    lambda: raw(b"<html>", 200, "text/html"),
    lambda: raw(b"data: {nope}\n\n"),
    lambda: streams(chunk({"content": "ha"}), done=False),
    lambda: streams(chunk({}, "stop")),
    lambda: streams(chunk(call_delta("look", '{"a"')), chunk({}, "tool_calls")),
)


def test_soak_with_a_fault_in_every_fifth_answer() -> None:
    """The fault of a turn follows from its number; no turn hangs, none brings half an answer. 2,000 turns when LONG."""
    turns = 2_000 if LONG else 200

    async def work() -> tuple[int, int]:
        asked = 0

        async def answer(connection: Connection) -> None:
            nonlocal asked
            asked += 1
            fault = FAULTS[(asked * 7) % len(FAULTS)]() if asked % 5 == 0 else SAYS_HELLO
            await fault(connection)

        async with endpoint(answer) as server:
            model = OpenAICompatible("m", server.url, KEY, back_off_s=0.0)
            whole: list[Awaitable[Reply]] = [model.reply(request()) for _ in range(turns)]
            replies = [await each for each in whole]
        return len([reply for reply in replies if reply.text == "hello"]), asked

    whole, asked = asyncio.run(work())
    assert whole == turns
    assert asked >= turns * 1.2
