"""Progress on standard error while an agent works: a line for each step, and a bar for a download."""

from __future__ import annotations

import json
from collections.abc import Callable
from shutil import get_terminal_size
from typing import TextIO

from agent.case import COMPLAINT
from agent.views.layout import NARROWEST, paragraph
from agent.views.words import FILL_IN, plural, visible
from transcripts.records import (
    Advised,
    Compared,
    EvidenceTaken,
    Located,
    Record,
    Replied,
    Retried,
    TaskChanged,
    Weighed,
    dump,
)


class Watching:
    """Watches a session and its tasks; a context manager."""

    def __init__(self, out: TextIO, events: TextIO | None = None) -> None:
        self._out = out
        self._events = events
        self._asked = self._brought = 0
        self._last: dict[str, str] = {}

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *_: object) -> None:
        self._evidence_done()

    def session(self, record: Record) -> None:
        self._event("", record)
        if isinstance(record, EvidenceTaken):
            self._asked += record.probe != COMPLAINT
            self._brought += record.probe != COMPLAINT and not record.problem
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
            case Retried():
                self._say(record.text.partition(" Partial: ")[0])
            case Advised():
                left = sum(change.get("confirm_by") == FILL_IN for change in record.changes)
                held = len(record.changes) - left
                holds = f"{plural(held, 'change')} {'holds' if held == 1 else 'hold'}"
                open_ = f", {left} left to you" if left else ""
                self._say(f"checked: {holds}{open_}, {len(record.refused)} refused")
            case _:
                pass

    def task(self, identity: str, record: Record) -> None:
        self._event(identity, record)
        if isinstance(record, Replied) and record.calls:
            step = ", ".join(dict.fromkeys(call.name for call in record.calls))
            if self._last.get(identity) != step:
                self._say(f"  {identity[-6:]}: {step}")
            self._last[identity] = step

    def _evidence_done(self) -> None:
        if self._asked:
            self._say(f"looked: {self._brought} of {plural(self._asked, 'probe')} brought something")
            self._asked = self._brought = 0

    def _say(self, text: str) -> None:
        indent = len(text) - len(text.lstrip())
        for line in paragraph(visible(text), max(get_terminal_size().columns, NARROWEST), indent, 2):
            self._out.write(f"{line.text}\n")
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
    """A bar that redraws itself on a terminal, and a line at start and end elsewhere; one line for what has no size."""
    terminal = out.isatty()
    shown = {"what": ""}

    def progress(what: str, done: int, whole: int | None) -> None:
        fresh = shown["what"] != what
        shown["what"] = what
        if not whole and (not terminal or not done):
            out.write(f"{what}\n" if fresh else "")
            out.flush()
            return
        megabytes = f"{done / 1e6:.1f}" + (f" of {whole / 1e6:.1f} MB" if whole else " MB")
        if terminal:
            filled = int(24 * done / whole) if whole else 0
            bar = f" [{'#' * filled}{'.' * (24 - filled)}]" if whole else ""
            out.write(f"\r{what}{bar} {megabytes}" + ("\n" if whole and done >= whole else ""))
        elif fresh or (whole and done >= whole):
            out.write(f"{what}: {megabytes}\n")
        out.flush()

    return progress
