"""Prefill and decode roles that must agree."""

from __future__ import annotations

import re
from dataclasses import replace

from tools.diagnosis.changes import FRACTION, plan, step
from tools.diagnosis.clues import Clue, Entry, Seen, both, flag, said, symptom
from tools.diagnosis.model import Actions, Proposal, Question
from tools.diagnosis.view import View

# What the refusal of a transfer calls the setting that differs.
_NAMED = {
    "--tp-size": r"different (?:attention )?tp|tp[ _]sizes?|tensor.parallel",
    "--page-size": r"page[ _]?size",
    "--kv-cache-dtype": r"kv[ _]?cache[ _]?dtype|\bdtype",
}


def _differ(view: View, name: str) -> bool:
    """The message names this setting, or the roles were started with different values and a hang tells no more."""
    messages = [str(one.value) for one in view.facts.all("message", "pd_state_mismatch")]
    if messages and name in _NAMED:
        return any(re.search(_NAMED[name], text, re.IGNORECASE) for text in messages)
    return len(set(view.all_typed(name))) > 1 or _one_sided(view, name)


def _one_sided(view: View, name: str) -> bool:
    """Both roles' commands are there, each on lines of its own, and only one of them has the setting."""
    modes = [one for one in view.facts.all("flag") if one.scope == "--disaggregation-mode"]
    if len({one.value for one in modes}) < 2 or len({one.source for one in modes}) < 2:
        return False
    return len(view.all_typed(name)) == 1


def _both_speculate(view: View) -> Proposal:
    algorithm = view.typed("--speculative-algorithm") or "EAGLE"
    why = "the same speculative flags on both roles; the draft's layers take part in the transfer"
    return replace(step(view, "set", "--speculative-algorithm", algorithm, why), from_=None)


def _same_roles(view: View) -> Actions:
    changes = []
    state = any("component" in str(one.value) for one in view.facts.all("message", "pd_state_mismatch"))
    if symptom("draft_on_one_role")(view) or state:
        changes.append(_both_speculate(view))
    if _differ(view, "--tp-size") and not changes:
        sizes = sorted({int(size) for size in view.all_typed("--tp-size") if size.isdigit()})
        to = sizes[-1] if sizes else "the same on both roles"
        why = "this transfer does not convert between parallel sizes; both roles take the same one"
        # Two commands with two values: neither is the one in force.
        changes.append(replace(step(view, "set", "--tp-size", to, why), from_=None))
    for name in ("--page-size", "--kv-cache-dtype"):
        if _differ(view, name) and not changes:
            values = view.all_typed(name)
            to_ = values[0] if values else "the same on both roles"
            to_ = f"{to_} on both roles" if _one_sided(view, name) else to_
            changes.append(
                replace(step(view, "set", name, to_, "the roles must agree on what is transferred"), from_=None)
            )
    if _differ(view, "--speculative-algorithm") and not changes:
        changes.append(_both_speculate(view))
    if len(set(view.all_typed("--context-length"))) > 1 or symptom("stragglers")(view) or not changes:
        lengths = [int(value) for value in view.all_typed("--context-length") if value.isdigit()]
        changes.append(
            step(
                view,
                "set",
                "--context-length",
                min(lengths) if lengths else "the same on both roles",
                "what one role admits the other must accept",
            )
        )
    return plan(
        *changes,
        never=(("raise", "--watchdog-timeout", "it hides the mismatch"), ("raise", FRACTION, "no memory is short")),
        alternatives=(
            ("one file of common flags for both roles", "page size, KV type and parallel sizes must agree as well"),
        ),
    )


_MUST_AGREE = ("--page-size", "--kv-cache-dtype", "--speculative-algorithm", "--context-length")


def _typed_apart(view: View) -> Seen | None:
    """Both roles' commands are there, and a setting that must agree has two values."""
    modes = set(view.all_typed("--disaggregation-mode"))
    if len(modes) < 2:
        return None
    for name in _MUST_AGREE:
        values = sorted(set(view.all_typed(name)))
        if len(values) > 1:
            return Seen(f"{name}: {' and '.join(values)}", view.flag_sources(name), "typed")
        if _one_sided(view, name):
            return Seen(f"{name} {values[0]} on one role only", view.flag_sources(name), "typed")
    return None


def _sizes_apart(view: View) -> Seen | None:
    """Both roles' commands have parallel sizes of their own, which not every transfer converts."""
    sizes = sorted(set(view.all_typed("--tp-size")))
    if len(set(view.all_typed("--disaggregation-mode"))) < 2 or len(sizes) < 2:
        return None
    return Seen(f"--tp-size: {' and '.join(sizes)}", view.flag_sources("--tp-size"), "typed")


ENTRIES = (
    Entry(
        "pd.role_config_mismatch",
        "The prefill and decode roles run with settings that must agree and do not.",
        for_=(
            Clue(6, said("pd_state_mismatch"), "the roles disagree about what is transferred"),
            Clue(3, _typed_apart, "the two commands differ where they must agree"),
            Clue(3, both(_typed_apart, said("pd_transfer_failed")), "and transfers between the roles fail"),
            Clue(1.5, said("pd_transfer_failed"), "transfers between the roles fail"),
            Clue(2.5, both(_sizes_apart, said("pd_transfer_failed")), "between parallel sizes that differ"),
            Clue(
                3,
                both(
                    flag("--disaggregation-mode"), symptom("hangs", "stragglers", "roles_differ", "draft_on_one_role")
                ),
                "requests hang between the roles",
            ),
            Clue(
                2,
                both(symptom("disaggregated"), symptom("hangs", "stragglers", "roles_differ", "draft_on_one_role")),
                "requests hang between the roles",
            ),
        ),
        against=(Clue(3, said("last_request", "cuda_oom"), "one role ran out of room"),),
        settle=Question(
            "Which of context length, page size, KV type, parallel sizes and speculative flags differ?",
            "server_args of both roles",
        ),
        act=_same_roles,
    ),
)
