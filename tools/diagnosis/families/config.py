"""Flags that this version does not take, or not together."""

from __future__ import annotations

import re

from tools.diagnosis.changes import NOT_MEMORY, plan, step
from tools.diagnosis.clues import (
    Clue,
    Entry,
    Seen,
    both,
    either,
    fact,
    flag,
    lacks,
    phase,
    said,
    symptom,
)
from tools.diagnosis.conditions import OOM_ANYWHERE, REJECTED, known_foreign, known_rename, over_context, underscored
from tools.diagnosis.foreign import REFUSED_AT_ONCE, changes_for_rejected, listed_choices, nearest_choice
from tools.diagnosis.model import Actions, Proposal, Question
from tools.diagnosis.view import View


def _rejected(view: View) -> Actions:
    return plan(
        *changes_for_rejected(view),
        notes=(
            "Options of other engines and of other versions are refused, not ignored: check each against this version.",
        ),
        most=REFUSED_AT_ONCE,
    )


def _scaled_without_length(view: View) -> Seen | None:
    """Rope scaling is typed and no length: a scaling that names its original length leaves the context as it was.

    sglang 0.5.9 srt/utils/hf_transformers_utils.py, get_context_length.
    """
    override = view.typed("--json-model-override-args")
    if "rope" not in override or view.typed("--context-length") or not _TOO_LONG(view):
        return None
    return Seen("rope scaling without --context-length", view.flag_sources("--json-model-override-args"))


