"""Any OpenAI-compatible endpoint: chat completions with tools, streamed, behind one retry layer.

The openai package opens the connection and reads the stream; when to try again, for how long, and whether an answer may
be used is decided here, since the package neither notices a cut stream nor shares a back-off between callers.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from agent.model import Message, Reply, Request
from agent.models.errors import ContextTooLong, EmptyAnswer, EndpointRefused, EndpointUnreachable
from agent.models.stream import Assembly, Faulty, holds_call
from transcripts.errors import EndpointError
from transcripts.parts import Call, Usage

if TYPE_CHECKING:
    from tenacity import RetryCallState

ATTEMPTS: Final = 5
CONNECT_S: Final = 10.0
FIRST_TOKEN_S: Final = 300.0
IDLE_S: Final = 60.0
RETRY_AFTER_CAP_S: Final = 120.0
WINDOW_ASKED_ABOVE: Final = 8_000  # tokens of a request
# What servers call it: vLLM and SGLang, several gateways, LM Studio.
_WINDOWS: Final = ("max_model_len", "context_length", "context_window", "max_context_length")
PAGE_SHOWN: Final = 80  # bytes
PARTIAL: Final = 2_000  # characters kept of an answer that was cut
CONTINUATIONS: Final = 2
EMPTY_ANSWERS: Final = 3
SMALLER: Final = "Your last tool call was cut off. Make a smaller one."
GO_ON: Final = "You were cut off. Go on exactly where you stopped."
NOT_AS_TEXT: Final = "Your tool call came as text and was not carried out. Make it as a tool call."
_TOO_LONG: Final = (
    "context length",
    "context_length",
    "maximum context",
    "token count exceeds",
    "too long",
    "longer than the model",
    "context size",
    "context window",
    "contextwindow",
    "reduce the length",
)
_TRY_AGAIN: Final = frozenset({408, 409, 425, 429})  # and what the server, or a proxy before it, did wrong: 5xx
_NEVER: Final = frozenset({501, 505})


@dataclass(slots=True)
class Gate:
    """One per endpoint: when it asks to wait, everybody who talks to it waits."""

    opens_at: float = 0.0

    async def passed(self) -> None:
        left = self.opens_at - time.monotonic()
        if left > 0:
            await asyncio.sleep(left)
            await self.passed()

    def close_for(self, seconds: float) -> None:
        self.opens_at = max(self.opens_at, time.monotonic() + seconds)


_GATES: dict[str, Gate] = {}


@dataclass(slots=True)
class OpenAICompatible:
    """A model at an endpoint. Raises EndpointError kinds; a reply it returns is whole."""

    name: str
    base_url: str
    api_key: str
    first_token_s: float = FIRST_TOKEN_S
    idle_s: float = IDLE_S
    back_off_s: float = 1.0
    connect_s: float = CONNECT_S
    notice: Callable[[str], None] = field(default=lambda _what: None)
    _answering: str = ""
    _takes: int | None = None
    _client: Any = None
    _gate: Gate = field(init=False)

    def __post_init__(self) -> None:
        self._gate = _GATES.setdefault(self.base_url, Gate())

    async def reply(self, request: Request) -> Reply:
        """One whole answer. What was cut is asked for again or gone on with a few times, and marked if it stays cut."""
        messages, text, spent = list(request.messages), "", Usage()
        for last in (False,) * CONTINUATIONS + (True,):
            assembly, finish = await self._attempts(messages, request)
            self._note_model(assembly.model)
            spent += _usage(assembly)
            as_text = bool(request.tools) and not assembly.calls and holds_call(assembly.text)
            if as_text and last:
                raise EndpointRefused(f"{self._where} sends tool calls as text.", "Check its --tool-call-parser.")
            if as_text:
                messages = [*messages, _said(assembly.text), _asked(NOT_AS_TEXT)]
            elif finish != "length":
                window = await self._window(assembly.tokens_in)
                return _reply(assembly, finish, text, spent, window)
            elif assembly.calls:  # never carried out: a call that was cut may mean something else
                messages = [*messages, _asked(SMALLER)]
            elif last:
                return _reply(assembly, finish, text, spent)
            else:
                text += assembly.text
                messages = [*messages, _said(assembly.text), _asked(GO_ON)]
        raise EndpointUnreachable(f"{self._where} keeps cutting tool calls off.", "Raise its limit on output tokens.")

    def _note_model(self, name: str) -> None:
        if self._answering and name and name != self._answering:
            self.notice(f"another model answers at {self._where}: {name} instead of {self._answering}.")
        self._answering = name or self._answering

    @property
    def _where(self) -> str:
        return urlsplit(self.base_url).netloc.rpartition("@")[2] or "the endpoint"

    async def _attempts(self, messages: list[Message], request: Request) -> tuple[Assembly, str]:
        from tenacity import AsyncRetrying, RetryError, retry_if_exception_type

        empty = 0

        def over(state: RetryCallState) -> bool:
            return state.attempt_number >= ATTEMPTS or empty >= EMPTY_ANSWERS

        try:
            async for attempt in AsyncRetrying(
                stop=over,
                retry=retry_if_exception_type(_AgainError),
                wait=lambda state: self._back_off(state.attempt_number),
            ):
                with attempt:
                    await self._gate.passed()
                    assembly = Assembly(request.coming)
                    try:
                        return assembly, await self._once(messages, request.tools, assembly)
                    except _AgainError as error:
                        empty += isinstance(error, _EmptyError)
                        tried = f"attempt {attempt.retry_state.attempt_number} at {self._where}: {error.message}."
                        self.notice(tried + (f" Partial: {assembly.text[:PARTIAL]}" if assembly.text else ""))
                        raise
                    finally:
                        request.coming("")
        except RetryError as error:
            last = error.last_attempt.exception()
            if isinstance(last, _EmptyError):
                raise EmptyAnswer(f"{self._where} answered {empty} times with nothing.", "Check the model.") from last
            raise EndpointUnreachable(
                f"{self._where} did not answer in {ATTEMPTS} attempts: {str(last).rstrip('.')}.",
                "Check OPENAI_BASE_URL; the session is kept.",
            ) from last
        raise AssertionError("unreachable: the retrying loop returns or raises")

    def _back_off(self, attempt: int) -> float:
        import random

        return random.uniform(0, min(30.0, self.back_off_s * 2**attempt))  # noqa: S311  jitter, no secret

    async def _once(self, messages: list[Message], tools: list[dict[str, Any]], assembly: Assembly) -> str:
        """One attempt: how a whole answer ended; _AgainError for what may pass, or what will not."""
        import openai

        try:
            return await self._stream(messages, tools, assembly)
        except Faulty as fault:
            raise self._of_fault(fault) from fault
        except openai.NotFoundError as error:
            raise EndpointRefused(
                f"{self._where} refused the request (HTTP 404): {self._short(_body(error))}.",
                f"Check OPENAI_BASE_URL and SGLSCOUT_MODEL.{await self._models()}",
            ) from error
        except openai.APIStatusError as error:
            raise self._of_status(error.status_code, _body(error), error.response.headers) from error
        except (openai.APIConnectionError, openai.APITimeoutError) as error:
            if (wrong := _certificate(error)) is not None:
                raise EndpointRefused(
                    f"{self._where}: its certificate does not hold: {wrong}.",
                    "Set SSL_CERT_FILE to the authority that signed it.",
                ) from error
            raise _AgainError(f"no connection ({type(error.__cause__ or error).__name__})") from error
        except openai.APIError as error:
            code = str(error.code or "")
            raise self._of_status(int(code) if code.isdigit() else 500, str(error), {}) from error
        except TimeoutError as error:
            raise _AgainError("it fell silent") from error
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _AgainError("it sent what is no JSON") from error

    async def _stream(self, messages: list[Message], tools: list[dict[str, Any]], assembly: Assembly) -> str:
        from agent.models.ending import Ending

        client = self._client or self._connect()
        # Past the package's own walk over every message, whose cost grows with the conversation at every step.
        arguments: dict[str, Any] = {"model": self.name, "messages": [], "stream": True}
        arguments["extra_body"] = {"messages": messages}
        arguments["stream_options"] = {"include_usage": True}
        if tools:
            arguments["tools"] = tools
        async with asyncio.timeout(self.first_token_s):
            stream = await client.chat.completions.create(**arguments)
        if isinstance(stream, str) or not hasattr(stream, "__aiter__"):
            raise Faulty("it answered with a page, not a stream")
        ending = stream.response.stream = Ending(stream.response.stream)
        async with stream:
            chunks = aiter(stream)
            loop = asyncio.get_running_loop()
            heard, until = 0, loop.time() + self.first_token_s
            while True:
                try:
                    async with asyncio.timeout_at(until):
                        chunk = await anext(chunks)
                except StopAsyncIteration:
                    break
                assembly.add(chunk.model_dump(warnings=False) if hasattr(chunk, "model_dump") else chunk)
                if assembly.heard > heard:  # chunks that bring nothing are silence
                    heard, until = assembly.heard, loop.time() + self.idle_s
        if ending.plain and not assembly.begun:
            assembly.add(_whole(ending.plain))
        return assembly.judged(done=ending.marked)

    def _connect(self) -> Any:
        import openai

        where = urlsplit(self.base_url)
        local = (where.hostname or "") in ("127.0.0.1", "::1", "localhost")
        # This machine's own endpoints in the clear need no certificates, whose loading takes longer than a turn; a
        # context without any trusts nobody.
        trusts = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if local and where.scheme == "http" else True
        # The environment's proxy is not for this machine's own endpoints; a redirect must not carry the key away.
        transport = openai.DefaultAsyncHttpxClient(trust_env=not local, follow_redirects=False, verify=trusts)
        self._client = openai.AsyncOpenAI(
            base_url=self.base_url or None,
            api_key=self.api_key or "EMPTY",
            max_retries=0,
            timeout=openai.Timeout(self.first_token_s, connect=self.connect_s),
            http_client=transport,
            default_headers={"Accept-Encoding": "identity"},  # a stream whose end can be seen
        )
        return self._client

    def _of_fault(self, fault: Faulty) -> Exception:
        if fault.empty:
            return _EmptyError(fault.reason)
        if fault.status == 0:
            return EndpointRefused(f"{self._where}: {fault.reason}.", "Ask in other words, or use another model.")
        if fault.status is not None or any(text in fault.reason.lower() for text in _TOO_LONG):
            return self._of_status(fault.status or 400, fault.reason, {})
        return _AgainError(fault.reason)

    def _of_status(self, status: int, body: str, headers: Any) -> Exception:
        lowered = body.lower()
        if status == 413 or (status in (400, 422) and any(text in lowered for text in _TOO_LONG)):
            return ContextTooLong(f"{self._where}: the conversation is too long.", "It is shortened once.")
        wait = _retry_after(headers)
        used_up = status == 429 and "quota" in lowered and not (headers and headers.get("retry-after"))
        if (status in _TRY_AGAIN or status >= 500) and status not in _NEVER and not used_up:
            self._gate.close_for(wait)
            said = f"HTTP {status}: {self._short(body)}" if body else f"HTTP {status}"
            return _AgainError(said + (f", asked again after {wait:.0f} s" if wait >= 1 else ""))
        hint = {
            401: "Check OPENAI_API_KEY.",
            403: "Check what OPENAI_API_KEY may do.",
            429: "The quota of this key is used up.",
        }.get(status, "Check the endpoint's settings.")
        if 300 <= status < 400:
            hint = "It sends elsewhere, which is not followed: set OPENAI_BASE_URL to the final address."
        return EndpointRefused(f"{self._where} refused the request (HTTP {status}): {self._short(body)}.", hint)

    def _short(self, text: str) -> str:
        """What the endpoint said, in one line, without the key and without what looks like one."""
        from transcripts.redaction import Redactor

        hidden = text.replace(self.api_key, "…") if len(self.api_key) > 3 else text
        return Redactor().redact(" ".join(hidden.split())[:200]) or "no reason given"

    async def _models(self) -> str:
        """What models the endpoint has, as the end of a hint; nothing when it does not say."""
        names = [str(model["id"]) for model in await self._listed() if "id" in model][:8]
        return f" It has: {', '.join(names)}." if names else ""

    async def _window(self, used: int) -> int:
        """Tokens that the model takes in all, asked for once a conversation is long; 0 where nobody says."""
        if used > WINDOW_ASKED_ABOVE and self._takes is None:
            named = [model for model in await self._listed() if model.get("id") == self.name]
            told = [model[key] for model in named for key in _WINDOWS if isinstance(model.get(key), int)]
            self._takes = max(0, *told) if told else 0
        return self._takes or 0

    async def _listed(self) -> list[dict[str, Any]]:
        """The models that the endpoint lists, with whatever it says of them."""
        import openai

        try:
            async with asyncio.timeout(self.connect_s):
                listed = await self._client.models.list()
        except (openai.OpenAIError, TimeoutError, ValueError):
            return []
        found = getattr(listed, "data", None)
        return [model.model_dump(warnings=False) for model in found if hasattr(model, "model_dump")] if found else []


class _AgainError(EndpointError):
    """This attempt failed; the next may not."""


class _EmptyError(_AgainError):
    """It brought nothing."""


def _said(text: str) -> Message:
    return {"role": "assistant", "content": text}


def _asked(text: str) -> Message:
    return {"role": "user", "content": text}


def _certificate(error: BaseException | None) -> str | None:
    """Why a certificate was refused, when that is what lies behind a failed connection."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in str(error):
            return getattr(error, "verify_message", "") or "it cannot be verified"
        error = error.__cause__ or error.__context__
    return None


