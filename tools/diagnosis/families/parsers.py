"""Parsers of replies: tool calls and reasoning that land in the wrong field."""

from __future__ import annotations

from tools.diagnosis.changes import NOT_MEMORY, plan, step
from tools.diagnosis.clues import Clue, Entry, Seen, both, either, flag, lacks, said, symptom
from tools.diagnosis.model import Actions
from tools.diagnosis.parser_names import parser_for
from tools.diagnosis.view import View


def _parser(view: View) -> Actions:
    why = "content, reasoning or tool calls land in the wrong field with another one"
    changes = []
    for name in _parsers_at_fault(view):
        fit = parser_for(name, _model(view)) or "the parser made for this model family"
        if fit == view.typed(name):
            gone = "it is the one for this family, and still takes what is not its own; leave the text as it comes"
            changes.append(step(view, "remove", name, None, gone))
        else:
            changes.append(step(view, "set", name, fit, why))
    return plan(*changes, never=NOT_MEMORY)


_REASONING, _TOOLS = "--reasoning-parser", "--tool-call-parser"


def _parsers_at_fault(view: View) -> list[str]:
    """The parser of the field that is wrong; where only one is set or the fields do not tell, that one."""
    if view.has("symptom", "answer_in_reasoning") and not view.has("symptom", "call_in_content"):
        return [_REASONING]
    if view.has("symptom", "thoughts_in_content") and not view.has("symptom", "call_in_content"):
        return [_REASONING]
    if view.has("symptom", "call_in_content") and not view.has("symptom", "thoughts_in_content"):
        return [_TOOLS]
    typed = [name for name in (_TOOLS, _REASONING) if view.typed(name)]
    if len(typed) == 1:
        return typed
    return [_TOOLS if view.has("symptom", "tool_calls") else _REASONING]


def _unfit(view: View) -> Seen | None:
    """A tool-call parser was typed that is not the one for the model that was named."""
    fit, typed = parser_for(_TOOLS, _model(view)), view.typed(_TOOLS)
    if not typed or not fit or typed.replace("-", "_") == fit.replace("-", "_"):
        return None
    return Seen(f"{_TOOLS} {typed}, for this family {fit}", view.flag_sources(_TOOLS), "typed")


def _model(view: View) -> str:
    return f"{view.facts.text('model_path')} {view.typed('--model-path')}"


ENTRIES = (
    Entry(
        "config.wrong_parser",
        "The tool-call or reasoning parser is not the one for this model.",
        for_=(
            Clue(
                4,
                both(
                    symptom("content_misplaced"),
                    either(flag("--tool-call-parser"), flag("--reasoning-parser"), symptom("parser")),
                ),
                "text lands in the wrong field",
            ),
            Clue(3, symptom("content_misplaced"), "text lands in the wrong field"),
            Clue(3, both(symptom("no_tool_calls"), flag("--tool-call-parser")), "no call is recognised as one"),
            Clue(2, both(symptom("no_tool_calls"), _unfit), "and the parser is another family's"),
            Clue(
                3,
                both(
                    symptom("answer_in_reasoning", "thoughts_in_content", "call_in_content"),
                    lacks(symptom("content_misplaced")),
                ),
                "a field holds what belongs into another",
            ),
            Clue(2, said("deprecated_parser"), "the parser's name has changed"),
        ),
        act=_parser,
    ),
)
