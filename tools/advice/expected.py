"""What the next start must print: what the cause expects of it, and every change of the command as it should run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from tools.advice.catalogue import Catalogue
from tools.advice.change import Change
from tools.advice.check import typed_as
from tools.advice.launch import Launch
from transcripts.facts import Facts

Row = Mapping[str, Any]
READY: Final = "the server is ready"
_OF_A_START: Final = ("load", "pools", "draft", "graph_capture", "warmup")
_RUNS: Final = "`server_args=` of the log"
_VERSION: Final = "its version"
_READY_LINE: Final = "`The server is fired up and ready to roll!` in the log"


def expected_after(
    changes: Iterable[Change],
    stated: Iterable[Row],
    facts: Facts,
    *,
    launch: Launch | None = None,
    catalogue: Catalogue | None = None,
) -> tuple[Row, ...]:
    """Rows `{what, where}` for changes that passed; nothing where none did.

    `stated` rows of the cause come first, and a change that one of them names by its figure is not told twice. Where
    the last start did not end, that the next one does is the first thing to see. With the launch command an option is
    named as it is spelled there.
    """
    wanted = tuple(changes)
    if not wanted:
        return ()
    told = tuple(stated)
    ready = ({"what": READY, "where": _READY_LINE},) if _did_not_start(facts) else ()
    own = (row for change in wanted if not _named(change, told) and (row := _row(_spelled(change, launch, catalogue))))
    return (*ready, *told, *own)


def _spelled(change: Change, launch: Launch | None, catalogue: Catalogue | None) -> Change:
    info = catalogue.lookup(change.flag) if catalogue is not None and change.kind == "flag" else None
    if launch is None or catalogue is None or info is None:
        return change
    return replace(change, flag=typed_as(launch, info, catalogue)[0])


def about_version(row: Row) -> bool:
    """Whether a row tells which version runs, which only an upgrade changes."""
    return str(row.get("where", "")) == _VERSION


def _did_not_start(facts: Facts) -> bool:
    if facts.text("ready"):
        return facts.text("ready") == "False"
    return "rejected_flag" in facts or any(fact.value in _OF_A_START for fact in facts.all("oom_phase"))


def _row(change: Change) -> Row | None:
    """A change as another look can see it; None for what no look reads."""
    gone = "without " if change.do == "remove" else ""
    match change.kind:
        case "flag":
            value = "" if gone or change.to is None or change.to is True else f" {change.to}"
            return {"what": f"{gone}{change.flag}{value}", "where": _RUNS}
        case "env":
            value = "" if gone else f"={change.to}"
            return {"what": f"{gone}{change.flag}{value}", "where": "environment of the process"}
        case "upgrade":
            return {"what": f"sglang {change.to}" if change.to else "another version of sglang", "where": _VERSION}
        case _:
            return None


def _named(change: Change, told: Iterable[Row]) -> bool:
    """Whether a row of the cause holds the new value under the name that the log prints."""
    name = re.escape(change.flag.removeprefix("--").replace("-", "_"))
    return any(re.search(rf"\b{name}=", str(row["what"])) for row in told)
