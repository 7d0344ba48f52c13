"""Options side by side: what research found in the tree, and what the arithmetic says of each, on the same measures."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final

from agent import sums
from agent.case import Case
from agent.views.words import FLAG, amount, plural
from tools import capacity
from tools.spoken import HICACHE
from transcripts.facts import Facts
from transcripts.parts import Finding
from transcripts.records import Compared

Json = dict[str, Any]
RATIO_ASKED: Final = 4.0
# Weakest last: an option is known as well as the weakest of its sums.
_GRADES: Final = ("observed", "derived", "estimated", "claimed")
# What an option does to the time to the first token, to the time of each token after it, and what would rank it
# otherwise. No figure is promised: that is for a test under the operator's own load.
_FELT: Final = {
    "--max-running-requests": (
        "sooner for what waits",
        "later: more decode at once",
        "requests longer than those seen: the pool binds before the limit",
    ),
    "--kv-cache-dtype": (
        "sooner for what waits for room",
        "by the backend's FP8 kernels: measure",
        "answers that get worse on your own prompts",
    ),
    "--enable-dp-attention": (
        "later for a lone request",
        "later for a lone request",
        "few requests at once, or single ones longer than a rank's pool",
    ),
    "--chunked-prefill-size": ("later for long prompts", "steadier for others", "longer prompts than those seen"),
    "--cuda-graph-max-bs": ("as now", "later in batches past the graphs", "load that fills those batches"),
    "--speculative-algorithm": ("as now", "later where the draft was good", "an accept length near 1"),
    "--mem-fraction-static": (
        "sooner for what waits for room",
        "as now",
        "less memory free under load than the log shows",
    ),
    HICACHE: (
        "sooner where the prefix is in host RAM",
        "as now; with a draft, measure the accept length",
        "a hit rate that stays high as traffic grows, or prompts that share nothing",
    ),
}
_ASKS_FOR_HOST_RAM: Final = re.compile(
    r"\bram\b|off-?load|host memory|cpu memory|hi-?cache|hierarchical", re.IGNORECASE
)


def compare(case: Case) -> Compared:
    """Every option of the case. Pure: the same case gives the same options."""
    facts = case.facts
    arithmetic: list[Json] = []
    options = [*_levers(facts), *_hicache(case, arithmetic), *_found(case)]
    version = facts.text("version")
    for option in options:
        option["maturity"] = _maturity(option, version)
    budget = capacity.gpu_budget(facts)
    arithmetic += [sums.row(entry) for entry in budget.sums]
    slots = capacity.slots_for(facts)
    if isinstance(slots, capacity.Slots):
        arithmetic += [sums.row(entry) for entry in (*slots.sums, slots.reserve)]
    return Compared(
        options=tuple(options),
        arithmetic=tuple({entry["name"]: entry for entry in arithmetic}.values()),
        memory=tuple(
            {
                "name": step.name,
                "gib": round(step.gib, 2),
                "left_gib": round(step.left_gib, 2),
                "grade": step.grade,
                "source": step.source,
                "why_not_spare": step.why_not_spare,
            }
            for step in budget.steps
        ),
    )


def compared_text(compared: Compared, contradictions: Iterable[str] = ()) -> str:
    """The options as a model reads them."""
    lines = []
    for option in compared.options:
        parts = [option["name"]]
        parts += [f"running {option['running_factor']:.2f}x"] if option.get("running_factor") is not None else []
        parts += [f"{amount(option['host_gb'])} GB of host RAM"] if option.get("host_gb") else []
        parts += ["does not fit"] if option.get("fits") is False else []
        parts += [option[key] for key in ("risk", "why_not", "maturity") if option.get(key)]
        lines.append(f"- {'; '.join(parts)} [{', '.join(option.get('evidence', ()))}]")
    lines += [f"- {row['name']} = {amount(row['value'])} {row['unit']} ({row['grade']})" for row in compared.arithmetic]
    lines += [f"contradiction: {text}" for text in contradictions]
    return "\n".join(lines) or "no option could be worked out."


def hicache_says(budget: capacity.HostBudget) -> str:
    """What HiCache at that ratio would and would not do on this host, in one sentence."""
    fit = "fits" if budget.fits else "does not fit"
    says = (
        f"HiCache at ratio {round(budget.ratio, 2):g} would take {budget.ranks} ranks x {budget.per_rank_gb:.2f} GB = "
        f"{budget.total_gb:.1f} GB of host RAM, which {fit} under {budget.limit_bytes / 1e9:.1f} GB "
        f"({budget.limit_from}); it keeps about {budget.ratio:.1f}x the prefix tokens ({budget.prefix_tokens:,}) and "
        f"leaves running requests at {budget.running_factor:.2f}x"
    )
    if budget.distinct_bytes < budget.total_bytes:
        says += f"; ranks keep copies of the same KV, so {budget.distinct_bytes / 1e9:.2f} GB of it are distinct"
    if not budget.fits and budget.own_check_passes:
        says += f"; the version's own check would let it start all the same ({budget.own_check})"
    if budget.largest_ratio >= 1:
        says += f"; the largest ratio that fits is {budget.largest_ratio:g}"
    else:
        says += "; no ratio above 1 fits"
    if budget.largest_ratio < WORTH:
        says += ", and so little is not worth a restart"
    return says + "".join(f"; {warning}" for warning in budget.warnings)


WORTH = 1.5


def _hicache(case: Case, arithmetic: list[Json]) -> Iterator[Json]:
    """HiCache at the ratio people ask for and at the largest that fits; both answer a question about RAM."""
    asked = capacity.host_budget(case.facts, ratio=RATIO_ASKED)
    if not isinstance(asked, capacity.HostBudget):
        return
    arithmetic += [sums.row(entry) for entry in asked.sums]
    cited = [
        citation.id for finding in case.findings if "hierarchical" in finding.subject for citation in finding.citations
    ]
    words = [case.complaint, *(said.text for said in case.said)]
    now = _now(case.facts)
    yield _hicache_row(asked, cited, now, answers=any(_ASKS_FOR_HOST_RAM.search(text) for text in words))
    best = min(asked.largest_ratio, RATIO_ASKED)
    if not asked.fits and best > 1:
        smaller = capacity.host_budget(case.facts, ratio=best)
        if isinstance(smaller, capacity.HostBudget):
            yield _hicache_row(smaller, cited, now, answers=False)


def _now(facts: Facts) -> capacity.Lever | None:
    """How things stand: requests that run at once and memory of the GPU, neither of which host memory changes."""
    return next(
        (lever for lever in capacity.levers(facts) if isinstance(lever, capacity.Lever) and not lever.changes), None
    )


def _hicache_row(budget: capacity.HostBudget, cited: list[str], now: capacity.Lever | None, *, answers: bool) -> Json:
    sources = list(dict.fromkeys(source for entry in budget.sums for source in entry.sources))
    return {
        "name": f"HiCache, ratio {round(budget.ratio, 2):g}",
        "running_factor": budget.running_factor,
        "running": None if now is None else now.running,
        **_gpu_memory(now),
        "prefix_tokens": budget.prefix_tokens,
        "prefix_factor": round(budget.ratio, 2),
        "host_gb": round(budget.total_gb, 1),
        "fits": budget.fits,
        "restart": True,
        "risk": "; ".join((*budget.warnings, "host memory is pinned at start, which takes minutes")),
        "why_not": "" if budget.fits else f"over {budget.limit_bytes / 1e9:.1f} GB ({budget.limit_from})",
        "own_check_passes": budget.own_check_passes,
        "largest_ratio": budget.largest_ratio,
        "says": hicache_says(budget),
        "changes": [[HICACHE, None, "true"], ["--hicache-ratio", None, f"{budget.ratio:g}"]],
        "answers": answers,
        "evidence": [*sources, *cited[:4]],
        "grade": _weakest(budget.sums),
        **_felt([HICACHE]),
    }


def _gpu_memory(lever: capacity.Lever | None) -> Json:
    """GiB of the pool and of what stays free on each GPU, at most and at least; None where that is not known."""
    known = (None,) * 3 if lever is None else (lever.pool_gib, lever.gpu_free_gib, lever.gpu_free_least_gib)
    names = ("gpu_pool_gib", "gpu_free_gib", "gpu_free_least_gib")
    return {name: None if gib is None else round(gib, 2) for name, gib in zip(names, known, strict=True)}


def _weakest(found: Iterable[capacity.Sum]) -> str:
    return max((entry.grade for entry in found), key=_GRADES.index, default="")


def _felt(flags: Iterable[str]) -> Json:
    """By the flag that an option is about, its first; those behind it only use the room that it makes."""
    first, decode, would_change = next((_FELT[flag] for flag in flags if flag in _FELT), ("", "", ""))
    return {"first_token": first, "decode": decode, "would_change": would_change}


def _maturity(option: Json, version: str) -> str:
    """How long the releases have listed every flag of an option; empty where the version or a flag is not known."""
    from tools.source.released import since

    flags = [flag for flag, *_ in option.get("changes", ())] or FLAG.findall(option["name"])
    found = [since(flag, version) for flag in flags] if version else []
    if not found or not all(count for _, count in found):
        return ""
    first, count = min(found, key=lambda each: each[1])
    return f"listed since {first}, in {plural(count, 'release')} known up to {version}"


HICACHE_FLAGS = 2


def _levers(facts: Facts) -> Iterator[Json]:
    for lever in capacity.levers(facts):
        if not isinstance(lever, capacity.Lever):
            continue
        if any(flag == "--hicache-ratio" for flag, _, _ in lever.changes) and len(lever.changes) <= HICACHE_FLAGS:
            continue  # a row of its own, with the host's side of it
        yield {
            "combined": " + " in lever.name,
            "name": lever.name,
            "running_factor": None if lever.factor is None else round(lever.factor, 2),
            "running": lever.running,
            "tokens": lever.tokens,
            "prefix_tokens": lever.prefix_tokens,
            "host_gb": lever.host_gb,
            **_gpu_memory(lever),
            "fits": lever.fits,
            "restart": lever.restart,
            "risk": lever.risk,
            "why_not": lever.why_not,
            "changes": [list(change) for change in lever.changes],
            "grade": _weakest(lever.sums),
            **_felt(flag for flag, _, _ in lever.changes),
            "evidence": list(dict.fromkeys(source for entry in lever.sums for source in entry.sources)),
        }


_LIMITING: Final = ("does_not", "needs", "constraint", "contradicts")


def _found(case: Case) -> Iterator[Json]:
    """Options that only the tree tells of: one row for each subject of an offload question."""
    groups: dict[str, list[Finding]] = defaultdict(list)
    for finding in case.findings:
        if finding.question.startswith("offload."):
            groups[finding.subject].append(finding)
    for subject, findings in groups.items():
        does = [finding.text for finding in findings if finding.kind in ("does", "answer")]
        limits = [finding.text for finding in findings if finding.kind in _LIMITING]
        cited = [citation.id for finding in findings for citation in finding.citations if citation.checked]
        yield {
            "name": subject,
            "running_factor": None,
            "fits": None,
            "restart": True,
            "risk": "; ".join(limits),
            "does": "; ".join(does),
            "says": f"{subject}: {'; '.join([*does, *limits])}",
            "answers": False,
            "evidence": cited,
        }
