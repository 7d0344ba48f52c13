"""Prompts and answers: what users wrote and what was answered, by the key before it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from transcripts.redaction.found import Found, slug
from transcripts.redaction.names import EQUALS, QUOTED, identifiers

_PROMPT_NAMES: Final = frozenset(
    {
        "text", "texts", "prompt", "prompts", "content", "input_ids", "output_ids", "token_ids", "prompt_token_ids",
        "input_embeds", "output", "outputs", "output_text", "input_text", "origin_input_text", "origin_input_ids",
        "decoded_text", "reasoning_content", "jsonschema", "json_schema", "regex", "ebnf", "image_data",
        "video_data", "audio_data", "image_url", "input", "arguments", "structural_tag", "instructions",
        "system_prompt", "user_prompt", "query", "suffix", "messages", "completion", "response_text", "prompt_text",
        "refusal", "documents",
    }
)  # fmt: skip
_PROMPT_CORES: Final = (
    "text",
    "prompt",
    "content",
    "_ids",
    "embeds",
    "output",
    "schema",
    "regex",
    "ebnf",
    "_data",
    "image_url",
    "input",
    "arguments",
    "structural_tag",
    "instructions",
    "query",
    "suffix",
    "messages",
    "completion",
    "refusal",
    "documents",
)
_PROMPT_VALUES: Final = (
    re.compile(rf"{EQUALS}\{{\s*\\*[\"']url\\*[\"']{EQUALS}{QUOTED}"),
    re.compile(rf"{EQUALS}[bru]?{QUOTED}", re.MULTILINE),
    re.compile(rf"{EQUALS}(?P<v>\[[ \t]*(?=[\"'])(?:'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|[^\[\]'\"\n])*\]?)"),
    re.compile(rf"{EQUALS}(?P<v>\[(?:[\d\s,\[\]\-.…]*[\d\]\-.…])?)"),
)

# A plain scalar behind the role of who says it, as YAML has it.
_ROLE_BEFORE: Final = re.compile(
    r"\brole[\"']?[ \t]*[:=][ \t]*[\"']?(?:user|system|assistant|tool|developer)\b[\"']?,?\s*$"
)
_PLAIN: Final = re.compile(r"[ \t]*:[ \t]+(?P<v>[^\s\"'«\[{|>][^\n}\]]*)")
_KEY_ENDS: Final = re.compile(r"\\*[\"'][ \t]*:")


def prompts(text: str, lower: str, start: int, end: int) -> Iterator[Found]:
    """What users wrote, and what was answered."""
    covered = start
    for low, high in sorted(identifiers(text, lower, start, end, _PROMPT_CORES)):
        name = lower[low:high].lstrip("-.").rpartition(".")[2]
        if name not in _PROMPT_NAMES or low < covered:
            continue
        found = next(filter(None, (pattern.match(text, high, end) for pattern in _PROMPT_VALUES)), None)
        if found is None and name == "content" and _ROLE_BEFORE.search(text, max(0, low - 60), low):
            found = _PLAIN.match(text, high, end)
        if found and found["v"].lower() in _PROMPT_NAMES and _KEY_ENDS.match(text, found.end("v")):
            continue  # a key behind a label: what was written stands behind the key
        if found and found["v"] and not re.fullmatch(r"«.*|<[^<>\s]{1,40}>|\[\s*\]?|None|auto", found["v"]):
            covered = found.end("v")
            yield Found(*found.span("v"), f"prompt:{slug(name)}", False)
