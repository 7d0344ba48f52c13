"""Draft models and the memory they take."""

from __future__ import annotations

import re

from tools.diagnosis.changes import FRACTION, Forbidden, lower_fraction, plan, raise_fraction, scale, step, upgrade
from tools.diagnosis.clues import (
    Clue,
    Entry,
    Seen,
    both,
    either,
    fact,
    lacks,
    phase,
    said,
    symptom,
)
from tools.diagnosis.conditions import DRAFT
from tools.diagnosis.model import Actions, Proposal, Question
from tools.diagnosis.view import View

_OOM = either(fact("oom_request_gib"), said("cuda_oom"), symptom("gpu_memory_out"))


def _budget_draft(view: View) -> Actions:
    """Before 0.5.16 drafts are paid from the reserve, since then from the static part (kv_cache_configurator.py)."""
    counted = view.at_least(0, 5, 16)
    if counted:
        changes = [raise_fraction(view, "this version counts the draft inside the static part", 0.1)]
        if (view.value("--max-running-requests") or 0) > 32:
            changes.append(
                scale(
                    view,
                    "--max-running-requests",
                    0.25,
                    "state and draft slots are sized from it; use the real concurrency",
                    unit="requests",
                )
            )
        never: tuple[Forbidden, ...] = (
            ("lower", FRACTION, "the static part must hold the draft as well"),
            ("raise", "--max-running-requests", "more slots take from the same part"),
        )
        return plan(*changes, never=never, alternatives=(("no draft", "where capacity matters more than speed"),))
    return plan(
        lower_fraction(view, "this version sizes the pool first and loads the draft into what is left", 0.1),
        upgrade("from 0.5.16 on the draft is counted when the pool is sized", "0.5.16"),
        never=(
            ("raise", FRACTION, "less would be left for the draft"),
            ("raise", "--max-running-requests", "more slots take from the same rest"),
        ),
        alternatives=(
            ("a smaller draft head", "instead of a full model"),
            ("no draft", "where capacity matters more than speed"),
        ),
    )


def _draft_share(view: View) -> Seen | None:
    target, draft = view.number("weights_gib", ""), view.number("weights_gib", "draft")
    if not target or draft is None or draft < target / 2:
        return None
    return Seen(f"draft {draft:g} GiB, target {target:g} GiB", view.sources("weights_gib"))


def _same_class(view: View) -> Seen | None:
    """The draft loaded as the target's own class: the target's checkpoint was read a second time."""
    target, draft = view.facts.text("model_class", ""), view.facts.text("model_class", "draft")
    if not target or target != draft:
        return None
    return Seen(f"both are {target}", view.sources("model_class"))


def _target_as_draft(view: View) -> bool:
    """No draft checkpoint was named, or the target's own: EAGLE3 has no head inside the target to fall back to."""
    path = view.setting("--speculative-draft-model-path")
    return not path or path == view.typed("--model-path")


def _target_named_twice(view: View) -> Seen | None:
    """The draft's path is the target's own, which helps only where the checkpoint has a head for it built in."""
    path, target = view.typed("--speculative-draft-model-path"), view.typed("--model-path")
    draft_class = view.facts.text("model_class", "draft")
    model = f"{target} {view.facts.text('model_path')}"
    if not path or path != target or _HEAD_CLASS.search(draft_class) or _BUILT_IN.search(model):
        return None
    return Seen(f"{path} twice", view.flag_sources("--speculative-draft-model-path"), "typed")


# Classes of draft heads, and families whose checkpoints carry one (sglang 0.5.23 srt/configs/model_config.py).
_HEAD_CLASS = re.compile(r"nextn|mtp|eagle|dspark|dflash", re.IGNORECASE)
_BUILT_IN = re.compile(
    r"deepseek-?(?:v3|v4|r1)|glm-?(?:4\.[5-9]|5)|mimo|qwen3[-_]?next|qwen3\.[5-9]|ernie|longcat|minimax|nemotron|bailing|(?<![a-z])[lr]ing-|k-exaone|exaone-?moe|step-?3[.p]5|mtp",
    re.IGNORECASE,
)


