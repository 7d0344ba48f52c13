"""Spans of a run: what stands in which, what they say, that no word of the conversation goes with them, and when."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from agent import tracing
from agent.commands.doctor import _local
from agent.models.scripted import Step, calls, say
from agent.run import Run, start
from agent.settings import Settings
from agent.tracing import Tracing
from tests.agent.research import ASK, main_agent, session_in, tasks_of
from tests.program import ROOT
from transcripts.errors import LimitReached
from transcripts.parts import Limits
from transcripts.records import Concluded, Retried

SECRET = "offload"  # a word of the task's description and of its answer


def _traced(home: Path, *steps: Step, limits: Limits | None = None, retried: bool = False) -> list[ReadableSpan]:
    """A main agent with its tasks, run to its end; the spans in the order of their beginnings."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with session_in(home) as session:
        spans = Tracing(provider.get_tracer("test"), session.case.opened, "http://127.0.0.1:30000/v1")
        session.watchers.append(spans.session)
        tasks = tasks_of(session, home)
        tasks.watchers.append(spans.task)
        if retried:
            session.record(Retried(text=f"attempt 1: it fell silent. Partial: {SECRET}"))
        agent, _ = main_agent(session, tasks, *steps, limits=limits)
        try:
            reply = asyncio.run(agent.run())
            session.record(Concluded(text=reply.text, exit=0))
        except LimitReached:
            pass
    return sorted(exporter.get_finished_spans(), key=lambda span: span.start_time or 0)


def _within(spans: list[ReadableSpan], outer: ReadableSpan) -> list[str]:
    """Names of the spans that stand right inside one, sorted."""
    inside = [s for s in spans if s.parent is not None and s.parent.span_id == outer.context.span_id]
    assert all((outer.start_time or 0) <= (s.start_time or 0) <= (s.end_time or 0) for s in inside)
    return sorted(s.name for s in inside)


def _one(spans: list[ReadableSpan], name: str) -> ReadableSpan:
    (found,) = [span for span in spans if span.name == name]
    return found


def test_a_turn_holds_its_answers_and_tools_and_a_tool_the_task_that_it_began(tmp_path: Path) -> None:
    spans = _traced(tmp_path, calls(("task", ASK)), say(f"{SECRET} helps"), retried=True)
    turn, tool = _one(spans, "invoke_agent sglscout"), _one(spans, "execute_tool task")
    task = _one(spans, "invoke_agent researcher")
    assert turn.parent is None
    assert _within(spans, turn) == ["chat scripted", "chat scripted", "execute_tool task"]
    assert _within(spans, tool) == ["invoke_agent researcher"]
    assert _within(spans, task) == ["chat scripted"] * 3 + ["execute_tool report", "execute_tool wait"]
    assert len({span.context.trace_id for span in spans}) == 1
    assert {span.status.status_code for span in spans} == {StatusCode.UNSET}
    said = dict(turn.attributes or {})
    assert said["gen_ai.operation.name"] == "invoke_agent"
    assert said["gen_ai.conversation.id"] == said["gen_ai.agent.id"]
    assert said["sglscout.exit_code"] == 0
    answers = [span for span in spans if span.name == "chat scripted"]
    assert {span.kind for span in answers} == {SpanKind.CLIENT}
    assert all((span.attributes or {})["server.port"] == 30000 for span in answers)
    assert [event.name for event in answers[0].events] == ["retry"]
    assert (tool.attributes or {})["gen_ai.tool.call.id"]
    assert SECRET not in "".join(span.to_json() for span in spans)


def test_what_failed_says_so_by_its_kind(tmp_path: Path) -> None:
    spans = _traced(tmp_path, calls(("nothing", {})), say("summed up"), limits=Limits(turns=1))
    turn, tool = _one(spans, "invoke_agent sglscout"), _one(spans, "execute_tool nothing")
    assert [span.status.status_code for span in (turn, tool)] == [StatusCode.ERROR] * 2
    assert [(span.attributes or {})["error.type"] for span in (turn, tool)] == ["limit", "refused"]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ExportTraceServiceRequest]]:
    """A collector on loopback that the environment names; what it was sent."""
    sent: list[ExportTraceServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            sent.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv(tracing.ENDPOINTS[1], f"http://127.0.0.1:{server.server_port}")
    tracing.exporting.cache_clear()
    yield sent
    tracing.exporting.cache_clear()
    server.shutdown()
    thread.join()
    server.server_close()


def test_spans_go_to_the_collector_that_the_environment_names(
    tmp_path: Path, collector: list[ExportTraceServiceRequest]
) -> None:
    log = tmp_path / "server.log"
    log.write_text("Decode batch, #running-req: 48, #token: 9, token usage: 0.60\n")
    settings = Settings(tmp_path / "home", tmp_path / "cache", "", "", "")
    with start(settings, {"kind": "bundle", "path": str(log), "host": "log"}, "slow") as session:
        asyncio.run(Run.on(settings, session, lambda *_: None).answer())
    tracer = tracing.exporting()
    assert tracer is not None
    provider = tracer.span_processor  # type: ignore[attr-defined]
    assert provider.force_flush()
    (resource,) = {part.resource.SerializeToString() for request in collector for part in request.resource_spans}
    assert b"sglscout" in resource
    names = [s.name for r in collector for part in r.resource_spans for scope in part.scope_spans for s in scope.spans]
    assert {"invoke_agent sglscout", "chat playbook", "execute_tool look", "execute_tool weigh"} <= set(names)
    assert ("traces", True, f"{tracing.ENDPOINTS[1]} is set; sent as OTLP over HTTP") in _local(settings)


@pytest.mark.parametrize("off", [{}, {"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}])
def test_it_is_off_unless_a_collector_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: dict[str, str]
) -> None:
    monkeypatch.delenv(tracing.ENDPOINTS[0], raising=False)
    monkeypatch.setenv(tracing.ENDPOINTS[1], "http://127.0.0.1:9" if off else "")
    for name, value in off.items():
        monkeypatch.setenv(name, value)
    settings = Settings(tmp_path, tmp_path, "", "", "")
    with start(settings, {"kind": "ssh", "host": "gpu1"}, "slow") as session:
        Run.on(settings, session, lambda *_: None)
        assert session.watchers == []
    assert "traces" not in [what for what, _, _ in _local(settings)]


def test_without_its_packages_doctor_says_what_is_missing(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['opentelemetry'] = None\nfrom agent.commands.doctor import _traces\nprint(_traces())"
    )
    env = {"PYTHONPATH": str(ROOT), tracing.ENDPOINTS[0]: "http://127.0.0.1:9/v1/traces"}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    assert "('traces', False," in done.stdout
    assert "pip install 'sglscout[otel]'" in done.stdout
