"""Progress on standard error while an agent works: a line for each step, and a bar for a download."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TextIO

from pydantic import BaseModel

from agent.views.words import visible
from transcripts.records import Advised, Compared, EvidenceTaken, Located, Record, Replied, TaskChanged, Weighed, dump


class Watching:
    """Watches a session and its tasks; a context manager."""

    def __init__(self, out: TextIO, events: TextIO | None = None) -> None:
        self._out = out
        self._events = events
        self._seen = 0

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *_: object) -> None:
        self._evidence_done()

    def session(self, record: Record) -> None:
        self._event("", record)
        if isinstance(record, EvidenceTaken):
            self._seen += 1
            return
        self._evidence_done()
        match record:
            case Weighed():
                self._say(f"weighed: {record.kind} {record.label}".rstrip())
            case Located():
                self._say(f"source: {record.origin} {record.version}")
            case TaskChanged():
                about = f" ({record.description})" if record.description else ""
                self._say(f"task {record.id}{about}: {record.status}")
            case Compared():
                self._say(f"compared {len(record.options)} options")
            case Advised():
                self._say(f"checked: {len(record.changes)} changes hold, {len(record.refused)} refused")
            case _:
                pass

    def task(self, identity: str, record: BaseModel) -> None:
        if not isinstance(record, Record):
            return
        self._event(identity, record)
        if isinstance(record, Replied) and record.calls:
            self._say(f"  {identity[-6:]}: {', '.join(dict.fromkeys(call.name for call in record.calls))}")

    def _evidence_done(self) -> None:
        if self._seen:
            self._say(f"looked: {self._seen} probes answered")
            self._seen = 0

    def _say(self, text: str) -> None:
        self._out.write(f"{visible(text)}\n")
        self._out.flush()

    def _event(self, task: str, record: Record) -> None:
        if self._events is not None:
            line = {
                "v": 1,
                **({"transcript": task} if task else {}),
                "seq": record.seq,
                "at": record.at,
                **dump(record),
            }
            self._events.write(json.dumps(line) + "\n")
            self._events.flush()


def download_progress(out: TextIO) -> Callable[[str, int, int | None], None]:
    """A bar that redraws itself on a terminal, and a line at start and end elsewhere."""
    terminal = out.isatty()
    shown = {"what": ""}

    def progress(what: str, done: int, whole: int | None) -> None:
        megabytes = f"{done / 1e6:.1f}" + (f" of {whole / 1e6:.1f} MB" if whole else " MB")
        if terminal:
            filled = int(24 * done / whole) if whole else 0
            bar = f" [{'#' * filled}{'.' * (24 - filled)}]" if whole else ""
            out.write(f"\r{what}{bar} {megabytes}" + ("\n" if whole and done >= whole else ""))
        elif shown["what"] != what or (whole and done >= whole):
            out.write(f"{what}: {megabytes}\n")
        shown["what"] = what
        out.flush()

    return progress
