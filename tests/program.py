"""The installed program as an operator starts it: a process of its own, a home of its own, the shared source cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.settings import load_settings

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ROOT / "transcripts" / "recorded"


@dataclass(frozen=True, slots=True)
class Done:
    exit: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.out)
        return loaded


def environment(home: Path) -> dict[str, str]:
    """No endpoint, a home for this test alone, and the cache that tests share, so that a wheel is fetched once.

    Its modules are compiled once, as an installation does: a shell that forbids it would have every start compile them.
    """
    unwanted = ("OPENAI_", "SGLSCOUT_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    cache = str(load_settings().cache)
    return kept | {"SGLSCOUT_HOME": str(home), "SGLSCOUT_CACHE": cache, "COLUMNS": "80", "TERM": "dumb"}


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "agent", *words]


def sglscout(home: Path, *words: str, stdin: str = "", timeout: float = 120) -> Done:
    done = subprocess.run(
        command(*words),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment(home),
        cwd=ROOT,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)
