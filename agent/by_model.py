"""A recorded incident put to a model as an operator puts one: what was collected, the complaint, the tools, the checks.

What is scored is what would have reached the operator: the verdict of the session, and the changes that passed.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent.evaluate import Judge
from agent.incident import texts_of, verdict, version_of
from agent.run import Run, start
from agent.settings import Settings
from transcripts.errors import LimitReached

Json = dict[str, Any]


def by_model(settings: Settings) -> Judge:
    """Each incident as a session of its own, which is kept. Raises EndpointError when the model cannot be asked."""
    return lambda given, _source: asyncio.run(_judged(settings, given))


async def _judged(settings: Settings, given: Mapping[str, Any]) -> Json:
    with tempfile.TemporaryDirectory(prefix="sglscout-") as folder:
        for name, text in (texts_of(given) or {"box.txt": "nothing was collected"}).items():
            (Path(folder) / name).write_text(f"{text}\n", encoding="utf-8")
        target = {"kind": "bundle", "path": folder, "host": "incident"}
        if version := version_of(given):
            target["version"] = version
        with start(settings, target, str(given["complaint"])) as session:
            run = Run.on(settings, session, lambda *_: None)
            async with run.bench:
                with suppress(LimitReached):
                    await run.answer()
            return verdict(session.case) | {"session": session.id}
