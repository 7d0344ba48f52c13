"""Slots for recurrent state, on hybrid models: too few, or too many at the cost of KV."""

from __future__ import annotations

from tools.diagnosis.changes import (
    plan,
    step,
)
from tools.diagnosis.clues import (
    Clue,
    Entry,
    Seen,
    above,
    below,
    both,
    either,
    fact,
    lacks,
    said,
    setting_above,
    symptom,
)
from tools.diagnosis.conditions import (
    FULL_CACHE,
    HYBRID,
    IDLE_CACHE,
    NEVER_CAME_UP,
    WAITING,
    state_outweighs_kv,
)
from tools.diagnosis.model import Actions, Question
from tools.diagnosis.view import View


def _raise_state(view: View) -> Actions:
    capped = view.number("state_cap") or view.number("running_limit")
    slots, limit = (
        view.number("state_slots") or view.value("--max-mamba-cache-size"),
        view.number("state_cap") or view.number("running_limit"),
    )
    each = view.number("state_cap", "slots_per_request") if view.facts.get("state_cap", "slots_per_request") else None
    if each is None and slots and limit:
        each = max(1, round(slots / limit))
    wanted = view.value("--max-running-requests") or (limit or 8) * 1.25
    changes = []
    if view.typed("--max-mamba-cache-size") or not view.typed("--mamba-full-memory-ratio"):
        to = int(max((each or 5) * wanted, (slots or 0) * 1.25))
        changes.append(
            step(
                view,
                "raise",
                "--max-mamba-cache-size",
                to,
                f"about {each or 5:g} slots stand behind each running request",
                unit="slots",
            )
        )
    else:  # the ratio counts only where no number of slots is typed
        now = view.value("--mamba-full-memory-ratio") or 0.9
        changes.append(
            step(
                view,
                "raise",
                "--mamba-full-memory-ratio",
                round(min(now * 1.5, max(2.0, now * 1.2)), 2),
                "a larger part of the memory for state",
                unit="ratio",
            )
        )
    return plan(
        *changes,
        never=(
            ("raise", "--mem-fraction-static", "KV has room; the state slots bind"),
            ("raise", "--max-running-requests", "the server lowers it again to what the slots allow"),
            ("lower", "--schedule-conservativeness", "admission waits for slots, not for tokens"),
        ),
        alternatives=(
            ("--mamba-ssm-dtype bfloat16", "halves a slot; check quality"),
            ("--max-running-requests near the real load", "where the state pool is sized from it"),
        ),
        expected=((f"max_running_requests above {capped:g}", "ready line of the log"),) if capped else (),
    )


_KV_SHORT = either(FULL_CACHE, symptom("pool_small", "input_refused"), said("input_too_long"))


def _slots_unused(view: View) -> Seen | None:
    slots = view.number("state_slots") or view.value("--max-mamba-cache-size")
    used = view.number("state_slots_used")
    if slots is None or used is None or used > slots * 0.7:
        return None
    return Seen(f"{used:g} of {slots:g} slots at the busiest moment", view.sources("state_slots", "state_slots_used"))


def _shrink_state(view: View) -> Actions:
    slots = view.number("state_slots") or view.value("--max-mamba-cache-size")
    changes = []
    if view.typed("--max-mamba-cache-size") or not view.typed("--mamba-full-memory-ratio"):
        used = view.number("state_slots_used")
        busy = (
            used * 1.25 / 5
            if used
            else view.number("running_max") or view.value("--max-running-requests") or (slots or 64) / 8
        )
        to = int(max(8, min(busy * 5, (slots or 64) * 0.5)))
        changes.append(
            step(
                view,
                "lower",
                "--max-mamba-cache-size",
                to,
                "slots for the requests that really run, the rest back to KV",
                unit="slots",
            )
        )
    else:
        now = view.value("--mamba-full-memory-ratio") or 0.9
        changes.append(
            step(
                view,
                "lower",
                "--mamba-full-memory-ratio",
                round(now * 0.5, 2),
                "less memory for state, more for KV",
                unit="ratio",
            )
        )
    return plan(
        *changes,
        never=(
            ("raise", "--max-mamba-cache-size", "more of what starves KV"),
            ("raise", "--mem-fraction-static", "the memory is there, in the wrong pool"),
            ("raise", "--mamba-full-memory-ratio", "more of what starves KV"),
        ),
    )


ENTRIES = (
    Entry(
        "capacity.state_pool_cap",
        "Recurrent-state slots bind before KV memory does: each running request holds several.",
        for_=(
            Clue(5, said("state_caps_running"), "the server lowered the limit to its state slots"),
            Clue(4, either(fact("state_cap"), said("state_pool_too_small")), "the state cache limits requests"),
            Clue(
                4,
                both(
                    HYBRID,
                    WAITING,
                    either(IDLE_CACHE, above("usage_max", 0.7, "state")),
                    lacks(below("usage_max", 0.6, "state")),
                ),
                "requests wait for state while KV has room",
            ),
            Clue(1.5, both(HYBRID, symptom("few_running")), "few run on a model with state slots"),
            Clue(
                1.5,
                both(said("running_reduced_by_kv"), HYBRID),
                "the limit was lowered at start on a model with state slots",
            ),
        ),
        against=(
            Clue(4, symptom("forgets_conversations"), "what suffers is reuse, not admission"),
            Clue(2, FULL_CACHE, "KV is full"),
            Clue(2, NEVER_CAME_UP, "the server did not come up at all"),
        ),
        neighbours=(
            ("capacity.state_pool_oversized", "there slots lie idle and KV is short"),
            ("cache.state_slots_evict_prefixes", "there nothing waits; returning conversations are recomputed"),
        ),
        settle=Question(
            "What lowered the running limit at start, and what is the state usage under load?",
            "boot log: state cache lines; decode lines: mamba usage",
        ),
        act=_raise_state,
    ),
    Entry(
        "capacity.state_pool_oversized",
        "State slots take the memory that KV needs: many slots, few used, a small KV pool.",
        for_=(
            Clue(
                4,
                both(
                    HYBRID,
                    _KV_SHORT,
                    either(
                        below("usage_max", 0.5, "state"),
                        symptom("state_idle"),
                        setting_above("--max-mamba-cache-size", 100),
                        above("state_slots", 100),
                    ),
                ),
                "KV is short while state lies idle",
            ),
            Clue(3, both(symptom("state_idle"), HYBRID), "most state slots are never used"),
            Clue(4, _slots_unused, "many state slots were never in use"),
            Clue(5, both(state_outweighs_kv, _KV_SHORT), "state holds more memory than the KV that is short"),
            Clue(2, both(HYBRID, symptom("pool_small")), "a small KV pool on a model with state slots"),
        ),
        against=(Clue(3, said("state_caps_running"), "the slots limit requests"), Clue(2, IDLE_CACHE, "KV has room")),
        neighbours=(("capacity.state_pool_cap", "there the slots are the ones that are short"),),
        settle=Question(
            "How many state slots are used at the busiest moment, against KV usage?",
            "decode lines: mamba usage and token usage",
        ),
        act=_shrink_state,
    ),
)
