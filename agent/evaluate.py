"""Recorded incidents, diagnosed by the playbook's knowledge and scored.

What is handed over is named in `GIVEN` and nothing else: a case's expectations and withheld evidence are read by the
scorer alone. Anybody's own incidents can be scored the same way: one YAML file each, fields as in the README.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.incident import assess, version_of
from tools.diagnosis import family
from transcripts.errors import UsageError

if TYPE_CHECKING:
    from tools.source import FlagCatalogue, Source

Json = dict[str, Any]

GIVEN = ("complaint", "launch_args", "evidence", "sglang_version", "flags_version", "gpu", "model")
_CHANGES_COUNTED = 4


Sources = Callable[[str], "Source | None"]
Judge = Callable[[Mapping[str, Any], "Source | None"], Json]


def load(folder: Path) -> list[Json]:
    """The cases of a folder, by name. Raises UsageError for a folder without any, or a file that is no case."""
    import yaml

    paths = sorted(folder.glob("*.yaml"))
    if not paths:
        raise UsageError(f"no case lies in {folder}.", "A case is one YAML file with complaint, evidence and expected.")
    cases = []
    for path in paths:
        try:
            case = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError) as error:
            raise UsageError(f"{path} cannot be read: {error}.") from error
        if not isinstance(case, dict) or "complaint" not in case or "expected" not in case:
            raise UsageError(f"{path} is no case.", "It needs at least complaint, evidence and expected.root_cause.")
        case.setdefault("id", path.stem)
        cases.append(case)
    return cases


def evaluate(cases: Iterable[Json], sources: Sources = lambda _version: None, judge: Judge = assess) -> Json:
    """Diagnose and score every case: the document of `eval cases --json`."""
    rows = [_score(case, sources, judge) for case in cases]
    return {
        "v": 1,
        **_shares(rows),
        "by_class": {
            name: _shares([row for row in rows if row["class"] == name])
            for name in sorted({row["class"] for row in rows})
        },
        "without_low": _shares([row for row in rows if row["confidence"] != "low"]),
        "cases": rows,
    }


def _shares(rows: Sequence[Json]) -> Json:
    count = Counter({"n": len(rows)})
    for row in rows:
        count.update(key for key in ("family", "leaf", "helped", "harmed", "solved", "abstained") if row[key])
    total = max(len(rows), 1)
    return {"n": len(rows)} | {
        key: round(count[key] / total, 4) for key in ("family", "leaf", "helped", "harmed", "solved", "abstained")
    }


def _score(case: Json, sources: Sources, judge: Judge) -> Json:
    started = time.perf_counter()
    given = {name: case.get(name) for name in GIVEN}
    version = version_of(given)
    source = sources(version) if version else None
    got = judge(given, source)
    seconds = time.perf_counter() - started
    catalogue = source.catalogue() if source is not None and case.get("flags_version") else None
    wanted = case["expected"]
    any_of = (wanted.get("actions") or {}).get("any_of") or []
    never = (wanted.get("actions") or {}).get("never") or []
    changes = got["changes"][:_CHANGES_COUNTED]
    named = got["kind"] == "cause"
    right_family = named and family(got["label"]) == family(wanted["root_cause"])
    helped = not any_of or any(matches(change, action, catalogue) for change in changes for action in any_of)
    harmed = any(matches(change, action, catalogue) for change in changes for action in never)
    return {
        "id": case["id"],
        "class": str(case.get("class", "")),
        "confidence": str(case.get("confidence", "")),
        "want": {"label": wanted["root_cause"], "any_of": any_of, "never": never},
        "got": {"label": got["label"], "kind": got["kind"], "certainty": got["certainty"], "changes": changes},
        "family": right_family,
        "leaf": named and got["label"] == wanted["root_cause"],
        "helped": helped,
        "harmed": harmed,
        "solved": right_family and helped and not harmed,
        "abstained": not named,
        "seconds": round(seconds, 4),
        **({"session": got["session"]} if "session" in got else {}),
    }


def matches(change: Json, action: Json, catalogue: FlagCatalogue | None = None) -> bool:
    """Whether a change does what an action asks: same flag, same direction, same value where one is given."""
    do = action["do"]
    if do == "upgrade":
        return bool(change["do"] == "upgrade")
    if not _same_flag(str(change["flag"]), str(action.get("flag", "")), catalogue):
        return False
    if do == "remove":
        return bool(change["do"] == "remove")
    if change["do"] == "remove":
        return False
    if do == "set":
        return "value" not in action or _same_value(change["to"], action["value"])
    return bool(_direction(change, catalogue) == do)


def _same_flag(one: str, other: str, catalogue: FlagCatalogue | None) -> bool:
    if one == other:
        return True
    if other.endswith("-") and one.startswith(other):
        return True
    found = catalogue.find(one) if catalogue is not None and one.startswith("--") else None
    if found is not None and other in found.names:
        return True
    return any(one in group and other in group for group in _SPELLINGS)


_SPELLINGS = (
    frozenset(("--tp", "--tp-size", "--tensor-parallel-size")),
    frozenset(("--dp", "--dp-size", "--data-parallel-size")),
    frozenset(("--cuda-graph-max-bs", "--cuda-graph-max-bs-decode")),
)


def _direction(change: Json, catalogue: FlagCatalogue | None) -> str:
    """raise or lower, by the figures: `to` against `from`, or this version's default where nothing was typed."""
    was, to = _number(change["from"]), _number(change["to"])
    if was is None and catalogue is not None and str(change["flag"]).startswith("--"):
        found = catalogue.find(str(change["flag"]))
        was = _number(found.default) if found is not None else None
    if was is None or to is None or was == to:
        return str(change["do"])
    return "raise" if to > was else "lower"


def _same_value(one: object, other: object) -> bool:
    left, right = _number(one), _number(other)
    if left is not None and right is not None:
        return left == right
    return str(one).lower() == str(other).lower()


def _number(value: object) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        return float(str(value))
    except ValueError:
        return None
