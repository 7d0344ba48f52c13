"""From a verdict, or a proposal of a model, to a change set that passed every check, with cost, proof and way back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from agent import sums
from agent.case import Case
from agent.views.words import FILL_IN, GPU_WALL, amount, option_typed
from tools import advice, capacity, diagnosis
from tools.spoken import whole
from transcripts.errors import ScoutError
from transcripts.facts import Facts, Value
from transcripts.records import Advised

if TYPE_CHECKING:
    from tools.source import Source

Json = dict[str, Any]
TUNED = "the operator wants it left as it is"


def advise(case: Case, source: Source | None, wanted: Sequence[Json]) -> Advised:
    """The change set: what was proposed, or what the leading cause suggests, as far as it passes the checks."""
    label = case.weighed.label if case.weighed else ""
    actions = diagnosis.actions(label, case.facts) if label else diagnosis.Actions()
    proposed = [_of_model(row) for row in wanted] or [_of_playbook(each, case) for each in actions.changes]
    tuned = {fact.scope: fact.source for fact in case.facts.all("tuned")}
    left = [each for each in proposed if _stays(each.flag, tuned)]
    proposed = [each for each in proposed if each not in left]
    launch = advice.launch_from(case.evidence.values(), case.facts)
    catalogue = _flags_of(case, source)
    checked = advice.check(
        proposed,
        facts=case.facts,
        launch=launch,
        catalogue=catalogue,
        evidence=case.evidence,
        citations={name: f"{each.path} {each.quote}" for name, each in case.citations.items() if each.checked},
        rests_on=_rests_on(case),
        live=case.opened.target.get("kind") != "bundle",
    )
    accepted = tuple(change.row() for change in checked.accepted)
    # Of the program's own suggestions what only the operator can fill in is told with the others, and written nowhere.
    open_ = [each for each in checked.refused if not wanted and _for_the_operator(each.change, launch, catalogue)]
    patch = advice.patch(launch, checked.accepted, catalogue=catalogue) if launch and checked.accepted else None
    if patch is not None and catalogue is not None:
        looked_up = any(change.kind == "flag" for change in checked.accepted)
        unread = _unread(catalogue, case.facts.text("version")) if looked_up else []
        notes = (*unread, *_standing(checked, catalogue.version))
        patch = replace(patch, notes=(*patch.notes, *notes))
    if patch is not None and launch is not None:
        patch = replace(patch, notes=(*patch.notes, *_around(launch, checked.accepted, case.facts)))
    stated = [{"what": each.what, "where": each.where} for each in actions.expected]
    expected = advice.expected_after(checked.accepted, stated, case.facts, launch=launch, catalogue=catalogue)
    watches = [
        {"metric": each.metric, "window_s": each.window_s, "better": each.better, "worse": each.worse}
        for each in (actions.verify if checked.accepted else ())
    ]
    stages = advice.plan_after(checked.accepted, case.facts, patch=patch, expected=expected, verify=watches)
    return Advised(
        changes=(*accepted, *(replace(each.change, confirm_by=FILL_IN).row() for each in open_)),
        refused=(
            *({"what": _said(each.change), "reason": each.reason} for each in checked.refused if each not in open_),
            *({"what": _said(each), "reason": f"{TUNED} [{_stays(each.flag, tuned)}]"} for each in left),
        ),
        arithmetic=tuple(_arithmetic(case.facts, checked.accepted)),
        launch=patch.row() if patch else {},
        expected=tuple(dict(row) for row in expected),
        verify=tuple(watches),
        rollback=_rollback(patch, watches) if checked.accepted else {},
        alternatives=tuple({"what": what, "why_not": why} for what, why in actions.alternatives),
        must_not=tuple(
            {"do": each.do, "flag": _named_here(each.flag, catalogue), "why": each.why} for each in actions.must_not
        ),
        stages=tuple(stage.row() for stage in stages),
        walls=tuple(_walls(case.facts, accepted, catalogue)),
    )


def _around(launch: advice.Launch, changes: Iterable[advice.Change], facts: Facts) -> list[str]:
    """What beside the command does not fit it, save for what is being changed."""
    changed = {change.flag for change in changes} | {change.flag.removeprefix("--") for change in changes}
    found = advice.surroundings(launch, facts)
    return [f"Beside the change: {each.text}." for each in found if each.about not in changed]


def _rests_on(case: Case) -> dict[str, set[str]]:
    """By option, what the live explanations that call for it rest on."""
    found: dict[str, set[str]] = {}
    for row in case.weighed.hypotheses if case.weighed else ():
        if row.status != "refuted" and row.supporting:
            sources = {source for reason in row.supporting for source in reason.source}
            for change in diagnosis.actions(row.label, case.facts).changes:
                found.setdefault(change.flag, set()).update(sources, change.evidence)
    return found


def _rollback(patch: advice.Patch | None, watches: Iterable[Json]) -> Json:
    """What takes the change back, where the launch command was seen, and which measure says that it must be."""
    when = [f"{each['metric']}: {each['worse']}" for each in watches]
    return {"commands": list(patch.rollback) if patch else [], "when": when}


def _stays(flag: str, tuned: Mapping[str, str]) -> str:
    """Where the operator says that an option, or the one that it is part of, stays as it is; empty where nowhere."""
    return tuned.get(flag) or tuned.get(whole(flag), "")


def _for_the_operator(change: advice.Change, launch: advice.Launch | None, catalogue: advice.Flags | None) -> bool:
    """A change in words, of a place, a value or a setting that the program does not write; none that cannot be made."""
    if change.kind == "env":
        return catalogue is None or catalogue.environment(change.flag) is not False
    if change.kind == "flag":
        known = catalogue is not None and catalogue.lookup(change.flag) is not None
        return known and change.do != "remove" and " " in str(change.to)
    return change.kind == "host" or (change.kind == "container" and (launch is None or launch.form != "systemd"))


def _flags_of(case: Case, source: Source | None) -> advice.Flags | None:
    """Flags and rules of the tree; of a release whose tree is not to be had, or of an unknown one, flags that ship."""
    if source is not None:
        return advice.Flags.of(source)
    if case.located is not None or case.opened.target.get("source"):
        return None  # another tree than the release was meant
    from tools.source.released import versions

    version = case.facts.text("version")
    if case.opened.target.get("kind") != "bundle" and version not in versions():
        return None  # a host tells its version and has its tree: nothing else stands in for it
    return advice.Flags.shipped(version)


def _unread(catalogue: advice.Flags, version: str) -> list[str]:
    if catalogue.knows_rules:
        return []
    if not version:
        said = (
            f"The version of SGLang is not known: the option was looked up in releases {catalogue.version}, the rules "
            "of the code were not checked. Name yours with --sglang-version."
        )
        return [said]
    listed = "the list of flags that ships"
    if catalogue.version != version:
        listed = f"the lists of flags that ship for {catalogue.version}"
    said = (
        f"The source of sglang {version} was not to be had: the option is in {listed}, the rules "
        f'of the code were not checked. With it at hand: sglscout check "LAUNCH COMMAND" --version {version}'
    )
    return [said]


def _named_here(flag: str, catalogue: advice.Flags | None) -> str:
    """An option as the deployed version spells it."""
    if catalogue is None or catalogue.lookup(flag) is not None:
        return flag
    here = catalogue.renamed(flag)
    return here.spellings[0] if here is not None else flag


def _standing(checked: advice.Checked, version: str) -> list[str]:
    """What the operator's own command has that the version refuses, changed or not."""
    return [
        f"The launch command as it stands is refused by sglang {version}: {each}. No change here mends that."
        for each in checked.standing
    ]


