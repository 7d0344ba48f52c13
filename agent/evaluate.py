"""Recorded incidents, diagnosed by the playbook's knowledge and scored.

What is handed over is named in `GIVEN` and nothing else: a case's expectations and withheld evidence are read by the
scorer alone. Anybody's own incidents can be scored the same way: one YAML file each, fields as in the README.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tools import diagnosis
from tools.diagnosis import Proposal, family
from tools.host.parsers import parse
from tools.host.parsers.incident import parse_text
from transcripts.errors import UsageError
from transcripts.facts import Evidence, Fact, Facts

Json = dict[str, Any]

GIVEN = ("complaint", "launch_args", "evidence", "sglang_version", "flags_version", "gpu", "model")
_CHANGES_COUNTED = 4


class FlagLike(Protocol):
    """What is read of a flag: its names and its default."""

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def default(self) -> object: ...


class CatalogueLike(Protocol):
    """The flags of one version."""

    def find(self, name: str) -> FlagLike | None: ...

    def nearest(self, name: str, count: int = 3) -> list[str]: ...


Catalogues = Callable[[str], CatalogueLike | None]
Judge = Callable[[Mapping[str, Any], CatalogueLike | None], Json]


def assess(given: Mapping[str, Any], catalogue: CatalogueLike | None = None) -> Json:
    """The verdict on what an operator hands over: `{kind, label, certainty, hypotheses, changes, missing}`."""
    facts = read_given(given, catalogue)
    assessment = diagnosis.weigh(facts)
    leading = assessment.hypotheses[0] if assessment.hypotheses and assessment.hypotheses[0].for_ else None
    changes: list[Proposal] = []
    if assessment.kind == "cause":
        proposed = diagnosis.actions(assessment.label, facts).changes
        changes = [named for each in proposed if (named := _as_this_version_names_it(each, catalogue)) is not None]
    return {
        "kind": assessment.kind,
        "label": leading.label if leading else "",
        "certainty": assessment.certainty,
        "why": assessment.why,
        "missing": list(assessment.missing),
        "hypotheses": [_row(one) for one in assessment.hypotheses[:8]],
        "changes": [_change(each) for each in changes[:_CHANGES_COUNTED]],
    }


def read_given(given: Mapping[str, Any], catalogue: CatalogueLike | None = None) -> Facts:
    """Facts of what is handed over: evidence observed, the launch command typed, the complaint claimed."""
    facts: list[Fact] = list(_version(given))
    texts = [("E1", "launch", str(given.get("launch_args") or ""))]
    texts.append(("E2", "note", "; ".join(str(given.get(name) or "") for name in ("gpu", "model"))))
    texts.append(("E3", "pasted", "\n".join(str(text) for text in given.get("evidence") or ())))
    for name, probe, text in texts:
        evidence = Evidence(name, probe, "", "pasted", "", 0, text)
        facts += parse(evidence) if probe == "pasted" else parse_text(evidence)
    facts += _gpus(str(given.get("gpu") or ""))
    if given.get("model"):
        facts.append(Fact("model_path", str(given["model"]), "", "observed", "E2"))
    facts += parse_text(Evidence("operator", "complaint", "", "operator", "", 0, str(given.get("complaint") or "")))
    if catalogue is not None:
        facts += _unknown_flags(facts, catalogue)
    return Facts(_once(facts))


def _once(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    return tuple(dict.fromkeys(facts))


def _version(given: Mapping[str, Any]) -> tuple[Fact, ...]:
    version = version_of(given)
    return (Fact("version", version, "", "observed", "E1"),) if version else ()


def version_of(given: Mapping[str, Any]) -> str:
    """The version that an incident names, empty where it names none."""
    text = str(given.get("flags_version") or given.get("sglang_version") or "")
    found = re.search(r"\d+\.\d+\.\d+(?:\.?post\d+|rc\d+)?", text)
    return found[0] if found else ""


def _gpus(text: str) -> tuple[Fact, ...]:
    """Count and size out of words such as `8x H200 (~140.4 GB usable each)`; an unknown card gives no size."""
    found: list[Fact] = [Fact("gpu_name", text, "", "observed", "E2")] if text else []
    if count := re.search(r"\b(\d+) ?x ", text):
        found.append(Fact("gpu_count", int(count.group(1)), "gpus", "observed", "E2"))
    if major := _generation(text):
        found.append(Fact("compute_capability", major, "", "derived", "E2"))
    if size := re.search(r"(\d+(?:\.\d+)?) ?GB", text):
        found.append(Fact("gpu_total_gib", float(size.group(1)), "GiB", "observed", "E2"))
    return tuple(found)


# Words for a GPU's generation and its compute capability, where the number itself is not given.
_GENERATIONS = (
    (r"\bsm_?(\d\d)\b|\bsm_?(1\d\d)\b", ""),
    (r"ampere|\brtx ?30\d\d|\b30[6-9]0\b|\ba100|\ba800|\ba40\b|\ba10g?\b|\ba6000\b|\ba30\b", "8.0"),
    (r"\bt4\b|turing|\brtx ?20\d\d", "7.5"),
    (r"\bada\b|\bl40s?\b|\bl4\b|\b4090\b|\b40[6-8]0\b", "8.9"),
    (r"hopper|\bh100|\bh200|\bh20\b|\bh800|\bgh200", "9.0"),
    (r"\bb200|\bb300|\bgb200|\bgb300", "10.0"),
    (r"\brtx pro 6000|\b5090\b|\b50[6-8]0\b", "12.0"),
)


def _generation(text: str) -> str:
    for pattern, capability in _GENERATIONS:
        if found := re.search(pattern, text, re.IGNORECASE):
            digits = next((group for group in found.groups() if group), "") if not capability else ""
            return capability or f"{digits[:-1]}.{digits[-1]}"
    return ""


def _unknown_flags(facts: Iterable[Fact], catalogue: CatalogueLike) -> tuple[Fact, ...]:
    """For each flag that this version lacks: refused, with the nearest name where one is near enough."""
    found: list[Fact] = []
    for fact in facts:
        name = fact.scope if fact.name == "flag" else str(fact.value) if fact.name == "rejected_flag" else ""
        if not name.startswith("--") or name in _OTHERS_FLAGS or _known(catalogue, name):
            continue
        if fact.name == "flag":
            found.append(Fact("rejected_flag", name, "", "derived", fact.source, "unrecognized"))
        near = catalogue.nearest(name, 1)
        if near and _alike(name, near[0]):
            found.append(Fact("flag_nearest", near[0], "", "derived", fact.source, name))
    return _once(found)


# Options of the container runtime and of launchers that stand in the same command line.
_OTHERS_FLAGS = frozenset(
    (
        "--shm-size",
        "--ipc",
        "--gpus",
        "--rm",
        "--network",
        "--env",
        "--volume",
        "--ulimit",
        "--memory",
        "--name",
        "--cpunodebind",
        "--membind",
    )
)


def _known(catalogue: CatalogueLike, name: str) -> bool:
    found = catalogue.find(name)
    if found is not None and name in found.names:
        return True
    prefix = getattr(catalogue, "by_prefix", None)
    return bool(prefix and prefix(name))


def _alike(one: str, other: str) -> bool:
    """A slip of the pen: the same words but for one or two letters, or only - against _.

    A word of up to three letters is an abbreviation with a meaning of its own (tp, dp, dcp): it is the same or another.
    """
    if one.replace("_", "-") == other:
        return True
    from difflib import SequenceMatcher

    words, others = (re.split(r"[-_]+", name.lstrip("-")) for name in (one, other))
    if len(words) == len(others) and any(
        word != same and min(len(word), len(same)) <= _ABBREVIATION for word, same in zip(words, others, strict=True)
    ):
        return False
    return SequenceMatcher(None, one, other).ratio() >= 0.9


_ABBREVIATION = 3  # letters


def _as_this_version_names_it(change: Proposal, catalogue: CatalogueLike | None) -> Proposal | None:
    """The change under a name that this version has; None where it has none."""
    if catalogue is None or change.kind != "flag" or change.do == "remove" or not change.flag.startswith("--"):
        return change
    found = catalogue.find(change.flag)
    return change if found is not None else None


def _row(one: diagnosis.Hypothesis) -> Json:
    return {
        "label": one.label,
        "status": one.status,
        "weight": one.weight,
        "for": [{"text": reason.text, "from": list(reason.source)} for reason in one.for_],
        "against": [{"text": reason.text, "from": list(reason.source)} for reason in one.against],
    }


def _change(each: Proposal) -> Json:
    return {
        "kind": each.kind,
        "do": each.do,
        "flag": each.flag,
        "from": each.from_,
        "to": each.to,
        "unit": each.unit,
        "why": each.why,
    }


# ------------------------------------------------------------------------------------------------------------ scoring


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


def evaluate(cases: Iterable[Json], catalogues: Catalogues = lambda _version: None, judge: Judge = assess) -> Json:
    """Diagnose and score every case: the document of `eval cases --json`."""
    rows = [_score(case, catalogues, judge) for case in cases]
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


def _score(case: Json, catalogues: Catalogues, judge: Judge) -> Json:
    started = time.perf_counter()
    version = case.get("flags_version")
    catalogue = catalogues(str(version)) if version else None
    got = judge({name: case.get(name) for name in GIVEN}, catalogue)
    seconds = time.perf_counter() - started
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


def matches(change: Json, action: Json, catalogue: CatalogueLike | None = None) -> bool:
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


def _same_flag(one: str, other: str, catalogue: CatalogueLike | None) -> bool:
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


def _direction(change: Json, catalogue: CatalogueLike | None) -> str:
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
