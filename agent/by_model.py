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

from agent.case import Case
from agent.evaluate import Judge, version_of
from agent.run import Run, start
from agent.settings import Settings
from transcripts.errors import LimitReached

Json = dict[str, Any]


def by_model(settings: Settings) -> Judge:
    """Each incident as a session of its own, which is kept. Raises EndpointError when the model cannot be asked."""
    return lambda given, _catalogue: asyncio.run(_judged(settings, given))


async def _judged(settings: Settings, given: Mapping[str, Any]) -> Json:
    with tempfile.TemporaryDirectory(prefix="sglscout-") as folder:
        target = {"kind": "bundle", "path": str(_collected(given, Path(folder))), "host": "incident"}
        if version := version_of(given):
            target["version"] = version
        with start(settings, target, str(given["complaint"])) as session:
            run = Run.on(settings, session, lambda *_: None)
            async with run.bench:
                with suppress(LimitReached):
                    await run.answer()
            return _verdict(session.case)


def _collected(given: Mapping[str, Any], folder: Path) -> Path:
    """The launch command, the box and the evidence, each as a text."""
    box = "\n".join(f"{name}: {given[name]}" for name in ("gpu", "model", "sglang_version") if given.get(name))
    evidence = "\n".join(str(text) for text in given.get("evidence") or ())
    for name, text in (("launch", given.get("launch_args")), ("box", box), ("evidence", evidence)):
        (folder / f"{name}.txt").write_text(f"{text or 'nothing was collected'}\n", encoding="utf-8")
    return folder


def _verdict(case: Case) -> Json:
    weighed, advised = case.weighed, case.advised
    leading = weighed.hypotheses[0].label if weighed is not None and weighed.hypotheses else ""
    return {
        "kind": weighed.kind if weighed is not None else "abstain",
        "label": (weighed.label if weighed is not None else "") or leading,
        "certainty": weighed.certainty if weighed is not None else 0.0,
        "changes": list(advised.changes) if advised is not None else [],
        "session": case.opened.id,
    }