def advised_text(advised: Advised) -> str:
    """What holds and what was refused, for whoever proposed it."""
    lines = [f"holds: {row['do']} {row['flag']} {row['to']}: {row['why']} {row['evidence']}" for row in advised.changes]
    lines += [f"refused: {row['what']}: {row['reason']}" for row in advised.refused]
    lines += [f"next wall: {wall['what']}" for wall in advised.walls]
    return "\n".join(lines) or "there is nothing to change."


def _of_model(row: Json) -> advice.Change:
    do: Literal["set", "remove"] = "remove" if row["to"] is None else "set"
    return advice.Change("flag", do, row["flag"], None, row["to"], "", row["why"], tuple(row["evidence"]))


def _of_playbook(proposal: diagnosis.Proposal, case: Case) -> advice.Change:
    """A proposal with the evidence that its hypothesis rests on beside its own."""
    leading = case.weighed.hypotheses[0] if case.weighed and case.weighed.hypotheses else None
    reasons = [source for reason in (leading.supporting if leading else ()) for source in reason.source]
    standing = [
        name for name in case.evidence if case.evidence[name].probe in ("gpus", "unit_files", "loads", "meminfo")
    ]
    held = dict.fromkeys([*proposal.evidence, *reasons, *standing])
    return advice.Change(
        proposal.kind,
        proposal.do,
        proposal.flag,
        proposal.from_,
        proposal.to,
        proposal.unit,
        proposal.why,
        tuple(each for each in held if each.partition(":")[0] in case.evidence or each in case.citations),
    )


