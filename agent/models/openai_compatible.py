"""Any OpenAI-compatible endpoint: chat completions with tools, streamed, behind one retry layer.

The openai package opens the connection and reads the stream; when to try again, for how long, and whether an answer may
be used is decided here, since the package neither notices a cut stream nor shares a back-off between callers.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

from agent.model import Message, Reply, Request
from agent.models.errors import ContextTooLong, EmptyAnswer, EndpointRefused, EndpointUnreachable
from agent.models.stream import Assembly, Faulty
from transcripts.errors import EndpointError
from transcripts.records import Call, Usage

ATTEMPTS: Final = 5
CONNECT_S: Final = 10.0
FIRST_TOKEN_S: Final = 300.0
IDLE_S: Final = 60.0
RETRY_AFTER_CAP_S: Final = 120.0
CONTINUATIONS: Final = 2
_TOO_LONG: Final = (
    "context length",
    "context_length",
    "maximum context",
    "token count exceeds",
    "too long",
    "longer than the model",
)
_TRY_AGAIN: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


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
    _client: Any = None
    _gate: Gate = field(init=False)

    def __post_init__(self) -> None:
        self._gate = _GATES.setdefault(self.base_url, Gate())

    async def reply(self, request: Request) -> Reply:
        messages = list(request.messages)
        for _ in range(CONTINUATIONS + 1):
            assembly, finish = await self._attempts(messages, request.tools)
            if finish != "length" or not assembly.calls:
                return _reply(assembly, finish)
            # A call that was cut is never carried out: ask again for a smaller one.
            messages = [*messages, {"role": "user", "content": "Your last tool call was cut off. Make a smaller one."}]
        raise EndpointUnreachable(f"{self._where} keeps cutting tool calls off.", "Raise its limit on output tokens.")

    @property
    def _where(self) -> str:
        return urlsplit(self.base_url).netloc or "the endpoint"

    async def _attempts(self, messages: list[Message], tools: list[dict[str, Any]]) -> tuple[Assembly, str]:
        from tenacity import AsyncRetrying, RetryError, retry_if_exception_type, stop_after_attempt

        try:
            async for attempt in AsyncRetrying(
                stop=stop_after_attempt(ATTEMPTS),
                retry=retry_if_exception_type(_AgainError),
                wait=lambda state: self._back_off(state.attempt_number),
            ):
                with attempt:
                    await self._gate.passed()
                    return await self._once(messages, tools)
        except RetryError as error:
            last = error.last_attempt.exception()
            reason = str(last)
            if "empty answer" in reason:
                raise EmptyAnswer(
                    f"{self._where} answered {ATTEMPTS} times with nothing.", "Check the model."
                ) from last
            raise EndpointUnreachable(
                f"{self._where} did not answer in {ATTEMPTS} attempts: {reason}.",
                "Check OPENAI_BASE_URL; the session is kept.",
            ) from last
        raise AssertionError("unreachable: the retrying loop returns or raises")

    def _back_off(self, attempt: int) -> float:
        import random

        return random.uniform(0, min(30.0, self.back_off_s * 2**attempt))  # noqa: S311  jitter, no secret

    async def _once(self, messages: list[Message], tools: list[dict[str, Any]]) -> tuple[Assembly, str]:
        """One attempt: a whole answer, _AgainError for what may pass, or what will not."""
        import openai

        try:
            return await self._stream(messages, tools)
        except Faulty as fault:
            raise self._of_fault(fault) from fault
        except openai.APIStatusError as error:
            raise self._of_status(error.status_code, _body(error), error.response.headers) from error
        except (openai.APIConnectionError, openai.APITimeoutError) as error:
            raise _AgainError(f"no connection ({type(error.__cause__ or error).__name__})") from error
        except openai.APIError as error:
            code = str(error.code or "")
            raise self._of_status(int(code) if code.isdigit() else 500, str(error), {}) from error
        except TimeoutError as error:
            raise _AgainError("it fell silent") from error
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise _AgainError("it sent what is no JSON") from error

    async def _stream(self, messages: list[Message], tools: list[dict[str, Any]]) -> tuple[Assembly, str]:
        client = self._client or self._connect()
        arguments: dict[str, Any] = {"model": self.name, "messages": messages, "stream": True}
        arguments["stream_options"] = {"include_usage": True}
        if tools:
            arguments["tools"] = tools
        assembly = Assembly()
        async with asyncio.timeout(self.first_token_s):
            stream = await client.chat.completions.create(**arguments)
        if isinstance(stream, str) or not hasattr(stream, "__aiter__"):
            raise Faulty("it answered with a page, not a stream")
        async with stream:
            chunks = aiter(stream)
            limit = self.first_token_s
            while True:
                try:
                    async with asyncio.timeout(limit):
                        chunk = await anext(chunks)
                except StopAsyncIteration:
                    break
                assembly.add(chunk.model_dump() if hasattr(chunk, "model_dump") else chunk)
                limit = self.idle_s
        return assembly, assembly.judged()

    def _connect(self) -> Any:
        import openai

        local = (urlsplit(self.base_url).hostname or "") in ("127.0.0.1", "::1", "localhost")
        # The environment's proxy is not for this machine's own endpoints; a redirect must not carry the key away.
        transport = openai.DefaultAsyncHttpxClient(trust_env=not local, follow_redirects=False)
        self._client = openai.AsyncOpenAI(
            base_url=self.base_url or None,
            api_key=self.api_key or "EMPTY",
            max_retries=0,
            timeout=openai.Timeout(self.first_token_s, connect=CONNECT_S),
            http_client=transport,
        )
        return self._client

    def _of_fault(self, fault: Faulty) -> Exception:
        if fault.status == 0:
            return EndpointRefused(f"{self._where}: {fault.reason}.", "Ask in other words, or use another model.")
        if fault.status is not None or any(text in fault.reason.lower() for text in _TOO_LONG):
            return self._of_status(fault.status or 400, fault.reason, {})
        return _AgainError(fault.reason)

    def _of_status(self, status: int, body: str, headers: Any) -> Exception:
        lowered = body.lower()
        if status == 413 or (status in (400, 422) and any(text in lowered for text in _TOO_LONG)):
            return ContextTooLong(f"{self._where}: the conversation is too long.", "It is shortened once.")
        if status in _TRY_AGAIN and not (status == 429 and "quota" in lowered):
            self._gate.close_for(_retry_after(headers))
            return _AgainError(f"HTTP {status}")
        hint = {
            401: "Check OPENAI_API_KEY.",
            403: "Check what OPENAI_API_KEY may do.",
            404: "Check OPENAI_BASE_URL and SGLSCOUT_MODEL.",
            429: "The quota of this key is used up.",
        }.get(status, "Check the endpoint's settings.")
        if 300 <= status < 400:
            hint = "It sends elsewhere, which is not followed: set OPENAI_BASE_URL to the final address."
        return EndpointRefused(f"{self._where} refused the request (HTTP {status}): {_short(body)}.", hint)


class _AgainError(EndpointError):
    """This attempt failed; the next may not."""


def _reply(assembly: Assembly, finish: str) -> Reply:
    usage = assembly.usage or {}
    calls = tuple(
        Call(id=call.id or f"call_{number}", name=call.name, arguments=call.arguments)
        for number, call in enumerate(_unique(assembly), 1)
    )
    return Reply(
        text=assembly.text,
        calls=calls,
        usage=Usage(
            turns=1,
            tokens_in=int(usage.get("prompt_tokens") or 0),
            tokens_out=int(usage.get("completion_tokens") or 0),
        ),
        model=assembly.model,
        finish=finish,
    )


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


def _short(text: str) -> str:
    return " ".join(text.split())[:200] or "no reason given"
