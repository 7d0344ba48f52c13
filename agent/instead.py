"""What remains where the operator rules a change out: the best of the compared options that does without it."""

from __future__ import annotations

from typing import Any, Final

from agent.case import Case
from tools.spoken import HICACHE, whole

Json = dict[str, Any]
TIGHT: Final = "tight"


def instead(case: Case) -> Json:
    """The option that lets most requests run, or keeps most prefixes where HiCache is what was ruled out.

    Empty where nothing was ruled out, or nothing that fits is better than what runs.
    """
    stays = {whole(fact.scope) for fact in case.facts.all("tuned")}
    refused = [row["what"].split() for row in (case.advised.refused if case.advised else ())]
    left = {whole(words[1]) for words in refused if len(words) > 1}
    if not stays & left:
        return {}
    measure = "prefix_tokens" if HICACHE in stays & left else "running"
    compared = case.compared.options if case.compared else ()
    rows = [row for row in compared if row.get(measure) and not row.get("combined")]
    now = next((row[measure] for row in rows if not row.get("changes")), None)
    fitting = [row for row in rows if row.get("fits") and now is not None and row[measure] > now]
    better = [row for row in fitting if not stays & {whole(each[0]) for each in row.get("changes") or ()}]
    return max(better, key=lambda row: (TIGHT not in (row.get("risk") or ""), row[measure]), default={})