def _loaded_with_no_draft_named(view: View) -> Seen | None:
    """Memory ran out in a load after the target's had ended, and no checkpoint of a draft was named.

    EAGLE then takes the target's own (sglang 0.5.9 srt/server_args.py), which has a head only in some families.
    """
    algorithm, model = view.setting("--speculative-algorithm").upper(), view.typed("--model-path")
    if not algorithm.startswith("EAGLE") or not _target_as_draft(view) or "weights_after_gib" not in view.facts:
        return None
    if _BUILT_IN.search(f"{model} {view.facts.text('model_path')}") or phase("load", "draft")(view) is None:
        return None
    sources = (*view.flag_sources("--speculative-algorithm"), *view.sources("weights_after_gib"))
    return Seen(f"--speculative-algorithm {algorithm} without a draft's path", sources)


_WHOLE_MODEL = either(_draft_share, _same_class, _target_named_twice, _loaded_with_no_draft_named)
_DRAFT_WAS_READ = either(phase("draft"), fact("weights_gib", "draft"), fact("weights_before_gib", "draft"))


def _small_draft(view: View) -> Actions:
    changes: list[Proposal] = []
    if _target_as_draft(view):
        why = "without a path the target's own checkpoint is loaded as its draft; give the head made for this model"
        head = "the draft head made for this model"
        changes.append(step(view, "set", "--speculative-draft-model-path", head, why))
        if view.typed("--speculative-algorithm"):
            changes.append(
                step(view, "remove", "--speculative-algorithm", None, "or serve without speculation until there is one")
            )
    else:
        why = "a built-in head needs no second checkpoint; the path loads the full model again"
        changes.append(step(view, "remove", "--speculative-draft-model-path", None, why))
        changes.append(
            lower_fraction(view, "or leave the whole draft its room", 0.1)
            if not view.at_least(0, 5, 16)
            else raise_fraction(view, "or let the static part hold the whole draft", 0.05)
        )
    return plan(
        *changes,
        never=(("raise", "--max-running-requests", "more slots take from the same memory"),),
        alternatives=(("a draft checkpoint with only its own layers", "where the head is not built in"),),
    )


ENTRIES = (
    Entry(
        "spec.draft_memory_not_budgeted",
        "The draft model's weights and cache find no room; which way to move the fraction depends on the version.",
        for_=(
            Clue(5, phase("draft"), "memory runs out while the draft is loaded"),
            Clue(
                4,
                both(
                    DRAFT,
                    symptom("only_with_draft"),
                    either(_OOM, symptom("no_cache_room", "dies_at_start"), said("weights_leave_no_room")),
                ),
                "it starts without the draft and not with it",
            ),
            Clue(2, both(DRAFT, symptom("no_cache_room")), "no room for the cache with a draft"),
            Clue(2, both(phase("draft"), fact("graph_end_gib", "target")), "the target's graphs were captured already"),
        ),
        against=(
            Clue(2, phase("prefill", "graph_capture"), "it fails elsewhere"),
            Clue(3, symptom("draft_full_size"), "the draft is a whole model"),
            Clue(7, _WHOLE_MODEL, "the draft is as large as the target or is the target"),
        ),
        neighbours=(
            ("oom.startup.weights_exceed_static_budget", "there the target alone does not fit"),
            ("spec.draft_loads_full_model", "there the draft is far larger than it should be"),
        ),
        settle=Question(
            "Does it start without the draft, and how much does the draft take?", "the second Load weight end line"
        ),
        act=_budget_draft,
        questions=("draft",),
    ),
    Entry(
        "spec.draft_loads_full_model",
        "The draft takes as much as the target: a whole model was loaded where a head was meant.",
        for_=(
            Clue(4, both(DRAFT, symptom("draft_full_size")), "the draft is as large as the target"),
            Clue(4, _draft_share, "the draft's weights come near the target's"),
            Clue(3, _same_class, "the draft is an instance of the target's class"),
            Clue(2, said("draft_class_wrong"), "what was loaded as a draft has no draft's methods"),
            Clue(5, _loaded_with_no_draft_named, "the target was loaded, and a second load of it found no room"),
            Clue(3, _target_named_twice, "the target's own checkpoint is named as its draft"),
            Clue(3, both(_target_named_twice, _DRAFT_WAS_READ), "and was seen to be loaded again"),
        ),
        against=(Clue(3, both(phase("draft"), lacks(_WHOLE_MODEL)), "memory runs out while the draft is loaded"),),
        settle=Question("How much do the two weight loads take?", "both Load weight end lines: mem usage"),
        act=_small_draft,
    ),
)