def _said(change: advice.Change) -> str:
    return (
        f"remove {change.flag}"
        if change.do == "remove"
        else f"{change.do} {option_typed(change.flag, change.to or '')}"
    )


def _arithmetic(facts: Facts, changes: Iterable[advice.Change]) -> Iterable[Json]:
    """The sums that a change's value came from."""
    for change in changes:
        if change.flag == "--max-running-requests":
            slots = capacity.slots_for(facts)
            if isinstance(slots, capacity.Slots):
                yield from (sums.row(entry) for entry in (*slots.sums, slots.reserve))
        if change.flag == "--hicache-ratio" and isinstance(change.to, int | float):
            budget = capacity.host_budget(facts, ratio=float(change.to))
            if isinstance(budget, capacity.HostBudget):
                yield from (sums.row(entry) for entry in budget.sums)


def _pool_factor(facts: Facts, levers: Mapping[str, Value]) -> float | None:
    """Tokens of all pools with the changes in, against now; None where that cannot be summed."""
    wanted = {flag: str(to) for flag, to in levers.items() if to is not None}
    if levers.get("--max-total-tokens", "") is None:
        wanted["--max-total-tokens"] = capacity.NO_CAP
    try:
        after = capacity.what_if(facts, wanted)
    except ScoutError:
        return None
    if isinstance(after, capacity.Lever) and after.tokens > 0:
        return after.factor
    # Sums that leave no pool where one runs say nothing of it; the limit alone does not move it.
    return 1.0 if set(wanted) <= {"--max-running-requests"} else None


def _walls(facts: Facts, changes: Sequence[Json], catalogue: advice.Flags | None) -> Iterable[Json]:
    """What will bind next, once the change is in; GPU memory first where the graphs may take the last of it."""
    levers = {change["flag"]: change["to"] for change in changes if change["flag"] in capacity.MEMORY_LEVERS}
    slots, grown = capacity.slots_for(facts), _pool_factor(facts, levers)
    if grown is None or not isinstance(slots, capacity.Slots):
        return
    if grown == 1 and "--max-running-requests" not in levers:  # neither the limit nor the pool moves
        return
    tight, graphs = _graphs(facts, levers, catalogue)
    if tight:
        yield from graphs
    evidence = list(dict.fromkeys(source for entry in slots.sums for source in entry.sources))
    wall = math.floor(grown * slots.groups * slots.sums[1].value + 1e-6)
    limit = levers.get("--max-running-requests", slots.limit)
    if limit is not None and int(limit) < wall and "--max-running-requests" not in levers:
        yield {"what": f"the limit of {int(limit)} running requests, as it stands", "evidence": evidence}
    yield {"what": f"the KV pool, at about {wall} requests of the length seen", "evidence": evidence}
    if not tight:
        yield from graphs
    reserve, pools = slots.reserve, grown * slots.groups
    if reserve.low is not None and reserve.high is not None and reserve.low < slots.per_rank:
        yield {
            "what": (
                f"for the first {amount(reserve.inputs['decode_steps'])} decode steps after idle, the admission "
                f"reserve: {reserve.low * pools:.0f} to {reserve.high * pools:.0f} requests, "
                "by the max_tokens that clients ask for"
            ),
            "evidence": evidence,
        }


def _graphs(facts: Facts, levers: Mapping[str, Value], catalogue: advice.Flags | None) -> tuple[bool, list[Json]]:
    """GPU memory that graphs of larger batches take at the start: whether that leaves too little, and in words."""
    limit = levers.get("--max-running-requests")
    growth = capacity.graph_growth(facts, int(limit)) if limit is not None else None
    if growth is None or growth.free_gib is None:
        return False, []
    what = f"{GPU_WALL}{sums.graphs_told(growth)}"
    if growth.tight:
        flag = _named_here("--cuda-graph-max-bs", catalogue)
        what += f"; if the start runs out of memory, {flag} {growth.first - 1} keeps them as they are"
    return growth.tight, [{"what": what, "evidence": list(growth.sources)}]
