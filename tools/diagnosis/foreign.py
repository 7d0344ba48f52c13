"""Flags of other engines, flags that were renamed, and what to type instead.

What a version really has is checked against its catalogue by whoever holds the tree; here stands only what SGLang
itself renamed.
"""

from __future__ import annotations

import re
from dataclasses import replace

from tools.diagnosis.changes import step, upgrade
from tools.diagnosis.model import Proposal, Scalar
from tools.diagnosis.view import SPELLINGS, View, as_number
from tools.other_engines import FOREIGN, VALUE_DIFFERS

# SGLang's own renames: old name, (version from which the new one holds, new names with values; None keeps the value,
# `=--option` is what another option has).
RENAMED: dict[str, tuple[tuple[int, ...], tuple[tuple[str, str | None], ...]]] = {
    "--disable-cuda-graph": (
        (0, 5, 13),
        (("--cuda-graph-backend-decode", "disabled"), ("--cuda-graph-backend-prefill", "disabled")),
    ),
    "--disable-piecewise-cuda-graph": ((0, 5, 13), (("--cuda-graph-backend-prefill", "disabled"),)),
    "--enable-piecewise-cuda-graph": ((0, 5, 13), (("--cuda-graph-backend-prefill", "tc_piecewise"),)),
    "--cuda-graph-max-bs": ((0, 5, 16), (("--cuda-graph-max-bs-decode", None),)),
    "--cuda-graph-bs": ((0, 5, 16), (("--cuda-graph-bs-decode", None),)),
    "--mamba-scheduler-strategy": ((0, 5, 16), (("--mamba-radix-cache-strategy", None),)),
    "--enable-ep-moe": ((0, 5, 0), (("--ep-size", "=--tp-size"),)),
    "--enable-deepep-moe": ((0, 5, 0), (("--moe-a2a-backend", "deepep"),)),
    "--enable-flashinfer-cutlass-moe": ((0, 5, 0), (("--moe-runner-backend", "flashinfer_cutlass"),)),
    "--enable-triton-kernel-moe": ((0, 5, 0), (("--moe-runner-backend", "triton_kernel"),)),
    "--nsa-prefill-backend": ((0, 5, 16), (("--dsa-prefill-backend", None),)),
    "--nsa-decode-backend": ((0, 5, 16), (("--dsa-decode-backend", None),)),
    "--enable-dp-attention": ((0, 5, 20), (("--attn-dp-size", None),)),
    "--disable-mla": ((0, 4, 10), ()),
    "--hybrid-kvcache-ratio": ((0, 5, 6), (("--swa-full-tokens-ratio", None),)),
    "--schedule-heuristic": ((0, 3, 0), (("--schedule-policy", None),)),
}


REFUSED_AT_ONCE = 32  # changes of one start: an option that stays is refused as well


def changes_for_rejected(view: View) -> tuple[Proposal, ...]:
    """What to type instead of each flag that was refused, deprecated or belongs to another engine."""
    names = [str(fact.value) for fact in view.facts.all("rejected_flag")]
    names += [fact.scope for fact in view.facts.all("flag") if fact.scope in FOREIGN or "_" in fact.scope]
    names += [str(fact.value) for fact in view.facts.all("deprecated_flag")]
    found: list[Proposal] = []
    for refused in view.facts.all("rejected_value"):
        choice = nearest_choice(str(refused.value), view.facts.text("flag_choices", refused.scope))
        if choice:
            found.append(step(view, "set", refused.scope, choice, f"this version's spelling of {refused.value}"))
            names = [name for name in names if name != refused.scope]
    for name in dict.fromkeys(names):
        found += _instead(view, name)
    return tuple(dict.fromkeys(found))


def _instead(view: View, name: str) -> list[Proposal]:
    nearest = view.facts.text("flag_nearest", name)
    value = view.typed(name)
    kept: Scalar = number if (number := as_number(value)) is not None else (value or True)
    if name in FOREIGN:
        engine, other, why, given = FOREIGN[name]
        gone = step(view, "remove", name, None, f"it belongs to {engine}{f'; {why}' if why else ''}")
        if not other or given == VALUE_DIFFERS:
            return [gone]
        return [step(view, "set", other, as_number(given) or kept, f"SGLang's word for {name}"), gone]
    first = next((one for one, others in SPELLINGS.items() if name in others), "")
    if first and any(fact.value == name for fact in view.facts.all("rejected_flag")):
        # A later spelling, which the version that refused it does not have yet; the step is named as it was typed.
        new = replace(step(view, "set", first, kept, f"SGLang's name for {name}"), flag=first, from_=None)
        return [new, replace(step(view, "remove", name, None, "this version does not know it"), flag=name)]
    if name in RENAMED and not view.before(*RENAMED[name][0]):
        return [
            replace(step(view, "set", new, _renamed_value(view, to, kept), f"the new name of {name}"), from_=None)
            for new, to in RENAMED[name][1]
        ] or [step(view, "remove", name, None, "it is gone")]
    meant = _meant(view, name)
    if meant:
        why = f"{name} is the beginning of several options now; this one is what it was"
        new = replace(step(view, "set", meant, kept, why), from_=None)  # typed under its old name only
        return [new, step(view, "remove", name, None, "it says no longer which")]
    if "_" in name and not nearest:
        nearest = name.replace("_", "-")
    if nearest:
        return [
            step(view, "set", nearest, kept, f"the spelling of this version for {name}"),
            step(view, "remove", name, None, "this version does not know it"),
        ]
    if name.startswith("--"):
        later = view.facts.text("flag_listed_later", name)
        return [
            step(view, "remove", name, None, "this version does not know it" + ("" if later else ", nor a later one")),
            *([upgrade(f"or a version that has {name}: {later}")] if later else []),
        ]
    return []


def _renamed_value(view: View, to: str | None, kept: Scalar) -> Scalar:
    if to is None or not to.startswith("="):
        return kept if to is None else to
    other = to.removeprefix("=")
    value = view.setting(other)
    return as_number(value) or value or f"what {other} has"


def _meant(view: View, name: str) -> str:
    """Of the options that an abbreviation could mean, the one for decode, which is what undivided ones governed."""
    listed = view.facts.text("ambiguous_with", name).split()
    return next((one for one in listed if one.endswith("-decode")), listed[0] if listed else "")


def listed_choices(text: str) -> list[str]:
    """Names that a message lists in braces or brackets, each in quotes; empty where it lists none."""
    lists = re.findall(r"[\[{(]((?:['\"][\w.+-]+['\"](?:, )?)+)[\]})]", text)
    return [name for each in lists for name in re.findall(r"[\w.+-]+", each)]


def nearest_choice(value: str, choices: str) -> str:
    """Of the choices as the parser printed them, the one that a value is a slip of; empty where none is near."""
    from difflib import get_close_matches

    listed = re.findall(r"[\w.+-]+", choices)
    same = [one for one in listed if one.replace("-", "_").lower() == value.replace("-", "_").lower()]
    return next(iter(same or get_close_matches(value, listed, 1, 0.8)), "")