def _rounded_up(asked: float) -> int:
    """Tokens for an input and an answer to it, in whole steps."""
    return -int(-(asked + _ANSWER) // _STEP) * _STEP


_ANSWER, _STEP = 2_048, 8_192  # tokens
_TOO_LONG = either(fact("rejected_input_tokens"), said("input_too_long"), symptom("input_refused"))
_SCALING = re.compile(r"(factor|original_max_position_embeddings)\W+(\d+(?:\.\d+)?)")


def _context_override(view: View) -> Actions:
    allow = Proposal(
        "env",
        "set",
        "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN",
        view.env("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN") or None,
        "1",
        "",
        "the server refuses a context longer than the model's own configuration without it",
    )
    if _scaled_without_length(view):
        scaling = {name: float(number) for name, number in _SCALING.findall(view.typed("--json-model-override-args"))}
        to = int(scaling.get("factor", 0) * scaling.get("original_max_position_embeddings", 0))
        why = "the scaling is in force, and the server still takes the model's own length"
        length = step(view, "set", "--context-length", to or "factor x original length", why, unit="tokens")
        return plan(length, allow, never=(NOT_MEMORY[0],))
    asked = view.number("rejected_input_tokens")
    if asked and over_context(view):
        why = "holds the input that was refused, and an answer; a model not trained or scaled for it writes nonsense"
        length = step(view, "raise", "--context-length", _rounded_up(asked), why, unit="tokens")
        shorter = ("shorter inputs, or fewer tokens asked for", "the model was made for this length")
        return plan(length, allow, never=(NOT_MEMORY[0],), alternatives=(shorter,))
    return plan(
        allow,
        step(
            view,
            "set",
            "--json-model-override-args",
            '{"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}',
            "and the model must really be scaled to that length; check factor and original length in its card",
        ),
        never=(NOT_MEMORY[0],),
        alternatives=(("a lower --context-length", "what the model supports as it is"),),
    )


def _dp_for_tp(view: View) -> Actions:
    dp = int(view.value("--dp-size") or 2)
    return plan(
        step(view, "set", "--tp-size", dp, "dp starts a whole copy per GPU; tp shares one model over them"),
        step(view, "remove", "--dp-size", None, "or keep one copy only"),
        never=NOT_MEMORY[1:],
    )


def _combination(view: View) -> Actions:
    changes = []
    if either(said("moe_pair_missing"), said("draft_pair_missing"))(view) or (
        view.speculative and flag("--ep-size")(view)
    ):
        changes.append(
            step(
                view,
                "set",
                "--speculative-moe-runner-backend",
                "triton",
                "the draft's experts need a runner of their own type",
            )
        )
        changes.append(
            step(
                view, "set", "--speculative-moe-a2a-backend", "none", "and no all-to-all that this runner does not know"
            )
        )
    if said("not_capturable")(view) and view.typed("--deepep-mode") == "normal":
        why = "the normal mode is for prefill and cannot be captured; auto takes the low-latency one for decode"
        changes.append(step(view, "set", "--deepep-mode", "auto", why))
    if not changes:
        changes += _named_in_refusal(view)
    for name in ("--attention-backend", "--moe-runner-backend", "--moe-a2a-backend"):
        if not changes and view.typed(name):
            changes.append(step(view, "remove", name, None, "let the server choose what goes together"))
    if not changes:
        changes.append(
            step(
                view,
                "set",
                "--attention-backend",
                "triton",
                "the most general backend, to see which part of the pair is at fault",
            )
        )
    return plan(*changes, never=NOT_MEMORY)


def _named_in_refusal(view: View) -> list[Proposal]:
    """Of the typed settings that the refusal names, the one to leave out; a backend goes to one that it lists.

    A switch goes before a setting with a value, and one that turns something off before one that turns it on: what is
    left is then nearer to the server's own choice.
    """
    text = _said(view, "combination_refused")
    bare = text.replace("_", "-").lower()
    if re.search(r"\btopk\b|-topk\b", bare) and (view.value("--speculative-eagle-topk") or 0) > 1:
        why = "a chain of drafts in place of a tree goes with every backend and page size"
        return [step(view, "lower", "--speculative-eagle-topk", 1, why)]
    named = [
        fact_
        for fact_ in view.facts.all("flag")
        if fact_.scope not in _NEEDED and re.search(rf"(?<![\w-]){re.escape(fact_.scope.lstrip('-'))}(?![\w-])", bare)
    ]
    for fact_ in named:
        listed = [one for one in listed_choices(text) if one != str(fact_.value)]
        if fact_.scope.endswith("-backend") and listed and str(fact_.value) in text:
            return [step(view, "set", fact_.scope, _plainest(listed), "one of those that the message allows")]
    if not named:
        return []
    named.sort(key=lambda one: (str(one.value).lower() != "true", not one.scope.startswith("--disable")))
    why = "the message names it as one side of what does not go together"
    return [step(view, "remove", named[0].scope, None, why)]


# Without these nothing is served, or not what was meant.
_NEEDED = frozenset(("--model-path", "--model", "--tp", "--tp-size", "--tensor-parallel-size", "--served-model-name"))


def _said(view: View, message: str) -> str:
    """The lines of a message, joined."""
    return " ".join(str(one.value) for one in view.facts.all("message", message))


def _plainest(listed: list[str]) -> str:
    """The backend that runs on most GPUs, else the first that the message lists."""
    return "triton" if "triton" in listed or not listed else listed[0]


def _general_backend(view: View) -> Actions:
    text = _said(view, "no_kernel_for_gpu")
    listed = [one for one in listed_choices(text) if one != view.typed("--attention-backend")]
    return plan(
        step(view, "set", "--attention-backend", _plainest(listed), "the backend chosen has no kernels for this GPU"),
        *(
            [step(view, "set", "--moe-runner-backend", "triton", "nor may the experts' backend")]
            if view.typed("--moe-runner-backend")
            else []
        ),
        never=(*NOT_MEMORY, ("set", "--kv-cache-dtype", "the kernel is missing whatever the type")),
        alternatives=(("a newer build", "with kernels for this GPU"),),
    )


def _nearest(view: View) -> Seen | None:
    found = [one for one in view.facts.all("flag_nearest") if one.value]
    return Seen(f"{found[0].scope}: nearest is {found[0].value}", (found[0].source,)) if found else None


def _has_rejected(view: View) -> Seen | None:
    found = [one for one in view.facts.all("rejected_flag") if one.scope not in ("invalid_choice", "missing_value")]
    return Seen(str(found[0].value), (found[0].source,)) if found else None


def _near_choice(view: View) -> Seen | None:
    """A value that was refused stands, but for a slip, among the choices that the parser printed."""
    for one in view.facts.all("rejected_value"):
        choice = nearest_choice(str(one.value), view.facts.text("flag_choices", one.scope))
        if choice:
            return Seen(f"{one.scope} {one.value}: nearest is {choice}", (one.source,))
    return None


ENTRIES = (
    Entry(
        "config.foreign_engine_flag",
        "A flag of another engine is used.",
        for_=(
            Clue(6, known_foreign, "the flag belongs to another engine"),
            Clue(2, symptom("from_other_engine"), "the command comes from another engine"),
        ),
        act=_rejected,
        neighbours=(("config.misspelled_flag", "there the flag is SGLang's own, misspelt"),),
    ),
    Entry(
        "config.misspelled_flag",
        "A flag or a value is misspelt.",
        for_=(
            Clue(5, underscored, "underscores where SGLang has hyphens, or the other way round"),
            Clue(4, both(_has_rejected, _nearest), "a very near flag exists"),
            Clue(5, _near_choice, "the value is a slip of one of the choices"),
            Clue(2.5, said("invalid_choice"), "the value is not one of the choices"),
            Clue(1, REJECTED, "the parser refused it"),
        ),
        against=(
            Clue(4, known_foreign, "it is another engine's flag"),
            Clue(4, known_rename, "SGLang renamed it"),
        ),
        act=_rejected,
    ),
    Entry(
        "config.flag_not_in_this_version",
        "The flag exists in another version, not in this one.",
        for_=(
            Clue(
                4,
                both(_has_rejected, lacks(_nearest), lacks(underscored)),
                "the parser does not know it, and nothing near it",
            ),
            Clue(2, both(symptom("from_release_notes"), REJECTED), "it comes from release notes or another version"),
            Clue(2, both(said("unrecognized_argument"), lacks(_nearest)), "the parser does not know it"),
        ),
        against=(
            Clue(4, known_foreign, "it is another engine's flag"),
            Clue(6, known_rename, "SGLang renamed it"),
            Clue(3, said("deprecated_flag"), "it is only deprecated"),
        ),
        act=_rejected,
        neighbours=(("version.flag_renamed", "there the server names the new spelling"),),
    ),
    Entry(
        "config.context_override_needed",
        "The context asked for is longer than the model's configuration allows without an override.",
        for_=(
            Clue(6, said("context_longer_than_model"), "the server refuses the longer context"),
            Clue(2, symptom("context_refused_at_start"), "a longer context is refused at start"),
            Clue(6, _scaled_without_length, "the model is scaled, and the length was left as it is"),
            Clue(5, over_context, "the refusal names the context length, not the pool"),
        ),
        act=_context_override,
    ),
    Entry(
        "config.dp_instead_of_tp",
        "Data parallelism was asked for where tensor parallelism was meant: each GPU holds a whole copy.",
        for_=(
            Clue(
                4,
                both(
                    flag("--dp-size"),
                    lacks(flag("--enable-dp-attention")),
                    lacks(flag("--tp-size")),
                    either(
                        phase("load", "pools", "unknown"),
                        said("cuda_oom", "weights_leave_no_room"),
                        symptom("gpu_memory_out", "copy_per_gpu"),
                    ),
                ),
                "a whole copy per GPU runs out of memory",
            ),
            Clue(2, symptom("copy_per_gpu"), "each GPU holds a whole copy"),
        ),
        act=_dp_for_tp,
        settle=Question("Does each GPU hold the whole model?", "Load weight end of each rank"),
    ),
    Entry(
        "config.incompatible_backend_combination",
        "Two settings that do not go together.",
        for_=(
            Clue(6, said("moe_pair_missing", "draft_pair_missing"), "no path exists between the two backends"),
            Clue(
                5,
                both(
                    said("combination_refused"),
                    lacks(
                        said(
                            "hicache_layout_refused",
                            "hicache_size_unsupported",
                            "hicache_needs_unified_tree",
                            "fp8_refused",
                            "no_kernel_for_gpu",
                        )
                    ),
                ),
                "the server refuses the pair",
            ),
            Clue(3, symptom("combination"), "each alone works, together they do not"),
            Clue(4, both(said("not_capturable"), lacks(OOM_ANYWHERE)), "what a backend does fits into no graph"),
        ),
        act=_combination,
        settle=Question("Which of the two can be left out?", "one start without each"),
    ),
    Entry(
        "config.backend_not_for_gpu",
        "The backend has no kernels for this GPU.",
        for_=(
            Clue(6, said("no_kernel_for_gpu"), "no kernel for this architecture"),
            Clue(2, symptom("copied_recipe"), "the command comes from another GPU"),
            Clue(1, symptom("other_gpu"), "it works on another GPU"),
        ),
        against=(Clue(2, either(said("cuda_oom"), fact("oom_request_gib")), "memory ran out"),),
        act=_general_backend,
    ),
)
