"""Checks that every change passes before it is shown; a refusal says why, for whoever proposed it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from tools.advice import forbidden, memory, proof, values
from tools.advice.bearing import bearing
from tools.advice.catalogue import Catalogue, FlagInfo
from tools.advice.change import Change, Checked, Do, Kind, Problem, Refusal, Scalar, Valid
from tools.advice.command import engine_run
from tools.advice.edits import remove_flag, set_flag
from tools.advice.launch import Launch, parse_launch
from transcripts.facts import Evidence, Facts

_FLAG = re.compile(r"--[a-z0-9][a-z0-9\-]*")
_LONGEST_TEXT = 2_000
Arithmetic = Callable[[Sequence[str], Sequence[str], Facts], Iterable[Problem]]


class _Refused(Exception):
    """Carries the reason from a check to its refusal."""


@dataclass(slots=True)
class _Case:
    facts: Facts
    launch: Launch | None
    catalogue: Catalogue | None
    evidence: Mapping[str, Evidence]
    citations: Mapping[str, str]
    rests_on: Mapping[str, Collection[str]]
    live: bool
    arithmetic: Arithmetic | None


def check(
    changes: Iterable[Change],
    *,
    facts: Facts,
    launch: Launch | None,
    catalogue: Catalogue | None,
    evidence: Mapping[str, Evidence] | None = None,
    citations: Mapping[str, str] | None = None,
    rests_on: Mapping[str, Collection[str]] | None = None,
    live: bool = True,
    capacity: Arithmetic | None = None,
) -> Checked:
    """Check each change by its kind, then all that passed together.

    `evidence` by id and `citations` (the quoted lines of checked ones, by id) are what a change may refer to; one of
    them has to do with the change, or is among what a finding that calls for it `rests_on`, by option. `live` is False
    where all that is known was pasted. `capacity(options_before, options_after, facts)` adds sums to those made here.
    """
    case = _Case(facts, launch, catalogue, evidence or {}, citations or {}, rests_on or {}, live, capacity)
    passed: list[Change] = []
    refused: list[Refusal] = []
    for change in changes:
        try:
            _plain(change)
            fitting = _KINDS[change.kind](change, case)
            _not_twice(fitting, passed, case)
            _referenced(fitting, case)
            passed.append(_proved(fitting, _bearing(fitting, change.flag, case), case))
        except _Refused as error:
            refused.append(Refusal(change, str(error)))
    return _together(passed, refused, case)


def _plain(change: Change) -> None:
    """Shape and text of a change: known words, no character that hides, no free text where a value belongs."""
    if change.kind not in get_args(Kind) or change.do not in get_args(Do):
        raise _Refused(f"{change.kind!r} {change.do!r} is no kind of change")
    for name, text in (("flag", change.flag), ("unit", change.unit), ("why", change.why), *_texts(change)):
        if not isinstance(text, str) or len(text) > _LONGEST_TEXT:
            raise _Refused(f"{name} is no text, or longer than {_LONGEST_TEXT} characters")
        for char in text:
            if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"):
                raise _Refused(f"{name} holds the character U+{ord(char):04X}")
    if not change.flag.isascii():
        raise _Refused("the name holds characters that look like others")


def _texts(change: Change) -> list[tuple[str, str]]:
    found = [(name, str(value)) for name, value in (("to", change.to), ("from", change.from_)) if value is not None]
    return [*found, *(("evidence", one) for one in change.evidence)]


def _flag(change: Change, case: _Case) -> Change:
    if not _FLAG.fullmatch(change.flag):
        raise _Refused(f"{change.flag!r} is not written as an option is")
    if case.catalogue is None:
        raise _Refused("the options of the deployed version are not known; name its version or its tree")
    proposed = change.flag
    info = case.catalogue.lookup(change.flag)
    if change.do != "remove" and (info is None or info.retired):
        change, info = _as_named_here(change, info, case.catalogue)
    refused = any(one.value == change.flag for one in case.facts.all("rejected_flag"))
    if change.do == "remove" and (info is None or refused):
        return _struck(change, case)
    if info is None or change.flag not in info.spellings:
        near = case.catalogue.nearest(change.flag)
        raise _Refused(
            f"SGLang {case.catalogue.version} has no option {change.flag}" + (f"; {near} is near" if near else "")
        )
    if info.retired and change.do != "remove":
        raise _Refused(f"{change.flag} is deprecated in {case.catalogue.version}: {info.retired}")
    was = _typed(change, info, case)
    to = values.parsed(change, info, was, _effective((*info.spellings, proposed), case))
    if isinstance(to, values.Unfit):
        raise _Refused(to.reason)
    why = forbidden.reason(change.flag, "" if to is None else str(to), info)
    if why:
        raise _Refused(f"{change.flag} is left to the operator: {why}")
    valid = Valid(
        case.catalogue.listed_in(change.flag), info.at, "kept" if case.catalogue.knows_rules else "not checked"
    )
    return replace(change, from_=was, to=to, valid=valid)


def _struck(change: Change, case: _Case) -> Change:
    """The removal of an option that this version lacks, which stands in the launch command or was refused."""
    typed = case.launch.flag(change.flag) if case.launch is not None else None
    if typed is not None:
        was = values.scalar(" ".join(typed.values)) if typed.values else True
    elif case.facts.get("flag", change.flag) or any(
        one.value == change.flag for one in case.facts.all("rejected_flag")
    ):
        was = True if change.from_ is None else change.from_
    else:
        raise _Refused(f"{change.flag} is not typed, so it cannot be removed")
    return replace(change, from_=was, to=None)


def _as_named_here(change: Change, info: FlagInfo | None, catalogue: Catalogue) -> tuple[Change, FlagInfo | None]:
    """A change of an option that this version has under another name, for that name; as it is where it has none."""
    here = catalogue.renamed(change.flag)
    if here is None:
        return change, info
    why = f"{change.why} ({change.flag} is called {here.spellings[0]} in {catalogue.version})".strip()
    return replace(change, flag=here.spellings[0], why=why), here


def _typed(change: Change, info: FlagInfo, case: _Case) -> Scalar | None:
    """What the launch command says of the option now; what was proposed as `from` where there is no launch."""
    if case.launch is None or case.catalogue is None:
        return change.from_
    typed = case.launch.flag(*typed_as(case.launch, info, case.catalogue))
    if typed is None:
        return None
    return values.scalar(typed.value) if typed.values else True


def _effective(spellings: Sequence[str], case: _Case) -> float | None:
    for spelling in spellings:
        found = case.facts.number("server_arg", spelling.removeprefix("--").replace("-", "_"))
        if found is not None:
            return found
    running = {"--max-running-requests": "running_limit", "--context-length": "context_len"}
    names = [running[spelling] for spelling in spellings if spelling in running]
    return case.facts.number(names[0]) if names else None


def _env(change: Change, case: _Case) -> Change:
    if not re.fullmatch(r"[A-Z][A-Z0-9_]*", change.flag):
        raise _Refused(f"{change.flag!r} is not written as a variable is")
    why = forbidden.environment_reason(change.flag, str(change.to))
    if why:
        raise _Refused(f"{change.flag} is left to the operator: {why}")
    known = case.catalogue.environment(change.flag) if case.catalogue is not None else None
    if known is False and change.flag.startswith(("SGLANG_", "SGL_")):
        raise _Refused(f"SGLang {case.catalogue.version if case.catalogue else ''} does not read {change.flag}")
    was = case.launch.environment.get(change.flag) if case.launch is not None else None
    if change.do == "remove":
        if case.launch is not None and was is None:
            raise _Refused(f"{change.flag} is not set")
        return replace(change, from_=was, to=None)
    to = values.variable(change, was)
    if isinstance(to, values.Unfit):
        raise _Refused(to.reason)
    if was is not None and values.same(was, to):
        raise _Refused(f"{change.flag} is {was} already")
    valid = Valid(case.catalogue.version, "", "kept") if case.catalogue is not None and known else None
    return replace(change, from_=was if was is not None else None, to=to, valid=valid)


def _engine(launch: Launch) -> bool:
    return engine_run([word.text for word in launch.words]) is not None


def _container(change: Change, case: _Case) -> Change:
    to = values.container(change)
    if isinstance(to, values.Unfit):
        raise _Refused(to.reason)
    if case.launch is not None and case.launch.form in ("systemd", "config") and not _engine(case.launch):
        raise _Refused(f"the server is started by {case.launch.form}, not as a container")
    return replace(change, to=to)


def _host(change: Change, _case: _Case) -> Change:
    to = values.host(change)
    if isinstance(to, values.Unfit):
        raise _Refused(to.reason)
    return replace(change, to=to)


def _upgrade(change: Change, case: _Case) -> Change:
    now = case.facts.text("version")
    problem = values.upgrade(change, now)
    if problem:
        raise _Refused(problem)
    return replace(change, from_=now or change.from_)


_KINDS: dict[str, Callable[[Change, _Case], Change]] = {
    "flag": _flag,
    "env": _env,
    "container": _container,
    "host": _host,
    "upgrade": _upgrade,
}


def _not_twice(change: Change, passed: Sequence[Change], case: _Case) -> None:
    if any(_setting(one, case) == _setting(change, case) for one in passed):
        raise _Refused(f"{change.flag} is changed twice")


def _setting(change: Change, case: _Case) -> tuple[str, str]:
    """What a change sets, under one name for all its spellings."""
    if change.kind == "flag" and case.catalogue is not None:
        info = case.catalogue.lookup(change.flag)
        return "flag", info.spellings[0] if info is not None else change.flag
    if change.kind == "container":
        return "container", change.flag.removeprefix("--").replace("_", "-")
    return change.kind, values.UNIT_LIMITS.get(change.flag, change.flag)


def _referenced(change: Change, case: _Case) -> None:
    if not change.evidence:
        raise _Refused(f"nothing is cited for {change.flag}")
    wrong = proof.unknown(change.evidence, case.evidence, case.citations)
    if wrong:
        raise _Refused(f"{wrong} names no evidence of this case and no checked citation")


def _bearing(change: Change, proposed: str, case: _Case) -> tuple[str, ...]:
    """What of the evidence has to do with the change, `proposed` under this name."""
    premise = [*case.rests_on.get(proposed, ()), *case.rests_on.get(change.flag, ())]
    found = bearing(change, premise, case.evidence, case.citations, case.facts)
    if not found:
        name = change.flag.removeprefix("--").replace("-", "_")
        raise _Refused(
            f"nothing that is cited speaks of {change.flag}: {', '.join(change.evidence)}; cite a line that names it, "
            f"{name}, or what it moves"
        )
    return found


def _proved(change: Change, bears: tuple[str, ...], case: _Case) -> Change:
    """Two kinds of evidence for the change itself. The launch is shown beside it and proves nothing but what is typed:
    it is there for every change, also for one that only a line of the log speaks for.
    """
    shown = change.evidence
    if case.launch is not None and change.kind in ("flag", "env"):
        known = tuple(one for one in case.launch.sources if one in case.evidence)
        shown = tuple(dict.fromkeys((*shown, *known)))
    found = proof.kinds(bears, case.evidence)
    sure = proof.confirmed(found, live=case.live)
    return replace(change, evidence=shown, confirmed=sure, confirm_by="" if sure else proof.confirm_by(found))


def _together(passed: list[Change], refused: list[Refusal], case: _Case) -> Checked:
    """Rules and memory of the options after all changes; what breaks them takes out the changes it names, or all."""
    flags = [change for change in passed if change.kind == "flag"]
    if not flags or case.catalogue is None:
        return Checked(tuple(passed), tuple(refused))
    before = list(case.launch.options) if case.launch is not None else []
    after = options_after(case.launch, flags, case.catalogue)
    old = {problem.text for problem in case.catalogue.rules(before)}
    objected = case.catalogue.rules(after)
    problems = [problem for problem in objected if problem.text not in old]
    standing = [problem for problem in objected if problem.text in old] if case.launch is not None else []
    fit = memory.fit(_canonical(before, case), _canonical(after, case), case.facts)
    problems += fit.problems
    if case.arithmetic is not None:
        problems += list(case.arithmetic(before, after, case.facts))
    if problems:
        text = "; ".join(map(str, problems))
        refused += [Refusal(change, f"together with the other changes: {text}") for change in flags]
        passed = [change for change in passed if change.kind != "flag"]
    elif fit.missing:
        passed = [_unsure(change, fit.missing) for change in passed]
    return Checked(tuple(passed), tuple(refused), tuple(standing))


def _unsure(change: Change, missing: Sequence[str]) -> Change:
    if change.kind != "flag" or not memory.touches(change.flag):
        return change
    return replace(change, confirmed=False, confirm_by="; ".join(missing))


def typed_as(launch: Launch, info: FlagInfo, catalogue: Catalogue) -> tuple[str, ...]:
    """Every spelling of an option, those first under which the launch command has it, abbreviations included."""
    typed = []
    for flag in launch.flags:
        known = catalogue.resolve(flag.name)
        if known is not None and tuple(known.spellings) == tuple(info.spellings):
            typed.append(flag.name)
    return tuple(dict.fromkeys((*typed, *info.spellings)))


def options_after(launch: Launch | None, changes: Sequence[Change], catalogue: Catalogue) -> list[str]:
    """The server's options with the changes made."""
    base = launch if launch is not None and launch.form != "config" else None
    if base is None:
        words = list(launch.options) if launch is not None else []
        base = parse_launch("shell", " ".join(["python -m sglang.launch_server", *map(_word, words)]))
    for change in changes:
        info = catalogue.lookup(change.flag)
        spellings = typed_as(base, info, catalogue) if info else ()
        if change.do == "remove":
            edits = remove_flag(base, change.flag, spellings, switch=change.from_ in (True, None))
        else:
            edits = set_flag(base, change.flag, values.words(change.to), spellings)
        base = _again(base, base.written(edits))
    return list(base.options)


def _again(launch: Launch, text: str) -> Launch:
    name = launch.name.rpartition("/")[2] if launch.form == "kubernetes" else launch.name
    return parse_launch(launch.form, text, name=launch.name or name, sources=launch.sources)


def _word(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _canonical(options: Sequence[str], case: _Case) -> list[str]:
    """Options under the first of their spellings, so that sums need to know one name each."""
    found = []
    for word in options:
        name, sign, rest = word.partition("=")
        info = case.catalogue.resolve(name) if case.catalogue is not None and name.startswith("--") else None
        found.append(info.spellings[0] + sign + rest if info else word)
    return found
