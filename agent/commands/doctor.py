"""`doctor`: what this installation and its model endpoint can do."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import click

from agent.settings import Settings, load_settings


@click.command()
@click.option("--model", help="Model name at the endpoint, or `playbook`.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def doctor(model: str | None, as_json: bool) -> int:
    """Say what this installation, its folders and its model endpoint can do."""
    settings = load_settings(model)
    checks = [*_local(settings)]
    if settings.model:
        checks += asyncio.run(_endpoint(settings))
    if as_json:
        click.echo(json.dumps({"v": 1, "checks": [{"what": w, "ok": ok, "says": s} for w, ok, s in checks]}))
    else:
        for what, ok, says in checks:
            click.echo(f"{'ok  ' if ok else 'NOT '} {what}: {says}")
    return 0 if all(ok for _, ok, _ in checks) else 6


Check = tuple[str, bool, str]


def _local(settings: Settings) -> list[Check]:
    import os

    checks: list[Check] = []
    for what, folder in (("transcripts", settings.home), ("source cache", settings.cache)):
        near = next(path for path in (folder, *folder.parents) if path.exists())
        checks.append((what, os.access(near, os.W_OK), str(folder)))
    checks.append(("model", True, settings.model or "playbook (no endpoint is configured)"))
    return checks


async def _endpoint(settings: Settings) -> list[Check]:
    """Three small requests: a word, a tool call, two tool calls at once."""
    from agent.case import Case
    from agent.model import Reply, Request
    from agent.models.openai_compatible import OpenAICompatible
    from transcripts.errors import EndpointError
    from transcripts.records import Opened

    model = OpenAICompatible(settings.model, settings.base_url, settings.api_key)
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
        ("streamed answer", bool(word.text), f"{word.model or settings.model} answers"),
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
