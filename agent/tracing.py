"""Spans of a run, as OpenTelemetry's conventions for generative AI name them: turns, answers, tool calls, tasks.

They are made of the records as these are written, so nothing that is traced knows of it. A span says how long, how
much, which tool and which id; no word of the conversation, the host or the operator goes with it. Off unless
OTEL_EXPORTER_OTLP_ENDPOINT (or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) names a collector and `sglscout[otel]` is installed.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from agent.settings import FROM_HOST, PLAYBOOK
from agent.views.words import visible
from transcripts.parts import Usage
from transcripts.records import Concluded, Ended, Opened, Record, Replied, Resumed, Retried, Said, Started, TaskChanged

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
NAME: Final = "sglscout"
RESEARCHER: Final = "researcher"
PATIENCE_S: Final = 2.0  # a collector that is gone holds the end of the program up no longer
MILLISECOND: Final = 1_000_000  # in ns; records are timed in ms
_ERRORS: Final = {1: "bug", 2: "usage", 4: "host", 5: "limit", 6: "endpoint", 130: "interrupted"}


def wanted() -> str:
    """The variable that names a collector, empty when traces are off."""
    off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or os.environ.get("OTEL_TRACES_EXPORTER") == "none"
    return "" if off else next((name for name in ENDPOINTS if os.environ.get(name)), "")


@cache
def exporting() -> Tracer | None:
    """The tracer that sends to the collector named in the environment until the program ends; None without packages."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        return None
    provider = TracerProvider(resource=Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME") or NAME}))
    patience = None if os.environ.get("OTEL_EXPORTER_OTLP_TIMEOUT") else PATIENCE_S
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=patience)))
    log = logging.getLogger("opentelemetry")
    log.propagate = False
    log.addHandler(_Once(logging.ERROR))
    return provider.get_tracer(NAME)


class _Once(logging.Handler):
    """Tells the first time that spans did not arrive, and not again: nobody diagnoses a server for its traces."""

    told = False

    def emit(self, record: logging.LogRecord) -> None:
        if not self.told:
            self.told = True
            sys.stderr.write(f"traces did not arrive: {visible(record.getMessage())}\n")


@dataclass(slots=True)
class _Line:
    """What is open of one transcript: its turn, its calls, and when its last record was written (ns)."""

    agent: str
    last: int
    parent: Context | None = None
    turn: Span | None = None
    usage: Usage = field(default_factory=Usage)
    retries: list[int] = field(default_factory=list)
    calls: dict[str, Span] = field(default_factory=dict)


class Tracing:
    """Watches a session and its tasks, or one task that is worked on by itself; `base_url` is where its model is."""

    def __init__(self, tracer: Tracer, opened: Opened, base_url: str = "") -> None:
        self._tracer = tracer
        self._own, self._conversation = opened.id, opened.parent or opened.id
        self._asked: dict[str, Any] = {
            "gen_ai.provider.name": NAME if opened.model == PLAYBOOK else "openai",
            "gen_ai.request.model": opened.model,
        }
        where = urlsplit(base_url)
        if where.hostname and opened.model not in (PLAYBOOK, FROM_HOST):
            self._asked |= {"server.address": where.hostname} | ({"server.port": where.port} if where.port else {})
        agent = NAME if opened.role == "session" else RESEARCHER
        self._lines = {opened.id: _Line(agent, time.time_ns() // MILLISECOND * MILLISECOND)}

    def session(self, record: Record) -> None:
        """A record of what was opened."""
        self.task(self._own, record)

    def task(self, transcript: str, record: Record) -> None:
        """A record of one of its tasks."""
        at = round(datetime.fromisoformat(record.at).timestamp() * 1_000) * MILLISECOND
        line = self._lines.setdefault(transcript, _Line(RESEARCHER, at))
        match record:
            case Said() | Resumed() if line.turn is None:
                self._turn(transcript, line, at)
            case Started():
                self._call(transcript, line, record, at)
            case Ended():
                self._ended(line, record, at)
            case Replied():
                self._replied(transcript, line, record, at)
            case TaskChanged() if record.status == "running":
                self._lines[record.id] = _Line(RESEARCHER, at, self._inside(line.calls.get(record.call) or line.turn))
            case Concluded():
                self._concluded(line, record, at)
            case _:
                pass
        if isinstance(record, Retried):
            line.retries.append(at)
        else:
            line.last = at

    def _turn(self, transcript: str, line: _Line, at: int) -> Span:
        """The turn that runs, begun at that time if none does."""
        if line.turn is None:
            about = {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": line.agent,
                "gen_ai.agent.id": transcript,
                "gen_ai.conversation.id": self._conversation,
            }
            name = f"invoke_agent {line.agent}"
            line.turn = self._tracer.start_span(name, line.parent, attributes=about | self._asked, start_time=at)
        return line.turn

    def _call(self, transcript: str, line: _Line, record: Started, at: int) -> None:
        about = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": record.name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": record.call,
        }
        inside = self._inside(self._turn(transcript, line, line.last))
        span = self._tracer.start_span(f"execute_tool {record.name}", inside, attributes=about, start_time=at)
        line.calls[record.call] = span

    def _ended(self, line: _Line, record: Ended, at: int) -> None:
        span = line.calls.get(record.call)
        if span is not None:
            _end(span, at, "" if record.status == "ok" else record.status)

    def _replied(self, transcript: str, line: _Line, record: Replied, at: int) -> None:
        from opentelemetry.trace import SpanKind

        about = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": self._conversation, **self._asked}
        about |= {"gen_ai.response.model": record.model} if record.model else {}
        about |= {"gen_ai.response.finish_reasons": [record.finish]} if record.finish else {}
        span = self._tracer.start_span(
            f"chat {self._asked['gen_ai.request.model']}",
            self._inside(self._turn(transcript, line, line.last)),
            kind=SpanKind.CLIENT,
            attributes=about | _counted(record.usage),
            start_time=line.last,
        )
        for each in line.retries:
            span.add_event("retry", timestamp=each)
        line.retries.clear()
        line.usage += record.usage
        span.end(at)

    def _concluded(self, line: _Line, record: Concluded, at: int) -> None:
        if line.turn is None:
            return
        line.turn.set_attributes({"sglscout.exit_code": record.exit} | _counted(line.usage))
        _end(line.turn, at, _ERRORS.get(record.exit, ""))
        line.turn, line.usage = None, Usage()
        line.calls.clear()

    def _inside(self, span: Span | None) -> Context | None:
        from opentelemetry.trace import set_span_in_context

        return set_span_in_context(span) if span is not None else None


def _counted(usage: Usage) -> dict[str, Any]:
    """Tokens, where the endpoint counts them."""
    counted = {"gen_ai.usage.input_tokens": usage.tokens_in, "gen_ai.usage.output_tokens": usage.tokens_out}
    return {name: value for name, value in counted.items() if value}


def _end(span: Span, at: int, error: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    if error:
        span.set_attribute("error.type", error)
        span.set_status(Status(StatusCode.ERROR))
    span.end(at)
