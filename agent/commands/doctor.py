"""`doctor`: what this installation and its model endpoint can do."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any

import click

from agent.commands.options import HOST_NAMED, model_of, model_options, one_host
from agent.settings import FROM_HOST, Settings, load_settings
from transcripts.errors import UsageError

if TYPE_CHECKING:
    from agent.model import Model
    from tools.host import Host

Check = tuple[str, bool, str]


@click.command()
@one_host(f"With --model-from-host: {HOST_NAMED}.")
@model_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def doctor(host: str | None, model: str | None, model_from_host: bool, as_json: bool) -> int:
    """Say what this installation, its folders and its model endpoint can do."""
    settings = load_settings(model_of(model, model_from_host))
    of_host = settings.model == FROM_HOST
    if of_host and not host:
        raise UsageError("which host's server is the model?", "Pass --host USER@HOST with --model-from-host.")
    if host and not of_host:
        raise UsageError("--host is for a model of that host.", "Pass --model-from-host with it.")
    checks = [*_local(settings)]
    if host:
        checks += asyncio.run(_at_host(host, settings.api_key))
    elif settings.model:
        from agent.run import make_model

        checks += asyncio.run(endpoint_checks(make_model(settings, settings.model)))
    if as_json:
        click.echo(json.dumps({"v": 1, "checks": [{"what": w, "ok": ok, "says": s} for w, ok, s in checks]}))
    else:
        for what, ok, says in checks:
            click.echo(f"{'ok  ' if ok else 'NOT '} {what}: {says}")
    return 0 if all(ok for _, ok, _ in checks) else 6


def _local(settings: Settings) -> list[Check]:
    checks: list[Check] = []
    for what, folder in (("transcripts", settings.home), ("source cache", settings.cache)):
        near = next(path for path in (folder, *folder.parents) if path.exists())
        checks.append((what, os.access(near, os.W_OK), str(folder)))
    checks.append(("model", True, settings.model or "playbook (no endpoint is configured)"))
    return [*checks, *_traces()]


def _traces() -> list[Check]:
    """Whether spans go where the environment says; nothing where it says nothing."""
    from agent import tracing

    variable = tracing.wanted()
    if not variable:
        return []
    missing = tracing.exporting() is None
    says = "the packages are missing: pip install 'sglscout[otel]'" if missing else "sent as OTLP over HTTP"
    return [("traces", not missing, f"{variable} is set; {says}")]


async def _at_host(target: str, api_key: str) -> list[Check]:
    from tools.host import connect

    async with connect(target) as host:
        return await host_checks(host, api_key)


async def host_checks(host: Host, api_key: str) -> list[Check]:
    """The server of a host found, and asked over the connection to it. Raises HostError."""
    from agent.found import port_of, served_name
    from agent.models.from_host import endpoint_at
    from agent.views.words import visible
    from tools.host import STANDARD, open_port
    from tools.host.framing import DISCOVERY
    from tools.host.parsers import parse
    from transcripts.facts import Facts

    port, facts = None, Facts()
    async for seen in host.observe([probe for probe in STANDARD if probe.name in ("process", "models")]):
        if seen.probe == DISCOVERY:
            port = port_of(seen.text)
        facts = Facts([*facts, *parse(seen.evidence("E1"))])
    if port is None:
        return [("server of the host", False, f"no SGLang server was found on {host.name}; is it running?")]
    name = served_name(facts)
    found = ("server of the host", True, f"{visible(name)} at port {port} of {host.name}")
    async with open_port(host, port) as near:
        return [found, *await endpoint_checks(endpoint_at(near, name, api_key))]


async def endpoint_checks(model: Model) -> list[Check]:
    """Three small requests: a word, a tool call, two tool calls at once."""
    from agent.case import Case
    from agent.model import Reply, Request
    from transcripts.errors import EndpointError
    from transcripts.records import Opened

    case = Case(Opened(id="ses_doctor", role="session", text="doctor"))
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tool = {"type": "function", "function": {"name": "weather", "description": "Weather.", "parameters": parameters}}

    async def ask(text: str, tools: list[dict[str, Any]]) -> Reply:
        return await model.reply(Request([{"role": "user", "content": text}], tools, case))

    try:
        word = await ask("Answer with the single word: ready", [])
    except EndpointError as error:
        return [("streamed answer", False, str(error))]
    checks: list[Check] = [
        ("streamed answer", bool(word.text), f"{word.model or model.name} answers"),
        (
            "usage",
            word.usage.tokens_in > 0,
            "counted" if word.usage.tokens_in else "not reported; token limits cannot bind",
        ),
    ]
    for what, text, wanted in (
        ("tool call", "Use the tool to get the weather in Oslo.", 1),
        ("calls at once", "Use the tool for Oslo and for Rome, both in one answer.", 2),
    ):
        try:
            made = (await ask(text, [tool])).calls
            says = f"{len(made)} calls" if made else "none; check the server's --tool-call-parser"
            checks.append((what, len(made) >= wanted, says))
        except EndpointError as error:
            checks.append((what, False, str(error)))
    return checks