def _reply(assembly: Assembly, finish: str, before: str, spent: Usage, window: int = 0) -> Reply:
    calls = tuple(Call(id=call.id, name=call.name, arguments=call.arguments) for call in _unique(assembly))
    usage = spent.model_copy(update={"turns": 1})
    return Reply(before + assembly.text, calls, usage, assembly.model, finish, window)


def _whole(body: bytes) -> Any:
    """The one object that came where a stream was asked for: an answer all the same, or an error. Raises Faulty."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        start = " ".join(body[:PAGE_SHOWN].decode("utf-8", "replace").split())
        raise Faulty(f"it answered with a page, not a stream: {start}") from None


def _usage(assembly: Assembly) -> Usage:
    return Usage(tokens_in=assembly.tokens_in, tokens_out=assembly.tokens_out)


def _unique(assembly: Assembly) -> list[Any]:
    """Calls with ids made unique, so that no result is lost to another's id."""
    seen: set[str] = set()
    for number, call in enumerate(assembly.calls, 1):
        if not call.id or call.id in seen:
            call.id = f"{call.id or 'call'}_{number}_{time.monotonic_ns()}"
        seen.add(call.id)
    return assembly.calls


def _retry_after(headers: Any) -> float:
    """Seconds the endpoint asks to wait: a number, a date, or nothing of use; never more than the cap."""
    value = str(headers.get("retry-after", "") if headers else "").strip()
    if not value:
        return 0.0
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return 0.0
    return min(max(0.0, seconds), RETRY_AFTER_CAP_S) if seconds == seconds else 0.0


def _body(error: Any) -> str:
    try:
        return str(error.response.text)[:2_000]
    except Exception:  # noqa: BLE001  a body that cannot be read is no body
        return str(error)
